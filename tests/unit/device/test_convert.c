/*
 * Rounding to 16 bits and to tf32. half.h is held against a definition that
 * shares nothing with it: the value is scaled to the last place of the format,
 * rounded there in double, which is exact, and scaled back; patterns are read
 * by their fields. The vector loops of the CPU device must then give half.h's
 * bits.
 */
#include "device/kit.h"

#include "device/cpu/convert.h"

struct format {
	const char *name;
	int digits;                       /* of the significand, the hidden one included */
	int least, most;                  /* exponents of the smallest and the largest normal number */
};

static const struct format bf16 = { "bf16", 8, -126, 127 }, f16 = { "f16", 11, -14, 15 }, tf32 = { "tf32", 11, -126, 127 };

static double rounded(const struct format *f, double x, bool away)
{
	double place, q;
	int e;

	if (x == 0 || !isfinite(x))
		return x;
	e = ilogb(x) < f->least ? f->least : ilogb(x);
	place = ldexp(1, e - f->digits + 1);
	q = fabs(x) / place;
	q = away ? floor(q + 0.5) : nearbyint(q);
	return copysign(q * place >= ldexp(1, f->most + 1) ? INFINITY : q * place, x);
}

/* A 16-bit pattern by its fields. */
static double value(const struct format *f, uint16_t h)
{
	int bits = f->digits - 1, exponent = (h & 0x7fff) >> bits, all = (1 << (15 - bits)) - 1;
	double fraction = (double)(h & ((1 << bits) - 1)), v;

	if (exponent == all)
		v = fraction > 0 ? NAN : INFINITY;
	else if (exponent == 0)
		v = ldexp(fraction, f->least - bits);
	else
		v = ldexp(fraction + ldexp(1, bits), exponent + f->least - 1 - bits);
	return h & 0x8000 ? -v : v;
}

static bool same(double a, double b)
{
	return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/*
 * Every exponent and sign, zeros, subnormals, infinities and NaN among them,
 * each with random mantissas and, for every place at which a format can end,
 * a tie and its two neighbours. To be freed.
 */
static float *inputs(int64_t *n)
{
	enum { RANDOM = 60, EACH = 2 + RANDOM + 23 * 3 };
	float *list = tm_xcalloc(512 * EACH, sizeof *list);
	struct kit k = { .state = 4 };
	int64_t i = 0;

	for (uint32_t top = 0; top < 512; top++) {
		uint32_t base = top << 23;

		list[i++] = f32_from_bits(base);
		list[i++] = f32_from_bits(base | 0x7fffff);
		for (int r = 0; r < RANDOM; r++)
			list[i++] = f32_from_bits(base | (uint32_t)(kit_u64(&k) & 0x7fffff));
		for (int place = 0; place < 23; place++) {
			uint32_t tie = (uint32_t)(kit_u64(&k) << (place + 1)) | 1u << place;

			for (uint32_t d = 0; d < 3; d++)
				list[i++] = f32_from_bits(base | ((tie + d - 1) & 0x7fffff));
		}
	}
	*n = i;
	return list;
}

static void check_pattern(const struct format *f, float x, uint16_t got, bool away)
{
	double expected = rounded(f, (double)x, away);

	if (!same(value(f, got), expected))
		fail_msg("%a (%08x) to %s: %04x = %a, expected %a", (double)x, f32_bits(x), f->name, got, value(f, got), expected);
}

static void rounding_is_exact(void **state)
{
	int64_t n;
	float *x = inputs(&n);

	(void)state;
	for (int64_t i = 0; i < n; i++) {
		check_pattern(&bf16, x[i], bf16_from_f32(x[i]), false);
		check_pattern(&bf16, x[i], bf16_from_f32_away(x[i]), true);
		check_pattern(&f16, x[i], f16_from_f32(x[i]), false);
		if (!same((double)tf32_round(x[i]), rounded(&tf32, (double)x[i], false)))
			fail_msg("%a (%08x) to tf32: %a, expected %a", (double)x[i], f32_bits(x[i]), (double)tf32_round(x[i]),
				 rounded(&tf32, (double)x[i], false));
	}
	free(x);
}

static void every_pattern_there_and_back(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 65536; h++) {
		float b = bf16_to_f32((uint16_t)h), f = f16_to_f32((uint16_t)h);

		if (!same((double)b, value(&bf16, (uint16_t)h)) || !same((double)f, value(&f16, (uint16_t)h)))
			fail_msg("%04x: %a as bf16, %a as f16, expected %a and %a", h, (double)b, (double)f,
				 value(&bf16, (uint16_t)h), value(&f16, (uint16_t)h));
		if (!isnan(b) && (bf16_from_f32(b) != h || bf16_from_f32_away(b) != h || bf16_from_f32_random(b, h * 40503) != h))
			fail_msg("bf16 %04x does not come back", h);
		if (!isnan(f) && f16_from_f32(f) != h)
			fail_msg("f16 %04x comes back as %04x", h, f16_from_f32(f));
		if (isnan(b) && (!isnan(bf16_to_f32(bf16_from_f32(b))) || !isnan(bf16_to_f32(bf16_from_f32_away(b)))
				 || !isnan(bf16_to_f32(bf16_from_f32_random(b, 0xffff)))))
			fail_msg("the NaN %04x is lost in bf16", h);
		if (isnan(f) && !isnan(f16_to_f32(f16_from_f32(f))))
			fail_msg("the NaN %04x is lost in f16", h);
	}
}

