/* How the CPU device is found when it is an object of its own (device.h, DEVICE_ENTRY). */
#include "device/cpu/cpu.h"

const struct device_backend *tidemark_device_backend(void)
{
	return &device_cpu;
}
