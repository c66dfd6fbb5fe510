/* The rows of a query as the rows of a table. */
#ifndef TM_ROWS_H
#define TM_ROWS_H

#include "cli/table.h"
#include "store/store.h"

struct rows {
	struct table *table;              /* without columns at first */
	bool headed;                      /* zero-initialise */
};

/*
 * A sink that names the columns at the first query (later ones must have the
 * same) and adds cells by their type. `rows` must outlive the query.
 */
struct store_sink rows_sink(struct rows *rows);

#endif
