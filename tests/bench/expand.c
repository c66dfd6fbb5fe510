/*
 * How long a spec of many points takes to expand, without asking the worker
 * or printing: wall and processor time, and the peak resident set.
 *
 *   expand DESCRIPTION SPEC
 */
#include "base/clock.h"
#include "base/file.h"
#include "spec/spec.h"

#include <stdio.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
	struct spec_request req = { .max_points = 1000000 };
	struct tm_str description = TM_STR_INIT;
	struct tm_errs errs = { 0 };
	struct tm_err err = { 0 };
	struct describe *d;
	struct rusage ru;
	struct spec *spec;
	int64_t begin;

	if (argc != 3 || tm_read_file(argv[1], 64 << 20, &description, &err)) {
		fprintf(stderr, "usage: expand DESCRIPTION SPEC; %s\n", err.text);
		return 64;
	}
	d = describe_load(description.s);
	req.spec = argv[2];
	begin = tm_mono_us();
	if (spec_load(&req, d, NULL, &spec, &errs)) {
		fprintf(stderr, "%s\n", errs.n ? errs.v[0].text : "refused");
		return 20;
	}
	getrusage(RUSAGE_SELF, &ru);
	printf("%zu points: %.3f s, processor %.3f s, peak %ld KiB\n", spec->n, (double)(tm_mono_us() - begin) / 1e6,
	       (double)ru.ru_utime.tv_sec + (double)ru.ru_utime.tv_usec / 1e6, ru.ru_maxrss);
	spec_free(spec);
	tm_errs_free(&errs);
	describe_free(d);
	tm_str_free(&description);
	return 0;
}
