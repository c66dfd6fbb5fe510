#include "spec_test.h"

#include "spec/expr.h"

#include <inttypes.h>
#include <math.h>

static int get(void *arg, const char *name, struct val *out, char *why, size_t why_n)
{
	static const struct val list[] = { { .kind = VAL_TEXT, .s = "a" }, { .kind = VAL_TEXT, .s = "b" } };

	(void)arg;
	if (!strcmp(name, "seven"))
		*out = (struct val){ .kind = VAL_INT, .i = 7 };
	else if (!strcmp(name, "half"))
		*out = (struct val){ .kind = VAL_REAL, .d = 0.5 };
	else if (!strcmp(name, "word"))
		*out = (struct val){ .kind = VAL_TEXT, .s = "bf16" };
	else if (!strcmp(name, "yes"))
		*out = (struct val){ .kind = VAL_BOOL, .b = true };
	else if (!strcmp(name, "list"))
		*out = (struct val){ .kind = VAL_LIST, .list = { list, 2 } };
	else if (!strcmp(name, "none"))
		*out = (struct val){ .kind = VAL_NONE };
	else if (!strcmp(name, "loss.final"))
		*out = (struct val){ .kind = VAL_REAL, .d = 2.5 };
	else
		return snprintf(why, why_n, "unknown name '%s'", name), TM_ESPEC;
	return 0;
}

static int run(const char *text, bool dotted, struct val *out, struct expr_fault *fault)
{
	static struct arena a;
	struct expr_env env = { .get = get };
	struct expr *e;
	int rc;

	arena_free(&a);
	rc = expr_parse(&a, text, dotted, &e, fault);
	return rc ? rc : expr_eval(e, &env, out, fault);
}

static void is(const char *text, struct val want)
{
	struct expr_fault fault = { 0 };
	struct val got;

	if (run(text, false, &got, &fault))
		fail_msg("%s: character %u: %s", text, fault.at, fault.text);
	if (got.kind != want.kind)
		fail_msg("%s is %s", text, val_kind_name(got.kind));
	if (want.kind == VAL_INT && got.i != want.i)
		fail_msg("%s = %" PRId64 ", expected %" PRId64, text, got.i, want.i);
	if (want.kind == VAL_REAL && got.d != want.d)
		fail_msg("%s = %.17g, expected %.17g", text, got.d, want.d);
	if (want.kind == VAL_BOOL && got.b != want.b)
		fail_msg("%s = %d", text, got.b);
}

static void is_int(const char *text, int64_t v)
{
	is(text, (struct val){ .kind = VAL_INT, .i = v });
}

static void is_real(const char *text, double v)
{
	is(text, (struct val){ .kind = VAL_REAL, .d = v });
}

static void is_bool(const char *text, bool v)
{
	is(text, (struct val){ .kind = VAL_BOOL, .b = v });
}

static void fails(const char *text, unsigned at, const char *words)
{
	struct expr_fault fault = { 0 };
	struct val got;

	if (run(text, false, &got, &fault) != TM_ESPEC)
		fail_msg("accepted %s", text);
	if (fault.at != at || !strstr(fault.text, words))
		fail_msg("%s: expected character %u: %s; got %u: %s", text, at, words, fault.at, fault.text);
}

static void arithmetic(void **state)
{
	(void)state;
	is_int("1 + 2 * 3", 7);
	is_int("(1 + 2) * 3", 9);
	is_int("10 - 2 - 3", 5);
	is_int("2 * -3", -6);
	is_int("--3", 3);
	is_int("7 // 2", 3);
	is_int("-7 // 2", -4);
	is_int("7 // -2", -4);
	is_int("-7 % 3", 2);
	is_int("7 % -3", -2);
	is_real("7 / 2", 3.5);
	is_real("8 / 2", 4);
	is_real("1.5e1 + 1", 16);
	is_real("7.5 // 2", 3);
	is_real("-7.5 % 2", 0.5);
	is_int("16GiB // 1MiB", 16384);
	is_int("1.5KB", 1500);
	is_int("30s", 30000000);
	is_int("5min - 60s", 240000000);
	is_int("min(3, 1, 2)", 1);
	is_int("max(1, seven // 2)", 3);
	is_real("max(half, 0)", 0.5);
	is_int("abs(-3)", 3);
	is_real("abs(-0.5)", 0.5);
	is_int("9223372036854775807", INT64_MAX);
	is_int("-9223372036854775807 - 1", INT64_MIN);
}

