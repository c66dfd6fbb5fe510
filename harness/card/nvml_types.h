/*
 * The part of NVML's binary interface that is used here, declared by
 * ourselves: the header is not on every machine that has the library, and
 * the harness is built where neither is. Layouts and numbers are those of
 * NVIDIA's NVML reference; they do not change between drivers, newer ones add
 * functions with another suffix (_v2, _v3).
 */
#ifndef TM_CARD_NVML_TYPES_H
#define TM_CARD_NVML_TYPES_H

typedef struct nvml_device *nvml_handle;
typedef struct nvml_gpm_sample *nvml_gpm_handle;

enum nvml_code {
	NVML_OK = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_TIMEOUT = 10,
	NVML_LIBRARY_NOT_FOUND = 12,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_OPERATING_SYSTEM = 17,
	NVML_VERSION_MISMATCH = 18,       /* the library and the kernel's driver differ */
	NVML_MEMORY = 20,
	NVML_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_UNKNOWN = 999,
};

enum nvml_clock { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };

/* Why the clocks are not higher: bits. */
enum nvml_reason {
	NVML_REASON_IDLE = 0x1,
	NVML_REASON_SETTING = 0x2,        /* somebody set application clocks */
	NVML_REASON_POWER_CAP = 0x4,
	NVML_REASON_HW_SLOWDOWN = 0x8,
	NVML_REASON_SYNC_BOOST = 0x10,
	NVML_REASON_SW_THERMAL = 0x20,
	NVML_REASON_HW_THERMAL = 0x40,
	NVML_REASON_POWER_BRAKE = 0x80,
	NVML_REASON_DISPLAY = 0x100,
};

struct nvml_memory_v1 { unsigned long long total, free, used; };
/* `used` without what the driver keeps for itself (`reserved`). */
struct nvml_memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

struct nvml_pci {
	char bus_id_legacy[16];
	unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
	char bus_id[32];
};

/* Of the _v2 and _v3 calls. */
struct nvml_process {
	unsigned pid;
	unsigned long long used;          /* NVML_NO_VALUE where it is not known */
	unsigned gpu_instance, compute_instance;
};
struct nvml_process_v1 { unsigned pid; unsigned long long used; };
#define NVML_NO_VALUE (~0ull)

enum nvml_gpm_metric { NVML_GPM_SM = 2, NVML_GPM_TENSOR = 5, NVML_GPM_DRAM = 10 };

struct nvml_gpm_value {
	unsigned metric;
	int code;
	double value;                     /* per cent */
	struct { char *short_name, *long_name, *unit; } info;
};

/* The driver's array has room for every metric it knows (98 to 333 so far) and n of them are used; ours has more. */
struct nvml_gpm_get {
	unsigned version, n;
	nvml_gpm_handle from, to;
	struct nvml_gpm_value value[512];
};

struct nvml_gpm_support { unsigned version, supported; };

/* A struct's version member: its size and number. */
#define NVML_STRUCT_VERSION(type, number) ((unsigned)(sizeof(type) | ((unsigned)(number) << 24)))

#endif
