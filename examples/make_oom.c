/*
 * Makes examples/oom.pickle: the recording of an invented training job, whose
 * requests go through the caching allocator of workloads/memory, so that
 * addresses, segments and blocks are those that PyTorch's rules give.
 *
 * The job: fine-tuning of a transformer of 12 blocks, 1536 wide, fp32, AdamW.
 * Batches get longer from step to step; the first one only warms up, and with
 * each of the others three more blocks, the last ones first, are trained. The optimizer's state of those is
 * made in the update, when the batch's activations have just been freed: it
 * settles in their segments, which then never go back, and the longer batches
 * find no place in what is left of them.
 *
 *   make_oom FILE             writes the snapshot
 *   make_oom --try CONF CAP   runs the job under an option string and a cap (MiB), prints what became of it
 */
#include "memory/driver.h"
#include "memory/memory.h"
#include "snapshot/recorder.h"
#include "snapshot/write.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1ull << 20)
#define LAYERS 12u
#define WIDTH 1536ull
#define VOCAB 32768ull
#define FLOAT 4ull
#define BATCH 16ull
#define CARD_BYTES (48ull << 30)
#define EPOCH_US 1764547200000000ll       /* 2025-12-01 */
#define WEIGHT_MAX (4 * LAYERS + 2)

struct job {
	const struct mem_policy *policy;
	void *state;
	struct mem_driver *driver, watch; /* watch records what the policy asks of the driver */
	struct recorder *rec;             /* NULL: nothing is recorded */
	struct tm_err *err;
	int rc;                           /* of the first failure */
	int64_t time_us;
	uint32_t stack;                   /* of the request at hand */
	uint64_t live, live_peak;
};

struct tensor {
	struct mem_grant grant;
	uint64_t bytes;
};

static struct recorder_place place(const struct job *job)
{
	return (struct recorder_place){ .time_us = job->time_us, .stack = job->stack };
}

static struct job *job_of(struct mem_driver *drv)
{
	return (struct job *)((char *)drv - offsetof(struct job, watch));
}

static int watch_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct job *job = job_of(drv);
	struct recorder_place here = place(job);
	int rc = job->driver->alloc(job->driver, bytes, addr, err);

	job->time_us += 180;              /* what a cudaMalloc takes */
	return rc || !job->rec ? rc : recorder_segment(job->rec, REC_SEGMENT_ALLOC, *addr, bytes, &here);
}

static void watch_free(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	struct job *job = job_of(drv);
	struct recorder_place here = place(job);

	if (job->rec && recorder_segment(job->rec, REC_SEGMENT_FREE, addr, bytes, &here))
		BUG("%s", job->err->text);
	job->driver->free(job->driver, addr, bytes);
}

static int watch_reserve(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	return job_of(drv)->driver->reserve(job_of(drv)->driver, bytes, addr, err);
}

static int watch_map(struct mem_driver *drv, uint64_t addr, uint64_t bytes, struct tm_err *err)
{
	return job_of(drv)->driver->map(job_of(drv)->driver, addr, bytes, err);
}

static void watch_unmap(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	job_of(drv)->driver->unmap(job_of(drv)->driver, addr, bytes);
}

static void watch_release(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	job_of(drv)->driver->release(job_of(drv)->driver, addr, bytes);
}

static void watch_info(struct mem_driver *drv, uint64_t *total, uint64_t *unused)
{
	job_of(drv)->driver->info(job_of(drv)->driver, total, unused);
}

/* Innermost first: PyTorch's own frame, the module's, the script's. */
static void from(struct job *job, const char *op, const char *module, int line, const char *caller, int caller_line)
{
	struct recording_frame frames[] = {
		{ "torch/nn/functional.py", op, 0 }, { "model.py", module, line },
		{ "train.py", caller, caller_line }, { "train.py", "<module>", 96 },
	};

	if (job->rec)
		job->stack = recorder_stack(job->rec, frames, TM_ARRAY_N(frames));
}

