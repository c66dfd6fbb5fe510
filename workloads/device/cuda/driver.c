/*
 * The card's memory for the allocators: cudaMalloc for segments, and addresses
 * and memory apart (CUDA virtual memory management) for segments that grow.
 *
 * Work may be queued that uses what is given back. cudaFree waits for it by
 * itself; unmapping does not, so it is waited for here. An allocator gives
 * memory back rarely, and a step in steady state never.
 *
 * A mapping can only be undone as a whole, so memory is made and mapped page by
 * page, in the pages that the policy gives memory back in.
 */
#include "device/cuda/driver_api.h"
#include "device/cuda/pool.h"

#include "base/mem.h"

#include <stdlib.h>

/* Reserved addresses and the pages in which memory comes to them. */
struct range {
	uint64_t addr, bytes, page;
	struct range *next;
};

struct driver_cuda {
	struct mem_driver driver;
	struct cuda *cuda;
	struct driver_api api;
	uint64_t granularity;             /* of memory that is mapped; a power of two */
	struct range *ranges;
	struct cuda_pool *pool;           /* NULL before the first request of a policy that uses it */
};

static struct driver_cuda *self(struct mem_driver *drv)
{
	return (struct driver_cuda *)drv;
}

static void *at(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/*
 * What has to succeed, since nothing was asked that the driver may refuse. A
 * context that a kernel has spoilt refuses everything; that error is told by the
 * next operation.
 */
static void expect(int code, const char *what)
{
	if (code == cudaErrorInvalidValue || code == cudaErrorInvalidDevicePointer)
		BUG("%s: %s", what, cudaGetErrorName(code));
	if (code != cudaSuccess)
		cudaGetLastError();
}

/* ---- segments ---------------------------------------------------------------- */

static uint64_t shown(const struct driver_cuda *d, uint64_t bytes)
{
	return (bytes + d->granularity - 1) & ~(d->granularity - 1);
}

static int cuda_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	void *p;
	int rc = cuda_check(cudaMalloc(&p, bytes), "cudaMalloc", err);

	if (rc)
		return rc;
	*addr = (uint64_t)(uintptr_t)p;
	drv->held += shown(self(drv), bytes);
	return 0;
}

static void cuda_free(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	expect(cudaFree(at(addr)), "cudaFree");
	drv->held -= shown(self(drv), bytes);
}

static void cuda_info(struct mem_driver *drv, uint64_t *total, uint64_t *unused)
{
	size_t there = 0, left = 0;

	(void)drv;
	if (cudaMemGetInfo(&left, &there) != cudaSuccess)
		cudaGetLastError();
	*total = there;
	*unused = left;
}

/* ---- addresses and memory apart ------------------------------------------------ */

static struct range *range_of(struct driver_cuda *d, uint64_t addr)
{
	struct range *r = d->ranges;

	while (r && (addr < r->addr || addr >= r->addr + r->bytes))
		r = r->next;
	BUG_ON(!r);
	return r;
}

static int cuda_reserve(struct mem_driver *drv, uint64_t bytes, uint64_t page, uint64_t *addr, struct tm_err *err)
{
	struct driver_cuda *d = self(drv);
	CUdeviceptr got;
	struct range *r;
	int rc;

	BUG_ON(page % d->granularity || bytes % page);
	rc = cuda_check((int)d->api.reserve(&got, bytes, 0, 0, 0), "cuMemAddressReserve", err);
	if (rc)
		return rc;
	r = tm_xmalloc(sizeof *r);
	*r = (struct range){ .addr = got, .bytes = bytes, .page = page, .next = d->ranges };
	d->ranges = r;
	*addr = got;
	return 0;
}

static CUmemAllocationProp on_card(const struct driver_cuda *d)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->cuda->ordinal },
	};
}

/* The handle is given up at once: the mapping keeps the memory, and unmapping it gives it back. */
static int map_page(struct driver_cuda *d, uint64_t addr, uint64_t page, struct tm_err *err)
{
	CUmemAllocationProp prop = on_card(d);
	CUmemGenericAllocationHandle handle;
	int rc = cuda_check((int)d->api.create(&handle, page, &prop, 0), "cuMemCreate", err);

	if (rc)
		return rc;
	rc = cuda_check((int)d->api.map(addr, page, 0, handle, 0), "cuMemMap", err);
	expect((int)d->api.drop(handle), "cuMemRelease");
	return rc;
}

static void unmap_pages(struct driver_cuda *d, uint64_t addr, uint64_t bytes, uint64_t page)
{
	for (uint64_t i = 0; i < bytes; i += page)
		expect((int)d->api.unmap(addr + i, page), "cuMemUnmap");
}

