/*
 * Flash attention cut into pieces of samples and heads: the arithmetic of the
 * cut and of the workspace (workspace_flash.h), for a card that need not be
 * here, and on whatever device the tests run that a sample or a head alone gives
 * what it gives among others, and that forward and backward are cut alike.
 */
#include "device/attention_kit.h"
#include "device/workspace_flash.h"

/* ---- arithmetic ---------------------------------------------------------------- */

struct sizes {
	int64_t batch, seq, heads, head_dim;
	bool padded, deterministic;
	float p;
};

static struct flash_layout layout(const struct sizes *s, bool backward)
{
	static char somewhere;
	struct mem_block *there = (struct mem_block *)(void *)&somewhere;
	int64_t width = s->heads * s->head_dim;
	struct tensor out = { .block = there, .dtype = DT_BF16, .rank = 3, .shape = { s->batch, s->seq, width } };
	struct tensor lengths = { .block = s->padded ? there : NULL, .dtype = DT_I32, .rank = 1, .shape = { s->batch } };
	uint64_t bytes;
	struct flash_layout l;

	if (backward) {
		struct op_flash_bwd a = { .dout = &out, .lengths = &lengths, .heads = s->heads, .deterministic = s->deterministic, .dropout_p = s->p };

		l = flash_layout_bwd(&a);
		bytes = device_workspaces_cuda.flash_bwd(&a);
	} else {
		struct op_flash_fwd a = { .out = &out, .lengths = &lengths, .heads = s->heads, .dropout_p = s->p };

		l = flash_layout_fwd(&a);
		bytes = device_workspaces_cuda.flash_fwd(&a);
	}
	assert_int_equal(bytes, l.bytes);     /* what the plan says is what the backend lays out */
	return l;
}

static uint64_t up(uint64_t x, uint64_t to)
{
	return (x + to - 1) / to * to;
}

/* Each sample's heads are in exactly one piece, pieces are as even as they can be, and no larger than the bound says. */
static void check_pieces(const struct sizes *s, const struct flash_pieces *p, bool cut)
{
	uint64_t head = 2 * up((uint64_t)s->seq, 64) * up((uint64_t)s->seq, 128);
	int64_t rest = s->batch - (p->by_sample - 1) * p->samples, heads_rest = s->heads - (p->by_head - 1) * p->heads;

	if (!cut) {
		assert_true(p->samples == s->batch && p->heads == s->heads && p->by_sample == 1 && p->by_head == 1);
		return;
	}
	assert_true(rest >= 1 && rest <= p->samples && heads_rest >= 1 && heads_rest <= p->heads);
	assert_true(p->by_head == 1 || p->samples == 1);
	assert_true((uint64_t)(p->samples * p->heads) * head <= FLASH_SCORES_BYTES || p->samples * p->heads == 1);
	/* one piece less would be too large */
	if (p->by_sample > 1 && p->by_head == 1)
		assert_true((uint64_t)((s->batch + p->by_sample - 2) / (p->by_sample - 1) * s->heads) * head > FLASH_SCORES_BYTES);
	if (p->by_head > 1)
		assert_true((uint64_t)((s->heads + p->by_head - 2) / (p->by_head - 1)) * head > FLASH_SCORES_BYTES);
}

static void check_places(const struct sizes *s, const struct flash_layout *l, bool backward)
{
	uint64_t piece = (uint64_t)(l->pieces.samples * l->pieces.heads), rows = 4 * piece * (uint64_t)s->seq;
	uint64_t at[4] = { l->cudnn_at, l->sums_at, l->limits_at, l->random_at };
	uint64_t bytes[4] = { l->cudnn_bytes, backward ? rows : 0,
			      s->padded ? l->limits_stride * (uint64_t)l->pieces.by_sample : 0,
			      s->p > 0 ? FLASH_RANDOM_BYTES * (uint64_t)(l->pieces.by_sample * l->pieces.by_head) : 0 };
	uint64_t end = 0;

	for (int i = 0; i < 4; i++) {
		if (!bytes[i])
			continue;
		assert_true(at[i] >= end && at[i] % 256 == 0);
		end = at[i] + bytes[i];
	}
	assert_true(end <= l->bytes && l->bytes - end < 256);
	assert_true(l->limits_stride >= 8 * (uint64_t)l->pieces.samples && l->limits_stride % 32 == 0);
	if (backward && !s->deterministic)
		assert_true(l->dq_sum_at == l->cudnn_at + l->beside_dq_sum_bytes &&
			    l->dq_sum_at + rows * (uint64_t)s->head_dim <= l->cudnn_at + l->cudnn_bytes);
}

