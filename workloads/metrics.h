/* Every metric there is: name, unit, which way is better, and what it means. */
#ifndef TM_METRICS_H
#define TM_METRICS_H

#include <stdbool.h>
#include <stddef.h>

struct metric {
	const char *name, *unit;
	const char *better;               /* "lower", "higher", "none" */
	bool exact;                       /* the same in every run: compared without a test */
	const char *help;
};

extern const struct metric metrics[];
extern const size_t metrics_n;
const struct metric *metric_find(const char *name);       /* NULL: none */

#endif
