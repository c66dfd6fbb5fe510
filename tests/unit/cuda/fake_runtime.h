/*
 * A CUDA runtime without a card, in place of the library's functions of the same
 * names (the linker takes a program's own first). Queued copies are done when
 * somebody waits for them and not before, the latest that a card may do them.
 */
#ifndef TM_TEST_FAKE_RUNTIME_H
#define TM_TEST_FAKE_RUNTIME_H

#include "test.h"

#include "device/cuda/driver_api.h"

#include <stdlib.h>
#include <string.h>

static struct fake {
	int count_code, driver_version, cards, prop_code, context_code, compute_mode, major, minor;
	int last_error;                   /* what cudaGetLastError tells, once */
	int copy_code;                    /* of every cudaMemcpyAsync */
	int waits, stream_waits;          /* for events; for the stream */
	uint64_t memory, used;            /* of the card */
	long handles, mapped;             /* made and not given up; pages mapped */
	long ranges, pinned, events;
	int fail_create_at;               /* the n-th cuMemCreate from here is out of memory; 0: none */
	bool no_vmm;
} fake;

static inline int fake_code(int code)
{
	if (code != cudaSuccess)
		fake.last_error = code;
	return code;
}

/* ---- the queue ------------------------------------------------------------------ */

struct queued {
	void *dst;
	const void *src;
	size_t bytes;
	long mark;                        /* of an event; 0: a copy */
};

#define QUEUE_MAX 4096
static struct queued queue[QUEUE_MAX];
static size_t queue_n;
static long last_mark;

static inline void queue_add(struct queued q)
{
	assert_true(queue_n < QUEUE_MAX);
	queue[queue_n++] = q;
}

/* All that is queued up to a mark. */
static inline void queue_run(long mark)
{
	size_t n = 0;

	for (; n < queue_n; n++) {
		if (queue[n].mark > mark)
			break;
		if (!queue[n].mark)
			memcpy(queue[n].dst, queue[n].src, queue[n].bytes);
		if (queue[n].mark == mark) {
			n++;
			break;
		}
	}
	memmove(queue, queue + n, (queue_n - n) * sizeof *queue);
	queue_n -= n;
}

struct CUevent_st {
	long mark;
};

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	(void)kind, (void)stream;
	if (fake.copy_code)
		return fake_code(fake.copy_code);
	queue_add((struct queued){ dst, src, bytes, 0 });
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	(void)flags;
	*event = calloc(1, sizeof **event);
	fake.events++;
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	free(event);
	fake.events--;
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	(void)stream;
	event->mark = ++last_mark;
	queue_add((struct queued){ .mark = event->mark });
	return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	fake.waits++;
	queue_run(event->mark);
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	(void)stream;
	fake.stream_waits++;
	queue_run(LONG_MAX);
	return cudaSuccess;
}

/* ---- memory ---------------------------------------------------------------------- */

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
	(void)flags;
	*out = malloc(bytes);
	fake.pinned++;
	return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
	fake.pinned -= p != NULL;
	free(p);
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
	static uintptr_t next = 1ull << 40;

	if (bytes > fake.memory - fake.used)
		return fake_code(cudaErrorMemoryAllocation);
	fake.used += bytes;
	*out = (void *)next;
	next += (bytes + 0x1fffff) & ~(size_t)0x1fffff;
	return cudaSuccess;
}

/* Of which only the one with nothing to free is asked for its code. */
cudaError_t cudaFree(void *p)
{
	return p ? cudaSuccess : fake_code(fake.context_code);
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
	*left = fake.memory - fake.used;
	*total = fake.memory;
	return cudaSuccess;
}

/* ---- virtual memory management ------------------------------------------------------ */

static CUresult fake_reserve(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr hint, unsigned long long flags)
{
	static CUdeviceptr next = 1ull << 46;

	(void)align, (void)hint, (void)flags;
	*out = next;
	next += bytes + (1ull << 30);
	fake.ranges++;
	return CUDA_SUCCESS;
}

static CUresult fake_release(CUdeviceptr addr, size_t bytes)
{
	(void)addr, (void)bytes;
	fake.ranges--;
	return CUDA_SUCCESS;
}

