/* What the plots share: pictures, units, colours, words for failures. */
#include "draw/plot.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "draw/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_PX 26
#define KEY_PX 56.0                       /* swatch and gaps of an entry */
#define KEY_ROW_PX 19.5

const int picture_colours[8] = { COLOUR_BLUE, COLOUR_RED, COLOUR_GREEN, COLOUR_PINK, COLOUR_SKY, COLOUR_ORANGE,
				 COLOUR_GREY, COLOUR_YELLOW };

struct picture *picture_add(struct pictures *p, const char *name, unsigned number, const char *template)
{
	struct picture *pic;

	p->v = tm_xrealloc_n(p->v, p->n + 1, sizeof(*p->v));
	pic = &p->v[p->n++];
	*pic = (struct picture){ .template = template, .height = 420, .left = 78, .right = 24, .top = 48, .bottom = 58 };
	if (number)
		snprintf(pic->name, sizeof(pic->name), "%s-%u", name, number);
	else
		snprintf(pic->name, sizeof(pic->name), "%s", name);
	tm_str_init(&pic->heading);
	tm_str_init(&pic->caption);
	return pic;
}

void picture_arg(struct picture *p, double v)
{
	BUG_ON(p->arg_n == PICTURE_ARGS || !isfinite(v));
	p->args[p->arg_n++] = v;
}

void pictures_free(struct pictures *p)
{
	for (size_t i = 0; i < p->n; i++) {
		tm_str_free(&p->v[i].heading);
		tm_str_free(&p->v[i].caption);
		tsv_free(&p->v[i].data);
		tsv_free(&p->v[i].more);
	}
	free(p->v);
	*p = (struct pictures){ 0 };
}

int picture_byte_power(double max_bytes)
{
	int power = 0;

	while (power < 3 && max_bytes >= 1.5 * 1024) {
		max_bytes /= 1024;
		power++;
	}
	return power;
}

double picture_byte_scale(int power)
{
	return ldexp(1, 10 * power);
}

double picture_inner_width(const struct picture *p)
{
	return PICTURE_WIDTH - (double)p->left - p->right;
}

double picture_inner_height(const struct picture *p)
{
	return (double)p->height - p->top - p->bottom;
}

void picture_count_text(double v, struct tm_str *out)
{
	char digits[40];
	int n;

	if (!(fabs(v) < 1e15)) {
		tm_str_add(out, "–");
		return;
	}
	if (fabs(v) < 100 && v != floor(v)) {
		tm_str_addf(out, fabs(v) < 10 ? "%.2f" : "%.1f", v);
		return;
	}
	/* Narrow no-break spaces between groups of three. */
	n = snprintf(digits, sizeof(digits), "%.0f", v);
	for (int i = 0; i < n; i++) {
		if (i > (digits[0] == '-') && (n - i) % 3 == 0)
			tm_str_add(out, "\xe2\x80\xaf");
		tm_str_addc(out, digits[i]);
	}
}

void picture_rows(struct picture *p, const struct tm_str *labels, size_t n)
{
	double widest = 40;

	for (size_t i = 0; i < n; i++)
		widest = fmax(widest, text_width(labels[i].s, PICTURE_FONT));
	p->left = (unsigned)fmin(widest + 16, 0.4 * PICTURE_WIDTH);
	p->height = p->top + p->bottom + (unsigned)(ROW_PX * (n ? n : 1));
}

void picture_key(struct picture *p, const char *const *names, size_t n)
{
	double widest = 20;
	size_t columns, rows;

	for (size_t i = 0; i < n; i++)
		widest = fmax(widest, text_width(names[i], PICTURE_FONT));
	/* gnuplot lays a horizontal key out in columns as wide as the longest name, over the plotted width */
	columns = (size_t)(picture_inner_width(p) / (widest + KEY_PX));
	columns = columns ? columns : 1;
	rows = (n + columns - 1) / columns;
	p->height -= p->top;
	p->top = 46 + (unsigned)(rows * KEY_ROW_PX);
	p->height += p->top;
}

void picture_failure_text(const struct draw_run *run, struct tm_str *out)
{
	const json_t *oom = draw_event(run, "oom");
	double asked = tm_json_real(oom, "asked", NAN);
	const char *op = tm_json_str(oom, "op", NULL);
	char size[32];

	if (!strcmp(run->status, "oom"))
		tm_str_addf(out, "OOM (%s)", run->oom ? run->oom : "?");
	else
		tm_str_add(out, run->status);
	if (op && asked > 0)
		tm_str_addf(out, ": %s asked for %s", op, tm_size_text(asked, size));
	else if (run->reason)
		tm_str_addf(out, ": %s", run->reason);
}

double picture_failure_bytes(const struct draw_run *run)
{
	const json_t *oom = draw_event(run, "oom");
	double held = tm_json_real(oom, "reserved", NAN), asked = tm_json_real(oom, "asked", NAN);

	if (isnan(held))
		held = tm_json_real(oom, "allocated", NAN);
	held += asked;
	/* an allocator asks for more than the request, so what a cap refused was beyond the cap, whatever the sum says */
	if (run->oom && !strcmp(run->oom, "cap"))
		held = fmax(held, tm_json_real(oom, "cap", NAN));
	return held;
}

#define CATEGORIES(X) \
	X(parameters, COLOUR_BLUE) X(gradients, COLOUR_ORANGE) X(optimizer, COLOUR_GREEN) X(activations, COLOUR_PINK) \
	X(logits, COLOUR_SKY) X(workspace, COLOUR_GREY) X(input, COLOUR_YELLOW)

#define X(name, colour) #name,
const char *const picture_categories[] = { CATEGORIES(X) NULL };
#undef X

int picture_category_colour(const char *category)
{
#define X(name, colour) colour,
	static const int colours[] = { CATEGORIES(X) };
#undef X

	for (size_t i = 0; picture_categories[i]; i++)
		if (!strcmp(picture_categories[i], category))
			return colours[i];
	return COLOUR_RED;
}

int picture_phase_colour(const char *phase, size_t i)
{
	if (!strcmp(phase, "forward"))
		return COLOUR_BLUE;
	if (!strcmp(phase, "recompute"))
		return COLOUR_RED;
	if (!strcmp(phase, "backward"))
		return COLOUR_ORANGE;
	if (!strcmp(phase, "update"))
		return COLOUR_GREEN;
	if (!strcmp(phase, "all"))
		return COLOUR_SKY;
	return i % 2 ? COLOUR_PINK : COLOUR_GREY;
}
