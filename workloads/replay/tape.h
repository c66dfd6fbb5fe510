/*
 * A recording made ready for many passes: what the program asked for, in
 * order, with blocks known by slots instead of addresses, and the state at the
 * first event. Private to replay.
 *
 * A slot is a place in the table of live blocks; it is used again when its
 * block is gone, so that the table stays as small as the most that lives at
 * once. Blocks from before the first event have slots from the beginning.
 */
#ifndef TM_TAPE_H
#define TM_TAPE_H

#include "memory/conf.h"
#include "ranges.h"
#include "replay.h"

enum tape_kind {
	TAPE_ALLOC,
	TAPE_FREE,                        /* requested and completed at once */
	TAPE_FREE_LATER, TAPE_COMPLETE,
	TAPE_EMPTY,                       /* empty_cache */
	TAPE_OOM,                         /* a request that was refused when it was recorded */
	TAPE_POOL_RELEASE                 /* nobody retains the private pool any more */
};

struct tape_op {
	uint64_t bytes;                   /* asked for */
	uint32_t slot;
	uint32_t event;                   /* of the recording */
	uint32_t stream;
	uint16_t pool;
	uint8_t kind;                     /* enum tape_kind */
	bool fails;                       /* the driver had nothing at first, so that the cache was released */
};

#define TAPE_POOL_MAX (1u << 16)
/* Bytes. A larger request is a mistake of the file: no device has so much, and sums of such cannot wrap. */
#define TAPE_REQUEST_MAX (1ull << 48)
#define TAPE_SLOT_NONE UINT32_MAX

/* A block from before the first event. */
struct tape_block {
	uint64_t addr, bytes;             /* bytes: as asked */
	uint64_t size;                    /* 0: not told by the file, until start_blocks has found it */
	uint32_t slot;
	uint32_t freed;                   /* event that frees it, REPLAY_NO_EVENT: it stays */
	uint32_t stream, pool, frames;
	bool pending;                     /* was freed before the first event, but not completed */
	bool dropped;                     /* lies in no segment, or over another block */
};

struct replay {
	const struct recording *r;
	struct conf conf;                 /* in effect while it was recorded */
	char *conf_text;
	struct tape_op *ops; size_t op_n;
	uint32_t slot_n;
	struct ranges segments;           /* at the first event */
	struct tape_block *before; size_t before_n;       /* by address */
	uint32_t *segment_events; size_t segment_event_n; /* events of segments, in order */
	bool no_segments;                 /* the file tells of none: only a cold start is possible */
	struct replay_facts facts;
};

/* ---- start.c ---- */

/* The pool of a segment's event: as it says, else that of the segments which lie there in the end, else the common one. */
uint32_t start_pool(struct replay *replay, const struct recording_event *e);
/* Fills segments, by undoing the events from the last to the first. */
void start_segments(struct replay *replay);
/* Sorts `before`, drops what cannot be and finds the sizes that the file does not tell. */
void start_blocks(struct replay *replay);
/* The settings of the recording: conf and conf_text. */
void start_conf(struct replay *replay);

/* ---- tape.c ---- */

/* The operations, and `before` but for its sizes; conf and segments are there already. */
void tape_build(struct replay *replay);

/* ---- facts.c ---- */

/* Of the facts those that follow from the operations: first request, peaks, what lives when the recording ran out. */
void facts_find(struct replay *replay);

static inline bool tape_is_segment_event(uint8_t action)
{
	return action >= REC_SEGMENT_ALLOC && action <= REC_SEGMENT_UNMAP;
}

static inline bool tape_is_release(uint8_t action)
{
	return action == REC_SEGMENT_FREE || action == REC_SEGMENT_UNMAP;
}

/* Bytes reserved behind a segment's event, `reserved` before it. */
static inline uint64_t tape_reserved_behind(uint64_t reserved, const struct recording_event *e)
{
	if (tape_is_release(e->action))
		return e->size < reserved ? reserved - e->size : 0;
	return reserved + e->size;
}

#endif
