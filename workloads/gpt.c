/*
 * gpt: training steps of a GPT-2 (Radford et al. 2019), pre-LN, tied head,
 * causal attention. The step is in train/ and model/; here are its parameters.
 */
#include "base/mem.h"
#include "train/train.h"

static const struct param params[] = {
	TRAIN_CHOICE(model, "gpt2-124m", "shape, by the name of a published model",
		     "gpt2-124m", "gpt2-355m", "gpt2-774m", "gpt2-1.5b", "gpt-tiny"),
	TRAIN_PARAMS_SHAPE,
	TRAIN_PARAM_DATA,
	TRAIN_PARAMS_METHOD,
	TRAIN_REAL(lr, "0.0003", 0, 10, "learning rate, constant"),
	TRAIN_REAL(beta1, "0.9", 0, 0.9999999, "decay of the first moment"),
	TRAIN_REAL(beta2, "0.95", 0, 0.9999999, "decay of the second moment"),
	TRAIN_REAL(eps, "1e-8", 1e-16, 1, "added to the root of the second moment"),
	TRAIN_REAL(weight_decay, "0.1", 0, 10, "decoupled decay of matrices, tables included"),
	TRAIN_REAL(clip, "1", 0, 1e9, "largest norm of all gradients together; 0: no clipping"),
	TRAIN_PARAM_GRADIENTS,
};

static int check(const void *opts, const char **bad, struct tm_err *err)
{
	return train_check(opts, MODEL_GPT, bad, err);
}

static int check_device(const void *opts, const struct device_workspaces *device, const char **bad, struct tm_err *err)
{
	return train_check_device(opts, MODEL_GPT, device, bad, err);
}

static int init(struct run *run, struct tm_err *err)
{
	return train_workload_init(run, MODEL_GPT, err);
}

static void describe(json_t *workload)
{
	json_object_set_new(workload, "presets", json_pack("{s:o}", "model", model_presets_describe(MODEL_GPT)));
	json_object_set_new(workload, "examples", json_pack("[s,s,s]",
		"tidemark run gpt -s model=gpt-tiny -a batch=2,4,8",
		"tidemark run gpt -s model=gpt-tiny -s data=text:/usr/share/common-licenses -a checkpoint=none,block",
		"tidemark plan gpt -a precision=fp32,bf16 -a attention=materialised,flash -a checkpoint=none,gelu+ln,block"));
}

static const struct workload gpt = {
	.version = WORKLOAD_VERSION,
	.name = "gpt",
	.help = "training steps of a GPT-2: causal, pre-LN, tied head, AdamW",
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

__attribute__((constructor)) static void register_gpt(void)
{
	workload_register(&gpt);
}
