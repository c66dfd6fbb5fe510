/*
 * Initial weights in every way of storing them: the draw is one and the same;
 * with a master the pair is the f32 weight to the bit, without one the weight
 * is its nearest neighbour.
 */
#include "rig.h"

#include "device/half.h"

static void *download(struct rig *r, const struct tensor *t)
{
	void *host = tm_xmalloc(tensor_bytes(t));
	struct tm_err err = { 0 };

	assert_ok(device_download(r->dev, host, t, tensor_bytes(t), &err), &err);
	return host;
}

static uint16_t expected_weight(const struct model_types *types, float exact)
{
	if (types->type == DT_F16)
		return f16_from_f32(exact);
	return types->master == MASTER_NONE ? bf16_from_f32(exact) : bf16_from_f32_away(exact);
}

static void assert_stored(struct rig *exact, struct rig *r, size_t i)
{
	const struct model_types *types = &r->trainer->model->how.types;
	const struct model_param *p = &r->trainer->model->param[i];
	float *want = download(exact, &exact->trainer->model->param[i].w);
	uint16_t *w = download(r, &p->w);
	void *master = types->master == MASTER_NONE ? NULL : download(r, &p->master);

	for (int64_t j = 0; j < tensor_n(&p->w); j++) {
		if (w[j] != expected_weight(types, want[j]))
			fail_msg("%s[%lld] is %04x of %a", p->name, (long long)j, w[j], (double)want[j]);
		if (types->master == MASTER_F32)
			assert_int_equal(f32_bits(((float *)master)[j]), f32_bits(want[j]));
		if (types->master == MASTER_SPLIT)
			assert_int_equal(((uint32_t)w[j] << 16) + (uint32_t)((int16_t *)master)[j], f32_bits(want[j]));
	}
	free(want);
	free(w);
	free(master);
}

static void weights_start_from_one_draw(void **state)
{
	static const struct { const char *precision, *master; enum dtype type; } ways[] = {
		{ "bf16", "fp32", DT_BF16 }, { "bf16", "split", DT_BF16 }, { "fp16", "fp32", DT_F16 },
		{ "bf16-pure", "fp32", DT_BF16 },
	};

	(void)state;
	for (size_t i = 0; i < 2 * TM_ARRAY_N(ways); i++) {
		enum model_kind kind = i % 2 ? MODEL_BERT : MODEL_GPT;
		struct train_opts o = rig_opts(kind);
		struct rig exact, r;

		o.layers = 1;
		o.width = 32;
		o.heads = 2;
		rig_open(&exact, &(struct rig_conf){ 0 }, &o, kind, 7);
		o.precision = ways[i / 2].precision;
		o.master = ways[i / 2].master;
		rig_open(&r, &(struct rig_conf){ 0 }, &o, kind, 7);
		assert_int_equal(r.trainer->model->how.types.type, ways[i / 2].type);
		for (size_t p = 0; p < r.trainer->model->param_n; p++)
			assert_stored(&exact, &r, p);
		rig_close(&exact);
		rig_close(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weights_start_from_one_draw),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
