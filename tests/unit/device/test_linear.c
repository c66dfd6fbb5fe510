/*
 * Linear layers in every stored type against their definition in double.
 * (f32 alone, in more shapes: test_forward.c and test_gradient.c.)
 *
 * Bounds, stated before anything was measured: relative Frobenius distance at
 * most c · u · √n with c = 1. 16 bits: u = 2⁻⁸ (bf16) or 2⁻¹¹ (f16), one
 * rounding, of the result, and one more of what is accumulated upon; a result
 * in f32 of 16-bit operands has none and the bound of f32. tf32: u = 2⁻¹¹, two
 * roundings, one of each operand.
 */
#include "device/attention_kit.h"

#define BOUND_F32 5e-6

/* Rows, inputs, outputs: one element; odd; few rows, so tiles side by side; over the edges of tiles and of the blocks of a conversion (256, 512). */
static const struct shape { int64_t rows, k, n; } shapes[] = {
	{ 1, 1, 1 }, { 3, 5, 7 }, { 20, 33, 530 }, { 257, 33, 65 }, { 300, 257, 530 }, { 600, 8, 31 },
};

static double bound(const struct number *number, enum dtype stored, double roundings)
{
	if (number->tf32)
		return 0x1p-11 * sqrt(2);
	return kit_roundoff(stored) == 0x1p-24 ? BOUND_F32 : kit_roundoff(stored) * sqrt(roundings);
}

struct layer {
	struct tensor x, w, b, y, dy, dx, dw, db;
	double *y_d, *dx_d, *dw_d, *db_d;      /* what they should be (layer_reference) */
};

/* (rows × k) = aᵀ · b for a(n × rows), b(n × k) */
static void transposed_product(double *out, const double *a, const double *b, int64_t n, int64_t rows, int64_t k)
{
	for (int64_t i = 0; i < rows * k; i++)
		out[i] = 0;
	for (int64_t s = 0; s < n; s++)
		for (int64_t r = 0; r < rows; r++)
			for (int64_t j = 0; j < k; j++)
				out[r * k + j] += a[s * rows + r] * b[s * k + j];
}

/* F and G as in ops.h. */
static struct layer layer_new(struct kit *k, const struct shape *s, enum dtype F, enum dtype G)
{
	return (struct layer){
		.x = NORMAL_OF(k, F, s->rows, s->k), .w = NORMAL_OF(k, F, s->n, s->k), .b = NORMAL_OF(k, F, s->n),
		.y = NORMAL_OF(k, F, s->rows, s->n), .dy = NORMAL_OF(k, F, s->rows, s->n), .dx = NORMAL_OF(k, F, s->rows, s->k),
		.dw = NORMAL_OF(k, G, s->n, s->k), .db = NORMAL_OF(k, G, s->n),
	};
}

static void layer_reference(struct layer *l, const struct shape *s)
{
	double *x = kit_double(&l->x), *w = kit_double(&l->w), *b = kit_double(&l->b), *dy = kit_double(&l->dy);
	double *ones = tm_xcalloc((size_t)s->rows, sizeof *ones), *w_t = tm_xcalloc((size_t)(s->n * s->k), sizeof *w_t);

	for (int64_t r = 0; r < s->rows; r++)
		ones[r] = 1;
	for (int64_t i = 0; i < s->n * s->k; i++)
		w_t[i % s->k * s->n + i / s->k] = w[i];
	l->y_d = tm_xcalloc((size_t)(s->rows * s->n), sizeof(double));
	l->dx_d = tm_xcalloc((size_t)(s->rows * s->k), sizeof(double));
	l->dw_d = tm_xcalloc((size_t)(s->n * s->k), sizeof(double));
	l->db_d = tm_xcalloc((size_t)s->n, sizeof(double));
	ref_linear(l->y_d, x, w, b, s->rows, s->k, s->n);
	ref_linear(l->dx_d, dy, w_t, NULL, s->rows, s->n, s->k);
	transposed_product(l->dw_d, dy, x, s->rows, s->n, s->k);
	transposed_product(l->db_d, ones, dy, s->rows, 1, s->n);
	free(x);
	free(w);
	free(b);
	free(dy);
	free(ones);
	free(w_t);
}

