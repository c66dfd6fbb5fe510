/* Part of device/cuda/kernels.h, which is what to include. */
#ifndef TM_CUDA_KERNELS_EMBED_H
#define TM_CUDA_KERNELS_EMBED_H

#endif
