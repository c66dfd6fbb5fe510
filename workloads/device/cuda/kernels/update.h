/* Part of device/cuda/kernels.h, which is what to include. */
#ifndef TM_CUDA_KERNELS_UPDATE_H
#define TM_CUDA_KERNELS_UPDATE_H

/* ---- squares, clip factor, loss scale --------------------------------------- */

/* Elements of a tensor whose squares one block adds up. */
#define KERNEL_SQUARES_CHUNK 65536

/* Doubles of scratch that a tensor of n elements takes in k_squares_all: one a chunk. */
static inline int64_t kernel_squares_scratch(int64_t n)
{
	return (n + KERNEL_SQUARES_CHUNK - 1) / KERNEL_SQUARES_CHUNK;
}

struct kernel_squares {
	const void *x;
	int64_t n;
	enum dtype type;
};

/*
 * out[i] (+)= Σ x², i below `count`; scratch has the sum of kernel_squares_scratch
 * over the list. With `accumulate` what is in out is added in double.
 */
int k_squares_all(kernel_stream s, float *out, const struct kernel_squares *list, int64_t count, double *scratch,
		  bool accumulate);

/* *out = min(1, max_norm / (norm + 1e-6)), norm the root of the sum of n squares; 1 where max_norm is not above 0. */
int k_clip_factor(kernel_stream s, float *out, const float *squares, int64_t n, float max_norm);

/* Places in the state of the loss scale: enum scale_state of ops.h, for C++ (clip.c holds them together). */
enum kernel_scale_state {
	KERNEL_SCALE_VALUE, KERNEL_SCALE_GOOD, KERNEL_SCALE_SKIP, KERNEL_SCALE_UPDATES, KERNEL_SCALE_SKIPPED,
	KERNEL_SCALE_AT_FLOOR, KERNEL_SCALE_N
};

/* op_scale_update; state has KERNEL_SCALE_N numbers. */
struct kernel_scale {
	float max_norm, growth, backoff, floor, ceiling, growth_every;
};
int k_scale_update(kernel_stream s, float *state, float *factor, const float *squares, int64_t n,
		   struct kernel_scale how);

/* ---- AdamW and SGD ----------------------------------------------------------- */

/* What stands behind a weight: nothing, f32, or the low 16 bits of a split master. */
enum kernel_master { KERNEL_NO_MASTER, KERNEL_F32_MASTER, KERNEL_SPLIT_MASTER };

/* What all tensors of a launch have in common. */
struct kernel_kind {
	enum dtype weight, grad, moment;
	enum kernel_master master;
};

/* One tensor; `site` is that of its weight, those of m and v follow (ops.h). v NULL in SGD, m NULL without momentum. */
struct kernel_update {
	void *w, *master, *m, *v;
	const void *g;
	int64_t n;
	float decay;
	uint32_t site;
};

/*
 * What follows from the step and the gradients' norm, worked out on the card by
 * k_update_rates, since there only both are known. Of `scratch` an update takes
 * KERNEL_RATES_BYTES.
 */
struct kernel_rates {
	double lr, beta1, beta2;
	float eps, momentum;
	bool sgd;
	int64_t step;                     /* where neither live nor scale says it */
};
#define KERNEL_RATES_BYTES 64

/* factor, scale and live may be NULL; scale is the state of k_scale_update. Then the updates themselves. */
int k_update_rates(kernel_stream s, void *scratch, const struct kernel_rates *rates, const float *factor,
		   const float *scale, const struct kernel_live *live);
int k_adamw(kernel_stream s, struct kernel_kind kind, const struct kernel_update *list, int64_t count, const void *rates,
	    uint64_t seed, uint32_t random_step, const struct kernel_live *live);
int k_sgd(kernel_stream s, struct kernel_kind kind, const struct kernel_update *list, int64_t count, const void *rates,
	  uint64_t seed, uint32_t random_step, const struct kernel_live *live);

#endif
