/*
 * What ops.h promises of 16-bit types: a call computes in f32 and rounds once,
 * when it stores. So its result must be, bit for bit, that of the same call
 * over the same numbers in f32, rounded to nearest. The f32 results themselves
 * are held against their definitions in double by test_forward and
 * test_gradient, which so hold for every type.
 *
 * All 16-bit tensors are views into larger ones whose other rows must stay as
 * they are.
 */
#include "device/kit.h"

#define CANARY 77

/* A matrix among rows of CANARY; a vector among elements of it. */
static struct tensor view_new(struct kit *k, enum dtype dtype, const struct tensor *like)
{
	bool vector = like->rank == 1;
	int64_t rows = vector ? tensor_n(like) : tensor_rows(like), cols = vector ? 1 : tensor_cols(like);
	struct tensor all = vector ? NEW_OF(k, dtype, rows + 2) : NEW_OF(k, dtype, rows + 2, cols);
	struct tensor view = tensor_rows_of(&all, 1, rows);

	kit_set(&all, CANARY);
	return view;
}

/* The numbers of an f32 tensor in another type. */
static struct tensor as(struct kit *k, enum dtype dtype, const struct tensor *f32)
{
	struct tensor t = view_new(k, dtype, f32);

	for (int64_t i = 0; i < tensor_n(f32); i++)
		kit_put(&t, i, kit_get(f32, i));
	return t;
}

/* f32 numbers that the type can represent. */
static struct tensor exact(enum dtype dtype, struct tensor t)
{
	for (int64_t i = 0; i < tensor_n(&t); i++)
		tensor_f32(&t)[i] = (float)kit_round(dtype, tensor_f32(&t)[i]);
	return t;
}
#define EXACT(k, dtype, ...) exact(dtype, NORMAL(k, __VA_ARGS__))

static void check_once(const char *what, const struct tensor *got, const struct tensor *f32)
{
	struct tensor all = *got;

	for (int64_t i = 0; i < tensor_n(f32); i++) {
		double expected = kit_round(got->dtype, tensor_f32(f32)[i]);

		if (!(kit_get(got, i) == expected))
			fail_msg("%s in %s: element %lld is %.9g, expected %.9g (%.9g in f32)", what, dtype_name[got->dtype],
				 (long long)i, kit_get(got, i), expected, (double)tensor_f32(f32)[i]);
	}
	all.offset = 0;
	for (int64_t i = 0; (uint64_t)i * dtype_bytes[all.dtype] < all.block->requested; i++) {
		uint64_t at = (uint64_t)i * dtype_bytes[all.dtype];

		if (at >= got->offset && at < got->offset + tensor_bytes(got))
			continue;
		if (kit_get(&all, i) != CANARY)
			fail_msg("%s in %s writes beside its tensor", what, dtype_name[got->dtype]);
	}
}
#define ONCE(got, f32) check_once(#got, got, f32)

/* What one case is about: the type of everything, and that of weight gradients. */
struct types { enum dtype F, G; };

