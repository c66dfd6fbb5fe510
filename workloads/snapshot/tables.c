#include "snapshot/tables.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (64u << 10)

struct snap_chunk {
	struct snap_chunk *next;
	size_t n, cap;
	char s[];
};

/* ---- counted memory ------------------------------------------------------ */

void snap_budget_init(struct snap_budget *b, uint64_t max_bytes)
{
	*b = (struct snap_budget){ .limit = max_bytes ? max_bytes : SNAP_BUDGET_MIN, .scales = !max_bytes };
	if (b->limit < SNAP_BUDGET_LEAST)
		b->limit = SNAP_BUDGET_LEAST;
}

static bool take(struct snap_budget *b, uint64_t bytes)
{
	if (bytes > b->limit - (b->used < b->limit ? b->used : b->limit))
		return false;
	b->used += bytes;
	return true;
}

bool snap_array_room(struct snap_array *a, size_t more, size_t size, struct snap_budget *b)
{
	size_t want, cap;

	if (more <= a->cap - a->n)
		return true;
	if (__builtin_add_overflow(a->n, more, &want) || want > SIZE_MAX / 2 / size)
		return false;
	/* half as much again; where the budget is nearly used up, an eighth */
	for (size_t share = 2;; share *= 4) {
		cap = want + want / share + (share == 2 ? 16 : 0);
		if (take(b, (cap - a->cap) * size))
			break;
		if (share > 8)
			return false;
	}
	a->v = tm_xrealloc_n(a->v, cap, size);
	a->cap = cap;
	return true;
}

void snap_array_free(struct snap_array *a, size_t size, struct snap_budget *b)
{
	free(a->v);
	b->used -= a->cap * size;
	*a = (struct snap_array){ 0 };
}

void *snap_array_take(struct snap_array *a, size_t size, size_t *n)
{
	void *v = NULL;

	*n = a->n;
	if (a->n)
		v = tm_xrealloc_n(a->v, a->n, size);
	else
		free(a->v);
	*a = (struct snap_array){ 0 };
	return v;
}

/* ---- hashing ------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
	__uint128_t m = (__uint128_t)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static uint64_t hash_bytes(uint64_t seed, const void *p, size_t n)
{
	const uint8_t *s = p;
	uint64_t h = seed ^ n * 0x9e3779b97f4a7c15ull, w;

	for (; n >= 8; s += 8, n -= 8) {
		memcpy(&w, s, 8);
		h = mix(h ^ w, seed | 1) + 0x2545f4914f6cdd1dull;
	}
	w = 0;
	memcpy(&w, s, n);
	return mix(h ^ w, 0xa0761d6478bd642full ^ seed);
}

static uint64_t hash_words(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t v[3] = { a, b, c };

	return hash_bytes(seed, v, sizeof v);
}

/* Room for one more, at most half full; `hash_of` gives the hash of an entry. */
static bool index_room(struct snap_tables *t, struct snap_index *ix, uint64_t (*hash_of)(const struct snap_tables *, size_t))
{
	struct snap_index bigger;

	if (2 * (ix->n + 1) <= ix->cap)
		return true;
	bigger.cap = ix->cap ? 2 * ix->cap : 256;
	bigger.n = ix->n;
	if (!take(&t->budget, (bigger.cap - ix->cap) * sizeof ix->slot[0]))
		return false;
	bigger.slot = tm_xcalloc(bigger.cap, sizeof bigger.slot[0]);
	for (size_t i = 0; i < ix->cap; i++) {
		size_t at;

		if (!ix->slot[i])
			continue;
		at = hash_of(t, ix->slot[i] - 1) & (bigger.cap - 1);
		while (bigger.slot[at])
			at = (at + 1) & (bigger.cap - 1);
		bigger.slot[at] = ix->slot[i];
	}
	free(ix->slot);
	*ix = bigger;
	return true;
}

/* Walks the entries under a hash: *at starts as the hash. False: no more, and *at is free. */
static bool index_next(const struct snap_index *ix, size_t *at, uint32_t *entry)
{
	size_t slot = *at & (ix->cap - 1);

	*at = slot;
	if (!ix->slot[slot])
		return false;
	*entry = ix->slot[slot] - 1;
	return true;
}

static uint32_t index_put(struct snap_index *ix, size_t at, size_t entry)
{
	if (entry >= SNAP_NO_ROOM - 1)
		return SNAP_NO_ROOM;
	ix->slot[at] = (uint32_t)entry + 1;
	ix->n++;
	return (uint32_t)entry;
}

