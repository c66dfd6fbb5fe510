/*
 * Measures which of the library's algorithms is fastest for each product of a
 * model, and writes the file of pins (gemm_pins.h).
 *
 * As a step would see it: operands of random numbers (on zeros a product runs
 * faster than it ever will), several sets of them in turn that together are
 * larger than the cache, launches recorded as a graph so that short products
 * are not hidden behind the host. All proposals are timed once, the best few
 * several times in turn, and the median decides; the library's first stays
 * unless another one is better by more than noise, and an algorithm that does
 * not repeat its bits is not taken.
 */
#include "device/cuda/gemm.h"
#include "device/cuda/gemm_pins.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/stat.h"
#include "device/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	CANDIDATES_MAX = 32,
	FINALISTS = 5,                    /* the library's first among them */
	ROUNDS = 9,
	SETS_MAX = 32,
	PATTERN_BYTES = 4 << 20,
	COMPARED_BYTES = 16 << 20,        /* of a result, when two runs are compared */
	SLICE_ALIGN = 512,                /* as blocks of the allocators are */
};
#define NOISE 0.01                        /* share of the time that is none to speak of */

/* ---- what was noted --------------------------------------------------------- */

struct note {
	struct gemm_key key;
	const char *what;                 /* of the first operation that had it */
};

struct device_notes {
	struct note *v;
	size_t n;
};

static void add_note(struct device_notes *notes, const struct cuda_product *p)
{
	struct note note = { .what = p->what };

	gemm_key_of(&note.key, p);
	for (size_t i = 0; i < notes->n; i++)
		if (!memcmp(&notes->v[i].key, &note.key, sizeof note.key))
			return;
	notes->v = tm_xrealloc_n(notes->v, notes->n + 1, sizeof *notes->v);
	notes->v[notes->n++] = note;
}

/* A workspace is a block of its own and so as well aligned as NULL. */
static void note_operation(struct device_notes **notes, enum device_op op, const void *args)
{
	struct cuda_product p[CUDA_PRODUCTS_MAX];
	size_t n = cuda_linear_products(op, args, p);

	if (!n)
		n = cuda_attention_products(op, args, NULL, p);
	if (!*notes)
		*notes = tm_xcalloc(1, sizeof **notes);
	for (size_t i = 0; i < n; i++)
		add_note(*notes, &p[i]);
}

static size_t noted(const struct device_notes *notes)
{
	return notes ? notes->n : 0;
}

static void forget(struct device_notes *notes)
{
	if (!notes)
		return;
	free(notes->v);
	free(notes);
}

/* ---- operands ------------------------------------------------------------------ */

struct bench {
	struct device *dev;
	const struct note *note;
	struct gemm_shape shape;
	struct mem_block *block;          /* sets, one behind the other */
	uint64_t set_bytes;
	int sets;
	struct cuda_product product;      /* of the first set */
	cudaEvent_t begin, end;
};

/* Bytes from the first to the last element of a matrix (all of a batch). */
static uint64_t extent(const struct gemm_side *side, int64_t batch, enum dtype type)
{
	/* by columns: cols of rows elements, ld apart */
	int64_t elements = (batch - 1) * side->stride + (side->cols - 1) * side->ld + side->rows;

	return (uint64_t)elements * dtype_bytes[type];
}

/* Room for `bytes` at an address that is a multiple of 2^align and of nothing larger; *at moves on behind it. */
static uint64_t slice(uint64_t *at, uint64_t bytes, int align)
{
	uint64_t begin = *at + (align < GEMM_ALIGN_MAX ? 1ull << align : 0);

	*at = (begin + bytes + SLICE_ALIGN - 1) / SLICE_ALIGN * SLICE_ALIGN;
	return begin;
}