static void pointwise(struct kit *k, struct types t, int64_t n)
{
	struct tensor x = EXACT(k, t.F, n), y = EXACT(k, t.F, n), z = NEW(k, n);
	struct tensor hx = as(k, t.F, &x), hy = as(k, t.F, &y), hz = view_new(k, t.F, &z);
	struct random_at at = { 4, 5, 6 };

	RUN(add, k, .out = &z, .a = &x, .b = &y);
	RUN(add, k, .out = &hz, .a = &hx, .b = &hy);
	ONCE(&hz, &z);
	for (int kind = GELU_TANH; kind <= GELU_ERF; kind++) {
		RUN(gelu_fwd, k, .y = &z, .x = &x, .kind = (enum gelu_kind)kind);
		RUN(gelu_fwd, k, .y = &hz, .x = &hx, .kind = (enum gelu_kind)kind);
		ONCE(&hz, &z);
		RUN(gelu_bwd, k, .dx = &z, .dy = &y, .x = &x, .kind = (enum gelu_kind)kind);
		RUN(gelu_bwd, k, .dx = &hz, .dy = &hy, .x = &hx, .kind = (enum gelu_kind)kind);
		ONCE(&hz, &z);
	}
	for (int i = 0; i < 4; i++) {
		float p = i & 1 ? 0.3f : 0;
		bool residual = i & 2;

		RUN(dropout_fwd, k, .y = &z, .x = &x, .residual = residual ? &y : NULL, .p = p, .random = at);
		RUN(dropout_fwd, k, .y = &hz, .x = &hx, .residual = residual ? &hy : NULL, .p = p, .random = at);
		ONCE(&hz, &z);
	}
	RUN(dropout_bwd, k, .dx = &z, .dy = &y, .p = 0.3f, .random = at);
	RUN(dropout_bwd, k, .dx = &hz, .dy = &hy, .p = 0.3f, .random = at);
	ONCE(&hz, &z);

	/* In place. */
	RUN(add, k, .out = &hz, .a = &hz, .b = &hz);
	for (int64_t i = 0; i < n; i++)
		tensor_f32(&z)[i] = 2 * (float)kit_round(t.F, tensor_f32(&z)[i]);
	ONCE(&hz, &z);
	RUN(gelu_bwd, k, .dx = &z, .dy = &y, .x = &x, .kind = GELU_ERF);
	RUN(gelu_bwd, k, .dx = &hy, .dy = &hy, .x = &hx, .kind = GELU_ERF);
	ONCE(&hy, &z);
	RUN(dropout_fwd, k, .y = &z, .x = &x, .residual = &x, .p = 0.5f, .random = at);
	RUN(dropout_fwd, k, .y = &hx, .x = &hx, .residual = &hx, .p = 0.5f, .random = at);
	ONCE(&hx, &z);
}

static void norm(struct kit *k, struct types t, int64_t rows, int64_t n)
{
	struct tensor x = EXACT(k, t.F, rows, n), gamma = EXACT(k, t.F, n), beta = EXACT(k, t.F, n), y = NEW(k, rows, n);
	struct tensor mean = NEW(k, rows), rstd = NEW(k, rows), dy = EXACT(k, t.F, rows, n), dx = EXACT(k, t.F, rows, n);
	struct tensor dgamma = EXACT(k, t.G, n), dbeta = EXACT(k, t.G, n);
	struct tensor hx = as(k, t.F, &x), hgamma = as(k, t.F, &gamma), hbeta = as(k, t.F, &beta), hy = view_new(k, t.F, &y);
	struct tensor hmean = view_new(k, DT_F32, &mean), hrstd = view_new(k, DT_F32, &rstd), hdy = as(k, t.F, &dy), hdx = as(k, t.F, &dx);
	struct tensor hdgamma = as(k, t.G, &dgamma), hdbeta = as(k, t.G, &dbeta);

	RUN(norm_fwd, k, .y = &y, .mean = &mean, .rstd = &rstd, .x = &x, .gamma = &gamma, .beta = &beta, .eps = 1e-5f);
	RUN(norm_fwd, k, .y = &hy, .mean = &hmean, .rstd = &hrstd, .x = &hx, .gamma = &hgamma, .beta = &hbeta, .eps = 1e-5f);
	ONCE(&hy, &y);
	ONCE(&hmean, &mean);
	ONCE(&hrstd, &rstd);
	for (int accumulate = 1; accumulate >= 0; accumulate--) {
		struct tensor *to = accumulate ? &hdx : &hdy;

		RUN(norm_bwd, k, .dx = &dx, .dgamma = &dgamma, .dbeta = &dbeta, .dy = &dy, .x = &x, .mean = &mean, .rstd = &rstd,
		    .gamma = &gamma, .accumulate = accumulate);
		RUN(norm_bwd, k, .dx = to, .dgamma = &hdgamma, .dbeta = &hdbeta, .dy = &hdy, .x = &hx, .mean = &hmean,
		    .rstd = &hrstd, .gamma = &hgamma, .accumulate = accumulate);
		ONCE(to, &dx);
		ONCE(&hdgamma, &dgamma);
		ONCE(&hdbeta, &dbeta);
		exact(t.G, dgamma);
		exact(t.G, dbeta);
	}
}

