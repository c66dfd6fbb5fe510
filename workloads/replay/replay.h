/*
 * A recording under an allocator: its requests and frees are given to the
 * real policy code (memory/), on a virtual device, and what the policy does
 * is compared with what was recorded, or with itself under other settings.
 *
 * A recording is prepared once (struct replay): addresses become numbers of
 * slots, what lived before the first event is found by undoing the events from
 * the end. Each pass after that needs no look-up. docs/replay.md has the rules.
 */
#ifndef TM_REPLAY_H
#define TM_REPLAY_H

#include "base/str.h"
#include "memory/conf.h"
#include "memory/memory.h"
#include "snapshot/recording.h"

enum replay_mode {
	REPLAY_EXACT,                     /* the driver's answers are those recorded; every difference is counted */
	REPLAY_WHAT_IF                    /* other settings: the driver is imitated */
};
enum replay_start {
	REPLAY_WARM,                      /* the state at the first event is rebuilt */
	REPLAY_COLD                       /* what lived then is allocated anew, in order of address */
};

#define REPLAY_NO_EVENT UINT32_MAX
#define REPLAY_CAP_STEP (2ull << 20)      /* of the smallest cap */
#define REPLAY_OOM_MAX 16                 /* of the recording, that are kept */

struct replay_setting {
	const char *policy;               /* "caching", "raw" */
	const char *conf;                 /* option string, "" the defaults; NULL: as recorded */
	uint64_t cap_bytes;               /* limit of the allocator; 0: none */
	uint64_t total_bytes;             /* of the device; 0: unknown, never exhausted */
	uint64_t outside_bytes;           /* of it used by others */
	enum replay_mode mode;
	enum replay_start start;
	/*
	 * What-if: 0 the driver's usual layout; n: other allocations of the
	 * program lie in the way of the first segments. Where two layouts give
	 * different figures, ties between equal blocks decide them.
	 */
	unsigned layout;
};

struct replay_failure {
	uint64_t index;                   /* of the event; 0 and request_bytes 0: what lived before did not fit */
	uint64_t request_bytes, segment_bytes;
	uint32_t frames;                  /* a stack of the recording, or RECORDING_NONE */
	struct mem_policy_oom oom;        /* zero where the policy tells nothing */
};

struct replay_result {
	uint64_t events;                  /* gone through */
	bool completes;                   /* every request was served */
	struct replay_failure first_failure;
	uint64_t requested_peak, allocated_peak, active_peak, reserved_peak, inactive_split_peak;     /* bytes */
	uint64_t requested_end, allocated_end, reserved_end;
	uint64_t segments_peak, device_allocs, device_frees, retries, ooms;
	uint64_t reserved_start;          /* when the first event came */
	uint64_t peak_event;              /* the request after which reserved was first highest; REPLAY_NO_EVENT: the start */
	double fragmentation_at_peak;     /* 1 - allocated / reserved at that moment */
	bool cold;                        /* was started cold, asked for or not (no segments, or a policy that cannot) */
	/* Exact mode; NaN else, and where there was nothing to compare. */
	double exact_address_share;       /* of the requests: the recorded address */
	double exact_segment_share;       /* of the segment events, recorded and ours: the same, in the same order */
	double exact_block_share;         /* of the blocks in the recording's list of segments: as ours at the end */
	uint64_t first_difference;        /* event of the first request with another address; UINT64_MAX: none */
	double seconds;
};

/* An out-of-memory error in the recording; bytes. */
struct replay_oom {
	uint64_t index, request, live, reserved, device_free;     /* live: rounded to 512; reserved: by the program then */
	uint32_t frames;
};

/* What was found when the recording was prepared. */
struct replay_facts {
	uint64_t requests, frees;         /* that are replayed */
	uint64_t first_request;           /* its event, where nothing lived before; REPLAY_NO_EVENT */
	uint64_t requested_peak;          /* bytes in use, as asked, until the free has completed */
	uint64_t peak_event;              /* after which requested was first highest; REPLAY_NO_EVENT: the start */
	uint64_t rounded_peak;            /* each rounded up to 512, until its free is requested; requests of recorded ooms included */
	uint64_t reserved_start, reserved_peak;           /* by the recorded segments and their events */
	uint64_t before_n, before_bytes;  /* blocks that lived before the first event, as asked */
	uint64_t inferred_blocks;         /* of them: their size is not in the file */
	uint64_t slack_blocks;            /* of those: found to reach further than their request */
	uint64_t undecided_blocks, undecided_bytes;       /* may do so, but nothing tells; at most by so much */
	uint64_t unmatched_frees;         /* of addresses where nothing was, skipped */
	uint64_t reused_alive;            /* blocks whose free is not recorded, although their address was used again */
	uint64_t impossible;              /* requests of nothing, or of more than any device has, absurd addresses: left out */
	uint64_t bad_segments;            /* segments and events of segments that contradict each other */
	uint64_t empty_caches;            /* calls of empty_cache, as the freed segments show */
	uint64_t failed_requests;         /* requests that drove the recorded program to release its cache */
	uint64_t guessed_pools;           /* segments whose pool nothing tells */
	char conf_unread[800];            /* why the recorded option string could not be taken; empty: it was */
	struct replay_oom ooms[REPLAY_OOM_MAX];
	size_t oom_n;                     /* may be above REPLAY_OOM_MAX */
};

