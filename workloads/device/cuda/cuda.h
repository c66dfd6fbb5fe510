/*
 * What the host files of the CUDA backend share. Host code is C; kernels are
 * in .cu files behind kernels.h, so that no header of this project has to be
 * C++. Everything is queued on one stream and nothing waits but download,
 * sync and what they are called from.
 *
 * Rules of all operations here: the same inputs give the same bits (no
 * floating-point atomics, no choice by timing), workspaces follow from shapes
 * alone (workspace_cuda.c), and each element is rounded once (ops.h).
 */
#ifndef TM_CUDA_H
#define TM_CUDA_H

#include "device/device.h"
#include "device/cuda/kernels.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

/* The fixed workspace of all matrix products; device_workspaces_cuda asks for it. */
#define CUDA_GEMM_WORKSPACE_BYTES (32ull << 20)

struct cuda_gemms;                        /* gemm.c: descriptors and chosen algorithms by shape */
struct cuda_flash;                        /* flash.c: cuDNN's handle and plans by shape */
struct cuda_staging;                      /* staging.c: pinned memory on the way to the card */
struct cuda_recording;                    /* graph.c */

/* dev->priv */
struct cuda {
	int ordinal;                      /* in the order of CUDA_VISIBLE_DEVICES */
	struct cudaDeviceProp prop;
	cudaStream_t stream;
	cublasLtHandle_t lt;
	struct cuda_gemms *gemms;
	struct cuda_flash *flash;         /* NULL before the first flash operation: cuDNN is not loaded for nothing */
	struct cuda_staging *staging;
	struct cuda_recording *recording; /* NULL: operations run as they come */
	const struct kernel_live *live;   /* device memory; NULL unless a step is being recorded */
	int driver_version, runtime_version;      /* as 13000; driver 0: none */
	uint64_t context_bytes;           /* taken of the card once the context was there; others' too, if they use it */
	uint64_t cudnn_bytes;           /* that the libraries' handles took behind it */
};

static inline struct cuda *cuda_of(const struct device *dev)
{
	return dev->priv;
}

/*
 * 0 for cudaSuccess. Else TM_EOOM (the card has no more memory; the error is
 * cleared, the context goes on) or TM_EIO with what was done, the error's name
 * and its text. `code` is what a launcher of kernels.h or the runtime returned.
 */
int cuda_check(int code, const char *what, struct tm_err *err);
/* The same for a status of cuBLASLt. */
int cuda_check_lt(cublasStatus_t status, const char *what, struct tm_err *err);

/* The device memory of the fixed workspace; device_start has been called. */
static inline void *cuda_standing(const struct device *dev)
{
	BUG_ON(!dev->standing);
	return (void *)(uintptr_t)dev->standing->addr;
}

/* NULL where a tensor is absent. */
static inline void *cuda_data(const struct tensor *t)
{
	return tensor_here(t) ? tensor_data(t) : NULL;
}

static inline struct kernel_random cuda_random(struct random_at at)
{
	return (struct kernel_random){ .seed = at.seed, .site = at.site, .step = at.step };
}

/* ---- matrix products (gemm.c) --------------------------------------------- */

/*
 * Row-major, as everything here: c(m,n) = alpha · op(a) · op(b) + beta · c (+ bias(n)
 * over rows), op(a) of (m,k), op(b) of (k,n); ld are elements between rows of
 * the matrix as it lies in memory. batch > 1: strides in elements. Computed in
 * f32, with tf32 operands where `tf32` and the inputs are f32.
 */
struct cuda_product {
	int64_t m, n, k, batch;
	bool ta, tb;                      /* a lies in memory as (k,m); b as (n,k) */
	const void *a, *b, *bias;         /* bias NULL: none */
	void *c;
	int64_t lda, ldb, ldc, stride_a, stride_b, stride_c;
	enum dtype in, out;               /* of a and b; of c. bias is of type `out` */
	float alpha, beta;
	bool tf32;
	const char *what;                 /* for errors and the pins: "linear_fwd", … */
};
/* Queues it; of no elements it is nothing. TM_EENV: the library has no algorithm within the workspace. */
int cuda_multiply(struct device *dev, const struct cuda_product *p, struct tm_err *err);

/* NULL after an error: TM_EENV, a file of pins that cannot be read. */
struct cuda_gemms *cuda_gemms_new(struct device *dev, struct tm_err *err);
void cuda_gemms_free(struct cuda_gemms *g);                    /* NULL is fine */

/* ---- the parts, opened and closed by cuda.c ------------------------------- */

void cuda_flash_free(struct cuda_flash *f);                    /* NULL is fine; flash.c makes it on first use */
struct mem_driver *cuda_driver_new(struct device *dev, struct tm_err *err);    /* driver.c */

#define X(name) int cuda_##name(struct device *dev, const struct op_##name *a, void *ws, struct tm_err *err);
DEVICE_OPS(X)
#undef X

#endif
