/* Part of device/cuda/kernels.h, which is what to include. */
#ifndef TM_CUDA_KERNELS_POINTWISE_H
#define TM_CUDA_KERNELS_POINTWISE_H

#endif
