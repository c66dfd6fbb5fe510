/*
 * What a recording tells of its last moment: how memory is divided, what is
 * cached and could go back to the driver, and which single blocks keep a
 * segment from going. All that can be said of a file without history.
 */
#ifndef TM_SNAP_STATE_H
#define TM_SNAP_STATE_H

#include "snapshot/recording.h"

/* Bytes; of a stream and pool, or of all. */
struct state_sum {
	uint32_t stream, pool;            /* indices of the recording; RECORDING_NONE: all of them */
	bool small;                       /* the small pool's or the large pool's; of all: false */
	size_t segments, blocks;          /* blocks: in use or pending */
	uint64_t reserved;                /* = allocated + pending + cached */
	uint64_t allocated, pending, cached;
	uint64_t requested;               /* by the blocks in use and pending */
	uint64_t releasable;              /* of cached: segments with nothing in use (not expandable ones, whose pages are not known) */
	uint64_t largest_hole;            /* the largest free block */
};

/* Blocks in use or pending of one size and stack. */
struct state_group {
	uint64_t size, bytes;             /* of one; of all */
	size_t n;
	uint32_t frames;
	size_t block;                     /* one of them */
};

/* A segment that one block keeps, the rest of it being free. */
struct state_pin {
	size_t segment, block;
	uint64_t free;                    /* bytes that are free beside the block */
};

struct state_report {
	struct state_sum all;
	struct state_sum *sums; size_t sum_n;             /* by stream, pool, large before small */
	struct state_group *groups; size_t group_n;       /* most bytes first */
	struct state_pin *pins; size_t pin_n;             /* most free bytes first */
};

/* Never NULL; freed by the caller. Segments without blocks count as cached. */
struct state_report *state_report_new(const struct recording *r);
void state_report_free(struct state_report *s);

#endif
