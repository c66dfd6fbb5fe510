/*
 * Embeddings. Backward, several tokens add to one row of a table. The tables
 * are cut by columns, so that no two threads meet; within a tile each row that
 * is named is read once, takes all its tokens in their order, and is rounded
 * and stored once, as 16-bit gradients need it.
 */
#include "device/cpu/cpu.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Elements of a row that are converted at a time. */
enum { PIECE = 1024 };

static int64_t row_of(const char *what, int32_t id, int64_t rows)
{
	if (id < 0 || id >= rows)
		BUG("embedding: %s %d, expected 0 to %lld", what, id, (long long)(rows - 1));
	return id;
}

CPU_CLONES
static void sum_rows(float *out, const float *x, const float *y, const float *z, int64_t n)
{
	if (z) {
		for (int64_t j = 0; j < n; j++)
			out[j] = x[j] + y[j] + z[j];
	} else {
		for (int64_t j = 0; j < n; j++)
			out[j] = x[j] + y[j];
	}
}

static void forward_row(const struct op_embed_fwd *a, int64_t r, int64_t n)
{
	float buf_token[PIECE], buf_position[PIECE], buf_type[PIECE];
	int64_t token = row_of("token", tensor_i32(a->ids)[r], tensor_rows(a->wte));
	int64_t position = r % tensor_cols(a->ids), type = 0;
	bool typed = tensor_here(a->wtt);

	if (typed)
		type = row_of("type", tensor_i32(a->types)[r], 2);
	for (int64_t at = 0; at < n; at += PIECE) {
		int64_t some = cpu_min(PIECE, n - at);
		float *out = cpu_place(a->out, r * n + at, buf_token);

		sum_rows(out, cpu_read(a->wte, token * n + at, some, buf_token),
			 cpu_read(a->wpe, position * n + at, some, buf_position),
			 typed ? cpu_read(a->wtt, type * n + at, some, buf_type) : NULL, some);
		cpu_store(a->out, r * n + at, some, out);
	}
}

int cpu_embed_fwd(struct device *dev, const struct op_embed_fwd *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->out), n = tensor_cols(a->out);

	(void)ws;
	(void)err;
	#pragma omp parallel for num_threads(dev->threads) if(rows * n >= CPU_SERIAL)
	for (int64_t r = 0; r < rows; r++)
		forward_row(a, r, n);
	return 0;
}

/*
 * The rows of dout by token: first[token] is the first that names it, next[r]
 * the one after r; -1 where there is none. Host memory of one call, as the
 * buffers on the stack are.
 */
struct chains {
	int32_t *first, *next;
};

static struct chains chain_tokens(const struct tensor *ids, int64_t vocab)
{
	int64_t rows = tensor_n(ids);
	struct chains c;

	BUG_ON(rows > INT32_MAX);
	c.first = tm_xmalloc((size_t)vocab * sizeof *c.first);
	c.next = tm_xmalloc((size_t)rows * sizeof *c.next);
	memset(c.first, -1, (size_t)vocab * sizeof *c.first);
	for (int64_t r = rows - 1; r >= 0; r--) {
		int64_t token = row_of("token", tensor_i32(ids)[r], vocab);

		c.next[r] = c.first[token];
		c.first[token] = (int32_t)r;
	}
	return c;
}

CPU_CLONES
static void add_to(float *sum, const float *x, int64_t n)
{
	for (int64_t j = 0; j < n; j++)
		sum[j] += x[j];
}

static void tokens_tile(const struct op_embed_bwd *a, const struct chains *c, int64_t col, int64_t cols)
{
	int64_t rows = tensor_rows(a->dout), n = tensor_cols(a->dout);
	const int32_t *ids = tensor_i32(a->ids);
	float buf_sum[CPU_SUM_COLS], buf[CPU_SUM_COLS];

	for (int64_t r = 0; r < rows; r++) {
		int64_t to = (int64_t)ids[r] * n + col;
		float *sum;

		if (c->first[ids[r]] != r)
			continue;
		sum = cpu_update(a->dwte, to, cols, buf_sum);
		for (int64_t same = r; same >= 0; same = c->next[same])
			add_to(sum, cpu_read(a->dout, same * n + col, cols, buf), cols);
		cpu_store(a->dwte, to, cols, sum);
	}
}

static void positions_tile(const struct op_embed_bwd *a, int64_t col, int64_t cols)
{
	int64_t n = tensor_cols(a->dout), tokens = tensor_cols(a->ids), samples = tensor_rows(a->dout) / tokens;
	float buf_sum[CPU_SUM_COLS], buf[CPU_SUM_COLS];

	for (int64_t t = 0; t < tokens; t++) {
		float *sum = cpu_update(a->dwpe, t * n + col, cols, buf_sum);

		for (int64_t b = 0; b < samples; b++)
			add_to(sum, cpu_read(a->dout, (b * tokens + t) * n + col, cols, buf), cols);
		cpu_store(a->dwpe, t * n + col, cols, sum);
	}
}

CPU_CLONES
static void flush(double *total, float *part, int64_t n)
{
	for (int64_t j = 0; j < n; j++) {
		total[j] += (double)part[j];
		part[j] = 0;
	}
}

/* Half of all tokens add to each of the two rows of dwtt: blocks in float, the rest in double, as in sum.c. */
static void types_tile(const struct op_embed_bwd *a, int64_t col, int64_t cols)
{
	int64_t rows = tensor_rows(a->dout), n = tensor_cols(a->dout);
	const int32_t *types = tensor_i32(a->types);
	double total[2][CPU_SUM_COLS] = { { 0 } };
	float part[2][CPU_SUM_COLS] = { { 0 } }, buf[CPU_SUM_COLS];

	for (int64_t r = 0; r < rows; r++) {
		add_to(part[row_of("type", types[r], 2)], cpu_read(a->dout, r * n + col, cols, buf), cols);
		if ((r + 1) % CPU_SUM_ROWS == 0 || r + 1 == rows) {
			flush(total[0], part[0], cols);
			flush(total[1], part[1], cols);
		}
	}
	cpu_add_sums(a->dwtt, col, cols, total[0], true);
	cpu_add_sums(a->dwtt, n + col, cols, total[1], true);
}

int cpu_embed_bwd(struct device *dev, const struct op_embed_bwd *a, void *ws, struct tm_err *err)
{
	int64_t n = tensor_cols(a->dout);
	struct chains chains = chain_tokens(a->ids, tensor_rows(a->dwte));

	(void)ws;
	(void)err;
	#pragma omp parallel for num_threads(dev->threads) schedule(dynamic)
	for (int64_t col = 0; col < n; col += CPU_SUM_COLS) {
		int64_t cols = cpu_min(CPU_SUM_COLS, n - col);

		tokens_tile(a, &chains, col, cols);
		positions_tile(a, col, cols);
		if (tensor_here(a->dwtt))
			types_tile(a, col, cols);
	}
	free(chains.first);
	free(chains.next);
	return 0;
}
