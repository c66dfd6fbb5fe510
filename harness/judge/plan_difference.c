#include "judge/plan_difference.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct held {
	int64_t blocks, bytes;
};

struct tensor {
	const char *name, *op, *category;
	struct held planned, ran;
};

struct tensors {
	struct tensor *v;
	size_t n;
};

/* What stands for all that a list does not name. */
static bool is_rest(const char *name, const char *op)
{
	return strcmp(name, "other") == 0 && !*op;
}

static bool is_cut(const json_t *list)
{
	const json_t *last = json_array_get(list, json_array_size(list) - 1);

	return last && is_rest(tm_json_str(last, "name", ""), tm_json_str(last, "op", ""));
}

static struct tensor *find(struct tensors *t, const char *name, const char *op, const char *category)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->v[i].name, name) && !strcmp(t->v[i].op, op) && !strcmp(t->v[i].category, category))
			return &t->v[i];
	t->v = tm_xrealloc_n(t->v, t->n + 1, sizeof *t->v);
	t->v[t->n] = (struct tensor){ .name = name, .op = op, .category = category };
	return &t->v[t->n++];
}

static void enter(struct tensors *t, const json_t *list, bool ran)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)list, i, one) {
		struct tensor *at = find(t, tm_json_str(one, "name", ""), tm_json_str(one, "op", ""),
					 tm_json_str(one, "category", ""));
		struct held *held = ran ? &at->ran : &at->planned;

		held->blocks += tm_json_i64(one, "blocks", 0);
		held->bytes += tm_json_i64(one, "bytes", 0);
	}
}

/* What only one list names, where the other was cut, belongs to the other's rest. */
static void fold(struct tensors *t, bool planned_cut, bool ran_cut)
{
	struct tensor *rest = find(t, "other", "", "");
	size_t at = (size_t)(rest - t->v);

	for (size_t i = 0; i < t->n; i++) {
		struct tensor *x = &t->v[i];

		if (i == at || !((planned_cut && !x->planned.blocks) || (ran_cut && !x->ran.blocks)))
			continue;
		t->v[at].planned.blocks += x->planned.blocks;
		t->v[at].planned.bytes += x->planned.bytes;
		t->v[at].ran.blocks += x->ran.blocks;
		t->v[at].ran.bytes += x->ran.bytes;
		x->planned = x->ran = (struct held){ 0 };
	}
}

static int64_t gap(const struct tensor *t)
{
	int64_t d = t->ran.bytes - t->planned.bytes;

	return d < 0 ? -d : d;
}

static int by_gap(const void *a, const void *b)
{
	const struct tensor *x = a, *y = b;

	if (gap(x) != gap(y))
		return gap(x) < gap(y) ? 1 : -1;
	return strcmp(x->name, y->name);
}

static void add_held(struct tm_str *out, const struct held *h)
{
	char size[32];

	if (!h->blocks)
		tm_str_add(out, "none");
	else
		tm_str_addf(out, "%" PRId64 " block%s of %s in all", h->blocks, h->blocks == 1 ? "" : "s",
			    tm_size_text((double)h->bytes, size));
}

static void add_line(struct tm_str *out, const struct tensor *t)
{
	if (is_rest(t->name, t->op))
		tm_str_add(out, "tensors that are not named");
	else
		tm_str_addf(out, "%s of %s (%s)", t->name, t->op, t->category);
	tm_str_add(out, ": the run held ");
	add_held(out, &t->ran);
	tm_str_add(out, " at its peak, planned ");
	tm_str_add(out, t->planned.blocks ? "were " : "was ");
	add_held(out, &t->planned);
	tm_str_addc(out, '\n');
}

size_t plan_difference(const json_t *planned, const json_t *ran, struct tm_str *out)
{
	bool planned_cut = is_cut(planned), ran_cut = is_cut(ran);
	struct tensors t = { 0 };
	size_t n = 0;

	enter(&t, planned, false);
	enter(&t, ran, true);
	if (planned_cut || ran_cut)
		fold(&t, planned_cut, ran_cut);
	qsort(t.v, t.n, sizeof *t.v, by_gap);
	for (size_t i = 0; i < t.n; i++) {
		if (t.v[i].planned.blocks == t.v[i].ran.blocks && t.v[i].planned.bytes == t.v[i].ran.bytes)
			continue;
		add_line(out, &t.v[i]);
		n++;
	}
	free(t.v);
	return n;
}
