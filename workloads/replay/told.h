/*
 * What the driver answers when a recording is replayed exactly, and how far
 * the policy's calls are those of the recorded one. Private to replay.
 *
 * A request may use the segment events that stand before it in the recording.
 * A call that is the next of them is a match; a release that comes later among
 * them is none, but is taken off, so that what follows can match again. Where
 * the recording released segments first, the driver had nothing: a policy that
 * asks for memory gets the same answer, until it has released them too.
 */
#ifndef TM_TOLD_H
#define TM_TOLD_H

#include "memory/driver.h"
#include "tape.h"

/* Bytes: how large a device is taken to be where nothing tells. */
#define TOLD_TOTAL_UNKNOWN (1ull << 40)

struct told {
	const struct replay *replay;
	size_t at, end;                   /* in segment_events: the next one; the last for this request */
	bool *done;                       /* by segment event: was matched out of turn */
	bool refuse;                      /* this request was refused when it was recorded */
	bool asked;                       /* the driver was called, or told_ignored was true once */
	bool over;                        /* at the start and at the end: nothing is compared, nothing refused */
	uint64_t matched, missed, extra;
	struct ranges held;               /* what the policy has from us */
	uint64_t spare;                   /* addresses that no recording has */
};

/* The replay must outlive it. */
void told_init(struct told *told, const struct replay *replay);
void told_fini(struct told *told);
/* The driver; arg of driver_told_new is the struct told. */
int told_answer(void *arg, enum driver_call call, uint64_t bytes, uint64_t *addr, struct tm_err *err);
/* Before the operation: it may use what stands before `event`. */
void told_begin(struct told *told, uint32_t event, bool refuse);
/*
 * The policy had no need of the driver for this operation, although the
 * recorded one released memory in front of it. True once an operation: the
 * second time there is no more to be done about it.
 */
bool told_ignored(struct told *told);
/* Behind it: what it did not do is missed. */
void told_end(struct told *told);
/* A range that the policy starts with. */
void told_claim(struct told *told, uint64_t addr, uint64_t bytes);
/* Bytes of the device, TOLD_TOTAL_UNKNOWN at most, for which address ranges of growing segments do not run into each other. */
uint64_t told_total(const struct replay *replay);

#endif
