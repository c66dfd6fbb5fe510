/* One point on one device, in full: whether it fits and why, what holds the peak, what the figure is made of. */
#include "cli/plan_view.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/advice.h"
#include "cli/show_page.h"

#include <math.h>
#include <string.h>

#define HOLDERS 10
#define OPERATORS 10

static void line(struct tm_str *out, const char *text)
{
	if (*text)
		tm_str_addf(out, "  %s\n", text);
}

/* ---- sentences ------------------------------------------------------------------- */

static void heading(struct page *p, const struct plan_view *view, const struct plan_row *row)
{
	const char *title = tm_json_str(row->target->card, "title", "");

	tm_str_addf(&p->out, "\n%spoint %zu: %s on %s", p->format == CLI_MD ? "# " : "", row->point + 1,
		    view->spec->points[row->point].label, row->target->name);
	if (*title)
		tm_str_addf(&p->out, " (%s)", title);
	tm_str_add(&p->out, "\n\n");
}

static void sentences(struct page *p, const struct plan_row *row)
{
	double time_us = tm_json_real(row->fitted.answer, "time_us", 0), flops = tm_json_real(json_object_get(row->fitted.answer, "flops"), "done", 0);
	double again = tm_json_real(json_object_get(row->fitted.answer, "flops"), "recomputed", 0);
	struct tm_str s = TM_STR_INIT;
	char text[32];

	fit_verdict_text(&row->fitted.fit, &s);
	line(&p->out, s.s);
	tm_str_reset(&s);
	fit_refusal_text(&row->fitted.fit, &s);
	line(&p->out, s.s);
	tm_str_reset(&s);
	fit_dominant_text(row->fitted.answer, &s);
	line(&p->out, s.s);
	tm_str_reset(&s);
	if (flops > 0) {
		tm_str_addf(&s, "a step does %s", tm_flop_text(flops, text));
		if (again > 0)
			tm_str_addf(&s, ", %.0f %% of it to make again what was not kept", 100 * again / flops);
		if (time_us > 0)
			tm_str_addf(&s, "; it takes about %s, a first estimate", tm_duration_text(time_us * 1e-6, text));
		line(&p->out, s.s);
	}
	tm_str_free(&s);
}

/* ---- what holds the peak --------------------------------------------------------- */

static void holders(struct page *p, const struct plan_row *row)
{
	const json_t *live = json_object_get(row->fitted.answer, "live");
	struct table *t = table_new();
	double sum = 0, rest = 0;

	table_column(t, "tensor", TABLE_TEXT);
	table_column(t, "operator", TABLE_TEXT);
	table_column(t, "category", TABLE_TEXT);
	table_column(t, "blocks", TABLE_INT);
	table_column(t, "bytes", TABLE_BYTES);
	table_column(t, "share %", TABLE_REAL);
	for (size_t i = 0; i < json_array_size(live); i++)
		sum += tm_json_real(json_array_get(live, i), "bytes", 0);
	for (size_t i = 0; i < json_array_size(live); i++) {
		const json_t *l = json_array_get(live, i);
		double bytes = tm_json_real(l, "bytes", 0);

		if (i >= HOLDERS) {
			rest += bytes;
			continue;
		}
		table_text(t, tm_json_str(l, "name", "?"));
		table_text(t, tm_json_str(l, "op", NULL));
		table_text(t, tm_json_str(l, "category", NULL));
		table_int(t, tm_json_i64(l, "blocks", 0));
		table_real(t, bytes);
		table_real(t, round(1000 * bytes / sum) / 10);
		table_row(t);
	}
	if (rest > 0) {
		table_text(t, "everything else");
		for (int i = 0; i < 3; i++)
			table_null(t);
		table_real(t, rest);
		table_real(t, round(1000 * rest / sum) / 10);
		table_row(t);
	}
	page_section(p, "What holds the peak", t);
}

struct ranked { const json_t *op; double key; };

