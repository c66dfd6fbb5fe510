/*
 * The kernels' surface: one launcher for each, with plain pointers to device
 * memory, plain numbers and the stream. A launcher returns the cudaError_t of
 * the launch as an int (cuda_check turns it into an error). C and C++ read
 * this header.
 *
 * `type` is an enum dtype and stands for F of ops.h; `grad` stands for G. All
 * matrices are dense and row-major. What a launcher needs of scratch memory is
 * given to it (workspace_cuda.c says how much); every element of its output is
 * written.
 */
#ifndef TM_CUDA_KERNELS_H
#define TM_CUDA_KERNELS_H

#include "device/dtype.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *kernel_stream;

/*
 * In device memory while a step is recorded, NULL else: what then stands in
 * place of random.step, step of an update and scale of the loss (device_step).
 */
struct kernel_live {
	uint32_t random, update;
	float loss_scale;
};

/* struct random_at of ops.h, for C++. */
struct kernel_random {
	uint64_t seed;
	uint32_t site, step;
};

#include "device/cuda/kernels/bias.h"
#include "device/cuda/kernels/pointwise.h"
#include "device/cuda/kernels/norm.h"
#include "device/cuda/kernels/embed.h"
#include "device/cuda/kernels/rows.h"
#include "device/cuda/kernels/softmax.h"
#include "device/cuda/kernels/flash.h"
#include "device/cuda/kernels/loss.h"
#include "device/cuda/kernels/sums.h"
#include "device/cuda/kernels/update.h"

#ifdef __cplusplus
}
#endif

#endif
