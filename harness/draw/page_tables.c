/* The tables of the page: they hold everything, whether or not pictures could be drawn. */
#include "draw/page.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "draw/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL_MAX_N 72
#define FINDINGS_MAX 60

void page_cell_text(struct tm_str *out, const char *s, size_t max)
{
	tm_str_add(out, "<td>");
	if (s && *s)
		text_html_short(out, s, max);
	else
		tm_str_add(out, "–");
	tm_str_add(out, "</td>");
}

static void number(struct tm_str *out, const char *s)
{
	tm_str_add(out, "<td class=\"n\">");
	text_html(out, s, 0);
	tm_str_add(out, "</td>");
}

void page_cell_bytes(struct tm_str *out, double v)
{
	char text[32];

	number(out, isnan(v) ? "–" : tm_size_text(v, text));
}

static void cell_seconds(struct tm_str *out, double v)
{
	char text[32];

	number(out, isnan(v) ? "–" : tm_duration_text(v, text));
}

void page_cell_count(struct tm_str *out, double v)
{
	struct tm_str text = TM_STR_INIT;

	picture_count_text(v, &text);
	number(out, text.s);
	tm_str_free(&text);
}

void page_table_head(struct tm_str *out, const char *const *names, size_t n, size_t first_number)
{
	tm_str_add(out, "<div class=\"scroll\"><table><thead><tr>");
	for (size_t i = 0; i < n; i++)
		tm_str_addf(out, "<th%s>%s</th>", i >= first_number ? " class=\"n\"" : "", names[i]);
	tm_str_add(out, "</tr></thead><tbody>\n");
}

void page_table_foot(struct tm_str *out)
{
	tm_str_add(out, "</tbody></table></div>\n");
}

/* A word as a class name of ours, never the text itself. */
static const char *status_class(const char *status)
{
	static const char *const calm[] = { "pending", "running", "skipped", "interrupted" };

	if (!strcmp(status, "ok"))
		return "ok";
	if (!strcmp(status, "oom"))
		return "oom";
	for (size_t i = 0; i < TM_ARRAY_N(calm); i++)
		if (!strcmp(status, calm[i]))
			return "calm";
	return "bad";
}

/* Bytes a step are small beside noise-free allocators: 0 is the usual case and shown as such. */
static void growth(struct tm_str *out, double v)
{
	char text[32];
	struct tm_str cell = TM_STR_INIT;

	if (isnan(v))
		tm_str_add(&cell, "–");
	else if (v == 0)
		tm_str_add(&cell, "0");
	else
		tm_str_addf(&cell, "%s%s", v < 0 ? "−" : "+", tm_size_text(fabs(v), text));
	number(out, cell.s);
	tm_str_free(&cell);
}

/* A row, and where there is something to remark one more below it, so that the table keeps its width. */
static void run_row(const struct draw_sweep *s, const struct draw_run *run, bool first, bool reps, struct tm_str *out)
{
	const struct draw_config *c = &s->configs[run->config];
	struct tm_str text = TM_STR_INIT;

	tm_str_addf(out, "<tr class=\"%s%s\"><td title=\"", first ? "first" : "more", run->superseded ? " old" : "");
	text_html(out, c->label, 500);
	tm_str_add(out, "\">");
	if (first)
		text_html(out, c->shown, CELL_MAX_N);
	tm_str_add(out, "</td>");
	if (reps)
		tm_str_addf(out, "<td class=\"n\">%lld</td>", (long long)run->rep + 1);
	store_status_text(run->status, run->oom, &text);
	tm_str_addf(out, "<td class=\"status %s\">", status_class(run->status));
	text_html(out, text.s, CELL_MAX_N);
	if (run->attempt > 1)
		tm_str_addf(out, ", attempt %lld", (long long)run->attempt);
	tm_str_add(out, "</td>");
	page_cell_bytes(out, draw_metric(run, "mem.requested.peak"));
	page_cell_bytes(out, draw_metric(run, "mem.allocated.peak"));
	page_cell_bytes(out, draw_metric(run, "mem.reserved.peak"));
	page_cell_count(out, draw_metric(run, "throughput.tokens"));
	cell_seconds(out, draw_metric(run, "step.median"));
	cell_seconds(out, draw_metric_mad(run, "step.median"));
	growth(out, draw_metric(run, "mem.growth"));
	tm_str_reset(&text);
	store_flags_text(run->flags, &text);
	if (run->reason) {
		if (text.n)
			tm_str_add(&text, "; ");
		tm_str_add(&text, run->reason);
	}
	tm_str_add(out, "</tr>\n");
	if (text.n) {
		tm_str_addf(out, "<tr class=\"remark\"><td colspan=\"%d\">", reps ? 10 : 9);
		text_html_short(out, text.s, 150);
		tm_str_add(out, "</td></tr>\n");
	}
	tm_str_free(&text);
}

