/*
 * Embeddings. Forward, a warp adds two or three rows. Backward, positions are
 * sorted by their token, and then rows are summed where they stand together: no
 * floating-point atomics, one rounding for a token however often it comes up,
 * and no block that has more to do than another where half of all positions
 * have one token.
 *
 * The sort is our own, since a library's wants scratch memory by the card: from
 * the lowest digit up, each pass keeping the order of equals (a stable radix
 * sort), so that in the end the positions of a token are in their own order.
 */
#include "device/cuda/kernels.h"

#include "device/cuda/kernels/types.cuh"

#include <limits.h>

#undef NDEBUG
#include <assert.h>

#define THREADS 256
#define WARPS (THREADS / WARP)
#define WARP_COLS (WARP * 8)

/* ---- forward ------------------------------------------------------------------ */

template <bool WIDE, typename T>
__global__ void __launch_bounds__(THREADS) embed_rows(T *out, const int32_t *ids, const int32_t *types, const T *wte, const T *wpe,
						       const T *wtt, int64_t rows, uint32_t tokens, int n, int64_t vocab)
{
	int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP, id, type = 0;

	if (row >= rows)
		return;
	id = ids[row];
	assert(id >= 0 && id < vocab);
	if (wtt) {
		type = types[row];
		assert(type == 0 || type == 1);
	}
	out += row * n;
	wte += id * n;
	wpe += (int64_t)((uint32_t)row % tokens) * n;
	wtt += type * n;
#pragma unroll 2
	for (int col = (int)threadIdx.x % WARP * 8; col < n; col += WARP_COLS) {
		pack<T, 8> a = load_pack<8, WIDE>(wte + col, n - col), b = load_pack<8, WIDE>(wpe + col, n - col);
		pack<T, 8> c = load_pack<8, WIDE>(wtt + col, types ? n - col : 0);
		float v[8];

#pragma unroll
		for (int i = 0; i < 8; i++)
			v[i] = get(a, i) + get(b, i) + get(c, i);
		store_pack<WIDE>(out + col, v, n - col);
	}
}

int k_embed_fwd(kernel_stream s, enum dtype type, void *out, const int32_t *ids, const int32_t *types, const void *wte,
		const void *wpe, const void *wtt, int64_t rows, int64_t tokens, int64_t n, int64_t vocab)
{
	if (rows <= 0 || n <= 0)
		return 0;
	if (rows > INT_MAX || n > INT_MAX - WARP_COLS)
		return cudaErrorInvalidValue;
	WITH_TYPE(type, T, WITH_FLAG(n % 8 == 0 && aligned_16(out, wte, wpe, wtt), WIDE,
		embed_rows<WIDE><<<(unsigned)parts_of(rows, WARPS), THREADS, 0, s>>>(
			(T *)out, ids, wtt ? types : NULL, (const T *)wte, (const T *)wpe, (const T *)wtt, rows, (uint32_t)tokens,
			(int)n, vocab)));
	return (int)cudaGetLastError();
}

/* ---- sorting positions by token --------------------------------------------------
 *
 * A pass has two kernels: the digits of each tile of positions are counted, and
 * each position then goes behind all those that have a smaller digit or an
 * equal one and stand before it.
 */

#define DIGITS K_EMBED_DIGITS
#define DIGIT_BITS 8
#define ROUNDS (K_EMBED_TILE / THREADS)

static_assert(DIGITS == 1 << DIGIT_BITS && DIGITS == THREADS, "a thread a digit");

/* Position number i of what a pass begins with: the first one begins with all in their order. */
__device__ static inline int position_at(const int32_t *order, int64_t i)
{
	return order ? order[i] : (int)i;
}

/* counts(tiles, DIGITS). Integers, so atomics leave nothing to chance. */
__global__ void __launch_bounds__(THREADS) count_digits(int32_t *counts, const int32_t *ids, const int32_t *order, int64_t rows,
							 int shift, int64_t vocab)
{
	__shared__ int32_t count[DIGITS];
	int64_t first = (int64_t)blockIdx.x * K_EMBED_TILE + threadIdx.x;

	count[threadIdx.x] = 0;
	__syncthreads();
#pragma unroll
	for (int k = 0; k < ROUNDS; k++) {
		int64_t i = first + k * THREADS;

		if (i < rows) {
			int32_t id = ids[position_at(order, i)];

			assert(id >= 0 && id < vocab);
			atomicAdd(&count[id >> shift & (DIGITS - 1)], 1);
		}
	}
	__syncthreads();
	counts[(int64_t)blockIdx.x * DIGITS + threadIdx.x] = count[threadIdx.x];
}

