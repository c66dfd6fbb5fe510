/* Flags over the file, extends, where each value came from, the environment. */
#include "spec_test.h"

#include "base/file.h"
#include "base/json.h"

#include <sys/stat.h>
#include <unistd.h>

#define REQ(...) struct spec_request req = { __VA_ARGS__ }
#define LIST(...) ((const char *const[]){ __VA_ARGS__ })

static const char *origin(const struct spec *s, const char *key)
{
	return tm_json_str(s->origin, key, "(absent)");
}

static void set_and_axis(void **state)
{
	REQ(.set = LIST("seq=64", "limits.wall=7s", "measure={reps: 2}", "data=text:/a: b #c"), .set_n = 4,
	    .axis = LIST("batch=2,4", "accum=1:4:1", "cap=1GiB:2GiB:512MiB", "data=synthetic,text:a:b:c"), .axis_n = 3,
	    .limit = LIST("host=1GiB", "silent=none"), .limit_n = 2, .device = "cuda:1", .has_seed = true, .seed = 9,
	    .label = LIST("night=3"), .label_n = 1, .order = "listed");
	struct spec *s = load_with(HEAD "set: {seq: 32, lr: 1}\naxes: {batch: [1, 2, 3]}\nlimits: {wall: 1s, host: none}\n", &req);
	json_t *p;

	(void)state;
	assert_int_equal(s->n, 2 * 4 * 3);
	p = json_loads(s->points[0].params, 0, NULL);
	assert_int_equal(tm_json_i64(p, "seq", 0), 64);
	assert_int_equal(tm_json_i64(p, "batch", 0), 2);
	assert_int_equal(tm_json_i64(p, "seed", 0), 9);
	assert_string_equal(tm_json_str(p, "device", ""), "cuda:1");
	assert_string_equal(tm_json_str(p, "data", ""), "text:/a: b #c");
	json_decref(p);
	assert_int_equal(s->limits.wall_us, 7000000);
	assert_int_equal(s->limits.silent_us, 0);
	assert_true(s->limits.host_bytes == 1 << 30);
	assert_int_equal(s->points[0].measure.reps, 2);
	assert_int_equal(s->order, SPEC_LISTED);
	assert_int_equal(s->seed, 9);
	assert_string_equal(tm_json_str(s->labels, "night", ""), "3");
	assert_string_equal(origin(s, "set.seq"), "flag -s");
	assert_string_equal(origin(s, "set.lr"), "t.yaml:3");
	assert_string_equal(origin(s, "axes.batch"), "flag -a");
	assert_string_equal(origin(s, "set.device"), "flag --device");
	assert_string_equal(origin(s, "limits.host"), "flag --limit");
	assert_string_equal(origin(s, "set.clip"), "default");
	assert_string_equal(origin(s, "measure.steps"), "default");
	assert_string_equal(origin(s, "measure.order"), "flag --order");
	spec_free(s);
}

static void text_axis_is_no_range(void **state)
{
	REQ(.axis = LIST("data=synthetic,text:a:b:c", "checkpoint=every:2,none"), .axis_n = 2);
	struct spec *s = load_with(HEAD, &req);

	(void)state;
	assert_int_equal(s->n, 4);
	spec_free(s);
}

