/* Which slot an address belongs to: a hash table that forgets nothing. Private to replay. */
#ifndef TM_ADDRESSES_H
#define TM_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

#define ADDRESSES_FREE UINT32_MAX         /* known, but nothing is there now */

struct address {
	uint64_t addr;
	uint32_t slot;
	uint32_t used;                    /* 0: an empty place of the table */
};

/* Zero-initialise. */
struct addresses {
	struct address *v;
	size_t n, size;                   /* size: a power of two, or 0 */
};

void addresses_fini(struct addresses *a);
/* NULL: never seen. Valid until the next addresses_add. */
struct address *addresses_find(const struct addresses *a, uint64_t addr);
/* One that is not known yet. */
struct address *addresses_add(struct addresses *a, uint64_t addr);

#endif
