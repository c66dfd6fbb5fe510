/*
 * From the values of a file to records, without a tree: the readers of pickle
 * and JSON push what they read on one stack; a dict whose keys say what it is
 * (an event, a segment, a block, a frame, …) becomes a record of that kind as
 * soon as its items are set, a list of records becomes a range of their
 * array. What nobody asks for is dropped at once.
 */
#ifndef TM_SNAP_BUILD_H
#define TM_SNAP_BUILD_H

#include "snapshot/input.h"
#include "snapshot/tables.h"

enum snap_tag {
	V_UNSET,                          /* of the memo: never stored */
	V_NONE, V_BOOL,
	V_INT,                            /* v as int64_t */
	V_UINT,                           /* above INT64_MAX */
	V_FLOAT,                          /* v: its bits */
	V_TEXT,                           /* number of a text */
	V_POOL,                           /* a pair of integers: number of a pool */
	V_JUNK,                           /* a value of no use */
	V_DICT, V_LIST,                   /* nothing of use in it so far */
	V_OPEN,                           /* dict with known keys that do not say what it is: first of its pairs */
	V_EVENT, V_SEGMENT, V_BLOCK, V_NOTE, V_HISTORY,           /* dict: number in the array */
	V_FRAME,
	V_SETTINGS, V_TOP,
	V_SKIPPED,                        /* an event of unknown kind */
	V_STACK,                          /* list of frames: number of a stack */
	V_RANGE,                          /* list of records: number of a range */
	V_TAG_N
};

struct snap_value {
	uint64_t v;
	union {
		struct {
			uint32_t memo;    /* number in the memo + 1 that follows what becomes of it; 0: none */
			uint8_t tag;
			bool shared;      /* came out of the memo: must not change any more */
		};
		uint64_t rest;            /* all three */
	};
};

/* In two stores: what reads a value soon after would have to wait for the end of four. */
static inline void snap_value_set(struct snap_value *to, uint64_t v, unsigned tag, bool shared)
{
	to->v = v;
	to->rest = (uint64_t)tag << 32 | (uint64_t)shared << 40;
}

/* The keys that mean something; also the numbers of their texts. */
enum snap_key {
	K_ACTION, K_ADDR, K_SIZE, K_STREAM, K_TIME_US, K_FRAMES, K_DEVICE_FREE, K_POOL_ID,
	K_DEVICE, K_ADDRESS, K_TOTAL_SIZE, K_SEGMENT_TYPE, K_SEGMENT_POOL_ID, K_IS_EXPANDABLE, K_BLOCKS,
	K_REQUESTED_SIZE, K_STATE, K_HISTORY, K_REAL_SIZE,
	K_FILENAME, K_LINE, K_NAME, K_STAGE,
	K_CONF, K_MAX_SPLIT_SIZE, K_GC_THRESHOLD, K_EXPANDABLE, K_ROUNDUP, K_MAX_ENTRIES, K_OVERFLOWED,
	K_SEGMENTS, K_DEVICE_TRACES, K_SETTINGS, K_ANNOTATIONS,
	K_N
};
#define SNAP_ACTION_TEXT K_N              /* behind the keys: the names of the actions */

/* A range of an array; of ints also for pairs (key, value) of a dict with numbers as keys. */
enum snap_range_kind { R_EVENTS, R_SEGMENTS, R_BLOCKS, R_NOTES, R_HISTORY, R_TRACES, R_INTS, R_MAP };
struct snap_range {
	enum snap_range_kind kind;
	size_t first, n;
};

#define SNAP_MISSING UINT64_MAX           /* an address or size that was not told */

struct snap_segment {
	struct recording_segment s;
	int64_t device;
	uint32_t blocks;                  /* number of a range; RECORDING_NONE */
	bool has_type;
};
struct snap_note { struct recording_note note; int64_t device; };
struct snap_history { uint64_t real_size; uint32_t frames; };

/* What one dict told; valid where its bit in `has` is set, until something is pushed. */
struct snap_fields {
	uint64_t has;
	const struct snap_value *of[K_N]; /* on the stack, or in recalled */
	struct snap_value recalled[K_N];
};

struct snap_build {
	struct snap_input *in;
	struct tm_err *err;
	struct snap_tables t;
	struct snap_array stack;          /* struct snap_value */
	struct snap_array memo;           /* uint64_t, a value each: tag << 56 | v; cap of it is what may be indexed */
	uint64_t memo_rewrites;           /* entries that were a frame and may be something else since */
	struct snap_array wide;           /* uint64_t: v of values in the memo that need more than 56 bits */
	struct snap_array events;         /* struct recording_event; addr, size may be SNAP_MISSING */
	struct snap_array segments;       /* struct snap_segment */
	struct snap_array blocks;         /* struct recording_block; addr, requested may be SNAP_MISSING */
	struct snap_array notes, history, ranges, ints;
	struct snap_array traces;         /* uint32_t: number of a range of events; RECORDING_NONE: empty */
	struct snap_array open;           /* struct open_pair, see build.c */
	struct snap_array scratch;        /* uint32_t */
	struct snap_fields fields;        /* of the dict at hand */
	struct recording_settings settings;       /* conf: a text, not owned */
	struct snap_array max_entries, overflowed;        /* int64_t by device; [0] alone: of all */
	bool has_settings, has_top;
	struct snap_value top_segments, top_traces, top_settings, top_notes;
	size_t markers;                   /* at least as many as there are events that are one; a recorder makes none */
	size_t unknown_events;
	const char *unknown_action;       /* one of them */
	uint64_t rework;                  /* entries of stacks that were gone through again */
	uint64_t last_handle;             /* the stream of the last event … */
	uint32_t last_stream;             /* … and its number; RECORDING_NONE */
};

