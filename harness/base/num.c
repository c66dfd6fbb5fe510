#include "base/num.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

int tm_parse_i64(const char *s, int64_t *out)
{
	const char *p = s + (*s == '-' || *s == '+');
	int64_t v = 0;

	if (!digit(*p))
		return TM_EINVALID;
	for (; digit(*p); p++) {
		int d = *p - '0';

		/* negative throughout, so that INT64_MIN reads */
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, d, &v))
			return TM_EINVALID;
	}
	if (*p || (*s != '-' && __builtin_mul_overflow(v, -1, &v)))
		return TM_EINVALID;
	*out = v;
	return 0;
}

static locale_t c_locale(void)
{
	static locale_t loc;

	if (!loc)
		loc = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	return loc;
}

/* A number at the start of s; *end behind it. */
static int leading_double(const char *s, double *out, const char **end)
{
	const char *p = s + (*s == '-' || *s == '+');
	char *stop;
	double v;

	/* strtod would also take hex, inf, nan and leading blanks */
	if (!digit(*p) && !(*p == '.' && digit(p[1])))
		return TM_EINVALID;
	if (*p == '0' && (p[1] == 'x' || p[1] == 'X'))
		return TM_EINVALID;
	v = strtod_l(s, &stop, c_locale());
	if (stop == s || !isfinite(v))
		return TM_EINVALID;
	*out = v;
	*end = stop;
	return 0;
}

int tm_parse_double(const char *s, double *out)
{
	const char *end;
	double v;

	if (leading_double(s, &v, &end) || *end)
		return TM_EINVALID;
	*out = v;
	return 0;
}

static const struct unit {
	const char *name;
	double factor;
} sizes[] = {
	{ "B", 1 },
	{ "KB", 1e3 }, { "MB", 1e6 }, { "GB", 1e9 }, { "TB", 1e12 },
	{ "KiB", 1024.0 }, { "MiB", 1048576.0 }, { "GiB", 1073741824.0 }, { "TiB", 1099511627776.0 },
}, durations[] = {
	{ "us", 1 }, { "ms", 1e3 }, { "s", 1e6 }, { "min", 60e6 }, { "h", 3600e6 },
};

static int with_unit(const char *s, const struct unit *units, size_t n, double *out)
{
	const char *end;
	double v;

	if (leading_double(s, &v, &end) || v < 0 || *s == '-')
		return TM_EINVALID;
	while (*end == ' ')
		end++;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(end, units[i].name) == 0) {
			*out = v * units[i].factor;
			return 0;
		}
	}
	return TM_EINVALID;
}

int tm_parse_size(const char *s, uint64_t *out)
{
	double v;

	if (with_unit(s, sizes, TM_ARRAY_N(sizes), &v) || v >= 9007199254740992.0)
		return TM_EINVALID;
	*out = (uint64_t)v;
	return 0;
}

int tm_parse_duration(const char *s, int64_t *out_us)
{
	double v;

	if (with_unit(s, durations, TM_ARRAY_N(durations), &v) || v >= 9e15)
		return TM_EINVALID;
	*out_us = (int64_t)(v + 0.5);
	return 0;
}

int tm_parse_percent(const char *s, double *out)
{
	const char *end;
	double v;

	if (leading_double(s, &v, &end) || strcmp(end, "%"))
		return TM_EINVALID;
	*out = v / 100;
	return 0;
}

void tm_add_double(struct tm_str *str, double v)
{
	char buf[40];

	if (!isfinite(v)) {
		tm_str_add(str, "null");
		return;
	}
	if (v == 0)
		v = 0;           /* -0 and 0 are one value in a hash */
	/* A decimal of at most 15 digits survives the way to a double and back, so if a short one reads
	 * as v, 15 digits print it (%g strips the zeros). Else 16 or 17 do. Subnormals have fewer. */
	for (int digits = fabs(v) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
		double back;
		locale_t old = uselocale(c_locale());

		snprintf(buf, sizeof buf, "%.*g", digits, v);
		uselocale(old);
		if (!tm_parse_double(buf, &back) && back == v)
			break;
	}
	tm_str_add(str, buf);
}

char *tm_size_text(double bytes, char out[32])
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	size_t i = 0;
	double v = fabs(bytes);

	while (v >= 1024 && i + 1 < TM_ARRAY_N(names)) {
		v /= 1024;
		i++;
	}
	snprintf(out, 32, "%s%.*f %s", bytes < 0 ? "-" : "",
		 i == 0 ? 0 : v < 10 ? 2 : v < 100 ? 1 : 0, v, names[i]);
	return out;
}

char *tm_duration_text(double s, char out[32])
{
	double v = fabs(s);

	if (v < 1e-3)
		snprintf(out, 32, "%.0f us", s * 1e6);
	else if (v < 1)
		snprintf(out, 32, "%.*f ms", v < 0.01 ? 2 : 1, s * 1e3);
	else if (v < 120)
		snprintf(out, 32, "%.*f s", v < 10 ? 2 : 1, s);
	else if (v < 7200)
		snprintf(out, 32, "%.1f min", s / 60);
	else
		snprintf(out, 32, "%.1f h", s / 3600);
	return out;
}

char *tm_flop_text(double flop, char out[32])
{
	static const char *const units[] = { "FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP" };
	size_t u = 0;

	/* three digits: 999.5 would be written 1e+03 */
	while (fabs(flop) >= 999.5 && u + 1 < TM_ARRAY_N(units)) {
		flop /= 1000;
		u++;
	}
	snprintf(out, 32, fabs(flop) < 999.5 ? "%.3g %s" : "%.0f %s", flop, units[u]);
	return out;
}

char *tm_size_exact(uint64_t bytes, char out[32])
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t i = 0;

	while (bytes && bytes % 1024 == 0 && i + 1 < TM_ARRAY_N(names)) {
		bytes /= 1024;
		i++;
	}
	snprintf(out, 32, "%" PRIu64 "%s", bytes, names[i]);
	return out;
}

char *tm_duration_exact(int64_t us, char out[32])
{
	if (us % 3600000000 == 0 && us)
		snprintf(out, 32, "%" PRId64 "h", us / 3600000000);
	else if (us % 60000000 == 0 && us)
		snprintf(out, 32, "%" PRId64 "min", us / 60000000);
	else if (us % 1000000 == 0)
		snprintf(out, 32, "%" PRId64 "s", us / 1000000);
	else if (us % 1000 == 0)
		snprintf(out, 32, "%" PRId64 "ms", us / 1000);
	else
		snprintf(out, 32, "%" PRId64 "us", us);
	return out;
}
