/*
 * One pass of a recording through a policy, in steps, so that a caller can
 * look in between. Private to replay.
 */
#ifndef TM_PASS_H
#define TM_PASS_H

#include "told.h"

enum pass_slot { PASS_EMPTY, PASS_LIVE, PASS_PENDING };

struct pass;

/* Slots that are pending, in order of their frees. */
struct pass_link {
	uint32_t prev, next;
};

/* Somebody who looks at the policy right behind a request that raised what is reserved. */
struct pass_watch {
	uint64_t event;                   /* of that request */
	void (*look)(struct pass *pass, void *arg);
	void *arg;
};

struct pass {
	const struct replay *replay;
	const struct replay_setting *setting;
	const struct mem_policy *policy;
	void *state;
	struct mem_driver *driver;
	struct told told;                 /* exact mode only */
	struct mem_request req;
	struct mem_grant *grants;         /* by slot */
	uint8_t *slots;                   /* enum pass_slot; one more than slots: what serves a recorded oom */
	struct pass_link *links;          /* by slot */
	uint32_t pending_first, pending_last;
	bool *retained;                   /* by pool: the policy knows it, and it is in use */
	const struct pass_watch *watch;   /* or NULL */
	uint64_t *event;                  /* by slot: the request it serves; only for a watcher */
	uint64_t held;                    /* highest so far, of the driver */
	uint64_t allocated_at_peak, reserved_at_peak;
	bool trimmed;                     /* more was reserved than the cap allows, and given back before the first event */
	uint64_t refused, same_address, compared;
	struct replay_result *result;
	struct tm_err err;                /* of the last refusal */
};

/*
 * Makes the policy and brings it to the state at the first event. TM_EINVALID:
 * no such policy, or an option string that it refuses. TM_EOOM: what lived
 * then does not fit; result->first_failure says so and the pass can go on.
 * pass_fini is called in any case.
 */
int pass_init(struct pass *pass, const struct replay *replay, const struct replay_setting *setting,
	      struct replay_result *result, const struct pass_watch *watch, struct tm_err *err);
/* Operations [from, to); stops behind a refused request where first_only. Returns where it stopped. */
size_t pass_go(struct pass *pass, size_t from, size_t to, bool first_only);
/* The figures of what was done so far. */
void pass_result(struct pass *pass, size_t done);
void pass_fini(struct pass *pass);

/* ---- pass.c, for begin.c ---- */

/* Something did not fit; the first time is remembered. */
void pass_refuse(struct pass *pass, uint64_t event, uint64_t bytes, uint32_t frames);
/* More is held than ever before. */
void pass_note_peak(struct pass *pass, uint64_t event);
/* The free is requested, its completion comes later; for a policy that has no such thing it comes whole then. */
void pass_free_later(struct pass *pass, uint32_t slot);
/* The slot is the last of those that wait for their completion. */
void pass_queue_pending(struct pass *pass, uint32_t slot);
/* mem_policy_config.completed */
void pass_completed(void *arg, void *cookie);

/* Fills req, and notes that the pool is in use. */
static inline void pass_want(struct pass *pass, const struct tape_op *op)
{
	const struct recording_pool *pool = &pass->replay->r->pools[op->pool];

	pass->req.bytes = op->bytes;
	pass->req.stream = pass->replay->r->streams[op->stream];
	pass->req.pool = (struct mem_pool_id){ { pool->id[0], pool->id[1] } };
	pass->retained[op->pool] = true;
}

/* compare.c: share of the recording's blocks that the policy has likewise, NaN where it lists none. */
double compare_blocks(const struct pass *pass);

#endif
