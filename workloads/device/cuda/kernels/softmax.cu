/*
 * Softmax over rows of scores, with masks and dropout, and its gradient.
 *
 * A row of T numbers begins anywhere, since T is any; but rows lie one behind
 * the other, so the whole tensor is cut into chunks of 8 at multiples of 8 and
 * a row is the chunks it touches. Those that lie in it whole, all but the
 * first and the last, are read and written in 16 bytes at a time whatever T
 * is, and a chunk is two blocks of the random generator. The chunks of a
 * thread, and with them the order of all sums, follow from T and the row
 * alone.
 *
 * Up to 1,024 numbers a warp holds a row in registers, up to 4,096 a block of
 * 4 warps. Longer ones are read once for each pass, which for rows of some
 * ten kilobytes is from the cache. Chunks that are masked whole are not read.
 */
#include "device/cuda/kernels.h"
#include "device/cuda/kernels/types.cuh"
#include "device/random.h"

#define CHUNK 8
#define THREADS 128
#define LONG_THREADS 256

struct softmax {
	int64_t rows, sample_rows;        /* B·H·T, H·T */
	int tokens;
	bool causal;
	const int32_t *lengths;
	uint32_t below;                   /* of dropout: words below this are dropped, the others scaled */
	float keep;
	struct kernel_random random;
	const struct kernel_live *live;
};

/* One row: its first chunk, where in that it begins, and how many keys its query sees. */
struct row {
	int64_t first;
	int skew, chunks, seen, tokens;
};

__device__ static inline row row_of(const softmax &a, int64_t r)
{
	int64_t start = r * a.tokens;
	row w;

	w.first = start / CHUNK;
	w.skew = (int)(start % CHUNK);
	w.chunks = (w.skew + a.tokens + CHUNK - 1) / CHUNK;
	w.tokens = a.tokens;
	w.seen = a.tokens;
	if (a.lengths)
		w.seen = max(0, min(a.tokens, (int)a.lengths[r / a.sample_rows]));
	if (a.causal)
		w.seen = min(w.seen, (int)(r % a.tokens) + 1);
	return w;
}

/* Column of the first number of chunk c; it is negative in a first chunk that the row shares with the one before. */
__device__ static inline int column_of(const row &w, int c)
{
	return c * CHUNK - w.skew;
}

__device__ static inline bool seen(const row &w, int column)
{
	return (unsigned)column < (unsigned)w.seen;
}

/* Whether any number of the chunk at this column is seen. A row's first chunk always reaches into it. */
__device__ static inline bool any_seen(const row &w, int column)
{
	return column < w.seen;
}

/* What is not read, of other rows or masked, is anything. */
template <typename T> __device__ static inline pack<T, CHUNK> read_chunk(const T *x, const row &w, int c)
{
	int column = column_of(w, c);
	const T *at = x + (w.first + c) * CHUNK;
	pack<T, CHUNK> p = {};

	if (column >= 0 && column + CHUNK <= w.tokens)
		return *reinterpret_cast<const pack<T, CHUNK> *>(at);
#pragma unroll
	for (int i = 0; i < CHUNK; i++)
		if (seen(w, column + i)) {
			if constexpr (sizeof(T) == 4)
				p.w[i] = __float_as_uint(at[i]);
			else
				p.w[i / 2] |= (uint32_t)at[i].bits << (i & 1 ? 16 : 0);
		}
	return p;
}

/* The row's part of the chunk. */
template <typename T> __device__ static inline void write_chunk(T *x, const row &w, int c, const float (&v)[CHUNK])
{
	int column = column_of(w, c);
	T *at = x + (w.first + c) * CHUNK;

	if (column >= 0 && column + CHUNK <= w.tokens) {
		pack<T, CHUNK> p;

		set_all(p, v);
		*reinterpret_cast<pack<T, CHUNK> *>(at) = p;
		return;
	}
#pragma unroll
	for (int i = 0; i < CHUNK; i++)
		if ((unsigned)(column + i) < (unsigned)w.tokens)
			at[i] = from_f32<T>(v[i]);
}

