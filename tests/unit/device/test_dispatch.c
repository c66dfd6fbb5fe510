/*
 * The way into an operation: devices by name, shapes, workspace from the
 * run's memory, accounts, and the switch by which the golden test breaks a
 * backward operation on purpose.
 */
#include "device/kit.h"

#include <spawn.h>

extern char **environ;

/* Built or not, with a card or without: it opens, or there is a sentence. */
static void cuda_by_name(void)
{
	bool built = !access(BUILD_DIR "/tidemark-device-cuda.so", F_OK);
	struct tm_err err = { 0 };
	struct device *dev = NULL;
	int rc = device_open("cuda", 1, &dev, &err);

	if (!rc) {
		assert_true(built);
		device_close(dev);
	} else {
		assert_int_equal(rc, TM_EENV);
		assert_non_null(strstr(err.text, built ? "device cuda:" : "device cuda is not here"));
		assert_true(built || strstr(err.text, "tidemark-device-cuda.so"));
		/* something that the object needs and nobody has would show only here */
		assert_null(strstr(err.text, "undefined symbol"));
	}
	assert_int_equal(device_open("cuda:99", 1, &dev, &err), TM_EENV);
}

static void devices_by_name(void **state)
{
	struct tm_err err = { 0 };
	struct device *dev = NULL;

	(void)state;
	cuda_by_name();
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
	"static const struct device_workspaces workspaces;\n"
	"static const struct device_backend b = { .workspaces = &workspaces, .version = DEVICE_VERSION + OFFSET, .name = \"toy\", .help = \"toy\", .ops = &ops, .open = open_it };\n"
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

/* ---- shapes and types ------------------------------------------------ */

struct wrong {
	struct kit *k;
	struct tensor a, b, c, d, e, f;   /* (4,4), (4,3), (4,2), (4), ids (1,4), (1,4,4) */
	struct tensor h, g;               /* (4,4) in bf16 and in f16 */
};

#define WRONG(name, ...) static void name(void *arg) { struct wrong *w = arg; __VA_ARGS__; }

WRONG(wrong_linear, RUN(linear_fwd, w->k, .y = &w->a, .x = &w->b, .w = &w->c))
WRONG(wrong_bias, RUN(linear_dw, w->k, .dw = &w->c, .db = &w->d, .dy = &w->a, .x = &w->b))
WRONG(absent, struct tensor none = { 0 }; RUN(add, w->k, .out = &w->a, .a = &w->a, .b = &none))
WRONG(no_tensor, RUN(gather_rows, w->k, .out = &w->a, .rows = &w->e))
WRONG(wrong_type, RUN(fill, w->k, .out = &w->e))
WRONG(mixed_types, RUN(add, w->k, .out = &w->h, .a = &w->h, .b = &w->a))
WRONG(mixed_halves, RUN(gelu_fwd, w->k, .y = &w->h, .x = &w->g, .kind = GELU_ERF))
WRONG(wrong_gradient, RUN(linear_dw, w->k, .dw = &w->g, .dy = &w->h, .x = &w->h))
WRONG(wrong_tf32, RUN(linear_dx, w->k, .dx = &w->h, .dy = &w->g, .w = &w->g, .tf32 = true))
WRONG(half_tf32, struct tensor y = NEW_OF(w->k, DT_BF16, 4, 4);
      RUN(linear_dx, w->k, .dx = &y, .dy = &w->h, .w = &w->h, .tf32 = true))
WRONG(half_losses, struct tensor l = NEW_OF(w->k, DT_BF16, 4);
      RUN(loss, w->k, .logits = &w->h, .losses = &l, .targets = &w->e, .vocab = 4))
/* All else is as it should be. */
WRONG(wrong_heads, struct tensor qkv = NORMAL(w->k, 1, 4, 12); struct tensor probs = NEW(w->k, 1, 3, 4, 4);
      RUN(attention_fwd, w->k, .out = &w->f, .probs = &probs, .qkv = &qkv, .heads = 3))
WRONG(wrong_rate, RUN(dropout_bwd, w->k, .dx = &w->a, .dy = &w->a, .p = 1))
WRONG(wrong_token, tensor_i32(&w->e)[1] = 4; RUN(embed_fwd, w->k, .out = &w->f, .ids = &w->e, .wte = &w->a, .wpe = &w->a))
WRONG(wrong_target, tensor_i32(&w->e)[1] = 4;
      RUN(loss, w->k, .logits = &w->a, .losses = &w->d, .targets = &w->e, .vocab = 4))
WRONG(wrong_row, struct tensor out = NEW(w->k, 4, 4); tensor_i32(&w->e)[2] = 4;
      RUN(gather_rows, w->k, .out = &out, .x = &w->a, .rows = &w->e))
WRONG(wrong_row_back, struct tensor out = NEW(w->k, 3, 4); tensor_i32(&w->e)[2] = 3;
      RUN(scatter_rows, w->k, .out = &out, .x = &w->a, .rows = &w->e))
WRONG(aliased, RUN(linear_fwd, w->k, .y = &w->a, .x = &w->a, .w = &w->a))
WRONG(shifted, struct tensor up = tensor_rows_of(&w->a, 0, 3); struct tensor down = tensor_rows_of(&w->a, 1, 3);
      RUN(add, w->k, .out = &up, .a = &down, .b = &down))
WRONG(too_large, w->a.shape[0] = 5; RUN(fill, w->k, .out = &w->a))
WRONG(beyond, struct tensor view = tensor_rows_of(&w->a, 1, 3); view.shape[0] = 4; RUN(fill, w->k, .out = &view))
WRONG(no_rows, struct tensor view = tensor_rows_of(&w->a, 2, 3); (void)view)
WRONG(dropped_view, struct tensor view = tensor_rows_of(&w->a, 1, 1); tensor_drop(w->k->mem, &view))
WRONG(no_phase, device_set_phase(w->k->dev, "nonsense"))
WRONG(f16_alone, RUN(adamw, w->k, .w = &w->g, .m = &w->a, .v = &w->f, .g = &w->g, .step = 1))
WRONG(f16_split, struct tensor low = kit_tensor(w->k, DT_I16, SHAPE(4, 4));
      RUN(sgd, w->k, .w = &w->g, .master = &low, .g = &w->g, .step = 1))
WRONG(f32_master, RUN(sgd, w->k, .w = &w->a, .master = &w->f, .g = &w->a, .step = 1))
WRONG(f16_moment, RUN(adamw, w->k, .w = &w->a, .m = &w->g, .v = &w->f, .g = &w->a, .step = 1))
WRONG(step_0, RUN(sgd, w->k, .w = &w->a, .g = &w->f))
WRONG(no_floor, struct tensor s = NEW(w->k, SCALE_N); struct tensor one = NEW(w->k, 1);
      RUN(scale_update, w->k, .state = &s, .factor = &one, .squares = &w->d, .growth = 2, .backoff = 0.5f, .ceiling = 4,
	  .growth_every = 1))
WRONG(right, RUN(add, w->k, .out = &w->a, .a = &w->a, .b = &w->a))

static void what_does_not_fit_is_a_bug_that_says_so(void **state)
{
	static const struct { void (*fn)(void *); const char *text; } cases[] = {
		{ wrong_linear, "linear_fwd: tensor w has shape (4,2), expected 4 rows of 3" },
		{ wrong_bias, "linear_dw: tensor dw has shape (4,2), expected 4 rows of 3" },
		{ absent, "add: tensor b is absent" },
		{ no_tensor, "gather_rows: tensor x is absent" },
		{ wrong_type, "fill: tensor out is i32, expected f32 or bf16 or f16" },
		{ mixed_types, "add: tensor b is f32, expected bf16" },
		{ mixed_halves, "gelu_fwd: tensor y is bf16, expected f16" },
		{ wrong_gradient, "linear_dw: tensor dw is f16, expected f32 or bf16" },
		{ wrong_tf32, "linear_dx: tensor dx is bf16, expected f16" },
		{ half_tf32, "linear_dx: tf32 with tensors of bf16, expected f32" },
		{ half_losses, "loss: tensor losses is bf16, expected f32" },
		{ wrong_heads, "width 4 does not divide by 3 heads" },
		{ wrong_rate, "dropout_bwd: dropout rate 1, expected 0 <= p < 1" },
		{ wrong_token, "token 4, expected 0 to 3" },
		{ wrong_target, "target 4, but a vocabulary of 4" },
		{ wrong_row, "row 4 of 4" },
		{ wrong_row_back, "row 3 of 3" },
		{ aliased, "linear_fwd: an output lies in an input" },
		{ shifted, "add: an output overlaps an input without being it" },
		{ too_large, "fill: tensor out is larger than its block of 64 bytes" },
		{ beyond, "fill: tensor out is larger than its block of 64 bytes" },
		{ no_rows, "rows 2 to 5 of 4" },
		{ dropped_view, "t->offset" },
		{ no_phase, "unknown phase nonsense" },
		{ f16_alone, "adamw: tensor w is f16, expected f32 or bf16" },
		{ f16_split, "sgd: tensor master is i16, expected f32" },
		{ f32_master, "sgd: tensor w is f32, expected bf16 or f16" },
		{ f16_moment, "adamw: tensor m is f16, expected f32 or bf16" },
		{ step_0, "sgd: step 0, expected 1 or more" },
		{ no_floor, "scale_update: floor 0" },
	};
	char text[512];
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
	w.h = NORMAL_OF(&k, DT_BF16, 4, 4);
	w.g = NORMAL_OF(&k, DT_F16, 4, 4);
	assert_false(kit_bug(right, &w, text, sizeof text));
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		if (!kit_bug(cases[i].fn, &w, text, sizeof text))
			fail_msg("accepted, expected: %s", cases[i].text);
		if (!strstr(text, cases[i].text))
			fail_msg("%s\nexpected: %s", text, cases[i].text);
	}
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

#define COST(op, ...) op_cost_##op(&(struct op_##op){ __VA_ARGS__ }, &flops, &bytes)

/* Bytes follow the types, each tensor once and those updated in place twice; FLOPs do not. */
static void costs_follow_the_types(void **state)
{
	enum { R = 12, K = 8, N = 20, V = 40, B = 3, T = 4 };
	double flops, bytes;
	struct kit k;

	(void)state;
	kit_open(&k, 1);
	for (size_t i = 0; i < TM_ARRAY_N(kit_types); i++) {
		enum dtype F = kit_types[i];
		double f = dtype_bytes[F];
		struct tensor x = NEW_OF(&k, F, R, K), w = NEW_OF(&k, F, N, K), y = NEW_OF(&k, F, R, N), dw = NEW(&k, N, K);
		struct tensor ids = BELOW(&k, V, B, T), dwte = NEW(&k, V, K), dwpe = NEW_OF(&k, F, T, K), stats = NEW(&k, R);
		struct tensor rows = BELOW(&k, R, R / 2), few = NEW_OF(&k, F, R / 2, K), beta = NEW_OF(&k, F, K), dbeta = NEW(&k, K);
		struct tensor qkv = NEW_OF(&k, F, B, T, 3 * K), out = NEW_OF(&k, F, B, T, K), lse = NEW(&k, B, 2, T);

		COST(linear_fwd, .y = &y, .x = &x, .w = &w);
		assert_true(flops == 2.0 * R * N * K && bytes == f * (R * N + R * K + N * K));
		COST(linear_dw, .dw = &dw, .dy = &y, .x = &x, .accumulate = true);
		assert_true(flops == 2.0 * R * N * K && bytes == 2.0 * 4 * N * K + f * (R * N + R * K));
		COST(embed_fwd, .out = &out, .ids = &ids);
		assert_true(flops == R * K && bytes == 3 * f * R * K + 4 * R);
		COST(embed_bwd, .dwte = &dwte, .dwpe = &dwpe, .dout = &x, .ids = &ids);
		assert_true(flops == 2.0 * R * K && bytes == f * R * K + 2 * (4 + f) * R * K + 4 * R);
		COST(norm_fwd, .y = &x, .mean = &stats, .rstd = &stats, .x = &x, .gamma = &beta, .beta = &beta);
		assert_true(flops == 8.0 * R * K && bytes == 2 * f * (R * K + K) + 8 * R);
		COST(norm_bwd, .dx = &x, .dgamma = &dbeta, .dbeta = &dbeta, .dy = &x, .x = &x, .mean = &stats, .rstd = &stats,
		     .gamma = &beta, .accumulate = true);
		assert_true(flops == 14.0 * R * K && bytes == f * (4 * R * K + K) + 8 * R + 16 * K);
		COST(gather_rows, .out = &few, .x = &x, .rows = &rows);
		assert_true(flops == 0 && bytes == f * R * K + 2 * R);
		COST(scatter_rows, .out = &x, .x = &few, .rows = &rows);
		assert_true(flops == 0 && bytes == f * (R * K + R / 2 * K) + 2 * R);
		COST(loss, .logits = &y, .losses = &stats, .targets = &ids, .vocab = N - 1, .grad = true, .scale_by = &stats);
		assert_true(flops == 6.0 * R * (N - 1) && bytes == 2 * f * R * N + 8 * R + 4);
		COST(flash_fwd, .out = &out, .lse = &lse, .qkv = &qkv, .heads = 2, .causal = true);
		assert_true(flops == B * 2 * T * (T + 1) / 2 * (4.0 * K / 2 + 5) && bytes == f * 4 * R * K + 8 * R);
		COST(flash_bwd, .dqkv = &qkv, .dout = &out, .qkv = &qkv, .out = &out, .lse = &lse, .heads = 2);
		assert_true(flops == B * 2 * T * T * (10.0 * K / 2 + 6) && bytes == f * 8 * R * K + 8 * R);
		COST(sum_squares, .out = &stats, .x = &x);
		assert_true(flops == 2.0 * R * K && bytes == f * R * K + 4 * R);
	}
	kit_close(&k);
}

static void costs_of_an_update(void **state)
{
	enum { N = 1000 };
	double flops, bytes;
	struct tensor w, m, g, low, state_f32;
	struct kit k;

	(void)state;
	kit_open(&k, 1);
	w = NEW_OF(&k, DT_BF16, N), m = NEW(&k, N), g = NEW_OF(&k, DT_BF16, N), low = kit_tensor(&k, DT_I16, SHAPE(N));
	state_f32 = NEW(&k, SCALE_N);
	COST(adamw, .w = &w, .m = &w, .v = &w, .g = &g);
	assert_true(flops == 14.0 * N && bytes == N * (3.0 * 4 + 2));
	COST(adamw, .w = &w, .master = &low, .m = &m, .v = &m, .g = &m, .scale = &state_f32);
	assert_true(flops == 14.0 * N && bytes == N * (2.0 * (2 + 2 + 4 + 4) + 4) + 4 * SCALE_N);
	COST(sgd, .w = &w, .master = &m, .g = &g);
	assert_true(flops == 5.0 * N && bytes == N * (2.0 * (2 + 4) + 2));
	COST(sgd, .w = &w, .master = &m, .m = &m, .g = &g);
	assert_true(flops == 7.0 * N && bytes == N * (2.0 * (2 + 4 + 4) + 2));
	COST(scale_update, .state = &state_f32, .factor = &state_f32, .squares = &m);
	assert_true(flops == 8.0 + N && bytes == 4.0 * (3 * SCALE_N + N));
	COST(clip_factor, .out = &state_f32, .squares = &m);
	assert_true(flops == 3.0 + N && bytes == 4.0 * (SCALE_N + N));
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
	enum { N = 101 };
	struct kit k;

	(void)state;
	kit_open(&k, 1);
	for (size_t i = 0; i < TM_ARRAY_N(kit_types); i++) {
		struct tensor x = NORMAL_OF(&k, kit_types[i], N), dy = NORMAL_OF(&k, kit_types[i], N);
		struct tensor dx = NEW_OF(&k, kit_types[i], N);
		double *before;

		RUN(gelu_bwd, &k, .dx = &dx, .dy = &dy, .x = &x, .kind = GELU_ERF);
		before = kit_double(&dx);
		device_mutate(OP_gelu_bwd);
		RUN(gelu_bwd, &k, .dx = &dx, .dy = &dy, .x = &x, .kind = GELU_ERF);
		device_mutate(OP_dropout_bwd);
		for (int j = 0; j < N; j++)
			assert_true(kit_get(&dx, j) == -before[j]);
		RUN(gelu_bwd, &k, .dx = &dx, .dy = &dy, .x = &x, .kind = GELU_ERF);
		device_mutate(DEVICE_OP_N);
		for (int j = 0; j < N; j++)
			assert_true(kit_get(&dx, j) == before[j]);
		free(before);
	}
	kit_close(&k);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_by_name),
		cmocka_unit_test(a_device_beside_the_program_is_loaded),
		cmocka_unit_test(what_does_not_fit_is_a_bug_that_says_so),
		cmocka_unit_test(workspace_goes_through_the_memory_of_the_run),
		cmocka_unit_test(a_refused_workspace_is_an_oom),
		cmocka_unit_test(calls_are_accounted_by_phase),
		cmocka_unit_test(costs_count_matrix_products_in_full),
		cmocka_unit_test(costs_follow_the_types),
		cmocka_unit_test(costs_of_an_update),
		cmocka_unit_test(upload_and_download),
#ifdef TM_FAULTS
		cmocka_unit_test(a_mutation_flips_the_main_output),
#endif
	};

	KIT_CPU_ONLY("it is about the table and the loading of devices");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
