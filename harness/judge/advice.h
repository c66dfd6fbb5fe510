/*
 * What would change something: at most ADVICE_MAX pieces of advice for one
 * point of a sweep, each with the parameter to set and what that gains. No
 * formula of a layer is known here and none of an allocator: a rule (rules.h)
 * looks at a point's plan and says which other values are worth trying; the
 * changed point is then planned like any other, so that what is promised in
 * bytes is what a run will show. What the worker refuses, and what gains
 * nothing, is not advised.
 *
 * The pieces are in the order in which to follow them. Each is planned on top
 * of those before it, so no two of them promise the same bytes.
 */
#ifndef TM_JUDGE_ADVICE_H
#define TM_JUDGE_ADVICE_H

#include "base/err.h"
#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define ADVICE_MAX 3
#define ADVICE_GAIN_SHARE 0.05            /* of the peak, or of the FLOPs: less is not worth a sentence */
/*
 * The estimate of a step's time is a first one (docs/protocol.md, "Plan"). A difference
 * of two of them is stated with this share of itself as its error.
 */
#define ADVICE_TIME_ERROR 0.5

struct advice_ask {
	const char *workload;
	const json_t *params;             /* every parameter of the point, resolved */
	const json_t *answer;             /* its plan: one object of docs/protocol.md, "Plan" */
	double limit_bytes;               /* what the card offers; 0: unknown. A cap is in params */
	bool timed;                       /* differences of the plans' times mean something there */
	/*
	 * Plans the same workload with other parameters: n of them, *answers an
	 * array of n plans in the same order, to be freed by the caller.
	 */
	int (*plan)(void *arg, json_t *const *params, size_t n, json_t **answers, struct tm_err *err);
	void *arg;
};

/* Peaks of a plan (its "run") and what a step of it takes. */
struct advice_figures {
	double allocated_bytes, reserved_bytes;
	double flops, recomputed;         /* a step */
	double time_us;                   /* an estimate; 0: no card */
	double driver_calls;
	bool fits;                        /* under the cap and in limit_bytes; true where there is neither */
};

struct advice_item {
	const char *rule;                 /* its name in the table of rules.h */
	char *set;                        /* "loss=chunked:8": as after `-s`, one parameter */
	json_t *params;                   /* the whole point with this and all advice before it */
	struct advice_figures before, after;      /* before: with all advice before it */
	/*
	 * before.reserved_bytes - after.reserved_bytes, exact: the stated error is 0.
	 * Negative or 0 for a piece that saves time.
	 */
	double gain_bytes;
	double time_error_us;             /* of after.time_us - before.time_us; 0: no card */
	char *text;                       /* the sentence, without a newline */
};

struct advice {
	struct advice_item v[ADVICE_MAX];
	size_t n;
};

/*
 * Returns 0 with n = 0 where there is nothing to say, also for a point that
 * was refused or cannot be planned; else what ask->plan returned.
 */
int advice_make(const struct advice_ask *ask, struct advice *out, struct tm_err *err);
void advice_free(struct advice *a);

#endif
