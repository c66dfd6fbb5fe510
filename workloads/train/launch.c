#include "train/launch.h"

#include "base/mem.h"
#include "train/batch.h"
#include "train/watch.h"

#include <stdlib.h>
#include <string.h>

#define EAGER_STEPS 2

static const struct device_graphs *graphs_of(const struct trainer *t)
{
	return t->dev->backend->graphs;
}

void launch_init(struct launch *l, const struct train_opts *o)
{
	*l = (struct launch){ .graph = !strcmp(o->launch, "graph") };
	l->result = tm_xcalloc((size_t)o->accum + 1, sizeof *l->result);
}

static void forget(struct launch *l, struct device *dev)
{
	if (l->recorded)
		dev->backend->graphs->drop(dev, l->recorded);
	l->recorded = NULL;
}

void launch_fini(struct launch *l, struct device *dev)
{
	forget(l, dev);
	free(l->result);
	*l = (struct launch){ 0 };
}

/* ---- what changes from step to step ------------------------------------------------ */

static int launch(struct trainer *t, int64_t i, struct tm_err *err)
{
	const struct device_step step = {
		.random = (uint32_t)i, .update = (uint32_t)(t->updates + 1), .loss_scale = train_loss_scale(t),
	};

	return graphs_of(t)->launch(t->dev, t->launch.recorded, &step, err);
}

/* The uploads of a step, in their order. */
static int feed(struct trainer *t, struct tm_err *err)
{
	size_t slot = 0;
	int rc = 0;

	for (int64_t a = 0; a < t->opts.accum && !rc; a++)
		rc = batch_feed(&t->host, &t->opts, t->dev, a, t->launch.recorded, &slot, err);
	return rc;
}

/* ---- one step ------------------------------------------------------------------------ */

static enum launch_mode mode_of(const struct trainer *t)
{
	if (t->launch.recorded)
		return LAUNCH_AGAIN;
	/* until an update was looked at, its numbers are read in the middle of a step */
	if (!t->launch.graph || t->launch.steps < EAGER_STEPS || watch_first(t->watch))
		return LAUNCH_EAGER;
	return LAUNCH_RECORD;
}

static uint64_t driver_frees(const struct trainer *t)
{
	struct mem_policy_counts counts;

	mem_counts(t->dev->mem, &counts);
	return counts.driver_frees;
}

int launch_begin(struct trainer *t, int64_t i, struct tm_err *err)
{
	struct launch *l = &t->launch;
	int rc = 0;

	l->mode = mode_of(t);
	if (l->mode != LAUNCH_EAGER)
		mem_digest_begin(t->dev->mem);
	l->driver_frees = driver_frees(t);
	if (l->mode == LAUNCH_RECORD)
		return graphs_of(t)->begin(t->dev, err);
	if (l->mode == LAUNCH_AGAIN) {
		rc = feed(t, err);
		if (!rc)
			rc = launch(t, i, err);
		t->dev->launched = !rc;
	}
	return rc;
}

static void keep(struct mem_block *to, const struct tensor *t)
{
	if (tensor_here(t))
		*to = (struct mem_block){ .addr = t->block->addr + t->offset };
}

/* Where the recording has its results, since its blocks are given back after the step. */
static void keep_results(struct trainer *t)
{
	for (int64_t a = 0; a < t->opts.accum; a++)
		keep(&t->launch.result[a], &t->losses[a]);
	keep(&t->launch.result[t->opts.accum], &t->squares);
}

static int end_recording(struct trainer *t, int64_t i, int rc, struct tm_err *err)
{
	struct launch *l = &t->launch;
	struct device_graph *graph;

	if (rc) {
		graphs_of(t)->abandon(t->dev);
		return rc;
	}
	rc = graphs_of(t)->end(t->dev, &graph, err);
	if (rc)
		return rc;
	l->recorded = graph;
	l->digest = mem_digest(t->dev->mem);
	keep_results(t);
	return launch(t, i, err);
}

static int end_again(struct trainer *t, int64_t i, int rc, struct tm_err *err)
{
	struct launch *l = &t->launch;

	if (mem_digest(t->dev->mem) == l->digest)
		return rc;
	forget(l, t->dev);
	if (rc || driver_frees(t) == l->driver_frees)
		return rc;
	return tm_fail(err, TM_EINVALID, "launch graph: in step %lld the allocator gave memory of the recorded step back to the driver; "
		       "expected launch eager, a larger cap or a smaller batch", (long long)i);
}

int launch_end(struct trainer *t, int64_t i, int rc, struct tm_err *err)
{
	struct launch *l = &t->launch;

	t->dev->launched = false;
	if (l->mode == LAUNCH_RECORD)
		rc = end_recording(t, i, rc, err);
	else if (l->mode == LAUNCH_AGAIN)
		rc = end_again(t, i, rc, err);
	l->steps++;
	return rc;
}

struct tensor launch_result(const struct trainer *t, int64_t micro)
{
	struct tensor at = micro < t->opts.accum ? t->losses[micro] : t->squares;

	if (t->launch.mode == LAUNCH_AGAIN && tensor_here(&at)) {
		at.block = &t->launch.result[micro];
		at.offset = 0;
	}
	return at;
}
