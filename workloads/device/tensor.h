/* A tensor: shape, type and the block of device memory it lies in. */
#ifndef TM_TENSOR_H
#define TM_TENSOR_H

#include "memory/memory.h"

enum dtype { DT_F32, DT_I32, DT_N };
extern const char *const dtype_name[DT_N];
extern const uint8_t dtype_bytes[DT_N];

#define TENSOR_RANK_MAX 4

struct tensor {
	struct mem_block *block;          /* NULL: absent */
	enum dtype dtype;
	int rank;
	int64_t shape[TENSOR_RANK_MAX];
};

/* Row-major and dense. `rank` further int64_t arguments give the shape. */
int tensor_new(struct mem *mem, struct tensor *t, enum mem_category category, const char *name,
	       enum dtype dtype, struct tm_err *err, int rank, ...);
/* Releases the block and leaves the tensor absent; fine on an absent one. */
void tensor_drop(struct mem *mem, struct tensor *t);

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

static inline float *tensor_f32(const struct tensor *t)
{
	return (float *)(uintptr_t)t->block->addr;
}

static inline int32_t *tensor_i32(const struct tensor *t)
{
	return (int32_t *)(uintptr_t)t->block->addr;
}

#endif
