/*
 * The same bits from every operation whatever the number of threads, and
 * whatever OPENBLAS_NUM_THREADS says. Each (operation, shape) gives one hash
 * over all its outputs; a second process with another environment prints its
 * hashes and must print the same.
 */
#include "device/kit.h"

#include <fcntl.h>
#include <spawn.h>

extern char **environ;

/* Small; odd; and large enough for several tiles and parallel regions. */
static const struct shape { int64_t batch, tokens, heads, head_dim, vocab; } shapes[] = {
	{ 2, 5, 1, 3, 7 }, { 3, 37, 3, 11, 130 }, { 4, 64, 2, 64, 384 }, { 2, 300, 3, 40, 257 }, { 2, 256, 4, 64, 384 },
};

static uint64_t fold(uint64_t hash, const struct tensor *t)
{
	const unsigned char *p = (const unsigned char *)tensor_f32(t);

	for (int64_t i = 0; i < tensor_n(t) * 4; i++)
		hash = (hash ^ p[i]) * 0x100000001b3ull;
	return hash;
}

#define HASH(...) hash_all((const struct tensor *[]){ __VA_ARGS__, NULL })
static uint64_t hash_all(const struct tensor *const *list)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *list; list++)
		hash = fold(hash, *list);
	return hash;
}

static uint64_t embed_hash(struct kit *k, enum device_op op, const struct shape *s)
{
	int64_t C = s->heads * s->head_dim;
	struct tensor ids = BELOW(k, (uint64_t)s->vocab, s->batch, s->tokens), types = BELOW(k, 2, s->batch, s->tokens);
	struct tensor wte = NORMAL(k, s->vocab, C), wpe = NORMAL(k, s->tokens, C), wtt = NORMAL(k, 2, C);
	struct tensor out = NORMAL(k, s->batch, s->tokens, C);

	if (op == OP_embed_fwd) {
		RUN(embed_fwd, k, .out = &out, .ids = &ids, .types = &types, .wte = &wte, .wpe = &wpe, .wtt = &wtt);
		return HASH(&out);
	}
	RUN(embed_bwd, k, .dwte = &wte, .dwpe = &wpe, .dwtt = &wtt, .dout = &out, .ids = &ids, .types = &types);
	return HASH(&wte, &wpe, &wtt);
}

static uint64_t norm_hash(struct kit *k, enum device_op op, const struct shape *s)
{
	int64_t rows = s->batch * s->tokens, C = s->heads * s->head_dim;
	struct tensor x = NORMAL(k, rows, C), gamma = NORMAL(k, C), beta = NORMAL(k, C), mean = NORMAL(k, rows), rstd = NORMAL(k, rows);
	struct tensor y = NORMAL(k, rows, C), dgamma = NORMAL(k, C), dbeta = NORMAL(k, C), dx = NORMAL(k, rows, C);

	if (op == OP_norm_fwd) {
		RUN(norm_fwd, k, .y = &y, .mean = &mean, .rstd = &rstd, .x = &x, .gamma = &gamma, .beta = &beta, .eps = 1e-5f);
		return HASH(&y, &mean, &rstd);
	}
	RUN(norm_bwd, k, .dx = &dx, .dgamma = &dgamma, .dbeta = &dbeta, .dy = &y, .x = &x, .mean = &mean, .rstd = &rstd,
	    .gamma = &gamma, .accumulate = true);
	return HASH(&dx, &dgamma, &dbeta);
}

static uint64_t linear_hash(struct kit *k, enum device_op op, const struct shape *s)
{
	int64_t rows = s->batch * s->tokens, in = s->heads * s->head_dim, out = 3 * in;
	struct tensor x = NORMAL(k, rows, in), w = NORMAL(k, out, in), b = NORMAL(k, out), y = NORMAL(k, rows, out);

	if (op == OP_linear_fwd) {
		RUN(linear_fwd, k, .y = &y, .x = &x, .w = &w, .b = &b);
		return HASH(&y);
	}
	if (op == OP_linear_dx) {
		RUN(linear_dx, k, .dx = &x, .dy = &y, .w = &w, .accumulate = true);
		return HASH(&x);
	}
	RUN(linear_dw, k, .dw = &w, .db = &b, .dy = &y, .x = &x, .accumulate = true);
	return HASH(&w, &b);
}

