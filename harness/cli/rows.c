#include "cli/rows.h"

#include "base/num.h"

#include <sqlite3.h>

static int head(void *arg, int n, const char *const *names)
{
	struct rows *rows = arg;

	for (int i = 0; !rows->headed && i < n; i++)
		table_column(rows->table, names[i], TABLE_ANY);
	rows->headed = true;
	return 0;
}

static void cell(struct table *t, const char *s, int type)
{
	double real;
	int64_t i;

	if (s && type == SQLITE_INTEGER && !tm_parse_i64(s, &i))
		table_int(t, i);
	else if (s && type == SQLITE_FLOAT)     /* an infinity is no number of ours: missing */
		tm_parse_double(s, &real) ? table_null(t) : table_real(t, real);
	else
		table_text(t, s);
}

static int row(void *arg, int n, const char *const *values, const int *types)
{
	struct rows *rows = arg;

	for (int i = 0; i < n; i++)
		cell(rows->table, values[i], types[i]);
	table_row(rows->table);
	return 0;
}

struct store_sink rows_sink(struct rows *rows)
{
	return (struct store_sink){ .head = head, .row = row, .arg = rows };
}
