/*
 * The trees of shelf.h. Sizes are put into ranges like the numbers of a float:
 * a power of two is cut into 16 equal parts, so a range is at most 1/16 wide.
 */
#include "memory/shelf.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>

#define GRANULE_LOG2 9                    /* sizes are multiples of 512; others only share a range */
#define STEP_LOG2    4
#define STEP_N       (1u << STEP_LOG2)
#define BIN_N        384u                 /* the last one takes everything from 62 GiB on */
#define WORD_N       (BIN_N / 64)

struct shelf_stream {
	struct keyset_node node;          /* (stream) */
	uint64_t used[WORD_N];            /* bit i: bin[i] is not empty */
	uint32_t words;                   /* bit i: used[i] is not 0 */
	struct keyset bin[BIN_N];
};

/* Ascending with the size, so that the bins in order are the members in order. */
static unsigned bin_of(uint64_t size)
{
	uint64_t granules = size >> GRANULE_LOG2;
	unsigned log2, bin;

	if (granules < STEP_N)
		return (unsigned)granules;
	log2 = 63 - (unsigned)__builtin_clzll(granules);
	bin = (log2 - STEP_LOG2 + 1) * STEP_N + (unsigned)(granules >> (log2 - STEP_LOG2)) % STEP_N;
	return bin < BIN_N ? bin : BIN_N - 1;
}

static inline void mark(struct shelf_stream *s, unsigned bin)
{
	s->used[bin / 64] |= 1ull << bin % 64;
	s->words |= 1u << bin / 64;
}

static inline void unmark(struct shelf_stream *s, unsigned bin)
{
	s->used[bin / 64] &= ~(1ull << bin % 64);
	if (!s->used[bin / 64])
		s->words &= ~(1u << bin / 64);
}

/* The first bin from `from` on that is not empty; BIN_N: none. */
static inline unsigned used_from(const struct shelf_stream *s, unsigned from)
{
	unsigned i = from / 64;
	uint64_t bits;

	if (from >= BIN_N)
		return BIN_N;
	bits = s->used[i] >> from % 64 << from % 64;
	if (!bits) {
		uint32_t words = s->words & ~1u << i;     /* those behind word i */

		if (!words)
			return BIN_N;
		i = (unsigned)__builtin_ctz(words);
		bits = s->used[i];
	}
	return i * 64 + (unsigned)__builtin_ctzll(bits);
}

/* The last bin before `end` that is not empty; BIN_N: none. */
static unsigned used_before(const struct shelf_stream *s, unsigned end)
{
	while (end-- > 0)
		if (s->used[end / 64] >> end % 64 & 1)
			return end;
	return BIN_N;
}

/* ---- streams ------------------------------------------------------------- */

static struct shelf_stream *stream_of(struct keyset_node *node)
{
	return node ? keyset_entry(node, struct shelf_stream, node) : NULL;
}

/* That one, or the next one after it, or NULL. */
static struct shelf_stream *stream_from(const struct shelf *shelf, uint64_t stream)
{
	if (shelf->recent && shelf->recent->node.key[0] == stream)
		return shelf->recent;
	return stream_of(keyset_lower_bound(&shelf->streams, stream, 0, 0));
}

/* The first member of that stream or, where it has none, of those behind it. */
static struct keyset_node *first_from(struct shelf_stream *s)
{
	for (; s; s = stream_of(keyset_next(&s->node))) {
		unsigned bin = used_from(s, 0);

		if (bin < BIN_N)
			return keyset_first(&s->bin[bin]);
	}
	return NULL;
}

static struct keyset_node *last_until(struct shelf_stream *s)
{
	for (; s; s = stream_of(keyset_prev(&s->node))) {
		unsigned bin = used_before(s, BIN_N);

		if (bin < BIN_N)
			return keyset_last(&s->bin[bin]);
	}
	return NULL;
}

/* ---- the set ------------------------------------------------------------- */

static struct shelf_stream *add_stream(struct shelf *shelf, uint64_t stream)
{
	struct shelf_stream *s = tm_xcalloc(1, sizeof *s);

