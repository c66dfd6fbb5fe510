/*
 * A step of a plan costs what its allocations cost, so what matters is how few
 * are enough. Step 0 is special (the optimiser's state appears), step 1 is the
 * first with that state beside it, and if step 2 does to memory exactly what
 * step 1 did (mem_digest: every request, address and segment), then so does
 * every later one: what is live between steps and the segments are then the
 * same before and after, and an allocator knows nothing else.
 */
#include "plan_walk.h"

#include "run.h"

/*
 * Where no two steps are alike (drawn lengths, a leak), all of the run's are
 * gone through, up to this many allocations: about a second.
 */
#define ALLOCS_MAX 2000000u

static int open_parts(struct plan_walk *w, const struct plan_card *card, struct tm_err *err)
{
	int rc = device_plan_open(card, &w->run.dev, err);

	return rc ? rc : run_open_memory(&w->run, err);
}

static uint64_t driver_calls(const struct mem *mem)
{
	struct mem_policy_counts c;

	mem_counts(mem, &c);
	return c.driver_allocs + c.driver_frees;
}

static int one_step(struct plan_walk *w, int64_t i, struct tm_err *err)
{
	struct step_result out = { 0 };
	int rc;

	w->run.step = i;
	rc = w->run.workload->step(&w->run, i, &out, err);
	w->model_flops += out.flops;
	return rc ? rc : device_sync(w->run.dev, err);
}

/*
 * As in loop.c: "first step" is step 0, "steady" begins with the first counted
 * step behind it. Until then every step begins it afresh, since it may be the
 * last one that is gone through and then stands for those of the run.
 */
static void mark(struct plan_walk *w, int64_t i)
{
	struct mem *mem = w->run.mem;

	mem_set_step(mem, i);
	if (i == 0)
		mem_mark_begin(mem, "first step");
	else if (i <= w->steady_step)
		mem_mark_begin(mem, "steady");
}

/* `window` of the counted steps that were gone through, `last` of the last step, which stands for those that repeat it. */
static double mean_driver_calls(const struct plan_walk *w, double window, double last)
{
	int64_t through = w->steps > w->first ? w->steps - w->first : 0;

	if (w->repeats)
		return (window + last * (double)(w->job.steps - through)) / (double)w->job.steps;
	return through ? window / (double)through : last;
}

static int steps(struct plan_walk *w, struct tm_err *err)
{
	const struct workload *workload = w->run.workload;
	bool varies = workload->varies && workload->varies(w->run.opts);
	struct mem *mem = w->run.mem;
	uint64_t before = 0, digest = 0, calls = 0;
	double window = 0;                /* driver calls in counted steps */
	int rc = 0;

	for (int64_t i = 0; i < w->last && !w->repeats && !rc; i++) {
		if (mem_alloc_calls(mem) > ALLOCS_MAX) {
			w->cut = true;
			break;
		}
		mark(w, i);
		if (!varies || i <= w->first) {
			device_reset_account(w->run.dev);
			w->counted = 0;
			w->model_flops = 0;
		}
		calls = driver_calls(mem);
		mem_digest_begin(mem);
		rc = one_step(w, i, err);
		digest = mem_digest(mem);
		if (i == 0)
			mem_mark_end(mem);
		w->steps = i + 1;
		w->counted++;
		calls = driver_calls(mem) - calls;
		window += i < w->first ? 0 : (double)calls;
		w->repeats = !varies && i >= 2 && digest == before;
		before = digest;
	}
	mem_mark_end(mem);
	w->driver_calls = mean_driver_calls(w, window, (double)calls);
	return rc;
}

int plan_walk_go(struct plan_walk *w, const struct run *run, const struct plan_card *card, uint64_t cap_bytes,
		 struct tm_err *err)
{
	int64_t first = run->job->warmup_min;
	int rc;

	*w = (struct plan_walk){
		.job = *run->job, .run = *run, .first = first, .last = first + run->job->steps,
		.steady_step = first > 0 ? first : 1,
	};
	w->job.cap_bytes = cap_bytes;
	w->run.job = &w->job;
	w->run.step = -1;
	rc = open_parts(w, card, err);
	if (!rc && run->workload->init)
		rc = run->workload->init(&w->run, err);
	return rc ? rc : steps(w, err);
}

void plan_walk_fini(struct plan_walk *w)
{
	if (w->run.mem && w->run.workload->fini)      /* else nothing was begun */
		w->run.workload->fini(&w->run);
	run_close_parts(&w->run);
}
