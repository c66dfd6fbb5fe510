/*
 * A recording under an allocator: its requests and frees are given to the
 * real policy code (memory/), on a virtual device, and what the policy does
 * is compared with what was recorded, or with itself under other settings.
 */
#ifndef TM_REPLAY_H
#define TM_REPLAY_H

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

struct replay_setting {
	const char *policy;               /* "caching", "raw" */
	const char *conf;                 /* option string, "" the defaults; NULL: as recorded */
	uint64_t cap_bytes;               /* limit of the allocator; 0: none */
	uint64_t total_bytes;             /* of the device; 0: unknown, never exhausted */
	uint64_t outside_bytes;           /* of it used by others */
	enum replay_mode mode;
	enum replay_start start;
};

struct replay_failure { uint64_t index, request_bytes, segment_bytes; };

struct replay_result {
	uint64_t events;                  /* gone through */
	bool completes;                   /* every request was served */
	struct replay_failure first_failure;
	uint64_t requested_peak, allocated_peak, active_peak, reserved_peak, inactive_split_peak;     /* bytes */
	uint64_t requested_end, allocated_end, reserved_end;
	uint64_t segments_peak, device_allocs, device_frees, retries, ooms;
	double fragmentation_at_peak;     /* 1 - allocated / reserved when reserved was first highest */
	double exact_address_share, exact_segment_share;          /* NaN in what-if */
	uint64_t inferred_blocks, unmatched_frees;
	double seconds;
};

/* One pass. TM_EINVALID for an option string the policy refuses. */
int replay_run(const struct recording *r, const struct replay_setting *setting, struct replay_result *out,
	       struct tm_err *err);

/*
 * The smallest cap, in steps of 2 MiB, under which the recording completes,
 * by bisection between what lives at most and what is reserved without a cap;
 * *monotone false: a larger cap near it fails (then *cap is the smallest from
 * which all tried ones complete). 0 with *cap 0: none does.
 */
int replay_min_cap(const struct recording *r, const struct replay_setting *setting, uint64_t *cap_bytes,
		   bool *monotone, struct tm_err *err);

#endif
