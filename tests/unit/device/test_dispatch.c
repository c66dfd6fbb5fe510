/*
 * The way into an operation: devices by name, shapes, workspace from the
 * run's memory, accounts, and the switch by which the golden test breaks a
 * backward operation on purpose.
 */
#include "device/kit.h"

#include <spawn.h>

extern char **environ;

static void devices_by_name(void **state)
{
	struct tm_err err = { 0 };
	struct device *dev = NULL;

	(void)state;
	assert_int_equal(device_open("cuda", 1, &dev, &err), TM_EENV);
	assert_non_null(strstr(err.text, "device cuda is not here"));
	assert_non_null(strstr(err.text, "tidemark-device-cuda.so"));
	assert_int_equal(device_open("cuda:1", 1, &dev, &err), TM_EENV);
	assert_int_equal(device_open("cpi", 1, &dev, &err), TM_EINVALID);
	assert_non_null(strstr(err.text, "did you mean 'cpu'"));
	static const char *const wrong[] = { "", ":", "../cpu", "cpu:1", "CPU", "cpu ", "x/../../lib" };
	for (size_t i = 0; i < TM_ARRAY_N(wrong); i++)
		if (device_open(wrong[i], 1, &dev, &err) != TM_EINVALID)
			fail_msg("opened '%s'", wrong[i]);
	assert_null(dev);
	assert_int_equal(device_open("cpu", 100000, &dev, &err), TM_EINVALID);
	assert_ok(device_open("cpu", 0, &dev, &err), &err);
	assert_true(dev->threads >= 1);
	device_close(dev);
	device_close(NULL);
	assert_true(device_backend_n() >= 1);
	assert_non_null(device_backend_find("cpu", 3));
	assert_null(device_backend_find("cpux", 2));
}

static const char plugin_source[] =
	"#include \"device/device.h\"\n"
	"static int open_it(struct device *dev, const char *arg, int threads, struct tm_err *err)\n"
	"{ (void)threads; (void)err; dev->threads = arg[0] - '0'; return 0; }\n"
	"static const struct device_table ops;\n"
	"static const struct device_backend b = { .version = DEVICE_VERSION + OFFSET, .name = \"toy\", .help = \"toy\", .ops = &ops, .open = open_it };\n"
	"const struct device_backend *tidemark_device_backend(void);\n"
	"const struct device_backend *tidemark_device_backend(void) { return &b; }\n";

