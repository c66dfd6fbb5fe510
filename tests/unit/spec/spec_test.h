/* Loading a spec from a string, for the tests of this folder. */
#ifndef TM_SPEC_TEST_H
#define TM_SPEC_TEST_H

#include "test.h"

#include "description.h"
#include "base/mem.h"
#include "base/str.h"
#include "spec/load.h"

#define HEAD "tidemark: 1\nworkload: gpt\n"

static struct describe *describe_;

static __attribute__((unused)) int setup(void **state)
{
	(void)state;
	unsetenv("PYTORCH_CUDA_ALLOC_CONF");
	unsetenv("PYTORCH_ALLOC_CONF");
	describe_ = describe_load(description_text);
	return 0;
}

static __attribute__((unused)) int teardown(void **state)
{
	(void)state;
	describe_free(describe_);
	return 0;
}

/* May be NULL: then errs says why. */
static __attribute__((unused)) struct spec *try_with(const char *text, const struct spec_request *req,
						     const struct spec_checker *check, struct tm_errs *errs)
{
	struct spec_request r = *req;
	struct spec *spec;

	r.spec = "t.yaml";
	spec_load_text(&r, "t.yaml", "/nonexistent", text, strlen(text), describe_, check, &spec, errs);
	return spec;
}

static __attribute__((unused)) struct spec *load_with(const char *text, const struct spec_request *req)
{
	struct tm_errs errs = { 0 };
	struct spec *spec = try_with(text, req, NULL, &errs);

	if (!spec)
		fail_msg("%s:%u:%u: %s\nin\n%s", errs.v[0].file, errs.v[0].line, errs.v[0].column, errs.v[0].text, text);
	assert_int_equal(errs.n, 0);
	return spec;
}

static __attribute__((unused)) struct spec *load(const char *text)
{
	struct spec_request req = { 0 };

	return load_with(text, &req);
}

/* The spec is refused, and one of its errors stands at line:column (0: any) and contains all of `words` (split at '|'). */
static __attribute__((unused)) void refused_with(const char *text, const struct spec_request *req, unsigned line, unsigned column,
						 const char *words)
{
	struct tm_errs errs = { 0 };
	struct spec *spec = try_with(text, req, NULL, &errs);
	struct tm_str all = TM_STR_INIT;
	bool found = false;

	if (spec)
		fail_msg("accepted:\n%.300s", text);
	assert_true(errs.n > 0);
	for (size_t i = 0; i < errs.n && i < 32; i++) {
		const struct tm_err *e = &errs.v[i];
		bool here = (!line || e->line == line) && (!column || e->column == column);

		for (const char *w = words; *w;) {
			size_t n = strcspn(w, "|");
			char *word = tm_xstrndup(w, n);

			here &= strstr(e->text, word) != NULL;
			free(word);
			w += n + (w[n] == '|');
		}
		found |= here;
		tm_str_addf(&all, "%s:%u:%u: %s\n", e->file, e->line, e->column, e->text);
	}
	if (!found)
		fail_msg("expected %u:%u: %s\ngot\n%sin\n%.300s", line, column, words, all.s, text);
	tm_str_free(&all);
	tm_errs_free(&errs);
}

static __attribute__((unused)) void refused(const char *text, unsigned line, unsigned column, const char *words)
{
	struct spec_request req = { 0 };

	refused_with(text, &req, line, column, words);
}

/* A reproducible stream of random numbers (xorshift64*). */
static __attribute__((unused)) uint64_t rnd(uint64_t *s)
{
	*s ^= *s >> 12;
	*s ^= *s << 25;
	*s ^= *s >> 27;
	return *s * 2685821657736338717ull;
}

#endif
