#include "spec/spec.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "spec/extends.h"
#include "spec/load.h"
#include "spec/yaml.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the tree ---------------------------------------------------------------- */

/* `tidemark run gpt`: the document that says nothing but the workload. */
static struct node *bare_tree(struct arena *a, struct diag *d, const char *workload)
{
	struct place at = { diag_source(d, "default", false), 0, 0 };
	struct node *root = node_new(a, NODE_MAP, at);

	node_put(a, root, node_scalar(a, at, "tidemark", 8), node_scalar(a, at, "1", 1));
	node_put(a, root, node_scalar(a, at, "workload", 8), node_scalar(a, at, workload, strlen(workload)));
	return root;
}

static int no_such_spec(struct diag *d, const char *name, const struct describe *describe)
{
	struct place at = { diag_source(d, name, false), 0, 0 };

	return diag_at(d, at, "no such file, and no workload of that name; workloads are %s%s",
		       diag_list(d, describe->workload_names, describe->n),
		       diag_near(d, name, describe->workload_names, describe->n));
}

struct origin { struct doc *doc; json_t *out; char path[600]; };

/* A leaf is a scalar, a list, or a mapping below the level that has names of its own. */
static void add_origin(struct origin *o, const struct node *map, size_t depth, size_t path_n)
{
	for (size_t i = 0; i < map->n; i++) {
		const struct pair *p = &map->pair[i];
		int n = snprintf(o->path + path_n, sizeof o->path - path_n, "%s%s", path_n ? "." : "", p->key->text);

		if (n < 0 || path_n + (size_t)n >= sizeof o->path)
			continue;
		if (p->value->kind == NODE_MAP && depth < 3)
			add_origin(o, p->value, depth + 1, path_n + (size_t)n);
		else
			json_object_set_new(o->out, o->path, json_string(diag_origin(o->doc->diag, p->key->at)));
	}
}

static void add_default(struct origin *o, const char *key, const char *text)
{
	if (!json_object_get(o->out, key))
		json_object_set_new(o->out, key, json_string(text));
}

static json_t *origins(struct doc *doc)
{
	static const char *const others[] = {
		"measure.reps", "measure.warmup", "measure.steps", "measure.order", "limits.wall", "limits.silent",
		"limits.host", "limits.sweep", "allow",
	};
	struct origin o = { .doc = doc, .out = json_object() };
	const struct view *view = doc->view[0];

	add_origin(&o, doc->root, 0, 0);
	for (size_t i = 0; i < view->w->n; i++) {
		const char *name = view->w->p[i].name;
		char key[300];
		bool swept = false;

		for (size_t k = 0; k < doc->axis_n; k++)
			swept |= doc->axis[k].param == (int)i;
		for (size_t k = 0; k < doc->zip_n; k++)
			for (size_t j = 0; j < doc->zip[k].axis_n; j++)
				swept |= doc->zip[k].axis[j].param == (int)i;
		for (size_t k = 0; k < view->derive_n; k++)
			swept |= view->derive[k].param == (int)i;
		snprintf(key, sizeof key, "set.%s", name);
		if (!swept)
			add_default(&o, key, view->set[i] ? diag_origin(doc->diag, view->set[i]->at) : "default");
	}
	for (size_t i = doc->pass_n > 1 || strcmp(doc->pass[0].name ? doc->pass[0].name : "measure", "measure") ? 4 : 0;
	     i < TM_ARRAY_N(others); i++)
		add_default(&o, others[i], "default");
	if (doc->req->reps)
		json_object_set_new(o.out, "measure.reps", json_string("flag --reps"));
	if (doc->req->order)
		json_object_set_new(o.out, "measure.order", json_string("flag --order"));
	return o.out;
}

/* ---- the result ---------------------------------------------------------------- */

static char *detached(struct tm_str *str)
{
	return str->n ? tm_str_detach(str) : tm_xstrdup("");
}

/* Beyond this many bytes a name fits no line of progress and no table: then only what is not at its default is said. */
#define SHOWN_LONG_N 100

static void show_points(const struct expansion *ex, bool mixed, bool brief, struct spec *s, size_t *longest)
{
	*longest = 0;
	for (size_t i = 0; i < s->n; i++) {
		const struct cand *c = &ex->c[i];
		struct tm_str str = TM_STR_INIT;

		if (mixed)
			tm_str_addf(&str, "workload=%s", c->w->name);
		point_shown(c->w, c->v, (const char *const *)s->varying, s->varying_n, brief, &str);
		if (!str.n)
			tm_str_add(&str, brief ? "defaults" : s->points[i].label);
		*longest = str.n > *longest ? str.n : *longest;
		free(s->points[i].shown);
		s->points[i].shown = tm_str_detach(&str);
	}
}

