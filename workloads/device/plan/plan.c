/*
 * The backend. Its table is made from DEVICE_OPS, so that a new operation
 * needs nothing here; what is to be allocated, checked and counted for a call
 * happens in device.c, for this device as for any other.
 */
#include "device/plan/plan.h"

#include "base/mem.h"
#include "memory/driver.h"

#include <stdlib.h>
#include <string.h>

/* More than any machine has: what fits is not this device's business. Sums of two do not wrap. */
#define CAPACITY_BYTES (UINT64_MAX / 4)

static struct plan_card *card_of(const struct device *dev)
{
	return dev->priv;
}

static int plan_open(struct device *dev, const char *arg, int threads, struct tm_err *err)
{
	const struct device_workspaces *workspaces = device_workspaces_find(*arg ? arg : "cpu");
	struct plan_card *card;

	(void)threads;
	if (!workspaces)
		return tm_fail(err, TM_EENV, "this build does not know the workspaces of device '%.40s', so it cannot plan for it", arg);
	card = tm_xcalloc(1, sizeof *card);
	card->granularity_bytes = PLAN_PAGE_BYTES;
	dev->priv = card;
	dev->workspaces = workspaces;
	dev->threads = 1;
	return 0;
}

static void plan_close(struct device *dev)
{
	free(dev->priv);
}

static struct mem_driver *plan_driver(struct device *dev, struct tm_err *err)
{
	(void)err;
	return driver_space_new(CAPACITY_BYTES, card_of(dev)->granularity_bytes);
}

static int plan_upload(struct device *dev, struct tensor *dst, const void *src, uint64_t bytes, struct tm_err *err)
{
	(void)dev;
	(void)dst;
	(void)src;
	(void)bytes;
	(void)err;
	return 0;
}

/* Zeros, so that whoever reads back what was never computed, without asking `computes`, reads the same in every run. */
static int plan_download(struct device *dev, void *dst, const struct tensor *src, uint64_t bytes, struct tm_err *err)
{
	(void)dev;
	(void)src;
	(void)err;
	memset(dst, 0, bytes);
	return 0;
}

/* An estimate in place of the wall time that a device which computes would add (device.h). */
static void charge(struct device *dev, enum device_op op, const void *a, double flops, double bytes)
{
	const struct plan_card *card = card_of(dev);
	struct op_account *account = &dev->account[op][device_phase_index(dev->phase)];
	enum plan_rate rate = PLAN_FP32;
	bool matrix = plan_matrix(op, a, &rate);

	account->time_ns += (int64_t)(plan_seconds(card, matrix, rate, flops, bytes) * 1e9 + 0.5);
}

#define X(name) \
static int plan_##name(struct device *dev, const struct op_##name *a, void *ws, struct tm_err *err) \
{ \
	double flops, bytes; \
\
	(void)ws; \
	(void)err; \
	if (card_of(dev)->saw) \
		card_of(dev)->saw(card_of(dev)->saw_arg, OP_##name, a); \
	if (card_of(dev)->bandwidth > 0) { \
		op_cost_##name(a, &flops, &bytes); \
		charge(dev, OP_##name, a, flops, bytes); \
	} \
	return 0; \
}
DEVICE_OPS(X)
#undef X

/* ---- recorded steps: gone through as they are everywhere, with nothing recorded ------------ */

static int plan_begin(struct device *dev, struct tm_err *err)
{
	(void)dev;
	(void)err;
	return 0;
}

static int plan_end(struct device *dev, struct device_graph **out, struct tm_err *err)
{
	(void)err;
	*out = dev->priv;                 /* something; nobody looks into it */
	return 0;
}

static void plan_abandon(struct device *dev)
{
	(void)dev;
}

static int plan_feed(struct device *dev, struct device_graph *graph, size_t slot, const void *src, uint64_t bytes,
		     struct tm_err *err)
{
	(void)dev;
	(void)graph;
	(void)slot;
	(void)src;
	(void)bytes;
	(void)err;
	return 0;
}

static int plan_launch(struct device *dev, struct device_graph *graph, const struct device_step *step, struct tm_err *err)
{
	(void)dev;
	(void)graph;
	(void)step;
	(void)err;
	return 0;
}

static void plan_drop(struct device *dev, struct device_graph *graph)
{
	(void)dev;
	(void)graph;
}

static const struct device_graphs plan_graphs = {
	.begin = plan_begin,
	.end = plan_end,
	.abandon = plan_abandon,
	.feed = plan_feed,
	.launch = plan_launch,
	.drop = plan_drop,
};

static const struct device_table plan_ops = {
#define X(name) .name = plan_##name,
	DEVICE_OPS(X)
#undef X
};

static const struct device_backend device_plan = {
	.version = DEVICE_VERSION,
	.name = "plan",
	.help = "plan:NAME, a card by name: goes through the steps and computes nothing (tidemark plan --device NAME)",
	.ops = &plan_ops,
	.open = plan_open,
	.close = plan_close,
	.driver = plan_driver,
	.upload = plan_upload,
	.download = plan_download,
	.computes = false,
	.graphs = &plan_graphs,
};

__attribute__((constructor))
static void register_plan(void)
{
	device_register(&device_plan);
}

int device_plan_open(const struct plan_card *card, struct device **out, struct tm_err *err)
{
	char name[64] = "plan:";
	int rc;

	if (strlen(card->backend) >= sizeof name - strlen(name))
		return tm_fail(err, TM_EENV, "there is no device '%.60s'", card->backend);
	memcpy(name + strlen(name), card->backend, strlen(card->backend) + 1);
	rc = device_open(name, 1, out, err);
	if (!rc)
		*card_of(*out) = *card;
	return rc;
}
