/*
 * A small builder over cuDNN's backend API: tensors, and the operations that
 * attention is made of, in the order in which they are added. What it is for is
 * one fused kernel: everything but the real tensors is virtual and exists only
 * inside it.
 *
 * Errors stick: after the first one every call returns at once, and
 * flash_graph_end hands it out. So a recipe (flash_recipe.c) reads like the
 * formula it builds.
 */
#ifndef TM_CUDA_FLASH_GRAPH_H
#define TM_CUDA_FLASH_GRAPH_H

#include "base/err.h"

#include <cudnn.h>

#include <stdbool.h>
#include <stdint.h>

/* What libraries before it want is different: the fill of masks, the zeros of the sum of dQ. */
#define FLASH_CUDNN_OLDEST 91000

enum { FLASH_ALIGNMENT = 16 };            /* bytes; of tensors that are not said to be worse */
/* More than any recipe makes, of descriptors, operations and numbers. */
enum { FLASH_MADE_MAX = 192, FLASH_OPS_MAX = 40, FLASH_NUMBERS_MAX = 6 };

typedef cudnnBackendDescriptor_t flash_tensor;

struct flash_graph {
	cudnnBackendDescriptor_t made[FLASH_MADE_MAX];   /* all of them, in the order they were made; destroyed with the graph */
	size_t made_n;
	cudnnBackendDescriptor_t op[FLASH_OPS_MAX];
	size_t op_n;
	cudnnBackendDescriptor_t graph;   /* behind flash_graph_end */
	/* Numbers that kernels are given by value: read from here when a plan is carried out. */
	int64_t number_id[FLASH_NUMBERS_MAX];
	float number[FLASH_NUMBERS_MAX];
	size_t number_n;
	int64_t last_id;                  /* of those that nobody has to name */
	int64_t scores[4], scores_stride[4];      /* (B,H,T,T) */
	int rc;
	struct tm_err *err;
};

/* 0, or with what was done, the status and what the library says: TM_EENV for what it does not have, TM_EOOM, TM_EIO. */
int flash_check(cudnnStatus_t status, const char *what, struct tm_err *err);

/* Scores are (batch, heads, seq, seq). `err` is the caller's until flash_graph_end. */
void flash_graph_begin(struct flash_graph *g, int64_t batch, int64_t heads, int64_t seq, struct tm_err *err);
/*
 * Makes the graph of what was added. `handle` NULL: one that is only asked
 * about, without a card. After an error the graph is there to be dropped.
 */
int flash_graph_end(struct flash_graph *g, cudnnHandle_t handle);
/* Fine on one that was zeroed, and twice. */
void flash_graph_drop(struct flash_graph *g);

/* ---- tensors; dims and strides in elements, order b, h, row, column ---- */

/* In device memory at a multiple of `alignment` bytes; `id` names it when a plan is carried out: below FLASH_ID_END. */
flash_tensor flash_real(struct flash_graph *g, int64_t id, cudnnDataType_t type, const int64_t dim[4], const int64_t stride[4],
			int64_t alignment);
flash_tensor flash_virtual(struct flash_graph *g, cudnnDataType_t type, const int64_t dim[4], const int64_t stride[4]);
/* (B,H,T,T), dense; `turned`: as the transpose of each matrix. */
flash_tensor flash_scores_like(struct flash_graph *g, cudnnDataType_t type, bool turned);
/* (B,H,T,1) in f32; id 0: virtual. */
flash_tensor flash_rows(struct flash_graph *g, int64_t id);
/* (n,1,1,1), in device memory. */
flash_tensor flash_vector(struct flash_graph *g, int64_t id, cudnnDataType_t type, int64_t n);
/* Given to the kernel by value. */
flash_tensor flash_number(struct flash_graph *g, float value);

enum { FLASH_ID_END = 100 };

/* ---- operations ---- */

/* y = mode(x, b), or with t: mode(x, b, t); b and t may be NULL where the mode has none. All math in f32 but of masks. */
void flash_point(struct flash_graph *g, cudnnPointwiseMode_t mode, flash_tensor x, flash_tensor b, flash_tensor y);
/* The same into a new virtual tensor of the scores' shape in f32, which is returned. */
flash_tensor flash_scored(struct flash_graph *g, cudnnPointwiseMode_t mode, flash_tensor x, flash_tensor b);
/* Of two indices or masks: a new mask of the scores' shape. */
flash_tensor flash_mask(struct flash_graph *g, cudnnPointwiseMode_t mode, flash_tensor x, flash_tensor b);
/* Row (axis 2) or column (axis 3) of each element of x, as INT32. */
flash_tensor flash_index(struct flash_graph *g, flash_tensor x, int64_t axis, cudnnDataType_t math);
/* x where the mask is true, else `other`. */
flash_tensor flash_select(struct flash_graph *g, flash_tensor x, flash_tensor other, flash_tensor mask);
/* Along the last dimension, or whichever is 1 in y. */
void flash_reduce(struct flash_graph *g, cudnnReduceTensorOp_t op, flash_tensor x, flash_tensor y);
void flash_reshape(struct flash_graph *g, flash_tensor x, flash_tensor y);

/* How far each sample's matrices are filled: vectors of B lengths. NULL: to their end. */
struct flash_limits { flash_tensor m, n, k; };
/* c = a · b per head. `padding`: what lies outside counts as 0. */
void flash_multiply(struct flash_graph *g, flash_tensor a, flash_tensor b, flash_tensor c, struct flash_limits limits, bool padding);
/* 1 with probability `keep`, else 0, in the scores' shape; seed and offset are (1,1,1,1) of INT64. */
flash_tensor flash_random(struct flash_graph *g, double keep, flash_tensor seed, flash_tensor offset);

#endif
