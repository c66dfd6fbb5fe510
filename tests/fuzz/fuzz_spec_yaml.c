/*
 * Any bytes as a spec, through the whole way: events, extends, sections,
 * expressions, expansion. The first byte chooses the flags.
 */
#include "../unit/spec/description.h"

#include "base/err.h"
#include "spec/load.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const char *const set[] = { "batch=4" }, *const axis[] = { "seq=8:32:8" };
	static struct describe *d;
	struct spec_request req = { .spec = "fuzz.yaml", .max_points = 100 };
	struct tm_errs errs = { 0 };
	struct spec *spec;
	int rc;

	if (!d)
		d = describe_load(description_text);
	if (!n)
		return 0;
	req.set = set;
	req.set_n = data[0] & 1;
	req.axis = axis;
	req.axis_n = data[0] >> 1 & 1;
	rc = spec_load_text(&req, "fuzz.yaml", "/nonexistent", (const char *)data + 1, n - 1, d, NULL, &spec, &errs);
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
