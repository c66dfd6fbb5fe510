/*
 * AdamW and SGD over lists of tensors (items.cuh).
 *
 * Every multiplication, addition, root and division is written out and rounded
 * by itself, in the order of the CPU's update: from the same numbers both give
 * the same bits, a split master gives those of an f32 master, and no compiler
 * changes them by contracting. Memory is what an update waits for anyway.
 */
#include "device/cuda/kernels.h"
#include "device/cuda/kernels/items.cuh"
#include "device/random.h"

#define THREADS 256
#define N 8                               /* elements a thread takes at a time: whole Philox groups, 16 bytes in 16 bits */
#define CHUNK (THREADS * N * 4)           /* elements of a block */
#define ITEMS 60                          /* tensors of a launch */

typedef item_table<kernel_update, ITEMS> table;
static_assert(sizeof(table) + 64 <= 4096, "arguments of a kernel");

/* What k_update_rates leaves for the updates. */
struct rates_now {
	float clip, rest1, beta2, rest2, step_size, root_correction, eps;   /* AdamW */
	float lr, momentum;                                                /* SGD */
	int skip, first;
};
static_assert(sizeof(rates_now) <= KERNEL_RATES_BYTES, "the workspace of an update");

__global__ void rates_kernel(rates_now *out, kernel_rates r, const float *factor, const float *scale, const kernel_live *live)
{
	int64_t step = scale ? (int64_t)scale[KERNEL_SCALE_UPDATES] : live ? (int64_t)live->update : r.step;

	out->clip = factor ? *factor : 1;
	out->skip = scale && scale[KERNEL_SCALE_SKIP] > 0;
	out->first = step == 1;
	out->eps = r.eps;
	out->momentum = r.momentum;
	out->lr = (float)r.lr;
	if (r.sgd)
		return;
	out->rest1 = (float)(1 - r.beta1);
	out->beta2 = (float)r.beta2;
	out->rest2 = (float)(1 - r.beta2);
	out->step_size = (float)(r.lr / (1 - pow(r.beta1, (double)step)));
	out->root_correction = (float)sqrt(1 - pow(r.beta2, (double)step));
}

int k_update_rates(kernel_stream s, void *scratch, const struct kernel_rates *rates, const float *factor,
		   const float *scale, const struct kernel_live *live)
{
	rates_kernel<<<1, 1, 0, s>>>((rates_now *)scratch, *rates, factor, scale, live);
	return cudaGetLastError();
}

/* ---- one element -------------------------------------------------------------- */

struct element {
	float w, m, v;
};

__device__ static inline element adamw(element e, float g, float keep, const rates_now &r)
{
	float grad = __fmul_rn(g, r.clip), first, second, denominator;

	first = __fadd_rn(e.m, __fmul_rn(r.rest1, __fsub_rn(grad, e.m)));
	second = __fadd_rn(__fmul_rn(e.v, r.beta2), __fmul_rn(__fmul_rn(r.rest2, grad), grad));
	denominator = __fadd_rn(__fdiv_rn(__fsqrt_rn(second), r.root_correction), r.eps);
	return { __fsub_rn(__fmul_rn(e.w, keep), __fmul_rn(r.step_size, __fdiv_rn(first, denominator))), first, second };
}

__device__ static inline element sgd(element e, float g, float decay, bool momentum, const rates_now &r)
{
	float d = __fadd_rn(__fmul_rn(g, r.clip), __fmul_rn(decay, e.w));

	if (momentum && !r.first)
		d = __fadd_rn(__fmul_rn(r.momentum, e.m), d);
	return { __fsub_rn(e.w, __fmul_rn(r.lr, d)), d, 0 };
}

template <typename T> constexpr bool is_bf16 = false;
template <> constexpr bool is_bf16<bf16> = true;

/* ---- N elements in their stored forms ------------------------------------------ */

/* The N words of elements at … at + N - 1, at a multiple of 4. */
__device__ static inline void random_words(uint32_t (&words)[N], int64_t at, uint64_t seed, uint32_t site, uint32_t step)
{
#pragma unroll
	for (int i = 0; i < N; i += 4) {
		philox four = random_group((uint64_t)(at + i) / 4, seed, site, step);

#pragma unroll
		for (int j = 0; j < 4; j++)
			words[i + j] = four.w[j];
	}
}

/* Rounded stochastically to bf16. The result is a bf16 already, so storing it rounds nothing. */
__device__ static inline void round_randomly(float (&x)[N], int64_t at, uint64_t seed, uint32_t site, uint32_t step)
{
	uint32_t words[N];

	random_words(words, at, seed, site, step);
#pragma unroll
	for (int i = 0; i < N; i++)
		x[i] = bf16_to_f32(bf16_from_f32_random(x[i], words[i]));
}

