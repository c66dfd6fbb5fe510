/*
 * A sweep as a small GPT would leave it, made up but in proportion: two axes,
 * three repetitions, two configurations over the cap, one timeout, timelines,
 * losses, operators. Texts can be replaced by hostile ones.
 */
#ifndef TM_DRAW_FIXTURE_H
#define TM_DRAW_FIXTURE_H

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "store/store.h"

#include <math.h>

struct fixture_texts {
	const char *suite, *host, *commit, *op, *note, *reason, *path, *label, *category, *param;
};

static const struct fixture_texts fixture_plain = {
	.suite = "case: gpt-tiny on the CPU", .host = "bench-07", .commit = "7f3a2c91d04be5a6c1f0d2e3b4a5968778695a4b",
	.op = "attention.softmax", .note = "warm-up took 31 of at most 50 steps", .reason = "no event for 30 s in phase measure",
	.path = "configs/case-tiny.yaml", .label = "", .category = "input", .param = "block",
};

enum { FIXTURE_BATCHES = 6, FIXTURE_CONFIGS = 2 * FIXTURE_BATCHES, FIXTURE_REPS = 3, FIXTURE_STEPS = 60, FIXTURE_POINTS = 202 };

#define FIXTURE_MIB 1048576.0
#define FIXTURE_CAP (1024 * FIXTURE_MIB)

/* Noise in [-1, 1] that is the same everywhere. */
static double fixture_noise(uint64_t i)
{
	uint64_t z = i * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (double)(int64_t)(z ^ z >> 31) / 9.3e18;
}

struct fixture_shape { double parameters, gradients, optimizer, activations, logits, workspace, input; };

static struct fixture_shape fixture_shape(int batch, bool block)
{
	double mib = FIXTURE_MIB;

	return (struct fixture_shape){ 3.4 * mib, 3.4 * mib, 6.8 * mib, batch * (block ? 5.1 : 17.3) * mib,
				       batch * 0.75 * mib, 32 * mib, batch * 0.004 * mib };
}

static double fixture_sum(const struct fixture_shape *f)
{
	return f->parameters + f->gradients + f->optimizer + f->activations + f->logits + f->workspace + f->input;
}

static double fixture_step_us(int batch, bool block)
{
	return (6.2 + 11.8 * batch) * (block ? 1.31 : 1.0) * 1e3;
}

static void fixture_push(json_t *obj, const char *key, double v)
{
	json_t *list = json_object_get(obj, key);

	if (!list) {
		list = json_array();
		json_object_set_new_nocheck(obj, key, list);
	}
	json_array_append_new(list, json_integer((json_int_t)v));
}

static void fixture_phase(json_t *phases, const char *name, double us)
{
	json_t *p = json_object();

	json_object_set_new(p, "name", json_string(name));
	json_object_set_new(p, "us", json_integer((json_int_t)us));
	json_array_append_new(phases, p);
}

static char *fixture_timeline(int batch, bool block, const struct fixture_texts *t)
{
	struct fixture_shape f = fixture_shape(batch, block);
	json_t *all = json_object(), *by = json_object(), *phases = json_array();
	double step_us = fixture_step_us(batch, block), reserved = 0;
	char *text;

	for (int i = 0; i < FIXTURE_POINTS; i++) {
		double x = (double)i / (FIXTURE_POINTS - 1), act = 0, grad = 0, logits = 0, saw = 0, sum;

		if (x < 0.33)
			act = floor(x / 0.33 * 24) / 24;
		else if (x < 0.9)
			act = fmax(0, ceil((0.9 - x) / 0.57 * 24) / 24);
		if (x > 0.3 && x < 0.4)
			logits = 1;
		if (x > 0.4)
			grad = fmin(1, (x - 0.4) / 0.5);
		if (x > 0.97)
			grad = 0;
		if (block && x > 0.4 && x < 0.9)
			saw = 0.25 * (1 - fmod((x - 0.4) * 8, 1));
		act = fmin(1, act + saw);
		sum = f.parameters + f.optimizer + f.workspace + f.input + grad * f.gradients + act * f.activations + logits * f.logits;
		reserved = fmax(reserved, ceil(sum * 1.04 / (20 * FIXTURE_MIB)) * 20 * FIXTURE_MIB);
		fixture_push(all, "us", x * step_us);
		fixture_push(all, "requested", sum);
		fixture_push(all, "allocated", sum * 1.015);
		fixture_push(all, "reserved", reserved);
		fixture_push(by, "parameters", f.parameters);
		fixture_push(by, "gradients", grad * f.gradients);
		fixture_push(by, "optimizer", f.optimizer);
		fixture_push(by, "activations", act * f.activations);
		fixture_push(by, "logits", logits * f.logits);
		fixture_push(by, "workspace", f.workspace);
		fixture_push(by, t->category, f.input);
	}
	fixture_phase(phases, "forward", 0);
	fixture_phase(phases, "backward", 0.36 * step_us);
	fixture_phase(phases, "clip", 0.915 * step_us);
	fixture_phase(phases, "update", 0.93 * step_us);
	json_object_set_new(all, "step", json_integer(65));
	json_object_set_new(all, "by", by);
	json_object_set_new(all, "phases", phases);
	text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	return text;
}

