#include "snapshot/addresses.h"

#include "base/mem.h"

#include <stdlib.h>

/* Fibonacci hashing: blocks are multiples of 512, so the low bits say nothing. */
static size_t home(const struct snap_addresses *m, uint64_t key)
{
	return (size_t)((key * 0x9e3779b97f4a7c15ull) >> 20) & (m->cap - 1);
}

static size_t find(const struct snap_addresses *m, uint64_t key)
{
	size_t at = home(m, key);

	while (m->slot[at].addr && m->slot[at].addr != key)
		at = (at + 1) & (m->cap - 1);
	return at;
}

static void grow(struct snap_addresses *m)
{
	struct snap_addresses bigger = { .cap = m->cap ? 2 * m->cap : 256, .n = m->n };

	bigger.slot = tm_xcalloc(bigger.cap, sizeof bigger.slot[0]);
	for (size_t i = 0; i < m->cap; i++)
		if (m->slot[i].addr)
			bigger.slot[find(&bigger, m->slot[i].addr)] = m->slot[i];
	free(m->slot);
	*m = bigger;
}

void snap_addresses_put(struct snap_addresses *m, uint64_t addr, uint64_t value)
{
	size_t at;

	if (2 * (m->n + 1) > m->cap)
		grow(m);
	at = find(m, addr + 1);
	m->n += !m->slot[at].addr;
	m->slot[at] = (struct snap_address){ addr + 1, value };
}

bool snap_addresses_get(const struct snap_addresses *m, uint64_t addr, uint64_t *value)
{
	size_t at;

	if (!m->n)
		return false;
	at = find(m, addr + 1);
	if (!m->slot[at].addr)
		return false;
	*value = m->slot[at].value;
	return true;
}

bool snap_addresses_take(struct snap_addresses *m, uint64_t addr, uint64_t *value)
{
	size_t hole, at;

	if (!m->n)
		return false;
	hole = find(m, addr + 1);
	if (!m->slot[hole].addr)
		return false;
	if (value)
		*value = m->slot[hole].value;
	/* what was pushed behind its place by the removed one moves up */
	for (at = (hole + 1) & (m->cap - 1); m->slot[at].addr; at = (at + 1) & (m->cap - 1)) {
		size_t from_home = (at - home(m, m->slot[at].addr)) & (m->cap - 1);

		if (from_home >= ((at - hole) & (m->cap - 1))) {
			m->slot[hole] = m->slot[at];
			hole = at;
		}
	}
	m->slot[hole].addr = 0;
	m->n--;
	return true;
}

bool snap_addresses_next(const struct snap_addresses *m, size_t *at, uint64_t *addr, uint64_t *value)
{
	for (; *at < m->cap; (*at)++) {
		if (!m->slot[*at].addr)
			continue;
		*addr = m->slot[*at].addr - 1;
		*value = m->slot[(*at)++].value;
		return true;
	}
	return false;
}

void snap_addresses_free(struct snap_addresses *m)
{
	free(m->slot);
	*m = (struct snap_addresses){ 0 };
}
