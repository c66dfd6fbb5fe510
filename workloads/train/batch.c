#include "train/batch.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>

static int64_t samples_of(const struct train_opts *o)
{
	return o->accum * o->batch;
}

static int room(int32_t **out, int64_t n, struct tm_err *err)
{
	*out = calloc((size_t)n, sizeof **out);
	if (*out)
		return 0;
	return tm_fail(err, TM_EOOM, "the host has no room for %" PRId64 " tokens a step; give a smaller batch, seq or accum", n);
}

int batch_new(struct host_batch *h, const struct train_opts *o, enum model_kind kind, bool computes, struct tm_err *err)
{
	int64_t longest = param_drawn_max(&o->seq), all = samples_of(o) * longest, slots = 0;
	int rc;

	*h = (struct host_batch){ .bert = kind == MODEL_BERT, .drawn = computes };
	if (!computes)
		return 0;
	for (size_t i = 0; i < o->seq.n; i++)
		slots = data_slots(o->seq.v[i]) > slots ? data_slots(o->seq.v[i]) : slots;
	rc = room(&h->ids, all, err);
	if (!rc)
		rc = room(&h->targets, all, err);
	if (!rc)
		rc = room(&h->lengths, samples_of(o), err);
	if (!rc && h->bert)
		rc = room(&h->types, o->batch * longest, err);
	if (!rc && train_masked_only(o))
		rc = room(&h->rows, o->batch * slots, err);
	if (!rc && train_masked_only(o))
		rc = room(&h->row_targets, o->batch * slots, err);
	if (rc)
		batch_free(h);
	return rc;
}

void batch_free(struct host_batch *h)
{
	free(h->ids);
	free(h->targets);
	free(h->types);
	free(h->lengths);
	free(h->rows);
	free(h->row_targets);
	*h = (struct host_batch){ 0 };
}

int batch_fill(struct host_batch *h, const struct train_opts *o, const struct data *data, uint64_t seed, int64_t step,
	       struct tm_err *err)
{
	int64_t n = samples_of(o);

	h->seq = data_seq(seed, step, &o->seq);
	h->tokens = n * h->seq;
	h->pairs = (double)h->tokens * (double)h->seq;
	h->counted = h->tokens;
	if (!h->drawn)
		return 0;
	h->counted = data_fill(data, step * n, n, h->seq, h->ids, h->targets, h->lengths, err);
	if (h->counted < 0)
		return (int)h->counted;
	h->tokens = 0;
	h->pairs = 0;
	for (int64_t i = 0; i < n; i++) {
		h->tokens += h->lengths[i];
		h->pairs += (double)h->lengths[i] * (double)h->lengths[i];
	}
	return 0;
}

static int upload(struct device *dev, struct tensor *t, const char *name, const int32_t *from, int64_t rows,
		  int64_t cols, struct tm_err *err)
{
	int rc = cols ? tensor_new(dev->mem, t, MEM_INPUT, name, DT_I32, err, 2, rows, cols)
		      : tensor_new(dev->mem, t, MEM_INPUT, name, DT_I32, err, 1, rows);

	return rc ? rc : device_upload(dev, t, from, tensor_bytes(t), err);
}

/* The n-th part of an array; nothing of nothing. */
static const int32_t *part(const int32_t *all, int64_t n, int64_t size)
{
	return all ? all + n * size : NULL;
}

/* The chosen rows and their targets, instead of all targets. */
static int upload_chosen(const struct host_batch *h, const struct train_opts *o, struct device *dev,
			 const int32_t *targets, struct model_batch *b, struct tm_err *err)
{
	int64_t n = o->batch * data_slots(h->seq);
	int rc;

	if (h->drawn)
		data_rows(targets, o->batch, h->seq, h->rows, h->row_targets);
	rc = upload(dev, &b->rows, "rows", h->rows, n, 0, err);
	return rc ? rc : upload(dev, &b->targets, "targets", h->row_targets, n, 0, err);
}

int batch_upload(const struct host_batch *h, const struct train_opts *o, struct device *dev, int64_t micro,
		 struct model_batch *b, struct tm_err *err)
{
	int64_t B = o->batch, T = h->seq;
	const int32_t *targets = part(h->targets, micro, B * T);
	int rc;

	mem_set_op(dev->mem, "input");
	rc = upload(dev, &b->ids, "ids", part(h->ids, micro, B * T), B, T, err);
	if (!rc && train_masked_only(o))
		rc = upload_chosen(h, o, dev, targets, b, err);
	else if (!rc)
		rc = upload(dev, &b->targets, "targets", targets, B, T, err);
	if (!rc && h->bert)
		rc = upload(dev, &b->types, "types", h->types, B, T, err);
	if (!rc && train_random_lengths(o))
		rc = upload(dev, &b->lengths, "lengths", part(h->lengths, micro, B), B, 0, err);
	return rc;
}

double batch_flops(const struct host_batch *h, const struct train_opts *o, const struct model_config *cfg)
{
	double width = (double)cfg->width, tokens = (double)h->tokens;
	double head = width * (width + (double)cfg->vocab);
	double flops = 6 * (double)model_parameter_n(cfg) * tokens + 12 * (double)cfg->layers * width * h->pairs;

	if (train_masked_only(o))
		flops += 6 * head * ((double)(o->accum * train_head_rows(o, h->seq)) - tokens);
	return flops;
}