/* The command line goes before the file: one value takes the place of an axis or a formula. */
static void one_value_replaces_an_axis(void **state)
{
	REQ(.set = LIST("batch=4", "accum=2"), .set_n = 2);
	struct spec *s = load_with(HEAD "axes: {batch: [1, 2], seq: [1, 2]}\nderive: {accum: batch}\ninclude: [{batch: 32, seq: 7}]\n", &req);

	(void)state;
	assert_int_equal(s->n, 3);
	assert_int_equal(s->warning_n, 2);
	assert_non_null(strstr(s->warnings[0], "-s batch=4 replaces the axis batch (t.yaml:3)"));
	for (size_t i = 0; i < 3; i++) {
		assert_non_null(strstr(s->points[i].params, "\"batch\":4,"));
		assert_non_null(strstr(s->points[i].params, "\"accum\":2,"));
	}
	spec_free(s);
	req.axis = LIST("batch=1,2");
	req.axis_n = 1;
	refused_with(HEAD, &req, 0, 0, "keep one of the two flags");
	refused_with(HEAD "zip: [{batch: [1, 2], seq: [1, 2]}]\n", &(struct spec_request){ .set = LIST("batch=4"), .set_n = 1 }, 0, 0,
		     "moves together|-s zip=[...]");
	s = load_with(HEAD "zip: [{batch: [1, 2], seq: [1, 2]}]\n",
		      &(struct spec_request){ .set = LIST("zip=[{batch: [4, 5, 6], seq: [1, 2, 3]}]"), .set_n = 1 });
	assert_int_equal(s->n, 3);
	spec_free(s);
}

static void malformed_flags_are_usage(void **state)
{
	static const char *const bad_set[] = { "batch", "=3", ".a=3", "a..b=3", "a b=3" };
	static const char *const bad_axis[] = { "batch", "batch=", "axes.batch=3", "=1" };
	struct spec *s;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(bad_set) + TM_ARRAY_N(bad_axis); i++) {
		bool axis = i >= TM_ARRAY_N(bad_set);
		const char *const *one = axis ? &bad_axis[i - TM_ARRAY_N(bad_set)] : &bad_set[i];
		REQ(.spec = "gpt", .set = one, .set_n = !axis, .axis = one, .axis_n = axis);
		struct tm_errs errs = { 0 };

		if (spec_load(&req, describe_, NULL, &s, &errs) != TM_EUSAGE)
			fail_msg("%s was no error of usage", *one);
		assert_int_equal(errs.v[0].code, TM_EUSAGE);
		tm_errs_free(&errs);
	}
	refused_with(HEAD, &(struct spec_request){ .set = LIST("batch=x"), .set_n = 1 }, 0, 0, "batch: expected an int");
	refused_with(HEAD, &(struct spec_request){ .set = LIST("mesure.reps=3"), .set_n = 1 }, 0, 0, "did you mean 'measure'");
	refused_with(HEAD, &(struct spec_request){ .set = LIST("axes.batch=[1"), .set_n = 1 }, 0, 0, "not YAML");
	refused_with(HEAD, &(struct spec_request){ .axis = LIST("batch=2,1:2:3"), .axis_n = 1 }, 0, 0, "got '1:2:3'");
	refused_with(HEAD, &(struct spec_request){ .axis = LIST("batch=1:2:3,4"), .axis_n = 1 }, 0, 0, "got '1:2:3'");
	refused_with(HEAD, &(struct spec_request){ .axis = LIST("batch=1:9:1:1"), .axis_n = 1 }, 0, 0, "got '1:9:1:1'");
	refused_with(HEAD, &(struct spec_request){ .set = LIST("bacth=3"), .set_n = 1 }, 0, 0, "did you mean 'batch'");
	refused_with(HEAD, &(struct spec_request){ .limit = LIST("wal=3s"), .limit_n = 1 }, 0, 0, "did you mean 'wall'");
	refused_with(HEAD, &(struct spec_request){ .set = LIST("batch=\xff"), .set_n = 1 }, 0, 0, "UTF-8");
	refused_with(HEAD, &(struct spec_request){ .order = "random" }, 0, 0, "interleaved or listed");
}

