/*
 * The training step of GPT and BERT: data, micro-batches, forward and
 * backward, clipping, AdamW. One struct of options serves both workloads.
 */
#ifndef TM_TRAIN_H
#define TM_TRAIN_H

#include "model/model.h"
#include "param.h"
#include "workload.h"

#include <stdbool.h>

/* As in the parameter tables of gpt.c and bert.c; members carry the names of the parameters. */
struct train_opts {
	const char *model;
	int64_t layers, width, heads, context, vocab;   /* 0: the model's */
	double dropout;
	int64_t batch, accum;             /* samples a micro-batch, micro-batches a step */
	struct param_drawn seq;           /* tokens a sample */
	const char *data, *lengths, *mlm_positions;
	const char *precision, *attention, *checkpoint, *loss, *launch;
	const char *optimizer, *optimizer_state, *master;
	double lr, beta1, beta2, eps, momentum, weight_decay, clip;
	int64_t loss_scale, loss_scale_every;
	bool deterministic, gradients;
};

/* Loss scale of fp16 (Micikevicius et al. 2018): where it begins, its ends, and how soon it grows. */
#define TRAIN_SCALE_DEFAULT 65536
#define TRAIN_SCALE_DEFAULT_TEXT "65536"
#define TRAIN_SCALE_MIN 1
#define TRAIN_SCALE_MAX 16777216
#define TRAIN_SCALE_EVERY 2000
#define TRAIN_SCALE_EVERY_TEXT "2000"

#define TRAIN_INT(name_, def_, min_, max_, unit_, help_) \
	PARAM(train_opts, name_, .type = PARAM_INT, .def = def_, .min = min_, .max = max_, .unit = unit_, .help = help_)
#define TRAIN_REAL(name_, def_, min_, max_, help_) \
	PARAM(train_opts, name_, .type = PARAM_REAL, .def = def_, .min = min_, .max = max_, .unit = "", .help = help_)
#define TRAIN_CHOICE(name_, def_, help_, ...) \
	PARAM(train_opts, name_, .type = PARAM_CHOICE, .def = def_, .help = help_, \
	      .choices = (const char *const[]){ __VA_ARGS__, NULL })

/* What GPT and BERT have in common; a table adds model, seq, data and its own defaults. */
#define TRAIN_PARAMS_SHAPE \
	TRAIN_INT(layers, "0", 0, 1024, "", "number of layers; 0: the model's"), \
	TRAIN_INT(width, "0", 0, 65536, "", "width of the residual stream, a multiple of heads; 0: the model's"), \
	TRAIN_INT(heads, "0", 0, 1024, "", "attention heads; 0: the model's"), \
	TRAIN_INT(context, "0", 0, 1048576, "tokens", "rows of the position table; 0: the model's"), \
	TRAIN_INT(vocab, "0", 0, 16777216, "tokens", \
		  "vocabulary; tables are padded to a multiple of 128; 0: the model's"), \
	TRAIN_REAL(dropout, "0", 0, 0.99, "rate of every dropout: embedding, attention, both branches"), \
	TRAIN_INT(batch, "8", 1, 65536, "samples", "samples in a micro-batch"), \
	PARAM(train_opts, seq, .type = PARAM_INT, .drawn = true, .def = "128", .min = 1, .max = 1048576, \
	      .unit = "tokens", .help = "tokens in a sample, at most context; {choices: [64, 128]}: one drawn in each step"), \
	TRAIN_INT(accum, "1", 1, 1024, "", "micro-batches whose gradients are summed for one update")

#define TRAIN_PARAM_DATA \
	TRAIN_CHOICE(data, "synthetic", "synthetic: drawn tokens; text:PATH: bytes of a file or of a folder's files; " \
		     "llmc:FILE: a token file of llm.c", "synthetic", "text:text", "llmc:text")

