#include "spec/expand.h"

#include "base/mem.h"
#include "base/str.h"
#include "spec/short.h"

#include <string.h>

#define DEFAULT_MAX_POINTS 10000

struct walk {
	struct doc *doc;
	struct expansion *out;
	struct axis **axis;              /* axes, then the groups of zip, each standing for its first */
	uint64_t *index, *size;
	size_t n;
	const char **names;              /* what is swept or derived, to show excluded points by */
	size_t names_n;
	bool conf_warned;
};

static uint64_t limit_of(const struct doc *doc)
{
	return doc->req->max_points ? (uint64_t)doc->req->max_points : DEFAULT_MAX_POINTS;
}

/* The number of points before anything is allocated for them. */
static int product(struct doc *doc, uint64_t *out)
{
	struct place at = doc->axis_n ? doc->axes_at : doc->zip_n ? doc->zip[0].at : (struct place){ 0 };
	uint64_t n = 1, max = limit_of(doc);
	bool over = false;

	for (size_t i = 0; i < doc->axis_n; i++)
		over |= __builtin_mul_overflow(n, doc->axis[i].n, &n);
	for (size_t i = 0; i < doc->zip_n; i++)
		over |= __builtin_mul_overflow(n, doc->zip[i].n, &n);
	if (over || n > INT64_MAX)
		return diag_at(doc->diag, at, "axes: the product does not fit 64 bits; the limit is %s points",
			       diag_number(doc->diag, max));
	if (n > max)
		return diag_at(doc->diag, at, "axes: the product has %s points, more than the limit of %s; sweep fewer values, or raise it by --max-points",
			       diag_number(doc->diag, n), diag_number(doc->diag, max));
	*out = n;
	return 0;
}

static void fill_range(struct doc *doc, struct axis *x)
{
	const struct pdef *p = &doc->view[0]->w->p[x->param];
	struct pdef open = *p;

	if (x->v)
		return;
	open.has_min = open.has_max = false;     /* both ends were checked */
	x->v = arena_array(doc->a, x->n, sizeof *x->v);
	for (uint64_t i = 0; i < x->n; i++) {
		struct val v = x->lo;
		char why[200];

		/* from the start each time, so that reals do not drift; the end exactly as written */
		if (v.kind == VAL_INT)
			v.i = (int64_t)((uint64_t)x->lo.i + i * (uint64_t)x->step.i);
		else
			v.d = i + 1 == x->n ? x->hi.d : x->lo.d + (double)i * x->step.d;
		if (value_from_val(doc->a, &open, &v, x->at, &x->v[i], why, sizeof why))
			BUG("range: %s", why);
	}
}

/* Once: a short name of an allocator names alloc_conf, which may be an axis too. */
static void name_it(struct walk *w, const char *name)
{
	for (size_t i = 0; i < w->names_n; i++)
		if (!strcmp(w->names[i], name))
			return;
	w->names[w->names_n++] = name;
}

/* Of an axis with short names alloc_conf is swept too. */
static void name_axis(struct walk *w, const struct axis *x)
{
	const struct wdef *def = w->doc->view[0]->w;

	name_it(w, x->name);
	if (x->param != def->allocator || def->alloc_conf < 0)
		return;
	for (uint64_t i = 0; i < x->n; i++)
		if (short_find(w->doc->describe, x->v[i]->text)) {
			name_it(w, def->p[def->alloc_conf].name);
			return;
		}
}

static void prepare(struct walk *w)
{
	struct doc *doc = w->doc;
	size_t n = doc->axis_n + doc->zip_n, names = doc->axis_n + doc->view[0]->derive_n + 1;

	for (size_t i = 0; i < doc->zip_n; i++)
		names += doc->zip[i].axis_n;
	w->names = arena_array(doc->a, names + 1, sizeof *w->names);
	w->index = arena_array(doc->a, n + 1, sizeof *w->index);
	w->size = arena_array(doc->a, n + 1, sizeof *w->size);
	for (size_t i = 0; i < doc->axis_n; i++) {
		fill_range(doc, &doc->axis[i]);
		w->size[w->n++] = doc->axis[i].n;
		name_axis(w, &doc->axis[i]);
	}
	for (size_t i = 0; i < doc->zip_n; i++) {
		for (size_t k = 0; k < doc->zip[i].axis_n; k++) {
			fill_range(doc, &doc->zip[i].axis[k]);
			name_axis(w, &doc->zip[i].axis[k]);
		}
		w->size[w->n++] = doc->zip[i].n;
	}
	for (size_t i = 0; i < doc->view[0]->derive_n; i++)
		name_it(w, doc->view[0]->derive[i].name);
}

