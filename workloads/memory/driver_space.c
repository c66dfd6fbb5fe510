/*
 * A driver in a virtual address range: nothing is ever touched. Its top lies
 * where drivers place device memory on 64-bit Linux, so that addresses in
 * traces look like those of a card. The range is far larger than any capacity
 * so that only the capacity refuses, never fragmentation of addresses: a
 * driver maps physical pages wherever it likes.
 */
#include "memory/driver.h"

#include "base/mem.h"
#include "memory/space.h"

#include <stdlib.h>

#define SPACE_LOW  0x100000000000ull
#define SPACE_HIGH 0x7f0000000000ull
#define SPACE_GRANULE 512u

struct driver_space {
	struct mem_driver driver;
	struct space space;
	uint64_t capacity, granularity;
};

static uint64_t shown(const struct driver_space *d, uint64_t bytes)
{
	return (bytes + d->granularity - 1) & ~(d->granularity - 1);
}

static int space_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct driver_space *d = (struct driver_space *)drv;

	uint64_t left = d->capacity - drv->held;

	if (bytes > left || shown(d, bytes) > left)
		return tm_fail(err, TM_EOOM, "the device has %llu of %llu bytes left",
			       (unsigned long long)left, (unsigned long long)d->capacity);
	if (!space_take(&d->space, bytes, addr))
		return tm_fail(err, TM_EOOM, "no range of %llu addresses is left", (unsigned long long)bytes);
	drv->held += shown(d, bytes);
	return 0;
}

static void space_free(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	struct driver_space *d = (struct driver_space *)drv;

	space_give(&d->space, addr, bytes);
	drv->held -= shown(d, bytes);
}

static void space_info(struct mem_driver *drv, uint64_t *total, uint64_t *unused)
{
	const struct driver_space *d = (const struct driver_space *)drv;

	*total = d->capacity;
	*unused = d->capacity - drv->held;
}

static void space_close(struct mem_driver *drv)
{
	struct driver_space *d = (struct driver_space *)drv;

	space_fini(&d->space);
	free(d);
}

struct mem_driver *driver_space_new(uint64_t capacity_bytes, uint64_t granularity_bytes)
{
	struct driver_space *d = tm_xcalloc(1, sizeof *d);

	BUG_ON(capacity_bytes == 0);
	BUG_ON(granularity_bytes < SPACE_GRANULE || granularity_bytes > DRIVER_GRANULARITY_MAX ||
	       (granularity_bytes & (granularity_bytes - 1)));
	d->driver = (struct mem_driver){ .alloc = space_alloc, .free = space_free, .info = space_info, .close = space_close };
	d->capacity = capacity_bytes;
	d->granularity = granularity_bytes;
	space_init(&d->space, SPACE_LOW, SPACE_HIGH, SPACE_GRANULE);
	return &d->driver;
}