/* v ∘ 0 or 1/(1-p), by the elements' numbers in (B,H,T,T): random.h, two blocks. */
__device__ static inline void drop_chunk(float (&v)[CHUNK], const softmax &a, uint32_t step, int64_t chunk)
{
#pragma unroll
	for (int half = 0; half < 2; half++) {
		const struct philox words = random_group((uint64_t)(2 * chunk + half), a.random.seed, a.random.site, step);

#pragma unroll
		for (int i = 0; i < 4; i++)
			v[4 * half + i] *= words.w[i] < a.below ? 0.0f : a.keep;
	}
}

__device__ static inline uint32_t step_of(const softmax &a)
{
	return a.live ? a.live->random : a.random.step;
}

/* As it is after it was stored. */
template <typename T> __device__ static inline void round_all(float (&v)[CHUNK])
{
#pragma unroll
	for (int i = 0; i < CHUNK; i++)
		v[i] = to_f32(from_f32<T>(v[i]));
}

/* ---- who computes a row ------------------------------------------------------ */

/* A warp, or a block of up to 8 of them. */
template <bool BLOCK> __device__ static inline float group_max(float v)
{
	__shared__ float part[LONG_THREADS / WARP];

	v = warp_max(v);
	if (!BLOCK)
		return v;
	if (threadIdx.x % WARP == 0)
		part[threadIdx.x / WARP] = v;
	__syncthreads();
	for (int i = 0; i < (int)blockDim.x / WARP; i++)
		v = fmaxf(v, part[i]);
	return v;
}

template <bool BLOCK, typename N> __device__ static inline N group_sum(N v)
{
	__shared__ N part[LONG_THREADS / WARP];

	if (BLOCK)
		return block_sum(v, part);
	return warp_sum(v);
}

/* The row of this thread, or none. */
template <bool BLOCK> __device__ static inline int64_t row_number(void)
{
	return BLOCK ? (int64_t)blockIdx.x : (int64_t)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
}

template <bool BLOCK> __device__ static inline int lane_number(void)
{
	return BLOCK ? (int)threadIdx.x : (int)threadIdx.x % WARP;
}

/* ---- forward ----------------------------------------------------------------- */

/* exp(x - max) of what is seen, 0 of the rest. A NaN stays one, and makes the sum one. */
__device__ static inline void exp_chunk(float (&v)[CHUNK], const row &w, int column, float max)
{
#pragma unroll
	for (int i = 0; i < CHUNK; i++)
		v[i] = seen(w, column + i) ? expf(v[i] - max) : 0.0f;
}

__device__ static inline float max_chunk(const float (&v)[CHUNK], const row &w, int column)
{
	float best = -INFINITY;

#pragma unroll
	for (int i = 0; i < CHUNK; i++)
		best = fmaxf(best, seen(w, column + i) ? v[i] : -INFINITY);
	return best;
}

/* Probabilities where the scores were, and the dropped ones. Of a row without keys all is 0: 0 · (1 / 0) is not. */
template <bool DROP, typename T>
__device__ static inline void put_chunk(T *scores, T *dropped, const softmax &a, uint32_t step, const row &w, int c,
					float (&v)[CHUNK], float factor)
{
	int column = column_of(w, c);

#pragma unroll
	for (int i = 0; i < CHUNK; i++)
		v[i] = seen(w, column + i) ? v[i] * factor : 0.0f;
	write_chunk(scores, w, c, v);
	if (DROP) {
		round_all<T>(v);
		if (any_seen(w, column))
			drop_chunk(v, a, step, w.first + c);
		write_chunk(dropped, w, c, v);
	}
}

