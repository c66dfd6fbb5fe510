/*
 * Why a card cannot be used, in one sentence with what to do about it. The
 * runtime's codes say little (a driver that is missing and one that is too
 * old share theirs), so each is read together with what else is known.
 */
#include "device/cuda/reasons.h"

#include "base/str.h"

#include <stdlib.h>

#define VISIBLE "CUDA_VISIBLE_DEVICES"

static void add_version(struct tm_str *out, int version)
{
	tm_str_addf(out, "%d.%d", version / 1000, version % 1000 / 10);
}

/* Version 0: the runtime found no driver at all. */
static int no_driver(const struct cuda *c, struct tm_err *err)
{
	struct tm_str has = TM_STR_INIT, needs = TM_STR_INIT;
	int rc;

	add_version(&has, c->driver_version);
	add_version(&needs, c->runtime_version);
	if (!c->driver_version)
		rc = tm_fail(err, TM_EENV, "device cuda: there is no NVIDIA driver here (libcuda.so.1 was not found); this "
			     "build needs one for CUDA %s or newer", needs.s);
	else
		rc = tm_fail(err, TM_EENV, "device cuda: the driver is for CUDA %s and older, this build is of CUDA %s; "
			     "install a newer driver, or build with a toolkit of %s", has.s, needs.s, has.s);
	tm_str_free(&has);
	tm_str_free(&needs);
	return rc;
}

static int no_card(struct tm_err *err)
{
	const char *visible = getenv(VISIBLE);

	if (!visible)
		return tm_fail(err, TM_EENV, "device cuda: the driver sees no card; does `nvidia-smi` list one, and may this "
			       "user open /dev/nvidia*?");
	if (!*visible)
		return tm_fail(err, TM_EENV, "device cuda: " VISIBLE " is empty, which hides every card; unset it, or give it "
			       "the number of a card");
	return tm_fail(err, TM_EENV, "device cuda: " VISIBLE "=%.100s leaves no card; unset it, or give it numbers or UUIDs "
		       "of `nvidia-smi -L`", visible);
}

int cuda_no_devices(const struct cuda *c, int code, struct tm_err *err)
{
	switch (code) {
	case cudaSuccess:
	case cudaErrorNoDevice:
	case cudaErrorInvalidDevice:
		return no_card(err);
	case cudaErrorInsufficientDriver:
		return no_driver(c, err);
	case cudaErrorStubLibrary:
		return tm_fail(err, TM_EENV, "device cuda: the libcuda.so.1 that was found is the toolkit's stub, which only "
			       "serves to link; take its folder out of LD_LIBRARY_PATH");
	case cudaErrorSystemDriverMismatch:
		return tm_fail(err, TM_EENV, "device cuda: libcuda and the kernel's driver are of different versions; "
			       "restart the machine after an update of the driver");
	case cudaErrorSystemNotReady:
		return tm_fail(err, TM_EENV, "device cuda: the system is not ready; is nvidia-fabricmanager running?");
	default:
		return tm_fail(err, TM_EENV, "device cuda: the driver does not start: %s (%s)", cudaGetErrorName(code),
			       cudaGetErrorString(code));
	}
}

int cuda_no_ordinal(const char *arg, int n, struct tm_err *err)
{
	struct tm_str list = TM_STR_INIT;
	const char *visible = getenv(VISIBLE);
	struct cudaDeviceProp prop;
	int rc;

	for (int i = 0; i < n; i++)
		if (cudaGetDeviceProperties(&prop, i) == cudaSuccess)
			tm_str_addf(&list, "%scuda:%d (%s)", i ? ", " : "", i, prop.name);
	rc = tm_fail(err, TM_EENV, "device cuda:%.20s is not here; there %s %s%s%.60s%s", arg, n == 1 ? "is" : "are", list.s,
		     visible ? ", with " VISIBLE "=" : "", visible ? visible : "",
		     visible ? ", by which they are numbered" : "");
	tm_str_free(&list);
	return rc;
}

/*
 * Machine code of one generation runs on the later ones of the same major
 * number, and the PTX beside it is compiled for any later card. So what counts
 * is whether something at or below the card's own number is there.
 */
bool cuda_arch_runs(const char *archs, int major, int minor)
{
	bool any = false;

	for (const char *p = archs; *p; ) {
		char *end;
		long arch = strtol(p, &end, 10);

		if (end == p) {
			p++;
			continue;
		}
		any = true;
		if (arch <= major * 10 + minor && (*end != 'a' || arch == major * 10 + minor))
			return true;
		p = end + (*end != '\0');
	}
	return !any;                      /* "native", "all": whoever built it knew */
}

int cuda_no_kernels(const struct cuda *c, struct tm_err *err)
{
	return tm_fail(err, TM_EENV, "device cuda: %s has compute capability %d.%d, and this build has kernels for %s; "
		       "build with -DTIDEMARK_CUDA_ARCHS=%d%d (nvcc must still know it: CUDA 13 begins at 75)", c->prop.name,
		       c->prop.major, c->prop.minor, TIDEMARK_CUDA_ARCHS, c->prop.major, c->prop.minor);
}

int cuda_no_context(const struct cuda *c, int code, struct tm_err *err)
{
	int mode = cudaComputeModeDefault;

	cudaGetLastError();
	cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, c->ordinal);
	if (mode == cudaComputeModeProhibited)
		return tm_fail(err, TM_EENV, "device cuda: %s is in compute mode PROHIBITED; `nvidia-smi -c DEFAULT` opens it",
			       c->prop.name);
	switch (code) {
	case cudaErrorDevicesUnavailable:
	case cudaErrorDeviceUninitialized:
		return tm_fail(err, TM_EENV, mode == cudaComputeModeExclusiveProcess ?
			       "device cuda: %s is in compute mode EXCLUSIVE_PROCESS and another process has it; wait for that one, "
			       "or `nvidia-smi -c DEFAULT`" :
			       "device cuda: %s is busy or unavailable; `nvidia-smi` lists who uses it", c->prop.name);
	case cudaErrorMemoryAllocation:
		return tm_fail(err, TM_EENV, "device cuda: %s has no memory left for a context (about half a GiB); `nvidia-smi` "
			       "lists who uses it", c->prop.name);
	case cudaErrorECCUncorrectable:
	case cudaErrorNvlinkUncorrectable:
		return tm_fail(err, TM_EENV, "device cuda: %s has an uncorrectable memory or link error (%s); it must be reset or "
			       "replaced, see `nvidia-smi -q`", c->prop.name, cudaGetErrorName(code));
	case cudaErrorNoKernelImageForDevice:
		return cuda_no_kernels(c, err);
	case cudaErrorCompatNotSupportedOnDevice:
		return tm_fail(err, TM_EENV, "device cuda: the forward-compatible driver in the library path does not support %s; "
			       "take cuda-compat out of LD_LIBRARY_PATH or update the driver", c->prop.name);
	default:
		return tm_fail(err, TM_EENV, "device cuda: %s cannot be opened: %s (%s)", c->prop.name, cudaGetErrorName(code),
			       cudaGetErrorString(code));
	}
}

int cuda_no_type(const struct cuda *c, const char *type, struct tm_err *err)
{
	return tm_fail(err, TM_EENV, "device cuda: %s has compute capability %d.%d, and %s needs 8.0; expected precision fp32 or fp16",
		       c->prop.name, c->prop.major, c->prop.minor, type);
}
