#include "equals.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "judge/equal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum state { WAITING, COMPUTED, OUT };    /* not done; ok, with losses; ended otherwise */

struct equals_member {
	int64_t run_id, rep;
	char group[65];
	size_t defaults_n;                /* parameters that change no number and are at their default */
	enum state state;
	bool checked;                     /* against the reference, and equal */
	char *workload, *label;
	json_t *params;
};

/* ---- who belongs together ------------------------------------------------------ */

/* Only our own operators promise bits; a program of exec on a CPU promises nothing. */
static bool is_deterministic(const struct describe *d, const char *workload, const json_t *params)
{
	if (!describe_uses(d, workload, "device"))
		return false;
	return !strcmp(tm_json_str(params, "device", ""), "cpu") || json_is_true(json_object_get(params, "deterministic"));
}

static size_t count_defaults(const struct describe *d, const char *workload, const json_t *params)
{
	size_t n, same = 0;
	const char *const *names = spec_same_numbers(d, workload, &n);

	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_object_get(params, names[i]);

		same += !v || json_equal(v, json_object_get(describe_param(d, workload, names[i]), "default"));
	}
	return same;
}

static enum state state_of(const char *status)
{
	if (!strcmp(status, "ok"))
		return COMPUTED;
	return !strcmp(status, "pending") || !strcmp(status, "running") || !strcmp(status, "interrupted") ? WAITING : OUT;
}

static int by_group(const void *a, const void *b)
{
	const struct equals_member *x = a, *y = b;
	int c = strcmp(x->group, y->group);

	if (c)
		return c;
	if (x->defaults_n != y->defaults_n)
		return x->defaults_n > y->defaults_n ? -1 : 1;
	c = strcmp(x->label, y->label);
	if (c)
		return c;
	return x->rep < y->rep ? -1 : x->rep > y->rep;
}

static int add_member(struct equals *e, const struct store_sweep_run *r, struct tm_err *err)
{
	struct equals_member *m = &e->v[e->n];
	json_t *params = NULL;
	int rc = tm_json_parse(r->params, strlen(r->params), &params, err);

	if (rc)
		return rc;
	if (!is_deterministic(e->describe, r->workload, params)) {
		json_decref(params);
		return 0;
	}
	*m = (struct equals_member){
		.run_id = r->run_id, .rep = r->rep, .state = state_of(r->status),
		.defaults_n = count_defaults(e->describe, r->workload, params),
		.workload = tm_xstrdup(r->workload), .label = tm_xstrdup(r->label), .params = params,
	};
	spec_numbers_hash(e->describe, r->workload, params, m->group);
	e->n++;
	return 0;
}

int equals_init(struct equals *e, struct store *store, const struct describe *d, int64_t sweep_id, struct tm_err *err)
{
	struct store_sweep_run *runs;
	size_t n;
	int rc;

	*e = (struct equals){ .store = store, .describe = d };
	rc = store_sweep_runs(store, sweep_id, &runs, &n, err);
	if (rc)
		return rc;
	e->v = tm_xcalloc(n + 1, sizeof *e->v);
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_member(e, &runs[i], err);
	qsort(e->v, e->n, sizeof *e->v, by_group);
	store_sweep_runs_free(runs, n);
	return rc;
}

void equals_fini(struct equals *e)
{
	for (size_t i = 0; i < e->n; i++) {
		free(e->v[i].workload);
		free(e->v[i].label);
		json_decref(e->v[i].params);
	}
	free(e->v);
	*e = (struct equals){ 0 };
}

/* The members of one group, and the run in question among them. */
struct group { struct equals_member *v, *self; size_t n; };

static bool find_group(struct equals *e, int64_t run_id, struct group *g)
{
	for (size_t i = 0; i < e->n; i++) {
		size_t from = i, to = i + 1;

		if (e->v[i].run_id != run_id)
			continue;
		while (from && !strcmp(e->v[from - 1].group, e->v[i].group))
			from--;
		while (to < e->n && !strcmp(e->v[to].group, e->v[i].group))
			to++;
		*g = (struct group){ .v = e->v + from, .n = to - from, .self = &e->v[i] };
		return true;
	}
	return false;
}

/* NULL while a better one may still come. */
static struct equals_member *reference_of(const struct group *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->v[i].state != OUT)
			return g->v[i].state == COMPUTED ? &g->v[i] : NULL;
	return NULL;
}

/* ---- what a run showed ----------------------------------------------------------- */

struct shown {
	struct judge_trail trail;
	double *loss;                     /* owned; NULL: the collector's */
	struct judge_grad *grads;
	json_t **docs;                    /* the texts of grads live here */
	size_t cap;
};

static void add_gradient(struct shown *s, const char *json)
{
	json_t *doc;

	if (tm_json_parse(json, strlen(json), &doc, NULL))
		return;
	if (s->trail.grad_n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 32;
		s->grads = tm_xrealloc_n(s->grads, s->cap, sizeof *s->grads);
		s->docs = tm_xrealloc_n(s->docs, s->cap, sizeof *s->docs);
	}
	s->docs[s->trail.grad_n] = doc;
	s->grads[s->trail.grad_n++] = (struct judge_grad){ .step = tm_json_i64(doc, "step", -1), .hash = tm_json_str(doc, "hash", "") };
	s->trail.grads = s->grads;
}

static int on_gradient(void *arg, int n, const char *const *values, const int *types)
{
	(void)n;
	(void)types;
	add_gradient(arg, values[0]);
	return 0;
}

static void show_collected(struct shown *s, const struct collect *c)
{
	*s = (struct shown){ .trail = { .loss = c->steps.loss, .n = c->steps.n } };
	for (size_t i = 0; i < c->event_n; i++)
		if (!strcmp(c->events[i].kind, "grad"))
			add_gradient(s, c->events[i].json);
}

