/*
 * The CPU device: the reference for every other one, and what runs where
 * there is no card. Every stored type, computed in fp32; matrix products through
 * CBLAS, loops by OpenMP.
 */
#include "device/cpu/cpu.h"

#include "device/cpu/scratch.h"
#include "memory/driver.h"

#include <cblas.h>
#include <omp.h>
#include <string.h>

enum { THREADS_MAX = 256 };

static int cpu_open(struct device *dev, const char *arg, int threads, struct tm_err *err)
{
	if (*arg)
		return tm_fail(err, TM_EINVALID, "device cpu takes nothing behind a colon, found '%s'", arg);
	if (threads > THREADS_MAX)
		return tm_fail(err, TM_EINVALID, "%d threads, expected at most %d", threads, THREADS_MAX);
	/* All: what OMP_NUM_THREADS or the affinity mask of the process allows. */
	dev->threads = threads ? threads : (int)cpu_min(omp_get_max_threads(), THREADS_MAX);
	/* Calls are single-threaded whatever the environment says: see gemm.h. */
	openblas_set_num_threads(1);
	return scratch_open(dev, err);
}

static struct mem_driver *cpu_driver(struct device *dev, struct tm_err *err)
{
	(void)dev;
	return driver_host_new(0, err);
}

static int cpu_upload(struct device *dev, struct tensor *dst, const void *src, uint64_t bytes, struct tm_err *err)
{
	(void)dev;
	(void)err;
	memcpy(tensor_data(dst), src, bytes);
	return 0;
}

static int cpu_download(struct device *dev, void *dst, const struct tensor *src, uint64_t bytes, struct tm_err *err)
{
	(void)dev;
	(void)err;
	memcpy(dst, tensor_data(src), bytes);
	return 0;
}

static const struct device_table cpu_ops = {
#define X(name) .name = cpu_##name,
	DEVICE_OPS(X)
#undef X
};

const struct device_backend device_cpu = {
	.version = DEVICE_VERSION,
	.name = "cpu",
	.help = "this machine's processors, computing in fp32 through OpenBLAS",
	.ops = &cpu_ops,
	.workspaces = &device_workspaces_cpu,
	.open = cpu_open,
	.close = scratch_close,
	.driver = cpu_driver,
	.upload = cpu_upload,
	.download = cpu_download,
	.computes = true,
};