/* Offsets of a, b, c and bias in a set; its size. */
static uint64_t lay_out(const struct gemm_key *key, uint64_t offset[4])
{
	const struct gemm_sides s = gemm_sides_of(key);
	uint64_t at = 0;

	offset[0] = slice(&at, extent(&s.second, key->batch, (enum dtype)key->in), key->align_a);
	offset[1] = slice(&at, extent(&s.first, key->batch, (enum dtype)key->in), key->align_b);
	offset[2] = slice(&at, extent(&s.result, key->batch, (enum dtype)key->out), key->align_c);
	offset[3] = slice(&at, (uint64_t)key->n * dtype_bytes[key->out], key->align_bias);
	return at;
}

static struct cuda_product product_of(const struct note *note, char *base, const uint64_t offset[4])
{
	const struct gemm_key *key = &note->key;

	return (struct cuda_product){
		.m = key->m, .n = key->n, .k = key->k, .batch = key->batch, .ta = key->ta, .tb = key->tb,
		.a = base + offset[0], .b = base + offset[1], .c = base + offset[2],
		.bias = key->bias ? base + offset[3] : NULL,
		.lda = key->lda, .ldb = key->ldb, .ldc = key->ldc,
		.stride_a = key->stride_a, .stride_b = key->stride_b, .stride_c = key->stride_c,
		.in = (enum dtype)key->in, .out = (enum dtype)key->out, .alpha = 1, .beta = key->accumulate ? 1 : 0,
		.tf32 = key->tf32, .what = note->what };
}

/* Small numbers, none of them 0, so that sums of them stay finite in every type however often they are added to. */
static float draw(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return ((float)(*state >> 40 & 0xffff) + 0.5f) * 0x1p-19f - 0x1p-4f;
}

static void *pattern_new(enum dtype type)
{
	uint64_t state = 1;
	void *pattern = tm_xmalloc(PATTERN_BYTES);

	for (size_t i = 0; i < PATTERN_BYTES / dtype_bytes[type]; i++) {
		float x = draw(&state);

		if (type == DT_F32)
			((float *)pattern)[i] = x;
		else
			((uint16_t *)pattern)[i] = type == DT_BF16 ? bf16_from_f32(x) : f16_from_f32(x);
	}
	return pattern;
}

/* All sets: the pattern once, then what is there behind itself. */
static int fill(const struct bench *b, struct tm_err *err)
{
	uint64_t total = b->set_bytes * (uint64_t)b->sets, done = total < PATTERN_BYTES ? total : PATTERN_BYTES;
	char *base = (char *)(uintptr_t)b->block->addr;
	cudaStream_t stream = cuda_of(b->dev)->stream;
	void *pattern = pattern_new((enum dtype)b->note->key.in);
	int rc = cuda_check(cudaMemcpyAsync(base, pattern, done, cudaMemcpyHostToDevice, stream), "calibration's operands", err);

	for (; done < total && !rc; done *= 2)
		rc = cuda_check(cudaMemcpyAsync(base + done, base, done < total - done ? done : total - done,
						cudaMemcpyDeviceToDevice, stream), "calibration's operands", err);
	if (!rc)
		rc = cuda_check(cudaStreamSynchronize(stream), "calibration's operands", err);
	free(pattern);
	return rc;
}

/* Enough sets that a set is not in the cache any more when its turn comes again. */
static int sets_of(const struct device *dev, uint64_t set_bytes)
{
	uint64_t most = 2 * (uint64_t)cuda_of(dev)->prop.l2CacheSize, n = most / set_bytes + 1;

	return n > SETS_MAX ? SETS_MAX : (int)n;
}

static int bench_open(struct bench *b, struct device *dev, const struct note *note, struct tm_err *err)
{
	uint64_t offset[4];
	int rc;

	*b = (struct bench){ .dev = dev, .note = note };
	b->set_bytes = lay_out(&note->key, offset);
	b->sets = sets_of(dev, b->set_bytes);
	rc = mem_alloc(dev->mem, b->set_bytes * (uint64_t)b->sets, MEM_WORKSPACE, "calibration", &b->block, err);
	if (rc)
		return rc;
	b->product = product_of(note, (char *)(uintptr_t)b->block->addr, offset);
	rc = gemm_shape_open(&b->shape, &note->key, err);
	if (!rc)
		rc = cuda_check(cudaEventCreate(&b->begin), "making an event", err);
	if (!rc)
		rc = cuda_check(cudaEventCreate(&b->end), "making an event", err);
	return rc ? rc : fill(b, err);
}

