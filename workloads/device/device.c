/*
 * The registry of backends, and the one way into an operation: shapes are
 * checked, the workspace comes from the run's memory, the backend computes,
 * the call is accounted. All of it is generated from DEVICE_OPS, so that a
 * new operation needs nothing here.
 */
#include "device/device.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "device/load.h"

#include <stdlib.h>
#include <string.h>

#define BACKEND_MAX 16

static const struct device_backend *backends[BACKEND_MAX];
static size_t backend_n;

const char *const device_op_name[DEVICE_OP_N] = {
#define X(name) [OP_##name] = #name,
	DEVICE_OPS(X)
#undef X
};

const char *const device_phase_name[DEVICE_PHASE_N] = { "load", "forward", "recompute", "backward", "update", "eval" };

/* ---- registry ------------------------------------------------------- */

void device_register(const struct device_backend *backend)
{
	size_t i = backend_n;

	if (backend->version != DEVICE_VERSION)
		BUG("device %s was built for version %d, this is %d", backend->name, backend->version, DEVICE_VERSION);
	if (backend_n == BACKEND_MAX)
		BUG("more than %d devices", BACKEND_MAX);
	for (; i > 0 && strcmp(backends[i - 1]->name, backend->name) > 0; i--)
		backends[i] = backends[i - 1];
	backends[i] = backend;
	backend_n++;
}

const struct device_backend *device_backend_find(const char *name, size_t len)
{
	for (size_t i = 0; i < backend_n; i++)
		if (strlen(backends[i]->name) == len && !memcmp(backends[i]->name, name, len))
			return backends[i];
	return NULL;
}

size_t device_backend_n(void)
{
	return backend_n;
}

const struct device_backend *device_backend_at(size_t i)
{
	BUG_ON(i >= backend_n);
	return backends[i];
}

/* ---- opening -------------------------------------------------------- */

