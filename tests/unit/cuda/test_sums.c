/*
 * What sums over rows ask for beside their tensors, and how they cut the rows:
 * a function of the shape, so it can be tested without a card. And launchers
 * with nothing to do launch nothing.
 */
#include "test.h"

#include "device/cuda/kernels.h"
#include "device/device.h"

#include <limits.h>

static struct mem_block somewhere;

static struct tensor shape_of(enum dtype dtype, int rank, int64_t a, int64_t b, int64_t c)
{
	return (struct tensor){ .block = &somewhere, .dtype = dtype, .rank = rank, .shape = { a, b, c } };
}

static uint64_t norm_bytes(int64_t rows, int64_t n)
{
	struct tensor x = shape_of(DT_BF16, 2, rows, n, 1);

	return device_workspaces_cuda.norm_bwd(&(struct op_norm_bwd){ .x = &x });
}

static uint64_t bias_bytes(int64_t rows, int64_t n, bool bias)
{
	struct tensor dy = shape_of(DT_BF16, 2, rows, n, 1), db = shape_of(DT_F32, 1, n, 1, 1);

	return device_workspaces_cuda.linear_dw(&(struct op_linear_dw){ .dy = &dy, .db = bias ? &db : NULL });
}

static uint64_t embed_bytes(int64_t samples, int64_t tokens, int64_t n, bool typed)
{
	struct tensor ids = shape_of(DT_I32, 2, samples, tokens, 1), dout = shape_of(DT_F32, 3, samples, tokens, n);
	struct tensor dwtt = shape_of(DT_F32, 2, 2, n, 1);

	return device_workspaces_cuda.embed_bwd(&(struct op_embed_bwd){ .ids = &ids, .dout = &dout, .dwtt = typed ? &dwtt : NULL });
}

/* The batch of the measurements: 16 × 1024 tokens of width 768. */
static void sizes_of_a_known_shape(void **state)
{
	(void)state;
	assert_int_equal(norm_bytes(16384, 768), 2 * 512 * 768 * 4);
	assert_int_equal(bias_bytes(16384, 3072, true), 256 * 3072 * 4);
	/* two sums of 768 and two tokens for each of 512 chunks, the order twice, 256 counts for each of 8 tiles */
	assert_int_equal(embed_bytes(16, 1024, 768, false), 4 * (2 * 512 * 768 + 2 * 512 + 2 * 16384 + 256 * 8));
}

static void little_asks_for_nothing(void **state)
{
	(void)state;
	assert_int_equal(bias_bytes(16384, 3072, false), 0);
	assert_int_equal(bias_bytes(64, 3072, true), 0);
	assert_true(bias_bytes(65, 3072, true) > 0);
	assert_int_equal(k_column_sums_bytes(0, 768), 0);
	assert_int_equal(k_norm_bwd_bytes(0, 768), 0);
	assert_int_equal(k_embed_tokens_bytes(0, 768), 0);
}

/* More rows, or wider ones, never ask for less: a plan for the largest batch holds for all. */
static void sizes_grow_with_the_shape(void **state)
{
	(void)state;
	for (int64_t rows = 1; rows < 200000; rows += rows < 3000 ? 1 : 997) {
		assert_true(norm_bytes(rows + 1, 768) >= norm_bytes(rows, 768));
		assert_true(bias_bytes(rows + 1, 768, true) >= bias_bytes(rows, 768, true));
		assert_true(embed_bytes(rows + 1, 16, 40, true) >= embed_bytes(rows, 16, 40, true));
		assert_true(embed_bytes(16, rows + 1, 40, false) >= embed_bytes(16, rows, 40, false));
		assert_true(embed_bytes(16, rows, 41, true) > embed_bytes(16, rows, 40, true));
		assert_true(norm_bytes(rows, 769) > norm_bytes(rows, 768));
	}
	assert_int_equal(norm_bytes(10000000, 768), norm_bytes(16384, 768));
}

/* Each table of embed_bwd has what its launcher is said to need. */
static void one_workspace_holds_each_table(void **state)
{
	static const int64_t shapes[][3] = { { 1, 1, 1 }, { 16, 1024, 768 }, { 4096, 16, 768 }, { 100000, 2, 8 }, { 3, 100, 70 } };

	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		int64_t samples = shapes[i][0], tokens = shapes[i][1], n = shapes[i][2];
		uint64_t bytes = embed_bytes(samples, tokens, n, true);

		assert_true(bytes >= k_embed_tokens_bytes(samples * tokens, n));
		assert_true(bytes >= k_column_sums_bytes(samples, tokens * n));
		assert_true(bytes >= k_column_sums_bytes(samples * tokens, 2 * n));
	}
}

