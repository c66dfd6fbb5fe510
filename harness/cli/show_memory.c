/* What a run held: its peaks, by phase, by category, by operator. */
#include "cli/show_page.h"

#include "base/json.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOP_OPERATORS 15

static void bytes_cell(struct table *t, const json_t *obj, const char *key)
{
	table_real(t, tm_json_real(obj, key, NAN));
}

void page_peaks(struct page *p, const json_t *peaks)
{
	static const struct { const char *key, *title; } sizes[] = {
		{ "requested", "requested" }, { "allocated", "allocated" }, { "active", "active" },
		{ "reserved", "reserved" }, { "device", "segments" },
	};
	bool device = json_object_get(json_array_get(peaks, 0), "device") != NULL;
	size_t size_n = TM_ARRAY_N(sizes) - !device;
	struct table *t = table_new();

	table_column(t, "peak of", TABLE_TEXT);
	for (size_t i = 0; i < size_n; i++)
		table_column(t, sizes[i].title, TABLE_BYTES);
	table_column(t, "step", TABLE_INT);
	table_column(t, "phase", TABLE_TEXT);
	table_column(t, "operator", TABLE_TEXT);
	for (size_t i = 0; i < json_array_size(peaks); i++) {
		const json_t *e = json_array_get(peaks, i);

		table_text(t, tm_json_str(e, "name", "?"));
		for (size_t k = 0; k < size_n; k++)
			bytes_cell(t, e, sizes[k].key);
		if (tm_json_i64(e, "step", -1) >= 0)
			table_int(t, tm_json_i64(e, "step", 0));
		else
			table_null(t);          /* before the first step */
		table_text(t, tm_json_str(e, "phase", NULL));
		table_text(t, tm_json_str(e, "op", NULL));
		table_row(t);
	}
	page_section(p, "Peaks", t);
}

/* Requested bytes at each peak: a category a row, a peak a column. */
void page_categories(struct page *p, const json_t *peaks)
{
	struct table *t = table_new();
	json_t *names = json_object(), *v;
	const char *name;

	table_column(t, "category", TABLE_TEXT);
	for (size_t i = 0; i < json_array_size(peaks); i++) {
		const json_t *e = json_array_get(peaks, i);

		if (!json_is_object(json_object_get(e, "by")))
			continue;
		table_column(t, tm_json_str(e, "name", "?"), TABLE_BYTES);
		json_object_update_missing(names, json_object_get(e, "by"));
	}
	json_object_foreach(names, name, v) {
		table_text(t, name);
		for (size_t i = 0; i < json_array_size(peaks); i++)
			if (json_is_object(json_object_get(json_array_get(peaks, i), "by")))
				bytes_cell(t, json_object_get(json_array_get(peaks, i), "by"), name);
		table_row(t);
	}
	json_decref(names);
	page_section(p, "Memory by category at each peak", t);
}

/* What the run reported, in its order. New. */
static json_t *reported_peaks(const struct page *p)
{
	json_t *peaks = json_array(), *event;
	size_t i;

	json_array_foreach(json_object_get(p->run, "events"), i, event)
		if (page_is_event(event, "peak") && json_is_object(json_object_get(event, "json")))
			json_array_append(peaks, json_object_get(event, "json"));
	return peaks;
}

/* ---- operators ------------------------------------------------------------------ */

struct ranked { const json_t *op; double key, second; };

static int by_key(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	if (x->second != y->second)
		return x->second < y->second ? 1 : -1;
	return strcmp(tm_json_str(x->op, "name", ""), tm_json_str(y->op, "name", ""));
}

/* The largest by `key`, then by `second`; those with neither are left out. To be freed. */
static struct ranked *rank(const struct page *p, const char *key, const char *second, size_t *n, double *total)
{
	const json_t *ops = json_object_get(p->run, "ops");
	struct ranked *v = tm_xcalloc(json_array_size(ops) + 1, sizeof *v);

	*n = 0;
	*total = 0;
	for (size_t i = 0; i < json_array_size(ops); i++) {
		const json_t *op = json_array_get(ops, i);

		v[*n] = (struct ranked){ op, tm_json_real(op, key, 0), second ? tm_json_real(op, second, 0) : 0 };
		*total += v[*n].key;
		*n += v[*n].key > 0 || v[*n].second > 0;
	}
	qsort(v, *n, sizeof *v, by_key);
	return v;
}

static void operator_cells(struct table *t, const json_t *op)
{
	table_text(t, tm_json_str(op, "name", ""));
	table_text(t, tm_json_str(op, "phase", ""));
	table_int(t, tm_json_i64(op, "calls", 0));
}

static struct table *operator_table(void)
{
	struct table *t = table_new();

	table_column(t, "operator", TABLE_TEXT);
	table_column(t, "phase", TABLE_TEXT);
	table_column(t, "calls", TABLE_INT);
	return t;
}

static void operators_by_memory(struct page *p)
{
	struct table *t = operator_table();
	double total;
	size_t n;
	struct ranked *v = rank(p, "bytes_at_peak", "bytes_max", &n, &total);

	table_column(t, "at the peak", TABLE_BYTES);
	table_column(t, "largest", TABLE_BYTES);
	for (size_t i = 0; i < n && i < TOP_OPERATORS; i++) {
		operator_cells(t, v[i].op);
		bytes_cell(t, v[i].op, "bytes_at_peak");
		bytes_cell(t, v[i].op, "bytes_max");
		table_row(t);
	}
	free(v);
	page_section(p, "Operators by memory at the peak", t);
}

static void operators_by_time(struct page *p)
{
	struct table *t = operator_table();
	double total;
	size_t n;
	struct ranked *v = rank(p, "time_us", NULL, &n, &total);

	table_column(t, "time", TABLE_SECONDS);
	table_column(t, "share %", TABLE_REAL);
	for (size_t i = 0; i < n && i < TOP_OPERATORS; i++) {
		operator_cells(t, v[i].op);
		table_real(t, v[i].key * 1e-6);
		table_real(t, round(1000 * v[i].key / total) / 10);
		table_row(t);
	}
	free(v);
	page_section(p, "Operators by time", t);
}

void page_memory(struct page *p)
{
	json_t *peaks = reported_peaks(p);

	page_peaks(p, peaks);
	page_categories(p, peaks);
	json_decref(peaks);
}

void page_operators(struct page *p)
{
	operators_by_memory(p);
	operators_by_time(p);
}