/* The next index vector, the last one fastest; false behind the end. */
static bool advance(struct walk *w)
{
	for (size_t i = w->n; i-- > 0;) {
		if (++w->index[i] < w->size[i])
			return true;
		w->index[i] = 0;
	}
	return false;
}

static void assign(const struct walk *w, const struct value **v)
{
	const struct doc *doc = w->doc;
	size_t k = 0;

	for (size_t i = 0; i < doc->axis_n; i++, k++)
		v[doc->axis[i].param] = doc->axis[i].v[w->index[k]];
	for (size_t i = 0; i < doc->zip_n; i++, k++)
		for (size_t j = 0; j < doc->zip[i].axis_n; j++)
			v[doc->zip[i].axis[j].param] = doc->zip[i].axis[j].v[w->index[k]];
}

static bool is_derived(const struct view *view, size_t param)
{
	for (size_t i = 0; i < view->derive_n; i++)
		if (view->derive[i].param == (int)param)
			return true;
	return false;
}

/* Fills what is neither given nor derived; a parameter without a default must be given. */
static int fill(struct walk *w, const struct view *view, const struct value **v, struct place at)
{
	int rc = 0;

	for (size_t i = 0; i < view->w->n; i++) {
		if (v[i] || is_derived(view, i))
			continue;
		v[i] = view->set[i] ? view->set[i] : view->w->p[i].def;
		if (!v[i])
			rc = diag_at(w->doc->diag, at, "%s: must be given; %s has no default for it (expected %s)",
				     view->w->p[i].name, view->w->name, value_expected(w->doc->diag, &view->w->p[i]));
	}
	return rc;
}

static int derive(struct walk *w, const struct view *view, const struct value **v)
{
	for (size_t i = 0; i < view->derive_n; i++) {
		const struct derived *d = &view->derive[i];
		struct val val;
		char why[300];

		if (v[d->param])
			continue;        /* an include entry gives it */
		if (formula_eval(w->doc, &d->f, view->w, v, &val))
			return TM_ESPEC;
		if (value_from_val(w->doc->a, &view->w->p[d->param], &val, d->f.node->at, &v[d->param], why, sizeof why))
			return formula_fail(w->doc, d->f.node, 1, why);
	}
	return 0;
}

/* Every parameter of a point, short names of allocators resolved. */
static int complete(struct walk *w, const struct view *view, const struct value **v, struct place at)
{
	const struct shorthand *brief;
	int rc = fill(w, view, v, at);

	if (rc)
		return rc;
	/* before derive, whose formulas are to see what stands in the point; behind it for an allocator that is derived */
	brief = short_take(w->doc, view->w, v);
	rc = derive(w, view, v);
	if (!brief)
		brief = short_take(w->doc, view->w, v);
	if (!rc && brief)
		rc = short_add(w->doc, view->w, v, brief);
	return rc;
}

/* Options for an allocator that reads none change nothing: such points are the same point. */
static void drop_unread_conf(struct walk *w, const struct wdef *def, const struct value **v)
{
	const struct value *conf;

	if (def->alloc_conf < 0 || def->allocator < 0 || !def->p[def->alloc_conf].def ||
	    schema_allocator_conf(w->doc->describe, v[def->allocator]->text))
		return;
	conf = v[def->alloc_conf];
	if (!*conf->text || conf == def->p[def->alloc_conf].def)
		return;
	if (!w->conf_warned && conf->at.line + diag_is_flag(w->doc->diag, conf->at))
		diag_warn(w->doc->diag, "alloc_conf (%s) is not read by allocator %s; those points run without it",
			  diag_origin(w->doc->diag, conf->at), v[def->allocator]->text);
	w->conf_warned |= conf->at.line + diag_is_flag(w->doc->diag, conf->at);
	v[def->alloc_conf] = def->p[def->alloc_conf].def;
}

static int exclude_because(struct walk *w, const struct wdef *def, const struct value **v, const char *why, struct place at)
{
	struct expansion *out = w->out;
	struct tm_str shown = TM_STR_INIT;

	out->excluded = arena_grow(w->doc->a, out->excluded, out->excluded_n, &out->excluded_cap, sizeof *out->excluded);
	point_shown(def, v, w->names, w->names_n, false, &shown);
	out->excluded[out->excluded_n++] = (struct spec_excluded){
		.shown = arena_strn(w->doc->a, shown.s, shown.n), .why = arena_str(w->doc->a, why), .line = at.line,
	};
	tm_str_free(&shown);
	return 0;
}

static int choose_pass(struct walk *w, const struct wdef *def, const struct value **v, const struct pass **out)
{
	*out = NULL;
	for (size_t i = 0; i < w->doc->pass_n && !*out; i++) {
		struct pass *pass = &w->doc->pass[i];
		bool take = true;

		if (pass->only.e && formula_true(w->doc, &pass->only, def, v, &take))
			return TM_ESPEC;
		if (take)
			*out = pass;
	}
	return 0;
}

