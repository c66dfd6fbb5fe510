/*
 * What a card does while a run is measured: a thread that reads NVML 20 times
 * a second within the window, and four times a second who is on the card
 * throughout. A thread, since a driver may take its time to answer and the
 * harness must see events, limits and signals meanwhile; it shares nothing
 * with the worker but the machine, and a reading takes some tens of
 * microseconds.
 */
#ifndef TM_CARD_SAMPLER_H
#define TM_CARD_SAMPLER_H

#include "card/cards.h"

#define SAMPLER_INTERVAL_US 50000
#define SAMPLER_USERS_US 250000
/* More are thinned out: every second goes, and the next are taken half as often. */
#define SAMPLER_KEEP_MAX 4096u

enum { SAMPLED_SM, SAMPLED_MEM, SAMPLED_POWER, SAMPLED_TEMPERATURE, SAMPLED_N };        /* MHz, MHz, W, °C */

struct sampled {
	size_t n;                         /* of the window; those that were kept */
	int64_t *us;                      /* since its begin */
	double *v[SAMPLED_N];             /* NaN: not known */
	uint64_t taken;                   /* thinned ones too */
	uint64_t slowed, capped;          /* of them with a reason of CARD_SLOWED; held by the power cap alone */
	uint64_t reasons;                 /* every bit that was seen */
	double window_s;                  /* between the readings at its begin and end; 0: there was none */
	double joules;                    /* NaN: not known */
	struct nvml_activity activity;    /* NaN: not known */

	uint64_t run_bytes_max;           /* most device memory of the run's processes at a time; 0: not known */
	char others[256];                 /* who else was on the card while the run was, or "" */
	bool lost;                        /* the driver did not answer any more: the cards must not be touched again */
};

struct sampler;

/*
 * entry: "TIDEMARK_RUN=…", by which the run's processes are known. before_bytes:
 * in use on the card before the run, for drivers that do not tell processes.
 * NULL: no thread could be had. `cards` must live as long.
 */
struct sampler *sampler_start(const struct cards *cards, struct card_place at, const char *entry, uint64_t before_bytes);
/* The worker is on another card than was thought. Before the window begins; later it is ignored. */
void sampler_move(struct sampler *s, struct card_place at, uint64_t before_bytes);
/* The window begins, ends: now. They wake the thread and do not wait for it. */
void sampler_begin(struct sampler *s);
void sampler_end(struct sampler *s);
/* Ends the thread. *out is to be freed by sampled_free. */
void sampler_stop(struct sampler *s, struct sampled *out);
void sampled_free(struct sampled *out);

#endif
