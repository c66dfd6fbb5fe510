/*
 * A recording as a snapshot file that PyTorch's tools take: pickle protocol 4,
 * only opcodes and layouts that the viewer (pytorch.org/memory_viz) and
 * torch.cuda._memory_viz know. Used for our own traces, whose recordings have
 * operators as frames, and for what a recorder (recorder.h) has recorded.
 */
#ifndef TM_SNAP_WRITE_H
#define TM_SNAP_WRITE_H

#include "base/str.h"
#include "snapshot/recording.h"

/*
 * Appends the file's bytes. Lists go in batches of at most 1000, numbers have
 * at most 8 bytes, addresses must be below 2^53, where a browser's numbers
 * end (TM_EINPUT). The devices below r->device get empty traces.
 */
int recording_pickle(const struct recording *r, struct tm_str *out, struct tm_err *err);
/* The same into a file, complete or not at all. TM_EIO. */
int recording_write(const struct recording *r, const char *path, struct tm_err *err);

#endif
