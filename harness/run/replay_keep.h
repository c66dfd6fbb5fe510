/*
 * Replays in the database: a sweep of kind "replay", one configuration a file
 * (by its SHA-256) and setting, so that the same snapshot replayed by next
 * year's build is another point of the same history.
 */
#ifndef TM_RUN_REPLAY_KEEP_H
#define TM_RUN_REPLAY_KEEP_H

#include "replay.h"

#include "store/store.h"

struct replay_kept_row { size_t file, setting; };        /* indices of a result that exists and was not refused */

struct replay_keep {
	struct store *store;
	struct store_build build;
	const struct replayed *replayed;
	const json_t *settings;           /* as asked */
	const struct replay_kept_row *rows; size_t row_n;
	const char *suite, *command;      /* what the sweep is called; what repeats it */
	/*
	 * Sentences about a file, kept with its first row: arrays of {rule, about,
	 * text}, one a file; NULL: none.
	 */
	json_t *const *remarks;
};

/*
 * Stores it whole. A replay that ran out is a run that ended `oom`: its
 * figures are in its event, not among the values. TM_ESTORE.
 */
int replay_keep_sweep(const struct replay_keep *k, int64_t *sweep_id, struct tm_err *err);

/*
 * The event of a run: its line of the worker's answer without what is too long to
 * keep. The course is thinned to REPLAY_COURSE_N points, of the map the REPLAY_SEGMENTS_N largest segments stay and
 * in each the parts that can be seen. A new reference.
 */
json_t *replay_event(const json_t *recording, const json_t *result, bool whole_recording);
#define REPLAY_COURSE_N 600
#define REPLAY_SEGMENTS_N 256
/* A part of a segment smaller than this share of the largest segment joins its neighbour. */
#define REPLAY_PART_SHARE (1 / 1024.0)

#endif
