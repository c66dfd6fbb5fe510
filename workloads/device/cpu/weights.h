/*
 * The weights that an update computes, in f32, whatever they are stored as
 * (ops.h, adamw): with a master behind them or without, and stochastically
 * rounded where nothing else keeps the small steps. Chunks of n ≤ CPU_CHUNK
 * elements that begin at a multiple of CPU_CHUNK.
 */
#ifndef TM_CPU_WEIGHTS_H
#define TM_CPU_WEIGHTS_H

#include "device/cpu/cpu.h"

struct weights {
	struct tensor *w, *master;        /* master: absent, f32 or i16 */
	struct random_at random;
};

/* The weights to update: in place where they are f32, else in buf. */
float *weights_read(const struct weights *k, int64_t at, int64_t n, float *buf);
void weights_store(const struct weights *k, int64_t at, int64_t n, const float *x);

/* A moment of the optimiser is read by cpu_update; bf16 is rounded stochastically. `random` is that of its own site. */
void moment_store(struct tensor *t, int64_t at, int64_t n, const float *x, struct random_at random);

/*
 * True where this update is left out because the gradients overflowed; else
 * *step is the number of the update. `scale` may be absent.
 */
bool update_skipped(const struct tensor *scale, int64_t given_step, int64_t *step);

static inline struct random_at random_site(struct random_at at, uint32_t further)
{
	at.site += further;
	return at;
}

#endif