struct replay;

/*
 * The recording must outlive it. TM_ENONE: nothing to replay (no event that
 * asks for memory or frees it). TM_EINPUT: more events, blocks or pools than can
 * be numbered.
 */
int replay_new(const struct recording *r, struct replay **out, struct tm_err *err);
void replay_free(struct replay *replay);                  /* NULL is fine */
const struct replay_facts *replay_facts(const struct replay *replay);
/* The option string in effect while it was recorded, as far as the file tells: one that every policy with options takes. */
const char *replay_conf(const struct replay *replay);

/* Appends an option string that gives these settings: what differs from the defaults, in a fixed order. */
void replay_spell(const struct conf *conf, struct tm_str *out);

/*
 * One pass. TM_EINVALID for an option string the policy refuses, or a policy
 * that is not there. A request that is refused is skipped, and so is its free.
 */
int replay_run(const struct replay *replay, const struct replay_setting *setting, struct replay_result *out,
	       struct tm_err *err);

/* Called for each statistic of the policy at the end of a pass that is like replay_run. */
typedef void replay_stat_fn(void *arg, const char *name, int64_t value);
int replay_run_stats(const struct replay *replay, const struct replay_setting *setting, struct replay_result *out,
		     replay_stat_fn *stat, void *arg, struct tm_err *err);

/*
 * The smallest cap, in steps of 2 MiB, under which the recording completes,
 * by bisection between what lives at most and what is reserved without a cap;
 * *monotone false: a cap near it does otherwise (then *cap is the smallest from
 * which all tried ones complete). 0 with *cap 0: none does.
 */
int replay_min_cap(const struct replay *replay, const struct replay_setting *setting, uint64_t *cap_bytes,
		   bool *monotone, struct tm_err *err);

/* ---- what there was at a moment ------------------------------------------- */

/* A block of the policy, in order of address. */
struct replay_part {
	struct mem_part part;
	uint64_t event;                   /* the request it serves; REPLAY_NO_EVENT: from before, or free */
	uint32_t frames;                  /* of that request; RECORDING_NONE */
};

/* A point of the course: behind an event. */
struct replay_point {
	uint64_t event, requested, allocated, reserved;
};

struct replay_picture {
	struct replay_part *parts; size_t part_n;         /* when reserved was first highest */
	uint64_t requested, allocated, active, reserved;  /* then */
	struct replay_point *course; size_t course_n;
};

#define REPLAY_COURSE_MAX 2000

/* A second pass of what gave `result`. The picture is freed by replay_picture_fini, also after an error. */
int replay_picture(const struct replay *replay, const struct replay_setting *setting,
		   const struct replay_result *result, struct replay_picture *out, struct tm_err *err);
void replay_picture_fini(struct replay_picture *picture);

/*
 * What is reserved and not in use in a picture: bytes = releasable + what the
 * blocks pin. Releasable are whole segments (of growing ones: whole pages),
 * which the allocator gives back when it runs out. The rest of a segment is
 * charged to the blocks that keep it, to each the same share.
 */
struct replay_pin {
	const struct recording_frame *frame;      /* NULL: not recorded */
	bool before;                      /* blocks from before the first event */
	uint64_t blocks, bytes;           /* that pin something; as the allocator counts them */
	uint64_t strands;
};
struct replay_share { uint32_t index; uint64_t bytes; };  /* of the recording's streams or pools */
struct replay_stranded {
	uint64_t bytes, releasable;
	struct replay_share *streams, *pools; size_t stream_n, pool_n;    /* the largest first; only those with something */
	struct replay_pin *pins; size_t pin_n;            /* what strands most first */
	uint64_t rounding;                /* active - requested */
};
void replay_stranded(const struct replay *replay, const struct replay_setting *setting,
		     const struct replay_picture *picture, struct replay_stranded *out);
void replay_stranded_fini(struct replay_stranded *stranded);

/*
 * The frame of a stack that says most: the innermost that is in a Python file
 * and not in PyTorch's own, else in any Python file, else the node of the
 * backward pass, else the operator, else the innermost. NULL: there is no stack.
 */
const struct recording_frame *replay_frame(const struct recording *r, uint32_t stack);
/* Appends file without folders, line and function: "model.py:427 forward"; without a file the function. */
void replay_frame_text(const struct recording_frame *frame, struct tm_str *out);

/* A `snapshot` event: what the program had then. Markers move no memory. */
struct replay_marker {
	uint64_t index, active, reserved; /* active: as the marker says */
};
/* At most `most` (2 or more) of them, the first and the last among them. Returns how many were written. */
size_t replay_markers(const struct replay *replay, struct replay_marker *out, size_t most);

/* A block that the program held. */
struct replay_held {
	uint64_t bytes;                   /* as asked */
	uint32_t frames;                  /* of its request; of one from before those of the list of segments, if any */
	bool before;                      /* lived before the first event */
};

/*
 * Who held the requested peak, in no order. Their bytes sum to
 * facts.requested_peak. To be freed.
 */
size_t replay_held(const struct replay *replay, struct replay_held **out);

#endif
