/*
 * Strings known by number: each text is kept once, for as long as the table
 * lives, and numbered from 0 in order of appearance.
 */
#ifndef TM_NAMES_H
#define TM_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialise. */
struct names {
	char **text;                      /* [n] */
	uint32_t *slot;                   /* open addressing: number + 1, 0 empty; slot_n a power of two */
	size_t n, text_cap, slot_n;
};

void names_free(struct names *names);
/* The number of s, which is copied in if it is new. */
uint32_t names_index(struct names *names, const char *s);

#endif
