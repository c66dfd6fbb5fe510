/*
 * The same bits from every operation whatever the number of threads, and
 * whatever OPENBLAS_NUM_THREADS says. Each (operation, type, shape) gives one
 * hash over all its outputs; a second process with another environment prints
 * the hashes of the operations that multiply and must print the same.
 */
#include "device/kit.h"

#include <fcntl.h>
#include <spawn.h>

extern char **environ;

/* Small; odd; and large enough for several tiles and parallel regions. */
static const struct shape { int64_t batch, tokens, heads, head_dim, vocab; } shapes[] = {
	{ 2, 5, 1, 3, 7 }, { 3, 37, 3, 11, 130 }, { 4, 64, 2, 64, 384 }, { 2, 300, 3, 40, 257 }, { 2, 256, 2, 64, 384 },
};

static uint64_t fold(uint64_t hash, const struct tensor *t)
{
	const unsigned char *p = tensor_data(t);

	for (uint64_t i = 0; i < tensor_bytes(t); i++)
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

static uint64_t embed_hash(struct kit *k, enum device_op op, enum dtype F, const struct shape *s)
{
	int64_t C = s->heads * s->head_dim;
	struct tensor ids = BELOW(k, (uint64_t)s->vocab, s->batch, s->tokens), types = BELOW(k, 2, s->batch, s->tokens);
	struct tensor wte = NORMAL_OF(k, F, s->vocab, C), wpe = NORMAL_OF(k, F, s->tokens, C), wtt = NORMAL_OF(k, F, 2, C);
	struct tensor out = NORMAL_OF(k, F, s->batch, s->tokens, C);

	if (op == OP_embed_fwd) {
		RUN(embed_fwd, k, .out = &out, .ids = &ids, .types = &types, .wte = &wte, .wpe = &wpe, .wtt = &wtt);
		return HASH(&out);
	}
	RUN(embed_bwd, k, .dwte = &wte, .dwpe = &wpe, .dwtt = &wtt, .dout = &out, .ids = &ids, .types = &types);
	return HASH(&wte, &wpe, &wtt);
}

static uint64_t norm_hash(struct kit *k, enum device_op op, enum dtype F, const struct shape *s)
{
	int64_t rows = s->batch * s->tokens, C = s->heads * s->head_dim;
	struct tensor x = NORMAL_OF(k, F, rows, C), gamma = NORMAL_OF(k, F, C), beta = NORMAL_OF(k, F, C);
	struct tensor mean = NORMAL(k, rows), rstd = NORMAL(k, rows), y = NORMAL_OF(k, F, rows, C), dgamma = NORMAL_OF(k, F, C);
	struct tensor dbeta = NORMAL(k, C), dx = NORMAL_OF(k, F, rows, C);

	if (op == OP_norm_fwd) {
		RUN(norm_fwd, k, .y = &y, .mean = &mean, .rstd = &rstd, .x = &x, .gamma = &gamma, .beta = &beta, .eps = 1e-5f);
		return HASH(&y, &mean, &rstd);
	}
	RUN(norm_bwd, k, .dx = &dx, .dgamma = &dgamma, .dbeta = &dbeta, .dy = &y, .x = &x, .mean = &mean, .rstd = &rstd,
	    .gamma = &gamma, .accumulate = true);
	return HASH(&dx, &dgamma, &dbeta);
}

static uint64_t linear_hash(struct kit *k, enum device_op op, enum dtype F, const struct shape *s)
{
	int64_t rows = s->batch * s->tokens, in = s->heads * s->head_dim, out = 3 * in;
	struct tensor x = NORMAL_OF(k, F, rows, in), w = NORMAL_OF(k, F, out, in), b = NORMAL_OF(k, F, out);
	struct tensor y = NORMAL_OF(k, F, rows, out);

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

static uint64_t attention_hash(struct kit *k, enum device_op op, enum dtype F, const struct shape *s)
{
	int64_t B = s->batch, T = s->tokens, H = s->heads, C = H * s->head_dim;
	struct tensor qkv = NORMAL_OF(k, F, B, T, 3 * C), out = NORMAL_OF(k, F, B, T, C), dqkv = NEW_OF(k, F, B, T, 3 * C);
	struct tensor lengths = BELOW(k, (uint64_t)T + 1, B), dout = NORMAL_OF(k, F, B, T, C);
	struct random_at at = { 3, 1, 4 };

	if (op == OP_attention_fwd || op == OP_attention_bwd) {
		struct tensor probs = NEW_OF(k, F, B, H, T, T);

		RUN(attention_fwd, k, .out = &out, .probs = &probs, .qkv = &qkv, .lengths = &lengths, .heads = H, .causal = true,
		    .dropout_p = 0.1f, .random = at);
		if (op == OP_attention_fwd)
			return HASH(&out, &probs);
		RUN(attention_bwd, k, .dqkv = &dqkv, .dout = &dout, .qkv = &qkv, .probs = &probs, .lengths = &lengths, .heads = H,
		    .causal = true, .dropout_p = 0.1f, .random = at);
	} else {
		struct tensor lse = NEW(k, B, H, T);

		RUN(flash_fwd, k, .out = &out, .lse = &lse, .qkv = &qkv, .lengths = &lengths, .heads = H, .causal = true,
		    .dropout_p = 0.1f, .random = at);
		if (op == OP_flash_fwd)
			return HASH(&out, &lse);
		RUN(flash_bwd, k, .dqkv = &dqkv, .dout = &dout, .qkv = &qkv, .out = &out, .lse = &lse, .lengths = &lengths,
		    .heads = H, .causal = true, .dropout_p = 0.1f, .random = at);
	}
	return HASH(&dqkv);
}

static uint64_t rows_hash(struct kit *k, enum device_op op, enum dtype F, const struct shape *s)
{
	int64_t R = s->batch * s->tokens, C = s->heads * s->head_dim, n = (R + 2) / 3;
	struct tensor all = NORMAL_OF(k, F, R, C), few = NORMAL_OF(k, F, n, C), rows = kit_tensor(k, DT_I32, SHAPE(n));

	for (int64_t i = 0; i < n; i++)
		tensor_i32(&rows)[i] = i % 4 == 3 ? -1 : (int32_t)(3 * i);
	if (op == OP_gather_rows)
		RUN(gather_rows, k, .out = &few, .x = &all, .rows = &rows);
	else
		RUN(scatter_rows, k, .out = &all, .x = &few, .rows = &rows);
	return HASH(&few, &all);
}

static uint64_t pointwise_hash(struct kit *k, enum device_op op, enum dtype F, const struct shape *s)
{
	int64_t n = s->batch * s->tokens * s->heads * s->head_dim;
	struct tensor x = NORMAL_OF(k, F, n), y = NORMAL_OF(k, F, n), z = NORMAL_OF(k, F, n);
	struct random_at at = { 3, 1, 4 };

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
	default: fail_msg("operation %s has no test here", device_op_name[op]);
	}
	return HASH(&x, &y, &z);
}

static uint64_t norm_of_all_hash(struct kit *k, enum device_op op, enum dtype F, const struct shape *s)
{
	int64_t n = s->batch * s->tokens * s->heads * s->head_dim;
	struct tensor x = NORMAL_OF(k, F, n), squares = NORMAL(k, n), one = NEW(k, 1), state = NEW(k, SCALE_N);

	for (int64_t i = 0; i < n; i++)
		tensor_f32(&squares)[i] *= tensor_f32(&squares)[i];
	kit_set(&state, 4);
	switch (op) {
	case OP_sum_squares:
		/* A second time onto minus the first result: what is left shows the sum beyond a float's precision. */
		RUN(sum_squares, k, .out = &one, .x = &x);
		tensor_f32(&one)[0] *= -1;
		RUN(sum_squares, k, .out = &one, .x = &x, .accumulate = true);
		break;
	case OP_squares_all: {
		const struct tensor *all[] = { &x, &squares };
		struct tensor out = NEW(k, 2);

		RUN(squares_all, k, .out = &out, .x = all, .n = 2);
		return HASH(&out);
	}
	case OP_clip_factor: RUN(clip_factor, k, .out = &one, .squares = &squares, .max_norm = 1); break;
	default:
		RUN(scale_update, k, .state = &state, .factor = &one, .squares = &squares, .max_norm = 1, .growth = 2, .backoff = 0.5f,
		    .floor = 1, .ceiling = 65536, .growth_every = 5);
	}
	return HASH(&one, &state);
}

/* f32 alone; bf16 stochastically, then with a split master; f16 with a master. */
static uint64_t update_hash(struct kit *k, enum device_op op, enum dtype F, const struct shape *s)
{
	int64_t n = s->batch * s->tokens * s->heads * s->head_dim;
	enum dtype moment = F == DT_BF16 ? DT_BF16 : DT_F32;
	struct tensor w = NORMAL_OF(k, F, n), m = NORMAL_OF(k, moment, n), v = NEW_OF(k, moment, n), g = NORMAL_OF(k, F, n);
	struct tensor master = NORMAL(k, n), low = kit_tensor(k, DT_I16, SHAPE(n)), factor = NEW(k, 1);
	struct random_at at = { 3, 1, 4 };

	memset(tensor_data(&low), 0, tensor_bytes(&low));
	kit_set(&factor, 3);
	kit_set(&v, 0.5f);
	for (int split = 0; split < (F == DT_BF16 ? 2 : 1); split++) {
		struct tensor *behind = F == DT_F16 ? &master : split ? &low : NULL;

		const struct op_adamw update = {
			.w = &w, .master = behind, .m = &m, .v = &v, .g = &g, .factor = &factor, .lr = 1e-2f, .beta1 = 0.9f,
			.beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f, .step = 2, .random = at,
		};

		if (op == OP_adamw_all)
			RUN(adamw_all, k, .each = &update, .n = 1);
		else if (op == OP_adamw)
			RUN(adamw, k, .w = &w, .master = behind, .m = &m, .v = &v, .g = &g, .factor = &factor, .lr = 1e-2f, .beta1 = 0.9f,
			    .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f, .step = 2, .random = at);
		else
			RUN(sgd, k, .w = &w, .master = behind, .m = &m, .g = &g, .factor = &factor, .lr = 1e-2f, .momentum = 0.9f,
			    .weight_decay = 0.1f, .step = 2, .random = at);
	}
	return HASH(&w, &m, &v, &master, &low);
}

static uint64_t loss_hash(struct kit *k, enum dtype F, const struct shape *s)
{
	int64_t rows = s->batch * s->tokens;
	struct tensor logits = NORMAL_OF(k, F, rows, s->vocab), losses = NEW(k, rows), targets = BELOW(k, (uint64_t)s->vocab, rows);

	RUN(loss, k, .logits = &logits, .losses = &losses, .targets = &targets, .vocab = s->vocab, .scale = 0.1f, .grad = true);
	return HASH(&logits, &losses);
}

static uint64_t hash(int threads, enum device_op op, enum dtype F, const struct shape *s)
{
	struct kit k;
	uint64_t h;

	kit_open(&k, threads);
	for (const char *p = device_op_name[op]; *p; p++)
		k.state = k.state * 31 + (uint64_t)*p;
	k.state += (uint64_t)(s - shapes);
	switch (op) {
	case OP_embed_fwd: case OP_embed_bwd: h = embed_hash(&k, op, F, s); break;
	case OP_norm_fwd: case OP_norm_bwd: h = norm_hash(&k, op, F, s); break;
	case OP_linear_fwd: case OP_linear_dx: case OP_linear_dw: h = linear_hash(&k, op, F, s); break;
	case OP_attention_fwd: case OP_attention_bwd: case OP_flash_fwd: case OP_flash_bwd: h = attention_hash(&k, op, F, s); break;
	case OP_gather_rows: case OP_scatter_rows: h = rows_hash(&k, op, F, s); break;
	case OP_loss: h = loss_hash(&k, F, s); break;
	case OP_sum_squares: case OP_squares_all: case OP_clip_factor: case OP_scale_update: h = norm_of_all_hash(&k, op, F, s); break;
	case OP_adamw: case OP_adamw_all: case OP_sgd: h = update_hash(&k, op, F, s); break;
	default: h = pointwise_hash(&k, op, F, s);
	}
	kit_close(&k);
	return h;
}

/* Two of the shapes do for the 16-bit types, which share all but the conversions with f32. */
static bool wanted(enum dtype F, size_t shape)
{
	return F == DT_F32 || shape == 1 || shape == 3;
}

static void same_bits(enum device_op op, enum dtype F, size_t shape)
{
	static const int counts[] = { 2, 4 };
	uint64_t one = hash(1, op, F, &shapes[shape]);

	for (size_t c = 0; c < TM_ARRAY_N(counts); c++)
		if (hash(counts[c], op, F, &shapes[shape]) != one)
			fail_msg("%s in %s, shape %zu: %d threads differ from 1", device_op_name[op], dtype_name[F], shape, counts[c]);
}

static void every_operation_gives_the_same_bits(void **state)
{
	(void)state;
	for (int op = 0; op < DEVICE_OP_N; op++)
		for (size_t t = 0; t < TM_ARRAY_N(kit_types); t++)
			for (size_t s = 0; s < TM_ARRAY_N(shapes); s++)
				if (wanted(kit_types[t], s))
					same_bits((enum device_op)op, kit_types[t], s);
}

static const enum device_op multiplying[] = {
	OP_linear_fwd, OP_linear_dx, OP_linear_dw, OP_attention_fwd, OP_attention_bwd, OP_flash_fwd, OP_flash_bwd,
};

static void print_hashes(void)
{
	for (size_t i = 0; i < TM_ARRAY_N(multiplying); i++)
		for (size_t t = 0; t < TM_ARRAY_N(kit_types); t++)
			for (size_t s = 0; s < TM_ARRAY_N(shapes); s++)
				if (wanted(kit_types[t], s))
					printf("%s %s %zu %016llx\n", device_op_name[multiplying[i]], dtype_name[kit_types[t]], s,
					       (unsigned long long)hash(2, multiplying[i], kit_types[t], &shapes[s]));
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
	assert_int_equal(lines, TM_ARRAY_N(multiplying) * (TM_ARRAY_N(shapes) + 2 * 2));
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
