/*
 * Host memory for bookkeeping. These never return NULL: a program that
 * cannot get a few kilobytes has nothing better to do than to say so and
 * stop (exit 70). What a workload measures does not come from here but from
 * workloads/memory.
 */
#ifndef TM_MEM_H
#define TM_MEM_H

#include <stddef.h>

void *tm_xmalloc(size_t n);
void *tm_xcalloc(size_t n, size_t size);
/* n * size with overflow checked; p may be NULL. */
void *tm_xrealloc_n(void *p, size_t n, size_t size);
char *tm_xstrdup(const char *s);
char *tm_xstrndup(const char *s, size_t n);
void *tm_xmemdup(const void *p, size_t n);

#define TM_ARRAY_N(a) (sizeof(a) / sizeof((a)[0]))

#endif
