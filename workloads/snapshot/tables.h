/*
 * What the events of a recording share: texts, frames, stacks, streams and
 * pools, each kept once and known by its number. And the memory of it all,
 * counted, so that a small file cannot make a large table.
 */
#ifndef TM_SNAP_TABLES_H
#define TM_SNAP_TABLES_H

#include "snapshot/recording.h"

/* ---- counted memory ------------------------------------------------------ */

struct snap_budget {
	uint64_t used, limit;
	bool scales;                      /* the limit grows with what was read: see snap_budget_read */
};

#define SNAP_BUDGET_MIN (64ull << 20)
#define SNAP_BUDGET_LEAST (1ull << 20)    /* a smaller max_bytes is raised to this */

/* max_bytes 0: 2 times what was read, at least SNAP_BUDGET_MIN. */
void snap_budget_init(struct snap_budget *b, uint64_t max_bytes);
static inline void snap_budget_read(struct snap_budget *b, uint64_t bytes)
{
	if (b->scales && 2 * bytes > b->limit)
		b->limit = 2 * bytes;
}

/* A growing array; v may be NULL. */
struct snap_array {
	void *v;
	size_t n, cap;
};

/* Room for `more` items of `size` bytes behind n. False: the budget does not allow it. */
bool snap_array_room(struct snap_array *a, size_t more, size_t size, struct snap_budget *b);
void snap_array_free(struct snap_array *a, size_t size, struct snap_budget *b);
/* Gives the array away, cut to what it holds; a is empty after. NULL where it holds nothing. */
void *snap_array_take(struct snap_array *a, size_t size, size_t *n);

/* ---- an index of what an array holds ------------------------------------- */

/* Open addressing; an entry is a number in the array + 1. */
struct snap_index {
	uint32_t *slot;
	size_t cap, n;
};

/* ---- the tables ---------------------------------------------------------- */

struct snap_text {
	const char *s;                    /* NUL-terminated, well-formed UTF-8, in the arena */
	uint64_t hash;
};

struct snap_chunk;                        /* of the arena */

struct snap_tables {
	struct snap_budget budget;
	uint64_t seed;                    /* of the hashes, so that nobody can write a file whose texts collide */
	struct snap_array texts;          /* struct snap_text */
	struct snap_array frames;         /* struct recording_frame; file and name are texts' s */
	struct snap_array stacks;         /* struct recording_stack */
	struct snap_array stack_frames;   /* uint32_t */
	struct snap_array streams;        /* uint64_t, in order of appearance */
	struct snap_array pools;          /* struct recording_pool; [0] is {0, 0} */
	struct snap_index text_index, frame_index, stack_index, stream_index, pool_index;
	struct snap_chunk *arena;
};

void snap_tables_init(struct snap_tables *t, uint64_t max_bytes);
void snap_tables_free(struct snap_tables *t);
void snap_arena_free(struct snap_chunk *arena);

/*
 * Each finds what is there or adds it. SNAP_NO_ROOM: the budget (or 2^32
 * entries) does not allow it.
 */
#define SNAP_NO_ROOM UINT32_MAX
/* Ill-formed UTF-8 and NUL become U+FFFD. */
uint32_t snap_text(struct snap_tables *t, const char *s, size_t n);
uint32_t snap_frame(struct snap_tables *t, const char *file, const char *name, int64_t line);
/* Indices into frames, innermost first; n > 0. */
uint32_t snap_stack(struct snap_tables *t, const uint32_t *frames, size_t n);
uint32_t snap_stream(struct snap_tables *t, uint64_t handle);
uint32_t snap_pool(struct snap_tables *t, int64_t a, int64_t b);

static inline const char *snap_text_of(const struct snap_tables *t, uint64_t id)
{
	return ((const struct snap_text *)t->texts.v)[id].s;
}

#endif
