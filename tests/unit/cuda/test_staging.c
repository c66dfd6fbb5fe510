/* Copies through pinned memory, against copies that are done as late as can be. */
#include "cuda/fake_runtime.h"

#include "base/mem.h"
#include "device/cuda/staging.h"

static struct cuda card;

static void open_card(void)
{
	struct tm_err err = { 0 };

	fake = (struct fake){ 0 };
	queue_n = 0;
	card = (struct cuda){ 0 };
	assert_ok(cuda_staging_new(&card, &err), &err);
}

static void close_card(void)
{
	cuda_staging_free(&card);
	assert_null(card.staging);
	assert_int_equal(fake.pinned, 0);
	assert_int_equal(fake.events, 0);
	cuda_staging_free(&card);         /* fine without one */
}

static void fill(unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)((i * 2654435761u >> 13) + seed * 131u);
}

static void up(unsigned char *dst, unsigned char *src, size_t n, unsigned seed)
{
	struct tm_err err = { 0 };

	fill(src, n, seed);
	assert_ok(cuda_staging_up(&card, dst, src, n, &err), &err);
	memset(src, 0xee, n);             /* it may be changed now */
}

/* Everything arrives although the source is gone and the ring was used several times over. */
static void nothing_is_overwritten_on_its_way(void **state)
{
	static const size_t sizes[] = { 1, 255, 256, 257, 5000, 1 << 20, STAGING_PIECE_BYTES - 1, STAGING_PIECE_BYTES + 1,
					3 * STAGING_PIECE_BYTES, STAGING_RING_BYTES + 12345, 777 };
	enum { ROUNDS = 4, N = sizeof sizes / sizeof *sizes };
	size_t total = 0, most = 0, at = 0;
	unsigned char *dst, *src, *want;

	(void)state;
	for (size_t i = 0; i < N; i++) {
		total += sizes[i];
		most = sizes[i] > most ? sizes[i] : most;
	}
	dst = tm_xcalloc(ROUNDS, total);
	src = tm_xmalloc(most);
	want = tm_xmalloc(most);
	open_card();
	for (unsigned r = 0; r < ROUNDS; r++)
		for (size_t i = 0; i < N; at += sizes[i++])
			up(dst + at, src, sizes[i], r * N + (unsigned)i);
	cudaStreamSynchronize(card.stream);
	at = 0;
	for (unsigned r = 0; r < ROUNDS; r++)
		for (size_t i = 0; i < N; at += sizes[i++]) {
			fill(want, sizes[i], r * N + (unsigned)i);
			assert_memory_equal(dst + at, want, sizes[i]);
		}
	close_card();
	free(dst), free(src), free(want);
}

/* A step's token batches wait for nothing, whatever is queued in front of them. */
static void what_fits_does_not_wait(void **state)
{
	enum { N = 200, BYTES = 64 << 10 };
	unsigned char *dst = tm_xmalloc(N * BYTES), *src = tm_xmalloc(BYTES);

	(void)state;
	open_card();
	for (unsigned i = 0; i < N; i++)
		up(dst + i * BYTES, src, BYTES, i);
	assert_int_equal(fake.waits, 0);
	assert_int_equal(fake.stream_waits, 0);
	/* many small ones run out of events instead, and wait for the oldest only */
	for (unsigned i = 0; i < 100; i++)
		up(dst, src, 4, i);
	assert_true(fake.waits > 0);
	assert_int_equal(fake.stream_waits, 0);
	close_card();
	free(dst), free(src);
}

static void what_comes_back_is_what_was_there(void **state)
{
	static const size_t sizes[] = { 0, 1, 4097, STAGING_PIECE_BYTES, STAGING_PIECE_BYTES + 1, 5 * STAGING_PIECE_BYTES + 99 };
	struct tm_err err = { 0 };

	(void)state;
	open_card();
	for (size_t i = 0; i < TM_ARRAY_N(sizes); i++) {
		unsigned char *src = tm_xmalloc(sizes[i] + 1), *dst = tm_xcalloc(1, sizes[i] + 1);

		fill(src, sizes[i] + 1, (unsigned)i);
		assert_ok(cuda_staging_down(&card, dst, src, sizes[i], &err), &err);
		assert_memory_equal(dst, src, sizes[i]);
		assert_int_equal(dst[sizes[i]], 0);
		free(src), free(dst);
	}
	close_card();
}

/* What is read back saw everything queued before: an upload too. */
static void down_waits_for_up(void **state)
{
	unsigned char *there = tm_xcalloc(1, 100000), *src = tm_xmalloc(100000), *back = tm_xmalloc(100000);
	struct tm_err err = { 0 };

	(void)state;
	open_card();
	up(there, src, 100000, 7);
	assert_ok(cuda_staging_down(&card, back, there, 100000, &err), &err);
	fill(src, 100000, 7);
	assert_memory_equal(back, src, 100000);
	close_card();
	free(there), free(src), free(back);
}

static void a_failed_copy_is_told(void **state)
{
	unsigned char there[64], src[64] = { 0 };
	struct tm_err err = { 0 };

	(void)state;
	open_card();
	fake.copy_code = cudaErrorIllegalAddress;
	assert_int_equal(cuda_staging_up(&card, there, src, sizeof src, &err), TM_EIO);
	assert_non_null(strstr(err.text, "cudaErrorIllegalAddress"));
	assert_non_null(strstr(err.text, "compute-sanitizer"));
	assert_int_equal(cuda_staging_down(&card, src, there, sizeof src, &err), TM_EIO);
	fake.copy_code = cudaSuccess;
	close_card();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_overwritten_on_its_way),
		cmocka_unit_test(what_fits_does_not_wait),
		cmocka_unit_test(what_comes_back_is_what_was_there),
		cmocka_unit_test(down_waits_for_up),
		cmocka_unit_test(a_failed_copy_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
