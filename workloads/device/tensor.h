/* A tensor: shape, type and the block of device memory it lies in. */
#ifndef TM_TENSOR_H
#define TM_TENSOR_H

#include "device/dtype.h"
#include "memory/memory.h"

extern const char *const dtype_name[DT_N];
extern const uint8_t dtype_bytes[DT_N];

#define TENSOR_RANK_MAX 4

struct tensor {
	struct mem_block *block;          /* NULL: absent */
	uint64_t offset;                  /* bytes into the block; 0 but in a view */
	enum dtype dtype;
	int rank;
	int64_t shape[TENSOR_RANK_MAX];
};

/* Row-major and dense. `rank` further int64_t arguments give the shape. */
int tensor_new(struct mem *mem, struct tensor *t, enum mem_category category, const char *name,
	       enum dtype dtype, struct tm_err *err, int rank, ...);
/* The same with the shape of another tensor. */
int tensor_like(struct mem *mem, struct tensor *t, enum mem_category category, const char *name,
		enum dtype dtype, const struct tensor *shape, struct tm_err *err);
/* Releases the block and leaves the tensor absent; fine on an absent one. A view is not dropped: BUG. */
void tensor_drop(struct mem *mem, struct tensor *t);
/* Rows first … first + n - 1 of t as an (n, columns) tensor in the same block, valid as long as t is. */
struct tensor tensor_rows_of(const struct tensor *t, int64_t first, int64_t n);

static inline bool dtype_is_real(enum dtype d)
{
	return d == DT_F32 || d == DT_BF16 || d == DT_F16;
}

static inline bool tensor_here(const struct tensor *t)
{
	return t && t->block;
}

static inline int64_t tensor_n(const struct tensor *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->rank; i++)
		n *= t->shape[i];
	return n;
}

/* The last dimension, and the product of the others. */
static inline int64_t tensor_cols(const struct tensor *t)
{
	return t->shape[t->rank - 1];
}

static inline int64_t tensor_rows(const struct tensor *t)
{
	return tensor_n(t) / tensor_cols(t);
}

static inline uint64_t tensor_bytes(const struct tensor *t)
{
	return (uint64_t)tensor_n(t) * dtype_bytes[t->dtype];
}

/* Where it begins, on a device whose addresses are pointers. */
static inline void *tensor_data(const struct tensor *t)
{
	return (void *)(uintptr_t)(t->block->addr + t->offset);
}

static inline float *tensor_f32(const struct tensor *t)
{
	return tensor_data(t);
}

static inline int32_t *tensor_i32(const struct tensor *t)
{
	return tensor_data(t);
}

#endif
