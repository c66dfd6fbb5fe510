/* Any text as an expression: parsed, checked, evaluated; a fault always names a character of the text. */
#include "base/err.h"
#include "spec/expr.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int get(void *arg, const char *name, struct val *out, char *why, size_t why_n)
{
	static const struct val items[] = { { .kind = VAL_TEXT, .s = "x" }, { .kind = VAL_INT, .i = 3 } };

	(void)arg;
	switch (*name) {
	case 'i':
		*out = (struct val){ .kind = VAL_INT, .i = INT64_MIN };
		return 0;
	case 'r':
		*out = (struct val){ .kind = VAL_REAL, .d = 1e300 };
		return 0;
	case 'b':
		*out = (struct val){ .kind = VAL_BOOL, .b = true };
		return 0;
	case 't':
		*out = (struct val){ .kind = VAL_TEXT, .s = "x" };
		return 0;
	case 'l':
		*out = (struct val){ .kind = VAL_LIST, .list = { items, 2 } };
		return 0;
	case 'n':
		*out = (struct val){ .kind = VAL_NONE };
		return 0;
	default:
		snprintf(why, why_n, "no %s", name);
		return TM_ESPEC;
	}
}

static int known(void *arg, const char *name, char *why, size_t why_n)
{
	(void)arg;
	if (*name != 'z' || !why_n)
		return 0;
	why[0] = '\0';
	return -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct expr_env env = { .get = get };
	struct expr_checker checker = { .name = known };
	struct expr_fault fault = { 0 };
	struct arena a = { 0 };
	char *text = malloc(n + 1);
	struct expr *e;
	struct val v;

	if (!text)
		return 0;
	memcpy(text, data, n);
	text[n] = '\0';
	if (expr_parse(&a, text, n & 1, &e, &fault) || expr_check(e, &checker, &fault) || expr_eval(e, &env, &v, &fault)) {
		if (fault.at < 1 || fault.at > strlen(text) + 1)
			abort();
	} else if (v.kind == VAL_REAL && !isfinite(v.d)) {
		abort();
	}
	arena_free(&a);
	free(text);
	return 0;
}
