/*
 * What the replays of one recording say together: how much is there, which
 * setting needs least of it, at which price. Figures come from the worker's
 * lines (docs/protocol.md, "Replay"); nothing is simulated here.
 */
#ifndef TM_JUDGE_REPLAY_CASE_H
#define TM_JUDGE_REPLAY_CASE_H

#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct replay_case {
	const json_t *recording;          /* its line */
	const json_t *settings;           /* array as asked */
	json_t *const *results;           /* a line a setting, in the same order; NULL: none (no history) */
	double cap_bytes;                 /* the cap to be judged by; 0: none was given */
	double total_bytes, outside_bytes;        /* of the device; 0: not given */
};

#define REPLAY_NONE SIZE_MAX

/* Who says how much there is. */
enum replay_limit_of { REPLAY_NO_LIMIT, REPLAY_BY_CAP, REPLAY_BY_DEVICE, REPLAY_BY_RECORDING };
struct replay_limit { double bytes; enum replay_limit_of of; };

/*
 * The cap; else the device without what others use, and where the recording
 * itself ran out, what was reserved and free then if that is less.
 */
struct replay_limit replay_limit(const struct replay_case *c);

/* The recording's first out-of-memory, NULL. */
const json_t *replay_oom(const struct replay_case *c);

/* True where setting i has figures: replayed, not refused. */
bool replay_has(const struct replay_case *c, size_t i);
/*
 * The smallest cap that is known to be enough for setting i: its minimum cap, else what it
 * reserves. Bytes; NaN where it is not known (it ran out, or there is no such cap).
 */
double replay_need(const struct replay_case *c, size_t i);
/* Calls of the driver, allocations and frees: the price of a setting. */
double replay_calls(const struct replay_case *c, size_t i);
/* Does setting i complete under the limit? -1: not known. */
int replay_fits(const struct replay_case *c, size_t i, double limit_bytes);

/* The recording's own settings without a cap, else the first without a cap, else the first; REPLAY_NONE. */
size_t replay_base(const struct replay_case *c);
/*
 * The setting to use: of those that fit (without a limit: of all) the one that needs least
 * among those whose driver calls are within REPLAY_CALLS_FACTOR of the base's; where none is,
 * the one with the fewest calls. Of two that need the same the earlier. REPLAY_NONE: none fits.
 */
size_t replay_best(const struct replay_case *c);
#define REPLAY_CALLS_FACTOR 2.0
/* Calls that do not matter whatever the base has: a program makes some tens while it starts. */
#define REPLAY_CALLS_FREE 64.0
/* Whether setting i is outside those: its driver calls are too many. */
bool replay_is_dear(const struct replay_case *c, size_t i);

/* Needs less than this share apart are called equal. */
#define REPLAY_EQUAL_SHARE 0.005

/* Of a pool of the worker's lists, [0, 0]; where it says none, too. */
bool replay_is_default_pool(const json_t *pool);

/* "expandable_segments:True", "the defaults", "its own settings": appended. */
void replay_setting_text(const struct replay_case *c, size_t i, struct tm_str *out);

/* The one sentence that matters most, without a full stop; appended. */
void replay_headline(const struct replay_case *c, struct tm_str *out);

#endif
