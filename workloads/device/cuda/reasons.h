/* Why a card cannot be used (reasons.c): each writes its sentence and returns TM_EENV. */
#ifndef TM_CUDA_REASONS_H
#define TM_CUDA_REASONS_H

#include "device/cuda/cuda.h"

/* `code` of cudaGetDeviceCount; driver_version and runtime_version are known. cudaSuccess: it found none. */
int cuda_no_devices(const struct cuda *c, int code, struct tm_err *err);
/* What follows the colon names none of the n cards. */
int cuda_no_ordinal(const char *arg, int n, struct tm_err *err);
/* The rest knows prop. `code`: what making the context returned. */
int cuda_no_context(const struct cuda *c, int code, struct tm_err *err);
int cuda_no_kernels(const struct cuda *c, struct tm_err *err);
/* `type`: the name of one that the card is too old for. */
int cuda_no_type(const struct cuda *c, const char *type, struct tm_err *err);

/* Whether kernels compiled for these (as in TIDEMARK_CUDA_ARCHS) run on a card of this capability. */
bool cuda_arch_runs(const char *archs, int major, int minor);

#endif