/*
 * Parts are rows part · rows / parts to (part + 1) · rows / parts: none is empty,
 * and none has more rows than were asked for until there are as many parts as
 * there may be.
 */
static void check_parts(int64_t rows, int64_t parts, int64_t most_rows, int64_t most_parts)
{
	assert_true(parts >= 1 && parts <= most_parts);
	for (int64_t p = 0; p < parts; p++) {
		int64_t n = (p + 1) * rows / parts - p * rows / parts;

		assert_true(n >= 1);
		if (parts < most_parts)
			assert_true(n <= most_rows);
	}
}

static void parts_are_even(void **state)
{
	(void)state;
	for (int64_t rows = 1; rows < 70000; rows += rows < 300 ? 1 : 61) {
		check_parts(rows, k_column_sums_parts(rows), K_SUM_ROWS, K_SUM_PARTS);
		check_parts(rows, k_norm_bwd_parts(rows), K_NORM_ROWS, K_NORM_PARTS);
	}
}

/* No card is here, so a launch would be an error. */
static void nothing_to_do_launches_nothing(void **state)
{
	const struct kernel_random at = { 0 };

	(void)state;
	assert_int_equal(k_fill(NULL, DT_F32, NULL, 1, 0), 0);
	assert_int_equal(k_copy(NULL, DT_I32, NULL, &at, 0), 0);
	assert_int_equal(k_copy(NULL, DT_F32, &somewhere, &somewhere, 10), 0);
	assert_int_equal(k_add(NULL, DT_BF16, NULL, NULL, NULL, 0), 0);
	assert_int_equal(k_gelu_fwd(NULL, DT_F16, NULL, NULL, 0, true), 0);
	assert_int_equal(k_gelu_bwd(NULL, DT_F16, NULL, NULL, NULL, 0, false), 0);
	assert_int_equal(k_dropout(NULL, DT_F32, NULL, NULL, NULL, 0, 0.5f, at, NULL), 0);
	assert_int_equal(k_dropout(NULL, DT_F32, &somewhere, &somewhere, NULL, 10, 0, at, NULL), 0);
	assert_int_equal(k_norm_fwd(NULL, DT_F32, NULL, NULL, NULL, NULL, NULL, NULL, 0, 768, 1), 0);
	assert_int_equal(k_norm_bwd(NULL, DT_F32, NULL, NULL, NULL, NULL, NULL, NULL, DT_F32, NULL, DT_F32, NULL, 0, 768, true, NULL), 0);
	assert_int_equal(k_embed_fwd(NULL, DT_F32, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 768, 10), 0);
	assert_int_equal(k_embed_tokens(NULL, DT_F32, NULL, DT_F32, NULL, NULL, 0, 768, 10, NULL), 0);
	assert_int_equal(k_column_sums(NULL, DT_F32, NULL, DT_F32, NULL, 0, 768, true, NULL), 0);
	assert_int_equal(k_column_sums(NULL, DT_F32, NULL, DT_F32, NULL, 10, 0, false, NULL), 0);
	assert_int_equal(k_column_sums_by(NULL, DT_F32, NULL, DT_F32, NULL, NULL, 0, 768, NULL), 0);
	assert_int_equal(k_gather_rows(NULL, DT_F32, NULL, NULL, NULL, 0, 5, 7), 0);
	assert_int_equal(k_scatter_rows(NULL, DT_F32, NULL, NULL, NULL, 0, 0, 7), 0);
}

/* Positions and columns are counted in 32 bits; what does not fit is refused and not cut off. */
static void too_large_is_refused(void **state)
{
	(void)state;
	assert_int_not_equal(k_norm_fwd(NULL, DT_F32, NULL, NULL, NULL, NULL, NULL, NULL, 1, INT_MAX, 1), 0);
	assert_int_not_equal(k_embed_fwd(NULL, DT_F32, NULL, NULL, NULL, NULL, NULL, NULL, INT64_C(1) << 31, 1, 8, 10), 0);
	assert_int_not_equal(k_embed_tokens(NULL, DT_F32, NULL, DT_F32, NULL, NULL, INT64_C(1) << 31, 8, 10, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_of_a_known_shape),
		cmocka_unit_test(little_asks_for_nothing),
		cmocka_unit_test(sizes_grow_with_the_shape),
		cmocka_unit_test(one_workspace_holds_each_table),
		cmocka_unit_test(parts_are_even),
		cmocka_unit_test(nothing_to_do_launches_nothing),
		cmocka_unit_test(too_large_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