static void get(struct job *job, struct tensor *t, uint64_t bytes)
{
	struct mem_request req = { .bytes = bytes };
	struct recorder_place here;

	*t = (struct tensor){ .bytes = bytes };
	if (job->rc)
		return;
	job->time_us += 12 + (int64_t)(bytes >> 20);
	job->rc = job->policy->alloc(job->state, &req, &t->grant, job->err);
	if (job->rc)
		return;
	here = place(job);
	if (job->rec)
		job->rc = recorder_alloc(job->rec, t->grant.addr, bytes, t->grant.size, &here);
	job->live += bytes;
	if (job->live > job->live_peak)
		job->live_peak = job->live;
}

static void put(struct job *job, struct tensor *t)
{
	struct recorder_place here = place(job);

	if (!t->grant.addr)
		return;
	job->time_us += 3;
	if (job->rec && recorder_free(job->rec, t->grant.addr, &here))
		BUG("%s", job->err->text);
	job->policy->free(job->state, &t->grant);
	job->live -= t->bytes;
	*t = (struct tensor){ 0 };
}

static struct tensor weight[WEIGHT_MAX], grad[WEIGHT_MAX], moment[2][WEIGHT_MAX];
static unsigned first_trained;            /* block */
static struct tensor saved[LAYERS][4];    /* per block: norms, qkv, attention, mlp */

static uint64_t weight_bytes(unsigned i)
{
	static const uint64_t share[4] = { 3, 1, 4, 4 };          /* qkv, projection, fc1, fc2 */

	if (i >= 4 * LAYERS)
		return i == 4 * LAYERS ? VOCAB * WIDTH * FLOAT : 2048 * WIDTH * FLOAT;
	return share[i % 4] * WIDTH * WIDTH * FLOAT;
}

static void forward(struct job *job, uint64_t length)
{
	static const uint64_t share[4] = { 2, 3, 1, 4 };
	static const char *const op[4] = { "layer_norm", "linear", "scaled_dot_product_attention", "gelu" };
	static const char *const module[4] = { "Block.forward", "Attention.forward", "Attention.forward", "MLP.forward" };
	uint64_t row = BATCH * length * WIDTH * FLOAT;

	for (unsigned layer = 0; layer < LAYERS; layer++)
		for (unsigned i = 0; i < 4; i++) {
			from(job, op[i], module[i], 41 + 17 * (int)i, "step", 61);
			get(job, &saved[layer][i], share[i] * row);
		}
}

static void backward(struct job *job, uint64_t length)
{
	static const uint64_t share[2] = { 4, 3 };
	uint64_t row = BATCH * length * WIDTH * FLOAT;
	struct tensor down, temp[2];

	from(job, "cross_entropy", "GPT.forward", 118, "step", 62);
	get(job, &temp[0], BATCH * length * VOCAB / 4 * FLOAT);
	from(job, "backward", "<backward>", 0, "step", 63);
	get(job, &down, row);
	put(job, &temp[0]);
	for (unsigned layer = LAYERS; layer-- > 0;) {
		for (unsigned half = 0; half < 2; half++) {
			get(job, &temp[0], share[half] * row);
			for (unsigned i = 2; i-- > 0;) {
				unsigned w = 4 * layer + 2 * (1 - half) + i;

				if (layer >= first_trained)
					get(job, &grad[w], weight_bytes(w));
			}
			get(job, &temp[1], row);
			put(job, &temp[0]);
			put(job, &down);
			down = temp[1];
			put(job, &saved[layer][3 - 2 * half]);
			put(job, &saved[layer][2 - 2 * half]);
		}
	}
	put(job, &down);
}

static void update(struct job *job)
{
	for (unsigned w = 0; w < WEIGHT_MAX; w++)
		for (unsigned i = 0; i < 2 && grad[w].grant.addr && !moment[i][w].grant.addr; i++) {
			from(job, i ? "zeros_like (exp_avg_sq)" : "zeros_like (exp_avg)", "AdamW.step", 88, "step", 66);
			get(job, &moment[i][w], weight_bytes(w));
		}
	from(job, "zero_grad", "AdamW.zero_grad", 0, "step", 67);
	for (unsigned w = 0; w < WEIGHT_MAX; w++)
		put(job, &grad[w]);
}

