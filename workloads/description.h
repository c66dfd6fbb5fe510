/* What this program offers, as the JSON of docs/protocol.md, and its hash. */
#ifndef TM_DESCRIPTION_H
#define TM_DESCRIPTION_H

#include "base/err.h"
#include "base/str.h"

#include <jansson.h>

/* A new object: workloads, allocators, devices, metrics. */
json_t *description_new(void);
/* SHA-256 of the canonical text without the devices, which would have to be loaded for it; the harness hashes what it embedded and compares. */
void description_hash(char out[65]);
/* A C file that defines description_json (harness/cli/build_info.h); written whole or not at all. */
int description_write_c(const char *path, struct tm_err *err);

#endif