#define TRAIN_PARAMS_METHOD \
	TRAIN_CHOICE(precision, "fp32", \
		     "type of the numbers: bf16 and fp16 store weights, activations and gradients in 16 bits", \
		     "fp32", "tf32", "bf16", "fp16", "bf16-pure"), \
	TRAIN_CHOICE(attention, "materialised", \
		     "materialised: writes the probabilities of all pairs; flash: one number a row instead", \
		     "materialised", "flash", "math=materialised", "sdpa=flash"), \
	PARAM(train_opts, checkpoint, .type = PARAM_CHOICE, .def = "none", .same_numbers = true, \
	      .help = "what backward makes again instead of keeping it, from gelu to block ever more; every:K keeps the input of one " \
	      "layer in K; budget:SIZE is refused by this version", \
	      .choices = (const char *const[]){ "none", "gelu", "gelu+ln", "mlp", "mlp+qkv", "selective", "block", \
						"every:int", "budget:size", NULL }), \
	TRAIN_CHOICE(loss, "full", "full: the logits of all positions at once; chunked:N: in N pieces, one after the other", \
		     "full", "chunked:int"), \
	PARAM(train_opts, launch, .type = PARAM_CHOICE, .def = "eager", .same_numbers = true, \
	      .help = "eager: operation by operation; graph: the whole step recorded once and launched again (device cuda)", \
	      .choices = (const char *const[]){ "eager", "graph", NULL }), \
	TRAIN_CHOICE(optimizer, "adamw", "adamw: two moments, decoupled decay of matrices; sgd: one moment with momentum, else none", \
		     "adamw", "sgd"), \
	TRAIN_REAL(momentum, "0", 0, 0.9999999, "of sgd; 0: no moment"), \
	TRAIN_CHOICE(optimizer_state, "fp32", "type of the moments; bf16: rounded stochastically", "fp32", "bf16"), \
	PARAM(train_opts, master, .type = PARAM_CHOICE, .def = "fp32", .same_numbers = true, \
	      .help = "behind 16-bit weights; fp32: a whole copy, split: the 16 bits that a bf16 weight lacks of it", \
	      .choices = (const char *const[]){ "fp32", "split", NULL }), \
	TRAIN_INT(loss_scale, TRAIN_SCALE_DEFAULT_TEXT, 1, TRAIN_SCALE_MAX, "", \
		  "of fp16: what gradients are multiplied by at first, a power of two"), \
	TRAIN_INT(loss_scale_every, TRAIN_SCALE_EVERY_TEXT, 1, 1000000000, "steps", \
		  "of fp16: steps without an overflow after which the scale doubles"), \
	PARAM(train_opts, deterministic, .type = PARAM_BOOL, .def = "true", \
	      .help = "the same bits in every run; the cpu device has no other mode")

#define TRAIN_PARAM_GRADIENTS \
	PARAM(train_opts, gradients, .type = PARAM_BOOL, .def = "false", .unhashed = true, \
	      .help = "report the SHA-256 of all gradients at every step")

/* The model's shape: preset, then overrides. TM_EINVALID and *bad. */
int train_config(const struct train_opts *opts, enum model_kind kind, struct model_config *out,
		 const char **bad, struct tm_err *err);
/* What follows from the options alone. */
bool train_masked_only(const struct train_opts *opts);            /* only chosen positions go through the head */
bool train_random_lengths(const struct train_opts *opts);
bool train_scaled(const struct train_opts *opts);                 /* the loss is scaled: fp16 */
int64_t train_seq_min(const struct train_opts *opts);             /* the shortest step's */
int64_t train_head_rows(const struct train_opts *opts, int64_t seq);      /* of a micro-batch, through the head */

/* How numbers are kept and what is made when. cfg as by train_config. TM_EINVALID and *bad. */
int train_method(const struct train_opts *opts, const struct model_config *cfg, struct model_method *out,
		 const char **bad, struct tm_err *err);
/* Everything that can be known before a run starts; opens no file but looks at it. TM_EINVALID and *bad. */
int train_check(const struct train_opts *opts, enum model_kind kind, const char **bad, struct tm_err *err);
/* And what the device that is to carry it out does not have. TM_EINVALID with the alternatives, and *bad. */
int train_check_device(const struct train_opts *opts, enum model_kind kind, const struct device_workspaces *device, const char **bad,
		       struct tm_err *err);
/* Nor does every allocator do for what was chosen. TM_EINVALID with the alternatives, and *bad. */
int train_check_allocator(const struct train_opts *opts, const char *allocator, const char **bad, struct tm_err *err);

/* An update's numbers, from the options (optim.h). */
struct optim {
	bool sgd;                         /* else AdamW */
	float lr, beta1, beta2, eps, momentum;
	float weight_decay;               /* of matrices; vectors (biases, norms) do not decay */
	float clip;                       /* largest norm of all gradients together; 0: no clipping */
	uint64_t seed;                    /* of stochastic rounding */
};