static int cuda_map(struct mem_driver *drv, uint64_t addr, uint64_t bytes, struct tm_err *err)
{
	struct driver_cuda *d = self(drv);
	uint64_t page = range_of(d, addr)->page, done = 0;
	CUmemAccessDesc access = { .location = on_card(d).location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	int rc = 0;

	BUG_ON(bytes % page);
	while (done < bytes && !rc) {
		rc = map_page(d, addr + done, page, err);
		if (!rc)
			done += page;
	}
	if (!rc)
		rc = cuda_check((int)d->api.set_access(addr, bytes, &access, 1), "cuMemSetAccess", err);
	if (rc) {
		unmap_pages(d, addr, done, page);
		return rc;
	}
	drv->held += bytes;
	return 0;
}

static void cuda_unmap(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	struct driver_cuda *d = self(drv);

	expect(cudaStreamSynchronize(d->cuda->stream), "cudaStreamSynchronize");
	unmap_pages(d, addr, bytes, range_of(d, addr)->page);
	drv->held -= bytes;
}

static void cuda_release(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	struct driver_cuda *d = self(drv);
	struct range *r = range_of(d, addr), **link = &d->ranges;

	BUG_ON(r->addr != addr || r->bytes != bytes);
	expect((int)d->api.release(addr, bytes), "cuMemAddressFree");
	while (*link != r)
		link = &(*link)->next;
	*link = r->next;
	free(r);
}

/* ---- the driver's own pool ------------------------------------------------------- */

static int cuda_pool_take(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct driver_cuda *d = self(drv);
	int rc = d->pool ? 0 : cuda_pool_new(d->cuda, &d->pool, err);

	if (!rc)
		rc = cuda_pool_alloc(d->pool, bytes, addr, err);
	if (d->pool)
		drv->held = cuda_pool_held(d->pool);
	return rc;
}

static void cuda_pool_give(struct mem_driver *drv, uint64_t addr)
{
	expect(cuda_pool_return(self(drv)->pool, addr), "cudaFreeAsync");
}

static void cuda_pool_usage(struct mem_driver *drv, struct mem_pool_usage *out)
{
	struct driver_cuda *d = self(drv);

	*out = (struct mem_pool_usage){ 0 };
	if (d->pool)
		cuda_pool_look(d->pool, out);
}

static void cuda_pool_empty(struct mem_driver *drv)
{
	struct driver_cuda *d = self(drv);

	if (!d->pool)
		return;
	cuda_pool_trim(d->pool);
	drv->held = cuda_pool_held(d->pool);
}

/* ---- life --------------------------------------------------------------------------- */

static void cuda_driver_close(struct mem_driver *drv)
{
	struct driver_cuda *d = self(drv);

	cuda_pool_free(d->pool);
	while (d->ranges)
		cuda_release(drv, d->ranges->addr, d->ranges->bytes);
	free(d);
}

/* Without virtual memory management, as on old drivers, segments cannot grow and a policy that wants it says so. */
static int find_granularity(struct driver_cuda *d, struct tm_err *err)
{
	CUmemAllocationProp prop = on_card(d);
	size_t bytes = 0;
	int rc;

	d->granularity = 2u << 20;
	if (!d->api.create)
		return 0;
	rc = cuda_check((int)d->api.granularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
			"cuMemGetAllocationGranularity", err);
	if (!rc && bytes && !(bytes & (bytes - 1)))
		d->granularity = bytes;
	return rc;
}

struct mem_driver *cuda_driver_new(struct device *dev, struct tm_err *err)
{
	struct driver_cuda *d = tm_xcalloc(1, sizeof *d);

	d->cuda = cuda_of(dev);
	driver_api_find(&d->api, d->cuda->ordinal);
	if (find_granularity(d, err)) {
		free(d);
		return NULL;
	}
	d->driver = (struct mem_driver){
		.alloc = cuda_alloc, .free = cuda_free, .info = cuda_info, .close = cuda_driver_close,
	};
	if (d->api.create) {
		d->driver.reserve = cuda_reserve;
		d->driver.map = cuda_map;
		d->driver.unmap = cuda_unmap;
		d->driver.release = cuda_release;
	}
	if (cuda_pool_offered(d->cuda)) {
		d->driver.pool_alloc = cuda_pool_take;
		d->driver.pool_free = cuda_pool_give;
		d->driver.pool_usage = cuda_pool_usage;
		d->driver.pool_empty = cuda_pool_empty;
	}
	return &d->driver;
}