static void build_point(const struct cand *c, struct spec_point *p)
{
	struct tm_str str = TM_STR_INIT;

	point_label(c, &str);
	p->label = detached(&str);
	point_params(c, &str);
	p->params = detached(&str);
	p->workload = c->w->name;
	memcpy(p->hash, c->hash, sizeof p->hash);
	memcpy(p->hash_anywhere, c->hash_anywhere, sizeof p->hash_anywhere);
	p->measure = c->pass->m;
	p->line = c->from.line;
	p->column = c->from.column;
}

static int64_t sweep_seed(const struct doc *doc)
{
	const struct view *view = doc->view[0];
	const struct value *v = view->w->seed >= 0 ? view->set[view->w->seed] : NULL;

	if (doc->req->has_seed)
		return doc->req->seed;
	if (!v && view->w->seed >= 0)
		v = view->w->p[view->w->seed].def;
	return v && v->v.kind == VAL_INT ? v->v.i : 1;
}

static void copy_excluded(struct spec *s, const struct expansion *ex)
{
	s->excluded = tm_xcalloc(ex->excluded_n + 1, sizeof *s->excluded);
	for (; s->excluded_n < ex->excluded_n; s->excluded_n++) {
		s->excluded[s->excluded_n] = (struct spec_excluded){
			.shown = tm_xstrdup(ex->excluded[s->excluded_n].shown), .why = tm_xstrdup(ex->excluded[s->excluded_n].why),
			.line = ex->excluded[s->excluded_n].line,
		};
	}
}

static struct spec *build(struct doc *doc, const struct expansion *ex, const char *path, const char *source)
{
	struct spec *s = tm_xcalloc(1, sizeof *s);
	const char **names;
	size_t longest;
	bool mixed = false;

	s->path = tm_xstrdup(path);
	s->suite = tm_xstrdup(doc->suite);
	s->workload = tm_xstrdup(doc->view[0]->w->name);
	s->title = tm_xstrdup(doc->title);
	s->source = tm_xstrdup(source);
	s->limits = doc->limits;
	s->allow = doc->allow;
	s->order = doc->order < 0 ? SPEC_INTERLEAVED : (enum spec_order)doc->order;
	if (doc->req->order)
		s->order = strcmp(doc->req->order, "listed") ? SPEC_INTERLEAVED : SPEC_LISTED;
	s->seed = sweep_seed(doc);
	s->report_dir = doc->report_dir ? tm_xstrdup(doc->report_dir) : NULL;
	s->gates = json_incref(doc->gates);
	s->history = json_incref(doc->history);
	s->card = json_incref(doc->card);
	names = point_varying(doc->a, ex->c, ex->n, &s->varying_n);
	s->varying = tm_xcalloc(s->varying_n + 1, sizeof *s->varying);
	for (size_t i = 0; i < s->varying_n; i++)
		s->varying[i] = tm_xstrdup(names[i]);
	for (size_t i = 0; i < ex->n; i++)
		mixed |= ex->c[i].w != ex->c[0].w;
	s->points = tm_xcalloc(ex->n, sizeof *s->points);
	for (; s->n < ex->n; s->n++)
		build_point(&ex->c[s->n], &s->points[s->n]);
	show_points(ex, mixed, false, s, &longest);
	if (longest > SHOWN_LONG_N)
		show_points(ex, mixed, true, s, &longest);
	copy_excluded(s, ex);
	s->count.product = ex->product;
	s->count.derived = ex->derived;
	s->count.excluded = ex->left;
	s->count.included = ex->included;
	s->count.merged = ex->merged;
	s->count.filtered = ex->filtered;
	s->warnings = tm_xcalloc(doc->diag->warning_n + 1, sizeof *s->warnings);
	for (; s->warning_n < doc->diag->warning_n; s->warning_n++)
		s->warnings[s->warning_n] = tm_xstrdup(doc->diag->warning[s->warning_n]);
	s->origin = origins(doc);
	settings_sha(s);
	return s;
}

void spec_free(struct spec *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		free(s->points[i].label);
		free(s->points[i].shown);
		free(s->points[i].params);
	}
	for (size_t i = 0; i < s->excluded_n; i++) {
		free(s->excluded[i].shown);
		free(s->excluded[i].why);
	}
	for (size_t i = 0; i < s->varying_n; i++)
		free(s->varying[i]);
	for (size_t i = 0; i < s->warning_n; i++)
		free(s->warnings[i]);
	free(s->points);
	free(s->excluded);
	free(s->varying);
	free(s->warnings);
	free(s->path);
	free(s->suite);
	free(s->workload);
	free(s->title);
	free(s->source);
	free(s->report_dir);
	json_decref(s->labels);
	json_decref(s->gates);
	json_decref(s->history);
	json_decref(s->card);
	json_decref(s->origin);
	free(s);
}

/* ---- loading ---------------------------------------------------------------------- */