/* ---- texts --------------------------------------------------------------- */

static char *arena_add(struct snap_tables *t, const char *s, size_t n)
{
	struct snap_chunk *c = t->arena;

	if (!c || c->cap - c->n < n + 1) {
		size_t cap = n + 1 > CHUNK_BYTES ? n + 1 : CHUNK_BYTES;

		if (!take(&t->budget, cap))
			return NULL;
		c = tm_xmalloc(sizeof *c + cap);
		*c = (struct snap_chunk){ .next = t->arena, .cap = cap };
		t->arena = c;
	}
	memcpy(c->s + c->n, s, n);
	c->s[c->n + n] = '\0';
	c->n += n + 1;
	return c->s + c->n - n - 1;
}

void snap_arena_free(struct snap_chunk *arena)
{
	while (arena) {
		struct snap_chunk *next = arena->next;

		free(arena);
		arena = next;
	}
}

static uint64_t text_hash(const struct snap_tables *t, size_t i)
{
	return ((const struct snap_text *)t->texts.v)[i].hash;
}

static uint32_t text_add(struct snap_tables *t, const char *s, size_t n)
{
	uint64_t hash = hash_bytes(t->seed, s, n);
	const struct snap_text *texts;
	size_t at = (size_t)hash;
	uint32_t found;

	if (!index_room(t, &t->text_index, text_hash) || !snap_array_room(&t->texts, 1, sizeof *texts, &t->budget))
		return SNAP_NO_ROOM;
	texts = t->texts.v;
	for (; index_next(&t->text_index, &at, &found); at++)
		if (texts[found].hash == hash && strlen(texts[found].s) == n && !memcmp(texts[found].s, s, n))
			return found;
	s = arena_add(t, s, n);
	if (!s)
		return SNAP_NO_ROOM;
	((struct snap_text *)t->texts.v)[t->texts.n] = (struct snap_text){ .s = s, .hash = hash };
	return index_put(&t->text_index, at, t->texts.n++);
}

static bool plain(const char *s, size_t n)
{
	uint8_t high = 0;
	bool nul = false;

	for (size_t i = 0; i < n; i++) {
		high |= (uint8_t)s[i];
		nul |= !s[i];
	}
	return !nul && (high < 0x80 || tm_utf8_valid(s, n));
}

uint32_t snap_text(struct snap_tables *t, const char *s, size_t n)
{
	struct tm_str clean = TM_STR_INIT;
	uint32_t id;

	if (plain(s, n))
		return text_add(t, s, n);
	for (size_t i = 0; i < n;) {
		size_t piece = strnlen(s + i, n - i);

		tm_utf8_clean(&clean, s + i, piece);
		i += piece;
		if (i < n) {
			tm_utf8_add(&clean, TM_REPLACEMENT);
			i++;
		}
	}
	id = text_add(t, clean.s, clean.n);
	tm_str_free(&clean);
	return id;
}

/* ---- frames and stacks --------------------------------------------------- */

static uint64_t frame_hash(const struct snap_tables *t, size_t i)
{
	const struct recording_frame *f = (const struct recording_frame *)t->frames.v + i;

	return hash_words(t->seed, (uintptr_t)f->file, (uintptr_t)f->name, (uint64_t)f->line);
}

/* Texts are kept once, so equal ones have equal addresses. */
uint32_t snap_frame(struct snap_tables *t, const char *file, const char *name, int64_t line)
{
	size_t at = (size_t)hash_words(t->seed, (uintptr_t)file, (uintptr_t)name, (uint64_t)line);
	struct recording_frame *f;
	uint32_t found;

	if (!index_room(t, &t->frame_index, frame_hash) || !snap_array_room(&t->frames, 1, sizeof *f, &t->budget))
		return SNAP_NO_ROOM;
	f = t->frames.v;
	for (; index_next(&t->frame_index, &at, &found); at++)
		if (f[found].file == file && f[found].name == name && f[found].line == line)
			return found;
	f[t->frames.n] = (struct recording_frame){ .file = file, .name = name, .line = line };
	return index_put(&t->frame_index, at, t->frames.n++);
}

static uint64_t stack_hash(const struct snap_tables *t, size_t i)
{
	const struct recording_stack *s = (const struct recording_stack *)t->stacks.v + i;

	return hash_bytes(t->seed, (const uint32_t *)t->stack_frames.v + s->first, s->n * sizeof(uint32_t));
}

