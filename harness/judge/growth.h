/*
 * Memory that stays: is it a leak, in which phase, and when does it end the
 * run. Judged from live bytes at step boundaries, never from what an
 * allocator keeps cached.
 *
 * What a step left behind is the difference to the boundary before it, and
 * belongs to that step's phase; the differences of one phase, summed up, are
 * that phase's curve. Its growth is the Theil–Sen slope. A median of slopes
 * alone is not enough: a single jump in the middle of the window is crossed
 * by just over half of all pairs of steps. So growth also has to recur: at least
 * JUDGE_RISES new maxima, one of them in the last third of the window. A
 * library that takes its workspace once, or once on each of two streams, has
 * growth 0.
 */
#ifndef TM_JUDGE_GROWTH_H
#define TM_JUDGE_GROWTH_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JUDGE_RISES 3
#define JUDGE_LEAK_STEPS 100
#define JUDGE_LEAK_SHARE 0.001

struct judge_phase_growth {
	size_t n;                         /* counted steps of the phase */
	double slope;                     /* bytes a step of this phase; NaN below two steps */
	double once_bytes;                /* what came in rises that do not recur; 0 where slope is not */
	size_t rises;                     /* new maxima after the first boundary */
	bool leak;                        /* JUDGE_LEAK_STEPS steps exceed JUDGE_LEAK_SHARE of the peak */
	/*
	 * Further steps of this phase until the cap; -1: never, or no cap.
	 * _joined: if all that the phase keeps is joined into one block at the end,
	 * which needs it twice, so half of the free memory is where it dies.
	 */
	int64_t left, left_joined;
	/* The same as index of a step (from 0) were all further steps of this phase; -1. */
	int64_t at;
};

struct judge_growth {
	struct judge_phase_growth train, eval;
	double slope;                     /* mem.growth: the larger of the two; NaN: unknown */
	bool leak;
	double peak_bytes, cap_bytes;
};

/*
 * The growth of one phase: curve[n] in bytes, summed differences. Takes
 * peak and cap (0: none) for the verdict; last: index of the run's last step.
 */
void judge_phase_growth(const double *curve, size_t n, double peak_bytes, double cap_bytes,
			size_t last, struct judge_phase_growth *out);

/* What is still there though it was born after the first counted step (event `stayed`). */
struct judge_stayed {
	const char *op, *phase, *name, *category;
	int64_t blocks, steps;            /* blocks alive; different steps they were born in */
	double bytes;
};

enum judge_stay { JUDGE_STAY_ONCE, JUDGE_STAY_WORKSPACE, JUDGE_STAY_GROWING };
/*
 * WORKSPACE: category `workspace` born in at most two steps (one per
 * stream): a library's, taken once. ONCE: anything else born in fewer than
 * JUDGE_RISES steps. GROWING: born again and again.
 */
enum judge_stay judge_stay(const struct judge_stayed *s);

/*
 * One or more sentences for people, appended: whether memory leaks, in which
 * phase, how fast, who allocated it (the largest entries of stayed), when the
 * cap ends it. "" is never written: a run without growth says so.
 */
void judge_growth_text(const struct judge_growth *g, const struct judge_stayed *stayed, size_t n,
		       struct tm_str *out);

#endif
