/*
 * A plan held against what there is: the cap of the point, the memory of the
 * card. "Fits" is said of the whole sum only, start-up, rounding, cache and
 * workspaces included; where a part of it is not known it is a lower bound
 * and called one.
 */
#ifndef TM_RUN_FIT_H
#define TM_RUN_FIT_H

#include "plan.h"

enum fit_verdict { FIT_NOT_PLANNED, FIT_YES, FIT_NO, FIT_UNSURE };
enum fit_by { FIT_BY_NOTHING, FIT_BY_CAP, FIT_BY_CARD };

/* One limit and the sum that is held against it. */
struct fit_limit {
	double limit_bytes;               /* 0: there is none */
	double need_bytes;
	enum fit_verdict verdict;
};

struct fit {
	enum fit_verdict verdict;         /* the worse of the two below; FIT_YES where there is no limit at all */
	const char *why;                  /* FIT_NOT_PLANNED: the reason; points into the answer */

	const json_t *peak;               /* the run's; everything below points into answer and card */
	double requested, allocated, reserved;
	double device;                    /* what the driver would show: segments and context */
	double context, granularity;      /* of the card; 0 without one */
	const char *card_name;            /* NULL: none */
	bool borrowed;                    /* the workspaces are another backend's */
	bool lower_bound;                 /* later steps may take more */
	bool pressed;                     /* it fits the card because the allocator gives its cache back on the way */

	struct fit_limit cap, card;
	enum fit_by tight;                /* which of the two has the least headroom */
	const json_t *mark;               /* of load, first step and steady the first that needs as much as any */
	const json_t *oom;                /* where it is refused, or NULL */
};

/* A point planned for a device. */
struct fitted { json_t *answer; struct fit fit; };

/*
 * Plans points for ask->card and judges each; out[n] is to be given to
 * fitted_free, also after an error. What is too large for the card is planned
 * again with the card's memory as its limit, since an allocator that is
 * refused gives its cache back and asks again, and may then get along.
 */
int fit_points(const struct plan_ask *ask, const struct spec_point *points, size_t n, struct fitted *out, struct tm_err *err);
void fitted_free(struct fitted *v, size_t n);
/* The cap among the parameters of a point; 0: none. */
uint64_t fit_cap(const struct spec_point *point);

/* answer: of plan_points; card: as it was asked with (may be NULL); cap 0: none. */
void fit_judge(const json_t *answer, const json_t *card, uint64_t cap_bytes, const struct spec_measure *measure, struct fit *out);
/* The tighter limit; NULL where there is none. */
const struct fit_limit *fit_tight(const struct fit *f);
/* Bytes that are left there; NAN without a limit. */
double fit_headroom(const struct fit *f);

/* Sentences without a final full stop, appended. */
void fit_verdict_text(const struct fit *f, struct tm_str *out);
/* Where it was refused and what it asked for; nothing where it was not. */
void fit_refusal_text(const struct fit *f, struct tm_str *out);
/* "activations hold 62 % of the peak …, which lies in backward at head.logits" */
void fit_dominant_text(const json_t *answer, struct tm_str *out);

#endif
