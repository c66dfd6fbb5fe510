/*
 * Two recordings compared: which blocks the one holds that the other does not,
 * by size and by who allocated them. What is compared is who held the
 * requested peak, or the state where there is no history (`held` of
 * docs/protocol.md, "Replay").
 */
#ifndef TM_JUDGE_REPLAY_DIFFERENCE_H
#define TM_JUDGE_REPLAY_DIFFERENCE_H

#include "base/str.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks of one requested size and one innermost frame. */
struct replay_held {
	double requested_bytes;           /* of one block; 0: all that a list does not name */
	const char *frame;                /* borrowed; NULL: not recorded */
	int64_t blocks, other_blocks;     /* in the one, in the other */
	double bytes, other_bytes;        /* of all of them */
};

struct replay_difference {
	struct replay_held *v; size_t n;  /* those that differ, largest difference first */
	double bytes, other_bytes;        /* all that is held */
	/*
	 * Of the difference: blocks of which one of the two holds at least two more and
	 * that are half as large as blocks both hold, as 16-bit copies of fp32 tensors are.
	 */
	int64_t half_blocks; double half_bytes;
};

/* held, other: as in the protocol; they must outlive *out, which is freed by replay_difference_free. */
void replay_difference(const json_t *held, const json_t *other, struct replay_difference *out);
void replay_difference_free(struct replay_difference *d);

/* "+212.6 MiB, of it 216 MiB …" without a full stop, appended; the sign is that of the one against the other. */
void replay_difference_text(const struct replay_difference *d, struct tm_str *out);

#endif
