/* Tensors: their size in bytes, their birth and death in the run's memory. */
#include "device/tensor.h"

#include <stdarg.h>

const char *const dtype_name[DT_N] = {
	[DT_F32] = "f32", [DT_BF16] = "bf16", [DT_F16] = "f16", [DT_I32] = "i32", [DT_I16] = "i16",
};
const uint8_t dtype_bytes[DT_N] = { [DT_F32] = 4, [DT_BF16] = 2, [DT_F16] = 2, [DT_I32] = 4, [DT_I16] = 2 };

static int born(struct mem *mem, struct tensor *t, enum mem_category category, const char *name,
		const struct tensor *like, struct tm_err *err)
{
	struct tensor fresh = *like;
	int64_t bytes = dtype_bytes[fresh.dtype];
	int rc;

	fresh.block = NULL;
	fresh.offset = 0;
	for (int i = 0; i < fresh.rank; i++) {
		if (fresh.shape[i] < 1)
			BUG("tensor %s: dimension %d is %lld", name, i, (long long)fresh.shape[i]);
		if (__builtin_mul_overflow(bytes, fresh.shape[i], &bytes))
			return tm_fail(err, TM_EOOM, "tensor %s needs more bytes than 63 bits can count", name);
	}
	rc = mem_alloc(mem, (uint64_t)bytes, category, name, &fresh.block, err);
	if (rc)
		return rc;
	*t = fresh;
	return 0;
}

int tensor_new(struct mem *mem, struct tensor *t, enum mem_category category, const char *name,
	       enum dtype dtype, struct tm_err *err, int rank, ...)
{
	struct tensor shape = { .dtype = dtype, .rank = rank };
	va_list ap;

	if (rank < 1 || rank > TENSOR_RANK_MAX)
		BUG("tensor %s: rank %d, expected 1 to %d", name, rank, TENSOR_RANK_MAX);
	va_start(ap, rank);
	for (int i = 0; i < rank; i++)
		shape.shape[i] = va_arg(ap, int64_t);
	va_end(ap);
	return born(mem, t, category, name, &shape, err);
}

int tensor_like(struct mem *mem, struct tensor *t, enum mem_category category, const char *name,
		enum dtype dtype, const struct tensor *shape, struct tm_err *err)
{
	struct tensor like = *shape;

	like.dtype = dtype;
	return born(mem, t, category, name, &like, err);
}

void tensor_drop(struct mem *mem, struct tensor *t)
{
	BUG_ON(t->offset);
	mem_release(mem, t->block);
	*t = (struct tensor){ 0 };
}

struct tensor tensor_rows_of(const struct tensor *t, int64_t first, int64_t n)
{
	int64_t cols = t->rank > 1 ? tensor_cols(t) : 1;
	int64_t rows = tensor_n(t) / cols;

	if (first < 0 || n < 1 || n > rows - first)
		BUG("rows %lld to %lld of %lld", (long long)first, (long long)(first + n), (long long)rows);
	return (struct tensor){
		.block = t->block, .offset = t->offset + (uint64_t)(first * cols) * dtype_bytes[t->dtype],
		.dtype = t->dtype, .rank = t->rank > 1 ? 2 : 1, .shape = { n, cols },
	};
}
