#include "collect.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void collect_init(struct collect *c, int64_t now_us)
{
	memset(c, 0, sizeof *c);
	c->last_step = -1;
	c->last_event_us = now_us;
	snprintf(c->phase, sizeof c->phase, "start");
}

void collect_free(struct collect *c)
{
	struct collect_steps *s = &c->steps;

	free(s->us);
	free(s->tokens);
	free(s->samples);
	free(s->live);
	free(s->loss);
	free(s->scale);
	free(s->phase);
	free(s->skipped);
	for (size_t i = 0; i < c->op_n; i++) {
		free((char *)c->ops[i].name);
		free((char *)c->ops[i].phase);
	}
	free(c->ops);
	for (size_t i = 0; i < c->event_n; i++) {
		free((char *)c->events[i].kind);
		free((char *)c->events[i].json);
	}
	free(c->events);
	json_decref(c->result);
	json_decref(c->oom);
	json_decref(c->fail);
	json_decref(c->refused);
	json_decref(c->facts);
	memset(c, 0, sizeof *c);
}

/* ---- steps ---------------------------------------------------------------- */

static void grow_steps(struct collect_steps *s, size_t want)
{
	if (want <= s->cap)
		return;
	s->cap = want < 256 ? 256 : 2 * want;
	s->us = tm_xrealloc_n(s->us, s->cap, sizeof *s->us);
	s->tokens = tm_xrealloc_n(s->tokens, s->cap, sizeof *s->tokens);
	s->samples = tm_xrealloc_n(s->samples, s->cap, sizeof *s->samples);
	s->live = tm_xrealloc_n(s->live, s->cap, sizeof *s->live);
	s->loss = tm_xrealloc_n(s->loss, s->cap, sizeof *s->loss);
	s->scale = tm_xrealloc_n(s->scale, s->cap, sizeof *s->scale);
	s->phase = tm_xrealloc_n(s->phase, s->cap, sizeof *s->phase);
	s->skipped = tm_xrealloc_n(s->skipped, s->cap, sizeof *s->skipped);
}

static int64_t entry(const json_t *list, size_t i)
{
	return list ? (int64_t)json_integer_value(json_array_get(list, i)) : 0;
}

static double number_or_nan(const json_t *v)
{
	return json_is_number(v) ? json_number_value(v) : NAN;
}

static int mark_skipped(struct collect_steps *s, const json_t *list, size_t first, struct tm_err *err)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		int64_t step = entry(list, i);

		if (step < (int64_t)first || step >= (int64_t)s->n)
			return tm_fail(err, TM_EINVALID, "step %" PRId64 " is named as skipped among steps %zu to %zu",
				       step, first, s->n - 1);
		s->skipped[step] = true;
		s->has_skipped = true;
	}
	return 0;
}

/* A run that can only skip steps is ended here: it would go on to its last step, fast and for nothing. */
static int judge_scales(struct collect *c, size_t first, struct tm_err *err)
{
	const struct collect_steps *s = &c->steps;

	for (size_t i = first; i < s->n; i++) {
		if (!judge_scale_step(&c->scale, s->scale[i], s->skipped[i], &c->verdict))
			continue;
		c->verdict_cause = "scale";
		return tm_fail(err, TM_EINVALID, "%s", c->verdict.text);
	}
	return 0;
}

/* One step more, not skipped so far; the lists are those of its line, i its place there. */
static void add_step(struct collect_steps *s, const json_t *body, size_t i, enum judge_phase phase)
{
	const json_t *loss = json_array_get(json_object_get(body, "loss"), i), *scale = json_object_get(body, "scale");
	size_t at = s->n++;

	s->us[at] = entry(json_object_get(body, "us"), i);
	s->tokens[at] = entry(json_object_get(body, "tokens"), i);
	s->samples[at] = entry(json_object_get(body, "samples"), i);
	s->live[at] = entry(json_object_get(body, "live"), i);
	s->loss[at] = number_or_nan(loss);
	s->scale[at] = scale ? number_or_nan(json_array_get(scale, i)) : JUDGE_SCALE_NONE;
	s->phase[at] = (unsigned char)phase;
	s->skipped[at] = false;
	s->has_loss |= json_is_number(loss);
	s->has_scale |= scale != NULL;
}

static int phase_by_name(const char *name, enum judge_phase *out, struct tm_err *err)
{
	static const char *const names[] = { [JUDGE_WARMUP] = "warmup", [JUDGE_TRAIN] = "train", [JUDGE_EVAL] = "eval" };

	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		if (strcmp(names[i], name))
			continue;
		*out = (enum judge_phase)i;
		return 0;
	}
	return tm_fail(err, TM_EINVALID, "steps of an unknown phase (warmup, train and eval are known)");
}

