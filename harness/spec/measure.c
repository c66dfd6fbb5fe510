/*
 * How long and how often a point is measured, what ends a run, which ends
 * are allowed. `memory` and `speed` are two passes over the same points:
 * figures that are exact need one short process, figures that are noisy
 * need many long ones, and a point belongs to one of the two.
 */
#include "spec/doc.h"

#include "base/mem.h"
#include "base/num.h"

#include <string.h>

static const struct spec_measure defaults = {
	.reps = 1, .warmup_min = 3, .warmup_max = 3, .warmup_window = 20, .warmup_slope = 0.01, .steps = 10,
};

static void read_warmup(struct doc *doc, const struct node *node, struct spec_measure *m)
{
	static const char *const keys[] = { "min", "max", "window", "slope" };
	const struct node *min, *max, *window, *slope;

	if (node->kind == NODE_SCALAR) {
		if (!doc_int(doc, node, "warmup", 0, 1000000, &m->warmup_min))
			m->warmup_max = m->warmup_min;
		return;
	}
	if (node->kind != NODE_MAP) {
		diag_at(doc->diag, node->at, "warmup: expected a number of steps or {min, max, window, slope}, got %s", node_kind_name(node));
		return;
	}
	doc_keys(doc, node, "warmup", keys, TM_ARRAY_N(keys));
	min = node_get(node, "min");
	max = node_get(node, "max");
	window = node_get(node, "window");
	slope = node_get(node, "slope");
	if (min)
		doc_int(doc, min, "warmup.min", 0, 1000000, &m->warmup_min);
	m->warmup_max = m->warmup_min;
	if (max)
		doc_int(doc, max, "warmup.max", 0, 1000000, &m->warmup_max);
	if (window)
		doc_int(doc, window, "warmup.window", 2, 10000, &m->warmup_window);
	if (slope && !doc_percent(doc, slope, "warmup.slope", &m->warmup_slope) && (m->warmup_slope <= 0 || m->warmup_slope > 1))
		diag_at(doc->diag, slope->at, "warmup.slope: expected a share above 0%% and at most 100%%, got '%s'", slope->text);
	if (m->warmup_max < m->warmup_min)
		diag_at(doc->diag, max->at, "warmup.max: expected at least min (%lld), got %lld", (long long)m->warmup_min,
			(long long)m->warmup_max);
}

static void read_order(struct doc *doc, const struct node *node)
{
	static const char *const orders[] = { "interleaved", "listed" };
	int order;

	if (!node)
		return;
	order = doc_choice(doc, node, "order", orders, 2);
	if (order >= 0 && doc->order >= 0 && doc->order != order)
		diag_at(doc->diag, node->at, "order: memory and speed ask for different orders; a sweep has one");
	else if (order >= 0)
		doc->order = order;
}

static void read_pass(struct doc *doc, const struct node *node, const char *name, struct pass *pass)
{
	static const char *const keys[] = { "reps", "warmup", "steps", "order", "only" };
	const struct node *only = node_get(node, "only"), *reps = node_get(node, "reps");
	const struct node *warmup = node_get(node, "warmup"), *steps = node_get(node, "steps");

	pass->name = name;
	pass->m = defaults;
	doc_keys(doc, node, name, keys, TM_ARRAY_N(keys) - !strcmp(name, "measure"));
	if (reps)
		doc_int(doc, reps, "reps", 1, 10000, &pass->m.reps);
	if (steps)
		doc_int(doc, steps, "steps", 1, 1000000, &pass->m.steps);
	if (warmup)
		read_warmup(doc, warmup, &pass->m);
	read_order(doc, node_get(node, "order"));
	if (only && strcmp(name, "measure"))
		formula_read(doc, only, "only", &pass->only);
}

/* measure: {reps, …} alone, or measure: {memory: {…}, speed: {…}}. */
static void read_measure(struct doc *doc)
{
	static const char *const passes[] = { "speed", "memory" };       /* a point of both is measured for speed */
	static const char *const keys[] = { "memory", "speed", "order" };
	const struct node *measure = doc_section(doc, doc->root, "measure", NODE_MAP);

	if (!measure || (!node_get(measure, "memory") && !node_get(measure, "speed"))) {
		doc->pass[0].m = defaults;
		doc->pass_n = 1;
		if (measure)
			read_pass(doc, measure, "measure", &doc->pass[0]);
		return;
	}
	doc_keys(doc, measure, "measure with memory or speed", keys, TM_ARRAY_N(keys));
	read_order(doc, node_get(measure, "order"));
	for (size_t i = 0; i < 2; i++) {
		const struct node *node = doc_section(doc, measure, passes[i], NODE_MAP);

		if (node || node_get(measure, passes[i]))
			read_pass(doc, node ? node : node_new(doc->a, NODE_MAP, measure->at), passes[i], &doc->pass[doc->pass_n++]);
	}
}

static void read_limit_duration(struct doc *doc, const struct node *limits, const char *key, int64_t *out)
{
	const struct node *node = node_get(limits, key);
	int64_t v;

	if (!node)
		return;
	if (node->kind == NODE_SCALAR && !strcmp(node->text, "none")) {
		*out = 0;
		return;
	}
	if (duration_parse(doc->diag, node, key, &v))
		return;
	if (v <= 0)
		diag_at(doc->diag, node->at, "%s: expected more than 0, or none", key);
	else
		*out = v;
}

static void read_limits(struct doc *doc)
{
	static const char *const keys[] = { "wall", "silent", "host", "sweep" };
	const struct node *limits = doc_section(doc, doc->root, "limits", NODE_MAP), *host;

	doc->limits.silent_us = 300000000;       /* a run that says nothing for five minutes is taken for hung */
	if (!limits)
		return;
	doc_keys(doc, limits, "limits", keys, TM_ARRAY_N(keys));
	read_limit_duration(doc, limits, "wall", &doc->limits.wall_us);
	read_limit_duration(doc, limits, "silent", &doc->limits.silent_us);
	read_limit_duration(doc, limits, "sweep", &doc->limits.sweep_us);
	host = node_get(limits, "host");
	if (host && !(host->kind == NODE_SCALAR && !strcmp(host->text, "none")) &&
	    !size_parse(doc->diag, host, "host", &doc->limits.host_bytes) && !doc->limits.host_bytes)
		diag_at(doc->diag, host->at, "host: expected more than 0, or none");
}

static void read_allow(struct doc *doc)
{
	static const char *const words[] = { "oom", "timeout", "crash", "invalid" };
	const struct node *allow = doc_section(doc, doc->root, "allow", NODE_SEQ);

	for (size_t i = 0; allow && i < allow->n; i++) {
		int k = doc_choice(doc, allow->item[i], "allow", words, TM_ARRAY_N(words));

		if (k >= 0)
			doc->allow |= 1u << k;
	}
}

void doc_read_measure(struct doc *doc)
{
	doc->order = -1;
	read_measure(doc);
	read_limits(doc);
	read_allow(doc);
	/* --reps is about noise: where there is a pass for speed, it is meant */
	for (size_t i = 0; doc->req->reps && i < (doc->pass_n > 1 ? 1 : doc->pass_n); i++)
		doc->pass[i].m.reps = doc->req->reps;
}
