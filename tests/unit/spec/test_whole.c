/* Questions to the workload, the job, what is stored, the JSON Schema, and the laws of expansion on random specs. */
#include "spec_test.h"

#include "base/json.h"

#include <inttypes.h>

/* ---- questions to the workload ------------------------------------------------- */

struct asked { size_t calls, points, largest; int fail, lose; const char *spec_params; };

/* Refuses what a real workload refuses: width not divisible by heads, seq beyond the context. */
static int ask(void *arg, const json_t *points, json_t **answers, struct tm_err *err)
{
	struct asked *a = arg;
	size_t n = json_array_size(points);

	if (a->fail)
		return tm_fail(err, TM_EENV, "no worker");
	a->calls++;
	a->points += n;
	a->largest = n > a->largest ? n : a->largest;
	*answers = json_array();
	for (size_t i = 0; i + (size_t)a->lose < n; i++) {
		const json_t *p = json_object_get(json_array_get(points, i), "params");
		int64_t width = tm_json_i64(p, "width", 0), heads = tm_json_i64(p, "heads", 0);

		assert_string_equal(tm_json_str(json_array_get(points, i), "workload", ""), "gpt");
		if (a->spec_params) {
			struct tm_str text = TM_STR_INIT;

			/* the question is about the point itself */
			tm_json_canonical(p, &text);
			assert_string_equal(text.s, a->spec_params);
			tm_str_free(&text);
		}
		if (heads && width % heads) {
			char text[100];

			snprintf(text, sizeof text, "%" PRId64 " is not divisible by %" PRId64 " heads", width, heads);
			json_array_append_new(*answers, json_pack("{s:s, s:s}", "param", "width", "text", text));
		} else if (tm_json_i64(p, "seq", 0) > 1024) {
			json_array_append_new(*answers, json_pack("{s:s, s:s}", "param", "seq", "text", "seq is longer than the context"));
		} else if (tm_json_i64(p, "vocab", 0) == 7) {
			json_array_append_new(*answers, json_pack("{s:s, s:s}", "param", "data", "text", "no such file"));
		} else {
			json_array_append_new(*answers, json_null());
		}
	}
	return 0;
}

static void blamed(const char *text, const struct spec_request *req, size_t n, const char *file, unsigned line, unsigned column, const char *words)
{
	struct asked a = { 0 };
	struct spec_checker check = { .ask = ask, .arg = &a };
	struct tm_errs errs = { 0 };

	assert_null(try_with(text, req, &check, &errs));
	assert_int_equal(errs.n, n);
	if (strcmp(errs.v[0].file, file) || errs.v[0].line != line || errs.v[0].column != column || !strstr(errs.v[0].text, words))
		fail_msg("expected %s:%u:%u %s, got %s:%u:%u %s", file, line, column, words, errs.v[0].file, errs.v[0].line,
			 errs.v[0].column, errs.v[0].text);
	assert_int_equal(errs.v[0].code, TM_ESPEC);
	tm_errs_free(&errs);
}

static void impossible_points_are_blamed_where_they_were_given(void **state)
{
	struct spec_request req = { 0 }, flag = { .set = (const char *const[]){ "width=100" }, .set_n = 1 };

	(void)state;
	blamed(HEAD "set: {width: 100, heads: 3}\n", &req, 1, "t.yaml", 3, 14, "width: 100 is not divisible by 3 heads");
	blamed(HEAD "set: {heads: 3}\naxes: {width: [96, 100, 99]}\n", &req, 1, "t.yaml", 4, 20, "100 is not divisible");
	/* the same at every batch is one error */
	blamed(HEAD "set: {heads: 3}\naxes: {width: [96, 100], batch: [1, 2, 4]}\n", &req, 1, "t.yaml", 4, 20, "(point width=100 batch=1)");
	blamed(HEAD "set: {heads: 3}\nderive: {width: \"heads * 3 + 1\"}\n", &req, 1, "t.yaml", 4, 17, "10 is not divisible");
	blamed(HEAD "include: [{width: 10, heads: 3}]\n", &req, 1, "t.yaml", 3, 19, "10 is not divisible");
	blamed(HEAD "set: {heads: 3}\n", &flag, 1, "-s width=100", 0, 0, "100 is not divisible");
	blamed(HEAD "axes: {seq: {range: [512, 2048], step: 512}}\n", &req, 1, "t.yaml", 3, 8, "seq is longer than the context (point seq=1536)");
	/* a default is to blame: the place where the point came from */
	blamed(HEAD "axes: {vocab: [3, 7]}\n", &req, 1, "t.yaml", 3, 7, "data: no such file");
	blamed(HEAD "set: {vocab: 7}\n", &req, 1, "t.yaml", 2, 11, "data: no such file");
	/* eight, and how many more */
	blamed(HEAD "set: {heads: 7}\naxes: {width: [1, 2, 3, 4, 5, 6, 8, 9, 10, 11]}\n", &req, 9, "t.yaml", 4, 16, "1 is not divisible");
}