static uint64_t attention_hash(struct kit *k, enum device_op op, const struct shape *s)
{
	int64_t B = s->batch, T = s->tokens, H = s->heads, C = H * s->head_dim;
	struct tensor qkv = NORMAL(k, B, T, 3 * C), out = NORMAL(k, B, T, C), probs = NEW(k, B, H, T, T), dqkv = NEW(k, B, T, 3 * C);
	struct tensor lengths = BELOW(k, (uint64_t)T + 1, B);
	struct random_at at = { 3, 1, 4 };

	RUN(attention_fwd, k, .out = &out, .probs = &probs, .qkv = &qkv, .lengths = &lengths, .heads = H, .causal = true,
	    .dropout_p = 0.1f, .random = at);
	if (op == OP_attention_fwd)
		return HASH(&out, &probs);
	RUN(attention_bwd, k, .dqkv = &dqkv, .dout = &out, .qkv = &qkv, .probs = &probs, .lengths = &lengths, .heads = H,
	    .causal = true, .dropout_p = 0.1f, .random = at);
	return HASH(&dqkv);
}

static uint64_t pointwise_hash(struct kit *k, enum device_op op, const struct shape *s)
{
	int64_t n = s->batch * s->tokens * s->heads * s->head_dim;
	struct tensor x = NORMAL(k, n), y = NORMAL(k, n), z = NORMAL(k, n), one = NORMAL(k, 1), v = NEW(k, n);
	struct random_at at = { 3, 1, 4 };

	tensor_f32(&one)[0] = 3;
	kit_set(&v, 0.5f);
	switch (op) {
	case OP_fill: RUN(fill, k, .out = &z, .value = 3); break;
	case OP_copy: RUN(copy, k, .dst = &z, .src = &x); break;
	case OP_add: RUN(add, k, .out = &z, .a = &x, .b = &y); break;
	case OP_gelu_fwd:
		RUN(gelu_fwd, k, .y = &z, .x = &x, .kind = GELU_TANH);
		RUN(gelu_fwd, k, .y = &y, .x = &z, .kind = GELU_ERF);
		break;
	case OP_gelu_bwd:
		RUN(gelu_bwd, k, .dx = &z, .dy = &y, .x = &x, .kind = GELU_TANH);
		RUN(gelu_bwd, k, .dx = &y, .dy = &z, .x = &x, .kind = GELU_ERF);
		break;
	case OP_dropout_fwd: RUN(dropout_fwd, k, .y = &z, .x = &x, .residual = &y, .p = 0.1f, .random = at); break;
	case OP_dropout_bwd: RUN(dropout_bwd, k, .dx = &z, .dy = &y, .p = 0.1f, .random = at); break;
	case OP_sum_squares:
		/* A second time onto minus the first result: what is left shows the sum beyond a float's precision. */
		tensor_f32(&one)[0] = 0;
		RUN(sum_squares, k, .out = &one, .x = &x);
		tensor_f32(&one)[0] *= -1;
		RUN(sum_squares, k, .out = &one, .x = &x);
		break;
	case OP_clip_factor: RUN(clip_factor, k, .out = &one, .squares = &one, .max_norm = 1); break;
	case OP_adamw:
		RUN(adamw, k, .w = &x, .m = &y, .v = &v, .g = &z, .factor = &one, .lr = 1e-2f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f,
		    .weight_decay = 0.1f, .step = 2);
		break;
	default: fail_msg("operation %s has no test here", device_op_name[op]);
	}
	return HASH(&x, &y, &z, &one, &v);
}

