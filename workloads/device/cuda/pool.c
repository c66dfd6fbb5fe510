#include "device/cuda/pool.h"

#include "base/mem.h"

#include <stdlib.h>

struct cuda_pool {
	struct cuda *cuda;
	cudaMemPool_t pool;
};

bool cuda_pool_offered(const struct cuda *c)
{
	return c->prop.memoryPoolsSupported;
}

/*
 * Not the device's default pool, whose figures are also of what libraries take.
 * The threshold is what it keeps when a stream is waited for: everything, or
 * each step would begin by asking the driver again.
 */
int cuda_pool_new(struct cuda *c, struct cuda_pool **out, struct tm_err *err)
{
	struct cudaMemPoolProps props = {
		.allocType = cudaMemAllocationTypePinned, .location = { .type = cudaMemLocationTypeDevice, .id = c->ordinal },
	};
	struct cuda_pool *p = tm_xcalloc(1, sizeof *p);
	uint64_t all = UINT64_MAX;
	int rc = cuda_check(cudaMemPoolCreate(&p->pool, &props), "cudaMemPoolCreate", err);

	*out = NULL;
	p->cuda = c;
	if (!rc)
		rc = cuda_check(cudaMemPoolSetAttribute(p->pool, cudaMemPoolAttrReleaseThreshold, &all),
				"cudaMemPoolSetAttribute", err);
	if (rc) {
		cuda_pool_free(p);
		return rc;
	}
	*out = p;
	return 0;
}

void cuda_pool_free(struct cuda_pool *p)
{
	if (!p)
		return;
	cudaStreamSynchronize(p->cuda->stream);
	if (p->pool)
		cudaMemPoolDestroy(p->pool);
	free(p);
}

int cuda_pool_alloc(struct cuda_pool *p, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	void *got;
	int rc = cuda_check(cudaMallocFromPoolAsync(&got, bytes, p->pool, p->cuda->stream), "cudaMallocFromPoolAsync", err);

	if (!rc)
		*addr = (uint64_t)(uintptr_t)got;
	return rc;
}

int cuda_pool_return(struct cuda_pool *p, uint64_t addr)
{
	return cudaFreeAsync((void *)(uintptr_t)addr, p->cuda->stream);
}

static uint64_t attribute(const struct cuda_pool *p, enum cudaMemPoolAttr which)
{
	uint64_t value = 0;

	/* on a spoilt context it stays 0; the next operation tells */
	if (cudaMemPoolGetAttribute(p->pool, which, &value) != cudaSuccess)
		cudaGetLastError();
	return value;
}

void cuda_pool_look(const struct cuda_pool *p, struct mem_pool_usage *out)
{
	*out = (struct mem_pool_usage){
		.used = attribute(p, cudaMemPoolAttrUsedMemCurrent), .used_peak = attribute(p, cudaMemPoolAttrUsedMemHigh),
		.reserved = attribute(p, cudaMemPoolAttrReservedMemCurrent),
		.reserved_peak = attribute(p, cudaMemPoolAttrReservedMemHigh),
	};
}

uint64_t cuda_pool_held(const struct cuda_pool *p)
{
	return attribute(p, cudaMemPoolAttrReservedMemCurrent);
}

void cuda_pool_trim(struct cuda_pool *p)
{
	cudaStreamSynchronize(p->cuda->stream);
	cudaMemPoolTrimTo(p->pool, 0);
}
