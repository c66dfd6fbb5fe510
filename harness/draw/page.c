/*
 * The document around pictures and tables. Written by hand as XML so that
 * xmllint can check it; colours follow the reader's preference for dark or
 * light, the pictures take theirs from the page.
 */
#include "draw/page.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "draw/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void head(const struct page *p, struct tm_str *out)
{
	const char *css = plot_file("report.css");

	BUG_ON(!css);
	tm_str_add(out, "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
		   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
		   "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
		   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src 'self' file:\"/>\n"
		   "<title>");
	text_html(out, p->title, 120);
	tm_str_add(out, " · Tidemark</title>\n<style>\n");
	tm_str_add(out, css);
	tm_str_add(out, "</style>\n</head>\n<body>\n<main>\n");
}

/* "7f3a2c91d, changed" */
static void commit_text(const struct draw_sweep *s, struct tm_str *out)
{
	text_clean(out, s->commit ? s->commit : "unknown", 0);
	if (out->n > 10) {
		out->n = 10;
		out->s[10] = '\0';
	}
	if (s->dirty)
		tm_str_add(out, " + changes");
}

static int64_t repetitions(const struct draw_sweep *s)
{
	int64_t most = 0;

	for (size_t i = 0; i < s->run_n; i++)
		most = s->runs[i].rep > most ? s->runs[i].rep : most;
	return most + 1;
}

static void counts(const struct draw_sweep *s, size_t *runs, size_t *ok, size_t *oom, size_t *other)
{
	*runs = *ok = *oom = *other = 0;
	for (size_t i = 0; i < s->run_n; i++) {
		const struct draw_run *r = &s->runs[i];

		if (r->superseded)
			continue;
		++*runs;
		if (!strcmp(r->status, "ok"))
			++*ok;
		else if (!strcmp(r->status, "oom"))
			++*oom;
		else
			++*other;
	}
}

void page_tile(struct tm_str *out, const char *name, const char *of, const char *value, const char *detail)
{
	tm_str_addf(out, "<div class=\"tile\"><dt>%s", name);
	text_html(out, of, 24);
	tm_str_add(out, "</dt><dd>");
	text_html(out, value, 40);
	if (detail) {
		tm_str_add(out, "<small>");
		text_html_short(out, detail, 60);
		tm_str_add(out, "</small>");
	}
	tm_str_add(out, "</dd></div>\n");
}

/* What is fastest and what is smallest among configurations that can be compared. */
static void best_tiles(const struct draw_part *part, bool several, struct tm_str *out)
{
	const struct draw_config *fast = NULL, *small = NULL;
	struct tm_str value = TM_STR_INIT, name = TM_STR_INIT;
	char text[32];

	for (size_t i = 0; i < part->sweep.config_n; i++) {
		const struct draw_config *c = &part->sweep.configs[i];

		if (!isnan(c->tokens) && (!fast || c->tokens > fast->tokens))
			fast = c;
		if (!isnan(c->peak) && (!small || c->peak < small->peak))
			small = c;
	}
	if (several)
		tm_str_addf(&name, " %s", part->name);
	else
		tm_str_add(&name, "");
	if (fast) {
		picture_count_text(fast->tokens, &value);
		tm_str_add(&value, " tokens/s");
		page_tile(out, "Fastest", name.s, value.s, fast->shown);
	}
	if (small)
		page_tile(out, "Smallest peak", name.s, tm_size_text(small->peak, text), small->shown);
	if (fast && !isnan(fast->peak))
		page_tile(out, "Peak of the fastest", name.s, tm_size_text(fast->peak, text), "reserved");
	tm_str_free(&value);
	tm_str_free(&name);
}

