/* A device, its memory and a trainer, for the tests of this folder. */
#ifndef TM_TEST_RIG_H
#define TM_TEST_RIG_H

#include "test.h"

#include "base/mem.h"
#include "train/train.h"

/* Where the tests of this folder run: TIDEMARK_TEST_DEVICE, else the CPU. */
static inline const char *rig_device(void)
{
	const char *name = getenv("TIDEMARK_TEST_DEVICE");

	return name && *name ? name : "cpu";
}

/* Whether the device has flash attention for these; a tiny model's heads are 32 wide. */
static inline bool rig_has_flash(const struct train_opts *o)
{
	char backend[32];
	const struct device_workspaces *w;
	enum dtype type = !strcmp(o->precision, "fp16") ? DT_F16 : !strncmp(o->precision, "bf16", 4) ? DT_BF16 : DT_F32;

	snprintf(backend, sizeof backend, "%.*s", (int)strcspn(rig_device(), ":"), rig_device());
	w = device_workspaces_find(backend);
	return !w || !w->no_flash || !w->no_flash(type, o->width ? o->width / o->heads : 32, o->seq.v[0]);
}

struct rig {
	struct device *dev;
	struct mem_driver *driver;        /* mem's */
	struct mem *mem;
	struct trainer *trainer;
};

struct rig_conf {
	const char *allocator;            /* NULL: caching */
	int threads;                      /* 0: 1 */
	const char *trace;
	uint64_t cap_bytes;
};

static inline void rig_open(struct rig *r, const struct rig_conf *conf, const struct train_opts *opts,
			    enum model_kind kind, uint64_t seed)
{
	struct tm_err err = { 0 };
	struct mem_config mc = {
		.policy = conf->allocator ? conf->allocator : "caching", .conf = "",
		.trace_path = conf->trace, .cap_bytes = conf->cap_bytes,
	};

	*r = (struct rig){ 0 };
	assert_ok(device_open(rig_device(), conf->threads ? conf->threads : 1, &r->dev, &err), &err);
	r->driver = device_driver(r->dev, &err);
	assert_non_null(r->driver);
	assert_ok(mem_new(&mc, r->driver, &r->mem, &err), &err);
	r->dev->mem = r->mem;
	mem_set_step(r->mem, -1);
	assert_ok(trainer_new(opts, kind, r->dev, seed, &r->trainer, &err), &err);
}

static inline void rig_close(struct rig *r)
{
	trainer_free(r->trainer);
	mem_free(r->mem);
	device_close(r->dev);
	*r = (struct rig){ 0 };
}

/* A fixed number of tokens a sample, for good. */
static inline struct param_drawn rig_seq(int64_t tokens)
{
	static int64_t known[64];
	static size_t n;
	size_t i = 0;

	while (i < n && known[i] != tokens)
		i++;
	assert_true(i < TM_ARRAY_N(known));
	known[i] = tokens;
	n = i == n ? n + 1 : n;
	return (struct param_drawn){ 1, &known[i] };
}

/* A GPT or BERT of the tiny preset with the workloads' defaults; tests change what they are about. */
static inline struct train_opts rig_opts(enum model_kind kind)
{
	return (struct train_opts){
		.model = kind == MODEL_GPT ? "gpt-tiny" : "bert-tiny",
		.batch = 2, .seq = rig_seq(64), .accum = 1, .data = "synthetic", .lengths = "full", .mlm_positions = "all",
		.precision = "fp32", .attention = "materialised", .checkpoint = "none", .loss = "full", .launch = "eager",
		.optimizer = "adamw", .optimizer_state = "fp32", .master = "fp32",
		.loss_scale = TRAIN_SCALE_DEFAULT, .loss_scale_every = TRAIN_SCALE_EVERY, .deterministic = true,
		.lr = kind == MODEL_GPT ? 3e-4 : 1e-4, .beta1 = 0.9,
		.beta2 = kind == MODEL_GPT ? 0.95 : 0.999, .eps = 1e-8,
		.weight_decay = kind == MODEL_GPT ? 0.1 : 0.01, .clip = 1,
	};
}

static inline struct train_result rig_step(struct rig *r, int64_t i)
{
	struct tm_err err = { 0 };
	struct train_result out;

	mem_set_step(r->mem, i);
	assert_ok(trainer_step(r->trainer, i, &out, &err), &err);
	return out;
}

#endif
