/*
 * What a card has in registers and shared memory, a CPU needs somewhere: the
 * f32 tiles of a product whose operands or result are not f32, the tiles of
 * scores of flash attention. One block a thread, of one size whatever the
 * shapes, made when the device is opened. It belongs to the device and is no
 * device memory, so no figure of a run shows it; what grows with a shape must
 * come from the run's allocator as a workspace (ops.h).
 */
#ifndef TM_CPU_SCRATCH_H
#define TM_CPU_SCRATCH_H

#include "device/device.h"

/* Room for three tiles: gemm.c and flash.h say how they cut it up. 1.25 MiB, of which L2 holds what is in use at a time. */
enum { SCRATCH_FLOATS = 320 * 1024 };

/* For dev->threads threads; TM_ENOMEM. */
int scratch_open(struct device *dev, struct tm_err *err);
void scratch_close(struct device *dev);

/* The calling thread's, within a parallel region of dev->threads threads. Aligned to a cache line. */
float *scratch_of(const struct device *dev);

#endif