static void tiles(const struct page *p, struct tm_str *out)
{
	struct tm_str value = TM_STR_INIT, detail = TM_STR_INIT;
	size_t runs, ok, oom, other;

	counts(p->sweep, &runs, &ok, &oom, &other);
	tm_str_add(out, "<dl class=\"tiles\">\n");
	tm_str_addf(&value, "%zu of %zu ok", ok, runs);
	if (oom)
		tm_str_addf(&detail, "%zu out of memory", oom);
	if (other)
		tm_str_addf(&detail, "%s%zu ended otherwise", detail.n ? ", " : "", other);
	page_tile(out, "Runs", "", value.s, detail.n ? detail.s : NULL);
	for (size_t i = 0; i < p->part_n; i++)
		best_tiles(&p->parts[i], p->part_n > 1, out);
	tm_str_add(out, "</dl>\n");
	tm_str_free(&value);
	tm_str_free(&detail);
}

static bool is_replay(const struct page *p)
{
	return !strcmp(p->sweep->kind, "replay");
}

static void banner(const struct page *p, struct tm_str *out)
{
	const struct draw_sweep *s = p->sweep;
	struct tm_str commit = TM_STR_INIT;
	char time[32];

	commit_text(s, &commit);
	tm_str_add(out, "<header>\n<h1>");
	text_html_short(out, p->title, 120);
	tm_str_addf(out, "</h1>\n<p class=\"soft\">Sweep %lld · ", (long long)s->id);
	text_html(out, tm_iso_time(s->started_us, time), 0);
	tm_str_add(out, " · ");
	text_html_short(out, s->gpu ? s->gpu : s->cpu ? s->cpu : "unknown machine", 60);
	tm_str_add(out, " · commit ");
	text_html(out, commit.s, 0);
	tm_str_addf(out, " · %zu configuration%s, %lld %s%s</p>\n", s->config_n, s->config_n == 1 ? "" : "s", (long long)repetitions(s),
		    repetitions(s) == 1 ? "run" : "runs", s->config_n == 1 ? "" : " each");
	if (s->state && strcmp(s->state, "done"))
		tm_str_addf(out, "<p class=\"alert\">This sweep is not complete%s. The figures below are of the runs that ended.</p>\n",
			    !strcmp(s->state, "open") ? ": it is still running, or its owner died" : "");
	tm_str_add(out, "</header>\n");
	if (is_replay(p))
		page_replay_tiles(p->sweep, out);
	else
		tiles(p, out);
	if (*p->note) {
		tm_str_add(out, "<p class=\"alert\">Some pictures are missing: ");
		text_html(out, p->note, 300);
		tm_str_add(out, ". The tables are complete, and the data of every picture are in its TSV file.</p>\n");
	}
	tm_str_free(&commit);
}

static void contents(const struct page *p, struct tm_str *out)
{
	tm_str_add(out, "<nav>");
	if (is_replay(p))
		tm_str_add(out, "<a href=\"#advice\">What follows</a> <a href=\"#results\">All settings</a> ");
	for (size_t i = 0; i < p->section_n; i++)
		if (p->sections[i].pictures.n)
			tm_str_addf(out, "<a href=\"#%s\">%s</a> ", p->sections[i].plot->name, p->sections[i].plot->title);
	tm_str_add(out, is_replay(p) ? "<a href=\"#stranded\">What is stranded</a> <a href=\"#held\">Who held the peak</a> " :
		   "<a href=\"#runs\">All runs</a> <a href=\"#findings\">What was noticed</a> ");
	if (json_array_size(json_object_get(p->sweep->spec, "excluded")))
		tm_str_add(out, "<a href=\"#excluded\">Left out by the spec</a> ");
	tm_str_add(out, "<a href=\"#environment\">Where and with what</a> <a href=\"#again\">Again</a></nav>\n");
}

/* Machine, commit, repetitions: what a picture needs when it leaves the page. */
static void provenance(const struct draw_sweep *s, struct tm_str *out)
{
	struct tm_str commit = TM_STR_INIT;

	commit_text(s, &commit);
	text_html(out, s->gpu ? s->gpu : s->cpu ? s->cpu : "unknown machine", 48);
	tm_str_add(out, ", commit ");
	text_html(out, commit.s, 0);
	tm_str_addf(out, ", %lld %s.", (long long)repetitions(s), repetitions(s) == 1 ? "repetition" : "repetitions");
	tm_str_free(&commit);
}

