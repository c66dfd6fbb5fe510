/* How the CUDA device is found in its shared object (device.h, DEVICE_ENTRY). */
#include "device/cuda/cuda.h"

extern const struct device_backend device_cuda;

const struct device_backend *tidemark_device_backend(void)
{
	return &device_cuda;
}
