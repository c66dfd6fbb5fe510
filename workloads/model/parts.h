/* What the files of this folder share; not for others. */
#ifndef TM_MODEL_PARTS_H
#define TM_MODEL_PARTS_H

#include "model/model.h"

/*
 * One forward and backward under way. The tensors are transients: present
 * only between the operation that makes them and the last that reads them;
 * pass_drop drops whatever is left after an error.
 */
struct pass {
	struct model *m;
	struct model_batch *b;
	struct tm_err *err;
	uint32_t replay;                  /* added to the dropout counter; 0 but in a test's replay */
	int64_t head_n;                   /* rows that go through the head: B·T, or the M of b->rows */
	struct tensor logits;             /* (head_n,V), or of one piece of rows; after the loss its gradient */
	/* the head of BERT: its rows (with masked_only), and what it makes of them */
	struct tensor gathered;
	struct tensor dense, act, act_norm, act_mean, act_rstd;
	/* gradients of activations */
	struct tensor d;                  /* of the residual stream (B,T,C) */
	struct tensor branch;             /* of what a branch adds to it (B,T,C) */
	struct tensor narrow;             /* inside the attention branch (B,T,C) */
	struct tensor wide;               /* of the widened part: (B,T,4C) or (B,T,3C) */
};

/* params.c */
int model_params_new(struct model *m, struct tm_err *err);
void model_params_free(struct model *m);
/* Allocates p->g where absent. *born: it is new and holds nothing yet. */
int model_gradient(struct model *m, struct model_param *p, bool *born, struct tm_err *err);
/* The same; a new one is filled with 0, for operations that only add. */
int model_gradient_zeroed(struct model *m, struct model_param *p, struct tm_err *err);

/*
 * initial.c: the values parameters start with, on their way from the host to
 * the device. The buffers grow to the largest parameter and serve them all.
 */
struct initial {
	float *exact;                     /* as drawn */
	uint16_t *half, *low;             /* what is stored: the weight's 16 bits, a split master's */
	size_t n;
};
/* Writes param[i].w and .master; nothing on a device that computes nothing. TM_EOOM: of host memory. */
int initial_fill(struct initial *host, struct model *m, size_t i, struct tm_err *err);
void initial_free(struct initial *host);

/* pass.c: what a layer and a head are made of */
void pass_op(struct pass *p, const char *op);
/* An activation (B,T,cols). */
int pass_tensor(struct pass *p, struct tensor *t, const char *name, int64_t cols);
/* An activation (B,T): one number a row. */
int pass_rows(struct pass *p, struct tensor *t, const char *name);
/* The same for the rows that go through the head: (head_n,cols), (head_n). */
int pass_head_tensor(struct pass *p, struct tensor *t, const char *name, int64_t cols);
int pass_head_rows(struct pass *p, struct tensor *t, const char *name);
void pass_drop(struct pass *p, struct tensor *t);
float pass_dropout(const struct pass *p);
/* Places that drop: the embedding, and three in a layer. */
enum place { PLACE_ATTENTION, PLACE_PROJ, PLACE_FC2, PLACE_N };
struct random_at pass_random(const struct pass *p, int64_t layer, enum place place);
struct random_at pass_random_embed(const struct pass *p);
int pass_linear(struct pass *p, struct tensor *y, const struct tensor *x, const struct model_affine *a);
int pass_linear_dx(struct pass *p, struct tensor *dx, const struct tensor *dy, const struct model_param *w,
		   bool accumulate);
/* Weight and bias gradients, born or added to. */
int pass_linear_dw(struct pass *p, struct model_affine *a, const struct tensor *dy, const struct tensor *x);
int pass_norm(struct pass *p, struct tensor *y, struct tensor *mean, struct tensor *rstd,
	      const struct tensor *x, const struct model_affine *a);
int pass_norm_bwd(struct pass *p, struct tensor *dx, const struct tensor *dy, const struct tensor *x,
		  const struct tensor *mean, const struct tensor *rstd, struct model_affine *a, bool accumulate);

/* block.c: all layers; backward on p->d. layers_drop: whatever is left of them and of the final norm. */
int layers_forward(struct pass *p);
int layers_backward(struct pass *p);
void layers_drop(struct pass *p);
/* The norm in front of the head, and its backward on p->d. */
int final_norm_forward(struct pass *p);
int final_norm_backward(struct pass *p);

/* gpt.c, bert.c. The head leaves what its backward needs; that leaves p->d. */
struct model_ends {
	int (*embed)(struct pass *p);
	int (*head)(struct pass *p);
	int (*head_backward)(struct pass *p);
	int (*embed_backward)(struct pass *p);
};
extern const struct model_ends gpt_ends, bert_ends;

/*
 * head.c: the tied table as classifier of x (head_n,C), and the losses.
 * Backward drops x behind its last reader and leaves the gradient of x in
 * p->d, born under `name`; it also drops the targets.
 */
int classifier_forward(struct pass *p, const struct tensor *x);
int classifier_backward(struct pass *p, struct tensor *x, const char *name);

#endif
