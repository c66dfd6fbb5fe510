/*
 * PyTorch's caching allocator, its rules to the byte, in four parts:
 *
 *   caching_options.c  options, and the sizes that follow from them
 *   caching_block.c    blocks: search, split, merge
 *   caching_segment.c  segments: obtained, collected, released
 *   caching_stats.c    the statistics under PyTorch's names
 *   caching_check.c    the invariants, and a walk over all blocks
 *   caching.c          the order in which these are tried; the policy's entry
 *
 * Private to these files, the snapshot writer and tests.
 *
 * A segment is a range that came from the driver. It is cut into blocks, a
 * doubly linked list in address order that tiles it. Free blocks also lie in
 * the ordered set of their pool. Two free neighbours never coexist: they are
 * one block. Blocks of a segment share stream and pool for its whole life.
 */
#ifndef TM_CACHING_H
#define TM_CACHING_H

#include "memory/keyset.h"
#include "memory/memory.h"

#define CACHING_BLOCK_BYTES    512ull             /* every block is a multiple */
/* At most this: small pool. Also the largest rest that stays with a block of the large pool. */
#define CACHING_SMALL_BYTES    (1ull << 20)
#define CACHING_SMALL_SEGMENT  (2ull << 20)
#define CACHING_LARGE_BYTES    (10ull << 20)      /* from here on a segment of its own size, … */
#define CACHING_LARGE_GRANULE  (2ull << 20)       /* … in multiples of this */
#define CACHING_REQUEST_MAX    (1ull << 60)       /* refused before anything is looked at */
#define CACHING_UNLIMITED      UINT64_MAX

/* ---- options ------------------------------------------------------------ */

#define CACHING_ROUNDUP_N 16

struct caching_options {
	uint64_t max_split_bytes;         /* blocks from here on are oversize: kept for oversize requests, never split */
	uint64_t max_non_split_rounding_bytes;    /* an oversize request takes a block smaller than itself plus this */
	uint64_t large_segment_bytes;     /* segment for requests above the small pool's and below CACHING_LARGE_BYTES */
	double gc_threshold;              /* share of the limit above which old segments are collected; 0: never */
	uint64_t roundup[CACHING_ROUNDUP_N];      /* steps a power of two; [i]: sizes from 2^(20+i); 0, 1: plain */
};

void caching_options_default(struct caching_options *out);
/* TM_EINVALID naming the first option: only the defaults can be had by text so far. */
int caching_options_parse(const char *conf, struct caching_options *out, struct tm_err *err);

/* Block size of a request of 1 … CACHING_REQUEST_MAX - 1 bytes. */
uint64_t caching_round(const struct caching_options *options, uint64_t bytes);
/* Segment size for a block of that size. */
uint64_t caching_segment_bytes(const struct caching_options *options, uint64_t rounded);

/* ---- statistics --------------------------------------------------------- */

enum caching_stat {
	CACHING_ALLOCATION, CACHING_SEGMENT, CACHING_ACTIVE, CACHING_INACTIVE_SPLIT,
	CACHING_ALLOCATED_BYTES, CACHING_RESERVED_BYTES, CACHING_ACTIVE_BYTES,
	CACHING_INACTIVE_SPLIT_BYTES, CACHING_REQUESTED_BYTES,
	CACHING_STAT_N
};

enum caching_class { CACHING_SMALL, CACHING_LARGE, CACHING_CLASS_N };

/* allocated and freed: everything that was ever added and taken away. */
struct caching_gauge {
	int64_t current, peak, allocated, freed;
};

struct caching_stats {
	struct caching_gauge all[CACHING_STAT_N], by_class[CACHING_STAT_N][CACHING_CLASS_N];
	struct caching_gauge oversize_allocations, oversize_segments;
	int64_t alloc_retries, ooms, sync_all_streams, device_allocs, device_frees;
	int64_t max_split_size;           /* -1: unlimited */
};

void caching_gauge_add(struct caching_gauge *gauge, int64_t delta);
void caching_stats_add(struct caching_stats *stats, enum caching_stat stat, enum caching_class class,
		       int64_t delta);
/* Every statistic under its name in torch.cuda.memory_stats, ascending. */
void caching_stats_each(const struct caching_stats *stats,
			void (*each)(void *arg, const char *name, int64_t value), void *arg);

/* ---- structure ---------------------------------------------------------- */

struct caching_pool {
	enum caching_class class;
	struct keyset free_blocks;        /* (stream, size, address) */
	uint64_t lookups;                 /* searches so far, the clock of the garbage collector */
};

struct caching_block {
	struct keyset_node node;          /* in pool->free_blocks iff not allocated */
	struct caching_pool *pool;
	struct caching_block *prev, *next;        /* neighbours in the segment */
	uint64_t stream, addr, size;
	uint64_t requested;               /* raw bytes of the last request */
	uint64_t freed_at;                /* pool->lookups when it was last parked */
	bool allocated;
};

/* The first block is the same object for the segment's whole life. */
struct caching_segment {
	struct keyset_node node;          /* (address) */
	uint64_t addr, size;
	struct caching_block *first;
};

struct caching {
	struct mem_driver *driver;
	struct caching_options options;
	uint64_t limit;                   /* bytes; CACHING_UNLIMITED: none */
	uint64_t reserved;
	struct caching_pool pools[CACHING_CLASS_N];
	struct keyset segments;
	struct caching_stats stats;
};

/* One allocation on its way. */
struct caching_request {
	uint64_t bytes, size, stream;     /* asked, rounded */
	uint64_t segment;                 /* bytes of the segment, if one is needed */
	struct caching_pool *pool;
};

struct caching *caching_new(const struct mem_policy_config *cfg, const struct caching_options *options);
void caching_destroy(struct caching *c);          /* every segment back to the driver */
/* 0 < bytes. TM_EOOM: nothing handed out, but cached segments may have been released. */
int caching_malloc(struct caching *c, uint64_t bytes, uint64_t stream, struct caching_block **out,
		   struct tm_err *err);
void caching_free(struct caching *c, struct caching_block *block);

/* ---- caching_block.c ---- */

static inline struct caching_block *caching_block_of(struct keyset_node *node)
{
	return node ? keyset_entry(node, struct caching_block, node) : NULL;
}

static inline bool caching_is_split(const struct caching_block *block)
{
	return block->prev || block->next;
}

void caching_park(struct caching_block *block);           /* into the free set */
void caching_unpark(struct caching_block *block);
/* The best free block, taken out of the free set, or NULL. */
struct caching_block *caching_find(struct caching *c, const struct caching_request *req);
/* Cuts the request off the block if that is worth it, and counts it as handed out. */
void caching_hand_out(struct caching *c, struct caching_block *block, const struct caching_request *req);
/* Joins a block that was just freed with free neighbours and parks the result. */
void caching_take_back(struct caching *c, struct caching_block *block);

/* ---- caching_segment.c ---- */

/* A whole new segment as one block, not parked. TM_EOOM: the limit or the driver refused. */
int caching_obtain(struct caching *c, const struct caching_request *req, struct caching_block **out,
		   struct tm_err *err);
void caching_collect(struct caching *c);
bool caching_release_oversize(struct caching *c, const struct caching_request *req);
void caching_release_all(struct caching *c);

/* ---- caching_check.c ---- */

/* Every invariant above and every current statistic against a recount; BUGs. O(n log n). */
void caching_check(const struct caching *c);
/* Blocks in address order. */
void caching_each_block(const struct caching *c,
			void (*each)(void *arg, const struct caching_segment *segment,
				     const struct caching_block *block), void *arg);

#endif
