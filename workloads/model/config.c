/*
 * Shapes of the published models (Radford et al. 2019; Devlin et al. 2019)
 * and two small ones for tests, quick starts and golden numbers.
 */
#include "model/config.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>


static const struct {
	const char *name;
	struct model_config cfg;
} presets[] = {
	/*                kind        L   C     H   context vocab */
	{ "gpt2-124m",  { MODEL_GPT,  12, 768,  12, 1024, 50257, 0 } },
	{ "gpt2-355m",  { MODEL_GPT,  24, 1024, 16, 1024, 50257, 0 } },
	{ "gpt2-774m",  { MODEL_GPT,  36, 1280, 20, 1024, 50257, 0 } },
	{ "gpt2-1.5b",  { MODEL_GPT,  48, 1600, 25, 1024, 50257, 0 } },
	{ "gpt-tiny",   { MODEL_GPT,  4,  128,  4,  256,  384,   0 } },
	{ "bert-base",  { MODEL_BERT, 12, 768,  12, 512,  30522, 0 } },
	{ "bert-large", { MODEL_BERT, 24, 1024, 16, 512,  30522, 0 } },
	{ "bert-tiny",  { MODEL_BERT, 2,  128,  2,  128,  384,   0 } },
};

const struct model_config *model_preset(const char *name)
{
	for (size_t i = 0; i < TM_ARRAY_N(presets); i++)
		if (!strcmp(presets[i].name, name))
			return &presets[i].cfg;
	return NULL;
}

json_t *model_presets_describe(enum model_kind kind)
{
	json_t *all = json_object();

	for (size_t i = 0; i < TM_ARRAY_N(presets); i++) {
		const struct model_config *c = &presets[i].cfg;

		if (c->kind != kind)
			continue;
		json_object_set_new(all, presets[i].name,
			json_pack("{s:I,s:I,s:I,s:I,s:I}", "layers", (json_int_t)c->layers,
				  "width", (json_int_t)c->width, "heads", (json_int_t)c->heads,
				  "context", (json_int_t)c->context, "vocab", (json_int_t)c->vocab));
	}
	return all;
}

int model_blame(const char **bad, const char *param)
{
	if (bad)
		*bad = param;
	return TM_EINVALID;
}

int model_config_check(const struct model_config *c, const char **bad, struct tm_err *err)
{
	const struct { const char *name; int64_t v, max; } sizes[] = {
		{ "layers", c->layers, 1024 }, { "width", c->width, 65536 }, { "heads", c->heads, 1024 },
		{ "context", c->context, 1 << 20 }, { "vocab", c->vocab, 1 << 24 },
	};

	/* The limits keep every product below 2^63, so that sizes need no further checks. */
	for (size_t i = 0; i < TM_ARRAY_N(sizes); i++) {
		if (sizes[i].v >= 1 && sizes[i].v <= sizes[i].max)
			continue;
		tm_fail(err, TM_EINVALID, "%s %" PRId64 ": expected 1 to %" PRId64,
			sizes[i].name, sizes[i].v, sizes[i].max);
		return model_blame(bad, sizes[i].name);
	}
	if (c->width < c->heads) {
		tm_fail(err, TM_EINVALID, "width %" PRId64 " is less than the %" PRId64 " heads; the smallest width is %"
			PRId64, c->width, c->heads, c->heads);
		return model_blame(bad, "width");
	}
	if (c->width % c->heads) {
		int64_t below = c->width / c->heads * c->heads;

		tm_fail(err, TM_EINVALID, "width %" PRId64 " cannot be divided by %" PRId64 " heads; "
			"the nearest widths are %" PRId64 " and %" PRId64, c->width, c->heads, below, below + c->heads);
		return model_blame(bad, "width");
	}
	if (!(c->dropout >= 0 && c->dropout < 1)) {
		tm_fail(err, TM_EINVALID, "dropout %g: expected 0 to less than 1", c->dropout);
		return model_blame(bad, "dropout");
	}
	if (c->kind == MODEL_BERT && c->vocab < TOKEN_N) {
		tm_fail(err, TM_EINVALID, "vocab %" PRId64 ": BERT needs at least %d tokens, "
			"256 bytes and the specials PAD, MASK, CLS and SEP", c->vocab, TOKEN_N);
		return model_blame(bad, "vocab");
	}
	return 0;
}

int64_t model_vocab_padded(const struct model_config *c)
{
	return (c->vocab + MODEL_VOCAB_ALIGN - 1) / MODEL_VOCAB_ALIGN * MODEL_VOCAB_ALIGN;
}

int64_t model_parameter_n(const struct model_config *c)
{
	int64_t C = c->width;
	/* qkv, projection, fc1, fc2 with biases (12 C² + 9 C), two norms (4 C) */
	int64_t n = c->layers * (12 * C * C + 13 * C);

	n += (c->vocab + c->context) * C + 2 * C;       /* tables; final or embedding norm */
	if (c->kind == MODEL_BERT)                      /* types; dense, norm and bias of the head */
		n += 2 * C + C * C + 3 * C + c->vocab;
	return n;
}

double model_flops_per_token(const struct model_config *c, int64_t seq)
{
	return 6.0 * (double)model_parameter_n(c) + 12.0 * (double)c->layers * (double)c->width * (double)seq;
}
