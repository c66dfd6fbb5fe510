/*
 * Softmax cross-entropy, one row of logits at a time: the loss is
 * log Σ exp(z - max) + max - z[target], the gradient softmax - onehot. The sum
 * and the logarithm are in double: with a vocabulary of 50,000 a float sum
 * would lose two digits.
 */
#include "device/cpu/cpu.h"
#include "device/cpu/softmax.h"

#include <math.h>
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
	float *logits = tensor_f32(a->logits), *losses = tensor_f32(a->losses);
	const int32_t *targets = tensor_i32(a->targets);

	(void)ws;
	(void)err;
	#pragma omp parallel for num_threads(dev->threads) if(rows * cols >= CPU_SERIAL)
	for (int64_t r = 0; r < rows; r++)
		losses[r] = loss_row(logits + r * cols, cols, a->vocab, targets[r], a->scale, a->grad);
	return 0;
}