static uint64_t loss_hash(struct kit *k, const struct shape *s)
{
	int64_t rows = s->batch * s->tokens;
	struct tensor logits = NORMAL(k, rows, s->vocab), losses = NEW(k, rows), targets = BELOW(k, (uint64_t)s->vocab, rows);

	RUN(loss, k, .logits = &logits, .losses = &losses, .targets = &targets, .vocab = s->vocab, .scale = 0.1f, .grad = true);
	return HASH(&logits, &losses);
}

static uint64_t hash(int threads, enum device_op op, const struct shape *s)
{
	struct kit k;
	uint64_t h;

	kit_open(&k, threads);
	k.state = (uint64_t)op * 100 + (uint64_t)(s - shapes);
	switch (op) {
	case OP_embed_fwd: case OP_embed_bwd: h = embed_hash(&k, op, s); break;
	case OP_norm_fwd: case OP_norm_bwd: h = norm_hash(&k, op, s); break;
	case OP_linear_fwd: case OP_linear_dx: case OP_linear_dw: h = linear_hash(&k, op, s); break;
	case OP_attention_fwd: case OP_attention_bwd: h = attention_hash(&k, op, s); break;
	case OP_loss: h = loss_hash(&k, s); break;
	default: h = pointwise_hash(&k, op, s);
	}
	kit_close(&k);
	return h;
}

static void every_operation_gives_the_same_bits(void **state)
{
	static const int counts[] = { 2, 4 };

	(void)state;
	for (int op = 0; op < DEVICE_OP_N; op++)
		for (size_t i = 0; i < TM_ARRAY_N(shapes); i++) {
			uint64_t one = hash(1, (enum device_op)op, &shapes[i]);

			for (size_t c = 0; c < TM_ARRAY_N(counts); c++)
				if (hash(counts[c], (enum device_op)op, &shapes[i]) != one)
					fail_msg("%s, shape %zu: %d threads differ from 1", device_op_name[op], i, counts[c]);
		}
}

static void print_hashes(void)
{
	for (int op = 0; op < DEVICE_OP_N; op++)
		for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
			printf("%s %zu %016llx\n", device_op_name[op], i, (unsigned long long)hash(2, (enum device_op)op, &shapes[i]));
}

/* Output of this program with --hashes under a further variable; to be freed. */
static char *hashes_under(const char *variable)
{
	static char name[] = "test_threads", flag[] = "--hashes";
	char *argv[] = { name, flag, NULL }, *env[512], *text = tm_xcalloc(1, 65536), setting[64];
	posix_spawn_file_actions_t actions;
	size_t n = 0, got = 0;
	int fd[2], status;
	ssize_t r;
	pid_t pid;

	for (; environ[n] && n < 510; n++)
		env[n] = environ[n];
	snprintf(setting, sizeof setting, "%s", variable);
	env[n] = setting;
	env[n + 1] = NULL;
	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd[1], 1);
	assert_int_equal(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, env), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(fd[1]);
	while (got < 65535 && (r = read(fd[0], text + got, 65535 - got)) > 0)
		got += (size_t)r;
	close(fd[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return text;
}

static void the_environment_of_blas_changes_nothing(void **state)
{
	char *four = hashes_under("OPENBLAS_NUM_THREADS=4"), *none = hashes_under("TM_UNUSED=1");
	size_t lines = 0;

	(void)state;
	for (const char *p = four; *p; p++)
		lines += *p == '\n';
	assert_int_equal(lines, DEVICE_OP_N * TM_ARRAY_N(shapes));
	assert_string_equal(four, none);
	free(four);
	free(none);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_gives_the_same_bits),
		cmocka_unit_test(the_environment_of_blas_changes_nothing),
	};

	if (argc > 1 && !strcmp(argv[1], "--hashes")) {
		print_hashes();
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
