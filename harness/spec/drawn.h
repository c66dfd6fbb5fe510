/*
 * Values of a parameter that may be drawn anew in each step: an int, or
 * {choices: [64, 128]}, which flags write choices:64,128. Order and repeats
 * are kept, since they decide what is drawn; choices that are all the same
 * are that one int.
 */
#ifndef TM_SPEC_DRAWN_H
#define TM_SPEC_DRAWN_H

#include "spec/schema.h"

#define DRAWN_MAX 64
#define DRAWN_PREFIX "choices:"

/* True if the value is no single int. */
bool drawn_many(const struct val *v);
/* True if the node is not written as a single int, whose reader is value.c. */
bool drawn_is(const struct node *node);
/* Such a node as a list of ints in *v (or one int), each in range. TM_ESPEC with an entry in diag. */
int drawn_parse(struct arena *a, struct diag *diag, const struct pdef *p, const struct node *node, struct val *v);
/* "choices:64,128" and {"choices":[64,128]}, both in the arena. */
const char *drawn_text(struct arena *a, const struct val *v);
const char *drawn_json(struct arena *a, const struct val *v);
/* The same as a tree; new reference. */
json_t *drawn_tree(const struct val *v);

#endif
