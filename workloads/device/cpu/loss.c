/*
 * Softmax cross-entropy, one row of logits at a time: the loss is
 * log Σ exp(z - max) + max - z[target], the gradient softmax - onehot. The sum
 * and the logarithm are in double: with a vocabulary of 50,000 a float sum
 * would lose two digits.
 */
#include "device/cpu/cpu.h"
#include "device/cpu/softmax.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float loss_row(float *z, int64_t cols, int64_t vocab, int32_t target, float scale, bool grad)
{
	float max, loss;
	double sum;

	if (target >= vocab)
		BUG("loss: target %d, but a vocabulary of %lld", target, (long long)vocab);
	if (target < 0) {
		if (grad)
			memset(z, 0, (size_t)cols * sizeof *z);
		return 0;
	}
	max = row_max(z, vocab);
	if (!grad) {
		sum = row_exp_sum_only(z, max, vocab);
		return (float)(log(sum) + (double)max - (double)z[target]);
	}
	loss = max - z[target];
	sum = row_exp_sum(z, max, vocab);
	row_scale(z, (float)((double)scale / sum), vocab);
	z[target] -= scale;
	memset(z + vocab, 0, (size_t)(cols - vocab) * sizeof *z);
	return (float)(log(sum) + (double)loss);
}

int cpu_loss(struct device *dev, const struct op_loss *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->logits), cols = tensor_cols(a->logits);
	float scale = tensor_here(a->scale_by) ? a->scale * tensor_f32(a->scale_by)[0] : a->scale;
	float *losses = tensor_f32(a->losses);
	const int32_t *targets = tensor_i32(a->targets);

	(void)ws;
	(void)err;
	#pragma omp parallel num_threads(dev->threads) if(rows * cols >= CPU_SERIAL)
	{
		/* A row in f32, the vocabulary wide. */
		float *buf = a->logits->dtype == DT_F32 ? NULL : tm_xmalloc((size_t)cols * sizeof *buf);

		#pragma omp for
		for (int64_t r = 0; r < rows; r++) {
			float *z = cpu_update(a->logits, r * cols, cols, buf);

			losses[r] = loss_row(z, cols, a->vocab, targets[r], scale, a->grad);
			if (a->grad)
				cpu_store(a->logits, r * cols, cols, z);
		}
		free(buf);
	}
	return 0;
}
