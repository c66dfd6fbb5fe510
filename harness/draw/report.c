/*
 * Making the folder: data files, pictures, page, in this order and the page
 * last, so that a reader never sees a page whose pictures are of another
 * time. Every file is complete or absent.
 */
#include "draw/report.h"

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "draw/gnuplot.h"
#include "draw/page.h"
#include "draw/split.h"
#include "draw/svg.h"
#include "draw/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PICTURE_MAX_BYTES ((size_t)32 << 20)
#define PARTS_MAX 8                       /* workloads with pictures of their own; the tables have all */

struct work {
	const char *dir;                  /* absolute */
	struct gnuplot gnuplot;
	struct draw_part *parts;          /* one a workload */
	size_t part_n;
	struct section *sections;
	size_t section_n;
	bool replay;                      /* a sweep of replays has plots of its own */
	struct report_outcome *out;
	struct tm_err *err;
};

static int put(const struct work *w, const char *name, const struct tm_str *text)
{
	char *path = tm_path_join(w->dir, name);
	int rc = tm_write_file(path, text->s, text->n, w->err);

	free(path);
	return rc;
}

/* A folder of ours inside the report. A link in its place would let us write elsewhere. */
static int subfolder(const struct work *w, const char *name)
{
	char *path = tm_path_join(w->dir, name);
	struct stat st;
	int rc = tm_mkdirs(path, w->err);

	if (!rc && (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode)))
		rc = tm_fail_at(w->err, TM_EIO, path, 0, 0, "this is a link, and a report writes nothing outside its own folder; remove it");
	free(path);
	return rc;
}

static int put_template(const struct work *w, const char *name)
{
	const char *common = plot_file("common.gp"), *own;
	struct tm_str text = TM_STR_INIT, file = TM_STR_INIT;
	int rc;

	tm_str_addf(&file, "%s.gp", name);
	own = plot_file(file.s);
	if (!own || !common)
		BUG("there is no template %s", file.s);
	tm_str_add(&text, common);
	tm_str_addc(&text, '\n');
	tm_str_add(&text, own);
	tm_str_reset(&file);
	tm_str_addf(&file, "plots/%s.gp", name);
	rc = put(w, file.s, &text);
	tm_str_free(&text);
	tm_str_free(&file);
	return rc;
}

/* ---- one picture ---------------------------------------------------------- */

/* Everything gnuplot is told: names of ours and numbers. NULL-terminated. */
struct call { char *v[12]; size_t n; };

static void say(struct call *c, struct tm_str *s)
{
	BUG_ON(c->n + 1 >= TM_ARRAY_N(c->v));
	c->v[c->n++] = tm_str_detach(s);
}

/* gnuplot passes at most nine arguments, so numbers travel as lists. */
static void say_numbers(struct call *c, const double *v, size_t n)
{
	struct tm_str s = TM_STR_INIT;

	for (size_t i = 0; i < n; i++) {
		if (i)
			tm_str_addc(&s, ' ');
		tsv_add_number(&s, v[i]);
	}
	say(c, &s);
}

static void call_of(const struct picture *p, const struct gnuplot *g, const char *output, struct call *c)
{
	const double fixed[] = { g->terminal, PICTURE_WIDTH, p->height, p->left, p->right, p->top, p->bottom };
	struct tm_str s = TM_STR_INIT;

	*c = (struct call){ .n = 0 };
	tm_str_add(&s, "-d");
	say(c, &s);
	tm_str_add(&s, "-c");
	say(c, &s);
	tm_str_addf(&s, "plots/%s.gp", p->template);
	say(c, &s);
	tm_str_addf(&s, "data/%s.tsv", p->name);
	say(c, &s);
	tm_str_addf(&s, "data/%s%s.tsv", p->name, p->more.row_n ? "-more" : "");
	say(c, &s);
	tm_str_add(&s, output);
	say(c, &s);
	say_numbers(c, fixed, TM_ARRAY_N(fixed));
	say_numbers(c, p->args, p->arg_n);
}

static void call_free(struct call *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i]);
}