static void bench_close(struct bench *b)
{
	if (b->begin)
		cudaEventDestroy(b->begin);
	if (b->end)
		cudaEventDestroy(b->end);
	gemm_shape_close(&b->shape);
	mem_release(b->dev->mem, b->block);
}

/* ---- timing ----------------------------------------------------------------------- */

struct candidate {
	cublasLtMatmulAlgo_t algo;
	int rank;                         /* in the library's order, from 0 */
	cudaGraphExec_t graph;
	double us[ROUNDS], median_us;
	bool better;                      /* than the library's first, by more than noise */
};

static struct cuda_product product_in(const struct bench *b, int set)
{
	struct cuda_product p = b->product;
	uint64_t step = b->set_bytes * (uint64_t)set;

	p.a = (const char *)p.a + step;
	p.b = (const char *)p.b + step;
	p.c = (char *)p.c + step;
	p.bias = p.bias ? (const char *)p.bias + step : NULL;
	return p;
}

/* A launch for each set, twice where there is one only. */
static int launches(const struct bench *b)
{
	return b->sets > 1 ? b->sets : 2;
}

static int record(const struct bench *b, struct candidate *c, struct tm_err *err)
{
	cudaStream_t stream = cuda_of(b->dev)->stream;
	cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
	cudaGraph_t graph = NULL;
	int rc = cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording products", err);

	if (rc)
		return rc;
	for (int i = 0; i < launches(b) && !status; i++) {
		struct cuda_product p = product_in(b, i % b->sets);

		status = gemm_shape_run(b->dev, &b->shape, &p, &c->algo);
	}
	rc = cuda_check(cudaStreamEndCapture(stream, &graph), "recording products", err);
	if (!rc)
		rc = cuda_check_lt(status, "recording products", err);
	if (!rc)
		rc = cuda_check(cudaGraphInstantiate(&c->graph, graph, 0), "recording products", err);
	if (graph)
		cudaGraphDestroy(graph);
	return rc;
}

/* Microseconds a product, of one replay. */
static int replay(const struct bench *b, const struct candidate *c, double *us, struct tm_err *err)
{
	cudaStream_t stream = cuda_of(b->dev)->stream;
	float ms = 0;
	int rc = cuda_check(cudaEventRecord(b->begin, stream), "timing products", err);

	if (!rc)
		rc = cuda_check(cudaGraphLaunch(c->graph, stream), "timing products", err);
	if (!rc)
		rc = cuda_check(cudaEventRecord(b->end, stream), "timing products", err);
	if (!rc)
		rc = cuda_check(cudaEventSynchronize(b->end), "timing products", err);
	if (!rc)
		rc = cuda_check(cudaEventElapsedTime(&ms, b->begin, b->end), "timing products", err);
	*us = (double)ms * 1e3 / launches(b);
	return rc;
}

/* One that the library refuses after all has no time and is no error. */
static int screen(const struct bench *b, struct candidate *c, bool *runs, struct tm_err *err)
{
	cublasStatus_t status = gemm_shape_run(b->dev, &b->shape, &b->product, &c->algo);
	int rc;

	*runs = status == CUBLAS_STATUS_SUCCESS;
	if (!*runs)
		return 0;
	rc = record(b, c, err);
	return rc ? rc : replay(b, c, &c->median_us, err);
}

static int by_median(const void *x, const void *y)
{
	const struct candidate *a = x, *b = y;

	return a->median_us < b->median_us ? -1 : a->median_us > b->median_us ? 1 : a->rank - b->rank;
}

/* Where the library's first is. */
static int first_of(const struct candidate *c, int n)
{
	int first = 0;

	for (int i = 1; i < n; i++)
		if (c[i].rank < c[first].rank)
			first = i;
	return first;
}

