/* A bias in every row, for the few products that no algorithm of the library adds one to. */
#include "device/cuda/kernels.h"
#include "device/cuda/kernels/types.cuh"

#define THREADS 256

template <typename T>
__global__ static void bias_rows(T *__restrict__ c, const T *__restrict__ bias, int64_t rows, int64_t n, int64_t ld)
{
	int64_t stride = (int64_t)gridDim.x * THREADS;

	for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < rows * n; i += stride)
		c[i / n * ld + i % n] = bias[i % n];
}

int k_bias_rows(kernel_stream stream, enum dtype type, void *c, const void *bias, int64_t rows, int64_t n, int64_t ld)
{
	int64_t blocks = parts_of(rows * n, THREADS);

	if (blocks)
		WITH_TYPE(type, T, (bias_rows<T><<<(unsigned)(blocks < 65536 ? blocks : 65536), THREADS, 0, stream>>>(
			(T *)c, (const T *)bias, rows, n, ld)));
	return cudaGetLastError();
}
