/*
 * What each change of a setting does to memory and speed: one row a
 * configuration, below the one it changes (tree.h). The faint bar is its own
 * value; the coloured piece is the difference from the row it hangs below.
 * Memory is what was allocated: what an allocator reserves beyond that comes
 * in segments, which would hide small changes and exaggerate others. It is a
 * mark of its own.
 */
#include "draw/plot.h"

#include "base/mem.h"
#include "base/num.h"
#include "draw/text.h"
#include "draw/tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 48
#define LABEL_MAX_N 44
#define INDENT_PX 14.0
#define NOTE_PX 118.0                     /* figures behind each panel */

struct sides { double memory, speed; };

static struct sides of(const struct draw_sweep *s, const struct draw_node *node)
{
	const struct draw_config *c = &s->configs[node->config];

	return c->ok_n ? (struct sides){ draw_config_metric(s, c, "mem.allocated.peak"), c->tokens } : (struct sides){ NAN, NAN };
}

/* A row whose parent did not finish hangs, for its differences, below the nearest ancestor that did. */
static struct sides before(const struct draw_sweep *s, const struct draw_tree *t, size_t node)
{
	struct sides v = { NAN, NAN };

	while (node != t->v[node].parent && isnan(v.memory)) {
		node = t->v[node].parent;
		v = of(s, &t->v[node]);
	}
	return v;
}

static void percent(struct tm_str *out, double v, double root)
{
	double change = 100 * (v / root - 1);

	if (isfinite(change) && fabs(change) >= 0.05)
		tm_str_addf(out, fabs(change) < 10 ? "  %s%.1f %%" : "  %s%.0f %%", change < 0 ? "−" : "+", fabs(change));
}

static void row(struct picture *p, const struct draw_sweep *s, const struct draw_tree *t, size_t i, const struct tm_str *label)
{
	struct sides own = of(s, &t->v[i]), from = before(s, t, i), root = of(s, &t->v[0]);
	struct tm_str memory = TM_STR_INIT, speed = TM_STR_INIT;
	const struct draw_config *c = &s->configs[t->v[i].config];
	char size[32];

	if (c->ok_n) {
		tm_str_add(&memory, isnan(own.memory) ? "–" : tm_size_text(own.memory, size));
		picture_count_text(own.speed, &speed);
		percent(&memory, own.memory, root.memory);
		percent(&speed, own.speed, root.speed);
	} else {
		picture_failure_text(&s->runs[c->first_run], &memory);
	}
	tsv_text(&p->data, label->s, 0);
	tsv_real(&p->data, t->v[i].depth * INDENT_PX);
	tsv_real(&p->data, isnan(own.memory) ? 0 : own.memory);
	tsv_real(&p->data, isnan(own.memory) || isnan(from.memory) ? own.memory : from.memory);
	tsv_text(&p->data, memory.s, 60);
	tsv_real(&p->data, isnan(own.speed) ? 0 : own.speed);
	tsv_real(&p->data, isnan(own.speed) || isnan(from.speed) ? own.speed : from.speed);
	tsv_text(&p->data, speed.n ? speed.s : " ", 60);
	tsv_real(&p->data, c->ok_n == 0);
	tsv_real(&p->data, c->ok_n && !isnan(c->peak) ? c->peak : own.memory);
	tsv_row(&p->data);
	tm_str_free(&memory);
	tm_str_free(&speed);
}

static void label_of(const struct draw_sweep *s, const struct draw_tree *t, size_t i, struct tm_str *out)
{
	const struct draw_node *node = &t->v[i];

	tm_str_init(out);
	if (i)
		text_clean(out, node->change, LABEL_MAX_N);
	else
		text_clean(out, t->plain ? "defaults" : s->configs[node->config].shown, LABEL_MAX_N);
}

static void fill(const struct draw_sweep *s, const struct draw_tree *t, struct pictures *out, unsigned number)
{
	static const char *const columns[] = {
		"configuration", "indent px", "allocated bytes", "allocated bytes above", "memory",
		"tokens/s", "tokens/s above", "speed", "failed", "reserved bytes",
	};
	struct picture *p = picture_add(out, "waterfall", number, "waterfall");
	size_t n = t->n < ROWS_MAX ? t->n : ROWS_MAX;
	struct tm_str *labels = tm_xcalloc(n, sizeof(*labels));
	double memory = 1, speed = 1, widest = 0;

	for (size_t k = 0; k < TM_ARRAY_N(columns); k++)
		tsv_column(&p->data, columns[k], 0);
	for (size_t i = 0; i < n; i++) {
		struct sides v = of(s, &t->v[i]);

		label_of(s, t, i, &labels[i]);
		row(p, s, t, i, &labels[i]);
		memory = fmax(memory, isnan(v.memory) ? 0 : fmax(v.memory, s->configs[t->v[i].config].peak));
		speed = fmax(speed, isnan(v.speed) ? 0 : v.speed);
		widest = fmax(widest, text_width(labels[i].s, PICTURE_FONT) + t->v[i].depth * INDENT_PX);
	}
	p->top = 66;
	picture_rows(p, labels, n);
	p->left = (unsigned)fmin(widest + 22, 0.4 * PICTURE_WIDTH);
	p->right = (unsigned)NOTE_PX;
	picture_arg(p, (double)n);
	picture_arg(p, picture_byte_power(memory));
	picture_arg(p, memory);
	picture_arg(p, speed);
	picture_arg(p, NOTE_PX);
	tm_str_add(&p->heading, t->name);
	tm_str_add(&p->caption, "Each row changes what it says in the row it is set in under. Faint: its own figure; the coloured piece: less memory or more speed "
		   "than that row (green), or more memory or less speed (orange). The thin mark behind is what the allocator reserved. "
		   "Percentages are against the first row.");
	if (n < t->n)
		tm_str_addf(&p->caption, " The first %zu of %zu configurations; the table below has all.", n, t->n);
	for (size_t i = 0; i < n; i++)
		tm_str_free(&labels[i]);
	free(labels);
}

static int make(const struct draw_sweep *s, struct pictures *out, struct tm_err *err)
{
	struct draw_tree *trees;
	size_t n = draw_trees(s, &trees), drawn = 0;

	(void)err;
	for (size_t i = 0; i < n; i++)
		if (trees[i].n > 1 && s->configs[trees[i].v[0].config].ok_n)
			fill(s, &trees[i], out, n > 1 ? (unsigned)++drawn : 0);
	draw_trees_free(trees, n);
	return 0;
}

const struct plot plot_waterfall = {
	.name = "waterfall",
	.title = "What each change does",
	.question = "What does each change do to memory and speed?",
	.reading = "Read downwards: a row set in under another one is that configuration with one thing changed.",
	.make = make,
};
