/*
 * Any bytes as a spec, through the whole way: events, extends, sections,
 * expressions, expansion. The last byte chooses the flags (a file that ends
 * in a newline has none); for two of them the first line is the value.
 */
#include "../unit/spec/description.h"

#include "base/err.h"
#include "spec/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char value[64];
	const char *const set[] = { "batch=4", value }, *const axis[] = { "accum=8:32:8", value };
	static struct describe *d;
	struct spec_request req = { .spec = "fuzz.yaml", .max_points = 100 };
	struct tm_errs errs = { 0 };
	struct spec *spec;
	unsigned flags;
	int rc;

	if (!d)
		d = describe_load(description_text);
	if (!n)
		return 0;
	flags = data[n - 1] ^ '\n';
	if (flags & 12) {
		const uint8_t *end = memchr(data, '\n', n - 1);
		size_t line = end ? (size_t)(end - data) : n - 1;

		snprintf(value, sizeof value, "seq=%.*s", (int)line, (const char *)data);
		n -= line;
		data += line;
	}
	req.set = set + !(flags & 1);
	req.set_n = (flags & 1) + (flags >> 2 & 1);
	req.axis = axis + !(flags & 2);
	req.axis_n = (flags >> 1 & 1) + (flags >> 3 & 1);
	rc = spec_load_text(&req, "fuzz.yaml", "/nonexistent", (const char *)data, n - 1, d, NULL, &spec, &errs);
	/* an answer, or a reason */
	if (rc ? spec || !errs.n : !spec || errs.n || !spec->n)
		abort();
	if (spec) {
		json_t *settings = spec_settings(spec);
		struct spec *back;

		if (spec_from_settings(settings, &back, NULL))
			abort();
		spec_free(back);
		json_decref(settings);
	}
	spec_free(spec);
	tm_errs_free(&errs);
	return 0;
}
