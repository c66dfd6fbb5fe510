/*
 * Tab-separated tables. A row with more fields than headings is a mistake of
 * ours, since gnuplot addresses columns by number.
 */
#include "draw/tsv.h"

#include "base/err.h"
#include "base/num.h"
#include "draw/text.h"

#include <math.h>

static void open_once(struct tsv *t)
{
	if (!t->open)
		tm_str_init(&t->text);
	t->open = 1;
}

void tsv_free(struct tsv *t)
{
	if (t->open)
		tm_str_free(&t->text);
	*t = (struct tsv){ 0 };
}

void tsv_column(struct tsv *t, const char *name, size_t max)
{
	BUG_ON(t->row_n || t->at);
	open_once(t);
	if (t->column_n) {
		BUG_ON(t->text.s[t->text.n - 1] != '\n');
		t->text.s[t->text.n - 1] = '\t';
	}
	text_tsv(&t->text, name, max);
	tm_str_addc(&t->text, '\n');
	t->column_n++;
}

static void next_field(struct tsv *t)
{
	BUG_ON(t->at >= t->column_n);
	if (t->at++)
		tm_str_addc(&t->text, '\t');
}

void tsv_text(struct tsv *t, const char *s, size_t max)
{
	next_field(t);
	text_tsv(&t->text, s, max);
}

void tsv_add_number(struct tm_str *out, double v)
{
	double whole = floor(fabs(v));
	long long parts = llround((fabs(v) - whole) * 1e9), n = (long long)whole;
	size_t end;

	if (!(fabs(v) < 1e15)) {
		tm_add_double(out, v);
		return;
	}
	if (parts == 1000000000) {
		parts = 0;
		n++;
	}
	tm_str_addf(out, "%s%lld", v < 0 && (n || parts) ? "-" : "", n);
	if (!parts)
		return;
	tm_str_addf(out, ".%09lld", parts);
	for (end = out->n; out->s[end - 1] == '0'; end--)
		;
	out->n = end;
	out->s[end] = '\0';
}

void tsv_real(struct tsv *t, double v)
{
	next_field(t);
	if (isfinite(v))
		tsv_add_number(&t->text, v);
}

void tsv_row(struct tsv *t)
{
	while (t->at < t->column_n)
		next_field(t);
	tm_str_addc(&t->text, '\n');
	t->at = 0;
	t->row_n++;
}