static int show_stored(struct shown *s, struct store *store, int64_t run_id, struct tm_err *err)
{
	static const char sql[] = "SELECT json FROM event WHERE run_id = ?1 AND kind = 'grad' ORDER BY rowid";
	struct store_sink sink = { .row = on_gradient, .arg = s };
	struct tm_err none = { 0 };
	char id[24];
	const char *const args[] = { id };
	int rc;

	*s = (struct shown){ 0 };
	snprintf(id, sizeof id, "%" PRId64, run_id);
	rc = store_series(store, run_id, "loss", &s->loss, &s->trail.n, &none);
	s->trail.loss = s->loss;
	if (rc && rc != TM_ENOTFOUND) {
		if (err)
			*err = none;
		return rc;
	}
	return store_query(store, sql, args, 1, &sink, err);
}

static void shown_free(struct shown *s)
{
	for (size_t i = 0; i < s->trail.grad_n; i++)
		json_decref(s->docs[i]);
	free(s->docs);
	free(s->grads);
	free(s->loss);
}

/* ---- verdicts ---------------------------------------------------------------------- */

/* A parameter that is newer than the stored run had its default. */
static const json_t *value_of(const struct describe *d, const struct equals_member *m, const char *name)
{
	const json_t *v = json_object_get(m->params, name);

	return v ? v : json_object_get(describe_param(d, m->workload, name), "default");
}

static void add_value(const struct describe *d, const struct equals_member *m, const char *name, struct tm_str *out)
{
	const json_t *about = describe_param(d, m->workload, name), *v = value_of(d, m, name);
	char size[32];

	tm_str_addf(out, "%s%s: ", out->n ? ", " : "", name);
	if (json_is_string(v))
		tm_str_add(out, json_string_value(v));
	else if (json_is_integer(v) && !strcmp(tm_json_str(about, "type", ""), "size"))
		tm_str_add(out, tm_size_exact((uint64_t)json_integer_value(v), size));
	else
		tm_json_canonical(v, out);
}

/* "checkpoint: none, allocator: raw": what the reference has and this one has not. */
static void name_reference(const struct describe *d, const struct equals_member *m, const struct equals_member *ref, struct tm_str *out)
{
	size_t n;
	const char *const *names = spec_same_numbers(d, m->workload, &n);

	for (size_t i = 0; i < n; i++)
		if (!json_equal(value_of(d, m, names[i]), value_of(d, ref, names[i])))
			add_value(d, ref, names[i], out);
	if (!out->n)
		tm_str_addf(out, "its repetition %" PRId64, ref->rep);
}

/* True: equal. Else why not, to be freed. */
static bool agrees(const struct equals *e, const struct equals_member *m, const struct shown *here,
		   const struct equals_member *ref, const struct shown *there, char **reason)
{
	struct tm_str name = TM_STR_INIT, text = TM_STR_INIT;
	struct judge_difference diff;

	judge_compare(&here->trail, &there->trail, &diff);
	if (diff.step < 0)
		return true;
	name_reference(e->describe, m, ref, &name);
	judge_difference_text(&diff, name.s, &text);
	*reason = tm_str_detach(&text);
	tm_str_free(&name);
	return false;
}

static void add_withdrawal(struct equals_verdict *out, const struct equals_member *m, char *reason)
{
	size_t n = out->withdrawn_n++;

	out->withdrawn = tm_xrealloc_n(out->withdrawn, n + 1, sizeof *out->withdrawn);
	out->label = tm_xrealloc_n(out->label, n + 1, sizeof *out->label);
	out->withdrawn[n] = (struct store_withdrawal){ .run_id = m->run_id, .cause = EQUALS_CAUSE, .reason = reason };
	out->label[n] = m->label;
}

/* Those not checked so far against the reference; c: what the run in question reported. */
static int check_all(struct equals *e, const struct group *g, struct equals_member *ref, const struct collect *c,
		     struct equals_verdict *out, struct tm_err *err)
{
	struct shown there;
	int rc = 0;

	if (ref == g->self)
		show_collected(&there, c);
	else
		rc = show_stored(&there, e->store, ref->run_id, err);
	for (size_t i = 0; !rc && i < g->n; i++) {
		struct equals_member *m = &g->v[i];
		struct shown here;
		char *reason = NULL;

		if (m == ref || m->checked || m->state != COMPUTED)
			continue;
		if (m == g->self)
			show_collected(&here, c);
		else
			rc = show_stored(&here, e->store, m->run_id, err);
		if (!rc && agrees(e, m, &here, ref, &there, &reason)) {
			m->checked = true;
		} else if (!rc) {
			m->state = OUT;
			if (m == g->self)
				out->reason = reason;
			else
				add_withdrawal(out, m, reason);
		}
		shown_free(&here);
	}
	shown_free(&there);
	return rc;
}

int equals_end(struct equals *e, int64_t run_id, const char *status, const struct collect *c,
	       struct equals_verdict *out, struct tm_err *err)
{
	struct equals_member *ref;
	struct group g;

	*out = (struct equals_verdict){ 0 };
	if (!find_group(e, run_id, &g))
		return 0;
	g.self->state = state_of(status);
	BUG_ON(g.self->state == COMPUTED && !c);
	ref = g.n > 1 ? reference_of(&g) : NULL;
	return ref ? check_all(e, &g, ref, c, out, err) : 0;
}

void equals_verdict_free(struct equals_verdict *v)
{
	for (size_t i = 0; i < v->withdrawn_n; i++)
		free((char *)v->withdrawn[i].reason);
	free(v->withdrawn);
	free(v->label);
	free(v->reason);
	*v = (struct equals_verdict){ 0 };
}
