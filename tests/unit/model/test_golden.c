/*
 * Against PyTorch: tests/golden/make.py wrote the numbers. Every gradient
 * tensor of step 0 by name, ten losses with AdamW between them, the weights
 * behind them. And the test of the test: with the sign of a backward
 * operation's output flipped, the comparison must fail and name the right
 * tensor.
 */
#include "rig.h"

#include "base/file.h"
#include "base/json.h"
#include "train/data.h"

#include <jansson.h>
#include <math.h>
#include <sha2.h>

#define BOUND 2e-5               /* of a tensor's own norm … */
#define FLOOR 1e-3               /* … or of this share of the norm over all tensors */
#define LOSS_BOUND 1e-4
#define WEIGHT_BOUND 2e-5        /* of the norm of a parameter after ten steps */

static json_t *manifest;

static void read_all(const char *name, struct tm_str *out)
{
	char *path = tm_path_join(TESTS_DIR "/golden/data", name);
	struct tm_err err = { 0 };

	assert_ok(tm_read_file(path, 1 << 20, out, &err), &err);
	free(path);
}

static int load_manifest(void **state)
{
	struct tm_str s = TM_STR_INIT;
	struct tm_err err = { 0 };

	(void)state;
	read_all("manifest.json", &s);
	assert_ok(tm_json_parse(s.s, s.n, &manifest, &err), &err);
	tm_str_free(&s);
	return 0;
}

static int drop_manifest(void **state)
{
	(void)state;
	json_decref(manifest);
	return 0;
}

static const json_t *find_case(const char *name)
{
	const json_t *cases = json_object_get(manifest, "cases");

	for (size_t i = 0; i < json_array_size(cases); i++)
		if (!strcmp(tm_json_str(json_array_get(cases, i), "name", ""), name))
			return json_array_get(cases, i);
	fail_msg("no case %s in the manifest", name);
	return NULL;
}

static enum model_kind kind_of(const json_t *c)
{
	return strcmp(tm_json_str(c, "kind", ""), "gpt") ? MODEL_BERT : MODEL_GPT;
}

/* A case, and which of the ways to compute it: all have the same reference. */
struct way {
	const char *name;
	bool flash, masked;               /* masked: only chosen positions go through the head */
};

static const char *way_text(const struct way *way)
{
	static char text[80];

	snprintf(text, sizeof text, "%s%s%s", way->name, way->flash ? ", flash" : "", way->masked ? ", masked head" : "");
	return text;
}

static struct train_opts opts_of(const json_t *c, const struct way *way)
{
	struct train_opts o = rig_opts(kind_of(c));

	o.attention = way->flash ? "flash" : "materialised";
	o.mlm_positions = way->masked ? "masked" : "all";
	o.lengths = tm_json_str(c, "lengths", "full");

	o.layers = tm_json_i64(c, "layers", 0);
	o.width = tm_json_i64(c, "width", 0);
	o.heads = tm_json_i64(c, "heads", 0);
	o.context = tm_json_i64(c, "context", 0);
	o.vocab = tm_json_i64(c, "vocab", 0);
	o.dropout = tm_json_real(c, "dropout", -1);
	o.batch = tm_json_i64(c, "batch", 0);
	o.seq = rig_seq(tm_json_i64(c, "seq", 0));
	o.accum = tm_json_i64(c, "accum", 0);
	o.lr = tm_json_real(c, "lr", -1);
	o.beta1 = tm_json_real(c, "beta1", -1);
	o.beta2 = tm_json_real(c, "beta2", -1);
	o.eps = tm_json_real(c, "eps", -1);
	o.weight_decay = tm_json_real(c, "weight_decay", -1);
	o.clip = tm_json_real(c, "clip", -1);
	return o;
}

static void open_case(struct rig *r, const json_t *c, const struct way *way)
{
	struct train_opts o = opts_of(c, way);

	rig_open(r, &(struct rig_conf){ .threads = 2 }, &o, kind_of(c), (uint64_t)tm_json_i64(c, "seed", 0));
}

/* ---- comparing -------------------------------------------------------------- */

struct tensor_error {
	const char *name;
	double distance, bound;
};

