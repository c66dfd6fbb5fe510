/* Pinned memory between host and card (staging.c); no other part copies. */
#ifndef TM_CUDA_STAGING_H
#define TM_CUDA_STAGING_H

#include "device/cuda/cuda.h"

/* Pinned memory of the program, beside what it copies. */
#define STAGING_RING_BYTES  (16u << 20)   /* on the way up */
#define STAGING_PIECE_BYTES (4u << 20)    /* of a copy; and each half of the way down */

int cuda_staging_new(struct cuda *c, struct tm_err *err);      /* sets c->staging, whole or NULL */
void cuda_staging_free(struct cuda *c);                        /* fine without one; waits for copies under way */

/*
 * Queues the copy on the stream. When it returns, src may be changed; it has
 * waited only if more than the ring holds is still on its way.
 */
int cuda_staging_up(struct cuda *c, void *dst, const void *src, uint64_t bytes, struct tm_err *err);
/* Waits for everything queued before, and has the bytes when it returns. */
int cuda_staging_down(struct cuda *c, void *dst, const void *src, uint64_t bytes, struct tm_err *err);

#endif
