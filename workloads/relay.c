#include "relay.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct relay {
	struct event_out *to;
	struct tm_str line;               /* being received */
	int64_t line_n;
	int64_t next, first;              /* next step's index; first counted one, -1: none yet */
	int64_t counted, tokens, samples;
	bool oom, fail, window;
	json_t *result;                   /* the program's own */
};

struct relay *relay_new(struct event_out *to)
{
	struct relay *r = tm_xcalloc(1, sizeof *r);

	r->to = to;
	r->first = -1;
	tm_str_init(&r->line);
	return r;
}

void relay_free(struct relay *r)
{
	if (!r)
		return;
	json_decref(r->result);
	tm_str_free(&r->line);
	free(r);
}

int64_t relay_last_step(const struct relay *r)
{
	return r->next - 1;
}

bool relay_said_oom(const struct relay *r)
{
	return r->oom;
}

bool relay_said_fail(const struct relay *r)
{
	return r->fail;
}

bool relay_said_window(const struct relay *r)
{
	return r->window;
}

/* ---- steps ------------------------------------------------------------------- */

/* Entry i of an optional list, in whole units, rounded up; absent: def. False: no such number. */
static bool amount(const json_t *list, size_t i, int64_t def, int64_t *out)
{
	const json_t *v = json_array_get(list, i);
	double d;

	*out = def;
	if (!list)
		return true;
	if (json_is_integer(v)) {
		*out = (int64_t)json_integer_value(v);
		return *out >= 0;
	}
	d = json_is_real(v) ? ceil(json_real_value(v)) : -1;
	if (!(d >= 0 && d < 9e15))
		return false;
	*out = (int64_t)d;
	return true;
}

static bool in_list(const json_t *list, int64_t step)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_integer_value(json_array_get(list, i)) == step)
			return true;
	return false;
}

static int one_step(struct relay *r, const json_t *body, size_t k, const char *phase, struct tm_err *err)
{
	const json_t *loss = json_array_get(json_object_get(body, "loss"), k), *scale = json_array_get(json_object_get(body, "scale"), k);
	struct event_step s = { .i = r->next, .phase = phase, .has_loss = json_is_number(loss) };
	int64_t live;

	if (!amount(json_object_get(body, "us"), k, 0, &s.us) ||
	    !amount(json_object_get(body, "tokens"), k, 0, &s.tokens) ||
	    !amount(json_object_get(body, "samples"), k, 0, &s.samples) ||
	    !amount(json_object_get(body, "live"), k, -1, &live))
		return tm_fail(err, TM_EINVALID, "step %" PRId64 ": us, tokens, samples and live are numbers, none negative", s.i);
	if (loss && !s.has_loss && !json_is_null(loss))
		return tm_fail(err, TM_EINVALID, "step %" PRId64 ": the loss is neither a number nor null", s.i);
	/* 0 and less stand for no scale at all in our own steps, so they may not pass as one */
	if (json_object_get(body, "scale") && !(json_number_value(scale) > 0))
		return tm_fail(err, TM_EINVALID, "step %" PRId64 ": the loss scale is no positive number", s.i);
	s.scale = json_number_value(scale);
	s.live = live < 0 ? EVENT_LIVE_UNKNOWN : (uint64_t)live;
	s.loss = json_number_value(loss);
	s.skipped = in_list(json_object_get(body, "skipped"), s.i);
	event_step(r->to, &s);
	r->next++;
	if (strcmp(phase, "warmup") == 0)
		return 0;
	if (r->first < 0)
		r->first = s.i;
	r->counted++;
	if (!s.skipped) {
		r->tokens += s.tokens;
		r->samples += s.samples;
	}
	return 0;
}

static const char *known_phase(const char *name)
{
	static const char *const names[] = { "warmup", "train", "eval" };

	for (size_t i = 0; i < TM_ARRAY_N(names); i++)
		if (strcmp(names[i], name) == 0)
			return names[i];
	return NULL;
}

static int take_steps(struct relay *r, const json_t *body, struct tm_err *err)
{
	static const char *const lists[] = { "tokens", "samples", "loss", "live" };
	const json_t *us = json_object_get(body, "us");
	const char *phase = known_phase(tm_json_str(body, "phase", "train"));
	size_t n = json_array_size(us);
	int rc = 0;

	if (!json_is_array(us))
		return tm_fail(err, TM_EINVALID, "a `steps` event needs a list `us`");
	if (!phase)
		return tm_fail(err, TM_EINVALID, "the phase of steps is warmup, train or eval");
	if (tm_json_i64(body, "i0", r->next) != r->next)
		return tm_fail(err, TM_EINVALID, "steps begin at %" PRId64 " where %" PRId64 " was due",
			       tm_json_i64(body, "i0", 0), r->next);
	for (size_t i = 0; i < TM_ARRAY_N(lists); i++) {
		const json_t *list = json_object_get(body, lists[i]);

		if (list && json_array_size(list) != n)
			return tm_fail(err, TM_EINVALID, "`%s` has %zu entries where `us` has %zu", lists[i],
				       json_array_size(list), n);
	}
	for (size_t k = 0; k < n && !rc; k++)
		rc = one_step(r, body, k, phase, err);
	event_flush(r->to);
	return rc;
}

