/*
 * Recordings of PyTorch's allocator gone through again: the worker reads them
 * and replays them under settings (docs/protocol.md, "Replay"), and answers
 * file by file while it works.
 */
#ifndef TM_RUN_REPLAY_H
#define TM_RUN_REPLAY_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>

struct replay_ask {
	const char *work;                 /* path of the worker */
	const char *const *files; size_t file_n;   /* no name twice; UTF-8 */
	int device;                       /* -1: the only one in the file */
	const json_t *settings;           /* array of objects as in the protocol */
	bool min_cap, detail;
	/* Called after each line of the answer, for somebody who waits; may be NULL. */
	void (*progress)(void *arg, const json_t *line);
	void *arg;
};

/* What the worker said of one file: either it was refused, or it is a recording with a result a setting. */
struct replayed {
	const char *file;                 /* borrowed from the question */
	json_t *recording;                /* NULL: refused */
	json_t **results;                 /* in the order of the settings; NULL entries: not replayed (no history) */
	int code;                         /* refused: TM_EINPUT or TM_ENONE; 0 */
	char *why;                        /* and the reason; NULL */
};

/*
 * Asks about all files; *out has file_n entries in their order, to be freed by
 * replayed_free also after an error. A file that cannot be read is no error
 * here. TM_EENV: the worker broke down, or is of another build.
 */
int replay_files(const struct replay_ask *ask, struct replayed **out, struct tm_err *err);
void replayed_free(struct replayed *v, size_t n, size_t setting_n);

#endif
