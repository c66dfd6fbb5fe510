/* The samples of one step on the host, and their way to the device micro-batch by micro-batch. */
#ifndef TM_BATCH_H
#define TM_BATCH_H

#include "train/data.h"
#include "train/train.h"

/*
 * Room for the longest step. On a device that computes nothing there is none,
 * and no sample is drawn: shapes are known without, and such a device asks for none of
 * the bytes. TM_EOOM where the host has no room.
 */
int batch_new(struct host_batch *h, const struct train_opts *o, enum model_kind kind, bool computes, struct tm_err *err);
void batch_free(struct host_batch *h);

/* Everything of step `step`: its tokens a sample, the samples, how many targets count. TM_EINPUT from the data. */
int batch_fill(struct host_batch *h, const struct train_opts *o, const struct data *data, uint64_t seed, int64_t step,
	       struct tm_err *err);

/* The tensors of micro-batch `micro` (category input, operator "input"); on an error the caller drops them. */
int batch_upload(const struct host_batch *h, const struct train_opts *o, struct device *dev, int64_t micro,
		 struct model_batch *b, struct tm_err *err);

/* The same uploads, in their order, into the slots of a recorded step from *slot on, which is moved behind them. */
int batch_feed(const struct host_batch *h, const struct train_opts *o, struct device *dev, int64_t micro,
	       struct device_graph *graph, size_t *slot, struct tm_err *err);

/*
 * Model FLOPs of the step as it stands in h: model_flops_per_token over its real
 * tokens, attention over each sample's own length. Where only chosen positions
 * go through the head, its two products (C·C and V·C numbers, once in N) count for those
 * positions instead of all tokens (docs/training-step.md).
 */
double batch_flops(const struct host_batch *h, const struct train_opts *o, const struct model_config *cfg);

#endif
