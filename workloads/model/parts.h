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
	struct tensor logits;             /* (B,T,V); after the loss its gradient */
	/* the head of BERT */
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

/* pass.c: what a layer and a head are made of */
void pass_op(struct pass *p, const char *op);
/* An activation (B,T,cols). */
int pass_tensor(struct pass *p, struct tensor *t, const char *name, int64_t cols);
/* An activation (B,T): one number a row. */
int pass_rows(struct pass *p, struct tensor *t, const char *name);
void pass_drop(struct pass *p, struct tensor *t);
/* Places that drop: the embedding, and three in a layer. */
enum place { PLACE_ATTENTION, PLACE_PROJ, PLACE_FC2, PLACE_N };
struct random_at pass_random(const struct pass *p, int64_t layer, enum place place);
struct random_at pass_random_embed(const struct pass *p);
int pass_linear(struct pass *p, struct tensor *y, const struct tensor *x, const struct model_affine *a);
/* Weight and bias gradients, born or added to. */
int pass_linear_dw(struct pass *p, struct model_affine *a, const struct tensor *dy, const struct tensor *x);
int pass_norm(struct pass *p, struct tensor *y, struct tensor *mean, struct tensor *rstd,
	      const struct tensor *x, const struct model_affine *a);
int pass_norm_bwd(struct pass *p, struct tensor *dx, const struct tensor *dy, const struct tensor *x,
		  const struct tensor *mean, const struct tensor *rstd, struct model_affine *a, bool accumulate);

/* block.c: layers */
int layer_forward(struct pass *p, int64_t layer);
int layer_backward(struct pass *p, int64_t layer);
/* The norm in front of the head, and its backward on p->d. */
int final_norm_forward(struct pass *p);
int final_norm_backward(struct pass *p);
void layer_drop(struct pass *p, int64_t layer);

/* gpt.c, bert.c. The head leaves logits and losses; its backward leaves p->d. */
struct model_ends {
	int (*embed)(struct pass *p);
	int (*head)(struct pass *p);
	int (*head_backward)(struct pass *p);
	int (*embed_backward)(struct pass *p);
};
extern const struct model_ends gpt_ends, bert_ends;

/* Softmax, losses and the gradient in place of the logits; drops the targets. */
int pass_loss(struct pass *p);

#endif
