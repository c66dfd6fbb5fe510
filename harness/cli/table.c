/*
 * Rows for people and for machines from the same cells. A cell keeps what
 * it was given; how it looks is decided when it is printed.
 */
#include "cli/table.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Wider than most terminals: a line that wraps says more than a label that is cut. */
#define TERMINAL_COLUMNS 160

enum cell_kind { CELL_NULL, CELL_TEXT, CELL_INT, CELL_REAL };

struct cell {
	enum cell_kind kind;
	union { char *s; int64_t i; double f; } u;
};

struct column { char *name; enum table_kind kind; };

struct table {
	struct column *columns;
	size_t column_n;
	struct cell *cells;               /* row after row, column_n each */
	size_t cell_n, cell_cap;
	size_t rows;
};

struct table *table_new(void)
{
	return tm_xcalloc(1, sizeof(struct table));
}

void table_free(struct table *t)
{
	for (size_t i = 0; i < t->column_n; i++)
		free(t->columns[i].name);
	for (size_t i = 0; i < t->cell_n; i++)
		if (t->cells[i].kind == CELL_TEXT)
			free(t->cells[i].u.s);
	free(t->columns);
	free(t->cells);
	free(t);
}

void table_column(struct table *t, const char *name, enum table_kind kind)
{
	BUG_ON(t->cell_n);
	t->columns = tm_xrealloc_n(t->columns, t->column_n + 1, sizeof *t->columns);
	t->columns[t->column_n++] = (struct column){ tm_xstrdup(name), kind };
}

static void add_cell(struct table *t, struct cell cell)
{
	BUG_ON(t->cell_n >= (t->rows + 1) * t->column_n);
	if (t->cell_n == t->cell_cap) {
		t->cell_cap = t->cell_cap ? t->cell_cap * 2 : 64;
		t->cells = tm_xrealloc_n(t->cells, t->cell_cap, sizeof *t->cells);
	}
	t->cells[t->cell_n++] = cell;
}

void table_text(struct table *t, const char *s)
{
	add_cell(t, s ? (struct cell){ CELL_TEXT, { .s = tm_xstrdup(s) } } : (struct cell){ .kind = CELL_NULL });
}

void table_int(struct table *t, int64_t v)
{
	add_cell(t, (struct cell){ CELL_INT, { .i = v } });
}

void table_real(struct table *t, double v)
{
	add_cell(t, isfinite(v) ? (struct cell){ CELL_REAL, { .f = v } } : (struct cell){ .kind = CELL_NULL });
}

void table_null(struct table *t)
{
	add_cell(t, (struct cell){ .kind = CELL_NULL });
}

void table_row(struct table *t)
{
	while (t->cell_n < (t->rows + 1) * t->column_n)
		table_null(t);
	t->rows++;
}

size_t table_rows(const struct table *t)
{
	return t->rows;
}

static const struct cell *cell_at(const struct table *t, size_t row, size_t column)
{
	return &t->cells[row * t->column_n + column];
}

/* ---- numbers ------------------------------------------------------------- */

/* Every digit. "250000" and not "2.5e+05", which is as exact but hard to read. */
static void exact(struct tm_str *out, const struct cell *c)
{
	if (c->kind == CELL_INT)
		tm_str_addf(out, "%" PRId64, c->u.i);
	else if (c->u.f == trunc(c->u.f) && fabs(c->u.f) < 1e15)
		tm_str_addf(out, "%" PRId64, (int64_t)c->u.f);
	else
		tm_add_double(out, c->u.f);
}

void table_real_text(double v, struct tm_str *out)
{
	int before = v == 0 ? 1 : (int)floor(log10(fabs(v))) + 1;
	double scale = pow(10, before < 6 ? 6 - before : 0);
	struct cell c = { CELL_REAL, { .f = v } };

	if (fabs(v) < 1e15 && isfinite(scale) && isfinite(v * scale))
		c.u.f = round(v * scale) / scale;
	exact(out, &c);
}