/* Where the first position of this thread's digit in this tile goes. */
__device__ static inline int32_t digit_base(const int32_t *counts, int tiles, int32_t (&shared)[WARPS])
{
	int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
	int32_t before = 0, all = 0, smaller;

#pragma unroll 8
	for (int t = 0; t < tiles; t++) {
		int32_t c = counts[(int64_t)t * DIGITS + threadIdx.x];

		before += t < (int)blockIdx.x ? c : 0;
		all += c;
	}
	/* Those with a smaller digit: the sum over the threads before this one. */
	smaller = all;
#pragma unroll
	for (int step = 1; step < WARP; step *= 2) {
		int32_t other = __shfl_up_sync(WHOLE_WARP, smaller, step);

		smaller += lane >= step ? other : 0;
	}
	if (lane == WARP - 1)
		shared[warp] = smaller;
	__syncthreads();
	smaller -= all;
	for (int w = 0; w < warp; w++)
		smaller += shared[w];
	return smaller + before;
}

/* A warp has ROUNDS · 32 consecutive positions of the tile, in rounds of 32. */
__global__ void __launch_bounds__(THREADS) place_positions(int32_t *out, const int32_t *counts, const int32_t *ids,
							    const int32_t *order, int64_t rows, int shift, int tiles)
{
	/* Of each warp and digit: how many positions so far, then where they go. One more for those that are not there. */
	__shared__ int32_t next[WARPS][DIGITS + 1];
	__shared__ int32_t shared[WARPS];
	int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
	int64_t first = (int64_t)blockIdx.x * K_EMBED_TILE + warp * ROUNDS * WARP + lane;
	int32_t position[ROUNDS], digit[ROUNDS], rank[ROUNDS], to;

	for (int w = 0; w < WARPS; w++)
		next[w][threadIdx.x] = 0;
	if (threadIdx.x < WARPS)
		next[threadIdx.x][DIGITS] = 0;
#pragma unroll
	for (int k = 0; k < ROUNDS; k++) {
		int64_t i = first + k * WARP;

		position[k] = i < rows ? position_at(order, i) : 0;
		digit[k] = i < rows ? ids[position[k]] >> shift & (DIGITS - 1) : DIGITS;
	}
	to = digit_base(counts, tiles, shared);         /* has a barrier */
#pragma unroll
	for (int k = 0; k < ROUNDS; k++) {
		unsigned same = __match_any_sync(WHOLE_WARP, digit[k]), before = same & ((1u << lane) - 1);
		int32_t so_far = next[warp][digit[k]];

		rank[k] = so_far + __popc(before);
		__syncwarp();
		if (!before)
			next[warp][digit[k]] = so_far + __popc(same);
		__syncwarp();
	}
	__syncthreads();
	for (int w = 0; w < WARPS; w++) {
		int32_t n = next[w][threadIdx.x];

		next[w][threadIdx.x] = to;
		to += n;
	}
	__syncthreads();
#pragma unroll
	for (int k = 0; k < ROUNDS; k++)
		if (digit[k] < DIGITS)
			out[next[warp][digit[k]] + rank[k]] = position[k];
}

/* ---- sums of the rows of a token ---------------------------------------------------
 *
 * A block has a chunk of the sorted positions. Tokens that begin and end in it
 * are added to the table at once. What belongs to a token that began before (the
 * head) or goes on after it (the tail) is a part, and the parts of a token are
 * joined by the block of its tail in a second kernel.
 */

#define CHUNK K_EMBED_CHUNK

/* Rows that are on their way at a time, with what the table has for those that end a token. */
#define AHEAD 8

/* Where the pieces of the scratch memory lie. */
struct token_scratch {
	float *heads, *tails;                     /* sums(chunks, n) */
	int32_t *head_token, *tail_token;         /* (chunks), -1: there is none */
	int32_t *order[2];                        /* (rows) */
	int32_t *counts;                          /* (tiles, DIGITS) */
};

struct chunk_tokens {
	int32_t position[CHUNK], token[CHUNK];
	bool from_before, goes_on;
};

