/* Recordings prepared, and whole passes. */
#include "pass.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>

int replay_new(const struct recording *r, struct replay **out, struct tm_err *err)
{
	struct replay *replay;

	if (r->event_n >= REPLAY_NO_EVENT || r->block_n >= REPLAY_NO_EVENT - r->event_n || r->pool_n > TAPE_POOL_MAX)
		return tm_fail_at(err, TM_EINPUT, r->path, 0, 0, "%zu events and %zu blocks are more than can be replayed",
				  r->event_n, r->block_n);
	replay = tm_xcalloc(1, sizeof *replay);
	replay->r = r;
	start_conf(replay);
	start_segments(replay);
	tape_build(replay);
	start_blocks(replay);
	facts_find(replay);
	if (replay->op_n == 0) {
		replay_free(replay);
		return tm_fail_at(err, TM_ENONE, r->path, 0, 0,
				  "no event asks for memory or frees it, so there is nothing to replay; record with torch.cuda.memory._record_memory_history()");
	}
	*out = replay;
	return 0;
}

void replay_free(struct replay *replay)
{
	if (!replay)
		return;
	ranges_fini(&replay->segments);
	free(replay->ops);
	free(replay->before);
	free(replay->segment_events);
	free(replay->conf_text);
	free(replay);
}

const struct replay_facts *replay_facts(const struct replay *replay)
{
	return &replay->facts;
}

const char *replay_conf(const struct replay *replay)
{
	return replay->conf_text;
}

int replay_run_stats(const struct replay *replay, const struct replay_setting *setting, struct replay_result *out,
		     replay_stat_fn *stat, void *arg, struct tm_err *err)
{
	int64_t begin = tm_mono_ns();
	struct pass pass;
	int rc = pass_init(&pass, replay, setting, out, NULL, err);

	if (pass.state && (rc == 0 || rc == TM_EOOM)) {
		rc = 0;
		pass_result(&pass, pass_go(&pass, 0, replay->op_n, false));
		if (stat && pass.policy->stats)
			pass.policy->stats(pass.state, stat, arg);
	}
	pass_fini(&pass);
	out->seconds = (double)(tm_mono_ns() - begin) * 1e-9;
	return rc;
}

int replay_run(const struct replay *replay, const struct replay_setting *setting, struct replay_result *out,
	       struct tm_err *err)
{
	return replay_run_stats(replay, setting, out, NULL, NULL, err);
}
