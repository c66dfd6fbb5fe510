/* What a point of a sweep must satisfy before a worker is started for it. */
#include "train/train.h"

#include "train/data.h"

#include <inttypes.h>
#include <string.h>

int train_config(const struct train_opts *o, enum model_kind kind, struct model_config *out,
		 const char **bad, struct tm_err *err)
{
	const struct model_config *preset = model_preset(o->model);

	if (!preset || preset->kind != kind) {
		tm_fail(err, TM_EINVALID, "model %s is not one of this workload's", o->model);
		return model_blame(bad, "model");
	}
	*out = *preset;
	if (o->layers)
		out->layers = o->layers;
	if (o->width)
		out->width = o->width;
	if (o->heads)
		out->heads = o->heads;
	if (o->context)
		out->context = o->context;
	if (o->vocab)
		out->vocab = o->vocab;
	out->dropout = o->dropout;
	return model_config_check(out, bad, err);
}

/* The largest tensors must be countable in 63 bits; whether they fit is the allocator's business. */
static int check_size(const struct train_opts *o, const struct model_config *c, const char **bad, struct tm_err *err)
{
	int64_t probs, logits, bytes;

	if (!__builtin_mul_overflow(o->batch * c->heads, o->seq * o->seq, &probs) &&
	    !__builtin_mul_overflow(o->batch * o->seq, model_vocab_padded(c), &logits) &&
	    !__builtin_mul_overflow(probs, (int64_t)sizeof(float), &bytes) &&
	    !__builtin_mul_overflow(logits, (int64_t)sizeof(float), &bytes))
		return 0;
	tm_fail(err, TM_EINVALID, "batch %" PRId64 " at seq %" PRId64 ": the attention or the logits "
		"would have more bytes than can be counted", o->batch, o->seq);
	return model_blame(bad, "batch");
}

int train_check(const struct train_opts *o, enum model_kind kind, const char **bad, struct tm_err *err)
{
	struct model_config cfg;
	int rc = train_config(o, kind, &cfg, bad, err);

	if (rc)
		return rc;
	if (o->batch < 1) {
		tm_fail(err, TM_EINVALID, "batch %" PRId64 ": expected at least 1", o->batch);
		return model_blame(bad, "batch");
	}
	if (o->accum < 1) {
		tm_fail(err, TM_EINVALID, "accum %" PRId64 ": expected at least 1", o->accum);
		return model_blame(bad, "accum");
	}
	if (o->seq < 1 || o->seq > cfg.context) {
		tm_fail(err, TM_EINVALID, "seq %" PRId64 ": expected 1 to the context of %" PRId64
			" tokens; give a smaller seq or a larger context", o->seq, cfg.context);
		return model_blame(bad, "seq");
	}
	rc = check_size(o, &cfg, bad, err);
	return rc ? rc : data_check(o->data, &cfg, &(struct param_drawn){ 1, &o->seq }, bad, err);
}