/* Loss scale of fp16 (scale.h). */
struct loss_scale {
	struct tensor state;              /* of op_scale_update; absent: nothing is scaled */
	float value;                      /* that the next step runs with, as far as the host knows; 0: none */
	int64_t every;
};

/* One step's samples on the host (batch.h). Arrays are NULL on a device that computes nothing. */
struct host_batch {
	bool bert, drawn;                 /* drawn: the arrays are there */
	int64_t seq;                      /* T of the step */
	int64_t tokens;                   /* without padding; all of them where nothing is drawn */
	int64_t counted;                  /* targets that count */
	double pairs;                     /* Σ over samples of their tokens squared */
	int32_t *ids, *targets;           /* (accum, B, T) */
	int32_t *lengths;                 /* (accum, B) */
	int32_t *types;                   /* (B,T) of zeros; BERT only */
	int32_t *rows, *row_targets;      /* one micro-batch's; where only chosen positions go through the head */
};

struct watch;

/* How a step gets to the device (launch.h). */
enum launch_mode { LAUNCH_EAGER, LAUNCH_RECORD, LAUNCH_AGAIN };
struct launch {
	bool graph;
	enum launch_mode mode;            /* of the step that is under way */
	int64_t steps;                    /* gone through */
	struct device_graph *recorded;    /* NULL: none yet */
	uint64_t digest, driver_frees;    /* of the recorded step; before this one */
	struct mem_block *result;         /* accum + 1, of which only the address counts */
};

struct trainer {
	struct train_opts opts;           /* strings owned by the caller */
	struct model_config cfg;
	struct device *dev;
	struct model *model;
	struct data *data;                /* NULL on a device that computes nothing */
	struct optim optim;
	struct loss_scale scale;
	struct watch *watch;
	struct launch launch;
	uint64_t seed;
	int64_t updates;                  /* that were taken */
	struct host_batch host;
	struct tensor *losses;            /* accum; each the shape of its targets; alive during a step only */
	struct tensor squares;            /* of the gradients, likewise */
	const char *cause;                /* of the `fail` event, where a step refused to go on */
	/* For tests only: every how many steps a gradient is made infinite, from step 0; 0: never. */
	int64_t test_overflow_every;
};

/* dev->mem must be set. Parameters are born here, in phase "load". */
int trainer_new(const struct train_opts *opts, enum model_kind kind, struct device *dev, uint64_t seed,
		struct trainer **out, struct tm_err *err);
void trainer_free(struct trainer *t);     /* NULL is fine */

struct train_result {
	int64_t tokens, samples;
	bool has_loss;                    /* false on a device that computes nothing */
	double loss;                      /* mean over counted targets, nats */
	double scale;                     /* loss scale of this step; 0: none */
	bool skipped;                     /* the update was not taken: gradients overflowed under the scale */
	double flops;                     /* that the step needs, without recomputation */
	char grad_hash[65];               /* with opts.gradients; else "" */
};
/*
 * Step i, from 0: its data and dropout depend on i and the seed alone.
 * TM_EINVALID, with trainer->cause, where the step did not do its work (watch.h)
 * or the loss scale is at its end. A loss that is not finite is handed out and nothing else judged.
 */
int trainer_step(struct trainer *t, int64_t i, struct train_result *out, struct tm_err *err);

/*
 * The first part of a step alone: gradients of step i (before clipping, still
 * multiplied by the loss scale) and losses stay in the trainer until
 * trainer_drop_step. *counted: targets that count. For those who want to see
 * gradients.
 */
int trainer_gradients(struct trainer *t, int64_t i, int64_t *counted, struct tm_err *err);
/* What a micro-batch multiplies its sum of losses by, before any loss scale: the mean over the step's counted targets. */
float train_loss_scale(const struct trainer *t);
/* Sum of the losses that stay, nats, in double and in order. Waits for the device. */
int trainer_loss_sum(struct trainer *t, double *sum, struct tm_err *err);
void trainer_drop_step(struct trainer *t);

/* The callbacks of a workload whose options are struct train_opts. */
int train_workload_init(struct run *run, enum model_kind kind, struct tm_err *err);
int train_workload_step(struct run *run, int64_t i, struct step_result *out, struct tm_err *err);
bool train_workload_varies(const void *opts);
int train_workload_check_allocator(const void *opts, const char *allocator, const char **bad, struct tm_err *err);
int train_workload_metrics(struct run *run, json_t *metrics, struct tm_err *err);
void train_workload_fini(struct run *run);

#endif