#define PAGES_MAX 4096
static struct fake_page {
	CUdeviceptr addr;
	size_t bytes;
} pages[PAGES_MAX];

static CUresult fake_create(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
			    unsigned long long flags)
{
	(void)flags;
	assert_int_equal(prop->type, CU_MEM_ALLOCATION_TYPE_PINNED);
	if ((fake.fail_create_at && --fake.fail_create_at == 0) || bytes > fake.memory - fake.used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = bytes;
	fake.handles++;
	return CUDA_SUCCESS;
}

static CUresult fake_drop(CUmemGenericAllocationHandle handle)
{
	assert_true(handle > 0);
	fake.handles--;
	return CUDA_SUCCESS;
}

static CUresult fake_map(CUdeviceptr addr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
			 unsigned long long flags)
{
	(void)flags;
	assert_int_equal(offset, 0);
	assert_int_equal(handle, bytes);
	for (size_t i = 0; i < PAGES_MAX; i++)
		if (!pages[i].bytes) {
			pages[i] = (struct fake_page){ addr, bytes };
			fake.mapped++;
			fake.used += bytes;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_UNKNOWN;
}

/* A whole mapping or nothing, as the driver has it. */
static CUresult fake_unmap(CUdeviceptr addr, size_t bytes)
{
	for (size_t i = 0; i < PAGES_MAX; i++)
		if (pages[i].addr == addr && pages[i].bytes == bytes) {
			pages[i].bytes = 0;
			fake.mapped--;
			fake.used -= bytes;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_access(CUdeviceptr addr, size_t bytes, const CUmemAccessDesc *desc, size_t n)
{
	(void)addr, (void)bytes;
	assert_int_equal(n, 1);
	assert_int_equal(desc->flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	return CUDA_SUCCESS;
}

static CUresult fake_granularity(size_t *out, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags flags)
{
	(void)prop, (void)flags;
	*out = 2u << 20;
	return CUDA_SUCCESS;
}

static CUresult fake_device(CUdevice *out, int ordinal)
{
	*out = ordinal;
	return CUDA_SUCCESS;
}

static CUresult fake_attribute(int *out, CUdevice_attribute which, CUdevice card)
{
	(void)card;
	*out = which == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED && !fake.no_vmm;
	return CUDA_SUCCESS;
}

#define ENTRY(text, function) do { \
	if (!strcmp(name, text)) { \
		__typeof__(&function) f = function; \
		memcpy(out, &f, sizeof f); \
	} \
} while (0)

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version, unsigned long long flags,
					     enum cudaDriverEntryPointQueryResult *found)
{
	(void)version, (void)flags;
	*out = NULL;
	ENTRY("cuMemAddressReserve", fake_reserve);
	ENTRY("cuMemAddressFree", fake_release);
	ENTRY("cuMemCreate", fake_create);
	ENTRY("cuMemRelease", fake_drop);
	ENTRY("cuMemMap", fake_map);
	ENTRY("cuMemUnmap", fake_unmap);
	ENTRY("cuMemSetAccess", fake_access);
	ENTRY("cuMemGetAllocationGranularity", fake_granularity);
	ENTRY("cuDeviceGet", fake_device);
	ENTRY("cuDeviceGetAttribute", fake_attribute);
	*found = *out ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
	return cudaSuccess;
}

/* ---- the card ------------------------------------------------------------------------- */

cudaError_t cudaGetLastError(void)
{
	int code = fake.last_error;

	fake.last_error = cudaSuccess;
	return code;
}

cudaError_t cudaDriverGetVersion(int *version)
{
	*version = fake.driver_version;
	return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
	*n = fake.count_code ? 0 : fake.cards;
	return fake_code(fake.count_code);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int ordinal)
{
	*prop = (struct cudaDeviceProp){ .major = fake.major, .minor = fake.minor, .totalGlobalMem = fake.memory };
	snprintf(prop->name, sizeof prop->name, "Card %d", ordinal);
	return fake_code(fake.prop_code);
}

cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr which, int ordinal)
{
	(void)ordinal;
	*out = which == cudaDevAttrComputeMode ? fake.compute_mode : 0;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int ordinal)
{
	(void)ordinal;
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
	(void)flags;
	*out = NULL;
	return cudaSuccess;
}

#endif
