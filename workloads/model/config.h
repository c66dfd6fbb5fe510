/* The shape of a model: presets, overrides, and what follows from a shape. */
#ifndef TM_MODEL_CONFIG_H
#define TM_MODEL_CONFIG_H

#include "base/err.h"

#include <jansson.h>
#include <stdint.h>

enum model_kind { MODEL_GPT, MODEL_BERT };

/* The vocabulary of tables and logits is rounded up to this, so that every GEMM has aligned columns. */
#define MODEL_VOCAB_ALIGN 128

/* Token numbers above the 256 bytes. BERT needs them whatever the data; GPT for text only. */
enum model_token { TOKEN_PAD = 256, TOKEN_MASK = 257, TOKEN_CLS = 258, TOKEN_SEP = 259, TOKEN_N = 260 };

struct model_config {
	enum model_kind kind;
	int64_t layers, width, heads;
	int64_t context;                  /* rows of the position table: the longest sequence, tokens */
	int64_t vocab;                    /* tokens that exist; never padded */
	double dropout;
};

/* NULL where there is no such preset. The dropout of a preset is 0. */
const struct model_config *model_preset(const char *name);
/* {"gpt-tiny": {"layers": 4, …}, …} of one kind, for the description. */
json_t *model_presets_describe(enum model_kind kind);

/*
 * Refuses a shape that cannot be built; *bad is the member to blame
 * ("width"). TM_EINVALID.
 */
int model_config_check(const struct model_config *cfg, const char **bad, struct tm_err *err);

/* For checks such as that one: *bad = param where bad is wanted. Returns TM_EINVALID. */
int model_blame(const char **bad, const char *param);

/* Vocabulary rounded up to MODEL_VOCAB_ALIGN: V in every shape. */
int64_t model_vocab_padded(const struct model_config *cfg);

/* Trainable numbers at the true vocabulary (N of the FLOP rules), tied table counted once. */
int64_t model_parameter_n(const struct model_config *cfg);

/*
 * Model FLOPs of forward and backward for one token at sequence length T:
 * 6 N + 12 · L · C · T (Chowdhery et al. 2022, PaLM, appendix B): attention
 * counted in full whether causal or not, recomputation not counted. With a
 * tied table N counts it once and it does one GEMM, the head.
 */
double model_flops_per_token(const struct model_config *cfg, int64_t seq);

#endif