static void conditions(void **state)
{
	(void)state;
	is_bool("1 < 2", true);
	is_bool("2 <= 1 || 3 > 2 && 1 == 1", true);
	is_bool("!(1 == 1) || false", false);
	is_bool("word == 'bf16'", true);
	is_bool("word in ['fp32', 'bf16']", true);
	is_bool("seven in [1, 2, 3]", false);
	is_bool("'a' in list", true);
	is_bool("'c' in list", false);
	is_bool("1 == 1.0", true);
	is_bool("9007199254740993 == 9007199254740992.0", false);
	is_bool("9007199254740993 > 9007199254740992.0", true);
	is_bool("-1 > -1.5", true);
	is_bool("-2 < -1.5", true);
	is_bool("'a' < 'b'", true);
	is_bool("(1 < 2) == true", true);
	/* a parameter the workload does not have equals nothing */
	is_bool("none == 'x'", false);
	is_bool("none != 'x'", true);
	is_bool("none == none", false);
	is_bool("none < 3", false);
	is_bool("none in ['x']", false);
	/* the side that does not matter is not looked at */
	is_bool("false && 1 // 0 == 1", false);
	is_bool("true || 1 // 0 == 1", true);
}

static void faults_name_the_character(void **state)
{
	(void)state;
	fails("1 // (seven - 7)", 3, "division by zero");
	fails("1 / 0", 3, "division by zero");
	fails("1 % 0.0", 3, "division by zero");
	fails("9223372036854775807 + 1", 21, "64 bits");
	fails("-9223372036854775807 - 2", 22, "64 bits");
	fails("9223372036854775807 * 2", 21, "64 bits");
	fails("(-9223372036854775807 - 1) // -1", 28, "64 bits");
	fails("-(-9223372036854775807 - 1)", 1, "64 bits");
	fails("abs(-9223372036854775807 - 1)", 1, "64 bits");
	fails("9223372036854775808", 1, "64 bits");
	fails("1e308 * 10.0", 7, "finite");
	fails("1e999", 1, "finite");
	fails("1 +", 4, "expression ends");
	fails("", 1, "expression ends");
	fails("1 2", 3, "a value where an operator");
	fails("(1", 3, "')'");
	fails("1)", 2, "')'");
	fails("[1, 2]", 1, "only stand behind 'in'");
	fails("1 < 2 < 3", 7, "do not chain");
	fails("word = 'x'", 6, "'=='");
	fails("yes & yes", 5, "'&&'");
	fails("word == \"x\"", 9, "single quotes");
	fails("word == 'x", 9, "closing");
	fails("word == 3", 6, "do not go together");
	fails("word + 1", 6, "do not go together");
	fails("word < 1", 6, "do not go together");
	fails("seven in [word]", 11, "do not go together");
	fails("seven in seven", 10, "needs a list");
	fails("!seven", 2, "needs a condition");
	fails("seven && true", 1, "needs a condition");
	fails("-word", 1, "needs a number");
	fails("max('a', 1)", 5, "needs numbers");
	fails("max()", 1, "at least one");
	fails("abs(1, 2)", 1, "one value");
	fails("sqrt(2)", 1, "no function 'sqrt'");
	fails("loss.final < 1", 1, "metrics cannot be used here");
	fails("nothing + 1", 1, "unknown name");
	fails("12abc", 1, "a unit");
	fails("0x10", 1, "a unit");
	fails("1 @ 2", 3, "'@'");
	fails("in 3", 1, "a value");
}

static void dotted_names_where_metrics_are_meant(void **state)
{
	struct expr_fault fault;
	struct val v;

	(void)state;
	assert_int_equal(run("loss.final <= 2.5", true, &v, &fault), 0);
	assert_true(v.b);
}

static void depth_and_length(void **state)
{
	struct tm_str s = TM_STR_INIT;
	struct expr_fault fault;
	struct val v;

	(void)state;
	for (size_t i = 0; i < EXPR_MAX_DEPTH - 1; i++)
		tm_str_addc(&s, '(');
	tm_str_addc(&s, '1');
	for (size_t i = 0; i < EXPR_MAX_DEPTH - 1; i++)
		tm_str_addc(&s, ')');
	is_int(s.s, 1);
	tm_str_reset(&s);
	for (size_t i = 0; i < 4000; i++)
		tm_str_addc(&s, '!');
	assert_int_equal(run(s.s, false, &v, &fault), TM_ESPEC);
	assert_non_null(strstr(fault.text, "nested deeper"));
	/* long but flat */
	tm_str_reset(&s);
	tm_str_add(&s, "1");
	for (size_t i = 0; i < 2000; i++)
		tm_str_add(&s, "+1");
	is_int(s.s, 2001);
	for (size_t i = 0; i < 100; i++)
		tm_str_add(&s, "+1");
	fails(s.s, 1, "more than 4096 characters");
	tm_str_free(&s);
}