static void readable(struct tm_str *out, const struct cell *c, enum table_kind kind)
{
	double v = c->kind == CELL_INT ? (double)c->u.i : c->u.f;
	char text[32];

	if (kind == TABLE_BYTES)
		tm_str_add(out, tm_size_text(v, text));
	else if (kind == TABLE_SECONDS)
		tm_str_add(out, tm_duration_text(v, text));
	else if (c->kind == CELL_INT)
		exact(out, c);
	else
		table_real_text(v, out);
}

/* ---- for people: aligned and Markdown ------------------------------------ */

static void shown(struct tm_str *out, const struct cell *c, enum table_kind kind)
{
	if (c->kind == CELL_NULL)
		tm_str_addc(out, '-');
	else if (c->kind == CELL_TEXT)
		tm_utf8_show(out, c->u.s, strlen(c->u.s));
	else
		readable(out, c, kind);
}

static size_t columns_of(const char *s)
{
	const char *end = s + strlen(s);
	size_t n = 0;
	uint32_t cp;

	while (s < end) {
		s += tm_utf8_next(s, end, &cp);
		n += tm_utf8_columns(cp);
	}
	return n;
}

/* As many whole characters of s as fit into `max` columns; returns the bytes. */
static size_t fitting(const char *s, size_t max)
{
	const char *p = s, *end = s + strlen(s);
	uint32_t cp;

	while (p < end) {
		size_t step = tm_utf8_next(p, end, &cp);
		size_t w = tm_utf8_columns(cp);

		if (w > max)
			break;
		max -= w;
		p += step;
	}
	return (size_t)(p - s);
}

/* Both ends of a label tell more than its middle. */
static void shorten(struct tm_str *s, size_t max)
{
	size_t have = columns_of(s->s), head, skip;
	struct tm_str out = TM_STR_INIT;

	if (have <= max || max < 3)
		return;
	head = fitting(s->s, max / 2);
	tm_str_addn(&out, s->s, head);
	tm_str_add(&out, "…");
	skip = head;
	while (columns_of(s->s + skip) > max - columns_of(out.s)) {
		uint32_t cp;

		skip += tm_utf8_next(s->s + skip, s->s + s->n, &cp);
	}
	tm_str_add(&out, s->s + skip);
	tm_str_free(s);
	*s = out;
}

/* Numbers stand right; in a TABLE_ANY column if nothing else is in it. */
static bool stands_right(const struct table *t, size_t column)
{
	enum table_kind kind = t->columns[column].kind;
	bool number = false;

	if (kind != TABLE_ANY)
		return kind != TABLE_TEXT;
	for (size_t r = 0; r < t->rows; r++) {
		enum cell_kind k = cell_at(t, r, column)->kind;

		if (k == CELL_TEXT)
			return false;
		number |= k != CELL_NULL;
	}
	return number;
}

#define GAP 2
#define SHORTEST 8

/* Takes columns from the widest texts until the table fits. */
static void narrow(const struct table *t, size_t *widths, size_t limit)
{
	size_t total = 0, widest;

	for (size_t i = 0; i < t->column_n; i++)
		total += widths[i] + (i ? GAP : 0);
	while (limit && total > limit) {
		widest = t->column_n;
		for (size_t i = 0; i < t->column_n; i++)
			if ((t->columns[i].kind == TABLE_TEXT || t->columns[i].kind == TABLE_ANY) && !stands_right(t, i) &&
			    widths[i] > SHORTEST && (widest == t->column_n || widths[i] > widths[widest]))
				widest = i;
		if (widest == t->column_n)
			return;
		widths[widest]--;
		total--;
	}
}

static void pad(struct tm_str *out, size_t n)
{
	while (n--)
		tm_str_addc(out, ' ');
}

static void print_field(struct tm_str *out, const char *s, size_t width, bool right, bool last)
{
	size_t n = columns_of(s), space = width > n ? width - n : 0;

	if (right)
		pad(out, space);
	tm_str_add(out, s);
	if (!right && !last)
		pad(out, space);
	if (!last)
		pad(out, GAP);
}