/* False where there is no compiler. */
static bool compile_plugin(const char *source, const char *object, const char *offset)
{
	char include_work[512], include_harness[512], src[512], out[512], define[64];
	char cc[] = "cc", shared[] = "-shared", pic[] = "-fPIC", o[] = "-o";
	char *argv[] = { cc, shared, pic, include_work, include_harness, define, src, o, out, NULL };
	int status;
	pid_t pid;

	snprintf(include_work, sizeof include_work, "-I%s/../workloads", TESTS_DIR);
	snprintf(include_harness, sizeof include_harness, "-I%s/../harness", TESTS_DIR);
	snprintf(define, sizeof define, "-DOFFSET=%s", offset);
	snprintf(src, sizeof src, "%s", source);
	snprintf(out, sizeof out, "%s", object);
	if (posix_spawnp(&pid, "cc", NULL, NULL, argv, environ))
		return false;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void a_device_beside_the_program_is_loaded(void **state)
{
	static const char object[] = BUILD_DIR "/tidemark-device-toy.so", source[] = BUILD_DIR "/tidemark-device-toy.c";
	struct tm_err err = { 0 };
	struct device *dev;
	struct kit k;

	(void)state;
	unlink(object);
	assert_int_equal(device_open("toy:3", 1, &dev, &err), TM_EINVALID);
	write_text(object, "this is no object\n");
	assert_int_equal(device_open("toy:3", 1, &dev, &err), TM_EENV);
	assert_non_null(strstr(err.text, "cannot be loaded"));
	write_text(source, plugin_source);
	unlink(object);
	if (!compile_plugin(source, object, "1")) {
		unlink(source);
		print_message("no compiler here: the loading of a real object is not tested\n");
		skip();
	}
	assert_int_equal(device_open("toy:3", 1, &dev, &err), TM_EENV);
	assert_non_null(strstr(err.text, "not a device of this version"));
	unlink(object);
	assert_true(compile_plugin(source, object, "0"));
	assert_ok(device_open("toy:3", 1, &dev, &err), &err);
	assert_int_equal(dev->threads, 3);

	/* A table without an entry says so. */
	kit_open(&k, 1);
	struct tensor out = NEW(&k, 4);
	dev->mem = k.mem;
	assert_int_equal(op_fill(dev, &(struct op_fill){ .out = &out }, &err), TM_EENV);
	assert_non_null(strstr(err.text, "does not offer the operation fill"));
	device_close(dev);
	kit_close(&k);
	unlink(object);
	unlink(source);
}

/* ---- shapes ---------------------------------------------------------- */

struct wrong {
	struct kit *k;
	struct tensor a, b, c, d, e, f;
};

static void wrong_linear(void *arg)
{
	struct wrong *w = arg;

	RUN(linear_fwd, w->k, .y = &w->a, .x = &w->b, .w = &w->c);
}

static void wrong_bias(void *arg)
{
	struct wrong *w = arg;

	RUN(linear_dw, w->k, .dw = &w->c, .db = &w->d, .dy = &w->a, .x = &w->b);
}

static void absent(void *arg)
{
	struct wrong *w = arg;
	struct tensor none = { 0 };

	RUN(add, w->k, .out = &w->a, .a = &w->a, .b = &none);
}

static void wrong_type(void *arg)
{
	struct wrong *w = arg;

	RUN(fill, w->k, .out = &w->e);
}

static void wrong_heads(void *arg)
{
	struct wrong *w = arg;
	struct tensor qkv = NORMAL(w->k, 1, 4, 12), probs = NEW(w->k, 1, 3, 4, 4);

	/* All else is as it should be. */
	RUN(attention_fwd, w->k, .out = &w->f, .probs = &probs, .qkv = &qkv, .heads = 3);
}

static void wrong_rate(void *arg)
{
	struct wrong *w = arg;

	RUN(dropout_bwd, w->k, .dx = &w->a, .dy = &w->a, .p = 1);
}

static void wrong_token(void *arg)
{
	struct wrong *w = arg;

	tensor_i32(&w->e)[1] = 4;
	RUN(embed_fwd, w->k, .out = &w->f, .ids = &w->e, .wte = &w->a, .wpe = &w->a);
}

static void wrong_target(void *arg)
{
	struct wrong *w = arg;

	tensor_i32(&w->e)[1] = 4;
	RUN(loss, w->k, .logits = &w->a, .losses = &w->d, .targets = &w->e, .vocab = 4);
}

static void aliased(void *arg)
{
	struct wrong *w = arg;

	RUN(linear_fwd, w->k, .y = &w->a, .x = &w->a, .w = &w->a);
}

static void too_large(void *arg)
{
	struct wrong *w = arg;

	w->a.shape[0] = 5;
	RUN(fill, w->k, .out = &w->a);
}

static void no_phase(void *arg)
{
	struct wrong *w = arg;

	device_set_phase(w->k->dev, "nonsense");
}

static void right(void *arg)
{
	struct wrong *w = arg;

	RUN(add, w->k, .out = &w->a, .a = &w->a, .b = &w->a);
}

static void shapes_that_do_not_fit_are_a_bug(void **state)
{
	static const struct { const char *name; void (*fn)(void *); } cases[] = {
		{ "linear", wrong_linear }, { "bias", wrong_bias }, { "absent", absent }, { "type", wrong_type }, { "heads", wrong_heads },
		{ "rate", wrong_rate }, { "token", wrong_token }, { "target", wrong_target }, { "aliased", aliased },
		{ "too large", too_large }, { "phase", no_phase },
	};
	struct kit k;
	struct wrong w = { .k = &k };

	(void)state;
	kit_open(&k, 1);
	w.a = NORMAL(&k, 4, 4);
	w.b = NORMAL(&k, 4, 3);
	w.c = NORMAL(&k, 4, 2);
	w.d = NORMAL(&k, 4);
	w.e = BELOW(&k, 4, 1, 4);
	w.f = NORMAL(&k, 1, 4, 4);
	assert_false(kit_is_bug(right, &w));
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++)
		if (!kit_is_bug(cases[i].fn, &w))
			fail_msg("%s: accepted", cases[i].name);
	kit_close(&k);
}

/* ---- workspace and accounts ----------------------------------------- */