template <bool WIDE, typename T>
__device__ static inline void load(float (&x)[N], const void *from, int64_t at, int left)
{
	unpack(x, load_pack<N, WIDE>((const T *)from + at, left));
}

/* Integers of 16 bits as they are. */
template <bool WIDE>
__device__ static inline void load_bits(uint32_t (&x)[N], const void *from, int64_t at, int left)
{
	pack<bf16, N> p = load_pack<N, WIDE>((const bf16 *)from + at, left);

#pragma unroll
	for (int i = 0; i < N; i++)
		x[i] = i & 1 ? p.w[i / 2] >> 16 : p.w[i / 2] & 0xffff;
}

template <bool WIDE>
__device__ static inline void store_bits(void *to, const uint32_t (&x)[N], int64_t at, int left)
{
	if constexpr (WIDE) {
		pack<bf16, N> p;

#pragma unroll
		for (int i = 0; i < N; i += 2)
			p.w[i / 2] = x[i] | x[i + 1] << 16;
		if (left > 0)
			*reinterpret_cast<pack<bf16, N> *>((bf16 *)to + at) = p;
	} else {
#pragma unroll
		for (int i = 0; i < N; i++)
			if (i < left)
				((uint16_t *)to)[at + i] = (uint16_t)x[i];
	}
}

template <typename W, kernel_master MASTER, bool WIDE>
__device__ static inline void load_weights(float (&w)[N], const kernel_update &u, int64_t at, int left)
{
	if constexpr (MASTER == KERNEL_F32_MASTER) {
		load<WIDE, float>(w, u.master, at, left);
	} else if constexpr (MASTER == KERNEL_SPLIT_MASTER) {
		uint32_t high[N], low[N];

		load_bits<WIDE>(high, u.w, at, left);
		load_bits<WIDE>(low, u.master, at, left);
#pragma unroll
		for (int i = 0; i < N; i++)
			w[i] = split_join((uint16_t)high[i], (int16_t)low[i]);
	} else {
		load<WIDE, W>(w, u.w, at, left);
	}
}

/* Weights of bf16 with a master go to nearest with ties away (ops.h), those without one stochastically. */
template <typename W, kernel_master MASTER, bool WIDE>
__device__ static inline void store_weights(const kernel_update &u, float (&w)[N], int64_t at, int left, uint64_t seed,
					    uint32_t step)
{
	if constexpr (MASTER == KERNEL_F32_MASTER)
		store_pack<WIDE>((float *)u.master + at, w, left);
	if constexpr (sizeof(W) == 2 && MASTER == KERNEL_NO_MASTER)
		round_randomly(w, at, seed, u.site, step);
	if constexpr (MASTER == KERNEL_SPLIT_MASTER || (MASTER == KERNEL_F32_MASTER && is_bf16<W>)) {
		uint32_t high[N], low[N];

#pragma unroll
		for (int i = 0; i < N; i++) {
			uint16_t h = bf16_from_f32_away(w[i]);

			high[i] = h;
			low[i] = (uint16_t)split_rest(w[i], h);
		}
		store_bits<WIDE>(u.w, high, at, left);
		if constexpr (MASTER == KERNEL_SPLIT_MASTER)
			store_bits<WIDE>(u.master, low, at, left);
	} else {
		store_pack<WIDE>((W *)u.w + at, w, left);
	}
}

template <typename M, bool WIDE>
__device__ static inline void store_moment(void *to, float (&x)[N], int64_t at, int left, uint64_t seed, uint32_t site,
					   uint32_t step)
{
	if constexpr (sizeof(M) == 2)
		round_randomly(x, at, seed, site, step);
	store_pack<WIDE>((M *)to + at, x, left);
}

/* ---- a block ---------------------------------------------------------------------- */

template <typename W, kernel_master MASTER, typename M, bool SGD, bool WIDE>
__device__ static inline void update_pack(const kernel_update &u, bool grad_f32, int64_t at, int left, const rates_now &r,
					  uint64_t seed, uint32_t step)
{
	float w[N], m[N], v[N], g[N];

	load_weights<W, MASTER, WIDE>(w, u, at, left);
	if (u.m)
		load<WIDE, M>(m, u.m, at, left);
	if constexpr (!SGD)
		load<WIDE, M>(v, u.v, at, left);
	if (sizeof(W) == 4 || grad_f32)
		load<WIDE, float>(g, u.g, at, left);
	else
		load<WIDE, W>(g, u.g, at, left);
#pragma unroll
	for (int i = 0; i < N; i++) {
		element e = { w[i], SGD && !u.m ? 0 : m[i], SGD ? 0 : v[i] };

		e = SGD ? sgd(e, g[i], u.decay, u.m, r) : adamw(e, g[i], u.decay, r);
		w[i] = e.w;
		m[i] = e.m;
		v[i] = e.v;
	}
	store_weights<W, MASTER, WIDE>(u, w, at, left, seed, step);
	if (u.m)
		store_moment<M, WIDE>(u.m, m, at, left, seed, u.site + 1, step);
	if constexpr (!SGD)
		store_moment<M, WIDE>(u.v, v, at, left, seed, u.site + 2, step);
}

