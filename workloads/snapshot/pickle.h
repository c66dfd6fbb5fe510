/*
 * The pickle machine: protocols 2 to 5, the opcodes that make numbers, texts,
 * lists, tuples and dicts. The others would import and call what the file
 * names; they are refused by name, and nothing is ever executed.
 */
#ifndef TM_SNAP_PICKLE_H
#define TM_SNAP_PICKLE_H

#include "snapshot/build.h"

/* Reads from b->in up to STOP; *result is what the file holds. TM_EINPUT. */
int snap_pickle_read(struct snap_build *b, struct snap_value *result, int *protocol);

#endif