/* ---- events ---------------------------------------------------------------------- */

static bool plain_word(const char *kind)
{
	return *kind && strlen(kind) <= 40 && strspn(kind, "abcdefghijklmnopqrstuvwxyz_0123456789") == strlen(kind);
}

static int pass_on(struct relay *r, const char *kind, json_t *body)
{
	r->oom |= strcmp(kind, "oom") == 0;
	r->fail |= strcmp(kind, "fail") == 0;
	r->window |= strcmp(kind, "phase") == 0 && strcmp(tm_json_str(body, "name", ""), "measure") == 0;
	event_send(r->to, kind, json_incref(body));
	return 0;
}

/*
 * Of a program in several processes the first one sends the result, and the
 * others end when they end. It is kept until the program is gone, so what they
 * still have to say comes before it all the same.
 */
static bool may_follow_result(const char *kind, const json_t *body)
{
	return tm_json_i64(body, "rank", 0) > 0 && strcmp(kind, "steps") != 0 && strcmp(kind, "result") != 0;
}

static int take_event(struct relay *r, json_t *body, struct tm_err *err)
{
	char kind[41];

	if (!json_is_object(body))
		return tm_fail(err, TM_EINVALID, "not an object");
	if (!plain_word(tm_json_str(body, "e", "")))
		return tm_fail(err, TM_EINVALID, "`e` is not the name of an event");
	snprintf(kind, sizeof kind, "%s", tm_json_str(body, "e", ""));
	if (r->result && !may_follow_result(kind, body))
		return tm_fail(err, TM_EINVALID, "something follows `result`");
	json_object_del(body, "e");
	json_object_del(body, "seq");
	json_object_del(body, "t_us");
	if (strcmp(kind, "hello") == 0)
		return 0;
	if (strcmp(kind, "steps") == 0)
		return take_steps(r, body, err);
	if (strcmp(kind, "result") == 0) {
		r->result = json_incref(body);
		return 0;
	}
	return pass_on(r, kind, body);
}

static int take_line(struct relay *r, struct tm_err *err)
{
	struct tm_err why = { 0 };
	json_t *body = NULL;
	int rc;

	r->line_n++;
	rc = tm_json_parse(r->line.s, r->line.n, &body, &why);
	if (!rc)
		rc = take_event(r, body, &why);
	json_decref(body);
	tm_str_reset(&r->line);
	return rc ? tm_fail(err, TM_EINVALID, "line %" PRId64 " of the program's events: %.500s", r->line_n, why.text) : 0;
}

int relay_feed(struct relay *r, const void *p, size_t n, struct tm_err *err)
{
	const char *s = p, *end = s + n;

	while (s < end) {
		const char *newline = memchr(s, '\n', (size_t)(end - s));
		const char *stop = newline ? newline : end;
		int rc;

		tm_str_addn(&r->line, s, (size_t)(stop - s));
		if (r->line.n >= EVENT_LINE_MAX)
			return tm_fail(err, TM_EINVALID, "line %" PRId64 " of the program's events is longer than %d bytes",
				       r->line_n + 1, EVENT_LINE_MAX);
		if (!newline)
			return 0;
		rc = take_line(r, err);
		if (rc)
			return rc;
		s = newline + 1;
	}
	return 0;
}

int relay_end(struct relay *r, struct tm_err *err)
{
	if (r->line.n)
		return tm_fail(err, TM_EINVALID, "the program's events end in the middle of line %" PRId64, r->line_n + 1);
	return 0;
}

/* ---- result -------------------------------------------------------------------------- */

/* A program that tells of no steps is one step. */
static void whole_run(struct relay *r, int64_t wall_us)
{
	struct event_step s = { .i = 0, .us = wall_us > 0 ? wall_us : 1, .live = EVENT_LIVE_UNKNOWN, .phase = "train" };

	event_step(r->to, &s);
	r->next = 1;
	r->first = 0;
	r->counted = 1;
}

static void set_missing(json_t *obj, const char *key, json_t *v)
{
	if (!json_object_get(obj, key))
		json_object_set(obj, key, v);
	json_decref(v);
}

json_t *relay_result(struct relay *r, int64_t wall_us)
{
	json_t *body = r->result ? json_deep_copy(r->result) : json_object(), *work;

	if (!r->next)
		whole_run(r, wall_us);
	set_missing(body, "metrics", json_object());
	set_missing(body, "settled", json_true());
	set_missing(body, "work", json_object());
	work = json_object_get(body, "work");
	set_missing(work, "steps", json_integer(r->counted));
	set_missing(work, "tokens", json_integer(r->tokens));
	set_missing(work, "samples", json_integer(r->samples));
	/* what was counted is not the program's to say */
	json_object_set_new(body, "steps", json_integer(r->counted));
	json_object_set_new(body, "first", json_integer(r->first < 0 ? r->next : r->first));
	return body;
}
