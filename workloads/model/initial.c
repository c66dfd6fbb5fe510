/*
 * Initial values of parameters, in every way in which weights are stored. The
 * draw is in f32 and the same for all of them: with a master the pair holds
 * it exactly, and the weight is the master rounded as every later update
 * rounds it (ops.h, adamw), so that f32, mixed and split runs start from one point.
 */
#include "model/parts.h"

#include "device/half.h"
#include "model/draw.h"

#include <stdlib.h>


void initial_free(struct initial *host)
{
	free(host->exact);
	free(host->half);
	free(host->low);
	*host = (struct initial){ 0 };
}

/* Room for n elements; what the buffers held is gone. */
static int fit(struct initial *host, const struct model_types *types, size_t n, const char *name, struct tm_err *err)
{
	if (n <= host->n)
		return 0;
	initial_free(host);
	host->exact = calloc(n, sizeof *host->exact);
	if (types->type != DT_F32)
		host->half = calloc(n, sizeof *host->half);
	if (types->master == MASTER_SPLIT)
		host->low = calloc(n, sizeof *host->low);
	if (!host->exact || (types->type != DT_F32 && !host->half) || (types->master == MASTER_SPLIT && !host->low))
		return tm_fail(err, TM_EOOM, "the host has no room for the %zu initial values of %s", n, name);
	host->n = n;
	return 0;
}

static void draw(const struct model *m, size_t i, float *out, size_t n)
{
	const struct model_param *p = &m->param[i];

	if (p->init_std > 0) {
		draw_normal(m->seed, DRAW_SITE_INIT + (uint32_t)i, 0, out, n, p->init_std);
		return;
	}
	for (size_t j = 0; j < n; j++)
		out[j] = p->init_value;
}

static void round_weights(const struct model_types *types, uint16_t *to, const float *from, size_t n)
{
	if (types->type == DT_F16)
		for (size_t j = 0; j < n; j++)
			to[j] = f16_from_f32(from[j]);
	else if (types->master == MASTER_NONE)
		for (size_t j = 0; j < n; j++)
			to[j] = bf16_from_f32(from[j]);
	else
		for (size_t j = 0; j < n; j++)
			to[j] = bf16_from_f32_away(from[j]);
}

/* The 16 bits with which (weight << 16) + master, master signed, is the f32 again. */
static void low_bits(uint16_t *to, const float *from, size_t n)
{
	for (size_t j = 0; j < n; j++)
		to[j] = (uint16_t)f32_bits(from[j]);
}

int initial_fill(struct initial *host, struct model *m, size_t i, struct tm_err *err)
{
	const struct model_types *types = &m->how.types;
	struct model_param *p = &m->param[i];
	size_t n = (size_t)tensor_n(&p->w);
	int rc;

	if (!m->dev->backend->computes)
		return 0;
	rc = fit(host, types, n, p->name, err);
	if (rc)
		return rc;
	draw(m, i, host->exact, n);
	if (types->type == DT_F32)
		return device_upload(m->dev, &p->w, host->exact, tensor_bytes(&p->w), err);

	round_weights(types, host->half, host->exact, n);
	rc = device_upload(m->dev, &p->w, host->half, tensor_bytes(&p->w), err);
	if (rc || types->master == MASTER_NONE)
		return rc;
	if (types->master == MASTER_F32)
		return device_upload(m->dev, &p->master, host->exact, tensor_bytes(&p->master), err);
	low_bits(host->low, host->exact, n);
	return device_upload(m->dev, &p->master, host->low, tensor_bytes(&p->master), err);
}