/* Of all 65,536 draws exactly as many go up as the part that is cut off says. */
static void stochastic_rounding_counts(void **state)
{
	struct kit k = { .state = 9 };

	(void)state;
	for (int i = 0; i < 200; i++) {
		uint32_t u = (uint32_t)kit_u64(&k), up = 0;

		u = (u & 0x7f800000) == 0x7f800000 ? u & ~0x800000u : u;
		for (uint32_t r = 0; r < 65536; r++) {
			uint16_t h = bf16_from_f32_random(f32_from_bits(u), r | 0xabcd0000);

			if (h == (u >> 16) + 1)
				up++;
			else if (h != u >> 16)
				fail_msg("%08x becomes %04x, which is no neighbour", u, h);
		}
		if (up != (u & 0xffff))
			fail_msg("%08x goes up for %u of 65536 draws", u, up);
	}
	assert_int_equal(bf16_from_f32_random(INFINITY, 0xffff), 0x7f80);
	assert_int_equal(bf16_from_f32_random(-INFINITY, 0xffff), 0xff80);
}

static void a_split_master_is_exact(void **state)
{
	int64_t n;
	float *x = inputs(&n);

	(void)state;
	for (int64_t i = 0; i < n; i++) {
		uint16_t w = bf16_from_f32_away(x[i]);
		float again = split_join(w, split_rest(x[i], w));

		if (isnan(x[i]) ? !isnan(again) : f32_bits(again) != f32_bits(x[i]))
			fail_msg("%08x comes back as %08x", f32_bits(x[i]), f32_bits(again));
	}
	free(x);
}

#ifdef __FLT16_MANT_DIG__
/* The compiler's own conversion, where it has the type. */
static void f16_as_the_compiler(void **state)
{
	int64_t n;
	float *x = inputs(&n);

	(void)state;
	for (int64_t i = 0; i < n; i++) {
		_Float16 h = (_Float16)x[i];
		uint16_t bits;

		memcpy(&bits, &h, sizeof bits);
		if (isnan(x[i]) ? !isnan(f16_to_f32(f16_from_f32(x[i]))) : bits != f16_from_f32(x[i]))
			fail_msg("%08x: %04x, the compiler says %04x", f32_bits(x[i]), f16_from_f32(x[i]), bits);
	}
	free(x);
}
#endif

/* ---- the loops ------------------------------------------------------- */

#define SAME_BITS(what, n, got, expected) do { \
	for (int64_t i_ = 0; i_ < (n); i_++) \
		if (memcmp(&(got)[i_], &(expected)[i_], sizeof (got)[i_])) \
			fail_msg("%s: element %lld of %lld differs", what, (long long)i_, (long long)(n)); \
} while (0)