static void workspace_goes_through_the_memory_of_the_run(void **state)
{
	enum { B = 2, T = 24, H = 3, D = 8, C = H * D };
	const uint64_t scores = 4ull * B * H * T * T;
	struct random_at at = { 1, 2, 3 };

	(void)state;
	for (int threads = 1; threads <= 4; threads += 3) {
		struct mem_usage before, after;
		struct tensor qkv, out, probs, dqkv;
		struct kit k;

		kit_open(&k, threads);
		qkv = NORMAL(&k, B, T, 3 * C), out = NORMAL(&k, B, T, C), probs = NEW(&k, B, H, T, T), dqkv = NEW(&k, B, T, 3 * C);
		mem_usage(k.mem, &before);
		mem_set_op(k.mem, "outer");
		RUN(attention_fwd, &k, .out = &out, .probs = &probs, .qkv = &qkv, .heads = H);
		mem_usage(k.mem, &after);
		assert_true(after.requested == before.requested);
		assert_true(mem_run_peak(k.mem)->max.requested == before.requested);

		RUN(attention_fwd, &k, .out = &out, .probs = &probs, .qkv = &qkv, .heads = H, .dropout_p = 0.1f, .random = at);
		assert_true(mem_run_peak(k.mem)->max.requested == before.requested + scores);
		assert_true(mem_run_peak(k.mem)->requested_at_peak[MEM_WORKSPACE] == scores);
		assert_string_equal(mem_run_peak(k.mem)->op, "attention_fwd");
		assert_string_equal(mem_set_op(k.mem, NULL), "outer");

		device_set_phase(k.dev, "backward");
		RUN(attention_bwd, &k, .dqkv = &dqkv, .dout = &out, .qkv = &qkv, .probs = &probs, .heads = H);
		assert_true(mem_phase_peak(k.mem, "backward")->requested_at_peak[MEM_WORKSPACE] == scores);
		mem_usage(k.mem, &after);
		assert_true(after.requested == before.requested && after.allocated == before.allocated);
		kit_close(&k);
	}
}

static void a_refused_workspace_is_an_oom(void **state)
{
	enum { B = 1, T = 512, H = 2, C = 8 };
	struct mem_config cfg = { .policy = "raw", .cap_bytes = 3 << 20 };
	struct tm_err err = { 0 };
	struct tensor qkv, out, probs;
	struct mem_oom oom;
	struct kit k;

	(void)state;
	kit_open(&k, 1);
	mem_free(k.mem);
	assert_ok(mem_new(&cfg, device_driver(k.dev, &err), &k.mem, &err), &err);
	k.dev->mem = k.mem;
	qkv = NORMAL(&k, B, T, 3 * C), out = NORMAL(&k, B, T, C), probs = NEW(&k, B, H, T, T);
	assert_int_equal(op_attention_fwd(k.dev, &(struct op_attention_fwd){ .out = &out, .probs = &probs, .qkv = &qkv, .heads = H,
			 .dropout_p = 0.1f }, &err), TM_EOOM);
	assert_true(mem_last_oom(k.mem, &oom));
	assert_string_equal(oom.op, "attention_fwd");
	assert_true(oom.asked == 4ull * B * H * T * T);
	assert_int_equal(k.dev->account[OP_attention_fwd][device_phase_index("forward")].calls, 0);
	kit_close(&k);
}

static void calls_are_accounted_by_phase(void **state)
{
	enum { R = 300, K = 64, N = 200 };
	const struct op_account *account;
	struct tensor x, w, y, b;
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	x = NORMAL(&k, R, K), w = NORMAL(&k, N, K), y = NEW(&k, R, N), b = NORMAL(&k, N);
	for (int i = 0; i < 3; i++)
		RUN(linear_fwd, &k, .y = &y, .x = &x, .w = &w, .b = &b);
	device_set_phase(k.dev, "backward");
	RUN(linear_dx, &k, .dx = &x, .dy = &y, .w = &w);
	RUN(linear_fwd, &k, .y = &y, .x = &x, .w = &w);

	account = &k.dev->account[OP_linear_fwd][device_phase_index("forward")];
	assert_int_equal(account->calls, 3);
	assert_true(account->flops == 3.0 * (2.0 * R * K * N + R * N));
	assert_true(account->bytes == 3.0 * 4 * (R * K + N * K + R * N + N));
	assert_true(account->time_ns > 0 && account->blas_ns > 0 && account->blas_ns <= account->time_ns);
	assert_int_equal(k.dev->account[OP_linear_fwd][device_phase_index("backward")].calls, 1);
	assert_int_equal(k.dev->account[OP_linear_dx][device_phase_index("backward")].calls, 1);
	assert_int_equal(k.dev->account[OP_linear_dx][device_phase_index("forward")].calls, 0);
	assert_true(device_blas_ns(k.dev) > account->blas_ns);
	device_reset_account(k.dev);
	assert_int_equal(account->calls, 0);
	assert_int_equal(device_blas_ns(k.dev), 0);
	kit_close(&k);
}