static void a_workload_is_a_spec(void **state)
{
	REQ(.spec = "gpt", .set = LIST("model=gpt-tiny"), .set_n = 1, .axis = LIST("batch=2,4,8"), .axis_n = 1);
	struct tm_errs errs = { 0 };
	struct spec *s;

	(void)state;
	assert_int_equal(spec_load(&req, describe_, NULL, &s, &errs), 0);
	assert_int_equal(s->n, 3);
	assert_string_equal(s->suite, "gpt");
	assert_string_equal(s->source, "");
	assert_string_equal(s->points[0].label, "gpt/gpt-tiny/batch=2");
	spec_free(s);
	req.spec = "gtp";
	assert_int_equal(spec_load(&req, describe_, NULL, &s, &errs), TM_ESPEC);
	assert_non_null(strstr(errs.v[0].text, "did you mean 'gpt'"));
	tm_errs_free(&errs);
	req.spec = "no/such.yaml";
	assert_int_equal(spec_load(&req, describe_, NULL, &s, &errs), TM_ESPEC);
	assert_string_equal(errs.v[0].file, "no/such.yaml");
	tm_errs_free(&errs);
}

/* Keys that some YAML readers take for booleans. */
static void keys_of_norway(void **state)
{
	static const char text[] = "tidemark: 1\nworkload: norway\naxes: {n: [1, 2], y: [3], on: [a], off: [b]}\nset: {precision: no}\n";
	REQ(.set = LIST("axes.y=[4]"), .set_n = 1);
	struct spec *s = load(text);

	(void)state;
	assert_int_equal(s->n, 2);
	assert_string_equal(s->points[1].label, "norway/n=2/y=3/on=a/off=b/precision=no");
	spec_free(s);
	s = load_with(text, &req);
	assert_int_equal(s->n, 2);
	assert_string_equal(s->points[0].label, "norway/n=1/y=4/on=a/off=b/precision=no");
	assert_string_equal(origin(s, "axes.y"), "flag -s");
	spec_free(s);
	/* `no` is judged by the declared type */
	refused(HEAD "set: {precision: no}\n", 3, 18, "precision: expected fp32, bf16 or fp16, got 'no'");
	refused(HEAD "set: {gradients: no}\n", 3, 18, "true or false|did you mean false");
	refused(HEAD "set:\n  batch: 4\n  seq: 3\n\n\n\n  batch: 8\n", 9, 3, "first on line 4 and again on line 9");
}

static char *folder;

static void put(const char *name, const char *text)
{
	char *path = tm_path_join(folder, name), *dir = tm_path_dir(path);
	struct tm_err err;

	assert_ok(tm_mkdirs(dir, &err), &err);
	assert_ok(tm_write_file(path, text, strlen(text), &err), &err);
	free(dir);
	free(path);
}

static struct spec *open_spec(const char *name, struct tm_errs *errs)
{
	char *path = tm_path_join(folder, name);
	struct spec_request req = { .spec = path };
	struct spec *s;

	spec_load(&req, describe_, NULL, &s, errs);
	free(path);
	return s;
}

static void refused_file(const char *name, unsigned line, const char *words)
{
	struct tm_errs errs = { 0 };
	struct spec *s = open_spec(name, &errs);

	if (s)
		fail_msg("accepted %s", name);
	if (!strstr(errs.v[0].text, words) || errs.v[0].line != line)
		fail_msg("%s: expected line %u, %s; got %s:%u: %s", name, line, words, errs.v[0].file, errs.v[0].line, errs.v[0].text);
	tm_errs_free(&errs);
}

static int make_folder(void **state)
{
	char name[] = "/tmp/tidemark-spec-XXXXXX";

	setup(state);
	assert_non_null(mkdtemp(name));
	folder = tm_xstrdup(name);
	put("proj/.git/HEAD", "");
	return 0;
}

