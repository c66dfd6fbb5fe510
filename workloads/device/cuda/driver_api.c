#include "device/cuda/driver_api.h"

#include <string.h>

/* Virtual memory management came with CUDA 10.2; none of these has changed since. */
#define SINCE 10020

static bool find(const char *name, void *out)
{
	enum cudaDriverEntryPointQueryResult found;
	void *p = NULL;

#if CUDART_VERSION >= 12050
	int code = cudaGetDriverEntryPointByVersion(name, &p, SINCE, cudaEnableDefault, &found);
#else
	int code = cudaGetDriverEntryPoint(name, &p, cudaEnableDefault, &found);
#endif

	if (code != cudaSuccess) {
		cudaGetLastError();
		return false;
	}
	/* as dlsym: ISO C lets an object pointer hold a function only through a copy */
	memcpy(out, &p, sizeof p);
	return p && found == cudaDriverEntryPointSuccess;
}

void driver_api_find(struct driver_api *api, int ordinal)
{
	__typeof__(cuDeviceGet) *get;
	__typeof__(cuDeviceGetAttribute) *attribute;
	CUdevice card;
	int has = 0;

	*api = (struct driver_api){ 0 };
	if (!find("cuDeviceGet", &get) || !find("cuDeviceGetAttribute", &attribute) || get(&card, ordinal) != CUDA_SUCCESS ||
	    attribute(&has, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, card) != CUDA_SUCCESS || !has)
		return;
	if (!find("cuMemAddressReserve", &api->reserve) || !find("cuMemAddressFree", &api->release) ||
	    !find("cuMemCreate", &api->create) || !find("cuMemRelease", &api->drop) || !find("cuMemMap", &api->map) ||
	    !find("cuMemUnmap", &api->unmap) || !find("cuMemSetAccess", &api->set_access) ||
	    !find("cuMemGetAllocationGranularity", &api->granularity))
		*api = (struct driver_api){ 0 };
}