/* No blanks at the end, where the last cell is empty. */
static void end_line(struct tm_str *out)
{
	while (out->n && out->s[out->n - 1] == ' ')
		out->s[--out->n] = '\0';
	tm_str_addc(out, '\n');
}

/* The texts of all cells, the header's first; to be freed with strings_free. */
static struct tm_str *strings(const struct table *t)
{
	struct tm_str *v = tm_xcalloc((t->rows + 1) * t->column_n + 1, sizeof *v);

	for (size_t i = 0; i < (t->rows + 1) * t->column_n; i++)
		tm_str_init(&v[i]);
	for (size_t i = 0; i < t->column_n; i++) {
		tm_utf8_show(&v[i], t->columns[i].name, strlen(t->columns[i].name));
		for (size_t r = 0; r < t->rows; r++)
			shown(&v[(r + 1) * t->column_n + i], cell_at(t, r, i), t->columns[i].kind);
	}
	return v;
}

static void strings_free(const struct table *t, struct tm_str *v)
{
	for (size_t i = 0; i < (t->rows + 1) * t->column_n; i++)
		tm_str_free(&v[i]);
	free(v);
}

static void print_aligned(const struct table *t, unsigned limit, struct tm_str *out)
{
	size_t *widths = tm_xcalloc(t->column_n + 1, sizeof *widths);
	bool *right = tm_xcalloc(t->column_n + 1, sizeof *right);
	struct tm_str *v = strings(t);

	for (size_t i = 0; i < t->column_n; i++) {
		right[i] = stands_right(t, i);
		for (size_t r = 0; r <= t->rows; r++) {
			size_t n = columns_of(v[r * t->column_n + i].s);

			widths[i] = n > widths[i] ? n : widths[i];
		}
	}
	narrow(t, widths, limit);
	for (size_t r = 0; r <= t->rows; r++) {
		for (size_t i = 0; i < t->column_n; i++) {
			struct tm_str *s = &v[r * t->column_n + i];

			shorten(s, widths[i]);
			print_field(out, s->s, widths[i], right[i], i + 1 == t->column_n);
		}
		end_line(out);
	}
	strings_free(t, v);
	free(widths);
	free(right);
}

static void md_field(struct tm_str *out, const char *s)
{
	tm_str_addc(out, ' ');
	for (; *s; s++) {
		if (strchr("|\\`*<>[]", *s))
			tm_str_addc(out, '\\');
		tm_str_addc(out, *s);
	}
	tm_str_add(out, " |");
}

static void print_md(const struct table *t, struct tm_str *out)
{
	struct tm_str *v = strings(t);

	for (size_t r = 0; r <= t->rows; r++) {
		tm_str_addc(out, '|');
		for (size_t i = 0; i < t->column_n; i++)
			md_field(out, v[r * t->column_n + i].s);
		tm_str_addc(out, '\n');
		if (r)
			continue;
		tm_str_addc(out, '|');
		for (size_t i = 0; i < t->column_n; i++)
			tm_str_add(out, stands_right(t, i) ? " ---: |" : " --- |");
		tm_str_addc(out, '\n');
	}
	strings_free(t, v);
}

/* ---- for machines ---------------------------------------------------------- */

/* RFC 4180; line ends and tabs are data, other controls would only reach a terminal. */
static void csv_text(struct tm_str *out, const char *s)
{
	const char *end = s + strlen(s);
	bool quote = s[strcspn(s, ",\"\r\n")] != '\0' || *s == ' ' || (s < end && end[-1] == ' ');
	uint32_t cp;

	if (quote)
		tm_str_addc(out, '"');
	while (s < end) {
		s += tm_utf8_next(s, end, &cp);
		if (cp == '"')
			tm_str_addc(out, '"');
		tm_utf8_add(out, tm_utf8_hides(cp) && cp != '\n' && cp != '\r' && cp != '\t' ? TM_REPLACEMENT : cp);
	}
	if (quote)
		tm_str_addc(out, '"');
}

