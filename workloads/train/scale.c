#include "train/scale.h"

int scale_new(struct loss_scale *s, struct device *dev, int64_t initial, int64_t every, struct tm_err *err)
{
	const float begin[SCALE_N] = { [SCALE_VALUE] = (float)initial };
	int rc;

	*s = (struct loss_scale){ .value = (float)initial, .every = every };
	mem_set_op(dev->mem, "init");
	rc = tensor_new(dev->mem, &s->state, MEM_OPTIMIZER, "loss.scale", DT_F32, err, 1, (int64_t)SCALE_N);
	if (!rc)
		rc = device_upload(dev, &s->state, begin, sizeof begin, err);
	if (rc)
		scale_drop(s, dev);
	return rc;
}

void scale_drop(struct loss_scale *s, struct device *dev)
{
	tensor_drop(dev->mem, &s->state);
}

int scale_update(struct loss_scale *s, struct device *dev, const struct tensor *squares, struct tensor *factor,
		 float max_norm, struct tm_err *err)
{
	return op_scale_update(dev, &(struct op_scale_update){
		.state = &s->state, .factor = factor, .squares = squares, .max_norm = max_norm,
		.growth = SCALE_GROWTH, .backoff = SCALE_BACKOFF, .floor = TRAIN_SCALE_MIN, .ceiling = TRAIN_SCALE_MAX,
		.growth_every = s->every }, err);
}

int scale_read(struct loss_scale *s, struct device *dev, bool *skipped, bool *at_floor, struct tm_err *err)
{
	float state[SCALE_N];
	int rc = device_download(dev, state, &s->state, sizeof state, err);

	if (rc)
		return rc;
	s->value = state[SCALE_VALUE];
	*skipped = state[SCALE_SKIP] != 0;
	*at_floor = state[SCALE_AT_FLOOR] != 0;
	return 0;
}
