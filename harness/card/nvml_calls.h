/*
 * The functions that are looked up, one line each: our name, its names in the
 * library from the newest to the oldest, and the arguments. A function that is
 * missing is a NULL in struct nvml_calls.
 */
#ifndef TM_CARD_NVML_CALLS_H
#define TM_CARD_NVML_CALLS_H

#include "card/nvml_types.h"

#define NVML_CALLS(X) \
	X(init, "nvmlInit_v2", "nvmlInit", (void)) \
	X(shutdown, "nvmlShutdown", NULL, (void)) \
	X(driver, "nvmlSystemGetDriverVersion", NULL, (char *out, unsigned size)) \
	X(cuda, "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion", (int *out)) \
	X(count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", (unsigned *out)) \
	X(by_index, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex", (unsigned i, nvml_handle *out)) \
	X(mig_max, "nvmlDeviceGetMaxMigDeviceCount", NULL, (nvml_handle card, unsigned *out)) \
	X(mig_at, "nvmlDeviceGetMigDeviceHandleByIndex", NULL, (nvml_handle card, unsigned i, nvml_handle *out)) \
	X(name, "nvmlDeviceGetName", NULL, (nvml_handle card, char *out, unsigned size)) \
	X(uuid, "nvmlDeviceGetUUID", NULL, (nvml_handle card, char *out, unsigned size)) \
	X(pci, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", (nvml_handle card, struct nvml_pci *out)) \
	X(capability, "nvmlDeviceGetCudaComputeCapability", NULL, (nvml_handle card, int *major, int *minor)) \
	X(max_clock, "nvmlDeviceGetMaxClockInfo", NULL, (nvml_handle card, int clock, unsigned *mhz)) \
	X(power_limit, "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit", (nvml_handle card, unsigned *mw)) \
	X(ecc, "nvmlDeviceGetEccMode", NULL, (nvml_handle card, unsigned *now, unsigned *pending)) \
	X(mig, "nvmlDeviceGetMigMode", NULL, (nvml_handle card, unsigned *now, unsigned *pending)) \
	X(persistence, "nvmlDeviceGetPersistenceMode", NULL, (nvml_handle card, unsigned *out)) \
	X(compute_mode, "nvmlDeviceGetComputeMode", NULL, (nvml_handle card, unsigned *out)) \
	X(memory_v2, "nvmlDeviceGetMemoryInfo_v2", NULL, (nvml_handle card, struct nvml_memory_v2 *out)) \
	X(memory_v1, "nvmlDeviceGetMemoryInfo", NULL, (nvml_handle card, struct nvml_memory_v1 *out)) \
	X(clock, "nvmlDeviceGetClockInfo", NULL, (nvml_handle card, int clock, unsigned *mhz)) \
	X(power, "nvmlDeviceGetPowerUsage", NULL, (nvml_handle card, unsigned *mw)) \
	X(temperature, "nvmlDeviceGetTemperature", NULL, (nvml_handle card, int sensor, unsigned *celsius)) \
	X(reasons, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons", \
	  (nvml_handle card, unsigned long long *out)) \
	X(energy, "nvmlDeviceGetTotalEnergyConsumption", NULL, (nvml_handle card, unsigned long long *mj)) \
	X(users, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", \
	  (nvml_handle card, unsigned *n, struct nvml_process *out)) \
	X(users_v1, "nvmlDeviceGetComputeRunningProcesses", NULL, \
	  (nvml_handle card, unsigned *n, struct nvml_process_v1 *out)) \
	X(gpm_support, "nvmlGpmQueryDeviceSupport", NULL, (nvml_handle card, struct nvml_gpm_support *out)) \
	X(gpm_alloc, "nvmlGpmSampleAlloc", NULL, (nvml_gpm_handle *out)) \
	X(gpm_free, "nvmlGpmSampleFree", NULL, (nvml_gpm_handle sample)) \
	X(gpm_take, "nvmlGpmSampleGet", NULL, (nvml_handle card, nvml_gpm_handle sample)) \
	X(gpm_get, "nvmlGpmMetricsGet", NULL, (struct nvml_gpm_get *get))

struct nvml_calls {
#define X(name, symbol, older, args) int (*name) args;
	NVML_CALLS(X)
#undef X
};

#endif