static void mark(struct job *job, const char *stage)
{
	if (job->rec && recorder_note(job->rec, "train_step", stage, job->time_us))
		BUG("%s", job->err->text);
}

static const uint64_t lengths[] = { 512, 608, 656, 752, 816 };

static void train(struct job *job)
{
	memset(weight, 0, sizeof weight);
	memset(grad, 0, sizeof grad);
	memset(moment, 0, sizeof moment);
	memset(saved, 0, sizeof saved);
	for (unsigned w = 0; w < WEIGHT_MAX; w++) {
		from(job, "to", w < 4 * LAYERS ? "Block.__init__" : "GPT.__init__", w < 4 * LAYERS ? 23 : 104, "main", 38);
		get(job, &weight[w], weight_bytes(w));
	}
	for (size_t i = 0; i < TM_ARRAY_N(lengths) && !job->rc; i++) {
		first_trained = LAYERS - 3 * (unsigned)i;
		job->time_us += 4000;
		mark(job, "START");
		forward(job, lengths[i]);
		backward(job, lengths[i]);
		update(job);
		mark(job, "END");
	}
}

static int job_begin(struct job *job, const char *conf, uint64_t cap, struct tm_err *err)
{
	struct mem_policy_config cfg = { .conf = conf, .cap_bytes = cap, .driver = &job->watch };

	job->policy = mem_policy_find("caching");
	BUG_ON(!job->policy);
	job->driver = driver_space_new(CARD_BYTES, 2u << 20);
	job->watch = (struct mem_driver){
		.alloc = watch_alloc, .free = watch_free, .info = watch_info, .reserve = watch_reserve,
		.map = watch_map, .unmap = watch_unmap, .release = watch_release,
	};
	job->err = err;
	job->time_us = EPOCH_US;
	job->stack = RECORDING_NONE;
	return job->policy->create(&cfg, &job->state, err);
}

static int try_it(const char *conf, uint64_t cap_mib)
{
	struct mem_policy_counts n;
	struct tm_err err = { 0 };
	struct job job = { 0 };

	if (job_begin(&job, conf, cap_mib * MIB, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	train(&job);
	job.policy->counts(job.state, &n);
	printf("%s: %s; MiB: asked %llu, allocated %llu, reserved %llu; driver calls %llu, retries %llu\n", conf,
	       job.rc ? err.text : "completes", (unsigned long long)(job.live_peak / MIB),
	       (unsigned long long)(n.allocated_peak / MIB), (unsigned long long)(n.reserved_peak / MIB),
	       (unsigned long long)(n.driver_allocs + n.driver_frees), (unsigned long long)n.retries);
	job.policy->destroy(job.state);
	job.driver->close(job.driver);
	return 0;
}

static int write_it(const char *path)
{
	struct recording *r = NULL;
	struct tm_err err = { 0 };
	struct job job = { 0 };
	int rc = job_begin(&job, "", 0, &err);

	if (!rc) {
		job.rec = recorder_new("make_oom", &err);
		train(&job);
		rc = job.rc;
		recorder_walk(job.rec, job.policy, job.state);
		rc = rc ? rc : recorder_done(job.rec, "", &r, &err);
		rc = rc ? rc : recording_write(r, path, &err);
		job.rec = NULL;
		job.policy->destroy(job.state);
		job.driver->close(job.driver);
	}
	if (rc)
		fprintf(stderr, "%s\n", err.text);
	else
		printf("%s: %zu events, %zu segments\n", path, r->event_n, r->segment_n);
	recording_free(r);
	return rc != 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "--try"))
		return try_it(argv[2], strtoull(argv[3], NULL, 10));
	if (argc == 2)
		return write_it(argv[1]);
	fprintf(stderr, "usage: make_oom FILE | make_oom --try CONF CAP_MIB\n");
	return 64;
}
