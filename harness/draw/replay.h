/* A sweep of replays as what it is about: files, each under several settings. */
#ifndef TM_DRAW_REPLAY_H
#define TM_DRAW_REPLAY_H

#include "draw/data.h"
#include "judge/replay_case.h"

struct draw_replay_file {
	const char *file;                 /* borrowed, as everything here that is const */
	json_t *settings;                 /* of its runs, in the words of the protocol */
	json_t **results;                 /* their lines, without what is long */
	const json_t **events;            /* the kept events: course, segments, stranded */
	const struct draw_run **runs;
	size_t n;
	struct replay_case c;
	size_t base, best;                /* REPLAY_NONE: none */
};

/* In the order of execution, which is the worst first; n = 0 for a sweep of runs. Freed by draw_replays_free. */
size_t draw_replays(const struct draw_sweep *s, struct draw_replay_file **out);
void draw_replays_free(struct draw_replay_file *v, size_t n);

/* "expandable_segments:True", "as recorded"; appended. */
void draw_replay_name(const struct draw_replay_file *f, size_t i, struct tm_str *out);
/* "expandable_segments:True, cap 10.0 GiB": a setting as told to people, its cap where the file's settings differ in it; appended. */
void draw_replay_setting(const struct draw_replay_file *f, size_t i, struct tm_str *out);

#endif
