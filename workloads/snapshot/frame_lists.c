#include "snapshot/frame_lists.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { OP_BINGET = 'h', OP_LONG_BINGET = 'j', OP_APPENDS = 'e' };

#define SLOTS 1024u
#define LIST_BYTES 512u                   /* longer ones are read anew each time, so that all of it stays below 1 MiB */

struct frame_list {
	uint8_t *copy;                    /* its bytes up to the APPENDS; NULL: free */
	uint64_t rewrites;                /* of the memo, when it was read */
	uint32_t stack, bytes;
};

void frame_lists_free(struct frame_lists *l)
{
	for (size_t i = 0; l->slot && i < SLOTS; i++)
		free(l->slot[i].copy);
	free(l->slot);
	l->slot = NULL;
}

static inline uint64_t word(const uint8_t *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof w);
	return w;
}

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	__uint128_t m = (__uint128_t)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* To the end of the GETs; *hash of their bytes. */
static const uint8_t *skip_gets(const uint8_t *p, const uint8_t *end, uint64_t seed, uint64_t *hash)
{
	const uint64_t two = 0xff00000000ffull, longs = (uint64_t)OP_LONG_BINGET << 40 | OP_LONG_BINGET;
	uint64_t h = seed;

	while (p < end) {
		uint64_t w = word(p);

		if ((w & two) == longs) {
			h = mix(h ^ w, seed ^ word(p + 2));
			p += 10;
		} else if ((uint8_t)w == OP_BINGET) {
			h = mix(h ^ (w & 0xffff), seed);
			p += 2;
		} else if ((uint8_t)w == OP_LONG_BINGET) {
			h = mix(h ^ (w & UINT64_MAX >> 24), seed);
			p += 5;
		} else {
			break;
		}
	}
	*hash = h;
	return p;
}

/* The frames of the GETs from p to end. 0: not only frames, or too many. */
static size_t frames_of(const struct snap_build *b, const uint8_t *p, const uint8_t *end, uint32_t frames[SNAP_STACK_MAX])
{
	const uint64_t *memo = b->memo.v;
	size_t n = 0;

	while (p < end) {
		uint64_t index = *p == OP_LONG_BINGET ? word(p) >> 8 & UINT32_MAX : p[1];

		if (n == SNAP_STACK_MAX || index >= b->memo.n || memo[index] >> 56 != V_FRAME)
			return 0;
		frames[n++] = (uint32_t)memo[index];
		p += *p == OP_LONG_BINGET ? 5 : 2;
	}
	return n;
}

static void keep(struct frame_list *s, const uint8_t *p, size_t bytes, uint32_t stack, uint64_t rewrites)
{
	free(s->copy);
	*s = (struct frame_list){ tm_xmemdup(p, bytes), rewrites, stack, (uint32_t)bytes };
}

const uint8_t *frame_lists_read(struct frame_lists *l, struct snap_build *b, const uint8_t *p, const uint8_t *end,
				struct snap_value *list)
{
	uint32_t frames[SNAP_STACK_MAX];
	struct frame_list *s;
	const uint8_t *at;
	uint64_t hash;
	size_t bytes, n;

	if (list->tag != V_LIST || list->shared || (*p != OP_BINGET && *p != OP_LONG_BINGET))
		return NULL;
	at = skip_gets(p, end, l->seed, &hash);
	if (at >= end || *at != OP_APPENDS)
		return NULL;
	bytes = (size_t)(at - p);
	if (!l->slot)
		l->slot = tm_xcalloc(SLOTS, sizeof l->slot[0]);
	s = &l->slot[hash % SLOTS];
	if (s->bytes == bytes && s->rewrites == b->memo_rewrites && !memcmp(s->copy, p, bytes)) {
		snap_become_stack(b, list, s->stack);
		return at + 1;
	}
	n = frames_of(b, p, at, frames);
	if (!n || snap_frames(b, list, frames, n))
		return NULL;
	if (bytes <= LIST_BYTES)
		keep(s, p, bytes, (uint32_t)list->v, b->memo_rewrites);
	return at + 1;
}
