/*
 * Runs on a card: whether it is free, what it does meanwhile, and whether
 * its memory comes back (docs/cards.md). Devices other than cuda are nobody's
 * business here, and a machine without NVML runs all the same, flagged blind.
 */
#ifndef TM_RUN_ONCARD_H
#define TM_RUN_ONCARD_H

#include "collect.h"
#include "outcome.h"
#include "signals.h"

#include "card/cards.h"
#include "card/lock.h"
#include "card/sampler.h"

#define ONCARD_LOCKS_MAX 64

enum oncard_action { ONCARD_FLAG, ONCARD_WAIT, ONCARD_FAIL };

/* `card:` of the spec. */
struct oncard_policy {
	int64_t wait_us;
	enum oncard_action busy, throttle;
};

/* Of a sweep. */
struct oncard {
	struct oncard_policy policy;
	bool read;                        /* the cards are, with the first run that needs one */
	struct cards cards;
	struct card_lock lock[ONCARD_LOCKS_MAX];                /* of the places used so far */
	struct card_place locked[ONCARD_LOCKS_MAX];
	size_t lock_n;
	bool waited_in_vain;              /* a busy card is flagged, not waited for, from then on */
	bool lost;                        /* a driver that hangs is asked no more */
	struct signals *signals;
	void (*tick)(void *arg);          /* now and then while waiting */
	void (*say)(void *arg, const char *line);      /* to people, once a wait begins */
	void *arg;
};

/* Of one run. */
struct oncard_run {
	bool cuda;                        /* the run is on a card, or thinks so */
	bool watched;                     /* and NVML tells of it */
	bool can_move;                    /* its window has not begun */
	struct card_place at;
	struct nvml_memory before;
	bool has_before;
	char busy[256];                   /* who was on it already, or "" */
	char leak[256];                   /* what did not come back, or "" */
	char moved[160];                  /* a remark, or "" */
	struct sampler *sampler;
	struct sampled sampled;
};

/* spec_card: the section as checked JSON, or NULL. */
void oncard_init(struct oncard *o, const json_t *spec_card, struct signals *signals);
void oncard_fini(struct oncard *o);

/*
 * Waits until the card is free, as the policy says. TM_EENV: it is not here, or
 * locked, or busy, and by whom. A signal ends the waiting with 0: look at it.
 */
int oncard_before(struct oncard *o, struct oncard_run *r, const char *device, struct tm_err *err);
/* Right before the worker starts. */
void oncard_start(struct oncard *o, struct oncard_run *r, const char *run_id);
/* After each batch of events: begin and end of the window, and the card the worker says it is on. */
void oncard_news(struct oncard *o, struct oncard_run *r, const struct collect *c);
/* Once nothing of the run is left. */
void oncard_after(struct oncard *o, struct oncard_run *r);
void oncard_run_free(struct oncard_run *r);

/* Values, flags and remarks of what was seen. TM_EENV, after all of that: on_throttle is fail. */
int oncard_figures(struct oncard *o, const struct oncard_run *r, const json_t *params, struct collect *c, struct outcome *out,
		   struct tm_err *err);

#define ONCARD_SERIES_MAX 5
/* Samples of the window for the database; they point into *r. */
size_t oncard_series(const struct oncard_run *r, struct store_series out[ONCARD_SERIES_MAX]);

#endif