/* By the first warp; the block waits. */
__device__ static inline void read_chunk(struct chunk_tokens *c, const int32_t *ids, const int32_t *order, int64_t begin, int count,
					 int64_t rows)
{
	static_assert(CHUNK == WARP, "a lane a position");
	if (threadIdx.x < WARP && (int)threadIdx.x < count) {
		c->position[threadIdx.x] = order[begin + threadIdx.x];
		c->token[threadIdx.x] = ids[c->position[threadIdx.x]];
		if (threadIdx.x == 0)
			c->from_before = begin > 0 && ids[order[begin - 1]] == c->token[0];
		if ((int)threadIdx.x == count - 1)
			c->goes_on = begin + count < rows && ids[order[begin + count]] == c->token[count - 1];
	}
	__syncthreads();
}

template <bool WIDE, typename T, typename G>
__global__ void __launch_bounds__(THREADS) sum_chunks(G *dwte, struct token_scratch scratch, const T *dout, const int32_t *ids,
						       const int32_t *order, int64_t rows, int n)
{
	__shared__ struct chunk_tokens c;
	int64_t chunk = blockIdx.x, begin = chunk * CHUNK;
	int count = (int)min(rows - begin, (int64_t)CHUNK);
	int64_t col = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * 8;
	int left = (int)max(n - col, (int64_t)0);
	float sum[8] = { };

	read_chunk(&c, ids, order, begin, count, rows);
	if (blockIdx.y == 0 && threadIdx.x == 0) {
		scratch.head_token[chunk] = c.from_before ? c.token[0] : -1;
		scratch.tail_token[chunk] = c.goes_on && !(c.from_before && c.token[0] == c.token[count - 1]) ? c.token[count - 1] : -1;
	}
	for (int i = 0; i < count; i += AHEAD) {
		pack<T, 8> v[AHEAD];
		pack<G, 8> old[AHEAD];
		bool ends[AHEAD], head[AHEAD], tail[AHEAD];

#pragma unroll
		for (int k = 0; k < AHEAD; k++) {
			int at = i + k;
			bool here = at < count, last = at == count - 1;

			v[k] = load_pack<8, WIDE>(dout + (int64_t)(here ? c.position[at] : 0) * n + col, here ? left : 0);
			ends[k] = here && (last || c.token[at + 1] != c.token[at]);
			head[k] = ends[k] && c.from_before && c.token[at] == c.token[0];
			tail[k] = ends[k] && !head[k] && last && c.goes_on;
			if (ends[k] && !head[k] && !tail[k])
				old[k] = load_pack<8, WIDE>(dwte + (int64_t)c.token[at] * n + col, left);
		}
#pragma unroll
		for (int k = 0; k < AHEAD; k++) {
#pragma unroll
			for (int j = 0; j < 8; j++)
				sum[j] += get(v[k], j);
			if (!ends[k])
				continue;
			if (head[k]) {
				store_pack<WIDE>(scratch.heads + chunk * n + col, sum, left);
			} else if (tail[k]) {
				store_pack<WIDE>(scratch.tails + chunk * n + col, sum, left);
			} else {
#pragma unroll
				for (int j = 0; j < 8; j++)
					sum[j] += get(old[k], j);
				store_pack<WIDE>(dwte + (int64_t)c.token[i + k] * n + col, sum, left);
			}
#pragma unroll
			for (int j = 0; j < 8; j++)
				sum[j] = 0;
		}
	}
}

/* Lanes have 4 columns each, GROUPS warps take the parts in turn. */
#define GROUPS 16
#define JOIN_COLS (WARP * 4)
#define JOIN_AHEAD 4

