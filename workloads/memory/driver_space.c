/*
 * Drivers in a virtual address range: nothing is ever touched. The top of the
 * range lies where drivers place device memory on 64-bit Linux, so that
 * addresses in traces look like those of a card. The range is far larger than
 * any capacity so that only the capacity refuses, never fragmentation of
 * addresses: a driver maps physical pages wherever it likes.
 *
 * Reserved ranges lie above everything that a process of today can address, so
 * that they are clear of segments, also of those that a recording brings, and
 * below 2^53, so that a browser's numbers still hold them.
 */
#include "memory/driver.h"

#include "base/mem.h"
#include "memory/space.h"

#include <stdlib.h>

#define SPACE_LOW  0x100000000000ull
#define SPACE_HIGH 0x7f0000000000ull
#define SPACE_GRANULE 512u

#define RESERVE_LOW  (1ull << 47)
#define RESERVE_HIGH (1ull << 52)
#define RESERVE_GRANULE (2u << 20)

/* A range that was there before the driver. */
struct claimed {
	struct keyset_node node;          /* (start) */
	uint64_t start, bytes;
};

struct driver_space {
	struct mem_driver driver;
	struct space space, reserved;
	struct keyset claimed;
	uint64_t capacity, granularity;
	driver_answer_fn *answer;         /* NULL: by the rule of space.h */
	void *arg;
};

static struct driver_space *self(struct mem_driver *drv)
{
	return (struct driver_space *)drv;
}

static uint64_t shown(const struct driver_space *d, uint64_t bytes)
{
	return (bytes + d->granularity - 1) & ~(d->granularity - 1);
}

static int room_for(const struct driver_space *d, uint64_t bytes, struct tm_err *err)
{
	uint64_t left = d->capacity - d->driver.held;

	if (bytes <= left && shown(d, bytes) <= left)
		return 0;
	return tm_fail(err, TM_EOOM, "the device has %llu of %llu bytes left",
		       (unsigned long long)left, (unsigned long long)d->capacity);
}

static int place(struct space *space, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	if (space_take(space, bytes, addr))
		return 0;
	return tm_fail(err, TM_EOOM, "no range of %llu addresses is left", (unsigned long long)bytes);
}

static int space_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct driver_space *d = self(drv);
	int rc;

	if (d->answer) {
		rc = d->answer(d->arg, DRIVER_ALLOC, bytes, addr, err);
	} else {
		rc = room_for(d, bytes, err);
		if (!rc)
			rc = place(&d->space, bytes, addr, err);
	}
	if (!rc)
		drv->held += shown(d, bytes);
	return rc;
}

static void tell(const struct driver_space *d, enum driver_call call, uint64_t addr, uint64_t bytes)
{
	if (d->answer)
		d->answer(d->arg, call, bytes, &addr, NULL);
}

/* True: the range was claimed, and is forgotten now. Its addresses are not given out again. */
static bool unclaim(struct driver_space *d, uint64_t addr, uint64_t bytes)
{
	struct keyset_node *node = keyset_lower_bound(&d->claimed, addr, 0, 0);
	struct claimed *range = node ? keyset_entry(node, struct claimed, node) : NULL;

	if (!range || range->start != addr)
		return false;
	BUG_ON(range->bytes != bytes);
	keyset_erase(&d->claimed, node);
	free(range);
	return true;
}

static void space_free(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	struct driver_space *d = self(drv);

	if (!unclaim(d, addr, bytes) && !d->answer)
		space_give(&d->space, addr, bytes);
	tell(d, DRIVER_FREE, addr, bytes);
	drv->held -= shown(d, bytes);
}

static int space_reserve(struct mem_driver *drv, uint64_t bytes, uint64_t page, uint64_t *addr, struct tm_err *err)
{
	struct driver_space *d = self(drv);

	(void)page;
	if (d->answer)
		return d->answer(d->arg, DRIVER_RESERVE, bytes, addr, err);
	return place(&d->reserved, bytes, addr, err);
}

static int space_map(struct mem_driver *drv, uint64_t addr, uint64_t bytes, struct tm_err *err)
{
	struct driver_space *d = self(drv);
	int rc = d->answer ? d->answer(d->arg, DRIVER_MAP, bytes, &addr, err) : room_for(d, bytes, err);

	if (!rc)
		drv->held += shown(d, bytes);
	return rc;
}