static void questions_come_in_portions(void **state)
{
	struct asked a = { 0 };
	struct spec_checker check = { .ask = ask, .arg = &a };
	struct spec_request req = { 0 };
	struct tm_errs errs = { 0 };
	struct spec *s = try_with(HEAD "axes: {batch: {range: [1, 50]}, seq: {range: [1, 50]}}\n", &req, &check, &errs);

	(void)state;
	assert_non_null(s);
	spec_free(s);
	assert_int_equal(a.points, 2500);
	assert_int_equal(a.calls, 3);
	assert_int_equal(a.largest, 1000);
	s = load(HEAD "set: {lr: 0.1, cap: 1GiB, data: 'text:a', gradients: true}\n");
	a.spec_params = s->points[0].params;
	spec_free(try_with(HEAD "set: {lr: 0.1, cap: 1GiB, data: 'text:a', gradients: true}\n", &req, &check, &errs));
	assert_int_equal(a.calls, 4);
	spec_free(s);
	a.spec_params = NULL;
	a.fail = 1;
	assert_null(try_with(HEAD, &req, &check, &errs));
	assert_int_equal(errs.v[0].code, TM_EENV);
	tm_errs_free(&errs);
	a = (struct asked){ .lose = 1 };
	assert_null(try_with(HEAD, &req, &check, &errs));
	assert_non_null(strstr(errs.v[0].text, "answered 0 of 1"));
	tm_errs_free(&errs);
}

/* ---- job, settings, schema -------------------------------------------------------- */

static void a_job_is_what_the_protocol_says(void **state)
{
	struct spec *s = load(HEAD "set: {batch: 4, cap: 1GiB}\nmeasure: {warmup: {min: 5, max: 9, window: 8, slope: 2%}, steps: 20}\n");
	struct tm_str text = TM_STR_INIT;
	json_t *job, *params;

	(void)state;
	spec_job(&s->points[0], "ab\"c", describe_hash(describe_), "/tmp/t.jsonl", &text);
	assert_int_equal(tm_json_parse(text.s, text.n, &job, NULL), 0);
	assert_int_equal(tm_json_i64(job, "v", 0), 1);
	assert_string_equal(tm_json_str(job, "run", ""), "ab\"c");
	assert_string_equal(tm_json_str(job, "workload", ""), "gpt");
	assert_string_equal(tm_json_str(job, "describe", ""), describe_hash(describe_));
	assert_string_equal(tm_json_str(job, "trace", ""), "/tmp/t.jsonl");
	params = json_object_get(job, "params");
	assert_int_equal(tm_json_i64(params, "cap", 0), 1 << 30);
	assert_int_equal(tm_json_i64(json_object_get(job, "warmup"), "max", 0), 9);
	assert_true(tm_json_real(json_object_get(job, "warmup"), "slope", 0) == 0.02);
	assert_int_equal(tm_json_i64(job, "steps", 0), 20);
	json_decref(job);
	tm_str_reset(&text);
	spec_job(&s->points[0], "r", "", NULL, &text);
	assert_null(strstr(text.s, "trace"));
	tm_str_free(&text);
	spec_free(s);
}

static void settings_come_back(void **state)
{
	struct spec_request req = { .label = (const char *const[]){ "who=me" }, .label_n = 1 };
	struct spec *s = load_with(HEAD "axes: {batch: [1, 2]}\nexclude: [{when: batch == 1, why: w}]\nlimits: {wall: 3s, host: 1GiB, sweep: 1h}\n"
				   "allow: [oom, invalid]\ngates: {rules: [{metric: loss.final, max: 1%}]}\nreport: {dir: d, title: t}\n", &req), *back;
	json_t *settings = spec_settings(s), *again;
	struct tm_str a = TM_STR_INIT, b = TM_STR_INIT;
	struct tm_err err;

	(void)state;
	assert_ok(spec_from_settings(settings, &back, &err), &err);
	assert_int_equal(back->n, 0);
	assert_string_equal(back->sha, s->sha);
	assert_string_equal(back->report_dir, "d");
	assert_true(back->limits.host_bytes == 1 << 30);
	assert_int_equal(back->allow, SPEC_ALLOW_OOM | SPEC_ALLOW_INVALID);
	assert_string_equal(tm_json_str(back->labels, "who", ""), "me");
	assert_string_equal(back->excluded[0].why, "w");
	again = spec_settings(back);
	tm_json_canonical(settings, &a);
	tm_json_canonical(again, &b);
	assert_string_equal(a.s, b.s);
	tm_str_free(&a);
	tm_str_free(&b);
	json_decref(again);
	spec_free(back);
	json_object_set_new(settings, "v", json_integer(2));
	assert_int_equal(spec_from_settings(settings, &back, &err), TM_ESTORE);
	assert_null(back);
	json_decref(settings);
	spec_free(s);
}

