/* Tensors: their size in bytes, their birth and death in the run's memory. */
#include "device/tensor.h"

#include <stdarg.h>

const char *const dtype_name[DT_N] = { [DT_F32] = "f32", [DT_I32] = "i32" };
const uint8_t dtype_bytes[DT_N] = { [DT_F32] = 4, [DT_I32] = 4 };

int tensor_new(struct mem *mem, struct tensor *t, enum mem_category category, const char *name,
	       enum dtype dtype, struct tm_err *err, int rank, ...)
{
	struct tensor fresh = { .dtype = dtype, .rank = rank };
	int64_t bytes = dtype_bytes[dtype];
	va_list ap;
	int rc;

	if (rank < 1 || rank > TENSOR_RANK_MAX)
		BUG("tensor %s: rank %d, expected 1 to %d", name, rank, TENSOR_RANK_MAX);
	va_start(ap, rank);
	for (int i = 0; i < rank; i++) {
		fresh.shape[i] = va_arg(ap, int64_t);
		if (fresh.shape[i] < 1)
			BUG("tensor %s: dimension %d is %lld", name, i, (long long)fresh.shape[i]);
		if (__builtin_mul_overflow(bytes, fresh.shape[i], &bytes)) {
			va_end(ap);
			return tm_fail(err, TM_EOOM, "tensor %s needs more bytes than 64 bits can count", name);
		}
	}
	va_end(ap);

	rc = mem_alloc(mem, (uint64_t)bytes, category, name, &fresh.block, err);
	if (rc)
		return rc;
	*t = fresh;
	return 0;
}

void tensor_drop(struct mem *mem, struct tensor *t)
{
	mem_release(mem, t->block);
	*t = (struct tensor){ 0 };
}