static void embed(struct kit *k, struct types t, int64_t B, int64_t T, int64_t C, int64_t V)
{
	struct tensor ids = BELOW(k, (uint64_t)V, B, T), types = BELOW(k, 2, B, T);
	struct tensor wte = EXACT(k, t.F, V, C), wpe = EXACT(k, t.F, T, C), wtt = EXACT(k, t.F, 2, C), out = NEW(k, B, T, C);
	struct tensor dwte = EXACT(k, t.G, V, C), dwpe = EXACT(k, t.G, T, C), dwtt = EXACT(k, t.G, 2, C), dout = EXACT(k, t.F, B, T, C);
	struct tensor hwte = as(k, t.F, &wte), hwpe = as(k, t.F, &wpe), hwtt = as(k, t.F, &wtt), hout = view_new(k, t.F, &out);
	struct tensor hdwte = as(k, t.G, &dwte), hdwpe = as(k, t.G, &dwpe), hdwtt = as(k, t.G, &dwtt), hdout = as(k, t.F, &dout);

	RUN(embed_fwd, k, .out = &out, .ids = &ids, .types = &types, .wte = &wte, .wpe = &wpe, .wtt = &wtt);
	RUN(embed_fwd, k, .out = &hout, .ids = &ids, .types = &types, .wte = &hwte, .wpe = &hwpe, .wtt = &hwtt);
	ONCE(&hout, &out);
	/* A token comes up many times in one call, and all of that is one rounding. */
	RUN(embed_bwd, k, .dwte = &dwte, .dwpe = &dwpe, .dwtt = &dwtt, .dout = &dout, .ids = &ids, .types = &types);
	RUN(embed_bwd, k, .dwte = &hdwte, .dwpe = &hdwpe, .dwtt = &hdwtt, .dout = &hdout, .ids = &ids, .types = &types);
	ONCE(&hdwte, &dwte);
	ONCE(&hdwpe, &dwpe);
	ONCE(&hdwtt, &dwtt);
}

static void loss(struct kit *k, struct types t, int64_t rows, int64_t cols, int64_t vocab)
{
	struct tensor z = EXACT(k, t.F, rows, cols), hz = as(k, t.F, &z), losses = NEW(k, rows), hlosses = view_new(k, DT_F32, &losses);
	struct tensor targets = BELOW(k, (uint64_t)vocab, rows), by = NEW(k, 1);

	kit_set(&by, 1024);
	if (rows > 2)
		tensor_i32(&targets)[2] = -1;
	RUN(loss, k, .logits = &z, .losses = &losses, .targets = &targets, .vocab = vocab, .scale = 0.125f, .scale_by = &by, .grad = true);
	RUN(loss, k, .logits = &hz, .losses = &hlosses, .targets = &targets, .vocab = vocab, .scale = 0.125f, .scale_by = &by,
	    .grad = true);
	ONCE(&hz, &z);
	ONCE(&hlosses, &losses);
}

static void squares(struct kit *k, struct types t, int64_t n)
{
	struct tensor x = EXACT(k, t.F, n), hx = as(k, t.F, &x), s = NEW(k, 1), hs = view_new(k, DT_F32, &s);

	RUN(sum_squares, k, .out = &s, .x = &x);
	RUN(sum_squares, k, .out = &hs, .x = &hx);
	ONCE(&hs, &s);
}