static void figure(const struct page *p, const struct section *sec, const struct drawn *d, struct tm_str *out)
{
	const struct picture *pic = d->picture;

	tm_str_addf(out, "<figure id=\"%s-figure\">\n", pic->name);
	if (pic->heading.n) {
		tm_str_add(out, "<h3>");
		text_html_short(out, pic->heading.s, 110);
		tm_str_add(out, "</h3>\n");
	}
	if (d->svg.n) {
		tm_str_addn(out, d->svg.s, d->svg.n);
	} else if (d->file[0]) {
		tm_str_addf(out, "<img class=\"paper\" src=\"%s\" width=\"%d\" height=\"%u\" alt=\"", d->file, PICTURE_WIDTH, pic->height);
		text_html(out, sec->plot->question, 0);
		tm_str_add(out, "\"/>");
	} else {
		tm_str_add(out, "<p class=\"alert\">Not drawn: ");
		text_html(out, d->why, 250);
		tm_str_add(out, ".</p>");
	}
	tm_str_add(out, "\n<figcaption>");
	text_html(out, pic->caption.s, 0);
	tm_str_add(out, " <span class=\"soft\">");
	provenance(p->sweep, out);
	tm_str_addf(out, "</span> <a href=\"data/%s.tsv\">numbers</a>", pic->name);
	if (pic->more.row_n)
		tm_str_addf(out, ", <a href=\"data/%s-more.tsv\">more numbers</a>", pic->name);
	if (d->file[0]) {
		tm_str_addf(out, ", <a href=\"%s\">picture</a>", d->file);
		tm_str_add(out, "<details><summary>Draw it again</summary><pre>");
		text_html(out, d->command.s, 0);
		tm_str_add(out, "</pre></details>");
	}
	tm_str_add(out, "</figcaption>\n</figure>\n");
}

static void sections(const struct page *p, struct tm_str *out)
{
	for (size_t i = 0; i < p->section_n; i++) {
		const struct section *sec = &p->sections[i];

		if (!sec->pictures.n)
			continue;
		tm_str_addf(out, "<section>\n<h2 id=\"%s\">%s</h2>\n<p>%s</p>\n", sec->plot->name, sec->plot->title, sec->plot->reading);
		for (size_t k = 0; k < sec->pictures.n; k++)
			figure(p, sec, &sec->drawn[k], out);
		tm_str_add(out, "</section>\n");
	}
}

/* "NAME=v1,v2": each value that the configurations have, in their order. */
static void flag_values(const struct draw_sweep *s, const char *name, struct tm_str *out)
{
	tm_str_addf(out, "%s=", name);
	for (size_t i = 0; i < s->config_n; i++) {
		const json_t *v = json_object_get(s->configs[i].params, name);
		bool seen = !v;

		for (size_t k = 0; k < i && !seen; k++)
			seen = json_equal(v, json_object_get(s->configs[k].params, name));
		if (seen)
			continue;
		if (out->s[out->n - 1] != '=')
			tm_str_addc(out, ',');
		draw_value_text(s, s->configs[i].workload, name, v, out);
	}
}

