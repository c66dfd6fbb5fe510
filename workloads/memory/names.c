/* The hash table of names.h: FNV-1a, linear probing, at most half full. */
#include "memory/names.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash(const char *s)
{
	uint64_t h = 14695981039346656037ull;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 1099511628211ull;
	return h;
}

void names_free(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->text[i]);
	free(names->text);
	free(names->slot);
	*names = (struct names){ 0 };
}

/* The slot of s, or the empty one where it belongs. */
static uint32_t *slot_of(const struct names *names, const char *s)
{
	size_t i = hash(s) & (names->slot_n - 1);

	while (names->slot[i] && strcmp(names->text[names->slot[i] - 1], s) != 0)
		i = (i + 1) & (names->slot_n - 1);
	return &names->slot[i];
}

static void grow(struct names *names)
{
	names->slot_n = names->slot_n ? names->slot_n * 2 : 64;
	free(names->slot);
	names->slot = tm_xcalloc(names->slot_n, sizeof *names->slot);
	for (size_t i = 0; i < names->n; i++)
		*slot_of(names, names->text[i]) = (uint32_t)i + 1;
}

uint32_t names_index(struct names *names, const char *s)
{
	uint32_t *slot;

	if (names->n * 2 >= names->slot_n)
		grow(names);
	slot = slot_of(names, s);
	if (*slot)
		return *slot - 1;
	if (names->n == names->text_cap) {
		names->text_cap = names->text_cap ? names->text_cap * 2 : 32;
		names->text = tm_xrealloc_n(names->text, names->text_cap, sizeof *names->text);
	}
	names->text[names->n++] = tm_xstrdup(s);
	*slot = (uint32_t)names->n;
	return (uint32_t)names->n - 1;
}