static void sha_is_of_the_meaning(void **state)
{
	struct spec *a = load(HEAD "set: {batch: 4, seq: 8}\n"), *b = load("# c\nworkload: gpt\ntidemark: 1\nset:\n  seq: 8\n  batch: 4\n");
	struct spec *c = load(HEAD "set: {batch: 4, seq: 8}\nmeasure: {reps: 2}\n"), *d = load(HEAD "set: {batch: 4, seq: 8}\nlimits: {wall: 1s}\n");

	(void)state;
	assert_string_equal(a->sha, b->sha);
	assert_string_not_equal(a->sha, c->sha);
	assert_string_not_equal(a->sha, d->sha);
	spec_free(a);
	spec_free(b);
	spec_free(c);
	spec_free(d);
}

static void schema_knows_every_parameter(void **state)
{
	json_t *schema = spec_schema(describe_);
	const json_t *all = json_object_get(schema, "allOf");

	(void)state;
	assert_string_equal(tm_json_str(schema, "$schema", ""), "https://json-schema.org/draft/2020-12/schema");
	assert_int_equal(json_array_size(all), describe_->n);
	for (size_t i = 0; i < describe_->n; i++) {
		const json_t *props = json_object_get(json_object_get(json_array_get(all, i), "then"), "properties");
		const json_t *set = json_object_get(json_object_get(props, "set"), "properties");

		assert_int_equal(json_object_size(set), describe_->w[i].n);
		for (size_t k = 0; k < describe_->w[i].n; k++)
			assert_non_null(json_object_get(set, describe_->w[i].p[k].name));
	}
	json_decref(schema);
}

/* ---- laws, on random specs ------------------------------------------------------------ */

static const struct { const char *name; const char *values[6]; } sweepable[] = {
	{ "batch", { "1", "2", "4", "16", "32", "64" } }, { "seq", { "8", "16", "32", "64", "128", "512" } },
	{ "layers", { "1", "2", "3", "4", "5", "6" } }, { "lr", { "1e-1", "1e-2", "1e-3", "1e-5", "0.5", "2" } },
	{ "precision", { "fp32", "bf16", "fp16" } }, { "checkpoint", { "none", "block", "every:2", "every:3", "budget:1GiB", "budget:2GiB" } },
	{ "cap", { "1GiB", "2GiB", "3GiB", "4GB", "5GB", "none" } }, { "seed", { "1", "2", "3", "4", "5", "6" } },
};

static void shuffle(uint64_t *seed, size_t *v, size_t n)
{
	for (size_t i = n; i > 1; i--) {
		size_t k = rnd(seed) % i, t = v[i - 1];

		v[i - 1] = v[k];
		v[k] = t;
	}
}

static size_t values_of(size_t p)
{
	size_t n = 0;

	while (n < 6 && sweepable[p].values[n])
		n++;
	return n;
}

struct random_spec { size_t set[3], axis[4], zip[2], set_n, axis_n, zip_n, size[8]; };

static void random_spec(uint64_t *seed, struct random_spec *r)
{
	size_t order[] = { 0, 1, 2, 3, 4, 5, 6, 7 };

	shuffle(seed, order, 8);
	memset(r, 0, sizeof *r);
	for (size_t i = 0; i < 8; i++)
		r->size[i] = rnd(seed) % values_of(i) + 1;
	r->set_n = rnd(seed) % 3;
	r->axis_n = rnd(seed) % 4;
	r->zip_n = rnd(seed) % 2 * 2;
	memcpy(r->set, order, sizeof *order * r->set_n);
	memcpy(r->axis, order + 3, sizeof *order * r->axis_n);
	memcpy(r->zip, order + 6, sizeof *order * r->zip_n);
	if (r->zip_n)
		r->size[r->zip[1]] = r->size[r->zip[0]] = r->size[r->zip[0]] < values_of(r->zip[1]) ? r->size[r->zip[0]] : values_of(r->zip[1]);
}

