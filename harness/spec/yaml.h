/*
 * YAML text to a tree, by libyaml's events. The document loader of libyaml
 * is not used: 200 kB of "[" keep it busy for a minute, and it accepts
 * duplicate keys and aliases to themselves. Here every limit is checked as
 * the event arrives.
 */
#ifndef TM_SPEC_YAML_H
#define TM_SPEC_YAML_H

#include "spec/node.h"

#define YAML_MAX_BYTES (1024 * 1024)
#define YAML_MAX_DEPTH 32
#define YAML_MAX_NODES 10000            /* after alias expansion, over a spec and its parents */
#define YAML_MAX_ANCHORS 256

/*
 * One document. *nodes_left is what remains of the limit and is lowered.
 * An empty document gives an empty mapping. 0, or TM_ESPEC with at least one
 * entry in d.
 */
int yaml_read(struct arena *a, struct diag *d, uint32_t src, const char *text, size_t n,
	      size_t *nodes_left, struct node **out);

#endif
