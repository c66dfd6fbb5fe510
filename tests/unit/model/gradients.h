/* Every gradient tensor of a step as plain numbers, for the tests that compare them. */
#ifndef TM_TEST_GRADIENTS_H
#define TM_TEST_GRADIENTS_H

#include "rig.h"

#include "device/half.h"

#include <math.h>

struct gradients {
	size_t n;
	const char **name;
	size_t *count;
	float **v;
};

/* A tensor of any real type as floats; the caller frees them. */
static inline float *floats_of(struct device *dev, const struct tensor *t)
{
	size_t n = (size_t)tensor_n(t);
	float *out = tm_xcalloc(n, sizeof *out);
	uint16_t *half = tm_xcalloc(n, sizeof *half);
	struct tm_err err = { 0 };

	if (t->dtype == DT_F32) {
		assert_ok(device_download(dev, out, t, tensor_bytes(t), &err), &err);
	} else {
		assert_ok(device_download(dev, half, t, tensor_bytes(t), &err), &err);
		for (size_t i = 0; i < n; i++)
			out[i] = t->dtype == DT_BF16 ? bf16_to_f32(half[i]) : f16_to_f32(half[i]);
	}
	free(half);
	return out;
}

/* Of step 0 with seed 7, without the loss scale. */
static inline struct gradients gradients_of(const struct train_opts *o, enum model_kind kind)
{
	struct gradients g;
	struct tm_err err = { 0 };
	const struct model *m;
	int64_t counted;
	struct rig r;

	rig_open(&r, &(struct rig_conf){ .threads = 2 }, o, kind, 7);
	assert_ok(trainer_gradients(r.trainer, 0, &counted, &err), &err);
	m = r.trainer->model;
	g.n = m->param_n;
	g.name = tm_xcalloc(g.n, sizeof *g.name);
	g.count = tm_xcalloc(g.n, sizeof *g.count);
	g.v = tm_xcalloc(g.n, sizeof *g.v);
	for (size_t i = 0; i < g.n; i++) {
		g.name[i] = tm_xstrdup(m->param[i].name);
		g.count[i] = (size_t)tensor_n(&m->param[i].g);
		g.v[i] = floats_of(r.dev, &m->param[i].g);
		for (size_t j = 0; r.trainer->scale.value > 0 && j < g.count[i]; j++)
			g.v[i][j] /= r.trainer->scale.value;
	}
	rig_close(&r);
	return g;
}

static inline void gradients_free(struct gradients *g)
{
	for (size_t i = 0; i < g->n; i++) {
		free((char *)(uintptr_t)g->name[i]);
		free(g->v[i]);
	}
	free(g->name);
	free(g->count);
	free(g->v);
}

/* Frobenius norm of tensor i of a - b over that of b; infinite where something is not finite. */
static inline double gradients_apart(const struct gradients *a, const struct gradients *b, size_t i)
{
	double difference = 0, norm = 0;

	assert_int_equal(a->count[i], b->count[i]);
	for (size_t j = 0; j < a->count[i]; j++) {
		double d = (double)a->v[i][j] - (double)b->v[i][j];

		if (!isfinite(d))
			return INFINITY;
		difference += d * d;
		norm += (double)b->v[i][j] * (double)b->v[i][j];
	}
	assert_true(norm > 0);
	return sqrt(difference / norm);
}

#endif