static void print_csv(const struct table *t, struct tm_str *out)
{
	for (size_t i = 0; i < t->column_n; i++) {
		tm_str_add(out, i ? "," : "");
		csv_text(out, t->columns[i].name);
	}
	tm_str_add(out, "\r\n");
	for (size_t r = 0; r < t->rows; r++) {
		for (size_t i = 0; i < t->column_n; i++) {
			const struct cell *c = cell_at(t, r, i);

			tm_str_add(out, i ? "," : "");
			if (c->kind == CELL_TEXT)
				csv_text(out, c->u.s);
			else if (c->kind != CELL_NULL)
				exact(out, c);
		}
		tm_str_add(out, "\r\n");
	}
}

static void json_text(struct tm_str *out, const char *s)
{
	const char *end = s + strlen(s);
	uint32_t cp;

	tm_str_addc(out, '"');
	while (s < end) {
		s += tm_utf8_next(s, end, &cp);
		if (cp == '"' || cp == '\\')
			tm_str_addf(out, "\\%c", (char)cp);
		else if (tm_utf8_hides(cp))
			tm_str_addf(out, "\\u%04x", (unsigned)cp);
		else
			tm_utf8_add(out, cp);
	}
	tm_str_addc(out, '"');
}

/* A query may name two columns alike; an object must not. */
static void json_key(const struct table *t, size_t column, struct tm_str *out)
{
	struct tm_str name = TM_STR_INIT;
	size_t same = 1;

	for (size_t i = 0; i < column; i++)
		same += strcmp(t->columns[i].name, t->columns[column].name) == 0;
	tm_str_add(&name, t->columns[column].name);
	if (same > 1)
		tm_str_addf(&name, "_%zu", same);
	json_text(out, name.s);
	tm_str_free(&name);
}

static void json_object_of(const struct table *t, size_t row, const struct tm_str *keys, struct tm_str *out)
{
	tm_str_addc(out, '{');
	for (size_t i = 0; i < t->column_n; i++) {
		const struct cell *c = cell_at(t, row, i);

		tm_str_add(out, i ? ", " : "");
		tm_str_add(out, keys[i].s);
		tm_str_add(out, ": ");
		if (c->kind == CELL_TEXT)
			json_text(out, c->u.s);
		else if (c->kind == CELL_NULL)
			tm_str_add(out, "null");
		else
			exact(out, c);
	}
	tm_str_addc(out, '}');
}

static void print_json(const struct table *t, bool lines, struct tm_str *out)
{
	struct tm_str *keys = tm_xcalloc(t->column_n + 1, sizeof *keys);

	for (size_t i = 0; i < t->column_n; i++) {
		tm_str_init(&keys[i]);
		json_key(t, i, &keys[i]);
	}
	if (!lines)
		tm_str_add(out, t->rows ? "[\n" : "[");
	for (size_t r = 0; r < t->rows; r++) {
		json_object_of(t, r, keys, out);
		tm_str_add(out, lines || r + 1 == t->rows ? "\n" : ",\n");
	}
	if (!lines)
		tm_str_add(out, "]\n");
	for (size_t i = 0; i < t->column_n; i++)
		tm_str_free(&keys[i]);
	free(keys);
}

unsigned table_width(void)
{
	return isatty(STDOUT_FILENO) ? TERMINAL_COLUMNS : 0;
}

void table_print(const struct table *t, enum cli_format format, unsigned width, struct tm_str *out)
{
	BUG_ON(t->cell_n != t->rows * t->column_n);
	switch (format) {
	case CLI_MD:
		print_md(t, out);
		break;
	case CLI_CSV:
		print_csv(t, out);
		break;
	case CLI_JSON:
	case CLI_JSONL:
		print_json(t, format == CLI_JSONL, out);
		break;
	default:
		print_aligned(t, width, out);
	}
}