static void layer_drop(struct kit *k, struct layer *l)
{
	struct tensor *const all[] = { &l->x, &l->w, &l->b, &l->y, &l->dy, &l->dx, &l->dw, &l->db };

	for (size_t i = 0; i < TM_ARRAY_N(all); i++)
		tensor_drop(k->mem, all[i]);
	free(l->y_d);
	free(l->dx_d);
	free(l->dw_d);
	free(l->db_d);
}

static void run(struct kit *k, struct layer *l, bool tf32, bool accumulate)
{
	RUN(linear_fwd, k, .y = &l->y, .x = &l->x, .w = &l->w, .b = &l->b, .tf32 = tf32);
	RUN(linear_dx, k, .dx = &l->dx, .dy = &l->dy, .w = &l->w, .tf32 = tf32, .accumulate = accumulate);
	RUN(linear_dw, k, .dw = &l->dw, .db = &l->db, .dy = &l->dy, .x = &l->x, .tf32 = tf32, .accumulate = accumulate);
}

/* reference += what is stored now */
static void add_stored(double *reference, const struct tensor *t)
{
	for (int64_t i = 0; i < tensor_n(t); i++)
		reference[i] += kit_get(t, i);
}

static void matches_its_definition(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
		for (size_t n = 0; n < TM_ARRAY_N(numbers); n++)
			for (int variant = 0; variant < 4; variant++) {
				enum dtype F = numbers[n].dtype, G = variant & 1 ? DT_F32 : F;
				bool accumulate = variant & 2;
				struct layer l = layer_new(&k, &shapes[i], F, G);

				layer_reference(&l, &shapes[i]);
				if (accumulate) {
					add_stored(l.dx_d, &l.dx);
					add_stored(l.dw_d, &l.dw);
					add_stored(l.db_d, &l.db);
				}
				run(&k, &l, numbers[n].tf32, accumulate);
				/* The reference adds to the stored values themselves: their own rounding is none here. */
				assert_near(&l.y, l.y_d, bound(&numbers[n], F, 1));
				assert_near(&l.dx, l.dx_d, bound(&numbers[n], F, 1));
				assert_near(&l.dw, l.dw_d, bound(&numbers[n], G, 1));
				/* No product: tf32 changes nothing. */
				assert_near(&l.db, l.db_d, bound(&(struct number){ .dtype = G }, G, 1));
				layer_drop(&k, &l);
			}
	kit_close(&k);
}

/* How many elements are not the nearest of their type to the double. */
static double share_not_nearest(const struct tensor *t, const double *reference)
{
	struct tensor nearest = *t;
	struct mem_block block = *t->block;
	int64_t n = 0;

	block.addr = (uint64_t)(uintptr_t)tm_xmalloc(tensor_bytes(t));
	nearest.block = &block;
	for (int64_t i = 0; i < tensor_n(t); i++) {
		kit_put(&nearest, i, reference[i]);
		n += kit_get(&nearest, i) != kit_get(t, i);
	}
	free((void *)(uintptr_t)block.addr);
	return (double)n / (double)tensor_n(t);
}

/*
 * Rounded once and not once a block of K: but for ties that the sum in f32
 * falls on the other side of, each element is the double rounded to its type.
 * A sum of 520 terms is off by 1e-6 of its size, the spacing is 2⁻⁷ (bf16) or
 * 2⁻¹⁰ (f16), so 1 in 1,000 in f16; a second rounding moves every fourth.
 */
static void results_are_rounded_once(void **state)
{
	static const enum dtype types[] = { DT_BF16, DT_F16 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(types); i++)
		for (int accumulate = 0; accumulate < 2; accumulate++) {
			static const struct shape s = { 300, 520, 260 };
			struct layer l = layer_new(&k, &s, types[i], types[i]);

			layer_reference(&l, &s);
			if (accumulate) {
				add_stored(l.dx_d, &l.dx);
				add_stored(l.dw_d, &l.dw);
				add_stored(l.db_d, &l.db);
			}
			run(&k, &l, false, accumulate);
			assert_true(share_not_nearest(&l.y, l.y_d) < 0.005);
			assert_true(share_not_nearest(&l.dx, l.dx_d) < 0.005);
			assert_true(share_not_nearest(&l.dw, l.dw_d) < 0.005);
			assert_true(share_not_nearest(&l.db, l.db_d) < 0.01);
			layer_drop(&k, &l);
		}
	kit_close(&k);
}

