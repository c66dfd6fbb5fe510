/* A map from addresses to numbers, for blocks that live. Open addressing, no tombstones. */
#ifndef TM_SNAP_ADDRESSES_H
#define TM_SNAP_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct snap_address { uint64_t addr, value; };

/* Zero-initialise. An address is at most INT64_MAX. */
struct snap_addresses {
	struct snap_address *slot;        /* addr is stored + 1; 0: free */
	size_t cap, n;
};

void snap_addresses_put(struct snap_addresses *m, uint64_t addr, uint64_t value);        /* replaces */
bool snap_addresses_get(const struct snap_addresses *m, uint64_t addr, uint64_t *value);
/* True, and *value (may be NULL): it was there and is no more. */
bool snap_addresses_take(struct snap_addresses *m, uint64_t addr, uint64_t *value);
/* The next one from *at on, in no order; *at starts at 0. False: no more. */
bool snap_addresses_next(const struct snap_addresses *m, size_t *at, uint64_t *addr, uint64_t *value);
void snap_addresses_free(struct snap_addresses *m);

#endif