static int unknown_device(const char *name, size_t len, struct tm_err *err)
{
	const char *names[BACKEND_MAX];
	size_t n = 0;
	struct tm_str list = TM_STR_INIT;
	char *word = tm_xstrndup(name, len);
	const char *near;
	int rc;

	for (; n < device_name_n() && n < BACKEND_MAX; n++) {
		names[n] = device_name_at(n);
		tm_str_addf(&list, "%s%s", n ? ", " : "", names[n]);
	}
	near = tm_nearest(word, names, n);
	rc = tm_fail(err, TM_EINVALID, "unknown device '%s', expected one of: %s%s%s%s", word, list.s,
		     near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
	tm_str_free(&list);
	free(word);
	return rc;
}

int device_backend_get(const char *name, size_t len, const struct device_backend **out, struct tm_err *err)
{
	int rc;

	*out = device_backend_find(name, len);
	if (*out)
		return 0;
	rc = device_load(name, len, out, err);
	if (rc == TM_ENOTFOUND)
		return unknown_device(name, len, err);
	if (!rc)
		device_register(*out);
	return rc;
}

int device_open(const char *name, int threads, struct device **out, struct tm_err *err)
{
	size_t len = strcspn(name, ":");
	const char *arg = name[len] ? name + len + 1 : "";
	const struct device_backend *backend;
	struct device *dev;
	int rc;

	BUG_ON(threads < 0);
	rc = device_backend_get(name, len, &backend, err);
	if (rc)
		return rc;
	dev = tm_xcalloc(1, sizeof *dev);
	dev->backend = backend;
	dev->workspaces = backend->workspaces;
	dev->phase = device_phase_name[0];
	rc = backend->open(dev, arg, threads, err);
	if (rc) {
		free(dev);
		return rc;
	}
	BUG_ON(dev->threads < 1 || !dev->workspaces);
	*out = dev;
	return 0;
}

void device_close(struct device *dev)
{
	if (!dev)
		return;
	if (dev->backend->close)
		dev->backend->close(dev);
	free(dev);
}

int device_start(struct device *dev, struct tm_err *err)
{
	const char *outer;
	int rc;

	if (!dev->workspaces->standing_bytes)
		return 0;
	BUG_ON(dev->standing);
	outer = mem_set_op(dev->mem, "init");
	rc = mem_alloc(dev->mem, dev->workspaces->standing_bytes, MEM_WORKSPACE, "gemm.workspace", &dev->standing, err);
	mem_set_op(dev->mem, outer);
	return rc;
}

void device_stop(struct device *dev)
{
	mem_release(dev->mem, dev->standing);
	dev->standing = NULL;
}

int device_accepts(struct device *dev, enum dtype type, bool tf32, struct tm_err *err)
{
	return dev->backend->accepts ? dev->backend->accepts(dev, type, tf32, err) : 0;
}

struct mem_driver *device_driver(struct device *dev, struct tm_err *err)
{
	return dev->backend->driver(dev, err);
}

static void check_size(const char *what, const struct tensor *t, uint64_t bytes)
{
	if (!tensor_here(t) || tensor_bytes(t) != bytes)
		BUG("%s of %llu bytes does not fit its tensor", what, (unsigned long long)bytes);
}

int device_upload(struct device *dev, struct tensor *dst, const void *src, uint64_t bytes, struct tm_err *err)
{
	check_size("upload", dst, bytes);
	if (dev->launched)
		return 0;
	return dev->backend->upload(dev, dst, src, bytes, err);
}

int device_download(struct device *dev, void *dst, const struct tensor *src, uint64_t bytes, struct tm_err *err)
{
	check_size("download", src, bytes);
	return dev->backend->download(dev, dst, src, bytes, err);
}

int device_sync(struct device *dev, struct tm_err *err)
{
	return dev->backend->sync ? dev->backend->sync(dev, err) : 0;
}

/* ---- phases and accounts -------------------------------------------- */

int device_phase_index(const char *phase)
{
	for (int i = 0; i < DEVICE_PHASE_N; i++)
		if (!strcmp(device_phase_name[i], phase))
			return i;
	BUG("unknown phase %s", phase);
}

void device_set_phase(struct device *dev, const char *phase)
{
	dev->phase = device_phase_name[device_phase_index(phase)];
	if (dev->mem)
		mem_set_phase(dev->mem, dev->phase);
}

void device_reset_account(struct device *dev)
{
	memset(dev->account, 0, sizeof dev->account);
}

int64_t device_blas_ns(const struct device *dev)
{
	int64_t sum_ns = 0;

	for (int op = 0; op < DEVICE_OP_N; op++)
		for (int phase = 0; phase < DEVICE_PHASE_N; phase++)
			sum_ns += dev->account[op][phase].blas_ns;
	return sum_ns;
}

/* ---- dispatch ------------------------------------------------------- */

struct call {
	struct mem_block *workspace;
	int64_t start_ns, blas_start_ns;
};

static int call_begin(struct device *dev, enum device_op op, uint64_t workspace_bytes,
		      struct call *call, struct tm_err *err)
{
	*call = (struct call){ 0 };
	if (workspace_bytes) {
		const char *outer = mem_set_op(dev->mem, device_op_name[op]);
		int rc = mem_alloc(dev->mem, workspace_bytes, MEM_WORKSPACE, "workspace", &call->workspace, err);

		mem_set_op(dev->mem, outer);
		if (rc)
			return rc;
	}
	call->blas_start_ns = dev->blas_sum_ns;
	call->start_ns = dev->backend->computes ? tm_mono_ns() : 0;
	return 0;
}

static void call_end(struct device *dev, enum device_op op, const struct call *call, double flops, double bytes)
{
	struct op_account *account = &dev->account[op][device_phase_index(dev->phase)];

	if (dev->backend->computes && !dev->launched)   /* else the backend has added its estimate, or nothing was done */
		account->time_ns += tm_mono_ns() - call->start_ns;
	account->blas_ns += (dev->blas_sum_ns - call->blas_start_ns) / dev->threads;
	account->calls++;
	account->flops += flops;
	account->bytes += bytes;
	mem_release(dev->mem, call->workspace);
}

static void *call_workspace(const struct call *call)
{
	return call->workspace ? (void *)(uintptr_t)call->workspace->addr : NULL;
}

static int not_offered(struct device *dev, enum device_op op, struct tm_err *err)
{
	return tm_fail(err, TM_EENV, "device %s does not offer the operation %s", dev->backend->name,
		       device_op_name[op]);
}

#ifdef TM_FAULTS
static enum device_op mutant = DEVICE_OP_N;

void device_mutate(enum device_op op)
{
	mutant = op;
}

/* `a` are the arguments of the operation `op`. */
static void mutate(struct device *dev, enum device_op op, const void *a)
{
	const struct tensor *out;

	if (op != mutant || !dev->backend->computes || dev->launched)
		return;
	switch (op) {
	case OP_embed_bwd: out = ((const struct op_embed_bwd *)a)->dwte; break;
	case OP_norm_bwd: out = ((const struct op_norm_bwd *)a)->dx; break;
	case OP_linear_dx: out = ((const struct op_linear_dx *)a)->dx; break;
	case OP_linear_dw: out = ((const struct op_linear_dw *)a)->dw; break;
	case OP_attention_bwd: out = ((const struct op_attention_bwd *)a)->dqkv; break;
	case OP_flash_bwd: out = ((const struct op_flash_bwd *)a)->dqkv; break;
	case OP_scatter_rows: out = ((const struct op_scatter_rows *)a)->out; break;
	case OP_gelu_bwd: out = ((const struct op_gelu_bwd *)a)->dx; break;
	case OP_dropout_bwd: out = ((const struct op_dropout_bwd *)a)->dx; break;
	case OP_loss: out = ((const struct op_loss *)a)->logits; break;
	default: BUG("no mutation is defined for %s", device_op_name[op]);
	}

	/* The sign is the top bit of every type. */
	uint64_t bytes = tensor_bytes(out), each = dtype_bytes[out->dtype];
	unsigned char *host = tm_xmalloc(bytes);
	struct tensor target = *out;

	BUG_ON(device_download(dev, host, out, bytes, NULL));
	for (uint64_t i = each - 1; i < bytes; i += each)
		host[i] ^= 0x80;
	BUG_ON(device_upload(dev, &target, host, bytes, NULL));
	free(host);
}
#else
static void mutate(struct device *dev, enum device_op op, const void *a)
{
	(void)dev;
	(void)op;
	(void)a;
}
#endif

#define X(name) \
int op_##name(struct device *dev, const struct op_##name *a, struct tm_err *err) \
{ \
	const struct device_table *ops = dev->backend->ops; \
	double flops, bytes; \
	struct call call; \
	int rc; \
\
	op_check_##name(a); \
	if (!ops->name) \
		return not_offered(dev, OP_##name, err); \
	rc = call_begin(dev, OP_##name, dev->workspaces->name ? dev->workspaces->name(a) : 0, &call, err); \
	if (rc) \
		return rc; \
	rc = dev->launched ? 0 : ops->name(dev, a, call_workspace(&call), err); \
	op_cost_##name(a, &flops, &bytes); \
	call_end(dev, OP_##name, &call, flops, bytes); \
	mutate(dev, OP_##name, a); \
	return rc; \
}
DEVICE_OPS(X)
#undef X
