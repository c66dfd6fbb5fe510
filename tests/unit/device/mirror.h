/*
 * Tests read and write tensors in place. On a card they cannot, so there every
 * block has a copy on the host, and tests see that one: before an operation all
 * blocks are copied to the card and their addresses changed to the card's,
 * behind it they are copied back. The operation runs in the card's own memory, as
 * it does in a run, and the policy knows nothing of it: it goes by its own
 * records and not by a block's address.
 */
#ifndef TM_TEST_MIRROR_H
#define TM_TEST_MIRROR_H

#include "base/mem.h"
#include "device/device.h"
#include "memory/mem_priv.h"

#include <stdlib.h>

struct mirror_block {
	uint64_t card, bytes;
	void *host;
	struct mirror_block *next;
};

struct mirror {
	struct mem_driver driver;
	struct mem_driver *inner;
	struct mirror_block *blocks;
};

static inline int mirror_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct mirror *m = (struct mirror *)drv;
	struct mirror_block *b = tm_xcalloc(1, sizeof *b);
	int rc = m->inner->alloc(m->inner, bytes, &b->card, err);

	if (rc) {
		free(b);
		return rc;
	}
	b->bytes = bytes;
	b->host = tm_xcalloc(1, bytes);
	b->next = m->blocks;
	m->blocks = b;
	drv->held = m->inner->held;
	*addr = b->card;
	return 0;
}

static inline void mirror_free(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	struct mirror *m = (struct mirror *)drv;
	struct mirror_block *b, **link = &m->blocks;

	while ((b = *link) && b->card != addr)
		link = &b->next;
	BUG_ON(!b);
	*link = b->next;
	m->inner->free(m->inner, b->card, bytes);
	drv->held = m->inner->held;
	free(b->host);
	free(b);
}

static inline void mirror_info(struct mem_driver *drv, uint64_t *total, uint64_t *unused)
{
	struct mirror *m = (struct mirror *)drv;

	m->inner->info(m->inner, total, unused);
}

static inline void mirror_close(struct mem_driver *drv)
{
	struct mirror *m = (struct mirror *)drv;

	m->inner->close(m->inner);
	free(m);
}

/* Closes `inner` with itself. */
static inline struct mirror *mirror_new(struct mem_driver *inner)
{
	struct mirror *m = tm_xcalloc(1, sizeof *m);

	m->inner = inner;
	m->driver = (struct mem_driver){
		.alloc = mirror_alloc, .free = mirror_free, .info = mirror_info, .close = mirror_close,
	};
	return m;
}

/* Shows a block's other side: true, and the two addresses, if `host` is the side that shows now. */
static inline bool mirror_turn(struct mirror *m, struct mem_block *block, bool host, uint64_t *on_host, uint64_t *on_card)
{
	for (struct mirror_block *b = m->blocks; b; b = b->next) {
		uint64_t begin = host ? (uint64_t)(uintptr_t)b->host : b->card, at = block->addr - begin;

		if (block->addr < begin || at >= b->bytes)
			continue;
		*on_host = (uint64_t)(uintptr_t)b->host + at;
		*on_card = b->card + at;
		block->addr = host ? *on_card : *on_host;
		return true;
	}
	return false;
}

/* Of a block that was just born: nothing is in it yet. */
static inline void mirror_show(struct mirror *m, struct mem_block *block)
{
	uint64_t on_host, on_card;

	BUG_ON(!mirror_turn(m, block, false, &on_host, &on_card));
}

static inline void mirror_copy(struct device *dev, struct mem_block *block, uint64_t on_host, uint64_t on_card, bool up)
{
	struct tm_err err = { 0 };
	struct mem_block at = { .addr = on_card };
	/* in words: sizes are rounded up to more than that */
	struct tensor t = { .block = &at, .dtype = DT_I32, .rank = 1, .shape = { (int64_t)(block->requested + 3) / 4 } };
	void *host = (void *)(uintptr_t)on_host;

	if (up ? device_upload(dev, &t, host, tensor_bytes(&t), &err) : device_download(dev, host, &t, tensor_bytes(&t), &err))
		BUG("%s", err.text);
}

/* All blocks, but for what stands on the device alone (device_start). */
static inline void mirror_all(struct device *dev, struct mirror *m, bool up)
{
	uint64_t on_host, on_card;

	for (struct mem_block *b = dev->mem->live; b; b = b->next)
		if (b != dev->standing && mirror_turn(m, b, up, &on_host, &on_card))
			mirror_copy(dev, b, on_host, on_card, up);
}

#endif