void snap_build_init(struct snap_build *b, struct snap_input *in, uint64_t max_bytes, struct tm_err *err);
void snap_build_free(struct snap_build *b);

static inline struct snap_value *snap_top(struct snap_build *b)
{
	return (struct snap_value *)b->stack.v + b->stack.n - 1;
}

static inline int snap_no_room(struct snap_build *b)
{
	return snap_fail(b->in, b->err, snap_input_offset(b->in), "reading it needs more than the %llu MiB of memory that such a file may take",
			 (unsigned long long)(b->t.budget.limit >> 20));
}

int snap_stack_room(struct snap_build *b);

static inline int snap_push(struct snap_build *b, enum snap_tag tag, uint64_t v)
{
	if (__builtin_expect(b->stack.n == b->stack.cap, 0) && snap_stack_room(b))
		return TM_EINPUT;
	b->stack.n++;
	snap_value_set(snap_top(b), v, tag, false);
	return 0;
}

/* A text of the file; too long ones are V_JUNK. */
#define SNAP_TEXT_MAX (64u << 10)
int snap_push_text(struct snap_build *b, const char *s, size_t n);

/*
 * The n values from the stack's index `first` on are set into the dict
 * (pairs) or appended to the list just below them, and popped. TM_EINPUT.
 */
int snap_set(struct snap_build *b, size_t first);
int snap_append(struct snap_build *b, size_t first);
/* The same for a new dict on top of the stack whose items `has` and b->fields tell of; they may lie behind it. */
int snap_set_sorted(struct snap_build *b, uint64_t has);
/* Deeper frames than these are left away: nobody reads them, and a recursion makes thousands. */
#define SNAP_STACK_MAX 1024u
/* The list, empty so far, becomes the stack of these frames (TM_EINPUT: no room), or that of this number. */
int snap_frames(struct snap_build *b, struct snap_value *list, const uint32_t *frames, size_t n);
void snap_become_stack(struct snap_build *b, struct snap_value *list, uint32_t stack);
/* Replaces the values from `first` on by their tuple. */
int snap_tuple(struct snap_build *b, size_t first);

/*
 * The memo of a pickle: 8 bytes an entry, since there is one for every
 * container and text of the file. Put stores what is on top of the stack and
 * lets the entry follow what becomes of it.
 */
int snap_memo_put(struct snap_build *b, uint64_t index);

#define SNAP_MEMO_WIDE 0x80u              /* in the tag: v is a number in wide */
static inline int snap_memo_get(struct snap_build *b, uint64_t index)
{
	uint64_t packed = index < b->memo.n ? ((const uint64_t *)b->memo.v)[index] : 0, v = packed & (UINT64_MAX >> 8);
	unsigned tag = (unsigned)(packed >> 56);

	if (__builtin_expect(!tag, 0))
		return snap_fail(b->in, b->err, snap_input_offset(b->in), "entry %llu of the memo is used but was never stored",
				 (unsigned long long)index);
	if (__builtin_expect(b->stack.n == b->stack.cap, 0) && snap_stack_room(b))
		return TM_EINPUT;
	if (__builtin_expect(tag & SNAP_MEMO_WIDE, 0)) {
		v = ((const uint64_t *)b->wide.v)[v];
		tag &= ~SNAP_MEMO_WIDE;
	}
	b->stack.n++;
	snap_value_set(snap_top(b), v, tag, true);
	return 0;
}

/* "a text", "a list of events": for messages. */
const char *snap_value_name(const struct snap_build *b, const struct snap_value *v);

/* ---- record.c ------------------------------------------------------------ */

/*
 * Makes the record that b->fields tell of, or (value->tag is a record's)
 * changes that one. V_DICT stays where the keys do not say what it is.
 */
int snap_record(struct snap_build *b, struct snap_value *value);

/* ---- recording.c --------------------------------------------------------- */

/* recording_read on an open input, which stays the caller's. */
int snap_read(struct snap_input *in, int device, uint64_t max_bytes, struct recording **out, struct tm_err *err);

/* ---- finish.c ------------------------------------------------------------ */

/* The recording of one device from what was built; b keeps what is not used. */
int snap_finish(struct snap_build *b, const struct snap_value *result, int device, struct recording *r);
void snap_warn(struct recording *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