template <typename W, kernel_master MASTER, typename M, bool SGD>
__global__ void __launch_bounds__(THREADS)
update_kernel(const __grid_constant__ table t, bool grad_f32, const rates_now *rates, uint64_t seed, uint32_t step,
	      const kernel_live *live)
{
	int k = item_of(t, (int)blockIdx.x);
	const kernel_update u = t.item[k];
	const rates_now r = *rates;
	int64_t begin = (int64_t)((int)blockIdx.x - t.first_block[k]) * CHUNK;
	bool wide = (((uintptr_t)u.w | (uintptr_t)u.master | (uintptr_t)u.m | (uintptr_t)u.v | (uintptr_t)u.g) & 15) == 0;

	if (r.skip)
		return;
	if (live)
		step = live->random;
	for (int i = 0; i < CHUNK; i += THREADS * N) {
		int64_t at = begin + i + (int64_t)threadIdx.x * N, left = u.n - at;

		if (left <= 0)
			return;
		if (wide && left >= N)
			update_pack<W, MASTER, M, SGD, true>(u, grad_f32, at, N, r, seed, step);
		else
			update_pack<W, MASTER, M, SGD, false>(u, grad_f32, at, left < N ? (int)left : N, r, seed, step);
	}
}

/* ---- lists --------------------------------------------------------------------------- */

template <typename W, kernel_master MASTER, typename M, bool SGD>
static int launch(kernel_stream s, bool grad_f32, const kernel_update *list, int64_t count, const void *rates, uint64_t seed,
		  uint32_t step, const kernel_live *live)
{
	while (count > 0) {
		table t;
		int64_t taken = fill_table(&t, list, count, CHUNK);

		if (t.first_block[taken])
			update_kernel<W, MASTER, M, SGD><<<(unsigned)t.first_block[taken], THREADS, 0, s>>>(t, grad_f32,
				(const rates_now *)rates, seed, step, live);
		list += taken;
		count -= taken;
	}
	return cudaGetLastError();
}

template <typename M, bool SGD>
static int launch_weights(kernel_stream s, const kernel_kind &kind, const kernel_update *list, int64_t count,
			  const void *rates, uint64_t seed, uint32_t step, const kernel_live *live)
{
	bool f32 = kind.grad == DT_F32;

	if (kind.weight == DT_F32)
		return launch<float, KERNEL_NO_MASTER, M, SGD>(s, f32, list, count, rates, seed, step, live);
	if (kind.weight == DT_F16)
		return launch<f16, KERNEL_F32_MASTER, M, SGD>(s, f32, list, count, rates, seed, step, live);
	switch (kind.master) {
	case KERNEL_F32_MASTER:
		return launch<bf16, KERNEL_F32_MASTER, M, SGD>(s, f32, list, count, rates, seed, step, live);
	case KERNEL_SPLIT_MASTER:
		return launch<bf16, KERNEL_SPLIT_MASTER, M, SGD>(s, f32, list, count, rates, seed, step, live);
	default:
		return launch<bf16, KERNEL_NO_MASTER, M, SGD>(s, f32, list, count, rates, seed, step, live);
	}
}

int k_adamw(kernel_stream s, struct kernel_kind kind, const struct kernel_update *list, int64_t count,
	    const void *rates, uint64_t seed, uint32_t random_step, const struct kernel_live *live)
{
	if (kind.moment == DT_BF16)
		return launch_weights<bf16, false>(s, kind, list, count, rates, seed, random_step, live);
	return launch_weights<float, false>(s, kind, list, count, rates, seed, random_step, live);
}

int k_sgd(kernel_stream s, struct kernel_kind kind, const struct kernel_update *list, int64_t count,
	  const void *rates, uint64_t seed, uint32_t random_step, const struct kernel_live *live)
{
	if (kind.moment == DT_BF16)
		return launch_weights<bf16, true>(s, kind, list, count, rates, seed, random_step, live);
	return launch_weights<float, true>(s, kind, list, count, rates, seed, random_step, live);
}
