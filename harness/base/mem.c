#include "base/mem.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static void *checked(void *p, size_t n)
{
	if (!p && n)
		BUG("out of host memory: %zu bytes refused", n);
	return p;
}

void *tm_xmalloc(size_t n)
{
	return checked(malloc(n ? n : 1), n);
}

void *tm_xcalloc(size_t n, size_t size)
{
	return checked(calloc(n ? n : 1, size ? size : 1), size);
}

void *tm_xrealloc_n(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		BUG("size overflow: %zu x %zu", n, size);
	return checked(realloc(p, bytes ? bytes : 1), bytes);
}

char *tm_xstrdup(const char *s)
{
	return tm_xmemdup(s, strlen(s) + 1);
}

char *tm_xstrndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *p = tm_xmalloc(len + 1);

	memcpy(p, s, len);
	p[len] = '\0';
	return p;
}

void *tm_xmemdup(const void *src, size_t n)
{
	void *p = tm_xmalloc(n);

	memcpy(p, src, n);
	return p;
}