static void pieces_cover_a_call_and_keep_to_the_bound(void **state)
{
	static const int64_t batches[] = { 1, 2, 7, 16, 17, 64 }, seqs[] = { 2, 129, 512, 1024, 4097, 8192, 16384 }, heads[] = { 1, 5, 12, 25 };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(batches); i++)
		for (size_t j = 0; j < TM_ARRAY_N(seqs); j++)
			for (size_t h = 0; h < TM_ARRAY_N(heads); h++)
				for (int options = 0; options < 8; options++) {
					struct sizes s = { .batch = batches[i], .seq = seqs[j], .heads = heads[h], .head_dim = 64, .padded = options & 1,
							   .deterministic = options & 2, .p = options & 4 ? 0.1f : 0 };
					struct flash_layout f = layout(&s, false), b = layout(&s, true);

					check_pieces(&s, &f.pieces, s.p > 0);
					check_pieces(&s, &b.pieces, s.p > 0 || s.deterministic);
					if (s.p > 0)
						assert_memory_equal(&f.pieces, &b.pieces, sizeof f.pieces);
					check_places(&s, &f, false);
					check_places(&s, &b, true);
				}
}

/* In words: the sizes that docs and plans show. */
static void workspaces_of_known_shapes(void **state)
{
	struct sizes gpt = { .batch = 16, .seq = 1024, .heads = 12, .head_dim = 64, .deterministic = true }, linear = gpt;

	(void)state;
	/* two pieces of 8: scores in 16 bits, the library's 256 bytes, row sums */
	assert_int_equal(layout(&gpt, true).bytes, 2ull * 8 * 12 * 1024 * 1024 + 256 + 4ull * 8 * 12 * 1024);
	assert_int_equal(layout(&gpt, false).bytes, 256);
	linear.deterministic = false;
	assert_int_equal(layout(&linear, true).bytes, 4ull * 16 * 12 * 1024 * 64 + 256 + 4ull * 16 * 12 * 1024);
	linear.seq *= 2;
	assert_int_equal(layout(&linear, true).bytes, 2 * (4ull * 16 * 12 * 1024 * 64 + 4ull * 16 * 12 * 1024) + 256);
	/* one head of 16,384 tokens at a time, which is more than the bound */
	gpt.seq = 16384;
	assert_int_equal(layout(&gpt, true).bytes, 2ull * 16384 * 16384 + 256 + 4ull * 16384);
}

/* ---- on the device ----------------------------------------------------------------- */

/* Sizes that a card cuts, into two samples of three or two heads of three; the CPU cuts nothing and gets less to do. */
static struct attention_case samples_cut(void)
{
	return (struct attention_case){ .B = 3, .T = kit_on_cpu() ? 96 : 2048, .H = kit_on_cpu() ? 2 : 12, .D = 8, .causal = true };
}

static struct attention_case heads_cut(void)
{
	return (struct attention_case){ .B = 1, .T = kit_on_cpu() ? 96 : 8192, .H = 3, .D = 8, .causal = true };
}

/* Copies columns first … first + n - 1 of each row, as bytes. */
static void take_columns(struct tensor *to, int64_t to_first, const struct tensor *from, int64_t from_first, int64_t n)
{
	size_t e = dtype_bytes[from->dtype];
	int64_t to_cols = tensor_cols(to), cols = tensor_cols(from);

	for (int64_t r = 0; r < tensor_rows(from); r++)
		memcpy((char *)tensor_data(to) + (size_t)(r * to_cols + to_first) * e,
		       (const char *)tensor_data(from) + (size_t)(r * cols + from_first) * e, (size_t)n * e);
}

/*
 * Columns of a tensor of their own, and of rows of a larger one. The CPU
 * promises the same bits. A library may take a kernel with other tiles for
 * another shape: then both are off by roundings, and a wrong address by much more.
 */
static void same_part(const struct tensor *part, int64_t part_first, const struct tensor *all, int64_t row, int64_t first, int64_t n)
{
	double diff = 0, norm = 0;

	for (int64_t r = 0; r < tensor_rows(part); r++)
		for (int64_t i = 0; i < n; i++) {
			double x = kit_get(part, r * tensor_cols(part) + part_first + i), y = kit_get(all, (row + r) * tensor_cols(all) + first + i);

			diff += (x - y) * (x - y);
			norm += y * y;
		}
	if (!(diff <= (kit_on_cpu() ? 0 : 0x1p-14) * norm && norm > 0))
		fail_msg("columns from %lld, rows from %lld: relative distance %.3g", (long long)first, (long long)row, sqrt(diff / norm));
}

