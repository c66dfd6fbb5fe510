/* What is decided about all gradients at once: their norm, clipping, and the scale of an fp16 run. */
#include "device/cpu/cpu.h"

#include <math.h>

/* The sum is cut into so many parts whatever the thread count; each is one thread's, combined in order. */
enum { PARTS = 64 };

static double squares(const struct device *dev, const struct tensor *x)
{
	int64_t n = tensor_n(x), share = cpu_pieces(n, PARTS);
	double part[PARTS] = { 0 }, total = 0;

	#pragma omp parallel for num_threads(dev->threads) if(n >= CPU_SERIAL)
	for (int i = 0; i < PARTS; i++) {
		int64_t begin = cpu_min(i * share, n);

		part[i] = cpu_squares_of(x, begin, cpu_min(share, n - begin));
	}
	for (int i = 0; i < PARTS; i++)
		total += part[i];
	return total;
}

int cpu_sum_squares(struct device *dev, const struct op_sum_squares *a, void *ws, struct tm_err *err)
{
	(void)ws;
	(void)err;
	*tensor_f32(a->out) = (float)((a->accumulate ? (double)*tensor_f32(a->out) : 0) + squares(dev, a->x));
	return 0;
}

int cpu_squares_all(struct device *dev, const struct op_squares_all *a, void *ws, struct tm_err *err)
{
	(void)ws;
	(void)err;
	for (int64_t i = 0; i < a->n; i++)
		tensor_f32(a->out)[i] = (float)squares(dev, a->x[i]);
	return 0;
}

/* In order and in double, rounded once to the f32 that a device sees. */
static float total_of(const struct tensor *squares)
{
	double total = 0;

	for (int64_t i = 0; i < tensor_n(squares); i++)
		total += (double)tensor_f32(squares)[i];
	return (float)total;
}

/* As torch: a NaN norm gives a NaN factor, so that the weights show it. */
static float clip(float norm, float max_norm)
{
	float factor;

	if (!(max_norm > 0))
		return 1;
	factor = max_norm / (norm + 1e-6f);
	return factor > 1 ? 1 : factor;
}

int cpu_clip_factor(struct device *dev, const struct op_clip_factor *a, void *ws, struct tm_err *err)
{
	(void)dev;
	(void)ws;
	(void)err;
	*tensor_f32(a->out) = clip(sqrtf(total_of(a->squares)), a->max_norm);
	return 0;
}

static void overflowed(float *state, const struct op_scale_update *a)
{
	float smaller = state[SCALE_VALUE] * a->backoff;

	if (state[SCALE_VALUE] <= a->floor)
		state[SCALE_AT_FLOOR] += 1;
	state[SCALE_VALUE] = smaller > a->floor ? smaller : a->floor;
	state[SCALE_GOOD] = 0;
	state[SCALE_SKIP] = 1;
	state[SCALE_SKIPPED] += 1;
}

static void went_well(float *state, const struct op_scale_update *a)
{
	state[SCALE_SKIP] = 0;
	state[SCALE_AT_FLOOR] = 0;
	state[SCALE_UPDATES] += 1;
	state[SCALE_GOOD] += 1;
	if (state[SCALE_GOOD] >= (float)a->growth_every) {
		float larger = state[SCALE_VALUE] * a->growth;

		state[SCALE_VALUE] = larger < a->ceiling ? larger : a->ceiling;
		state[SCALE_GOOD] = 0;
	}
}

int cpu_scale_update(struct device *dev, const struct op_scale_update *a, void *ws, struct tm_err *err)
{
	float *state = tensor_f32(a->state), total = total_of(a->squares), carried = state[SCALE_VALUE];

	(void)dev;
	(void)ws;
	(void)err;
	if (isfinite(total)) {
		*tensor_f32(a->factor) = clip(sqrtf(total) / carried, a->max_norm) / carried;
		went_well(state, a);
	} else {
		*tensor_f32(a->factor) = 0;
		overflowed(state, a);
	}
	return 0;
}
