/*
 * What follows from the replays of one recording, in sentences with figures.
 * A table of rules, one an observation; each looks at the case and says
 * nothing, or one sentence and how many bytes it is about. What would help is
 * said before why it is needed, that before what to check, and last how far
 * the figures can be trusted; within each the largest first.
 */
#ifndef TM_JUDGE_REPLAY_ADVICE_H
#define TM_JUDGE_REPLAY_ADVICE_H

#include "judge/replay_case.h"

enum replay_remark_kind {
	REPLAY_DO,                        /* what to set, or that nothing helps */
	REPLAY_WHY,                       /* where memory lies that cannot be used; what is no leak */
	REPLAY_OPTION,                    /* options that change nothing, or make it worse */
	REPLAY_CHECK,                     /* questions about the program that only its owner can answer */
	REPLAY_SURE,                      /* how far to trust it */
};

struct replay_remark {
	const char *rule;                 /* its name in the table */
	enum replay_remark_kind kind;
	double bytes;                     /* what it is about; 0: not an amount */
	char *text;                       /* one or two sentences, without a newline */
};

struct replay_remarks { struct replay_remark *v; size_t n; };

/* All that the rules have to say; never fails, n = 0 where there is nothing. To be freed. */
void replay_advice(const struct replay_case *c, struct replay_remarks *out);
void replay_remarks_free(struct replay_remarks *r);

/* "Use", "Why", …: the heading of a kind. */
const char *replay_remark_heading(enum replay_remark_kind kind);

/*
 * Blocks of this requested size are workspaces of a vendor's library, made once a handle (one a
 * thread: forward and backward pass) and stream and kept: "cuBLAS workspace, …", or NULL, also where
 * there are more than that of a size that tensors have too.
 */
const char *replay_workspace(double requested_bytes, double blocks, double streams);
/*
 * Whose a group of blocks is, an entry of the worker's lists (`held`, `pinned`): its frame, else the
 * workspace that blocks of that size are, else NULL.
 */
const char *replay_owner(const json_t *group, double requested_bytes, double streams);

#endif
