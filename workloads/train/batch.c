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

/* What of the samples one tensor takes; cols 0: a vector of rows. */
struct part {
	struct tensor *to;
	const char *name;
	const int32_t *from;              /* NULL on a device that computes nothing */
	int64_t rows, cols;
};
#define PARTS_MAX 5

/* The n-th part of an array; nothing of nothing. */
static const int32_t *slice(const int32_t *all, int64_t n, int64_t size)
{
	return all ? all + n * size : NULL;
}

/*
 * The parts of a micro-batch in the order of their uploads. Chosen rows and
 * their targets, in place of all targets, are put together here, where the
 * micro-batch before had its own.
 */
static size_t parts_of(const struct host_batch *h, const struct train_opts *o, int64_t micro, struct model_batch *b,
		       struct part out[PARTS_MAX])
{
	int64_t B = o->batch, T = h->seq, chosen = B * data_slots(T);
	const int32_t *targets = slice(h->targets, micro, B * T);
	size_t n = 0;

	out[n++] = (struct part){ &b->ids, "ids", slice(h->ids, micro, B * T), B, T };
	if (train_masked_only(o)) {
		if (h->drawn)
			data_rows(targets, B, T, h->rows, h->row_targets);
		out[n++] = (struct part){ &b->rows, "rows", h->rows, chosen, 0 };
		out[n++] = (struct part){ &b->targets, "targets", h->row_targets, chosen, 0 };
	} else {
		out[n++] = (struct part){ &b->targets, "targets", targets, B, T };
	}
	if (h->bert)
		out[n++] = (struct part){ &b->types, "types", h->types, B, T };
	if (train_random_lengths(o))
		out[n++] = (struct part){ &b->lengths, "lengths", slice(h->lengths, micro, B), B, 0 };
	return n;
}

static int upload(struct device *dev, const struct part *p, struct tm_err *err)
{
	int rc = p->cols ? tensor_new(dev->mem, p->to, MEM_INPUT, p->name, DT_I32, err, 2, p->rows, p->cols)
			 : tensor_new(dev->mem, p->to, MEM_INPUT, p->name, DT_I32, err, 1, p->rows);

	return rc ? rc : device_upload(dev, p->to, p->from, tensor_bytes(p->to), err);
}

int batch_upload(const struct host_batch *h, const struct train_opts *o, struct device *dev, int64_t micro,
		 struct model_batch *b, struct tm_err *err)
{
	struct part part[PARTS_MAX];
	size_t n = parts_of(h, o, micro, b, part);
	int rc = 0;

	mem_set_op(dev->mem, "input");
	for (size_t i = 0; i < n && !rc; i++)
		rc = upload(dev, &part[i], err);
	return rc;
}

int batch_feed(const struct host_batch *h, const struct train_opts *o, struct device *dev, int64_t micro,
	       struct device_graph *graph, size_t *slot, struct tm_err *err)
{
	struct model_batch none = { 0 };
	struct part part[PARTS_MAX];
	size_t n = parts_of(h, o, micro, &none, part);
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		uint64_t bytes = (uint64_t)(part[i].rows * (part[i].cols ? part[i].cols : 1)) * sizeof(int32_t);

		rc = dev->backend->graphs->feed(dev, graph, (*slot)++, part[i].from, bytes, err);
	}
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
