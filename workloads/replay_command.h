/*
 * `tidemark-work --replay`: recordings gone through under allocator settings;
 * docs/protocol.md, "Replay" says what goes in and comes out.
 */
#ifndef TM_WORK_REPLAY_H
#define TM_WORK_REPLAY_H

#include "base/err.h"

/* Question on stdin, answers on stdout. TM_EINPUT for a question that is none; TM_EIO where stdout is gone. */
int replay_command(struct tm_err *err);

#endif
