#include "schedule.h"

#include "base/mem.h"

uint64_t schedule_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Uniform below n: values of the last, incomplete stretch are drawn again. */
static uint64_t below(uint64_t *state, uint64_t n)
{
	uint64_t limit = UINT64_MAX - UINT64_MAX % n, v;

	do
		v = schedule_random(state);
	while (v >= limit);
	return v % n;
}

/* Fisher and Yates. */
static void shuffle(struct store_planned *v, size_t n, uint64_t *state)
{
	for (size_t i = n; i > 1; i--) {
		size_t j = (size_t)below(state, i);
		struct store_planned t = v[i - 1];

		v[i - 1] = v[j];
		v[j] = t;
	}
}

static size_t listed(const struct spec *spec, struct store_planned *v)
{
	size_t n = 0;

	for (size_t p = 0; p < spec->n; p++)
		for (int64_t rep = 0; rep < spec->points[p].measure.reps; rep++)
			v[n++] = (struct store_planned){ .config = p, .rep = rep };
	return n;
}

static size_t interleaved(const struct spec *spec, int64_t rounds, struct store_planned *v)
{
	size_t n = 0;

	for (int64_t rep = 0; rep < rounds; rep++) {
		uint64_t state = (uint64_t)spec->seed, round;
		size_t first = n;

		/* each round from its own state: more repetitions leave the earlier rounds as they were */
		round = schedule_random(&state) ^ (uint64_t)rep * 0x9e3779b97f4a7c15u;
		for (size_t p = 0; p < spec->n; p++)
			if (rep < spec->points[p].measure.reps)
				v[n++] = (struct store_planned){ .config = p, .rep = rep };
		shuffle(v + first, n - first, &round);
	}
	return n;
}

struct store_planned *schedule_make(const struct spec *spec, size_t *n)
{
	int64_t rounds = 0;
	size_t total = 0;
	struct store_planned *v;

	for (size_t p = 0; p < spec->n; p++) {
		int64_t reps = spec->points[p].measure.reps;

		total += reps > 0 ? (size_t)reps : 0;
		rounds = reps > rounds ? reps : rounds;
	}
	v = tm_xcalloc(total ? total : 1, sizeof *v);
	*n = spec->order == SPEC_LISTED ? listed(spec, v) : interleaved(spec, rounds, v);
	BUG_ON(*n != total);
	for (size_t i = 0; i < total; i++)
		v[i].ord = (int64_t)i;
	return v;
}
