/*
 * The CUDA device: the table of its operations, opening and closing, copies,
 * and what a record should know of the card.
 */
#include "device/cuda/cuda.h"

#include "base/mem.h"
#include "base/num.h"
#include "device/cuda/gemm.h"
#include "device/cuda/graph.h"
#include "device/cuda/reasons.h"
#include "device/cuda/staging.h"

#include <cudnn_graph.h>

#include <stdlib.h>
#include <string.h>

extern const struct device_backend device_cuda;

/* ---- opening ------------------------------------------------------------------ */

static int find_card(struct cuda *c, const char *arg, struct tm_err *err)
{
	int64_t ordinal = 0;
	int n = 0, code;

	if (*arg && (tm_parse_i64(arg, &ordinal) || ordinal < 0))
		return tm_fail(err, TM_EINVALID, "device cuda:%.40s: expected cuda, or cuda:N with the number of a card from 0",
			       arg);
	/* Neither needs a driver; the first one says 0 where there is none. */
	cudaDriverGetVersion(&c->driver_version);
	cudaRuntimeGetVersion(&c->runtime_version);
	code = cudaGetDeviceCount(&n);
	if (code != cudaSuccess || n < 1) {
		cudaGetLastError();
		return cuda_no_devices(c, code, err);
	}
	if (ordinal >= n)
		return cuda_no_ordinal(arg, n, err);
	c->ordinal = (int)ordinal;
	code = cudaGetDeviceProperties(&c->prop, c->ordinal);
	if (code != cudaSuccess)
		return cuda_no_context(c, code, err);
	return cuda_arch_runs(TIDEMARK_CUDA_ARCHS, c->prop.major, c->prop.minor) ? 0 : cuda_no_kernels(c, err);
}

static uint64_t used_bytes(void)
{
	size_t left = 0, there = 0;

	if (cudaMemGetInfo(&left, &there) != cudaSuccess)
		cudaGetLastError();
	return there - left;
}

/* The first call that needs the card makes the context; everything that can be wrong with it shows here. */
static int make_context(struct cuda *c, struct tm_err *err)
{
	int code = cudaSetDevice(c->ordinal);

	if (code == cudaSuccess)
		code = cudaFree(NULL);
	if (code != cudaSuccess)
		return cuda_no_context(c, code, err);
	c->context_bytes = used_bytes();
	return cuda_check(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking), "the stream", err);
}

static void cuda_close(struct device *dev)
{
	struct cuda *c = cuda_of(dev);

	if (!c)
		return;
	cuda_graph_abandon(dev);
	cuda_flash_free(c->flash);
	cuda_gemms_free(c->gemms);
	cuda_staging_free(c);
	if (c->lt)
		cublasLtDestroy(c->lt);
	if (c->stream)
		cudaStreamDestroy(c->stream);
	free(c);
	dev->priv = NULL;
}

static int cuda_open(struct device *dev, const char *arg, int threads, struct tm_err *err)
{
	struct cuda *c = tm_xcalloc(1, sizeof *c);
	int rc;

	(void)threads;                    /* of the CPU; one is enough to queue work */
	dev->priv = c;
	dev->threads = 1;
	rc = find_card(c, arg, err);
	if (!rc)
		rc = make_context(c, err);
	if (!rc)
		rc = cuda_staging_new(c, err);
	if (!rc)
		rc = cuda_check_lt(cublasLtCreate(&c->lt), "cublasLtCreate", err);
	if (!rc)
		c->gemms = cuda_gemms_new(dev, err);
	if (!rc && !c->gemms)
		rc = TM_EENV;
	if (rc) {
		cuda_close(dev);
		return rc == TM_EINVALID ? rc : TM_EENV;
	}
	c->cudnn_bytes = used_bytes() - c->context_bytes;
	return 0;
}

/* ---- copies ---------------------------------------------------------------------- */

static int cuda_upload(struct device *dev, struct tensor *dst, const void *src, uint64_t bytes, struct tm_err *err)
{
	struct cuda *c = cuda_of(dev);

	return (c->recording ? cuda_graph_upload : cuda_staging_up)(c, tensor_data(dst), src, bytes, err);
}

static int in_recording(const char *what, struct tm_err *err)
{
	return tm_fail(err, TM_EINVALID, "%s in the middle of a step that is being recorded; launch eager allows it", what);
}

static int cuda_download(struct device *dev, void *dst, const struct tensor *src, uint64_t bytes, struct tm_err *err)
{
	if (cuda_of(dev)->recording)
		return in_recording("numbers are read back", err);
	return cuda_staging_down(cuda_of(dev), dst, tensor_data(src), bytes, err);
}

static int cuda_sync(struct device *dev, struct tm_err *err)
{
	if (cuda_of(dev)->recording)
		return in_recording("the card is waited for", err);
	return cuda_check(cudaStreamSynchronize(cuda_of(dev)->stream), "waiting for the card", err);
}