/* The heaviest operators by time, without a card by FLOPs. */
static void operators(struct page *p, const struct plan_row *row)
{
	const json_t *ops = json_object_get(row->fitted.answer, "ops");
	bool timed = tm_json_real(row->fitted.answer, "time_us", 0) > 0;
	const char *key = timed ? "time_us" : "flops";
	struct ranked top[OPERATORS + 1];
	struct table *t = table_new();
	size_t n = 0;

	for (size_t i = 0; i < json_array_size(ops); i++) {
		struct ranked r = { json_array_get(ops, i), tm_json_real(json_array_get(ops, i), key, 0) };
		size_t at = n;

		while (at && top[at - 1].key < r.key) {
			top[at] = top[at - 1];
			at--;
		}
		top[at] = r;
		n += n < OPERATORS;
	}
	table_column(t, "operation", TABLE_TEXT);
	table_column(t, "phase", TABLE_TEXT);
	table_column(t, "calls", TABLE_INT);
	table_column(t, "GFLOP", TABLE_REAL);
	table_column(t, "moves", TABLE_BYTES);
	if (timed)
		table_column(t, "time (est.)", TABLE_SECONDS);
	for (size_t i = 0; i < n && top[i].key > 0; i++) {
		table_text(t, tm_json_str(top[i].op, "name", "?"));
		table_text(t, tm_json_str(top[i].op, "phase", NULL));
		table_int(t, tm_json_i64(top[i].op, "calls", 0));
		table_real(t, round(tm_json_real(top[i].op, "flops", 0) / 1e7) / 100);
		table_real(t, tm_json_real(top[i].op, "bytes", NAN));
		if (timed)
			table_real(t, top[i].key * 1e-6);
		table_row(t);
	}
	page_section(p, "Operations of one step", t);
}

/* ---- what the figure is made of --------------------------------------------------- */

static void part(struct table *t, const char *name, double bytes, const char *about)
{
	table_text(t, name);
	table_real(t, bytes);
	table_text(t, about);
	table_row(t);
}

static void parts(struct page *p, const struct plan_row *row)
{
	const struct fit *f = &row->fitted.fit;
	const json_t *by = json_object_get(f->peak, "by");
	double sum = 0, workspace = tm_json_real(by, "workspace", 0);
	bool cpu = !strcmp(tm_json_str(row->target->card, "backend", "cpu"), "cpu");
	struct table *t = table_new();
	const char *name;
	char size[32], granularity[80] = "the driver counts what the allocator takes";
	json_t *v;

	json_object_foreach((json_t *)by, name, v)
		sum += json_number_value(v);
	if (f->granularity > 0)
		snprintf(granularity, sizeof granularity, "each segment in steps of %s", tm_size_exact((uint64_t)f->granularity, size));
	table_column(t, "part", TABLE_TEXT);
	table_column(t, "bytes", TABLE_BYTES);
	table_column(t, "what it is", TABLE_TEXT);
	part(t, "tensors", sum - workspace, "parameters, gradients, optimizer, activations, logits, input");
	part(t, "workspaces", workspace, f->borrowed ? "of the CPU's operations, in place of the card's own" : "that operations ask for");
	part(t, "rounding", f->allocated - sum, "of blocks, by the allocator");
	part(t, "cache", f->reserved - f->allocated, "what the allocator keeps for later, and remainders");
	part(t, "driver", f->device - f->context - f->reserved, granularity);
	part(t, "start-up", f->context, cpu ? "host memory of the process is not counted" : "the context, before the first allocation");
	part(t, "in all", f->device, f->lower_bound ? "a lower bound" : f->borrowed ? "no bound: see workspaces" : "");
	page_section(p, "What the figure is made of", t);
	tm_str_addf(&p->out, "\nNot in it: %s\n", cpu ? "host memory of the program, its libraries and the data (mem.host.peak of a run)" :
		    "other processes on the card, and what libraries take beside the allocator once they run");
}

void plan_page(struct cli *cli, const struct plan_view *view, const struct plan_row *row, struct tm_str *out)
{
	struct page page = { .out = TM_STR_INIT, .format = cli->format };

	heading(&page, view, row);
	sentences(&page, row);
	if (row->fitted.fit.peak) {
		page_peaks(&page, json_object_get(row->fitted.answer, "peaks"));
		page_categories(&page, json_object_get(row->fitted.answer, "peaks"));
		holders(&page, row);
		operators(&page, row);
		parts(&page, row);
		if (row->advice.n) {
			page_heading(&page, "What would change something (each on top of those above it)");
			advice_lines(&row->advice, &page.out);
		}
		if (row->inputs.n)
			tm_str_addf(&page.out, "\n  note: %s\n", row->inputs.s);
	}
	tm_str_addn(out, page.out.s, page.out.n);
	tm_str_free(&page.out);
}
