/*
 * The same from JSON, as the viewer of PyTorch reads and scripts write it:
 * one value, read in one pass, no tree.
 */
#ifndef TM_SNAP_JSON_H
#define TM_SNAP_JSON_H

#include "snapshot/build.h"

#define SNAP_JSON_MAX (256ull << 20)      /* bytes, unpacked */

/* TM_EINPUT with line and column. What follows the value is left. */
int snap_json_read(struct snap_build *b, struct snap_value *result);

#endif
