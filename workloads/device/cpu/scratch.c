/* One block a thread, side by side in one allocation; pages come when they are first touched. */
#include "device/cpu/scratch.h"

#include <omp.h>
#include <stdlib.h>

enum { CACHE_LINE = 64 };
_Static_assert(SCRATCH_FLOATS * sizeof(float) % CACHE_LINE == 0, "blocks begin at cache lines");

int scratch_open(struct device *dev, struct tm_err *err)
{
	dev->priv = aligned_alloc(CACHE_LINE, (size_t)dev->threads * SCRATCH_FLOATS * sizeof(float));
	if (!dev->priv)
		return tm_fail(err, TM_ENOMEM, "no host memory for the scratch of %d threads", dev->threads);
	return 0;
}

void scratch_close(struct device *dev)
{
	free(dev->priv);
	dev->priv = NULL;
}

float *scratch_of(const struct device *dev)
{
	int thread = omp_get_thread_num();

	BUG_ON(thread >= dev->threads);
	return (float *)dev->priv + (size_t)thread * SCRATCH_FLOATS;
}