	s->node.key[0] = stream;
	keyset_insert(&shelf->streams, &s->node);
	return s;
}

void shelf_insert(struct shelf *shelf, struct keyset_node *node)
{
	struct shelf_stream *s = stream_from(shelf, node->key[0]);
	unsigned bin = bin_of(node->key[1]);

	if (!s || s->node.key[0] != node->key[0])
		s = add_stream(shelf, node->key[0]);
	keyset_insert(&s->bin[bin], node);
	mark(s, bin);
	shelf->recent = s;
	shelf->n++;
}

void shelf_erase(struct shelf *shelf, struct keyset_node *node)
{
	struct shelf_stream *s = stream_from(shelf, node->key[0]);
	unsigned bin = bin_of(node->key[1]);

	keyset_erase(&s->bin[bin], node);
	if (!s->bin[bin].root)
		unmark(s, bin);
	shelf->recent = s;
	shelf->n--;
}

/* The first member in a bin from `from` on, else in the streams behind. */
static struct keyset_node *first_in(struct shelf_stream *s, unsigned from)
{
	unsigned bin = used_from(s, from);

	return bin < BIN_N ? keyset_first(&s->bin[bin]) : first_from(stream_of(keyset_next(&s->node)));
}

struct keyset_node *shelf_lower_bound(const struct shelf *shelf, uint64_t stream, uint64_t size, uint64_t addr)
{
	struct shelf_stream *s = stream_from(shelf, stream);
	struct keyset_node *node = NULL;
	unsigned bin;

	if (!s || s->node.key[0] != stream)
		return first_from(s);
	bin = bin_of(size);
	if (s->bin[bin].root)
		node = keyset_lower_bound(&s->bin[bin], stream, size, addr);
	return node ? node : first_in(s, bin + 1);
}

struct keyset_node *shelf_first(const struct shelf *shelf)
{
	return first_from(stream_of(keyset_first(&shelf->streams)));
}

struct keyset_node *shelf_last(const struct shelf *shelf)
{
	return last_until(stream_of(keyset_last(&shelf->streams)));
}

struct keyset_node *shelf_next(const struct shelf *shelf, const struct keyset_node *node)
{
	struct keyset_node *next = keyset_next(node);

	return next ? next : first_in(stream_from(shelf, node->key[0]), bin_of(node->key[1]) + 1);
}

struct keyset_node *shelf_prev(const struct shelf *shelf, const struct keyset_node *node)
{
	struct keyset_node *prev = keyset_prev(node);
	struct shelf_stream *s;
	unsigned bin;

	if (prev)
		return prev;
	s = stream_from(shelf, node->key[0]);
	bin = used_before(s, bin_of(node->key[1]));
	return bin < BIN_N ? keyset_last(&s->bin[bin]) : last_until(stream_of(keyset_prev(&s->node)));
}

void shelf_fini(struct shelf *shelf)
{
	struct keyset_node *node;

	while ((node = keyset_first(&shelf->streams))) {
		keyset_erase(&shelf->streams, node);
		free(stream_of(node));
	}
	*shelf = (struct shelf){ 0 };
}

void shelf_check(const struct shelf *shelf)
{
	size_t n = 0;

	keyset_check(&shelf->streams);
	for (struct keyset_node *at = keyset_first(&shelf->streams); at; at = keyset_next(at)) {
		const struct shelf_stream *s = stream_of(at);

		for (unsigned bin = 0; bin < BIN_N; bin++) {
			const struct keyset *set = &s->bin[bin];

			keyset_check(set);
			n += set->n;
			BUG_ON((s->used[bin / 64] >> bin % 64 & 1) != (set->n > 0));
			BUG_ON((s->words >> bin / 64 & 1) != (s->used[bin / 64] > 0));
			for (struct keyset_node *node = keyset_first(set); node; node = keyset_next(node))
				BUG_ON(node->key[0] != s->node.key[0] || bin_of(node->key[1]) != bin);
		}
	}
	BUG_ON(n != shelf->n);
}