template <typename T, int CHUNKS, bool BLOCK, bool DROP>
__global__ static void __launch_bounds__(THREADS) softmax_fwd(const softmax a, T *__restrict__ scores, T *__restrict__ dropped)
{
	constexpr int STEP = BLOCK ? THREADS : WARP;
	const int64_t r = row_number<BLOCK>();
	float v[CHUNKS][CHUNK], best = -INFINITY, sum = 0;
	const int lane = lane_number<BLOCK>();

	if (r >= a.rows)
		return;
	const row w = row_of(a, r);
	const uint32_t step = DROP ? step_of(a) : 0;

#pragma unroll
	for (int i = 0; i < CHUNKS; i++) {
		int c = lane + i * STEP;

		if (any_seen(w, column_of(w, c))) {
			unpack(v[i], read_chunk(scores, w, c));
			best = fmaxf(best, max_chunk(v[i], w, column_of(w, c)));
		}
	}
	best = group_max<BLOCK>(best);
#pragma unroll
	for (int i = 0; i < CHUNKS; i++) {
		exp_chunk(v[i], w, column_of(w, lane + i * STEP), best);
		sum += sum_of(v[i]);
	}
	sum = group_sum<BLOCK>(sum);
#pragma unroll
	for (int i = 0; i < CHUNKS; i++)
		if (lane + i * STEP < w.chunks)
			put_chunk<DROP>(scores, dropped, a, step, w, lane + i * STEP, v[i], 1.0f / sum);
}

/* Rows that no registers hold: largest score, sum and result in a pass each. */
template <typename T, bool DROP>
__global__ static void __launch_bounds__(LONG_THREADS)
softmax_fwd_long(const softmax a, T *__restrict__ scores, T *__restrict__ dropped)
{
	const row w = row_of(a, blockIdx.x);
	const uint32_t step = DROP ? step_of(a) : 0;
	float v[CHUNK], best = -INFINITY;
	double sum = 0;

	for (int c = threadIdx.x; any_seen(w, column_of(w, c)); c += LONG_THREADS) {
		unpack(v, read_chunk(scores, w, c));
		best = fmaxf(best, max_chunk(v, w, column_of(w, c)));
	}
	best = group_max<true>(best);
	for (int c = threadIdx.x; any_seen(w, column_of(w, c)); c += LONG_THREADS) {
		unpack(v, read_chunk(scores, w, c));
		exp_chunk(v, w, column_of(w, c), best);
		sum += (double)sum_of(v);
	}
	sum = group_sum<true>(sum);
	for (int c = threadIdx.x; c < w.chunks; c += LONG_THREADS) {
		if (any_seen(w, column_of(w, c)))
			unpack(v, read_chunk(scores, w, c));
		exp_chunk(v, w, column_of(w, c), best);
		put_chunk<DROP>(scores, dropped, a, step, w, c, v, (float)(1 / sum));
	}
}

/* ---- dropout alone ------------------------------------------------------------- */

template <typename T>
__global__ static void __launch_bounds__(THREADS) softmax_drop(const softmax a, T *__restrict__ dropped, const T *__restrict__ probs)
{
	const int64_t r = row_number<false>();

	if (r >= a.rows)
		return;
	const row w = row_of(a, r);
	const uint32_t step = step_of(a);

#pragma unroll 2
	for (int c = lane_number<false>(); c < w.chunks; c += WARP) {
		int column = column_of(w, c);
		float v[CHUNK] = { 0 };

		if (any_seen(w, column)) {
			unpack(v, read_chunk(probs, w, c));
			drop_chunk(v, a, step, w.first + c);
#pragma unroll
			for (int i = 0; i < CHUNK; i++)
				v[i] = seen(w, column + i) ? v[i] : 0.0f;
		}
		write_chunk(dropped, w, c, v);
	}
}

/* ---- backward -------------------------------------------------------------------- */

/* dP of a chunk into v; what Σ P ∘ dP gets from it. */
template <bool DROP, typename T>
__device__ static inline float gradient_chunk(float (&v)[CHUNK], const pack<T, CHUNK> &grad, const pack<T, CHUNK> &probs,
					      const softmax &a, uint32_t step, const row &w, int c)
{
	int column = column_of(w, c);
	float both[CHUNK];

	unpack(v, grad);
	if (DROP)
		drop_chunk(v, a, step, w.first + c);
#pragma unroll
	for (int i = 0; i < CHUNK; i++)
		both[i] = seen(w, column + i) ? __fmul_rn(v[i], get(probs, i)) : 0.0f;
	return sum_of(both);
}

