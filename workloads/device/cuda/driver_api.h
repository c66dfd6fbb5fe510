/*
 * The few functions of the driver that the runtime does not offer. They are
 * asked for when there is a driver: to link libcuda would keep the object from
 * being loaded where there is none, and then nobody could say so.
 */
#ifndef TM_CUDA_DRIVER_API_H
#define TM_CUDA_DRIVER_API_H

#include "device/cuda/cuda.h"

#include <cuda.h>

struct driver_api {
	__typeof__(cuMemAddressReserve) *reserve;
	__typeof__(cuMemAddressFree) *release;
	__typeof__(cuMemCreate) *create;
	__typeof__(cuMemRelease) *drop;
	__typeof__(cuMemMap) *map;
	__typeof__(cuMemUnmap) *unmap;
	__typeof__(cuMemSetAccess) *set_access;
	__typeof__(cuMemGetAllocationGranularity) *granularity;
};

/* All of them, or all NULL where the driver or the card lacks virtual memory management. */
void driver_api_find(struct driver_api *api, int ordinal);

#endif