/* ---- what it is -------------------------------------------------------------------- */

/* bf16 and tf32 came with Ampere; below it the matrix products of both are missing. */
static int cuda_accepts(struct device *dev, enum dtype type, bool tf32, struct tm_err *err)
{
	const struct cuda *c = cuda_of(dev);

	if (c->prop.major >= 8)
		return 0;
	if (type == DT_BF16)
		return cuda_no_type(c, "bf16", err);
	return tf32 ? cuda_no_type(c, "tf32", err) : 0;
}

static void set_text(json_t *obj, const char *key, const char *text)
{
	json_object_set_new(obj, key, json_string(text));
}

static void set_version(json_t *obj, const char *key, int major, int minor, int patch)
{
	char text[48];

	if (patch < 0)
		snprintf(text, sizeof text, "%d.%d", major, minor);
	else
		snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
	set_text(obj, key, text);
}

static void set_uuid(json_t *obj, const cudaUUID_t *uuid)
{
	char text[4 + 2 * 16 + 4 + 1] = "GPU-";
	size_t n = 4;

	for (int i = 0; i < 16; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
				      (unsigned)(unsigned char)uuid->bytes[i]);
	set_text(obj, "uuid", text);
}

static json_t *versions(const struct cuda *c)
{
	int blas = (int)cublasLtGetVersion(), dnn = (int)cudnnGetVersion();
	json_t *obj = json_object();

	set_version(obj, "driver", c->driver_version / 1000, c->driver_version % 1000 / 10, -1);
	set_version(obj, "runtime", c->runtime_version / 1000, c->runtime_version % 1000 / 10, -1);
	set_version(obj, "cublaslt", blas / 10000, blas % 10000 / 100, blas % 100);
	set_version(obj, "cudnn", dnn / 10000, dnn % 10000 / 100, dnn % 100);
	return obj;
}

/*
 * "used_at_open" is all that was taken of the card when our context was there:
 * the context, and what other processes have. A process cannot tell them apart
 * by the runtime; alone on the card, it is the context.
 */
static json_t *memory_facts(const struct cuda *c)
{
	json_t *obj = json_object();

	json_object_set_new(obj, "total", json_integer((json_int_t)c->prop.totalGlobalMem));
	json_object_set_new(obj, "used_at_open", json_integer((json_int_t)c->context_bytes));
	json_object_set_new(obj, "libraries", json_integer((json_int_t)c->cudnn_bytes));
	return obj;
}

static json_t *cuda_facts(struct device *dev)
{
	const struct cuda *c = cuda_of(dev);
	json_t *obj = json_object();
	char pci[32];

	set_text(obj, "name", c->prop.name);
	set_uuid(obj, &c->prop.uuid);
	snprintf(pci, sizeof pci, "%08x:%02x:%02x.0", (unsigned)c->prop.pciDomainID, (unsigned)c->prop.pciBusID,
		 (unsigned)c->prop.pciDeviceID);
	set_text(obj, "pci", pci);
	set_version(obj, "capability", c->prop.major, c->prop.minor, -1);
	set_text(obj, "kernels", TIDEMARK_CUDA_ARCHS);
	json_object_set_new(obj, "multiprocessors", json_integer(c->prop.multiProcessorCount));
	json_object_set_new(obj, "l2", json_integer(c->prop.l2CacheSize));
	json_object_set_new(obj, "ecc", json_boolean(c->prop.ECCEnabled));
	json_object_set_new(obj, "mps", json_boolean(c->prop.mpsEnabled));
	json_object_set_new(obj, "versions", versions(c));
	json_object_set_new(obj, "memory", memory_facts(c));
	json_object_set_new(obj, "gemm", cuda_gemms_facts(c->gemms));
	return obj;
}

/* ---- the table ----------------------------------------------------------------------- */

static const struct device_table cuda_ops = {
#define X(name) .name = cuda_##name,
	DEVICE_OPS(X)
#undef X
};

static const struct device_graphs cuda_graphs = {
	.begin = cuda_graph_begin,
	.end = cuda_graph_end,
	.abandon = cuda_graph_abandon,
	.feed = cuda_graph_feed,
	.launch = cuda_graph_launch,
	.drop = cuda_graph_drop,
};

const struct device_backend device_cuda = {
	.version = DEVICE_VERSION,
	.name = "cuda",
	.help = "an NVIDIA card, cuda:N the N-th one: cuBLASLt, cuDNN and kernels of this project",
	.ops = &cuda_ops,
	.workspaces = &device_workspaces_cuda,
	.open = cuda_open,
	.close = cuda_close,
	.driver = cuda_driver_new,
	.upload = cuda_upload,
	.download = cuda_download,
	.sync = cuda_sync,
	.computes = true,
	.accepts = cuda_accepts,
	.graphs = &cuda_graphs,
	.facts = cuda_facts,
	.tuning = &cuda_tuning,
};