/*
 * 1024.5 has 11 mantissa bits: the product with 1 is exact in f32, and one of
 * the two neighbours where the operand is rounded to 10.
 */
static void tf32_is_seen_in_one_product(void **state)
{
	struct kit k;
	struct tensor x, w, y;

	(void)state;
	if (!kit_on_cpu())
		skip();                           /* a library may take so small a product in f32 */
	kit_open(&k, 1);
	x = NEW(&k, 1, 1), w = NEW(&k, 1, 1), y = NEW(&k, 1, 1);
	kit_set(&x, 1024.5f);
	kit_set(&w, 1);
	RUN(linear_fwd, &k, .y = &y, .x = &x, .w = &w);
	assert_true(tensor_f32(&y)[0] == 1024.5f);
	RUN(linear_fwd, &k, .y = &y, .x = &x, .w = &w, .tf32 = true);
	assert_true(tensor_f32(&y)[0] == 1024 || tensor_f32(&y)[0] == 1025);
	kit_close(&k);
}

/* And in a large one: at most its bound, and no less than a tenth of it, which f32 never reaches. */
static void tf32_rounds_both_operands(void **state)
{
	static const struct shape s = { 300, 257, 530 };
	struct kit k;
	struct layer l;

	(void)state;
	kit_open(&k, 2);
	l = layer_new(&k, &s, DT_F32, DT_F32);
	layer_reference(&l, &s);
	run(&k, &l, true, false);
	for (int i = 0; i < 3; i++) {
		const struct tensor *t = i == 0 ? &l.y : i == 1 ? &l.dx : &l.dw;
		double distance = kit_distance(t, i == 0 ? l.y_d : i == 1 ? l.dx_d : l.dw_d);

		assert_true(distance > 0.1 * 0x1p-11 && distance <= 0x1p-11 * sqrt(2));
	}
	/* One operand at a time: the other has few bits. */
	for (int side = 0; side < 2; side++) {
		struct tensor *coarse = side ? &l.x : &l.w, y = NEW(&k, s.rows, s.n);
		double *exact;

		for (int64_t i = 0; i < tensor_n(&l.x); i++)
			kit_put(&l.x, i, kit_normal(&k));
		for (int64_t i = 0; i < tensor_n(coarse); i++)
			kit_put(coarse, i, rint(kit_get(coarse, i) * 4) / 4);
		RUN(linear_fwd, &k, .y = &y, .x = &l.x, .w = &l.w);
		exact = kit_double(&y);
		RUN(linear_fwd, &k, .y = &y, .x = &l.x, .w = &l.w, .tf32 = true);
		assert_true(kit_distance(&y, exact) > 0.1 * 0x1p-11);
		free(exact);
		for (int64_t i = 0; i < tensor_n(&l.w); i++)
			kit_put(&l.w, i, kit_normal(&k));
	}
	layer_drop(&k, &l);
	kit_close(&k);
}

