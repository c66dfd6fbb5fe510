/*
 * SHA-256 of a stream. libmd computes it at some 150 MB/s, half of what a
 * snapshot is read with; processors of the last ten years have instructions
 * for it, which are used where they are there. Same digest either way.
 */
#ifndef TM_SNAP_DIGEST_H
#define TM_SNAP_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sha2.h>

struct snap_digest {
	bool fast;
	SHA2_CTX slow;
	uint32_t state[8];
	uint64_t bytes;
	uint8_t rest[64];                 /* bytes % 64 of them wait for a whole block */
};

void snap_digest_init(struct snap_digest *d);
/* The same without the processor's instructions; for tests. */
void snap_digest_init_slow(struct snap_digest *d);
void snap_digest_add(struct snap_digest *d, const void *p, size_t n);
/* 64 hex digits and a NUL; d is used up. */
void snap_digest_hex(struct snap_digest *d, char out[65]);

#endif