/* "configs/smoke.yaml" is the suite smoke. */
static const char *suite_of(struct arena *a, const char *path)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	size_t n = strlen(base);

	if (tm_ends_with(base, ".yaml"))
		n -= 5;
	else if (tm_ends_with(base, ".yml"))
		n -= 4;
	return n ? arena_strn(a, base, n) : "unnamed";
}

struct input {
	const struct spec_request *req;
	const char *name, *dir, *text;   /* text NULL: open name */
	size_t n;
	const struct describe *describe;
	const struct spec_checker *check;
};

static int load_tree(const struct input *in, struct arena *a, struct diag *d, struct tm_str *source, struct node **root)
{
	bool file = strchr(in->name, '/') || tm_ends_with(in->name, ".yaml") || tm_ends_with(in->name, ".yml");
	int rc;

	if (in->text) {
		tm_str_addn(source, in->text, in->n);
		rc = extends_load_text(a, d, in->name, in->dir, in->text, in->n, root);
	} else if (!file && schema_workload(in->describe, in->name)) {
		*root = bare_tree(a, d, in->name);
		rc = 0;
	} else if (!tm_path_exists(in->name)) {
		rc = no_such_spec(d, in->name, in->describe);
	} else {
		rc = extends_load(a, d, in->name, source, root);
	}
	if (!rc && (*root)->kind != NODE_MAP)
		rc = diag_at(d, (*root)->at, "a spec is a mapping that begins with 'tidemark: 1', not %s", node_kind_name(*root));
	return rc ? rc : flags_apply(a, d, in->req, in->describe, root);
}

static int load(const struct input *in, struct spec **out, struct tm_errs *errs)
{
	size_t before = errs->n;
	struct arena a = { 0 };
	struct diag d;
	struct doc doc = { .describe = in->describe, .a = &a, .diag = &d, .req = in->req };
	struct expansion ex = { 0 };
	struct tm_str source = TM_STR_INIT;
	struct node *root = NULL;
	json_t *labels = NULL;
	struct spec *s = NULL;
	int rc;

	*out = NULL;
	diag_init(&d, errs);
	rc = flags_check(&d, in->req);
	if (!rc)
		rc = flags_labels(&d, in->req, &labels);
	if (!rc)
		rc = load_tree(in, &a, &d, &source, &root);
	if (rc)
		goto out;
	doc.root = root;
	doc.suite = suite_of(&a, in->name);
	doc_read(&doc);
	rc = errs->n > before ? TM_ESPEC : expand(&doc, &ex);
	if (rc)
		goto out;
	s = build(&doc, &ex, in->name, source.s);
	s->labels = json_incref(labels);
	if (in->check)
		rc = ask_points(&doc, in->check, s, ex.c);
	if (!rc) {
		*out = s;
		s = NULL;
	}
out:
	BUG_ON(rc && errs->n == before);
	spec_free(s);
	json_decref(labels);
	doc_fini(&doc);
	tm_str_free(&source);
	arena_free(&a);
	diag_fini(&d);
	return rc;
}

int spec_load(const struct spec_request *req, const struct describe *d, const struct spec_checker *check,
	      struct spec **out, struct tm_errs *errs)
{
	struct input in = { .req = req, .name = req->spec ? req->spec : "", .describe = d, .check = check };

	return load(&in, out, errs);
}

int spec_load_text(const struct spec_request *req, const char *name, const char *dir, const char *text, size_t n,
		   const struct describe *d, const struct spec_checker *check, struct spec **out, struct tm_errs *errs)
{
	struct input in = {
		.req = req, .name = name, .dir = dir, .text = text, .n = n, .describe = d, .check = check,
	};

	return load(&in, out, errs);
}

/* ---- the job ------------------------------------------------------------------------ */

static void add_json_string(struct tm_str *out, const char *s)
{
	json_t *v = json_string(s);

	if (!v)
		BUG("a job with text that is no UTF-8");
	tm_json_canonical(v, out);
	json_decref(v);
}

void spec_job(const struct spec_point *p, const char *run_id, const char *describe_hash, const char *trace, struct tm_str *out)
{
	const struct spec_measure *m = &p->measure;

	tm_str_add(out, "{\"v\":1");
	if (run_id) {
		tm_str_add(out, ",\"run\":");
		add_json_string(out, run_id);
	}
	tm_str_add(out, ",\"workload\":");
	add_json_string(out, p->workload);
	tm_str_add(out, ",\"describe\":");
	add_json_string(out, describe_hash);
	tm_str_addf(out, ",\"params\":%s,\"warmup\":{\"min\":%" PRId64 ",\"max\":%" PRId64 ",\"window\":%" PRId64 ",\"slope\":",
		    p->params, m->warmup_min, m->warmup_max, m->warmup_window);
	tm_add_double(out, m->warmup_slope);
	tm_str_addf(out, "},\"steps\":%" PRId64, m->steps);
	if (trace) {
		tm_str_add(out, ",\"trace\":");
		add_json_string(out, trace);
	}
	tm_str_addc(out, '}');
}