/* A point that is complete: the last decision is which pass measures it. */
static int keep(struct walk *w, const struct view *view, const struct value **v, struct place from)
{
	struct expansion *out = w->out;
	const struct pass *pass;

	drop_unread_conf(w, view->w, v);
	if (choose_pass(w, view->w, v, &pass))
		return TM_ESPEC;
	if (!pass)
		return exclude_because(w, view->w, v, "no pass of measure takes it (only)", w->doc->pass[0].only.node->at);
	out->c = arena_grow(w->doc->a, out->c, out->n, &out->cap, sizeof *out->c);
	out->c[out->n++] = (struct cand){ .w = view->w, .v = v, .pass = pass, .from = from };
	return 0;
}

static int one_of_product(struct walk *w)
{
	struct doc *doc = w->doc;
	const struct view *view = doc->view[0];
	const struct value **v = arena_array(doc->a, view->w->n + 1, sizeof *v);
	struct place from = doc->axis_n ? doc->axes_at : node_get(doc->root, "workload")->at;
	int rc;

	assign(w, v);
	rc = complete(w, view, v, node_get(doc->root, "workload")->at);
	if (rc)
		return rc;
	w->out->derived++;
	for (size_t i = 0; i < doc->exclude_n; i++) {
		const struct exclusion *x = &doc->exclude[i];
		bool hit;

		if (formula_true(doc, &x->when, view->w, v, &hit))
			return TM_ESPEC;
		if (hit)
			return exclude_because(w, view->w, v, x->why, x->when.node->at);
	}
	return keep(w, view, v, from);
}

static int include(struct walk *w)
{
	struct doc *doc = w->doc;

	for (size_t i = 0; i < doc->include_n; i++) {
		const struct inclusion *inc = &doc->include[i];
		int rc = complete(w, inc->view, inc->v, inc->at);

		if (!rc)
			rc = keep(w, inc->view, inc->v, inc->at);
		if (rc)
			return rc;
	}
	if (w->out->n > limit_of(doc))
		return diag_at(doc->diag, doc->include[0].at, "include: %s points in all, more than the limit of %s; raise it by --max-points",
			       diag_number(doc->diag, w->out->n), diag_number(doc->diag, limit_of(doc)));
	return 0;
}

static uint64_t leading_bits(const char *hex)
{
	uint64_t v = 0;

	for (size_t i = 0; i < 15; i++)
		v = v * 16 + (uint64_t)(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
	return v;
}

/* Keeps the first of each hash. */
static void merge(struct doc *doc, struct expansion *out)
{
	size_t slots = 16, kept = 0;
	uint32_t *table;

	while (slots < out->n * 2)
		slots *= 2;
	table = arena_array(doc->a, slots, sizeof *table);       /* index + 1 */
	for (size_t i = 0; i < out->n; i++) {
		uint64_t h;
		size_t s;

		point_hash(&out->c[i]);
		h = leading_bits(out->c[i].hash);
		for (s = h & (slots - 1); table[s] && strcmp(out->c[table[s] - 1].hash, out->c[i].hash); s = (s + 1) & (slots - 1))
			;
		if (table[s])
			continue;
		out->c[kept] = out->c[i];
		table[s] = (uint32_t)++kept;
	}
	out->n = kept;
}

static int filter(struct doc *doc, struct expansion *out)
{
	size_t kept = 0;

	for (size_t i = 0; i < out->n; i++) {
		const struct cand *c = &out->c[i];
		bool take = true, drop = false;

		if (doc->only.e && formula_true(doc, &doc->only, c->w, c->v, &take))
			return TM_ESPEC;
		if (doc->skip.e && formula_true(doc, &doc->skip, c->w, c->v, &drop))
			return TM_ESPEC;
		if (take && !drop)
			out->c[kept++] = *c;
	}
	out->n = kept;
	return 0;
}

int expand(struct doc *doc, struct expansion *out)
{
	struct walk w = { .doc = doc, .out = out };
	uint64_t n = 0;
	int rc = product(doc, &n);

	if (rc)
		return rc;
	prepare(&w);
	out->product = n;
	do {
		rc = one_of_product(&w);
		if (rc)
			return rc;
	} while (advance(&w));
	out->left = out->n;
	rc = include(&w);
	if (rc)
		return rc;
	out->included = out->n;
	merge(doc, out);
	out->merged = out->n;
	rc = filter(doc, out);
	out->filtered = out->n;
	if (!rc && !out->n)
		rc = diag_at(doc->diag, node_get(doc->root, "workload")->at,
			     "no point is left: %zu of the product, %zu after exclude, %zu after include, 0 after --only and --skip",
			     out->product, out->left, out->included);
	return rc;
}