static void costs_count_matrix_products_in_full(void **state)
{
	enum { B = 2, T = 16, H = 4, D = 8, C = H * D };
	double flops, bytes, causal;
	struct kit k;
	struct tensor qkv, out, probs;

	(void)state;
	kit_open(&k, 1);
	qkv = NEW(&k, B, T, 3 * C), out = NEW(&k, B, T, C), probs = NEW(&k, B, H, T, T);
	struct op_attention_fwd fwd = { .out = &out, .probs = &probs, .qkv = &qkv, .heads = H };
	struct op_attention_bwd bwd = { .dqkv = &qkv, .dout = &out, .qkv = &qkv, .probs = &probs, .heads = H };
	op_cost_attention_fwd(&fwd, &flops, &bytes);
	assert_true(flops == 4.0 * B * H * T * T * D + 5.0 * B * H * T * T);
	assert_true(bytes == 4.0 * (B * T * 4 * C + B * H * T * T));
	fwd.causal = true;
	op_cost_attention_fwd(&fwd, &causal, &bytes);
	assert_true(causal == flops);
	op_cost_attention_bwd(&bwd, &flops, &bytes);
	assert_true(flops == 8.0 * B * H * T * T * D + 4.0 * B * H * T * T);
	assert_true(bytes == 4.0 * (B * T * 7 * C + B * H * T * T));
	kit_close(&k);
}

static void upload_and_download(void **state)
{
	struct tm_err err = { 0 };
	float in[6] = { 1, 2, 3, 4, 5, 6 }, out[6] = { 0 };
	struct tensor t;
	struct kit k;

	(void)state;
	kit_open(&k, 1);
	t = NEW(&k, 2, 3);
	assert_ok(device_upload(k.dev, &t, in, sizeof in, &err), &err);
	assert_ok(device_sync(k.dev, &err), &err);
	assert_ok(device_download(k.dev, out, &t, sizeof out, &err), &err);
	assert_memory_equal(in, out, sizeof in);
	kit_close(&k);
}

#ifdef TM_FAULTS
static void a_mutation_flips_the_main_output(void **state)
{
	enum { N = 100 };
	struct tensor x, dy, dx;
	float before[N];
	struct kit k;

	(void)state;
	kit_open(&k, 1);
	x = NORMAL(&k, N), dy = NORMAL(&k, N), dx = NEW(&k, N);
	RUN(gelu_bwd, &k, .dx = &dx, .dy = &dy, .x = &x, .kind = GELU_ERF);
	memcpy(before, tensor_f32(&dx), sizeof before);
	device_mutate(OP_gelu_bwd);
	RUN(gelu_bwd, &k, .dx = &dx, .dy = &dy, .x = &x, .kind = GELU_ERF);
	device_mutate(OP_dropout_bwd);
	for (int i = 0; i < N; i++)
		assert_true(tensor_f32(&dx)[i] == -before[i]);
	RUN(gelu_bwd, &k, .dx = &dx, .dy = &dy, .x = &x, .kind = GELU_ERF);
	device_mutate(DEVICE_OP_N);
	assert_memory_equal(tensor_f32(&dx), before, sizeof before);
	kit_close(&k);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_by_name),
		cmocka_unit_test(a_device_beside_the_program_is_loaded),
		cmocka_unit_test(shapes_that_do_not_fit_are_a_bug),
		cmocka_unit_test(workspace_goes_through_the_memory_of_the_run),
		cmocka_unit_test(a_refused_workspace_is_an_oom),
		cmocka_unit_test(calls_are_accounted_by_phase),
		cmocka_unit_test(costs_count_matrix_products_in_full),
		cmocka_unit_test(upload_and_download),
#ifdef TM_FAULTS
		cmocka_unit_test(a_mutation_flips_the_main_output),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