/* The picture's bytes are judged by what they are, not by what gnuplot's exit status says. */
static int judge(const struct work *w, const struct picture *p, const struct tm_str *bytes, struct drawn *d, struct tm_err *err)
{
	struct tm_str title = TM_STR_INIT;
	int rc;

	if (w->gnuplot.terminal != GNUPLOT_SVG)
		return gnuplot_png_check(bytes->s, bytes->n, err);
	tm_str_add(&title, p->name);
	if (p->heading.n)
		tm_str_addf(&title, ": %s", p->heading.s);
	rc = svg_inline(bytes->s, bytes->n, p->name, title.s, &d->svg, err);
	tm_str_free(&title);
	return rc;
}

/*
 * Draws to a temporary name. What cannot be drawn is no failure of the
 * report: the reason goes to d->why. Only a folder that takes no files is.
 */
static int draw(struct work *w, const struct picture *p, struct drawn *d)
{
	struct tm_str tmp = TM_STR_INIT, final = TM_STR_INIT, bytes = TM_STR_INIT, alone = TM_STR_INIT;
	struct tm_err err = { 0 };
	struct call call;
	char *path;
	int rc;

	tm_str_addf(&tmp, "plots/%s.tmp%ld", p->name, (long)getpid());
	tm_str_addf(&final, "plots/%s.%s", p->name, gnuplot_ending(&w->gnuplot));
	path = tm_path_join(w->dir, tmp.s);
	call_of(p, &w->gnuplot, tmp.s, &call);
	unlink(path);
	rc = gnuplot_run(&w->gnuplot, w->dir, (const char *const *)call.v, &err);
	if (!rc && tm_read_file(path, PICTURE_MAX_BYTES, &bytes, &err))
		rc = tm_fail(&err, TM_EUNAVAILABLE, "gnuplot left no picture");
	unlink(path);
	if (!rc)
		rc = judge(w, p, &bytes, d, &err);
	free(path);
	if (rc) {
		snprintf(d->why, sizeof(d->why), "%.250s", err.text);
		path = tm_path_join(w->dir, final.s);
		unlink(path);                     /* of an older report: not of these data */
		free(path);
		rc = 0;
		goto out;
	}
	if (d->svg.n) {
		svg_alone(d->svg.s, &alone);
		rc = put(w, final.s, &alone);
	} else {
		rc = put(w, final.s, &bytes);
	}
	snprintf(d->file, sizeof(d->file), "%s", final.s);
	tm_str_add(&d->command, "gnuplot");
	free(call.v[5]);
	call.v[5] = tm_xstrdup(final.s);
	for (size_t i = 0; i < call.n; i++)
		tm_str_addf(&d->command, strchr(call.v[i], ' ') ? " '%s'" : " %s", call.v[i]);
out:
	call_free(&call);
	tm_str_free(&tmp);
	tm_str_free(&final);
	tm_str_free(&bytes);
	tm_str_free(&alone);
	return rc;
}

static int picture(struct work *w, const struct picture *p, struct drawn *d)
{
	char name[64];
	int rc;

	snprintf(name, sizeof(name), "data/%s.tsv", p->name);
	rc = put(w, name, &p->data.text);
	if (!rc && p->more.row_n) {
		snprintf(name, sizeof(name), "data/%s-more.tsv", p->name);
		rc = put(w, name, &p->more.text);
	}
	if (!rc && w->gnuplot.terminal == GNUPLOT_NONE)
		snprintf(d->why, sizeof(d->why), "%s", w->gnuplot.why);
	else if (!rc)
		rc = draw(w, p, d);
	if (d->file[0]) {
		w->out->plots++;
	} else {
		w->out->missing++;
		if (!w->out->note[0])
			snprintf(w->out->note, sizeof(w->out->note), "%s", d->why);
	}
	return rc;
}

/* ---- the whole -------------------------------------------------------------- */

/* The pictures of one part: told apart by a letter and a heading where there are several parts. */
static int part(struct work *w, const struct draw_part *of, size_t letter, struct section *sec)
{
	size_t first = sec->pictures.n;
	int rc = sec->plot->make(&of->sweep, &sec->pictures, w->err);

	for (size_t i = first; i < sec->pictures.n && w->part_n > 1; i++) {
		struct picture *p = &sec->pictures.v[i];
		struct tm_str heading = TM_STR_INIT;
		size_t n = strlen(p->name);

		BUG_ON(n + 4 > sizeof(p->name));
		snprintf(p->name + n, sizeof(p->name) - n, "-%c", (char)('a' + letter));
		if (!p->heading.n || !tm_starts_with(p->heading.s, of->name))
			tm_str_addf(&heading, "%s%s", of->name, p->heading.n ? ": " : "");
		tm_str_add(&heading, p->heading.n ? p->heading.s : "");
		tm_str_free(&p->heading);
		p->heading = heading;
	}
	return rc;
}

