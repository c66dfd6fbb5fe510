/* Our own traces (docs/trace.md), as a recording. */
#ifndef TM_SNAP_TRACE_FILE_H
#define TM_SNAP_TRACE_FILE_H

#include "snapshot/build.h"

/*
 * Reads lines from b->in to their end into b, and *result as a snapshot of the
 * same events would be: the segments and blocks at the end are what the events
 * leave. An alloc gets a stack of two frames, the tensor (name, category as
 * its file) and the operator that asked (name, phase as its file); a free that
 * of who freed. Phases and marks become annotations. *cut: the closing line is
 * missing. TM_EINPUT with the line.
 */
int snap_trace_read(struct snap_build *b, struct snap_value *result, bool *cut);

#endif