template <typename T>
__device__ static inline void put_gradient(T *grad, float (&v)[CHUNK], const pack<T, CHUNK> &probs, const row &w, int c,
					   float mean)
{
	int column = column_of(w, c);

#pragma unroll
	for (int i = 0; i < CHUNK; i++)
		v[i] = seen(w, column + i) ? (v[i] - mean) * get(probs, i) : 0.0f;
	write_chunk(grad, w, c, v);
}

template <typename T, int CHUNKS, bool BLOCK, bool DROP>
__global__ static void __launch_bounds__(THREADS) softmax_bwd(const softmax a, T *__restrict__ grad, const T *__restrict__ probs)
{
	constexpr int STEP = BLOCK ? THREADS : WARP;
	const int64_t r = row_number<BLOCK>();
	const int lane = lane_number<BLOCK>();
	pack<T, CHUNK> g[CHUNKS] = {}, p[CHUNKS] = {};
	float v[CHUNKS][CHUNK], sum = 0;

	if (r >= a.rows)
		return;
	const row w = row_of(a, r);
	const uint32_t step = DROP ? step_of(a) : 0;

	/* All reads first, so that they are on their way together. */
#pragma unroll
	for (int i = 0; i < CHUNKS; i++)
		if (any_seen(w, column_of(w, lane + i * STEP))) {
			g[i] = read_chunk((const T *)grad, w, lane + i * STEP);
			p[i] = read_chunk(probs, w, lane + i * STEP);
		}
#pragma unroll
	for (int i = 0; i < CHUNKS; i++)
		if (any_seen(w, column_of(w, lane + i * STEP)))
			sum += gradient_chunk<DROP>(v[i], g[i], p[i], a, step, w, lane + i * STEP);
	sum = group_sum<BLOCK>(sum);
#pragma unroll
	for (int i = 0; i < CHUNKS; i++)
		if (lane + i * STEP < w.chunks)
			put_gradient(grad, v[i], p[i], w, lane + i * STEP, sum);
}

template <typename T, bool DROP>
__global__ static void __launch_bounds__(LONG_THREADS)
softmax_bwd_long(const softmax a, T *__restrict__ grad, const T *__restrict__ probs)
{
	const row w = row_of(a, blockIdx.x);
	const uint32_t step = DROP ? step_of(a) : 0;
	pack<T, CHUNK> p = {};
	float v[CHUNK] = { 0 };
	double sum = 0;

	for (int c = threadIdx.x; any_seen(w, column_of(w, c)); c += LONG_THREADS)
		sum += (double)gradient_chunk<DROP>(v, read_chunk((const T *)grad, w, c), read_chunk(probs, w, c), a, step, w, c);
	sum = group_sum<true>(sum);
	for (int c = threadIdx.x; c < w.chunks; c += LONG_THREADS) {
		if (any_seen(w, column_of(w, c))) {
			p = read_chunk(probs, w, c);
			gradient_chunk<DROP>(v, read_chunk((const T *)grad, w, c), p, a, step, w, c);
		}
		put_gradient(grad, v, p, w, c, (float)sum);
	}
}

/* ---- launchers --------------------------------------------------------------------- */

static softmax softmax_new(const struct kernel_softmax *a, const struct kernel_live *live)
{
	softmax s = {};

	s.rows = a->batch * a->heads * a->tokens;
	s.sample_rows = a->heads * a->tokens;
	s.tokens = (int)a->tokens;
	s.causal = a->causal;
	s.lengths = a->lengths;
	s.below = random_drop_below(a->p);
	s.keep = 1.0f / (1.0f - a->p);
	s.random = a->random;
	s.live = live;
	return s;
}