/* A chunk of a larger tensor gives the rows of the whole, and touches no others. */
static void rows_of_a_tensor(void **state)
{
	static const struct shape s = { 90, 40, 70 };
	enum { FIRST = 33, ROWS = 21 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t n = 0; n < TM_ARRAY_N(numbers); n++) {
		struct layer l = layer_new(&k, &s, numbers[n].dtype, numbers[n].dtype);
		struct tensor x = tensor_rows_of(&l.x, FIRST, ROWS), y = tensor_rows_of(&l.y, FIRST, ROWS);
		struct tensor dy = tensor_rows_of(&l.dy, FIRST, ROWS), dx = tensor_rows_of(&l.dx, FIRST, ROWS);
		double *before[2] = { kit_double(&l.y), kit_double(&l.dx) }, *xd = kit_double(&x), *dyd = kit_double(&dy);

		layer_reference(&l, &s);
		RUN(linear_fwd, &k, .y = &y, .x = &x, .w = &l.w, .b = &l.b, .tf32 = numbers[n].tf32);
		RUN(linear_dx, &k, .dx = &dx, .dy = &dy, .w = &l.w, .tf32 = numbers[n].tf32);
		RUN(linear_dw, &k, .dw = &l.dw, .db = &l.db, .dy = &dy, .x = &x, .tf32 = numbers[n].tf32);
		assert_near(&y, l.y_d + FIRST * s.n, bound(&numbers[n], numbers[n].dtype, 1));
		assert_near(&dx, l.dx_d + FIRST * s.k, bound(&numbers[n], numbers[n].dtype, 1));
		transposed_product(l.dw_d, dyd, xd, ROWS, s.n, s.k);
		assert_near(&l.dw, l.dw_d, bound(&numbers[n], numbers[n].dtype, 1));
		for (int64_t i = 0; i < tensor_n(&l.y); i++)
			if (i / s.n < FIRST || i / s.n >= FIRST + ROWS)
				assert_true(kit_get(&l.y, i) == before[0][i]);
		for (int64_t i = 0; i < tensor_n(&l.dx); i++)
			if (i / s.k < FIRST || i / s.k >= FIRST + ROWS)
				assert_true(kit_get(&l.dx, i) == before[1][i]);
		free(before[0]);
		free(before[1]);
		free(xd);
		free(dyd);
		layer_drop(&k, &l);
	}
	kit_close(&k);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
	static const int threads[] = { 2, 5 };

	(void)state;
	for (size_t n = 0; n < TM_ARRAY_N(numbers); n++)
		for (size_t i = 3; i < TM_ARRAY_N(shapes); i++)
			for (int variant = 0; variant < 4; variant += 3) {
				enum dtype F = numbers[n].dtype, G = variant & 1 ? DT_F32 : F;
				struct kit one;
				struct layer first;

				kit_open(&one, 1);
				first = layer_new(&one, &shapes[i], F, G);
				run(&one, &first, numbers[n].tf32, variant & 2);
				for (size_t t = 0; t < TM_ARRAY_N(threads); t++) {
					struct kit k;
					struct layer l;

					kit_open(&k, threads[t]);
					l = layer_new(&k, &shapes[i], F, G);
					run(&k, &l, numbers[n].tf32, variant & 2);
					if (!same_bits(&l.y, &first.y) || !same_bits(&l.dx, &first.dx) || !same_bits(&l.dw, &first.dw) ||
					    !same_bits(&l.db, &first.db))
						fail_msg("%s, shape %zu: %d threads differ from 1", numbers[n].name, i, threads[t]);
					layer_drop(&k, &l);
					kit_close(&k);
				}
				layer_drop(&one, &first);
				kit_close(&one);
			}
}

static void nan_reaches_the_output(void **state)
{
	static const struct shape s = { 70, 300, 33 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t n = 0; n < TM_ARRAY_N(numbers); n++) {
		struct layer l = layer_new(&k, &s, numbers[n].dtype, numbers[n].dtype);

		kit_put(&l.x, 69 * s.k + 299, NAN);
		kit_put(&l.w, 5 * s.k + 280, NAN);
		kit_put(&l.b, 7, NAN);
		kit_put(&l.dy, 3 * s.n + 11, NAN);
		run(&k, &l, numbers[n].tf32, false);
		for (int64_t r = 0; r < s.rows; r++)
			for (int64_t j = 0; j < s.n; j++)
				assert_int_equal(isnan(kit_get(&l.y, r * s.n + j)) != 0, r == 69 || j == 5 || j == 7);
		for (int64_t r = 0; r < s.rows; r++)
			for (int64_t j = 0; j < s.k; j++)
				assert_int_equal(isnan(kit_get(&l.dx, r * s.k + j)) != 0, r == 3 || j == 280);
		for (int64_t j = 0; j < s.n; j++) {
			assert_int_equal(isnan(kit_get(&l.db, j)) != 0, j == 11);
			for (int64_t i = 0; i < s.k; i++)
				assert_int_equal(isnan(kit_get(&l.dw, j * s.k + i)) != 0, j == 11 || i == 299);
		}
		layer_drop(&k, &l);
	}
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches_its_definition),
		cmocka_unit_test(results_are_rounded_once),
		cmocka_unit_test(tf32_is_seen_in_one_product),
		cmocka_unit_test(tf32_rounds_both_operands),
		cmocka_unit_test(rows_of_a_tensor),
		cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
		cmocka_unit_test(nan_reaches_the_output),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