static double norm_of(const float *x, size_t n)
{
	double s = 0;

	for (size_t i = 0; i < n; i++)
		s += (double)x[i] * (double)x[i];
	return sqrt(s);
}

/* The expected tensor, its hash checked; to be freed. */
static float *expected(const json_t *entry, size_t n)
{
	static const char *open_name;
	static struct tm_str piece = TM_STR_INIT;
	const char *file = tm_json_str(entry, "file", "");
	size_t at = (size_t)tm_json_i64(entry, "offset", -1), bytes = n * sizeof(float);
	char hex[65];

	if (!open_name || strcmp(open_name, file)) {
		tm_str_reset(&piece);
		read_all(file, &piece);
		open_name = file;
	}
	assert_true(at + bytes <= piece.n);
	tm_sha256_hex(piece.s + at, bytes, hex);
	assert_string_equal(hex, tm_json_str(entry, "sha256", ""));
	return tm_xmemdup(piece.s + at, bytes);
}

static double norm_of_all(const json_t *gradients, const struct model *m)
{
	double s = 0;

	for (size_t i = 0; i < m->param_n; i++) {
		size_t n = (size_t)tensor_n(&m->param[i].w);
		float *x = expected(json_array_get(gradients, i), n);
		double norm = norm_of(x, n);

		s += norm * norm;
		free(x);
	}
	return sqrt(s);
}

/* Compares the gradients the trainer holds; returns how many tensors are out of bound, in bad[]. */
static size_t compare(const json_t *c, struct trainer *t, struct tensor_error *bad, double *worst)
{
	const json_t *gradients = json_object_get(c, "gradients");
	double all = norm_of_all(gradients, t->model);
	size_t bad_n = 0;

	*worst = 0;
	assert_int_equal(json_array_size(gradients), t->model->param_n);
	for (size_t i = 0; i < t->model->param_n; i++) {
		const struct model_param *p = &t->model->param[i];
		const json_t *entry = json_array_get(gradients, i);
		size_t n = (size_t)tensor_n(&p->w);
		float *want = expected(entry, n), *have = tm_xmalloc(n * sizeof *have);
		double own = norm_of(want, n), bound = BOUND * fmax(own, FLOOR * all), distance;
		struct tm_err err = { 0 };

		assert_string_equal(p->name, tm_json_str(entry, "name", ""));
		assert_true(own > 0);
		assert_ok(device_download(t->dev, have, &p->g, n * sizeof *have, &err), &err);
		for (size_t j = 0; j < n; j++)
			have[j] -= want[j];
		distance = norm_of(have, n);
		*worst = fmax(*worst, distance / bound);
		if (!(distance <= bound))
			bad[bad_n++] = (struct tensor_error){ p->name, distance, bound };
		free(want);
		free(have);
	}
	return bad_n;
}

#define TENSORS_MAX 256

static void gradients_match(const struct way *way)
{
	struct tensor_error bad[TENSORS_MAX];
	const json_t *c = find_case(way->name);
	struct tm_err err = { 0 };
	struct rig r;
	int64_t counted;
	double sum, worst;
	size_t n;

	open_case(&r, c, way);
	assert_ok(trainer_gradients(r.trainer, 0, &counted, &err), &err);
	n = compare(c, r.trainer, bad, &worst);
	for (size_t i = 0; i < n; i++)
		print_error("%s: %s differs by %.3g, bound %.3g\n", way_text(way), bad[i].name, bad[i].distance, bad[i].bound);
	assert_int_equal(n, 0);
	assert_ok(trainer_loss_sum(r.trainer, &sum, &err), &err);
	assert_true(fabs(sum / (double)counted - json_number_value(json_array_get(json_object_get(c, "losses"), 0)))
		    <= LOSS_BOUND);
	print_message("%s: worst gradient at %.3f of its bound\n", way_text(way), worst);
	rig_close(&r);
}

/*
 * Norms after ten steps, of what did not start at 0: there it shows which
 * parameters decay. Where the gradient is 0 but for rounding (the bias of the
 * keys) AdamW makes whole steps of noise, so biases are left out.
 */