static void space_unmap(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	tell(self(drv), DRIVER_UNMAP, addr, bytes);
	drv->held -= shown(self(drv), bytes);
}

static void space_release(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	struct driver_space *d = self(drv);

	if (!unclaim(d, addr, bytes) && !d->answer)
		space_give(&d->reserved, addr, bytes);
	tell(d, DRIVER_RELEASE, addr, bytes);
}

/* New segments lie below old ones, so what is claimed lowers the top, as long as nothing was placed. */
static void lower_top(struct driver_space *d, uint64_t addr)
{
	uint64_t high = addr & ~(SPACE_CHUNK_BYTES - 1);

	if (d->space.chunks_made || high >= d->space.high || high <= d->space.low)
		return;
	space_fini(&d->space);
	space_init(&d->space, SPACE_LOW, high, SPACE_GRANULE);
}

static int space_claim(struct mem_driver *drv, uint64_t addr, uint64_t bytes, bool reserve, struct tm_err *err)
{
	struct driver_space *d = self(drv);
	struct keyset_node *above = keyset_lower_bound(&d->claimed, addr, 0, 0);
	struct keyset_node *below = above ? keyset_prev(above) : keyset_last(&d->claimed);
	struct claimed *range;

	if ((above && keyset_entry(above, struct claimed, node)->start < addr + bytes) ||
	    (below && keyset_entry(below, struct claimed, node)->start +
	     keyset_entry(below, struct claimed, node)->bytes > addr))
		return tm_fail(err, TM_EINVALID, "the range of %llu bytes at %#llx is in use",
			       (unsigned long long)bytes, (unsigned long long)addr);
	if (!reserve && !d->answer && room_for(d, bytes, err))
		return TM_EOOM;
	range = tm_xcalloc(1, sizeof *range);
	range->start = range->node.key[0] = addr;
	range->bytes = bytes;
	keyset_insert(&d->claimed, &range->node);
	lower_top(d, addr);
	if (!reserve)
		drv->held += shown(d, bytes);
	return 0;
}

static void space_info(struct mem_driver *drv, uint64_t *total, uint64_t *unused)
{
	const struct driver_space *d = self(drv);

	*total = d->capacity;
	*unused = d->capacity > drv->held ? d->capacity - drv->held : 0;
}

static void space_close(struct mem_driver *drv)
{
	struct driver_space *d = self(drv);
	struct keyset_node *node;

	while ((node = keyset_first(&d->claimed))) {
		keyset_erase(&d->claimed, node);
		free(keyset_entry(node, struct claimed, node));
	}
	space_fini(&d->space);
	space_fini(&d->reserved);
	free(d);
}

struct mem_driver *driver_space_new(uint64_t capacity_bytes, uint64_t granularity_bytes)
{
	struct driver_space *d = tm_xcalloc(1, sizeof *d);

	BUG_ON(capacity_bytes == 0);
	BUG_ON(granularity_bytes < SPACE_GRANULE || granularity_bytes > DRIVER_GRANULARITY_MAX ||
	       (granularity_bytes & (granularity_bytes - 1)));
	d->driver = (struct mem_driver){
		.alloc = space_alloc, .free = space_free, .info = space_info, .close = space_close,
		.reserve = space_reserve, .map = space_map, .unmap = space_unmap, .release = space_release,
		.claim = space_claim,
	};
	d->capacity = capacity_bytes;
	d->granularity = granularity_bytes;
	space_init(&d->space, SPACE_LOW, SPACE_HIGH, SPACE_GRANULE);
	space_init(&d->reserved, RESERVE_LOW, RESERVE_HIGH, RESERVE_GRANULE);
	return &d->driver;
}

struct mem_driver *driver_told_new(uint64_t capacity_bytes, driver_answer_fn *answer, void *arg)
{
	struct mem_driver *driver = driver_space_new(capacity_bytes, SPACE_GRANULE);
	struct driver_space *d = self(driver);

	BUG_ON(!answer);
	d->answer = answer;
	d->arg = arg;
	return driver;
}
