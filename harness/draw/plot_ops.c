/*
 * Operators of one run by memory and by time, forward and backward stacked:
 * what to change first.
 */
#include "draw/plot.h"

#include "base/mem.h"
#include "base/num.h"
#include "draw/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOP_N 12
#define PHASES_MAX 6
#define LABEL_MAX_N 36

/* One operator with its share in each phase. */
struct bar { const char *name; double part[PHASES_MAX], sum; };
struct phases { const char *v[PHASES_MAX]; size_t n; };

static double amount(const struct draw_op *op, bool memory)
{
	double v = memory ? op->bytes_at_peak : op->time_us;

	return v > 0 ? v : 0;
}

static size_t phase_index(struct phases *p, const char *name)
{
	size_t i = 0;

	while (i < p->n && strcmp(p->v[i], name))
		i++;
	if (i == p->n && p->n < PHASES_MAX)
		p->v[p->n++] = name;
	return i < PHASES_MAX ? i : PHASES_MAX - 1;
}

static int by_sum(const void *a, const void *b)
{
	const struct bar *x = a, *y = b;

	if (x->sum != y->sum)
		return x->sum > y->sum ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Phases in which nothing is left would only lengthen the key. */
static void drop_empty(struct phases *p, struct bar *bars, size_t n)
{
	size_t kept = 0;

	for (size_t k = 0; k < p->n; k++) {
		double sum = 0;

		for (size_t i = 0; i < n; i++)
			sum += bars[i].part[k];
		if (!(sum > 0))
			continue;
		for (size_t i = 0; i < n; i++)
			bars[i].part[kept] = bars[i].part[k];
		p->v[kept++] = p->v[k];
	}
	p->n = kept;
}

/* Operators are sorted by name, so the phases of one stand together. */
static size_t bars_of(const struct draw_run *run, bool memory, struct phases *phases, struct bar *out)
{
	size_t n = 0;

	for (size_t i = 0; i < run->op_n; i++) {
		const struct draw_op *op = &run->ops[i];
		double v = amount(op, memory);
		size_t k;

		if (!(v > 0))
			continue;
		k = phase_index(phases, op->phase);
		if (!n || strcmp(out[n - 1].name, op->name))
			out[n++] = (struct bar){ .name = op->name };
		out[n - 1].part[k] += v;
		out[n - 1].sum += v;
	}
	qsort(out, n, sizeof(*out), by_sum);
	drop_empty(phases, out, n);
	return n;
}

static void fill(const struct draw_sweep *s, const struct draw_run *run, struct pictures *out, bool memory,
		 const struct phases *phases, const struct bar *bars, size_t bar_n)
{
	struct picture *p = picture_add(out, "operators", memory ? 1 : 2, "ops");
	size_t n = bar_n < TOP_N ? bar_n : TOP_N;
	struct tm_str *labels = tm_xcalloc(n, sizeof(*labels));
	double all = 0;
	char text[32];

	tsv_column(&p->data, "operator", 0);
	tsv_column(&p->data, "note", 0);
	tsv_column(&p->data, memory ? "bytes" : "us", 0);
	for (size_t k = 0; k < phases->n; k++)
		tsv_column(&p->data, phases->v[k], 24);
	for (size_t i = 0; i < bar_n; i++)
		all += bars[i].sum;
	for (size_t i = 0; i < n; i++) {
		struct tm_str note = TM_STR_INIT;

		tm_str_init(&labels[i]);
		text_clean(&labels[i], bars[i].name, LABEL_MAX_N);
		tm_str_addf(&note, "%s  %.0f %%", memory ? tm_size_text(bars[i].sum, text) : tm_duration_text(bars[i].sum / 1e6, text),
			    100 * bars[i].sum / all);
		tsv_text(&p->data, bars[i].name, LABEL_MAX_N);
		tsv_text(&p->data, note.s, 0);
		tsv_real(&p->data, bars[i].sum);
		for (size_t k = 0; k < phases->n; k++)
			tsv_real(&p->data, bars[i].part[k]);
		tsv_row(&p->data);
		tm_str_free(&note);
	}
	p->right = 128;
	picture_rows(p, labels, n);
	if (phases->n > 1)
		picture_key(p, phases->v, phases->n);
	picture_arg(p, (double)n);
	picture_arg(p, memory ? picture_byte_scale(picture_byte_power(bars[0].sum)) : bars[0].sum >= 5e3 ? 1e3 : 1);
	picture_arg(p, memory ? picture_byte_power(bars[0].sum) : bars[0].sum >= 5e3 ? 5 : 4);
	picture_arg(p, bars[0].sum);
	picture_arg(p, (double)phases->n);
	for (size_t k = 0; k < phases->n; k++)
		picture_arg(p, picture_phase_colour(phases->v[k], k));
	tm_str_addf(&p->heading, "%s", memory ? "by memory at the peak" : "by time");
	tm_str_addf(&p->caption, "Run of %s. %s The %zu largest of %zu operators, with their share of all.", s->configs[run->config].shown,
		    !memory ? "Time summed over all calls in the recorded steps."
			    : phases->n > 1 ? "Bytes of each operator alive at the peak, by the phase in which they were born."
					    : "Bytes of each operator alive at the peak.", n, bar_n);
	for (size_t i = 0; i < n; i++)
		tm_str_free(&labels[i]);
	free(labels);
}

/* The run with the largest peak that has operators: where looking pays most. */
static const struct draw_run *choose(const struct draw_sweep *s)
{
	const struct draw_config *best = NULL;

	for (size_t i = 0; i < s->config_n; i++) {
		const struct draw_config *c = &s->configs[i];
		const struct draw_run *run = draw_ok_run(s, c, 0);

		if (run && run->op_n && (!best || c->peak > best->peak))
			best = c;
	}
	return best ? draw_ok_run(s, best, 0) : NULL;
}

static int make(const struct draw_sweep *s, struct pictures *out, struct tm_err *err)
{
	const struct draw_run *run = choose(s);

	(void)err;
	for (int memory = 1; run && memory >= 0; memory--) {
		struct bar *bars = tm_xcalloc(run->op_n, sizeof(*bars));
		struct phases phases = { .n = 0 };
		size_t n;

		phase_index(&phases, "forward");
		phase_index(&phases, "backward");
		n = bars_of(run, memory, &phases, bars);
		if (n)
			fill(s, run, out, memory, &phases, bars, n);
		free(bars);
	}
	return 0;
}

const struct plot plot_ops = {
	.name = "operators",
	.title = "Operators",
	.question = "Which operators cost most?",
	.reading = "Longest first. The run with the largest peak that finished.",
	.make = make,
};
