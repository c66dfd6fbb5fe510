/*
 * The largest value of one parameter that fits, by doubling and bisection.
 * Every value that is claimed was planned; nothing is extrapolated. Several
 * searches go on side by side, so that their questions share worker calls.
 *
 * Bisection believes that what fits at v fits below v. Where a search sees
 * that this is not so it says so.
 */
#ifndef TM_RUN_LARGEST_H
#define TM_RUN_LARGEST_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is searched: multiples of step from min to max, from `start` on. */
struct largest_range { int64_t min, max, step, start; };

struct largest_question { size_t search; int64_t value; };

struct largest_answer {
	bool fits;
	double need_bytes;                /* NAN: unknown, the value is impossible */
	char *why;                        /* where it does not fit; owned by whoever gets the answer */
};

/* Answers n questions in order. 0, or an error that ends all searches. */
typedef int largest_ask(void *arg, const struct largest_question *q, size_t n, struct largest_answer *out, struct tm_err *err);

struct largest_probe { int64_t value; struct largest_answer a; };

struct largest {
	struct largest_range range;
	bool found;
	int64_t value;                    /* the largest that fits */
	double need_bytes;
	const struct largest_probe *next; /* the next value up, which was refused; NULL: value is the end of the range */
	int64_t free_from;                /* from here to `value` it takes the same; = value where the last step cost something */
	char *odd;                        /* NULL, or where need or fit did not grow with the value */

	struct largest_probe *probes;     /* all that was planned, by value */
	size_t probe_n;
};

/* Fills out[n]; to be given to largest_free, also after an error. */
int largest_search(const struct largest_range *ranges, size_t n, largest_ask *ask, void *arg, struct largest *out, struct tm_err *err);
void largest_free(struct largest *v, size_t n);

#endif