/* ---- against an oracle ----------------------------------------------------- */

/* A random expression of ints, written with random blanks and only the brackets it needs or more, and its value. */
static bool grow(uint64_t *seed, unsigned depth, unsigned outer, struct tm_str *out, __int128 *v)
{
	static const char *const ops[] = { "+", "-", "*", "//", "%" };
	__int128 a, b;
	struct tm_str left = TM_STR_INIT, right = TM_STR_INIT;
	unsigned op, level;
	bool good;

	if (!depth || rnd(seed) % 4 == 0) {
		int64_t n = (int64_t)(rnd(seed) >> (rnd(seed) % 63 + 1));

		tm_str_addf(out, "%" PRId64, n);
		*v = n;
		return true;
	}
	op = (unsigned)(rnd(seed) % 5);
	level = op < 2 ? 1 : 2;
	/* left-associative: the right side needs brackets at the same level */
	good = grow(seed, depth - 1, level, &left, &a);
	good &= grow(seed, depth - 1, level + 1, &right, &b);
	tm_str_addf(out, level < outer || rnd(seed) % 5 == 0 ? "(%s%s%s%s%s)" : "%s%s%s%s%s", left.s, rnd(seed) % 2 ? " " : "",
		    ops[op], rnd(seed) % 2 ? " " : "", right.s);
	tm_str_free(&left);
	tm_str_free(&right);
	if (!good || (op > 2 && !b))
		return false;
	switch (op) {
	case 0:
		*v = a + b;
		break;
	case 1:
		*v = a - b;
		break;
	case 2:
		*v = a * b;
		break;
	case 3:
		*v = a / b - (a % b && (a % b < 0) != (b < 0));
		break;
	default:
		*v = a % b + (a % b && (a % b < 0) != (b < 0) ? b : 0);
	}
	return *v >= INT64_MIN && *v <= INT64_MAX;
}

static void ints_agree_with_wider_arithmetic(void **state)
{
	uint64_t seed = 7;
	size_t good_n = 0, bad_n = 0;

	(void)state;
	for (size_t i = 0; i < 20000; i++) {
		struct tm_str s = TM_STR_INIT;
		struct expr_fault fault;
		__int128 want = 0;
		struct val got;
		bool good = grow(&seed, 5, 0, &s, &want);
		int rc = run(s.s, false, &got, &fault);

		if (good ? rc || got.kind != VAL_INT || got.i != (int64_t)want : !rc)
			fail_msg("%s: rc %d, got %" PRId64 ", expected %s %" PRId64, s.s, rc, rc ? 0 : got.i, good ? "" : "an error, not",
				 (int64_t)want);
		good_n += good;
		bad_n += !good;
		tm_str_free(&s);
	}
	assert_true(good_n > 2000 && bad_n > 500);
}

static void random_bytes_never_crash(void **state)
{
	static const char *const pieces[] = {
		"seven", "half", "word", "list", "none", "1", "2.5", "'a'", "16GiB", "(", ")", "[", "]", ",", "+", "-", "*", "/", "//",
		"%", "<", "==", "!=", "&&", "||", "!", " in ", " ", "min(", "abs(", "true", "'", ".", "=", "\xc3\xa9", "9223372036854775807",
	};
	uint64_t seed = 99;
	size_t fine = 0;

	(void)state;
	for (size_t i = 0; i < 50000; i++) {
		struct tm_str s = TM_STR_INIT;
		struct expr_fault fault = { 0 };
		struct val v;
		size_t n = rnd(&seed) % 12;

		for (size_t k = 0; k < n; k++)
			tm_str_add(&s, pieces[rnd(&seed) % TM_ARRAY_N(pieces)]);
		if (!run(s.s, false, &v, &fault)) {
			fine++;
			assert_true(v.kind != VAL_REAL || isfinite(v.d));
		} else {
			assert_true(fault.at >= 1 && fault.at <= s.n + 1 && *fault.text);
		}
		tm_str_free(&s);
	}
	assert_true(fine > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arithmetic),
		cmocka_unit_test(conditions),
		cmocka_unit_test(faults_name_the_character),
		cmocka_unit_test(dotted_names_where_metrics_are_meant),
		cmocka_unit_test(depth_and_length),
		cmocka_unit_test(ints_agree_with_wider_arithmetic),
		cmocka_unit_test(random_bytes_never_crash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