/* The token that begins in the tail of chunk blockIdx.x: the tail and the heads of the chunks it goes on in, added up in double. */
template <bool WIDE, typename G>
__global__ void __launch_bounds__(GROUPS * WARP) join_chunks(G *dwte, struct token_scratch scratch, int64_t chunks, int n)
{
	__shared__ double sums[GROUPS][JOIN_COLS];
	int64_t chunk = blockIdx.x, col = (int64_t)blockIdx.y * JOIN_COLS;
	int group = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
	int left = (int)max(n - col - lane * 4, (int64_t)0);
	int32_t token = scratch.tail_token[chunk];
	double sum[4] = { };
	bool more = true;

	if (token < 0)
		return;
	for (int64_t k = chunk + group; more && k < chunks; k += JOIN_AHEAD * GROUPS) {
		bool mine[JOIN_AHEAD];
		pack<float, 4> v[JOIN_AHEAD];

#pragma unroll
		for (int j = 0; j < JOIN_AHEAD; j++) {
			int64_t of = k + j * GROUPS;

			mine[j] = of == chunk || (of < chunks && scratch.head_token[of] == token);
		}
#pragma unroll
		for (int j = 0; j < JOIN_AHEAD; j++) {
			int64_t of = k + j * GROUPS;

			v[j] = load_pack<4, WIDE>((of == chunk ? scratch.tails : scratch.heads) + of * n + col + lane * 4,
						  mine[j] ? left : 0);
		}
#pragma unroll
		for (int j = 0; j < JOIN_AHEAD; j++)
#pragma unroll
			for (int i = 0; i < 4; i++)
				sum[i] += (double)get(v[j], i);
		/* Sorted: behind a chunk of another token come no more of this one. */
		more = mine[JOIN_AHEAD - 1];
	}
#pragma unroll
	for (int i = 0; i < 4; i++)
		sums[group][lane * 4 + i] = sum[i];
	__syncthreads();
	col += threadIdx.x;
	if (threadIdx.x < JOIN_COLS && col < n) {
		G *to = dwte + (int64_t)token * n + col;
		double total = (double)to_f32(*to);

#pragma unroll
		for (int g = 0; g < GROUPS; g++)
			total += sums[g][threadIdx.x];
		*to = from_f32<G>((float)total);
	}
}

static struct token_scratch cut(void *scratch, int64_t rows, int64_t n)
{
	int64_t chunks = parts_of(rows, CHUNK);
	struct token_scratch t;

	t.heads = (float *)scratch;
	t.tails = t.heads + chunks * n;
	t.head_token = (int32_t *)(t.tails + chunks * n);
	t.tail_token = t.head_token + chunks;
	t.order[0] = t.tail_token + chunks;
	t.order[1] = t.order[0] + rows;
	t.counts = t.order[1] + rows;
	return t;
}

/* Positions by token; *sorted is one of the two orders. As many passes as tokens have digits. */
static int sort_positions(kernel_stream s, const struct token_scratch *t, const int32_t *ids, int64_t rows, int64_t vocab,
			  const int32_t **sorted)
{
	unsigned tiles = (unsigned)parts_of(rows, K_EMBED_TILE);
	const int32_t *from = NULL;
	int turn = 0;

	for (int shift = 0; shift == 0 || (shift < 32 && (vocab - 1) >> shift); shift += DIGIT_BITS, turn ^= 1) {
		count_digits<<<tiles, THREADS, 0, s>>>(t->counts, ids, from, rows, shift, vocab);
		place_positions<<<tiles, THREADS, 0, s>>>(t->order[turn], t->counts, ids, from, rows, shift, (int)tiles);
		from = t->order[turn];
	}
	*sorted = from;
	return (int)cudaGetLastError();
}

template <bool WIDE, typename T, typename G>
static int sum_sorted(kernel_stream s, const struct token_scratch *t, G *dwte, const T *dout, const int32_t *ids,
		      const int32_t *order, int64_t rows, int n)
{
	int64_t chunks = parts_of(rows, CHUNK), packs = parts_of(n, 8);
	int threads = (int)min(parts_of(packs, WARP) * WARP, (int64_t)THREADS);
	dim3 by_chunk((unsigned)chunks, (unsigned)parts_of(packs, threads)), by_join((unsigned)chunks, (unsigned)parts_of(n, JOIN_COLS));

	sum_chunks<WIDE><<<by_chunk, threads, 0, s>>>(dwte, *t, dout, ids, order, rows, n);
	join_chunks<WIDE><<<by_join, GROUPS * WARP, 0, s>>>(dwte, *t, chunks, n);
	return (int)cudaGetLastError();
}

int k_embed_tokens(kernel_stream s, enum dtype grad, void *dwte, enum dtype type, const void *dout, const int32_t *ids,
		   int64_t rows, int64_t n, int64_t vocab, void *scratch)
{
	struct token_scratch t = cut(scratch, rows, n);
	const int32_t *order = NULL;
	int rc;

	if (rows <= 0 || n <= 0)
		return 0;
	if (rows > INT_MAX || n > INT_MAX / 2)
		return cudaErrorInvalidValue;
	rc = sort_positions(s, &t, ids, rows, vocab, &order);
	if (rc)
		return rc;
	WITH_TYPES(type, T, grad, G, WITH_FLAG(n % 8 == 0 && aligned_16(dwte, dout, scratch), WIDE,
		rc = sum_sorted<WIDE>(s, &t, (G *)dwte, (const T *)dout, ids, order, rows, (int)n)));
	return rc;
}