void page_runs(const struct draw_sweep *s, struct tm_str *out)
{
	static const char *const all[] = { "configuration", "rep", "status", "requested", "allocated", "reserved", "tokens/s",
					   "step", "MAD", "growth" };
	const char *names[TM_ARRAY_N(all)];
	bool reps = false;
	size_t n = 0;

	for (size_t i = 0; i < s->run_n; i++)
		reps |= s->runs[i].rep > 0;
	for (size_t i = 0; i < TM_ARRAY_N(all); i++)
		if (i != 1 || reps)
			names[n++] = all[i];
	tm_str_add(out, "<div class=\"scroll\"><table class=\"runs\"><thead><tr>");
	for (size_t i = 0; i < n; i++) {
		bool right = i != 0 && strcmp(names[i], "status");

		tm_str_addf(out, "<th%s>%s</th>", right ? " class=\"n\"" : "", names[i]);
	}
	tm_str_add(out, "</tr></thead><tbody>\n");
	for (size_t c = 0; c < s->config_n; c++) {
		bool first = true;

		for (size_t i = 0; i < s->run_n; i++) {
			if (s->runs[i].config != c)
				continue;
			run_row(s, &s->runs[i], first, reps, out);
			first = false;
		}
	}
	page_table_foot(out);
}

/* ---- what stayed, and sentences for people ------------------------------ */

static size_t count_events(const struct draw_sweep *s, const char *kind)
{
	size_t n = 0;

	for (size_t i = 0; i < s->run_n; i++)
		for (size_t k = 0; k < s->runs[i].event_n; k++)
			n += !strcmp(s->runs[i].events[k].kind, kind);
	return n;
}

static void stayed(const struct draw_sweep *s, struct tm_str *out)
{
	static const char *const names[] = { "configuration", "operator", "phase", "tensor", "category", "blocks", "bytes", "in steps" };
	size_t n = 0;

	tm_str_add(out, "<h3>Memory that stayed</h3><p>Born after the first counted step and still held at the end: "
		   "what grows, and who allocated it.</p>\n");
	page_table_head(out, names, TM_ARRAY_N(names), 5);
	for (size_t i = 0; i < s->run_n && n < FINDINGS_MAX; i++) {
		for (size_t k = 0; k < s->runs[i].event_n && n < FINDINGS_MAX; k++) {
			const json_t *e = s->runs[i].events[k].json;

			if (strcmp(s->runs[i].events[k].kind, "stayed"))
				continue;
			n++;
			tm_str_add(out, "<tr>");
			page_cell_text(out, s->configs[s->runs[i].config].shown, CELL_MAX_N);
			page_cell_text(out, tm_json_str(e, "op", NULL), 40);
			page_cell_text(out, tm_json_str(e, "phase", NULL), 24);
			page_cell_text(out, tm_json_str(e, "name", NULL), 40);
			page_cell_text(out, tm_json_str(e, "category", NULL), 24);
			page_cell_count(out, tm_json_real(e, "blocks", NAN));
			page_cell_bytes(out, tm_json_real(e, "bytes", NAN));
			page_cell_count(out, tm_json_real(e, "steps", NAN));
			tm_str_add(out, "</tr>\n");
		}
	}
	page_table_foot(out);
}

struct note { const char *text, *level; size_t n; const struct draw_run *first; };

/* Equal notes of several runs are one line with a count. */
static void notes(const struct draw_sweep *s, struct tm_str *out)
{
	struct note v[FINDINGS_MAX];
	size_t n = 0, left = 0;

	for (size_t i = 0; i < s->run_n; i++) {
		for (size_t k = 0; k < s->runs[i].event_n; k++) {
			const struct draw_event *e = &s->runs[i].events[k];
			const char *text = tm_json_str(e->json, "text", NULL);
			const char *level = strcmp(e->kind, "fail") ? tm_json_str(e->json, "level", "info") : "failure";
			size_t at = 0;

			if (!text || (strcmp(e->kind, "note") && strcmp(e->kind, "fail")))
				continue;
			while (at < n && (strcmp(v[at].text, text) || strcmp(v[at].level, level)))
				at++;
			if (at == FINDINGS_MAX)
				left++;
			else if (at == n)
				v[n++] = (struct note){ text, level, 1, &s->runs[i] };
			else
				v[at].n++;
		}
	}
	if (!n)
		return;
	tm_str_add(out, "<h3>Notes and warnings</h3><ul class=\"notes\">\n");
	for (size_t i = 0; i < n; i++) {
		tm_str_addf(out, "<li class=\"%s\">", strcmp(v[i].level, "info") ? "warning" : "info");
		text_html(out, v[i].text, 400);
		tm_str_add(out, " <span class=\"soft\">");
		if (v[i].n > 1)
			tm_str_addf(out, "%zu runs, first ", v[i].n);
		text_html_short(out, s->configs[v[i].first->config].shown, CELL_MAX_N);
		tm_str_add(out, "</span></li>\n");
	}
	if (left)
		tm_str_addf(out, "<li class=\"info\">%zu more are in the database.</li>\n", left);
	tm_str_add(out, "</ul>\n");
}

