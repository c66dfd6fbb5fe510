/*
 * What a layer saves for backward, read from a trace and compared with the
 * count of the literature (Korthikanti et al. 2022, table 2: 34 sbh + 5 as²b at
 * 2 bytes with stored dropout masks, which here are drawn again, so 32 sbh + 2 as²b).
 * The saved bytes of a layer are what a model with K layers more holds more
 * of when its forward ends, over K. And that flash attention's memory is
 * linear in the length, while the other form's is not.
 */
#include "trace_kit.h"

enum { K = 3, GRANULE = 512 };

/* Requested and block bytes of everything that is neither state nor input. */
struct held {
	int64_t now[2], at_backward[2], most[2];
	bool backward;
};

static bool of_the_step(const char *category)
{
	return !strcmp(category, "activations") || !strcmp(category, "logits") || !strcmp(category, "workspace");
}

static void hold(void *arg, const char *kind, json_t *event)
{
	struct held *h = arg;
	const int64_t bytes[] = { tm_json_i64(event, "bytes", 0), tm_json_i64(event, "block", 0) };
	int sign = !strcmp(kind, "alloc") - !strcmp(kind, "free");

	if (!strcmp(kind, "phase") && !strcmp(tm_json_str(event, "name", ""), "backward") && !h->backward) {
		h->backward = true;
		memcpy(h->at_backward, h->now, sizeof h->now);
	}
	if (!sign || !of_the_step(tm_json_str(event, "category", "")))
		return;
	for (int i = 0; i < 2; i++) {
		h->now[i] += sign * bytes[i];
		if (h->now[i] > h->most[i])
			h->most[i] = h->now[i];
	}
}

static struct held measure(const struct train_opts *o, enum model_kind kind)
{
	struct held h = { 0 };
	char *path = trace_file();
	struct rig r;

	rig_open(&r, &(struct rig_conf){ .allocator = "raw", .trace = path }, o, kind, 3);
	rig_step(&r, 0);
	rig_close(&r);
	trace_each(path, hold, &h);
	unlink(path);
	free(path);
	assert_true(h.backward);
	assert_int_equal(h.now[0], 0);
	return h;
}

static struct train_opts small(enum model_kind kind, const char *precision, const char *attention)
{
	struct train_opts o = rig_opts(kind);

	o.precision = precision;
	o.attention = attention;
	o.width = 24;
	o.heads = 4;
	o.seq = rig_seq(20);
	o.batch = 3;
	o.dropout = 0.1;                 /* no byte of it is kept */
	return o;
}

/* Of K layers, [0] requested and [1] as blocks. */
static void saved_by_layers(struct train_opts o, enum model_kind kind, int64_t out[2])
{
	struct held few, many;

	o.layers = K;
	few = measure(&o, kind);
	o.layers = 2 * K;
	many = measure(&o, kind);
	for (int i = 0; i < 2; i++)
		out[i] = many.at_backward[i] - few.at_backward[i];
}

static void saved_bytes_are_those_of_the_literature(void **state)
{
	/* units of s·b·h elements; statistics of norms, of attention; tensors */
	static const struct {
		const char *policy;
		int64_t units, norms, attention, tensors;
	} expected[] = {
		{ "none", 16, 1, 1, 13 }, { "gelu", 12, 1, 1, 12 }, { "gelu+ln", 10, 1, 1, 10 }, { "mlp", 6, 1, 1, 9 },
		{ "mlp+qkv", 3, 1, 1, 8 }, { "selective", 16, 1, 0, 12 }, { "block", 1, 0, 0, 1 }, { "every:1", 1, 0, 0, 1 },
		{ "every:3", 1, 0, 0, 1 },
	};
	static const struct { const char *precision; int64_t e; } types[] = { { "fp32", 4 }, { "bf16", 2 } };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(expected) * TM_ARRAY_N(types) * 4; i++) {
		size_t p = i / 4 % TM_ARRAY_N(expected), t = i / 4 / TM_ARRAY_N(expected);
		enum model_kind kind = i % 2 ? MODEL_BERT : MODEL_GPT;
		bool flash = i / 2 % 2;
		struct train_opts o = small(kind, types[t].precision, flash ? "flash" : "materialised");
		int64_t e = types[t].e, s = 20, b = 3, h = 24, a = 4;
		int64_t layers = strcmp(expected[p].policy, "every:3") ? K : 1;        /* of K, those that keep something */
		int64_t attention = flash ? 4 * a * s * b : e * a * s * s * b, want, saved[2];

		o.checkpoint = expected[p].policy;
		if (flash && !strcmp(o.checkpoint, "selective"))
			continue;
		want = layers * (expected[p].units * e * s * b * h + expected[p].norms * 16 * s * b +
				 expected[p].attention * attention);
		saved_by_layers(o, kind, saved);
		if (saved[0] != want || saved[1] < want || saved[1] > want + layers * expected[p].tensors * GRANULE)
			fail_msg("%s, %s, %s, %s: %lld bytes saved by %d layers, as blocks %lld, expected %lld",
				 kind == MODEL_GPT ? "gpt" : "bert", types[t].precision, flash ? "flash" : "materialised",
				 o.checkpoint, (long long)saved[0], K, (long long)saved[1], (long long)want);
	}
}

/* At 2 bytes 32 sbh and, with dropout, the 2 as²b of the probabilities alone: by the numbers of that paper. */
static void the_count_of_the_paper(void **state)
{
	struct train_opts o = small(MODEL_GPT, "bf16", "materialised");
	int64_t s = 20, b = 3, h = 24, a = 4, saved[2];

	(void)state;
	saved_by_layers(o, MODEL_GPT, saved);
	/* 34 sbh + 5 as²b, without 2 sbh and as²b of masks and 2 as²b of dropped probabilities; norms' statistics added */
	assert_int_equal(saved[0], K * (34 * s * b * h + 5 * a * s * s * b - 2 * s * b * h - 3 * a * s * s * b + 16 * s * b));
}

/* Everything a step holds at most, twice the length against once. */
static double growth(enum model_kind kind, const char *precision, const char *attention)
{
	struct train_opts o = small(kind, precision, attention);
	struct held one, two;

	o.layers = 2;
	o.context = 256;
	o.seq = rig_seq(128);
	one = measure(&o, kind);
	o.seq = rig_seq(256);
	two = measure(&o, kind);
	return (double)two.most[1] / (double)one.most[1];
}

static void flash_is_linear_in_the_length(void **state)
{
	static const char *const precisions[] = { "fp32", "bf16" };

	(void)state;
	for (int i = 0; i < 4; i++) {
		enum model_kind kind = i % 2 ? MODEL_BERT : MODEL_GPT;
		double flash = growth(kind, precisions[i / 2], "flash");
		double materialised = growth(kind, precisions[i / 2], "materialised");

		if (!(flash <= 2.05 && flash > 1.9 && materialised > 2.5))
			fail_msg("%s, %s: twice the length takes %.3f times the bytes, materialised %.3f",
				 i % 2 ? "bert" : "gpt", precisions[i / 2], flash, materialised);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(saved_bytes_are_those_of_the_literature),
		cmocka_unit_test(the_count_of_the_paper),
		cmocka_unit_test(flash_is_linear_in_the_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