static void fill_and_rows(struct kit *k, struct types t, int64_t n, int64_t cols)
{
	struct tensor x = EXACT(k, t.F, 2 * n, cols), rows = NEW_OF(k, DT_I32, n), few = NEW(k, n, cols), back = NEW(k, 2 * n, cols);
	struct tensor hx = as(k, t.F, &x), hfew = view_new(k, t.F, &few), hback = view_new(k, t.F, &back);

	for (int64_t i = 0; i < n; i++)
		tensor_i32(&rows)[i] = i % 3 == 1 ? -1 : (int32_t)(2 * i);
	RUN(gather_rows, k, .out = &few, .x = &x, .rows = &rows);
	RUN(gather_rows, k, .out = &hfew, .x = &hx, .rows = &rows);
	ONCE(&hfew, &few);
	RUN(scatter_rows, k, .out = &back, .x = &few, .rows = &rows);
	RUN(scatter_rows, k, .out = &hback, .x = &hfew, .rows = &rows);
	ONCE(&hback, &back);
	RUN(copy, k, .dst = &hback, .src = &hx);
	ONCE(&hback, &x);
	kit_set(&x, 0.3f);
	RUN(fill, k, .out = &hback, .value = 0.3f);
	ONCE(&hback, &x);
}

static const struct types all_types[] = {
	{ DT_F32, DT_F32 }, { DT_BF16, DT_BF16 }, { DT_BF16, DT_F32 }, { DT_F16, DT_F16 }, { DT_F16, DT_F32 },
};

/* Each size once for each pair of types, with fresh memory. */
#define FOR_TYPES(k, ...) do { \
	for (size_t i_ = 0; i_ < TM_ARRAY_N(all_types); i_++) { \
		struct types t = all_types[i_]; \
		kit_open(k, 2); \
		__VA_ARGS__; \
		kit_close(k); \
	} \
} while (0)

static void elements(void **state)
{
	static const int64_t sizes[] = { 1, 37, 4095, 4097, 20011 };
	struct kit k;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(sizes); i++) {
		FOR_TYPES(&k, pointwise(&k, t, sizes[i]));
		FOR_TYPES(&k, squares(&k, t, sizes[i]));
	}
	FOR_TYPES(&k, squares(&k, t, 200003));
}

static void normalisation(void **state)
{
	static const int64_t shapes[][2] = { { 1, 2 }, { 3, 7 }, { 130, 65 }, { 70, 1030 }, { 5, 4100 }, { 35, 768 }, { 3, 2304 },
					     { 19, 4104 }, { 2, 8200 } };
	struct kit k;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
		FOR_TYPES(&k, norm(&k, t, shapes[i][0], shapes[i][1]));
}

static void embeddings(void **state)
{
	static const int64_t shapes[][4] = { { 1, 1, 1, 1 }, { 2, 5, 3, 4 }, { 4, 61, 37, 7 }, { 3, 100, 70, 300 },
					     { 3, 100, 72, 300 }, { 70, 33, 16, 50 }, { 1, 2100, 8, 66000 } };
	struct kit k;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
		FOR_TYPES(&k, embed(&k, t, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]));
}

static void losses_and_logits(void **state)
{
	static const int64_t shapes[][3] = { { 1, 1, 1 }, { 5, 8, 3 }, { 40, 384, 260 }, { 20, 1280, 1280 } };
	struct kit k;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
		FOR_TYPES(&k, loss(&k, t, shapes[i][0], shapes[i][1], shapes[i][2]));
}

static void whole_rows(void **state)
{
	static const int64_t shapes[][2] = { { 1, 1 }, { 7, 5 }, { 200, 96 } };
	struct kit k;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
		FOR_TYPES(&k, fill_and_rows(&k, t, shapes[i][0], shapes[i][1]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements),
		cmocka_unit_test(normalisation),
		cmocka_unit_test(embeddings),
		cmocka_unit_test(losses_and_logits),
		cmocka_unit_test(whole_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