/* The flags the sweep was started with, as far as they can be told from what is stored; false: some are left. */
static bool flags(const struct draw_sweep *s, struct tm_str *out)
{
	const json_t *origin = json_object_get(s->spec, "origin"), *points = json_object_get(s->spec, "points");
	const json_t *measure = json_object_get(json_object_iter_value(json_object_iter((json_t *)points)), "measure");
	bool all = true;
	const char *key;
	json_t *from;

	json_object_foreach((json_t *)origin, key, from) {
		struct tm_str word = TM_STR_INIT;
		const char *name = strchr(key, '.') ? strchr(key, '.') + 1 : key;

		if (!json_is_string(from) || !tm_starts_with(json_string_value(from), "flag"))
			continue;
		if (tm_starts_with(key, "axes.") || tm_starts_with(key, "set.")) {
			flag_values(s, name, &word);
		} else if (json_is_integer(json_object_get(measure, name))) {
			tm_str_addf(&word, "%s=", key);
			tm_json_canonical(json_object_get(measure, name), &word);
		}
		if (word.n) {
			tm_str_add(out, tm_starts_with(key, "axes.") ? " -a " : " -s ");
			tm_shell_quote(out, word.s);
		}
		all &= word.n > 0;
		tm_str_free(&word);
	}
	return all;
}

static void again(const struct page *p, struct tm_str *out)
{
	const struct draw_sweep *s = p->sweep;
	const char *path = tm_json_str(s->spec, "path", NULL);
	const char *command = tm_json_str(s->spec, "command", NULL);
	struct tm_str text = TM_STR_INIT;
	bool whole = true;

	tm_str_add(out, "<h2 id=\"again\">Again</h2>\n<p>The spec and all figures are in the database");
	if (p->database) {
		tm_str_add(out, " <code>");
		text_html(out, p->database, 120);
		tm_str_add(out, "</code>");
	}
	tm_str_add(out, ". The same sweep once more, and this page:</p>\n<pre>");
	if (path) {
		tm_str_add(&text, "tidemark run ");
		tm_shell_quote(&text, path);
		whole = flags(s, &text);
		tm_str_addf(&text, " --seed %lld", (long long)s->seed);
		text_html(out, text.s, 0);
		tm_str_addc(out, '\n');
	}
	if (command) {
		text_html(out, command, 0);
		tm_str_addc(out, '\n');
	}
	tm_str_addf(out, "tidemark report %lld</pre>\n", (long long)s->id);
	if (!whole)
		tm_str_add(out, "<p>Other flags that the sweep was started with are not in this line.</p>\n");
	tm_str_addf(out, "<p>One run whole, with its parameters and operators: <code>tidemark show RUN</code>. Any other question: "
		    "<code>tidemark query \"SELECT %s\"</code>.</p>\n",
		    is_replay(p) ? "night, label, median FROM history WHERE metric = 'mem.reserved.peak'" : "label, peak_bytes, tokens_s FROM wide");
	tm_str_free(&text);
}

static void end(const struct page *p, struct tm_str *out)
{
	tm_str_add(out, "<section>\n");
	page_environment(p->sweep, out);
	again(p, out);
	tm_str_add(out, "</section>\n</main>\n</body>\n</html>\n");
}

/* What follows comes before the pictures that show why. */
static void replay_write(const struct page *p, struct tm_str *out)
{
	head(p, out);
	banner(p, out);
	contents(p, out);
	page_replay_advice(p->sweep, out);
	page_replay_results(p->sweep, out);
	sections(p, out);
	page_replay_stranded(p->sweep, out);
	end(p, out);
}

void page_write(const struct page *p, struct tm_str *out)
{
	if (is_replay(p)) {
		replay_write(p, out);
		return;
	}
	head(p, out);
	banner(p, out);
	contents(p, out);
	sections(p, out);
	tm_str_add(out, "<section>\n<h2 id=\"runs\">All runs</h2>\n<p>Peaks are the allocator’s high-water marks of the whole run: requested by the workload, "
		   "allocated in blocks, reserved from the device. Step: median of the counted steps; MAD: median absolute deviation from it. "
		   "Growth: bytes that stay from step to step (Theil–Sen slope). The canonical label is in the tooltip.</p>\n");
	page_runs(p->sweep, out);
	page_card(p->sweep, out);
	tm_str_add(out, "</section>\n<section>\n");
	page_findings(p->sweep, out);
	page_excluded(p->sweep, out);
	tm_str_add(out, "</section>\n");
	end(p, out);
}
