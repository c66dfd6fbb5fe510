#include "addresses.h"

#include "base/mem.h"

#include <stdlib.h>

void addresses_fini(struct addresses *a)
{
	free(a->v);
	*a = (struct addresses){ 0 };
}

/* Blocks lie at multiples of 512; the multiplication (Knuth's) spreads the rest over the upper bits. */
static size_t place_of(const struct addresses *a, uint64_t addr)
{
	uint64_t h = (addr ^ addr >> 32) * 0x9e3779b97f4a7c15ull;
	size_t i = (h ^ h >> 29) & (a->size - 1);

	while (a->v[i].used && a->v[i].addr != addr)
		i = (i + 1) & (a->size - 1);
	return i;
}

struct address *addresses_find(const struct addresses *a, uint64_t addr)
{
	struct address *found = a->size ? &a->v[place_of(a, addr)] : NULL;

	return found && found->used ? found : NULL;
}

static void grow(struct addresses *a)
{
	struct addresses larger = { .size = a->size ? a->size * 2 : 1024, .n = a->n };

	larger.v = tm_xcalloc(larger.size, sizeof *larger.v);
	for (size_t i = 0; i < a->size; i++)
		if (a->v[i].used)
			larger.v[place_of(&larger, a->v[i].addr)] = a->v[i];
	free(a->v);
	*a = larger;
}

struct address *addresses_add(struct addresses *a, uint64_t addr)
{
	struct address *at;

	if (a->n * 2 >= a->size)
		grow(a);
	at = &a->v[place_of(a, addr)];
	*at = (struct address){ .addr = addr, .slot = ADDRESSES_FREE, .used = 1 };
	a->n++;
	return at;
}