static void weights_match(const json_t *c, const struct trainer *t)
{
	const json_t *gradients = json_object_get(c, "gradients");

	for (size_t i = 0; i < t->model->param_n; i++) {
		const struct model_param *p = &t->model->param[i];
		size_t n = (size_t)tensor_n(&p->w);
		double want = tm_json_real(json_array_get(gradients, i), "final_norm", -1), have;
		float *w = tm_xmalloc(n * sizeof *w);
		struct tm_err err = { 0 };

		assert_ok(device_download(t->dev, w, &p->w, n * sizeof *w, &err), &err);
		have = norm_of(w, n);
		free(w);
		if (tm_ends_with(p->name, ".bias"))
			continue;
		if (!(fabs(have - want) <= WEIGHT_BOUND * want))
			fail_msg("%s has norm %.9g after ten steps, PyTorch %.9g", p->name, have, want);
	}
}

static void losses_match(const struct way *way)
{
	const json_t *c = find_case(way->name), *losses = json_object_get(c, "losses");
	double worst = 0;
	struct rig r;

	open_case(&r, c, way);
	assert_int_equal(json_array_size(losses), 10);
	for (size_t i = 0; i < 10; i++) {
		struct train_result out = rig_step(&r, (int64_t)i);
		double want = json_number_value(json_array_get(losses, i));

		assert_true(out.has_loss);
		if (!(fabs(out.loss - want) <= LOSS_BOUND))
			fail_msg("%s: loss of step %zu is %.9f, PyTorch has %.9f", way_text(way), i, out.loss, want);
		worst = fmax(worst, fabs(out.loss - want));
	}
	weights_match(c, r.trainer);
	print_message("%s: ten losses within %.2g\n", way_text(way), worst);
	rig_close(&r);
}

static bool offered(const struct way *way)
{
	struct train_opts o = opts_of(find_case(way->name), way);

	return !way->flash || rig_has_flash(&o);
}

static void check_way(void (*check)(const struct way *way), const struct way *way)
{
	if (!offered(way))
		skip();
	check(way);
}

#define WAY(id, ...) \
static void id##_gradients(void **state) { (void)state; check_way(gradients_match, &(struct way){ .name = __VA_ARGS__ }); } \
static void id##_ten_steps(void **state) { (void)state; check_way(losses_match, &(struct way){ .name = __VA_ARGS__ }); }
WAY(gpt_tiny, "gpt-tiny")
WAY(gpt_tiny_flash, "gpt-tiny", .flash = true)
WAY(gpt_drop, "gpt-drop")
WAY(gpt_drop_flash, "gpt-drop", .flash = true)
WAY(bert_tiny, "bert-tiny")
WAY(bert_tiny_masked, "bert-tiny", .masked = true)
WAY(bert_tiny_flash, "bert-tiny", .flash = true)
WAY(bert_drop, "bert-drop")
WAY(bert_drop_masked_flash, "bert-drop", .masked = true, .flash = true)
WAY(bert_lengths, "bert-lengths")
WAY(bert_lengths_masked, "bert-lengths", .masked = true)
WAY(bert_lengths_flash, "bert-lengths", .flash = true)
WAY(bert_lengths_masked_flash, "bert-lengths", .masked = true, .flash = true)

/* Samples, bit by bit: ids, targets and lengths of many shapes, one hash each. */
static void samples_are_the_reference_s(void **state)
{
	const json_t *list = json_object_get(manifest, "data");

	(void)state;
	assert_true(json_array_size(list) > 5);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *c = json_array_get(list, i);
		int64_t T = tm_json_i64(c, "seq", 0), n = tm_json_i64(c, "n", 0), rows = n * T;
		struct model_config cfg = *model_preset(kind_of(c) == MODEL_GPT ? "gpt-tiny" : "bert-tiny");
		bool random = strcmp(tm_json_str(c, "lengths", "full"), "random") == 0;
		int32_t *all = tm_xcalloc((size_t)(2 * rows + n), sizeof *all);
		struct tm_err err = { 0 };
		struct data *d;
		char hex[65];

		cfg.vocab = tm_json_i64(c, "vocab", 0);
		assert_ok(data_new("synthetic", &cfg, T, random, (uint64_t)tm_json_i64(c, "seed", 0), &d, &err), &err);
		assert_int_equal(data_fill(d, tm_json_i64(c, "first", 0), n, T, all, all + rows, all + 2 * rows, &err),
				 tm_json_i64(c, "counted", 0));
		tm_sha256_hex(all, (size_t)(2 * rows + n) * sizeof *all, hex);
		if (strcmp(hex, tm_json_str(c, "sha256", "")))
			fail_msg("data %zu of the manifest (%s, seq %lld) differs", i, tm_json_str(c, "kind", ""), (long long)T);
		data_free(d);
		free(all);
	}
}

