/*
 * From a path to one merged tree: the spec, its parents, the flags. Files
 * named by `extends` are opened only beneath the project folder, whatever
 * links say, so that a spec from elsewhere cannot read the machine.
 */
#ifndef TM_SPEC_EXTENDS_H
#define TM_SPEC_EXTENDS_H

#include "spec/node.h"
#include "spec/spec.h"

#define EXTENDS_MAX_LEVELS 4

/* Reads `path` and what it extends. *source (text of `path` itself) is appended to. 0 or TM_ESPEC. */
int extends_load(struct arena *a, struct diag *d, const char *path, struct tm_str *source, struct node **out);
/* The same for a text that has no file; `extends` is relative to `dir`. */
int extends_load_text(struct arena *a, struct diag *d, const char *name, const char *dir, const char *text, size_t n,
		      struct node **out);

/* Lays the flags of a request over the tree (flags.c). 0, TM_ESPEC, or TM_EUSAGE for a malformed flag. */
int flags_apply(struct arena *a, struct diag *d, const struct spec_request *req, const struct describe *describe,
		struct node **root);
/* --label; new object. */
int flags_labels(struct diag *d, const struct spec_request *req, json_t **out);
/* Flags that are not part of the tree. */
int flags_check(struct diag *d, const struct spec_request *req);

#endif
