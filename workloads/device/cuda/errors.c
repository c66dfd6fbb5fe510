/*
 * Codes of the runtime and of cuBLASLt as errors of this program.
 *
 * A code that comes from a kernel (an illegal address) spoils the context:
 * from then on every call returns it at once, so the run ends where the next
 * one is made, at the latest where the step's losses are read, and closing the
 * device waits for nothing.
 */
#include "device/cuda/cuda.h"

/* After these nothing more can be done in this process. */
static bool spoils_context(int code)
{
	switch (code) {
	case cudaErrorECCUncorrectable:
	case cudaErrorNvlinkUncorrectable:
	case cudaErrorIllegalAddress:
	case cudaErrorLaunchTimeout:
	case cudaErrorAssert:
	case cudaErrorHardwareStackError:
	case cudaErrorIllegalInstruction:
	case cudaErrorMisalignedAddress:
	case cudaErrorInvalidAddressSpace:
	case cudaErrorInvalidPc:
	case cudaErrorLaunchFailure:
		return true;
	default:
		return false;
	}
}

static const char *advice(int code)
{
	if (code == cudaErrorECCUncorrectable || code == cudaErrorNvlinkUncorrectable)
		return "; the card itself failed: look at `nvidia-smi -q` and reset it";
	if (spoils_context(code))
		return "; a kernel queued before this did it, and compute-sanitizer tells which";
	return "";
}

int cuda_check(int code, const char *what, struct tm_err *err)
{
	if (code == cudaSuccess)
		return 0;
	/* The runtime keeps a code for whoever asks next; it has been told here. */
	cudaGetLastError();
	if (code == cudaErrorMemoryAllocation)
		return tm_fail(err, TM_EOOM, "%s: the card has no more memory", what);
	if (code == cudaErrorNoKernelImageForDevice)
		return tm_fail(err, TM_EENV, "%s: the kernels were compiled for %s, which this card does not run; "
			       "build with -DTIDEMARK_CUDA_ARCHS=native", what, TIDEMARK_CUDA_ARCHS);
	return tm_fail(err, TM_EIO, "%s: %s (%s)%s", what, cudaGetErrorName(code), cudaGetErrorString(code), advice(code));
}

int cuda_check_lt(cublasStatus_t status, const char *what, struct tm_err *err)
{
	if (status == CUBLAS_STATUS_SUCCESS)
		return 0;
	/* Of a kernel of the library that failed, the runtime knows more. */
	if (status == CUBLAS_STATUS_EXECUTION_FAILED || status == CUBLAS_STATUS_ALLOC_FAILED) {
		int code = cudaGetLastError();

		if (code != cudaSuccess)
			return cuda_check(code, what, err);
	}
	return tm_fail(err, TM_EIO, "%s: cuBLASLt says %s", what, cublasLtGetStatusName(status));
}