static void write_list(struct tm_str *out, const struct random_spec *r, size_t p)
{
	tm_str_addf(out, "%s: [", sweepable[p].name);
	for (size_t i = 0; i < r->size[p]; i++)
		tm_str_addf(out, "%s'%s'", i ? ", " : "", sweepable[p].values[i]);
	tm_str_add(out, "]");
}

static void write_spec(struct tm_str *out, const struct random_spec *r, bool reversed)
{
	tm_str_reset(out);
	tm_str_add(out, reversed ? "workload: gpt\n" : HEAD);
	tm_str_add(out, "set:\n");
	for (size_t i = 0; i < r->set_n; i++) {
		size_t p = r->set[reversed ? r->set_n - 1 - i : i];

		tm_str_addf(out, "  %s: '%s'\n", sweepable[p].name, sweepable[p].values[0]);
	}
	tm_str_add(out, "axes:\n");
	for (size_t i = 0; i < r->axis_n; i++) {
		tm_str_add(out, "  ");
		write_list(out, r, r->axis[reversed ? r->axis_n - 1 - i : i]);
		tm_str_add(out, "\n");
	}
	if (r->zip_n) {
		tm_str_add(out, "zip:\n  - ");
		write_list(out, r, r->zip[reversed]);
		tm_str_add(out, "\n    ");
		write_list(out, r, r->zip[!reversed]);
		tm_str_add(out, "\n");
	}
	if (reversed)
		tm_str_add(out, "tidemark: 1\n");
}

static int by_label(const void *a, const void *b)
{
	return strcmp(((const struct spec_point *)a)->label, ((const struct spec_point *)b)->label);
}

static void laws_of_expansion(void **state)
{
	uint64_t seed = 31337;

	(void)state;
	for (size_t round = 0; round < 300; round++) {
		struct random_spec r;
		struct tm_str text = TM_STR_INIT;
		struct spec *a, *b;
		size_t want = 1;

		random_spec(&seed, &r);
		for (size_t i = 0; i < r.axis_n; i++)
			want *= r.size[r.axis[i]];
		want *= r.zip_n ? r.size[r.zip[0]] : 1;
		write_spec(&text, &r, false);
		a = load(text.s);
		assert_int_equal(a->count.product, want);
		assert_int_equal(a->n, want);    /* the values of an axis differ, so nothing merges */
		write_spec(&text, &r, true);
		b = load(text.s);
		assert_int_equal(b->n, want);
		/* the order of keys changes the order of points and nothing else */
		qsort(a->points, a->n, sizeof *a->points, by_label);
		qsort(b->points, b->n, sizeof *b->points, by_label);
		for (size_t i = 0; i < a->n; i++) {
			assert_string_equal(a->points[i].label, b->points[i].label);
			assert_string_equal(a->points[i].hash, b->points[i].hash);
			assert_string_equal(a->points[i].params, b->points[i].params);
			/* one label, one configuration */
			assert_true(!i || strcmp(a->points[i - 1].label, a->points[i].label));
		}
		spec_free(a);
		spec_free(b);
		tm_str_free(&text);
	}
}

/* ---- size --------------------------------------------------------------------------------- */

#if !defined(__SANITIZE_ADDRESS__)
static size_t peak_kib(void)
{
	char line[256];
	size_t kib = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %zu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

static void ten_thousand_points_fit_64_mib(void **state)
{
	struct asked a = { 0 };
	struct spec_checker check = { .ask = ask, .arg = &a };
	struct spec_request req = { 0 };
	struct tm_errs errs = { 0 };
	struct spec *s = try_with(HEAD "axes: {batch: {range: [1, 100]}, seq: {range: [1, 100]}}\nderive: {accum: \"1 + batch % 7\"}\n"
				  "exclude: [{when: \"batch * seq == 7 && allocator != 'raw'\"}]\n", &req, &check, &errs);

	(void)state;
	assert_non_null(s);
	assert_int_equal(s->n, 9998);
	spec_free(s);
	assert_true(peak_kib() > 0 && peak_kib() < 64 * 1024);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
#if !defined(__SANITIZE_ADDRESS__)
		cmocka_unit_test(ten_thousand_points_fit_64_mib),
#endif
		cmocka_unit_test(impossible_points_are_blamed_where_they_were_given),
		cmocka_unit_test(questions_come_in_portions),
		cmocka_unit_test(a_job_is_what_the_protocol_says),
		cmocka_unit_test(settings_come_back),
		cmocka_unit_test(sha_is_of_the_meaning),
		cmocka_unit_test(schema_knows_every_parameter),
		cmocka_unit_test(laws_of_expansion),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
