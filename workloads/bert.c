/*
 * bert: training steps of a BERT (Devlin et al. 2019) on its masked-token
 * task, post-LN, with every position through the head or the chosen ones
 * alone. The step is in train/ and model/; here are its parameters.
 */
#include "base/mem.h"
#include "train/train.h"

static const struct param params[] = {
	TRAIN_CHOICE(model, "bert-base", "shape, by the name of a published model",
		     "bert-base", "bert-large", "bert-tiny"),
	TRAIN_PARAMS_SHAPE,
	TRAIN_PARAM_DATA,
	TRAIN_CHOICE(lengths, "full", "full: every sample has seq tokens; random: a drawn number of them, the rest is padding",
		     "full", "random"),
	TRAIN_CHOICE(mlm_positions, "all", "which positions go through the head: all, or only those of masked tokens",
		     "all", "masked"),
	TRAIN_PARAMS_METHOD,
	TRAIN_REAL(lr, "0.0001", 0, 10, "learning rate, constant"),
	TRAIN_REAL(beta1, "0.9", 0, 0.9999999, "decay of the first moment"),
	TRAIN_REAL(beta2, "0.999", 0, 0.9999999, "decay of the second moment"),
	TRAIN_REAL(eps, "1e-8", 1e-16, 1, "added to the root of the second moment"),
	TRAIN_REAL(weight_decay, "0.01", 0, 10, "decoupled decay of matrices, tables included"),
	TRAIN_REAL(clip, "1", 0, 1e9, "largest norm of all gradients together; 0: no clipping"),
	TRAIN_PARAM_GRADIENTS,
};

static int check(const void *opts, const char **bad, struct tm_err *err)
{
	return train_check(opts, MODEL_BERT, bad, err);
}

static int check_device(const void *opts, const struct device_workspaces *device, const char **bad, struct tm_err *err)
{
	return train_check_device(opts, MODEL_BERT, device, bad, err);
}

static int init(struct run *run, struct tm_err *err)
{
	return train_workload_init(run, MODEL_BERT, err);
}

static void describe(json_t *workload)
{
	json_object_set_new(workload, "presets", json_pack("{s:o}", "model", model_presets_describe(MODEL_BERT)));
	json_object_set_new(workload, "examples", json_pack("[s,s,s]",
		"tidemark run bert -s model=bert-tiny -a batch=8,16,32",
		"tidemark run bert -s model=bert-tiny -s data=text:/usr/share/common-licenses -a checkpoint=none,block",
		"tidemark run bert -s model=bert-tiny -s lengths=random -a mlm_positions=all,masked -a precision=fp32,bf16"));
}

static const struct workload bert = {
	.version = WORKLOAD_VERSION,
	.name = "bert",
	.help = "training steps of a BERT on masked tokens: post-LN, tied head, AdamW",
	.uses = WORKLOAD_MEMORY | WORKLOAD_DEVICE,
	.params = params,
	.param_n = TM_ARRAY_N(params),
	.opts_size = sizeof(struct train_opts),
	.check = check,
	.check_device = check_device,
	.check_allocator = train_workload_check_allocator,
	.init = init,
	.step = train_workload_step,
	.metrics = train_workload_metrics,
	.varies = train_workload_varies,
	.fini = train_workload_fini,
	.describe = describe,
};

__attribute__((constructor)) static void register_bert(void)
{
	workload_register(&bert);
}