/* A head alone, from the packed tensors and back. */
static void a_head_alone_is_what_it_is_among_others(void **state)
{
	struct attention_case c = heads_cut(), one = c;
	struct attention_call all, alone;
	int64_t C = c.H * c.D;
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	one.H = 1;
	all = call_new(&k, &c, &numbers[2]);
	call_flash(&k, &all);
	for (int64_t h = 0; h < c.H; h++) {
		alone = call_new(&k, &one, &numbers[2]);
		take_columns(&alone.dout, 0, &all.dout, h * c.D, c.D);
		for (int part = 0; part < 3; part++)
			take_columns(&alone.qkv, part * c.D, &all.qkv, part * C + h * c.D, c.D);
		call_flash(&k, &alone);
		same_part(&alone.out, 0, &all.out, 0, h * c.D, c.D);
		same_part(&alone.lse, 0, &all.lse, h, 0, c.T);
		for (int part = 0; part < 3; part++)
			same_part(&alone.dqkv, part * c.D, &all.dqkv, 0, part * C + h * c.D, c.D);
		call_drop(&k, &alone);
	}
	kit_close(&k);
}

static void a_sample_alone_is_what_it_is_among_others(void **state)
{
	struct attention_case c = samples_cut(), one = c;
	struct attention_call all, alone;
	int64_t C = c.H * c.D;
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	one.B = 1;
	all = call_new(&k, &c, &numbers[2]);
	call_flash(&k, &all);
	for (int64_t b = 0; b < c.B; b++) {
		alone = call_new(&k, &one, &numbers[2]);
		memcpy(tensor_data(&alone.qkv), (char *)tensor_data(&all.qkv) + (uint64_t)b * tensor_bytes(&alone.qkv), tensor_bytes(&alone.qkv));
		memcpy(tensor_data(&alone.dout), (char *)tensor_data(&all.dout) + (uint64_t)b * tensor_bytes(&alone.dout), tensor_bytes(&alone.dout));
		call_flash(&k, &alone);
		same_part(&alone.out, 0, &all.out, b * c.T, 0, C);
		for (int part = 0; part < 3; part++)
			same_part(&alone.dqkv, part * C, &all.dqkv, b * c.T, part * C, C);
		call_drop(&k, &alone);
	}
	kit_close(&k);
}

/*
 * out is linear in V, so with dout = out the sum of dV ∘ V is that of out ∘
 * out, if backward has forward's mask. Another mask would give about 1 - p of
 * it. The sums are of many terms, so two roundings to bf16 are a wide bound.
 */
static void masks_are_the_same_in_every_piece(void **state)
{
	struct attention_case shapes[2] = { samples_cut(), heads_cut() };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (int i = 0; i < 2; i++)
		for (int any = 0; any < 2; any++) {
			struct attention_call call;
			double want = 0, have = 0;
			int64_t C = shapes[i].H * shapes[i].D;

			shapes[i].p = 0.5f;
			call = call_new(&k, &shapes[i], &numbers[2]);
			call.any_order = any;
			RUN(flash_fwd, &k, .out = &call.out, .lse = &call.lse, .qkv = &call.qkv, CALL_OPTIONS(&call));
			memcpy(tensor_data(&call.dout), tensor_data(&call.out), tensor_bytes(&call.out));
			call_flash(&k, &call);
			for (int64_t e = 0; e < tensor_n(&call.out); e++)
				want += kit_get(&call.out, e) * kit_get(&call.out, e);
			for (int64_t e = 0; e < tensor_n(&call.qkv); e++)
				if (e / C % 3 == 2)
					have += kit_get(&call.dqkv, e) * kit_get(&call.qkv, e);
			if (!(fabs(have / want - 1) < 2 * 0x1p-8))
				fail_msg("shape %d, any order %d: %g, expected %g", i, any, have, want);
			call_drop(&k, &call);
		}
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_cover_a_call_and_keep_to_the_bound),
		cmocka_unit_test(workspaces_of_known_shapes),
		cmocka_unit_test(a_head_alone_is_what_it_is_among_others),
		cmocka_unit_test(a_sample_alone_is_what_it_is_among_others),
		cmocka_unit_test(masks_are_the_same_in_every_piece),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
