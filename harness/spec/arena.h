/*
 * Memory with one lifetime: everything a spec is read into lives until the
 * spec is expanded and goes away at once. That leaves no path on which an
 * error could leak half a tree.
 */
#ifndef TM_SPEC_ARENA_H
#define TM_SPEC_ARENA_H

#include <stddef.h>

struct arena_block;
struct arena { struct arena_block *head; };      /* zero-initialise */

void *arena_alloc(struct arena *a, size_t n);            /* zeroed, aligned for any type */
void *arena_array(struct arena *a, size_t n, size_t size);       /* the same, n * size checked */
/* Doubles an array of n elements of which `cap` are allocated; returns the (possibly moved) array. */
void *arena_grow(struct arena *a, void *v, size_t n, size_t *cap, size_t size);
char *arena_strn(struct arena *a, const char *s, size_t n);
char *arena_str(struct arena *a, const char *s);
char *arena_fmt(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_free(struct arena *a);

#endif