/* The library's first behind the few that were fastest, if it is not among them; how many there are then. */
static int finalists(struct candidate *c, int n)
{
	int first;

	qsort(c, (size_t)n, sizeof *c, by_median);
	if (n <= FINALISTS)
		return n;
	first = first_of(c, n);
	if (first >= FINALISTS) {
		struct candidate last = c[FINALISTS - 1];

		c[FINALISTS - 1] = c[first];
		c[first] = last;
	}
	return FINALISTS;
}

static int time_all(const struct bench *b, struct candidate *c, int n, struct tm_err *err)
{
	int rc = 0;

	for (int round = 0; round < ROUNDS && !rc; round++)
		for (int i = 0; i < n && !rc; i++)
			rc = replay(b, &c[i], &c[i].us[round], err);
	for (int i = 0; i < n && !rc; i++)
		c[i].median_us = tm_median(c[i].us, ROUNDS);
	return rc;
}

/* ---- the same bits twice ------------------------------------------------------------- */

static int result_of(const struct bench *b, const struct candidate *c, void *out, uint64_t bytes, struct tm_err *err)
{
	cudaStream_t stream = cuda_of(b->dev)->stream;
	int rc = fill(b, err);

	if (!rc)
		rc = cuda_check_lt(gemm_shape_run(b->dev, &b->shape, &b->product, &c->algo), b->note->what, err);
	if (!rc)
		rc = cuda_check(cudaMemcpyAsync(out, b->product.c, bytes, cudaMemcpyDeviceToHost, stream), "reading a result", err);
	return rc ? rc : cuda_check(cudaStreamSynchronize(stream), "reading a result", err);
}

static int repeats(const struct bench *b, const struct candidate *c, bool *same, struct tm_err *err)
{
	const struct gemm_sides s = gemm_sides_of(&b->note->key);
	uint64_t bytes = extent(&s.result, b->note->key.batch, (enum dtype)b->note->key.out);
	void *first, *second;
	int rc;

	if (bytes > COMPARED_BYTES)
		bytes = COMPARED_BYTES;
	first = tm_xmalloc(bytes);
	second = tm_xmalloc(bytes);
	rc = result_of(b, c, first, bytes, err);
	if (!rc)
		rc = result_of(b, c, second, bytes, err);
	*same = !rc && !memcmp(first, second, bytes);
	free(first);
	free(second);
	return rc;
}

/* ---- one product --------------------------------------------------------------------- */

/* What of an algorithm the library lets one see, for people who compare files. */
static json_t *config_of(const cublasLtMatmulAlgo_t *algo)
{
	static const struct { const char *name; cublasLtMatmulAlgoConfigAttributes_t attribute; size_t size; } all[] = {
		{ "id", CUBLASLT_ALGO_CONFIG_ID, 4 }, { "tile", CUBLASLT_ALGO_CONFIG_TILE_ID, 4 },
		{ "stages", CUBLASLT_ALGO_CONFIG_STAGES_ID, 4 }, { "split_k", CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4 },
		{ "reduction", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4 }, { "swizzle", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4 },
		{ "custom", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4 }, { "inner", CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2 },
		{ "cluster", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2 },
	};
	json_t *v = json_object();

	for (size_t i = 0; i < TM_ARRAY_N(all); i++) {
		uint32_t word = 0;              /* little-endian: two bytes land in its low half */
		size_t got;

		if (!cublasLtMatmulAlgoConfigGetAttribute(algo, all[i].attribute, &word, all[i].size, &got))
			json_object_set_new(v, all[i].name, json_integer(word));
	}
	return v;
}

/* What is better than the library's first, by time; then the others in the library's order. */
static int by_choice(const void *x, const void *y)
{
	const struct candidate *a = x, *b = y;

	if (a->better != b->better)
		return a->better ? -1 : 1;
	return a->better ? by_median(a, b) : a->rank - b->rank;
}