static void drawn_lengths_of_steps_are_the_reference_s(void **state)
{
	const json_t *c = json_object_get(manifest, "drawn"), *choices = json_object_get(c, "choices"), *seq;
	int64_t v[8];
	struct param_drawn drawn = { json_array_size(choices), v };

	(void)state;
	assert_true(drawn.n > 2 && drawn.n <= TM_ARRAY_N(v));
	for (size_t i = 0; i < drawn.n; i++)
		v[i] = json_integer_value(json_array_get(choices, i));
	seq = json_object_get(c, "seq");
	for (size_t i = 0; i < json_array_size(seq); i++)
		assert_int_equal(data_seq((uint64_t)tm_json_i64(c, "seed", 0), (int64_t)i, &drawn),
				 json_integer_value(json_array_get(seq, i)));
}

/* Initial weights, bit by bit: the two generators are one. */
static void weights_are_the_reference_s(void **state)
{
	const json_t *cases = json_object_get(manifest, "cases");

	(void)state;
	for (size_t i = 0; i < json_array_size(cases); i++) {
		const json_t *c = json_array_get(cases, i);
		struct tm_str all = TM_STR_INIT;
		struct tm_err err = { 0 };
		char hex[65];
		struct rig r;

		open_case(&r, c, &(struct way){ 0 });
		for (size_t p = 0; p < r.trainer->model->param_n; p++) {
			const struct tensor *w = &r.trainer->model->param[p].w;
			size_t bytes = (size_t)tensor_n(w) * sizeof(float);

			tm_str_reserve(&all, bytes);
			assert_ok(device_download(r.dev, all.s + all.n, w, bytes, &err), &err);
			all.n += bytes;
		}
		tm_sha256_hex(all.s, all.n, hex);
		assert_string_equal(hex, tm_json_str(c, "weights_sha256", ""));
		tm_str_free(&all);
		rig_close(&r);
	}
}

#ifdef TM_FAULTS
/* Which tensor must be named when an operation's sign is wrong. */
static const struct {
	enum device_op op;
	const char *name, *tensor;
	bool flash, masked;
} mutants[] = {
	{ .op = OP_embed_bwd, .name = "gpt-tiny", .tensor = "wte.weight" },
	{ .op = OP_norm_bwd, .name = "gpt-tiny", .tensor = "h.3.mlp.c_proj.weight" },
	{ .op = OP_linear_dx, .name = "gpt-tiny", .tensor = "ln_f.weight" },
	{ .op = OP_linear_dw, .name = "gpt-tiny", .tensor = "h.0.attn.c_attn.weight" },
	{ .op = OP_attention_bwd, .name = "gpt-tiny", .tensor = "h.3.attn.c_attn.weight" },
	{ .op = OP_gelu_bwd, .name = "gpt-tiny", .tensor = "h.3.mlp.c_fc.weight" },
	{ .op = OP_loss, .name = "gpt-tiny", .tensor = "ln_f.bias" },
	{ .op = OP_dropout_bwd, .name = "gpt-drop", .tensor = "h.1.mlp.c_proj.weight" },
	{ .op = OP_embed_bwd, .name = "bert-tiny", .tensor = "embeddings.word_embeddings.weight" },
	{ .op = OP_norm_bwd, .name = "bert-tiny", .tensor = "cls.predictions.transform.dense.weight" },
	{ .op = OP_linear_dx, .name = "bert-tiny", .tensor = "cls.predictions.transform.LayerNorm.weight" },
	{ .op = OP_linear_dw, .name = "bert-tiny", .tensor = "encoder.layer.0.attention.self.qkv.weight" },
	{ .op = OP_attention_bwd, .name = "bert-tiny", .tensor = "encoder.layer.1.attention.self.qkv.weight" },
	{ .op = OP_gelu_bwd, .name = "bert-tiny", .tensor = "cls.predictions.transform.dense.weight" },
	{ .op = OP_loss, .name = "bert-tiny", .tensor = "cls.predictions.bias" },
	{ .op = OP_dropout_bwd, .name = "bert-drop", .tensor = "encoder.layer.1.output.dense.weight" },
	{ .op = OP_flash_bwd, .name = "gpt-tiny", .tensor = "h.3.attn.c_attn.weight", .flash = true },
	{ .op = OP_flash_bwd, .name = "bert-lengths", .tensor = "encoder.layer.1.attention.self.qkv.weight", .flash = true },
	{ .op = OP_scatter_rows, .name = "bert-tiny", .tensor = "encoder.layer.1.output.LayerNorm.weight", .masked = true },
};