static void loops_over(const float *x, const uint16_t *h, const uint32_t *random, int64_t n)
{
	uint16_t *got = tm_xcalloc((size_t)n, sizeof *got), *expected = tm_xcalloc((size_t)n, sizeof *expected);
	float *got_f = tm_xcalloc((size_t)n, sizeof *got_f), *expected_f = tm_xcalloc((size_t)n, sizeof *expected_f);

#define EACH(out, value_of_i) for (int64_t i = 0; i < n; i++) out[i] = value_of_i
	EACH(expected, bf16_from_f32(x[i]));
	cpu_from_f32(got, DT_BF16, x, n);
	SAME_BITS("to bf16", n, got, expected);
	EACH(expected, f16_from_f32(x[i]));
	cpu_from_f32(got, DT_F16, x, n);
	SAME_BITS("to f16", n, got, expected);
	EACH(expected, bf16_from_f32_away(x[i]));
	cpu_bf16_away(got, x, n);
	SAME_BITS("to bf16, away", n, got, expected);
	EACH(expected, bf16_from_f32_random(x[i], random[i]));
	cpu_bf16_random(got, x, random, n);
	SAME_BITS("to bf16, random", n, got, expected);
	EACH(expected_f, tf32_round(x[i]));
	cpu_round_tf32(got_f, x, n);
	SAME_BITS("to tf32", n, got_f, expected_f);
	EACH(expected_f, bf16_to_f32(h[i]));
	cpu_to_f32(got_f, DT_BF16, h, n);
	SAME_BITS("from bf16", n, got_f, expected_f);
	EACH(expected_f, f16_to_f32(h[i]));
	cpu_to_f32(got_f, DT_F16, h, n);
	SAME_BITS("from f16", n, got_f, expected_f);
	cpu_to_f32(got_f, DT_F32, x, n);
	SAME_BITS("f32", n, got_f, x);
#undef EACH
	free(got);
	free(expected);
	free(got_f);
	free(expected_f);
}

static void loops_give_the_bits_of_one_element(void **state)
{
	struct kit k = { .state = 2 };
	int64_t n;
	float *x = inputs(&n);
	uint16_t *h = tm_xcalloc(65536, sizeof *h);
	uint32_t *random = tm_xcalloc(65536, sizeof *random);

	(void)state;
	assert_true(n >= 65536);
	for (uint32_t i = 0; i < 65536; i++) {
		h[i] = (uint16_t)i;
		random[i] = (uint32_t)kit_u64(&k);
	}
	loops_over(x, h, random, 65536);
	loops_over(x + n - 65536, h, random, 65536);
	/* Heads and tails of vector loops, at every alignment. */
	for (int64_t some = 1; some < 70; some++)
		loops_over(x + some * 7, h + 31 * some, random + some, some);
	free(x);
	free(h);
	free(random);
}

static void pieces_and_tiles_of_a_view(void **state)
{
	enum { ROWS = 9, COLS = 13, FIRST = 2 };
	struct kit k;

	(void)state;
	kit_open(&k, 1);
	for (size_t t = 0; t < TM_ARRAY_N(kit_types); t++) {
		struct tensor all = NORMAL_OF(&k, kit_types[t], ROWS, COLS), view = tensor_rows_of(&all, FIRST, ROWS - FIRST);
		float buf[64], *place;
		const float *tile;
		int64_t stride;

		tile = cpu_read_tile(&view, 2 * COLS + 3, 4, 5, COLS, buf, &stride);
		for (int64_t r = 0; r < 4; r++)
			for (int64_t c = 0; c < 5; c++)
				assert_true((double)tile[r * stride + c] == kit_get(&all, (FIRST + 2 + r) * COLS + 3 + c));
		place = cpu_update(&view, 17, 6, buf);
		for (int i = 0; i < 6; i++) {
			assert_true((double)place[i] == kit_get(&all, FIRST * COLS + 17 + i));
			place[i] = (float)i;
		}
		double before = kit_get(&all, FIRST * COLS + 16), after = kit_get(&all, FIRST * COLS + 23);
		cpu_store(&view, 17, 6, place);
		for (int i = 0; i < 6; i++)
			assert_true(kit_get(&all, FIRST * COLS + 17 + i) == (double)i);
		assert_true(kit_get(&all, FIRST * COLS + 16) == before && kit_get(&all, FIRST * COLS + 23) == after);
	}
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounding_is_exact),
		cmocka_unit_test(every_pattern_there_and_back),
		cmocka_unit_test(stochastic_rounding_counts),
		cmocka_unit_test(a_split_master_is_exact),
#ifdef __FLT16_MANT_DIG__
		cmocka_unit_test(f16_as_the_compiler),
#endif
		cmocka_unit_test(loops_give_the_bits_of_one_element),
		cmocka_unit_test(pieces_and_tiles_of_a_view),
	};

	KIT_CPU_ONLY("conversions of whole arrays are the CPU's own");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
