/* From what a run came to, to its rows. */
#ifndef TM_RUN_RECORD_H
#define TM_RUN_RECORD_H

#include "equals.h"
#include "oncard.h"
#include "outcome.h"

#include "store/store.h"

/*
 * Writes the end of a run, and withdraws those of *v. Where the disk is full the reserve is used up
 * for it; where even that fails the result goes to stderr as a line of JSON,
 * so that it is not lost. *stop: nothing more can be stored, the sweep has to
 * end. Returns 0 or TM_ESTORE; TM_EENV if the sweep was taken over.
 */
int record_run(struct store *store, int64_t run_id, const struct attempt *a, const struct outcome *o,
	       const struct oncard_run *card, const struct equals_verdict *v, const char *log, bool *stop, struct tm_err *err);

#endif