static int remove_folder(void **state)
{
	static const char *const names[] = {
		"proj/.git/HEAD", "proj/.git", "proj/common.yaml", "proj/night.yaml", "proj/sub/deep.yaml", "proj/sub/link.yaml", "proj/sub",
		"proj/e1.yaml", "proj/e2.yaml", "proj/e3.yaml", "proj/e4.yaml", "proj/e5.yaml", "proj/e6.yaml", "proj/c1.yaml", "proj/c2.yaml",
		"proj/out.yaml", "proj/abs.yaml", "proj/via.yaml", "proj/fifo.yaml", "proj/pipe", "proj/none.yaml", "proj/big.yaml", "proj/huge.yaml",
		"proj/list.yaml", "proj/uses-list.yaml", "proj", "secret.yaml", "",
	};

	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		char *path = tm_path_join(folder, names[i]);

		remove(path);
		free(path);
	}
	free(folder);
	return teardown(state);
}

/* What people want of merge keys, by extends. */
static void f35_merge_keys(void **state)
{
	struct tm_errs errs = { 0 };
	struct spec *s;

	(void)state;
	refused("base: &b {limits: {wall: 30s, host: 2GiB}}\nnight: {<<: *b, limits: {wall: 60s}}\n", 2, 9, "use extends, which merges mappings");
	put("proj/common.yaml", "tidemark: 1\nlimits: {wall: 30s, host: 2GiB}\nset: {seq: 32, batch: 4}\nallow: [oom, crash]\n");
	put("proj/night.yaml", "extends: common.yaml\nworkload: gpt\nlimits: {wall: 60s}\nset: {batch: 16}\nallow: [timeout]\n");
	s = open_spec("proj/night.yaml", &errs);
	if (!s)
		fail_msg("%s:%u: %s", errs.v[0].file, errs.v[0].line, errs.v[0].text);
	assert_int_equal(s->limits.wall_us, 60000000);
	assert_true(s->limits.host_bytes == 2ull << 30);         /* the sibling survives */
	assert_int_equal(s->allow, SPEC_ALLOW_TIMEOUT);          /* lists replace */
	assert_string_equal(s->points[0].label, "gpt/gpt2-124m/batch=16/seq=32");        /* an override is no duplicate */
	assert_non_null(strstr(origin(s, "limits.host"), "common.yaml:2"));
	assert_non_null(strstr(origin(s, "limits.wall"), "night.yaml:3"));
	assert_non_null(strstr(origin(s, "set.seq"), "common.yaml:3"));
	spec_free(s);
}

static void extends_stays_in_the_project(void **state)
{
	struct tm_errs errs = { 0 };
	struct spec *s;
	char *link, *pipe;

	(void)state;
	put("secret.yaml", "tidemark: 1\nworkload: gpt\n");
	put("proj/common.yaml", "tidemark: 1\nworkload: gpt\n");
	put("proj/sub/deep.yaml", "extends: ../common.yaml\n");
	s = open_spec("proj/sub/deep.yaml", &errs);              /* up, but beneath the folder with .git */
	assert_non_null(s);
	spec_free(s);
	put("proj/out.yaml", "extends: ../secret.yaml\n");
	refused_file("proj/out.yaml", 1, "leads out of the project");
	put("proj/abs.yaml", "tidemark: 1\nextends: /etc/passwd\n");
	refused_file("proj/abs.yaml", 2, "relative to this file");
	link = tm_path_join(folder, "proj/sub/link.yaml");
	assert_int_equal(symlink("../../secret.yaml", link), 0);
	free(link);
	put("proj/via.yaml", "extends: sub/link.yaml\n");
	refused_file("proj/via.yaml", 1, "leads out of the project");
	put("proj/none.yaml", "extends: nowhere.yaml\n");
	refused_file("proj/none.yaml", 1, "cannot open");
	pipe = tm_path_join(folder, "proj/pipe");
	assert_int_equal(mkfifo(pipe, 0600), 0);
	free(pipe);
	put("proj/fifo.yaml", "extends: pipe\n");
	refused_file("proj/fifo.yaml", 1, "not a regular file");
}

