/*
 * Sums over the rows of a matrix: a part of the rows by one block, in f32, and
 * the parts by another kernel, in double, both in a fixed order. (Sums of
 * squares are in clip.cu.)
 */
#include "device/cuda/kernels.h"

#include "device/cuda/kernels/types.cuh"

#undef NDEBUG
#include <assert.h>

#define THREADS 256
#define WARPS (THREADS / WARP)

/* ---- columns, first stage ---------------------------------------------------- */

/* A block has the columns of a warp, 8 a lane; its warps take rows in turn. */
#define COLS (WARP * 8)

/* Rows that a warp has on their way at a time. */
template <typename T> constexpr int ROWS = sizeof(T) == 2 ? 8 : 4;

/*
 * The rows of x that are `part` of `parts`, for the columns of this block. With
 * two bins rows go to one or the other by bin[row]. out(parts, BINS, cols) is
 * written, or, with `accumulate`, added to.
 */
template <int BINS, bool WIDE, typename T, typename OUT>
__global__ void __launch_bounds__(THREADS) column_parts(OUT *out, const T *x, const int32_t *bin, int64_t rows, int64_t cols,
							  int64_t parts, bool accumulate)
{
	__shared__ alignas(16) float sums[BINS][WARPS][COLS];
	int64_t part = blockIdx.y, end = (part + 1) * rows / parts;
	int64_t first_col = (int64_t)blockIdx.x * COLS, col = first_col + threadIdx.x % WARP * 8;
	int warp = (int)threadIdx.x / WARP, left = (int)max(min(cols - col, (int64_t)8), (int64_t)0);
	float sum[BINS][8] = { };

	for (int64_t row = part * rows / parts + warp; row < end; row += ROWS<T> * WARPS) {
		pack<T, 8> v[ROWS<T>];
		int which[ROWS<T>];

#pragma unroll
		for (int k = 0; k < ROWS<T>; k++) {
			int64_t r = row + k * WARPS;

			v[k] = load_pack<8, WIDE>(x + r * cols + col, r < end ? left : 0);
			which[k] = BINS > 1 && r < end ? bin[r] : 0;
		}
#pragma unroll
		for (int k = 0; k < ROWS<T>; k++) {
			/* A row that is not there is one of zeros. */
#pragma unroll
			for (int b = 0; b < BINS; b++)
				if (BINS == 1 || which[k] == b)
#pragma unroll
					for (int i = 0; i < 8; i++)
						sum[b][i] += get(v[k], i);
			assert(BINS == 1 || (which[k] >= 0 && which[k] < BINS));
		}
	}
#pragma unroll
	for (int b = 0; b < BINS; b++)
		store_pack<true>(&sums[b][warp][threadIdx.x % WARP * 8], sum[b], 8);
	__syncthreads();
	col = first_col + threadIdx.x;
	if (col >= cols)
		return;
#pragma unroll
	for (int b = 0; b < BINS; b++) {
		OUT *to = out + (part * BINS + b) * cols + col;
		float total = 0;

#pragma unroll
		for (int w = 0; w < WARPS; w++)
			total += sums[b][w][threadIdx.x];
		*to = from_f32<OUT>(accumulate ? to_f32(*to) + total : total);
	}
}

/* ---- columns, second stage --------------------------------------------------- */

/* A warp has 32 columns, GROUPS of them take the parts in turn. */
#define GROUPS 16

template <typename OUT>
__global__ void __launch_bounds__(GROUPS * WARP) sum_parts(OUT *out_0, OUT *out_1, const float *parts, int64_t parts_n,
							     int64_t cols, bool accumulate)
{
	__shared__ double sums[GROUPS][WARP];
	int lane = (int)threadIdx.x % WARP, group = (int)threadIdx.x / WARP;
	int64_t col = (int64_t)blockIdx.x * WARP + lane;
	OUT *out = blockIdx.y ? out_1 : out_0;
	double sum = 0;

	parts += blockIdx.y * parts_n * cols;
	if (col < cols)
#pragma unroll 8
		for (int64_t p = group; p < parts_n; p += GROUPS)
			sum += (double)parts[p * cols + col];
	sums[group][lane] = sum;
	__syncthreads();
	if (group || col >= cols)
		return;
	sum = accumulate ? (double)to_f32(out[col]) : 0;
#pragma unroll
	for (int g = 0; g < GROUPS; g++)
		sum += sums[g][lane];
	out[col] = from_f32<OUT>((float)sum);
}

int k_sum_parts(kernel_stream s, enum dtype out_type, void *out_0, void *out_1, const float *parts, int64_t parts_n, int64_t cols,
		bool accumulate)
{
	dim3 grid((unsigned)parts_of(cols, WARP), out_1 ? 2 : 1);

	if (cols <= 0)
		return 0;
	WITH_TYPE(out_type, OUT,
		sum_parts<<<grid, GROUPS * WARP, 0, s>>>((OUT *)out_0, (OUT *)out_1, parts, parts_n, cols, accumulate));
	return (int)cudaGetLastError();
}

/* The first stage; parts in f32, or what is asked for where there is one part. */
template <int BINS>
static int launch_parts(kernel_stream s, enum dtype out_type, void *out, enum dtype in_type, const void *x, const int32_t *bin,
			int64_t rows, int64_t cols, int64_t parts, bool accumulate)
{
	dim3 grid((unsigned)parts_of(cols, COLS), (unsigned)parts);

	WITH_TYPES(in_type, T, out_type, OUT, WITH_FLAG(cols % 8 == 0 && aligned_16(x), WIDE,
		column_parts<BINS, WIDE><<<grid, THREADS, 0, s>>>((OUT *)out, (const T *)x, bin, rows, cols, parts, accumulate)));
	return (int)cudaGetLastError();
}

template <int BINS>
static int column_sums(kernel_stream s, enum dtype out_type, void *out, enum dtype in_type, const void *x, const int32_t *bin,
		       int64_t rows, int64_t cols, bool accumulate, float *scratch)
{
	int64_t parts = k_column_sums_parts(rows);
	int rc;

	if (cols <= 0 || (parts == 0 && accumulate))
		return 0;
	if (parts == 0)
		return k_fill(s, out_type, out, 0, BINS * cols);
	if (parts == 1)
		return launch_parts<BINS>(s, out_type, out, in_type, x, bin, rows, cols, 1, accumulate);
	rc = launch_parts<BINS>(s, DT_F32, scratch, in_type, x, bin, rows, cols, parts, false);
	return rc ? rc : k_sum_parts(s, out_type, out, NULL, scratch, parts, BINS * cols, accumulate);
}

int k_column_sums(kernel_stream s, enum dtype out_type, void *out, enum dtype in_type, const void *x, int64_t rows, int64_t cols,
		  bool accumulate, float *scratch)
{
	return column_sums<1>(s, out_type, out, in_type, x, NULL, rows, cols, accumulate, scratch);
}

int k_column_sums_by(kernel_stream s, enum dtype out_type, void *out, enum dtype in_type, const void *x, const int32_t *bin,
		     int64_t rows, int64_t cols, float *scratch)
{
	return column_sums<2>(s, out_type, out, in_type, x, bin, rows, cols, true, scratch);
}
