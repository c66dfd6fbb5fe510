/* Why a card cannot be used: every reason in one sentence, with what to do. */
#include "cuda/fake_runtime.h"

#include "base/mem.h"
#include "device/cuda/reasons.h"

extern const struct device_backend device_cuda;

#define USABLE { .driver_version = 13000, .cards = 2, .major = 9, .minor = 0, .memory = 1ull << 37 }

/* What opening says; "" where it gets past the point at which a card is needed. */
static const char *why(const char *arg, int code)
{
	static struct tm_err err;
	struct device dev = { 0 };
	int rc;

	err = (struct tm_err){ 0 };
	rc = device_cuda.open(&dev, arg, 1, &err);
	assert_int_equal(rc, code);
	assert_null(dev.priv);            /* nothing is left of it */
	assert_int_equal(fake.last_error, cudaSuccess);
	return err.text;
}

#define SAYS(text, part) do { \
	const char *text_ = (text); \
	if (!strstr(text_, part)) \
		fail_msg("\"%s\" is not in: %s", part, text_); \
} while (0)

static void drivers(void **state)
{
	(void)state;
	fake = (struct fake)USABLE;
	fake.count_code = cudaErrorInsufficientDriver;
	fake.driver_version = 0;
	SAYS(why("", TM_EENV), "there is no NVIDIA driver here (libcuda.so.1 was not found); this build needs one for CUDA 13.0");
	fake.driver_version = 12040;
	SAYS(why("", TM_EENV), "the driver is for CUDA 12.4 and older, this build is of CUDA 13.0; install a newer driver");
	fake.count_code = cudaErrorSystemDriverMismatch;
	SAYS(why("", TM_EENV), "of different versions");
	fake.count_code = cudaErrorStubLibrary;
	SAYS(why("", TM_EENV), "LD_LIBRARY_PATH");
	fake.count_code = cudaErrorInitializationError;
	SAYS(why("", TM_EENV), "cudaErrorInitializationError");
}

static void cards(void **state)
{
	(void)state;
	fake = (struct fake)USABLE;
	fake.count_code = cudaErrorNoDevice;
	unsetenv("CUDA_VISIBLE_DEVICES");
	SAYS(why("", TM_EENV), "the driver sees no card");
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	SAYS(why("", TM_EENV), "CUDA_VISIBLE_DEVICES is empty, which hides every card; unset it");
	setenv("CUDA_VISIBLE_DEVICES", "7", 1);
	SAYS(why("", TM_EENV), "CUDA_VISIBLE_DEVICES=7 leaves no card");
	fake.count_code = cudaSuccess;
	setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
	SAYS(why("2", TM_EENV), "cuda:2 is not here; there are cuda:0 (Card 0), cuda:1 (Card 1), with CUDA_VISIBLE_DEVICES=1,0");
	unsetenv("CUDA_VISIBLE_DEVICES");
	SAYS(why("99999999999", TM_EENV), "is not here; there are cuda:0");
	SAYS(why("x", TM_EINVALID), "expected cuda, or cuda:N");
	SAYS(why("-1", TM_EINVALID), "expected cuda, or cuda:N");
	SAYS(why("1x", TM_EINVALID), "expected cuda, or cuda:N");
}

static void contexts(void **state)
{
	(void)state;
	fake = (struct fake)USABLE;
	fake.context_code = cudaErrorDevicesUnavailable;
	SAYS(why("1", TM_EENV), "Card 1 is busy or unavailable; `nvidia-smi`");
	fake.compute_mode = cudaComputeModeExclusiveProcess;
	SAYS(why("", TM_EENV), "EXCLUSIVE_PROCESS and another process has it");
	fake.compute_mode = cudaComputeModeProhibited;
	SAYS(why("", TM_EENV), "PROHIBITED");
	fake.compute_mode = cudaComputeModeDefault;
	fake.context_code = cudaErrorECCUncorrectable;
	SAYS(why("", TM_EENV), "uncorrectable");
	fake.context_code = cudaErrorMemoryAllocation;
	SAYS(why("", TM_EENV), "no memory left for a context");
	fake.context_code = cudaErrorUnknown;
	SAYS(why("", TM_EENV), "cudaErrorUnknown");
}