static void chains_and_cycles(void **state)
{
	struct tm_errs errs = { 0 };
	struct spec *s;

	(void)state;
	put("proj/e6.yaml", "tidemark: 1\nworkload: gpt\nset: {batch: 2}\n");
	put("proj/e5.yaml", "extends: e6.yaml\n");
	put("proj/e4.yaml", "extends: e5.yaml\n");
	put("proj/e3.yaml", "extends: e4.yaml\n");
	put("proj/e2.yaml", "extends: e3.yaml\n");
	put("proj/e1.yaml", "extends: e2.yaml\n");
	s = open_spec("proj/e2.yaml", &errs);                    /* four levels */
	assert_non_null(s);
	spec_free(s);
	refused_file("proj/e1.yaml", 1, "more than 4 levels");
	put("proj/c1.yaml", "extends: c2.yaml\n");
	put("proj/c2.yaml", "tidemark: 1\nextends: c1.yaml\n");
	refused_file("proj/c1.yaml", 2, "a cycle");
	put("proj/c1.yaml", "extends: c1.yaml\n");
	refused_file("proj/c1.yaml", 1, "a cycle");
	put("proj/list.yaml", "- a\n");
	put("proj/uses-list.yaml", "extends: list.yaml\n");
	refused_file("proj/uses-list.yaml", 1, "a mapping, not a list");
}

static void big_files_are_refused_by_size(void **state)
{
	char *path;

	(void)state;
	put("proj/big.yaml", "");
	path = tm_path_join(folder, "proj/big.yaml");
	if (truncate(path, (off_t)2 << 30))
		skip();
	free(path);
	refused_file("proj/big.yaml", 0, "larger than the limit");
	put("proj/huge.yaml", "extends: big.yaml\n");
	refused_file("proj/huge.yaml", 1, "larger than the limit");
}

static void environment_of_pytorch(void **state)
{
	struct spec_request req = { 0 };
	struct tm_errs errs = { 0 };
	struct spec *s;

	(void)state;
	setenv("PYTORCH_ALLOC_CONF", "b:2", 1);
	s = load(HEAD);
	assert_non_null(strstr(s->points[0].label, "alloc_conf=b%3A2"));
	assert_int_equal(s->warning_n, 1);
	spec_free(s);
	setenv("PYTORCH_CUDA_ALLOC_CONF", "a:1", 1);
	s = load(HEAD);
	assert_non_null(strstr(s->points[0].params, "\"alloc_conf\":\"a:1\""));
	assert_int_equal(s->warning_n, 2);
	assert_non_null(strstr(s->warnings[0], "PYTORCH_CUDA_ALLOC_CONF"));
	assert_non_null(strstr(s->warnings[1], "differs"));
	assert_string_equal(origin(s, "set.alloc_conf"), "PYTORCH_CUDA_ALLOC_CONF");
	spec_free(s);
	s = load(HEAD "set: {alloc_conf: 'c:3'}\n");             /* the spec goes before it */
	assert_non_null(strstr(s->points[0].params, "\"alloc_conf\":\"c:3\""));
	assert_int_equal(s->warning_n, 0);
	spec_free(s);
	setenv("PYTORCH_CUDA_ALLOC_CONF", "a\xff", 1);
	assert_null(try_with(HEAD, &req, NULL, &errs));
	assert_non_null(strstr(errs.v[0].text, "UTF-8"));
	tm_errs_free(&errs);
	unsetenv("PYTORCH_ALLOC_CONF");
	unsetenv("PYTORCH_CUDA_ALLOC_CONF");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_and_axis),
		cmocka_unit_test(text_axis_is_no_range),
		cmocka_unit_test(one_value_replaces_an_axis),
		cmocka_unit_test(malformed_flags_are_usage),
		cmocka_unit_test(a_workload_is_a_spec),
		cmocka_unit_test(keys_of_norway),
		cmocka_unit_test(f35_merge_keys),
		cmocka_unit_test(extends_stays_in_the_project),
		cmocka_unit_test(chains_and_cycles),
		cmocka_unit_test(big_files_are_refused_by_size),
		cmocka_unit_test(environment_of_pytorch),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