/* What the words below a run mean, where they occur. */
static void flags(const struct draw_sweep *s, struct tm_str *out)
{
	static const struct { enum store_flag flag; const char *name, *means; } all[] = {
		{ FLAG_UNSTEADY, "unsteady", "the warm-up ended at its most steps without settling" },
		{ FLAG_DRIFT, "drift", "steps got faster or slower while they were counted, so the speed depends on when one looks" },
		{ FLAG_LEAK, "leak", "memory stays behind each step" },
		{ FLAG_LOG_CUT, "log-cut", "more was printed than the log keeps" },
	};
	bool any = false;

	for (size_t k = 0; k < TM_ARRAY_N(all); k++) {
		size_t n = 0;

		for (size_t i = 0; i < s->run_n; i++)
			n += (s->runs[i].flags & all[k].flag) != 0;
		if (!n)
			continue;
		tm_str_addf(out, "%s<li><b>%s</b>: %s <span class=\"soft\">%zu %s</span></li>\n", any ? "" : "<ul class=\"notes\">\n",
			    all[k].name, all[k].means, n, n == 1 ? "run" : "runs");
		any = true;
	}
	if (any)
		tm_str_add(out, "</ul>\n");
}

void page_findings(const struct draw_sweep *s, struct tm_str *out)
{
	size_t n = count_events(s, "stayed");

	tm_str_add(out, "<h2 id=\"findings\">What was noticed</h2>\n");
	if (n)
		stayed(s, out);
	else
		tm_str_add(out, "<p>No run reported memory that stayed behind from step to step.</p>\n");
	flags(s, out);
	notes(s, out);
}

void page_excluded(const struct draw_sweep *s, struct tm_str *out)
{
	static const char *const names[] = { "point", "why" };
	const json_t *list = json_object_get(s->spec, "excluded");
	json_t *e;
	size_t i;

	if (!json_array_size(list))
		return;
	tm_str_add(out, "<h2 id=\"excluded\">Left out by the spec</h2>\n");
	page_table_head(out, names, TM_ARRAY_N(names), 2);
	json_array_foreach(list, i, e) {
		tm_str_add(out, "<tr>");
		page_cell_text(out, tm_json_str(e, "shown", NULL), CELL_MAX_N);
		page_cell_text(out, tm_json_str(e, "why", NULL), 160);
		tm_str_add(out, "</tr>\n");
	}
	page_table_foot(out);
}

static void pair(struct tm_str *out, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	tm_str_addf(out, "<tr><th>%s</th>", name);
	page_cell_text(out, value, 120);
	tm_str_add(out, "</tr>\n");
}

/* Whatever else the fingerprint holds, one level deep. */
static void rest(const json_t *env, struct tm_str *out)
{
	static const char *const shown[] = { "host", "cpu", "gpu", "driver", "cuda", "kernel" };
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)env, key, v) {
		struct tm_str text = TM_STR_INIT, name = TM_STR_INIT;
		bool known = false, bytes = json_is_integer(v) && tm_ends_with(key, "_bytes");
		char size[32];

		for (size_t i = 0; i < TM_ARRAY_N(shown); i++)
			known |= !strcmp(key, shown[i]);
		if (known || json_is_null(v))
			continue;
		if (json_is_string(v))
			tm_str_add(&text, json_string_value(v));
		else if (bytes)
			tm_str_add(&text, tm_size_text(json_number_value(v), size));
		else if (!json_is_array(v) || json_array_size(v))
			tm_json_canonical(v, &text);
		if (text.n) {
			tm_str_add(out, "<tr><th>");
			tm_str_addn(&name, key, strlen(key) - (bytes ? strlen("_bytes") : 0));
			text_html(out, name.s, 40);
			tm_str_add(out, "</th>");
			page_cell_text(out, text.s, 120);
			tm_str_add(out, "</tr>\n");
		}
		tm_str_free(&name);
		tm_str_free(&text);
	}
}

void page_environment(const struct draw_sweep *s, struct tm_str *out)
{
	struct tm_str build = TM_STR_INIT;
	char time[32];

	tm_str_addf(&build, "%s%s", s->commit ? s->commit : "", s->dirty ? " with uncommitted changes" : "");
	tm_str_add(out, "<h2 id=\"environment\">Where and with what</h2>\n<div class=\"scroll\"><table class=\"pairs\"><tbody>\n");
	pair(out, "host", s->host);
	pair(out, "CPU", s->cpu);
	pair(out, "GPU", s->gpu);
	pair(out, "driver", s->driver);
	pair(out, "CUDA", s->cuda);
	pair(out, "kernel", s->kernel);
	pair(out, "commit", build.s);
	pair(out, "branch", s->branch);
	pair(out, "compiler", s->compiler);
	pair(out, "flags", s->flags);
	pair(out, "tool", s->tool);
	pair(out, "sweep", s->uuid);
	pair(out, "state", s->state);
	pair(out, "started", s->started_us ? tm_iso_time(s->started_us, time) : NULL);
	pair(out, "ended", s->ended_us ? tm_iso_time(s->ended_us, time) : NULL);
	rest(s->env, out);
	tm_str_add(out, "</tbody></table></div>\n");
	tm_str_free(&build);
}