/* The best that repeats its bits. -1: none does. */
static int winner(const struct bench *b, struct candidate *c, int n, double first_us, int *out, struct tm_err *err)
{
	bool same = false;
	int rc = 0;

	*out = -1;
	for (int i = 0; i < n; i++)
		c[i].better = c[i].median_us < first_us * (1 - NOISE);
	qsort(c, (size_t)n, sizeof *c, by_choice);
	for (int i = 0; i < n && !rc && *out < 0; i++) {
		rc = repeats(b, &c[i], &same, err);
		if (same)
			*out = i;
	}
	return rc;
}

/* To a hundredth of a microsecond: more digits are noise. */
static double rounded(double us)
{
	return rint(us * 100) / 100;
}

static json_t *measured(const struct bench *b, const struct candidate *c, double first_us, int proposed)
{
	return json_pack("{s:s, s:f, s:f, s:i, s:i, s:o}", "operation", b->note->what, "us", rounded(c->median_us),
			 "first_us", rounded(first_us), "rank", c->rank, "proposed", proposed, "config", config_of(&c->algo));
}

/* The library's proposals into c, those that run and their time; *n of them. */
static int screen_all(const struct bench *b, struct candidate *c, int *n, struct tm_err *err)
{
	cublasLtMatmulHeuristicResult_t found[CANDIDATES_MAX];
	int proposed, rc;

	*n = 0;
	rc = gemm_shape_propose(cuda_of(b->dev)->lt, &b->shape, &b->note->key, found, CANDIDATES_MAX, &proposed, err);
	for (int i = 0; i < proposed && !rc; i++) {
		bool runs;

		c[*n] = (struct candidate){ .algo = found[i].algo, .rank = i };
		rc = screen(b, &c[*n], &runs, err);
		*n += !rc && !runs ? 0 : 1;
	}
	return rc;
}

static int measure_product(struct device *dev, const struct note *note, json_t *pins, struct tm_err *err)
{
	struct candidate *c = tm_xcalloc(CANDIDATES_MAX, sizeof *c);
	int n = 0, few = 0, best = -1;
	struct bench b;
	int rc = bench_open(&b, dev, note, err);

	if (!rc)
		rc = screen_all(&b, c, &n, err);
	if (!rc && n) {
		double first_us;

		few = finalists(c, n);
		rc = time_all(&b, c, few, err);
		first_us = c[first_of(c, few)].median_us;
		if (!rc)
			rc = winner(&b, c, few, first_us, &best, err);
		if (!rc && best >= 0) {
			json_t *beside = measured(&b, &c[best], first_us, n);

			json_array_append_new(pins, gemm_pin_json(&note->key, &c[best].algo, beside));
			json_decref(beside);
		}
	}
	for (int i = 0; i < n; i++)
		if (c[i].graph)
			cudaGraphExecDestroy(c[i].graph);
	free(c);
	bench_close(&b);
	return rc;
}

static int measure(struct device *dev, const struct device_notes *notes, void (*told)(void *arg, size_t done, size_t of),
		   void *arg, json_t **file, struct tm_err *err)
{
	const struct cuda *cuda = cuda_of(dev);
	json_t *v = gemm_pins_head(cuda->prop.name, (int64_t)cublasLtGetVersion());
	json_t *pins = json_object_get(v, "pins");
	char when[32];
	int rc = 0;

	json_object_set_new(v, "measured", json_string(tm_iso_time(tm_wall_us(), when)));
	json_object_set_new(v, "driver", json_integer(cuda->driver_version));
	for (size_t i = 0; i < noted(notes) && !rc; i++) {
		rc = measure_product(dev, &notes->v[i], pins, err);
		if (!rc && told)
			told(arg, i + 1, notes->n);
	}
	if (rc)
		json_decref(v);
	else
		*file = v;
	return rc;
}

const struct device_tuning cuda_tuning = {
	.note = note_operation,
	.noted = noted,
	.forget = forget,
	.measure = measure,
};
