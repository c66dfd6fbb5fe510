/* The callbacks of the workloads whose options are struct train_opts. */
#include "train/train.h"

#include "train/batch.h"

#include <string.h>

/* What was asked and cannot be otherwise here is done, but said. */
static void note_determinism(struct run *run)
{
	const struct train_opts *o = run->opts;
	json_t *body;

	if (o->deterministic || strcmp(run->dev->backend->name, "cpu"))
		return;
	body = json_object();
	json_object_set_new(body, "level", json_string("info"));
	json_object_set_new(body, "text", json_string("deterministic false: the cpu device has no other mode, so the run "
						      "repeats to the bit all the same"));
	event_send(run->events, "note", body);
}

int train_workload_check_allocator(const void *opts, const char *allocator, const char **bad, struct tm_err *err)
{
	return train_check_allocator(opts, allocator, bad, err);
}

int train_workload_init(struct run *run, enum model_kind kind, struct tm_err *err)
{
	struct trainer *t = NULL;
	int rc = train_check_allocator(run->opts, run->job->allocator, NULL, err);

	if (!rc)
		rc = trainer_new(run->opts, kind, run->dev, (uint64_t)run->job->seed, &t, err);
	run->self = t;
	if (!rc)
		note_determinism(run);
	return rc;
}

static void send_hash(struct run *run, int64_t i, const char *hash)
{
	json_t *body = json_object();

	json_object_set_new(body, "step", json_integer(i));
	json_object_set_new(body, "hash", json_string(hash));
	event_send(run->events, "grad", body);
}

int train_workload_step(struct run *run, int64_t i, struct step_result *out, struct tm_err *err)
{
	struct trainer *t = run->self;
	struct train_result r;
	int rc = trainer_step(t, i, &r, err);

	if (rc) {
		run->cause = t->cause;
		return rc;
	}
	*out = (struct step_result){
		.tokens = r.tokens, .samples = r.samples, .has_loss = r.has_loss, .loss = r.loss,
		.skipped = r.skipped, .scale = r.scale, .flops = r.flops,
	};
	if (r.grad_hash[0])
		send_hash(run, i, r.grad_hash);
	return 0;
}

int train_workload_metrics(struct run *run, json_t *metrics, struct tm_err *err)
{
	const struct trainer *t = run->self;

	(void)err;
	/* the mean over a run's counted steps is there already; who only plans has the last step's */
	if (!json_object_get(metrics, "flops.model"))
		json_object_set_new(metrics, "flops.model", json_real(batch_flops(&t->host, &t->opts, &t->cfg)));
	return 0;
}

void train_workload_fini(struct run *run)
{
	trainer_free(run->self);
	run->self = NULL;
}
