/*
 * Recordings and replays as the JSON of docs/protocol.md ("Replay"):
 * replay_answer.c what a recording is, replay_figures.c what a pass gave.
 */
#ifndef TM_WORK_REPLAY_ANSWER_H
#define TM_WORK_REPLAY_ANSWER_H

#include "replay/replay.h"

#include <jansson.h>

/* New: what is known of a recording by itself. replay NULL: it has no history. */
json_t *answer_recording(const struct recording *r, const struct replay *replay, double seconds);

/* Adds the figures of a pass. */
void answer_result(json_t *obj, const struct recording *r, const struct replay *replay,
		   const struct replay_result *result);
/* Adds "at_peak" and "course". */
void answer_picture(json_t *obj, const struct recording *r, const struct replay_picture *picture,
		    const struct replay_stranded *stranded);

/* A member that is a count or a size. */
static inline void answer_int(json_t *obj, const char *key, uint64_t value)
{
	json_object_set_new(obj, key, json_integer((json_int_t)value));
}

/* "frame": its file without folders, its line and function. Nothing where frame is NULL. */
void answer_frame(json_t *obj, const struct recording_frame *frame);
/* A sentence, appended to a list. */
void answer_text(json_t *list, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