static int section(struct work *w, const struct plot *plot, struct section *sec)
{
	int rc = 0;

	sec->plot = plot;
	for (size_t i = 0; i < w->part_n && i < PARTS_MAX && !rc && plot->replay == w->replay; i++)
		rc = part(w, &w->parts[i], i, sec);
	sec->drawn = tm_xcalloc(sec->pictures.n + 1, sizeof(*sec->drawn));
	for (size_t i = 0; i < sec->pictures.n; i++) {
		sec->drawn[i].picture = &sec->pictures.v[i];
		tm_str_init(&sec->drawn[i].svg);
		tm_str_init(&sec->drawn[i].command);
	}
	for (size_t i = 0; i < sec->pictures.n && !rc; i++) {
		rc = i && !strcmp(sec->pictures.v[i].template, sec->pictures.v[i - 1].template) ? 0
			: put_template(w, sec->pictures.v[i].template);
		if (!rc)
			rc = picture(w, &sec->pictures.v[i], &sec->drawn[i]);
	}
	return rc;
}

static void sections_free(struct work *w)
{
	for (size_t i = 0; i < w->section_n; i++) {
		struct section *sec = &w->sections[i];

		for (size_t k = 0; k < sec->pictures.n; k++) {
			tm_str_free(&sec->drawn[k].svg);
			tm_str_free(&sec->drawn[k].command);
		}
		free(sec->drawn);
		pictures_free(&sec->pictures);
	}
	free(w->sections);
}

static const char *heading(const struct report_request *req, const struct draw_sweep *s)
{
	const char *title = req->title ? req->title : tm_json_str(s->spec, "title", "");

	return *title ? title : s->suite;
}

static int everything(struct work *w, const struct report_request *req, const struct draw_sweep *s)
{
	struct tm_str html = TM_STR_INIT;
	size_t n = 0;
	int rc = 0;

	while (plots[n])
		n++;
	w->sections = tm_xcalloc(n, sizeof(*w->sections));
	for (; w->section_n < n && !rc; w->section_n++)
		rc = section(w, plots[w->section_n], &w->sections[w->section_n]);
	if (!rc) {
		struct page page = {
			.sweep = s, .title = heading(req, s), .parts = w->parts, .part_n = w->part_n, .sections = w->sections,
			.section_n = w->section_n, .note = w->out->note, .database = store_path(req->store),
		};

		page_write(&page, &html);
		rc = put(w, "index.html", &html);
	}
	tm_str_free(&html);
	return rc;
}

int report_make(const struct report_request *req, struct report_outcome *out, struct tm_err *err)
{
	struct work w = { .out = out, .err = err };
	struct draw_sweep s;
	char *dir = NULL;
	int rc;

	*out = (struct report_outcome){ 0 };
	rc = draw_sweep_load(req->store, req->sweep_id, req->describe, &s, err);
	if (rc)
		return rc;
	rc = tm_mkdirs(req->dir, err);
	if (!rc && !(dir = realpath(req->dir, NULL)))
		rc = tm_fail_at(err, TM_EIO, req->dir, 0, 0, "cannot use this folder: %s", strerror(errno));
	if (rc)
		goto out;
	w.dir = dir;
	w.replay = !strcmp(s.kind, "replay");
	w.part_n = draw_split(&s, &w.parts);
	rc = subfolder(&w, "data");
	if (!rc)
		rc = subfolder(&w, "plots");
	if (rc)
		goto out;
	gnuplot_open(&w.gnuplot, req->gnuplot, dir);
	rc = everything(&w, req, &s);
	if (!rc)
		out->index = tm_path_join(req->dir, "index.html");
out:
	sections_free(&w);
	draw_parts_free(w.parts, w.part_n);
	gnuplot_close(&w.gnuplot);
	free(dir);
	draw_sweep_free(&s);
	return rc;
}
