/* The driver's own memory pool (cudaMallocAsync), for the policy async; driver.c hands it out. */
#ifndef TM_CUDA_POOL_H
#define TM_CUDA_POOL_H

#include "device/cuda/cuda.h"

struct cuda_pool;

bool cuda_pool_offered(const struct cuda *c);
/* A pool of its own, which keeps what it has until it is told otherwise. */
int cuda_pool_new(struct cuda *c, struct cuda_pool **out, struct tm_err *err);
void cuda_pool_free(struct cuda_pool *p);                      /* NULL is fine; waits for the stream */

/* Both in the order of the stream. The second returns the runtime's code. */
int cuda_pool_alloc(struct cuda_pool *p, uint64_t bytes, uint64_t *addr, struct tm_err *err);
int cuda_pool_return(struct cuda_pool *p, uint64_t addr);
void cuda_pool_look(const struct cuda_pool *p, struct mem_pool_usage *out);
uint64_t cuda_pool_held(const struct cuda_pool *p);            /* bytes that it has of the card now */
/* Gives back what nobody uses; waits for the stream, since that decides what nobody uses. */
void cuda_pool_trim(struct cuda_pool *p);

#endif
