/*
 * A step recorded once and launched again (struct device_graphs): the stream is
 * captured while the step is gone through, so what is recorded is what would
 * have run.
 *
 * Two kinds of things change from launch to launch. Uploads: each gets pinned
 * memory of its own (a slot), from which the recorded copy reads, and `feed`
 * fills it anew. The numbers of struct device_step: they lie in device memory
 * behind the standing workspace, where kernels read them (kernel_live), and the
 * first thing recorded is their copy from pinned memory.
 *
 * The capture is relaxed: an allocator may have to ask the driver for memory
 * meanwhile. What the driver itself needs for the graph is not an allocation of
 * ours, as the context is not.
 */
#include "device/cuda/graph.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct slot {
	void *pinned;
	uint64_t bytes;
};

struct device_graph {
	cudaGraphExec_t exec;
	cudaEvent_t done;                 /* of the last launch: from then on slots and numbers may change */
	struct kernel_live *live;         /* pinned */
	struct slot *slots;
	size_t slot_n;
};

struct cuda_recording {
	struct device_graph *graph;
};

static int pin(void **out, size_t bytes, struct tm_err *err)
{
	int code = cudaHostAlloc(out, bytes, cudaHostAllocDefault);

	if (code == cudaErrorMemoryAllocation) {
		cudaGetLastError();
		return tm_fail(err, TM_EENV, "launch graph: the host has no %zu bytes to pin for uploads; launch eager pins none "
			       "of a step's", bytes);
	}
	return cuda_check(code, "pinned memory of an upload", err);
}

static void drop(struct device_graph *g)
{
	if (g->exec)
		cudaGraphExecDestroy(g->exec);
	if (g->done)
		cudaEventDestroy(g->done);
	for (size_t i = 0; i < g->slot_n; i++)
		cudaFreeHost(g->slots[i].pinned);
	cudaFreeHost(g->live);
	free(g->slots);
	free(g);
}

/* Where kernels read what changes: behind what the matrix products have of the standing block. */
static struct kernel_live *live_on_card(const struct device *dev)
{
	return (struct kernel_live *)((unsigned char *)cuda_standing(dev) + CUDA_GEMM_WORKSPACE_BYTES);
}

static int begin_capture(struct device *dev, struct device_graph *g, struct tm_err *err)
{
	struct cuda *c = cuda_of(dev);
	int rc = cuda_check(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture", err);

	return rc ? rc : cuda_check(cudaMemcpyAsync(live_on_card(dev), g->live, sizeof *g->live, cudaMemcpyHostToDevice, c->stream),
				    "recording a copy", err);
}

int cuda_graph_begin(struct device *dev, struct tm_err *err)
{
	struct cuda *c = cuda_of(dev);
	struct device_graph *g = tm_xcalloc(1, sizeof *g);
	void *pinned = NULL;
	int rc = pin(&pinned, sizeof *g->live, err);

	BUG_ON(c->recording);
	g->live = pinned;
	if (!rc)
		rc = cuda_check(cudaEventCreateWithFlags(&g->done, cudaEventDisableTiming), "an event", err);
	if (rc) {
		drop(g);
		return rc;
	}
	c->recording = tm_xcalloc(1, sizeof *c->recording);
	c->recording->graph = g;
	c->live = live_on_card(dev);
	rc = begin_capture(dev, g, err);
	if (rc)
		cuda_graph_abandon(dev);
	return rc;
}

int cuda_graph_upload(struct cuda *c, void *dst, const void *src, uint64_t bytes, struct tm_err *err)
{
	struct device_graph *g = c->recording->graph;
	struct slot *slot;
	int rc;

	g->slots = tm_xrealloc_n(g->slots, g->slot_n + 1, sizeof *g->slots);
	slot = &g->slots[g->slot_n];
	rc = pin(&slot->pinned, bytes, err);
	if (rc)
		return rc;
	slot->bytes = bytes;
	g->slot_n++;
	memcpy(slot->pinned, src, bytes);
	return cuda_check(cudaMemcpyAsync(dst, slot->pinned, bytes, cudaMemcpyHostToDevice, c->stream), "recording an upload", err);
}

/* The recording is over; its graph is the caller's. */
static struct device_graph *stop(struct cuda *c)
{
	struct device_graph *g = c->recording->graph;

	free(c->recording);
	c->recording = NULL;
	c->live = NULL;
	return g;
}

int cuda_graph_end(struct device *dev, struct device_graph **out, struct tm_err *err)
{
	struct cuda *c = cuda_of(dev);
	struct device_graph *g = stop(c);
	cudaGraph_t recorded = NULL;
	int rc = cuda_check(cudaStreamEndCapture(c->stream, &recorded), "cudaStreamEndCapture", err);

	if (!rc)
		rc = cuda_check(cudaGraphInstantiate(&g->exec, recorded, 0), "cudaGraphInstantiate", err);
	if (recorded)
		cudaGraphDestroy(recorded);
	if (rc) {
		drop(g);
		return rc;
	}
	*out = g;
	return 0;
}

void cuda_graph_abandon(struct device *dev)
{
	struct cuda *c = cuda_of(dev);
	cudaGraph_t recorded = NULL;

	if (!c->recording)
		return;
	/* Fails where the capture was broken off, which is why it is abandoned. */
	cudaStreamEndCapture(c->stream, &recorded);
	cudaGetLastError();
	if (recorded)
		cudaGraphDestroy(recorded);
	drop(stop(c));
}

static int wait_for_launch(const struct device_graph *g, struct tm_err *err)
{
	return cuda_check(cudaEventSynchronize(g->done), "waiting for a recorded step", err);
}

int cuda_graph_feed(struct device *dev, struct device_graph *g, size_t slot, const void *src, uint64_t bytes,
		    struct tm_err *err)
{
	int rc = wait_for_launch(g, err);

	(void)dev;
	if (rc)
		return rc;
	if (slot >= g->slot_n || g->slots[slot].bytes != bytes)
		BUG("upload %zu of %llu bytes is not one of the recording", slot, (unsigned long long)bytes);
	memcpy(g->slots[slot].pinned, src, bytes);
	return 0;
}

int cuda_graph_launch(struct device *dev, struct device_graph *g, const struct device_step *step, struct tm_err *err)
{
	struct cuda *c = cuda_of(dev);
	int rc = wait_for_launch(g, err);

	if (rc)
		return rc;
	*g->live = (struct kernel_live){ .random = step->random, .update = step->update, .loss_scale = step->loss_scale };
	rc = cuda_check(cudaGraphLaunch(g->exec, c->stream), "cudaGraphLaunch", err);
	return rc ? rc : cuda_check(cudaEventRecord(g->done, c->stream), "cudaGraphLaunch", err);
}

void cuda_graph_drop(struct device *dev, struct device_graph *g)
{
	(void)dev;
	if (!g)
		return;
	cudaEventSynchronize(g->done);
	drop(g);
}
