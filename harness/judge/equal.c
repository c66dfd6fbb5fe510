/* Bit by bit. Why so: equal.h. */
#include "judge/equal.h"

#include "base/num.h"

#include <math.h>
#include <string.h>

/* -1: none */
static int64_t first_loss(const struct judge_trail *a, const struct judge_trail *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++)
		if (!isnan(a->loss[i]) && !isnan(b->loss[i]) && memcmp(&a->loss[i], &b->loss[i], sizeof *a->loss))
			return (int64_t)i;
	return -1;
}

static int64_t first_gradient(const struct judge_trail *a, const struct judge_trail *b)
{
	size_t i = 0, j = 0;

	while (i < a->grad_n && j < b->grad_n) {
		const struct judge_grad *x = &a->grads[i], *y = &b->grads[j];

		if (x->step == y->step && strcmp(x->hash, y->hash))
			return x->step;
		i += x->step <= y->step;
		j += y->step <= x->step;
	}
	return -1;
}

void judge_compare(const struct judge_trail *here, const struct judge_trail *there, struct judge_difference *out)
{
	int64_t loss = first_loss(here, there), gradient = first_gradient(here, there);

	*out = (struct judge_difference){ .step = -1, .here = NAN, .there = NAN };
	if (gradient >= 0 && (loss < 0 || gradient < loss)) {
		out->step = gradient;
		out->what = "gradients";
	} else if (loss >= 0) {
		out->step = loss;
		out->what = "loss";
		out->here = here->loss[loss];
		out->there = there->loss[loss];
	}
}

void judge_difference_text(const struct judge_difference *d, const char *reference, struct tm_str *out)
{
	tm_str_addf(out, "differs from %s from step %lld", reference, (long long)d->step);
	if (strcmp(d->what, "loss")) {
		tm_str_addf(out, " (%s)", d->what);
		return;
	}
	tm_str_add(out, " (loss ");
	tm_add_double(out, d->here);
	tm_str_add(out, ", there ");
	tm_add_double(out, d->there);
	tm_str_addc(out, ')');
}