/* JSON text of an object of strings and numbers: "s:key", value …; NULL ends it. */
static char *fixture_json(const char *key, ...)
{
	json_t *o = json_object();
	va_list ap;
	char *text;

	va_start(ap, key);
	for (; key; key = va_arg(ap, const char *)) {
		if (key[0] == 's')
			json_object_set_new_nocheck(o, key + 2, json_string_nocheck(va_arg(ap, const char *)));
		else
			json_object_set_new_nocheck(o, key + 2, json_integer((json_int_t)va_arg(ap, double)));
	}
	va_end(ap);
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

struct fixture_run {
	struct store_value values[24];
	struct store_series series[3];
	struct store_op ops[32];
	struct store_event events[6];
	size_t value_n, series_n, op_n, event_n;
	double us[FIXTURE_STEPS], loss[FIXTURE_STEPS];
};

static void fixture_value(struct fixture_run *r, const char *metric, double v)
{
	r->values[r->value_n++] = (struct store_value){ .metric = metric, .v = v, .n = 1 };
}

static void fixture_ops(struct fixture_run *r, double step_us, const struct fixture_shape *f, const struct fixture_texts *t)
{
	static const struct { const char *name; double forward, backward, memory; } ops[] = {
		{ "linear.qkv", 0.07, 0.14, 0.17 }, { "attention.scores", 0.04, 0.08, 0.21 }, { "", 0.05, 0.06, 0.22 },
		{ "linear.fc1", 0.08, 0.16, 0.16 }, { "gelu", 0.02, 0.02, 0.09 }, { "linear.fc2", 0.07, 0.13, 0.05 },
		{ "layernorm", 0.01, 0.02, 0.06 }, { "residual", 0.005, 0.004, 0.02 }, { "embedding", 0.002, 0.004, 0.01 },
		{ "loss", 0.01, 0.01, 0.01 }, { "dropout", 0.006, 0.003, 0.0 },
	};

	for (size_t i = 0; i < TM_ARRAY_N(ops); i++) {
		const char *name = *ops[i].name ? ops[i].name : t->op;

		r->ops[r->op_n++] = (struct store_op){ name, "forward", 4, ops[i].forward * step_us, ops[i].memory * f->activations,
						       ops[i].memory * f->activations, 1e9 };
		r->ops[r->op_n++] = (struct store_op){ name, "backward", 4, ops[i].backward * step_us,
						       0.02 * ops[i].memory * f->activations, 0, 2e9 };
	}
	r->ops[r->op_n++] = (struct store_op){ "adamw", "update", 52, 0.05 * step_us, f->optimizer, f->optimizer, 1e7 };
	r->ops[r->op_n++] = (struct store_op){ "gemm workspace", "forward", 1, 0, f->workspace, f->workspace, 0 };
}

/* A run that ended well. Event texts are left to the end of the process. */
static void fixture_good(struct fixture_run *r, int batch, bool block, int rep, const struct fixture_texts *t)
{
	static const struct { const char *name; size_t at; } cats[] = {
		{ "mem.parameters.at_peak", offsetof(struct fixture_shape, parameters) },
		{ "mem.gradients.at_peak", offsetof(struct fixture_shape, gradients) },
		{ "mem.optimizer.at_peak", offsetof(struct fixture_shape, optimizer) },
		{ "mem.activations.at_peak", offsetof(struct fixture_shape, activations) },
		{ "mem.logits.at_peak", offsetof(struct fixture_shape, logits) },
		{ "mem.workspace.at_peak", offsetof(struct fixture_shape, workspace) },
		{ "mem.input.at_peak", offsetof(struct fixture_shape, input) },
	};
	struct fixture_shape f = fixture_shape(batch, block);
	double step_us = fixture_step_us(batch, block) * (1 + 0.01 * fixture_noise((uint64_t)(batch * 7 + rep)));

	for (int i = 0; i < FIXTURE_STEPS; i++) {
		uint64_t k = (uint64_t)(((batch * 2 + block) * 10 + rep) * 1000 + i);

		r->us[i] = step_us * (1 + 0.02 * fixture_noise(k)) * (fixture_noise(k + 5000000) > 0.96 ? 1.24 : 1);
		r->loss[i] = 2.1 + 3.85 * exp(-i / (9.0 + 40.0 / batch)) + 0.12 * fixture_noise((uint64_t)(batch * 1000 + i)) / sqrt(batch);
	}
	fixture_value(r, "mem.requested.peak", fixture_sum(&f));
	fixture_value(r, "mem.allocated.peak", ceil(fixture_sum(&f) / 512) * 512 + 262144);
	fixture_value(r, "mem.reserved.peak", ceil(fixture_sum(&f) * 1.05 / (2 * FIXTURE_MIB)) * 2 * FIXTURE_MIB);
	for (size_t i = 0; i < TM_ARRAY_N(cats); i++)
		fixture_value(r, cats[i].name, *(const double *)((const char *)&f + cats[i].at));
	fixture_value(r, "mem.growth", batch == 16 && block ? 4096 : 0);
	fixture_value(r, "throughput.tokens", batch * 256 / (step_us / 1e6));
	r->values[r->value_n++] = (struct store_value){ "step.median", step_us / 1e6, FIXTURE_STEPS, true, step_us / 1e6 * 0.009 };
	r->series[r->series_n++] = (struct store_series){ "step.time", r->us, NULL, FIXTURE_STEPS };
	r->series[r->series_n++] = (struct store_series){ "loss", r->loss, NULL, FIXTURE_STEPS };
	fixture_ops(r, step_us, &f, t);
	r->events[r->event_n++] = (struct store_event){ 1000, "timeline", fixture_timeline(batch, block, t) };
	if (batch >= 16)
		r->events[r->event_n++] = (struct store_event){ 1200, "note", fixture_json("s:text", t->note, "s:level", "warning", NULL) };
	if (batch == 16 && block)
		r->events[r->event_n++] = (struct store_event){ 1300, "stayed", fixture_json("s:op", t->op, "s:phase", "forward", "s:name",
			"cache of masks", "s:category", "workspace", "i:blocks", 60.0, "i:bytes", 60 * 4096.0, "i:steps", 60.0, NULL) };
}

/* Makes the database; returns the sweep's id. */
static int64_t fixture_make(const char *path, const struct fixture_texts *t)
{
	static const int batches[FIXTURE_BATCHES] = { 2, 4, 8, 16, 32, 64 };
	struct store_config configs[FIXTURE_CONFIGS];
	struct store_planned planned[FIXTURE_CONFIGS * FIXTURE_REPS];
	int64_t ids[FIXTURE_CONFIGS * FIXTURE_REPS];
	struct store_sweep_id sweep;
	struct tm_err err = { 0 };
	struct store *st;
	json_t *env = json_pack("{s:s, s:s, s:i, s:s}", "host", "bench-07", "cpu", "AMD EPYC 7302P 16-Core Processor", "memory_mib", 128000, "governor", "performance");
	char *spec = NULL, *hash;
	json_t *settings = json_pack("{s:o, s:[s,s], s:[{s:o,s:o}]}", "path", json_string_nocheck(t->path), "varying", "batch", "checkpoint",
				     "excluded", "shown", json_string_nocheck(t->param), "why", json_string_nocheck(t->reason));

	spec = json_dumps(settings, JSON_COMPACT);
	assert_ok(store_open(path, STORE_WRITE, &st, &err), &err);
	for (size_t c = 0; c < FIXTURE_CONFIGS; c++) {
		struct tm_str label = TM_STR_INIT;

		configs[c].params = fixture_json("i:batch", (double)batches[c / 2], "s:checkpoint", c % 2 ? t->param : "none", "s:model", "gpt-tiny",
						 "i:seq", 256.0, "i:cap", FIXTURE_CAP, "s:allocator", "caching", NULL);
		tm_str_addf(&label, "gpt gpt-tiny batch=%d checkpoint=%s%s", batches[c / 2], c % 2 ? t->param : "none", t->label);
		configs[c].label = tm_str_detach(&label);
		configs[c].workload = "gpt";
		hash = tm_xcalloc(1, 65);
		tm_sha256_hex(configs[c].params, strlen(configs[c].params), hash);
		configs[c].hash = hash;
		for (int rep = 0; rep < FIXTURE_REPS; rep++)
			planned[(size_t)rep * FIXTURE_CONFIGS + c] = (struct store_planned){ c, rep, rep * FIXTURE_CONFIGS + (int)c };
	}
	struct store_sweep_new in = {
		.kind = "run", .suite = t->suite, .spec_sha = "0", .spec = spec, .seed = 20261,
		.env = { .host = t->host, .cpu = "AMD EPYC 7302P 16-Core Processor", .kernel = "6.1.0-28-amd64", .class_key = "cpu", .json = env },
		.build = { .commit = t->commit, .branch = "main", .compiler = "GNU 12.2.0", .flags = "RelWithDebInfo", .binary_sha = "b", .dirty = 0 },
		.tool = "tidemark 0.1.0", .owner = "test", .configs = configs, .config_n = FIXTURE_CONFIGS,
		.runs = planned, .run_n = TM_ARRAY_N(planned),
	};
	json_t *metrics = json_array();
	static const char *const names[] = { "mem.requested.peak", "mem.allocated.peak", "mem.reserved.peak", "mem.parameters.at_peak",
		"mem.gradients.at_peak", "mem.optimizer.at_peak", "mem.activations.at_peak", "mem.logits.at_peak", "mem.workspace.at_peak",
		"mem.input.at_peak" };

	for (size_t i = 0; i < TM_ARRAY_N(names); i++)
		json_array_append_new(metrics, json_pack("{s:s, s:s, s:s, s:b}", "name", names[i], "unit", "B", "better", "lower", "exact", 1));
	assert_ok(store_metrics_register(st, metrics, &err), &err);
	assert_ok(store_sweep_create(st, &in, &sweep, ids, &err), &err);
	for (size_t i = 0; i < in.run_n; i++) {
		size_t c = planned[i].config;
		int batch = batches[c / 2];
		bool block = c % 2, oom = !block && batch >= 64, timeout = block && batch == 64;
		struct fixture_run r = { .value_n = 0 };
		struct store_run_result res = { .run_id = ids[i], .status = "ok" };

		assert_ok(store_run_begin(st, ids[i], "cpu", &err), &err);
		if (oom || (!block && batch == 32 && 0)) {
			res.status = "oom";
			res.oom = "cap";
			res.reason = "attention asked for 168 MiB beyond the cap of 1 GiB";
			r.events[r.event_n++] = (struct store_event){ 900, "oom", fixture_json("s:kind", "cap", "s:op", t->op, "i:asked", 168 * FIXTURE_MIB,
				"i:allocated", 930 * FIXTURE_MIB, "i:reserved", 944 * FIXTURE_MIB, "i:cap", FIXTURE_CAP, "i:step", 0.0, NULL) };
		} else if (timeout) {
			res.status = "timeout";
			res.reason = t->reason;
		} else {
			fixture_good(&r, batch, block, (int)planned[i].rep, t);
		}
		res.values = r.values;
		res.value_n = r.value_n;
		res.series = r.series;
		res.series_n = r.series_n;
		res.ops = r.ops;
		res.op_n = r.op_n;
		res.events = r.events;
		res.event_n = r.event_n;
		res.flags = batch == 2 && planned[i].rep == 1 ? FLAG_BUSY : batch == 16 && block ? FLAG_LEAK : 0;
		assert_ok(store_run_end(st, &res, &err), &err);
		for (size_t k = 0; k < r.event_n; k++)
			free((char *)r.events[k].json);
	}
	assert_ok(store_sweep_end(st, sweep.id, "done", &err), &err);
	store_close(st);
	for (size_t c = 0; c < FIXTURE_CONFIGS; c++) {
		free((char *)configs[c].params);
		free((char *)configs[c].label);
		free((char *)configs[c].hash);
	}
	json_decref(env);
	json_decref(settings);
	json_decref(metrics);
	free(spec);
	return sweep.id;
}

#endif