uint32_t snap_stack(struct snap_tables *t, const uint32_t *frames, size_t n)
{
	size_t at = (size_t)hash_bytes(t->seed, frames, n * sizeof *frames);
	const struct recording_stack *s;
	uint32_t found;

	if (!index_room(t, &t->stack_index, stack_hash) || !snap_array_room(&t->stacks, 1, sizeof *s, &t->budget))
		return SNAP_NO_ROOM;
	s = t->stacks.v;
	for (; index_next(&t->stack_index, &at, &found); at++)
		if (s[found].n == n && !memcmp((uint32_t *)t->stack_frames.v + s[found].first, frames, n * sizeof *frames))
			return found;
	if (!snap_array_room(&t->stack_frames, n, sizeof *frames, &t->budget))
		return SNAP_NO_ROOM;
	memcpy((uint32_t *)t->stack_frames.v + t->stack_frames.n, frames, n * sizeof *frames);
	((struct recording_stack *)t->stacks.v)[t->stacks.n] = (struct recording_stack){ t->stack_frames.n, n };
	t->stack_frames.n += n;
	return index_put(&t->stack_index, at, t->stacks.n++);
}

/* ---- streams and pools --------------------------------------------------- */

static uint64_t stream_hash(const struct snap_tables *t, size_t i)
{
	return hash_words(t->seed, ((const uint64_t *)t->streams.v)[i], 0, 0);
}

uint32_t snap_stream(struct snap_tables *t, uint64_t handle)
{
	size_t at = (size_t)hash_words(t->seed, handle, 0, 0);
	uint32_t found;
	uint64_t *v;

	if (!index_room(t, &t->stream_index, stream_hash) || !snap_array_room(&t->streams, 1, sizeof *v, &t->budget))
		return SNAP_NO_ROOM;
	v = t->streams.v;
	for (; index_next(&t->stream_index, &at, &found); at++)
		if (v[found] == handle)
			return found;
	v[t->streams.n] = handle;
	return index_put(&t->stream_index, at, t->streams.n++);
}

static uint64_t pool_hash(const struct snap_tables *t, size_t i)
{
	const struct recording_pool *p = (const struct recording_pool *)t->pools.v + i;

	return hash_words(t->seed, (uint64_t)p->id[0], (uint64_t)p->id[1], 0);
}

uint32_t snap_pool(struct snap_tables *t, int64_t a, int64_t b)
{
	size_t at = (size_t)hash_words(t->seed, (uint64_t)a, (uint64_t)b, 0);
	struct recording_pool *p;
	uint32_t found;

	if (!index_room(t, &t->pool_index, pool_hash) || !snap_array_room(&t->pools, 1, sizeof *p, &t->budget))
		return SNAP_NO_ROOM;
	p = t->pools.v;
	for (; index_next(&t->pool_index, &at, &found); at++)
		if (p[found].id[0] == a && p[found].id[1] == b)
			return found;
	p[t->pools.n] = (struct recording_pool){ { a, b } };
	return index_put(&t->pool_index, at, t->pools.n++);
}

/* ---- all of it ----------------------------------------------------------- */

void snap_tables_init(struct snap_tables *t, uint64_t max_bytes)
{
	*t = (struct snap_tables){ 0 };
	snap_budget_init(&t->budget, max_bytes);
	t->seed = mix((uint64_t)tm_mono_ns() ^ (uintptr_t)t, 0x9e3779b97f4a7c15ull) | 1;
	snap_pool(t, 0, 0);
}

static void index_free(struct snap_tables *t, struct snap_index *ix)
{
	free(ix->slot);
	t->budget.used -= ix->cap * sizeof ix->slot[0];
	*ix = (struct snap_index){ 0 };
}

void snap_tables_free(struct snap_tables *t)
{
	snap_array_free(&t->texts, sizeof(struct snap_text), &t->budget);
	snap_array_free(&t->frames, sizeof(struct recording_frame), &t->budget);
	snap_array_free(&t->stacks, sizeof(struct recording_stack), &t->budget);
	snap_array_free(&t->stack_frames, sizeof(uint32_t), &t->budget);
	snap_array_free(&t->streams, sizeof(uint64_t), &t->budget);
	snap_array_free(&t->pools, sizeof(struct recording_pool), &t->budget);
	index_free(t, &t->text_index);
	index_free(t, &t->frame_index);
	index_free(t, &t->stack_index);
	index_free(t, &t->stream_index);
	index_free(t, &t->pool_index);
	snap_arena_free(t->arena);
	t->arena = NULL;
}