static int add_steps(struct collect *c, const json_t *body, struct tm_err *err)
{
	struct collect_steps *s = &c->steps;
	size_t first = s->n, n = json_array_size(json_object_get(body, "us"));
	int64_t i0 = tm_json_i64(body, "i0", -1);
	enum judge_phase phase = JUDGE_TRAIN;

	if (i0 != (int64_t)s->n)
		return tm_fail(err, TM_EINVALID, "steps begin at %" PRId64 " where %zu was due", i0, s->n);
	if (s->n + n > COLLECT_STEPS_MAX)
		return tm_fail(err, TM_EINVALID, "more than %u steps", COLLECT_STEPS_MAX);
	if (phase_by_name(tm_json_str(body, "phase", "train"), &phase, err))
		return TM_EINVALID;
	grow_steps(s, s->n + n);
	s->has_live |= json_object_get(body, "live") != NULL;
	for (size_t i = 0; i < n; i++)
		add_step(s, body, i, phase);
	if (n)
		c->last_step = (int64_t)s->n - 1;
	if (mark_skipped(s, json_object_get(body, "skipped"), first, err))
		return TM_EINVALID;
	return judge_scales(c, first, err);
}

/* ---- kept events ------------------------------------------------------------ */

/*
 * Places are kept free: the last ones for how the run ended, whatever came
 * before, the very last for the note that something was dropped.
 */
static const struct room {
	size_t n, bytes;
} ordinary = { COLLECT_EVENTS_MAX - 8, COLLECT_EVENT_BYTES_MAX - 8 * EVENTS_LINE_MAX },
  last_word = { COLLECT_EVENTS_MAX - 1, COLLECT_EVENT_BYTES_MAX - EVENTS_LINE_MAX },
  closing = { COLLECT_EVENTS_MAX, COLLECT_EVENT_BYTES_MAX };

static void keep_event(struct collect *c, const struct room *room, int64_t t_us, const char *kind,
		       const char *json, size_t n)
{
	if (c->event_n >= room->n || c->event_bytes + n > room->bytes) {
		c->dropped_n++;
		return;
	}
	if (c->event_n == c->event_cap) {
		c->event_cap = c->event_cap ? 2 * c->event_cap : 32;
		c->events = tm_xrealloc_n(c->events, c->event_cap, sizeof *c->events);
	}
	c->events[c->event_n++] = (struct store_event){
		.t_us = t_us, .kind = tm_xstrdup(kind), .json = tm_xstrndup(json, n),
	};
	c->event_bytes += n;
}

static void keep_note(struct collect *c, const struct room *room, const char *level, const char *text)
{
	struct tm_str json = TM_STR_INIT;
	json_t *body = json_object(), *value = json_string(text);

	json_object_set_new(body, "e", json_string("note"));
	json_object_set_new(body, "from", json_string("harness"));
	if (level)
		json_object_set_new(body, "level", json_string(level));
	json_object_set_new(body, "text", value ? value : json_string("(a text that is no UTF-8)"));
	tm_json_canonical(body, &json);
	keep_event(c, room, 0, "note", json.s, json.n);
	json_decref(body);
	tm_str_free(&json);
}

void collect_note(struct collect *c, const char *text)
{
	keep_note(c, &last_word, NULL, text);
}

void collect_warn(struct collect *c, const char *text)
{
	keep_note(c, &last_word, "warning", text);
}

void collect_close(struct collect *c)
{
	char text[96];

	if (!c->dropped_n)
		return;
	snprintf(text, sizeof text, "%zu further events were not kept (at most %u a run)",
		 c->dropped_n, COLLECT_EVENTS_MAX);
	keep_note(c, &closing, NULL, text);
}

/* ---- operators ---------------------------------------------------------------- */