static void old_cards(void **state)
{
	(void)state;
	fake = (struct fake)USABLE;
	fake.major = 6, fake.minor = 1;
	SAYS(why("", TM_EENV), "Card 0 has compute capability 6.1, and this build has kernels for " TIDEMARK_CUDA_ARCHS);
	assert_true(cuda_arch_runs("75, 80, 89, 90", 8, 6));
	assert_true(cuda_arch_runs("80", 12, 0));
	assert_true(cuda_arch_runs("75", 7, 5));
	assert_false(cuda_arch_runs("80, 90", 7, 5));
	assert_false(cuda_arch_runs("90", 8, 9));
	assert_true(cuda_arch_runs("90a", 9, 0));
	assert_false(cuda_arch_runs("90a", 10, 0));
	assert_true(cuda_arch_runs("75, 90a", 10, 0));
	assert_true(cuda_arch_runs("native", 5, 0));
}

static void types(void **state)
{
	struct cuda card = { .prop = { .major = 7, .minor = 5, .name = "Tesla T4" } };
	struct device dev = { .priv = &card };
	struct tm_err err = { 0 };

	(void)state;
	assert_int_equal(device_cuda.accepts(&dev, DT_F32, false, &err), 0);
	assert_int_equal(device_cuda.accepts(&dev, DT_F16, false, &err), 0);
	assert_int_equal(device_cuda.accepts(&dev, DT_BF16, false, &err), TM_EENV);
	SAYS(err.text, "Tesla T4 has compute capability 7.5, and bf16 needs 8.0; expected precision fp32 or fp16");
	assert_int_equal(device_cuda.accepts(&dev, DT_F32, true, &err), TM_EENV);
	SAYS(err.text, "tf32 needs 8.0");
	card.prop.major = 8, card.prop.minor = 0;
	assert_int_equal(device_cuda.accepts(&dev, DT_BF16, false, &err), 0);
	assert_int_equal(device_cuda.accepts(&dev, DT_F32, true, &err), 0);
}

static void codes(void **state)
{
	struct tm_err err = { 0 };

	(void)state;
	assert_int_equal(cuda_check(cudaSuccess, "x", &err), 0);
	fake.last_error = cudaErrorMemoryAllocation;
	assert_int_equal(cuda_check(cudaErrorMemoryAllocation, "cudaMalloc", &err), TM_EOOM);
	assert_int_equal(fake.last_error, cudaSuccess);
	assert_int_equal(cuda_check(cudaErrorInvalidConfiguration, "gelu_fwd", &err), TM_EIO);
	SAYS(err.text, "gelu_fwd: cudaErrorInvalidConfiguration");
	assert_int_equal(cuda_check(cudaErrorNoKernelImageForDevice, "fill", &err), TM_EENV);
	SAYS(err.text, "TIDEMARK_CUDA_ARCHS");
	assert_int_equal(cuda_check_lt(CUBLAS_STATUS_SUCCESS, "x", &err), 0);
	assert_int_equal(cuda_check_lt(CUBLAS_STATUS_NOT_SUPPORTED, "linear_fwd", &err), TM_EIO);
	SAYS(err.text, "CUBLAS_STATUS_NOT_SUPPORTED");
	fake.last_error = cudaErrorIllegalAddress;
	assert_int_equal(cuda_check_lt(CUBLAS_STATUS_EXECUTION_FAILED, "linear_fwd", &err), TM_EIO);
	SAYS(err.text, "cudaErrorIllegalAddress");
}

/* An operation that is not built is missing from the table, and nothing would say so before a run. */
static void every_operation_is_there(void **state)
{
	(void)state;
#define X(name) \
	if (!device_cuda.ops->name) \
		fail_msg("the table has no %s", #name);
	DEVICE_OPS(X)
#undef X
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drivers),
		cmocka_unit_test(cards),
		cmocka_unit_test(contexts),
		cmocka_unit_test(old_cards),
		cmocka_unit_test(types),
		cmocka_unit_test(codes),
		cmocka_unit_test(every_operation_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
