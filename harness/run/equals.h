/*
 * Runs of a sweep that must show the same losses to the last bit: those on a
 * deterministic device whose configurations differ only in parameters that
 * change no number (checkpoint, allocator, cap, …). The one with most of these
 * at their default is the reference of its group; who differs from it is
 * invalid, whatever its speed.
 *
 * Runs come in any order, some before their reference. So a verdict waits until
 * no better reference can come: a run that differs and was stored as ok by
 * then is withdrawn in the transaction that stores the run which decides it. A
 * reference that fails (checkpoint: none is the first to run out of memory)
 * leaves its place to the next one.
 */
#ifndef TM_RUN_EQUALS_H
#define TM_RUN_EQUALS_H

#include "collect.h"

#include "spec/spec.h"
#include "store/store.h"

struct equals_member;

struct equals {
	struct store *store;
	const struct describe *describe;
	struct equals_member *v;          /* by group, the best reference first */
	size_t n;
};

/* Of the sweep as it stands in the store, a resumed one with what has ended before. */
int equals_init(struct equals *e, struct store *store, const struct describe *d, int64_t sweep_id, struct tm_err *err);
void equals_fini(struct equals *e);

#define EQUALS_CAUSE "differs"            /* of the invalid status */

struct equals_verdict {
	char *reason;                     /* why this run is invalid; NULL: nothing is known against it */
	struct store_withdrawal *withdrawn;       /* others, stored as ok before */
	const char **label;               /* of each of these; not owned */
	size_t withdrawn_n;
};

/*
 * A run is about to be stored as `status` (a word of the database); c: what
 * it reported, NULL where it never ran. To be called once a run, before it is
 * stored. *out is freed by equals_verdict_free, also after an error.
 */
int equals_end(struct equals *e, int64_t run_id, const char *status, const struct collect *c,
	       struct equals_verdict *out, struct tm_err *err);
void equals_verdict_free(struct equals_verdict *v);

#endif