static int add_op(struct collect *c, const json_t *body, struct tm_err *err)
{
	const char *name = tm_json_str(body, "name", ""), *phase = tm_json_str(body, "phase", "");

	if (c->op_n == COLLECT_OPS_MAX)
		return tm_fail(err, TM_EINVALID, "more than %u operators", COLLECT_OPS_MAX);
	for (size_t i = 0; i < c->op_n; i++)
		if (!strcmp(c->ops[i].name, name) && !strcmp(c->ops[i].phase, phase))
			return tm_fail(err, TM_EINVALID, "operator %.60s of phase %.40s comes twice", name, phase);
	if (c->op_n == c->op_cap) {
		c->op_cap = c->op_cap ? 2 * c->op_cap : 32;
		c->ops = tm_xrealloc_n(c->ops, c->op_cap, sizeof *c->ops);
	}
	c->ops[c->op_n++] = (struct store_op){
		.name = tm_xstrdup(name), .phase = tm_xstrdup(phase), .calls = tm_json_i64(body, "calls", 0),
		.time_us = tm_json_real(body, "time_us", 0), .bytes_at_peak = tm_json_real(body, "bytes_at_peak", 0),
		.bytes_max = tm_json_real(body, "bytes_max", 0), .flops = tm_json_real(body, "flops", 0),
	};
	return 0;
}

/* ---- memory that contradicts itself --------------------------------------------- */

/* Categories are parts of the requested bytes at that moment. */
static int check_parts(const char *kind, const json_t *body, struct tm_err *err)
{
	const json_t *whole = json_object_get(body, "requested"), *by = json_object_get(body, "by");
	const char *name;
	double sum = 0;
	json_t *v;

	if (!whole || !by)
		return 0;
	json_object_foreach((json_t *)by, name, v)
		sum += json_number_value(v);
	if (sum > json_number_value(whole))
		return tm_fail(err, TM_EINVALID, "the categories of a `%s` event add up to %.0f bytes, more than the %.0f requested",
			       kind, sum, json_number_value(whole));
	return 0;
}

static int check_memory(const char *kind, const json_t *body, struct tm_err *err)
{
	const json_t *requested = json_object_get(body, "requested"), *allocated = json_object_get(body, "allocated");

	if (requested && allocated && json_number_value(requested) > json_number_value(allocated))
		return tm_fail(err, TM_EINVALID, "a `%s` event has more bytes requested than allocated", kind);
	return check_parts(kind, body, err);
}

/* ---- where the run is ------------------------------------------------------------- */

static void add_phase(struct collect *c, const struct event *ev, int64_t now_us)
{
	const char *name = tm_json_str(ev->body, "name", "");
	bool begin = !strcmp(tm_json_str(ev->body, "at", ""), "begin");

	if (begin)
		snprintf(c->phase, sizeof c->phase, "%s", name);
	if (strcmp(name, "measure"))
		return;
	if (begin) {
		c->begin_t_us = ev->t_us;
		c->begin_seen_us = now_us;
	} else if (c->begin_seen_us) {
		int64_t told_us = tm_json_i64(ev->body, "us", 0);

		/* of a program under exec both are stamped on arrival, and a begin that arrives late must not make the window shorter */
		c->window_us = ev->t_us - c->begin_t_us;
		if (told_us > c->window_us)
			c->window_us = told_us;
		c->window_seen_us = now_us - c->begin_seen_us;
	}
}

static void keep_whole(json_t **place, const struct event *ev)
{
	json_decref(*place);
	*place = json_incref((json_t *)ev->body);
}

int collect_event(void *arg, const struct event *ev, struct tm_err *err)
{
	struct collect *c = arg;
	const char *kind = ev->kind;
	int64_t now_us = tm_mono_us();

	c->last_event_us = now_us;
	snprintf(c->last_kind, sizeof c->last_kind, "%s", kind);
	if (!strcmp(kind, "steps"))
		return add_steps(c, ev->body, err);
	if (!strcmp(kind, "beat")) {
		c->last_step = tm_json_i64(ev->body, "step", c->last_step);
		return 0;
	}
	if (!strcmp(kind, "op"))
		return add_op(c, ev->body, err);
	if (!strcmp(kind, "phase"))
		add_phase(c, ev, now_us);
	else if (!strcmp(kind, "result"))
		keep_whole(&c->result, ev);
	else if (!strcmp(kind, "oom"))
		keep_whole(&c->oom, ev);
	else if (!strcmp(kind, "fail"))
		keep_whole(&c->fail, ev);
	else if (!strcmp(kind, "refused"))
		keep_whole(&c->refused, ev);
	else if (!strcmp(kind, "hello") && !c->facts)
		c->facts = json_incref(json_object_get(ev->body, "facts"));
	else if (!strcmp(kind, "mem") || !strcmp(kind, "peak"))
		if (check_memory(kind, ev->body, err))
			return TM_EINVALID;
	keep_event(c, c->result || c->oom || c->fail ? &last_word : &ordinary, ev->t_us, kind, ev->line, ev->line_n);
	return 0;
}
