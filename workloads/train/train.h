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
	int64_t batch, seq, accum;        /* samples a micro-batch, tokens a sample, micro-batches a step */
	const char *data, *lengths;
	const char *precision, *attention, *checkpoint, *loss;
	const char *optimizer;
	double lr, beta1, beta2, eps, weight_decay, clip;
	bool gradients;
};

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
	TRAIN_INT(seq, "128", 1, 1048576, "tokens", "tokens in a sample, at most context"), \
	TRAIN_INT(accum, "1", 1, 1024, "", "micro-batches whose gradients are summed for one update")

#define TRAIN_PARAMS_METHOD \
	TRAIN_CHOICE(precision, "fp32", "type of weights and activations", "fp32"), \
	TRAIN_CHOICE(attention, "materialised", "materialised writes the probabilities of all pairs", \
		     "materialised", "math=materialised"), \
	TRAIN_CHOICE(checkpoint, "none", \
		     "what is kept for backward: none recomputes nothing, block keeps a layer's input only", \
		     "none", "block"), \
	TRAIN_CHOICE(loss, "full", "full computes the logits of all positions at once", "full"), \
	TRAIN_CHOICE(optimizer, "adamw", "adamw: decoupled weight decay on matrices, two moments in fp32", "adamw")

#define TRAIN_PARAM_GRADIENTS \
	PARAM(train_opts, gradients, .type = PARAM_BOOL, .def = "false", .unhashed = true, \
	      .help = "report the SHA-256 of all gradients at every step")

/* The model's shape: preset, then overrides. TM_EINVALID and *bad. */
int train_config(const struct train_opts *opts, enum model_kind kind, struct model_config *out,
		 const char **bad, struct tm_err *err);
/* Everything that can be known before a run starts; opens no file but looks at it. TM_EINVALID and *bad. */
int train_check(const struct train_opts *opts, enum model_kind kind, const char **bad, struct tm_err *err);

struct trainer {
	struct train_opts opts;           /* strings owned by the caller */
	struct model_config cfg;
	struct device *dev;
	struct model *model;
	struct data *data;
	int64_t updates;                  /* optimiser steps taken */
	int32_t *ids, *targets;           /* one step's, on the host: (accum, B, T) */
	int32_t *types;                   /* (B,T) of zeros; BERT only */
	struct tensor *losses;            /* accum; each (B,T), alive during a step only */
};

/* dev->mem must be set. Parameters are born here, in phase "load". */
int trainer_new(const struct train_opts *opts, enum model_kind kind, struct device *dev, uint64_t seed,
		struct trainer **out, struct tm_err *err);
void trainer_free(struct trainer *t);     /* NULL is fine */

struct train_result {
	int64_t tokens, samples;
	bool has_loss;                    /* false on a device that computes nothing */
	double loss;                      /* mean over counted targets, nats */
	char grad_hash[65];               /* with opts.gradients; else "" */
};
/* Step i, from 0: its data and dropout depend on i and the seed alone. */
int trainer_step(struct trainer *t, int64_t i, struct train_result *out, struct tm_err *err);

/*
 * The first part of a step alone: gradients of step i (before clipping) and
 * losses stay in the trainer until trainer_drop_step. *counted: targets that
 * count. For those who want to see gradients.
 */
int trainer_gradients(struct trainer *t, int64_t i, int64_t *counted, struct tm_err *err);
/* Sum of the losses that stay, nats, in double and in order. Waits for the device. */
int trainer_loss_sum(struct trainer *t, double *sum, struct tm_err *err);
void trainer_drop_step(struct trainer *t);

/* The callbacks of a workload whose options are struct train_opts. */
int train_workload_init(struct run *run, enum model_kind kind, struct tm_err *err);
int train_workload_step(struct run *run, int64_t i, struct step_result *out, struct tm_err *err);
int train_workload_metrics(struct run *run, json_t *metrics, struct tm_err *err);
void train_workload_fini(struct run *run);

#endif
