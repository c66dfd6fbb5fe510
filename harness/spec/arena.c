#include "spec/arena.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 16384

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	_Alignas(max_align_t) char data[];
};

void *arena_alloc(struct arena *a, size_t n)
{
	struct arena_block *b = a->head;
	void *p;

	BUG_ON(n > ((size_t)1 << 40));
	n = (n + sizeof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
	if (!b || b->size - b->used < n) {
		size_t size = n > BLOCK_BYTES ? n : BLOCK_BYTES;

		b = tm_xmalloc(sizeof *b + size);
		b->used = 0;
		b->size = size;
		b->next = a->head;
		a->head = b;
	}
	p = b->data + b->used;
	b->used += n;
	return memset(p, 0, n);
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		BUG("an array of %zu times %zu bytes", n, size);
	return arena_alloc(a, bytes);
}

void *arena_grow(struct arena *a, void *v, size_t n, size_t *cap, size_t size)
{
	void *p;

	if (n < *cap)
		return v;
	*cap = *cap ? *cap * 2 : 4;
	p = arena_array(a, *cap, size);
	if (n)
		memcpy(p, v, n * size);
	return p;
}

char *arena_strn(struct arena *a, const char *s, size_t n)
{
	char *p = arena_alloc(a, n + 1);

	memcpy(p, s, n);
	return p;
}

char *arena_str(struct arena *a, const char *s)
{
	return arena_strn(a, s, strlen(s));
}

char *arena_fmt(struct arena *a, const char *fmt, ...)
{
	struct tm_str str = TM_STR_INIT;
	va_list ap;
	char *p;

	va_start(ap, fmt);
	tm_str_vaddf(&str, fmt, ap);
	va_end(ap);
	p = arena_strn(a, str.s, str.n);
	tm_str_free(&str);
	return p;
}

void arena_free(struct arena *a)
{
	while (a->head) {
		struct arena_block *b = a->head;

		a->head = b->next;
		free(b);
	}
}
