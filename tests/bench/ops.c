/*
 * Time per operation on the CPU device, for the shapes of one GPT training
 * step: what each call takes (the fastest and the middle one of several), what
 * rate the fastest is, how much of it is inside BLAS, and what the operations of
 * a whole step add up to. Not a test: times depend on the machine. Run by ops.sh.
 *
 *   ops [THREADS [BATCH SEQ WIDTH HEADS LAYERS VOCAB DROPOUT TYPE]]
 *
 * TYPE is that of weights and activations: f32, tf32, bf16 or f16.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "device/device.h"
#include "device/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 15 };

static struct {
	int64_t threads, batch, seq, width, heads, layers, vocab;
	float dropout;
	enum dtype type;
	bool tf32;
} cfg = { 2, 8, 256, 256, 4, 4, 384, 0, DT_F32, false };

static struct device *dev;
static struct tm_err err;
static double step_ns, step_blas_ns;

static void need(int rc)
{
	if (rc) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
}

static struct tensor new_of(enum dtype type, int64_t rows, int64_t cols)
{
	struct tensor t;

	need(tensor_new(dev->mem, &t, MEM_ACTIVATIONS, "bench", type, &err, 2, rows, cols));
	for (int64_t i = 0; i < rows * cols; i++) {
		float x = (float)((i * 2654435761u >> 8) % 1000) * 0.002f - 1;

		if (type == DT_F32)
			tensor_f32(&t)[i] = x;
		else
			((uint16_t *)tensor_data(&t))[i] = type == DT_BF16 ? bf16_from_f32(x) : f16_from_f32(x);
	}
	return t;
}

static struct tensor new_tensor(int64_t rows, int64_t cols)
{
	return new_of(cfg.type, rows, cols);
}

/* Statistics, moments, masters, losses: f32 whatever the type. */
static struct tensor new_f32(int64_t rows, int64_t cols)
{
	return new_of(DT_F32, rows, cols);
}

static struct tensor new_ids(int64_t n, int64_t limit)
{
	struct tensor t;

	need(tensor_new(dev->mem, &t, MEM_INPUT, "bench", DT_I32, &err, 2, cfg.batch, n / cfg.batch));
	for (int64_t i = 0; i < n; i++)
		tensor_i32(&t)[i] = (int32_t)(i * 7919 % limit);
	return t;
}