static void a_flipped_sign_is_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(mutants); i++) {
		struct way way = { mutants[i].name, mutants[i].flash, mutants[i].masked };
		const json_t *c = find_case(way.name);
		struct tensor_error bad[TENSORS_MAX];
		struct tm_err err = { 0 };
		struct rig r;
		int64_t counted;
		double worst;
		bool named = false;
		size_t n;

		if (!offered(&way))
			continue;
		open_case(&r, c, &way);
		device_mutate(mutants[i].op);
		assert_ok(trainer_gradients(r.trainer, 0, &counted, &err), &err);
		device_mutate(DEVICE_OP_N);
		n = compare(c, r.trainer, bad, &worst);
		for (size_t j = 0; j < n; j++)
			named |= !strcmp(bad[j].name, mutants[i].tensor);
		if (!named)
			fail_msg("%s: %s with its sign flipped: %zu tensors differ, %s is not among them",
				 mutants[i].name, device_op_name[mutants[i].op], n, mutants[i].tensor);
		print_message("%s: %s flipped: %zu tensors differ, first %s\n", mutants[i].name,
			      device_op_name[mutants[i].op], n, bad[0].name);
		rig_close(&r);
	}
}
#else
static void a_flipped_sign_is_named(void **state)
{
	(void)state;
	print_message("skipped: built without TIDEMARK_FAULTS\n");
	skip();
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weights_are_the_reference_s),
		cmocka_unit_test(samples_are_the_reference_s),
		cmocka_unit_test(drawn_lengths_of_steps_are_the_reference_s),
		cmocka_unit_test(gpt_tiny_gradients), cmocka_unit_test(gpt_tiny_ten_steps),
		cmocka_unit_test(gpt_tiny_flash_gradients), cmocka_unit_test(gpt_tiny_flash_ten_steps),
		cmocka_unit_test(gpt_drop_gradients), cmocka_unit_test(gpt_drop_ten_steps),
		cmocka_unit_test(gpt_drop_flash_gradients), cmocka_unit_test(gpt_drop_flash_ten_steps),
		cmocka_unit_test(bert_tiny_gradients), cmocka_unit_test(bert_tiny_ten_steps),
		cmocka_unit_test(bert_tiny_masked_gradients), cmocka_unit_test(bert_tiny_masked_ten_steps),
		cmocka_unit_test(bert_tiny_flash_gradients), cmocka_unit_test(bert_tiny_flash_ten_steps),
		cmocka_unit_test(bert_drop_gradients), cmocka_unit_test(bert_drop_ten_steps),
		cmocka_unit_test(bert_drop_masked_flash_gradients), cmocka_unit_test(bert_drop_masked_flash_ten_steps),
		cmocka_unit_test(bert_lengths_gradients), cmocka_unit_test(bert_lengths_ten_steps),
		cmocka_unit_test(bert_lengths_masked_gradients), cmocka_unit_test(bert_lengths_masked_ten_steps),
		cmocka_unit_test(bert_lengths_flash_gradients), cmocka_unit_test(bert_lengths_flash_ten_steps),
		cmocka_unit_test(bert_lengths_masked_flash_gradients), cmocka_unit_test(bert_lengths_masked_flash_ten_steps),
		cmocka_unit_test(a_flipped_sign_is_named),
	};

	return cmocka_run_group_tests(tests, load_manifest, drop_manifest);
}