/* Columns are int, and blocks a grid's first dimension. */
static bool possible(const softmax &s, const struct kernel_softmax *a, const void *x, const void *y)
{
	return a->tokens <= 1 << 28 && s.rows <= INT32_MAX && aligned_16(x, y);
}

/* Of the row that touches most. */
static int64_t chunks_of(int64_t tokens)
{
	return tokens % CHUNK ? (tokens + 2 * (CHUNK - 1)) / CHUNK : tokens / CHUNK;
}

/* Statement with CHUNKS and BLOCK as constants for rows in registers, or the other one. */
#define BY_LENGTH(tokens, held, longer) do { \
	int64_t n_ = chunks_of(tokens); \
	if (n_ <= WARP) { constexpr int CHUNKS = 1; constexpr bool BLOCK = false; held; } \
	else if (n_ <= 2 * WARP) { constexpr int CHUNKS = 2; constexpr bool BLOCK = false; held; } \
	else if (n_ <= 4 * WARP) { constexpr int CHUNKS = 4; constexpr bool BLOCK = false; held; } \
	else if (n_ <= 2 * THREADS) { constexpr int CHUNKS = 2; constexpr bool BLOCK = true; held; } \
	else if (n_ <= 4 * THREADS) { constexpr int CHUNKS = 4; constexpr bool BLOCK = true; held; } \
	else { longer; } \
} while (0)

static unsigned blocks_of(const softmax &s, bool block)
{
	return (unsigned)(block ? s.rows : parts_of(s.rows, THREADS / WARP));
}

template <typename T, bool DROP> static void launch_fwd(cudaStream_t stream, const softmax &s, T *scores, T *dropped)
{
	BY_LENGTH(s.tokens,
		  (softmax_fwd<T, CHUNKS, BLOCK, DROP><<<blocks_of(s, BLOCK), THREADS, 0, stream>>>(s, scores, dropped)),
		  (softmax_fwd_long<T, DROP><<<blocks_of(s, true), LONG_THREADS, 0, stream>>>(s, scores, dropped)));
}

template <typename T, bool DROP> static void launch_bwd(cudaStream_t stream, const softmax &s, T *grad, const T *probs)
{
	BY_LENGTH(s.tokens,
		  (softmax_bwd<T, CHUNKS, BLOCK, DROP><<<blocks_of(s, BLOCK), THREADS, 0, stream>>>(s, grad, probs)),
		  (softmax_bwd_long<T, DROP><<<blocks_of(s, true), LONG_THREADS, 0, stream>>>(s, grad, probs)));
}

int k_softmax_fwd(kernel_stream stream, const struct kernel_softmax *a, void *scores, void *dropped,
		  const struct kernel_live *live)
{
	const softmax s = softmax_new(a, live);

	if (!possible(s, a, scores, dropped))
		return cudaErrorInvalidValue;
	if (s.rows)
		WITH_TYPE(a->type, T, WITH_FLAG(dropped, DROP, launch_fwd<T, DROP>(stream, s, (T *)scores, (T *)dropped)));
	return cudaGetLastError();
}

int k_softmax_drop(kernel_stream stream, const struct kernel_softmax *a, void *dropped, const void *probs,
		   const struct kernel_live *live)
{
	const softmax s = softmax_new(a, live);

	if (!possible(s, a, dropped, probs))
		return cudaErrorInvalidValue;
	if (s.rows)
		WITH_TYPE(a->type, T, (softmax_drop<T><<<blocks_of(s, false), THREADS, 0, stream>>>(s, (T *)dropped, (const T *)probs)));
	return cudaGetLastError();
}

int k_softmax_bwd(kernel_stream stream, const struct kernel_softmax *a, void *grad, const void *probs,
		  const struct kernel_live *live)
{
	const softmax s = softmax_new(a, live);

	if (!possible(s, a, grad, probs))
		return cudaErrorInvalidValue;
	if (s.rows)
		WITH_TYPE(a->type, T, WITH_FLAG(a->p > 0, DROP, launch_bwd<T, DROP>(stream, s, (T *)grad, (const T *)probs)));
	return cudaGetLastError();
}