/* `calls` is how often a step makes it. */
static void line(const char *what, enum device_op op, int64_t calls, int64_t best_ns, int64_t middle_ns, int64_t blas_ns)
{
	const struct op_account *a = &dev->account[op][device_phase_index("forward")];
	double n = (double)a->calls, ns = (double)best_ns;

	printf("%-14s %-26s %6lld %10.1f %10.1f %8.1f %8.1f %6.0f%%\n", device_op_name[op], what, (long long)calls, ns / 1e3,
	       (double)middle_ns / 1e3, a->flops / n / ns, a->bytes / n / ns, 100 * (double)blas_ns / ns);
	step_ns += (double)calls * ns;
	step_blas_ns += (double)calls * (double)blas_ns;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

#define TIME(what, op, calls, ...) do { \
	int64_t ns_[REPEATS], best_ns_ = INT64_MAX, best_blas_ns_ = 0; \
	struct op_##op args_ = { __VA_ARGS__ }; \
	device_reset_account(dev); \
	for (int r_ = 0; r_ < REPEATS; r_++) { \
		int64_t start_ns_ = tm_mono_ns(), blas_ns_ = device_blas_ns(dev); \
		need(op_##op(dev, &args_, &err)); \
		ns_[r_] = tm_mono_ns() - start_ns_; \
		if (ns_[r_] < best_ns_) { \
			best_ns_ = ns_[r_]; \
			best_blas_ns_ = device_blas_ns(dev) - blas_ns_; \
		} \
	} \
	qsort(ns_, REPEATS, sizeof *ns_, by_value); \
	line(what, OP_##op, calls, best_ns_, ns_[REPEATS / 2], best_blas_ns_); \
} while (0)

static void linear(const char *what, int64_t in, int64_t out, int64_t calls)
{
	int64_t rows = cfg.batch * cfg.seq;
	struct tensor x = new_tensor(rows, in), w = new_tensor(out, in), y = new_tensor(rows, out), b = new_tensor(1, out);

	TIME(what, linear_fwd, calls, .y = &y, .x = &x, .w = &w, .b = &b, .tf32 = cfg.tf32);
	TIME(what, linear_dx, calls, .dx = &x, .dy = &y, .w = &w, .tf32 = cfg.tf32);
	TIME(what, linear_dw, calls, .dw = &w, .db = &b, .dy = &y, .x = &x, .tf32 = cfg.tf32);
	tensor_drop(dev->mem, &x);
	tensor_drop(dev->mem, &w);
	tensor_drop(dev->mem, &y);
	tensor_drop(dev->mem, &b);
}

/* Both forms; a step is counted with the materialised one. */
static void attention(void)
{
	int64_t B = cfg.batch, T = cfg.seq, C = cfg.width, H = cfg.heads;
	struct tensor qkv = new_tensor(B * T, 3 * C), dqkv = new_tensor(B * T, 3 * C), probs = new_tensor(B * H * T, T);
	struct tensor lse = new_f32(B * H, T), out = new_tensor(B * T, C), dout = new_tensor(B * T, C);
	struct random_at at = { 1, 1, 1 };

	out.rank = dout.rank = 3;
	out.shape[0] = dout.shape[0] = B;
	out.shape[1] = dout.shape[1] = T;
	out.shape[2] = dout.shape[2] = C;
	TIME("causal", attention_fwd, cfg.layers, .out = &out, .probs = &probs, .qkv = &qkv, .heads = H, .causal = true, .tf32 = cfg.tf32,
	     .dropout_p = cfg.dropout, .random = at);
	TIME("causal", attention_bwd, cfg.layers, .dqkv = &dqkv, .dout = &dout, .qkv = &qkv, .probs = &probs, .heads = H, .causal = true,
	     .tf32 = cfg.tf32, .dropout_p = cfg.dropout, .random = at);
	tensor_drop(dev->mem, &probs);
	TIME("causal", flash_fwd, 0, .out = &out, .lse = &lse, .qkv = &qkv, .heads = H, .causal = true, .tf32 = cfg.tf32,
	     .dropout_p = cfg.dropout, .random = at);
	TIME("causal", flash_bwd, 0, .dqkv = &dqkv, .dout = &dout, .qkv = &qkv, .out = &out, .lse = &lse, .heads = H, .causal = true,
	     .tf32 = cfg.tf32, .dropout_p = cfg.dropout, .random = at);
	TIME("full", flash_fwd, 0, .out = &out, .lse = &lse, .qkv = &qkv, .heads = H, .tf32 = cfg.tf32, .dropout_p = cfg.dropout,
	     .random = at);
	TIME("full", flash_bwd, 0, .dqkv = &dqkv, .dout = &dout, .qkv = &qkv, .out = &out, .lse = &lse, .heads = H, .tf32 = cfg.tf32,
	     .dropout_p = cfg.dropout, .random = at);
	tensor_drop(dev->mem, &qkv);
	tensor_drop(dev->mem, &dqkv);
	tensor_drop(dev->mem, &lse);
	tensor_drop(dev->mem, &out);
	tensor_drop(dev->mem, &dout);
}

static void rows_and_elements(void)
{
	int64_t rows = cfg.batch * cfg.seq, C = cfg.width, L = cfg.layers;
	struct tensor x = new_tensor(rows, C), y = new_tensor(rows, C), dx = new_tensor(rows, C), z = new_tensor(rows, 4 * C);
	struct tensor gamma = new_tensor(1, C), beta = new_tensor(1, C), mean = new_f32(1, rows), rstd = new_f32(1, rows);
	struct tensor a = new_tensor(rows, 4 * C), dgamma = new_tensor(1, C), dbeta = new_tensor(1, C);

	TIME("R x C", norm_fwd, 2 * L + 1, .y = &y, .mean = &mean, .rstd = &rstd, .x = &x, .gamma = &gamma, .beta = &beta, .eps = 1e-5f);
	TIME("R x C, accumulating", norm_bwd, 2 * L + 1, .dx = &dx, .dgamma = &dgamma, .dbeta = &dbeta, .dy = &y, .x = &x, .mean = &mean,
	     .rstd = &rstd, .gamma = &gamma, .accumulate = true);
	TIME("R x 4C, tanh", gelu_fwd, L, .y = &z, .x = &a, .kind = GELU_TANH);
	TIME("R x 4C, tanh", gelu_bwd, L, .dx = &z, .dy = &z, .x = &a, .kind = GELU_TANH);
	TIME("R x 4C, erf", gelu_fwd, 0, .y = &z, .x = &a, .kind = GELU_ERF);
	TIME("R x 4C, erf", gelu_bwd, 0, .dx = &z, .dy = &z, .x = &a, .kind = GELU_ERF);
	TIME("R x C, with residual", dropout_fwd, 2 * L + 1, .y = &y, .x = &x, .residual = &dx, .p = cfg.dropout);
	TIME("R x C", dropout_bwd, 2 * L + 1, .dx = &y, .dy = &x, .p = cfg.dropout);
	TIME("R x C, p = 0.1", dropout_bwd, 0, .dx = &y, .dy = &x, .p = 0.1f);
	TIME("R x C", add, 0, .out = &y, .a = &x, .b = &dx);
	TIME("R x C", copy, 0, .dst = &y, .src = &x);
}

/* Half the rows, as with masked positions. */
static void gathered(void)
{
	int64_t rows = cfg.batch * cfg.seq, C = cfg.width;
	struct tensor x = new_tensor(rows, C), half = new_tensor(rows / 2, C), at = new_ids(rows, rows);

	at.rank = 1;
	at.shape[0] = rows / 2;
	for (int64_t i = 0; i < rows / 2; i++)
		tensor_i32(&at)[i] = (int32_t)(2 * i);
	TIME("R/2 of R, C", gather_rows, 0, .out = &half, .x = &x, .rows = &at);
	TIME("R/2 into R, C", scatter_rows, 0, .out = &x, .x = &half, .rows = &at);
}

static void embedding_and_loss(void)
{
	int64_t rows = cfg.batch * cfg.seq, C = cfg.width, V = cfg.vocab;
	struct tensor ids = new_ids(rows, V), targets = new_ids(rows, V), wte = new_tensor(V, C), wpe = new_tensor(cfg.seq, C);
	struct tensor x = new_tensor(rows, C), logits = new_tensor(rows, V), losses = new_f32(1, rows);

	TIME("", embed_fwd, 1, .out = &x, .ids = &ids, .wte = &wte, .wpe = &wpe);
	TIME("", embed_bwd, 1, .dwte = &wte, .dwpe = &wpe, .dout = &x, .ids = &ids);
	TIME("R x V, with gradient", loss, 1, .logits = &logits, .losses = &losses, .targets = &targets, .vocab = V, .scale = 1, .grad = true);
}

/* All parameters at once; in 16 bits with a master behind them. */
static void update(void)
{
	int64_t n = 12 * cfg.width * cfg.width * cfg.layers + cfg.vocab * cfg.width;
	struct tensor w = new_tensor(1, n), g = new_tensor(1, n), m = new_f32(1, n), v = new_f32(1, n), s = new_f32(1, 1), master = { 0 };
	struct tensor *behind = NULL;

	if (cfg.type != DT_F32) {
		master = new_f32(1, n);
		behind = &master;
	}
	for (int64_t i = 0; i < n; i++)
		tensor_f32(&v)[i] = 1;
	TIME("all parameters", sum_squares, 1, .out = &s, .x = &g);
	TIME("all parameters", adamw, 1, .w = &w, .master = behind, .m = &m, .v = &v, .g = &g, .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f,
	     .eps = 1e-8f, .weight_decay = 0.1f, .step = 1);
	TIME("all, with momentum", sgd, 0, .w = &w, .master = behind, .m = &m, .g = &g, .lr = 1e-3f, .momentum = 0.9f,
	     .weight_decay = 0.1f, .step = 2);
}

static void set_type(const char *name)
{
	cfg.tf32 = !strcmp(name, "tf32");
	for (int t = 0; t < DT_N; t++)
		if (dtype_is_real((enum dtype)t) && !strcmp(dtype_name[t], cfg.tf32 ? "f32" : name)) {
			cfg.type = (enum dtype)t;
			return;
		}
	fprintf(stderr, "type '%s', expected one of: f32, tf32, bf16, f16\n", name);
	exit(64);
}

int main(int argc, char **argv)
{
	struct mem_config mem = { .policy = "raw" };
	int64_t *const numbers[] = { &cfg.threads, &cfg.batch, &cfg.seq, &cfg.width, &cfg.heads, &cfg.layers, &cfg.vocab };

	for (int i = 1; i < argc && i <= 7; i++)
		*numbers[i - 1] = strtoll(argv[i], NULL, 10);
	if (argc > 8)
		cfg.dropout = strtof(argv[8], NULL);
	if (argc > 9)
		set_type(argv[9]);
	need(device_open("cpu", (int)cfg.threads, &dev, &err));
	need(mem_new(&mem, device_driver(dev, &err), &dev->mem, &err));
	device_set_phase(dev, "forward");

	printf("%s, %d threads; batch %lld, %lld tokens, width %lld, %lld heads, %lld layers, vocabulary %lld, dropout %g\n\n",
	       cfg.tf32 ? "tf32" : dtype_name[cfg.type], dev->threads, (long long)cfg.batch, (long long)cfg.seq, (long long)cfg.width,
	       (long long)cfg.heads, (long long)cfg.layers, (long long)cfg.vocab, (double)cfg.dropout);
	printf("%-14s %-26s %6s %10s %10s %8s %8s %7s\n", "operation", "shape", "a step", "us, best", "middle", "GFLOP/s",
	       "GB/s", "in BLAS");
	linear("C to 3C", cfg.width, 3 * cfg.width, cfg.layers);
	linear("C to C", cfg.width, cfg.width, cfg.layers);
	linear("C to 4C", cfg.width, 4 * cfg.width, cfg.layers);
	linear("4C to C", 4 * cfg.width, cfg.width, cfg.layers);
	linear("C to V", cfg.width, cfg.vocab, 1);
	attention();
	rows_and_elements();
	gathered();
	embedding_and_loss();
	update();
	printf("\nthe operations of a step: %.1f ms, of which in BLAS %.1f ms (%.0f %%)\n", step_ns / 1e6, step_blas_ns / 1e6,
	       100 * step_blas_ns / step_ns);
	mem_free(dev->mem);
	device_close(dev);
	return 0;
}
