/*
 * PyTorch's caching allocator, its rules to the byte, in parts:
 *
 *   caching_options.c  the sizes that follow from options (their text: conf.h)
 *   caching_block.c    blocks: search, split, merge
 *   caching_segment.c  segments from the driver: obtained, collected, released
 *   caching_expand.c   segments that grow: reserved, mapped, unmapped
 *   caching_pool.c     private pools, captures, pending frees
 *   caching_stats.c    the statistics under PyTorch's names
 *   caching_check.c    the invariants
 *   caching_adopt.c    segments that were there before
 *   caching.c          the order in which a request is tried
 *   caching_policy.c   the entry in the list of policies
 *
 * Private to these files and tests; others use struct mem_policy.
 *
 * A segment is a range that came from the driver. It is cut into blocks, a
 * doubly linked list in address order that tiles it. Free blocks also lie in
 * the ordered set of their pool. Two free neighbours never coexist: they are
 * one block. Blocks of a segment share stream and pool for its whole life.
 *
 * A segment that grows is a range of addresses of which parts have memory. The
 * parts without are blocks too: not mapped, always whole pages, and in a set
 * of their own.
 */
#ifndef TM_CACHING_H
#define TM_CACHING_H

#include "memory/conf.h"
#include "memory/keyset.h"
#include "memory/memory.h"
#include "memory/shelf.h"

#define CACHING_BLOCK_BYTES    512ull             /* every block is a multiple */
/* At most this: small pool. Also the largest rest that stays with a block of the large pool. */
#define CACHING_SMALL_BYTES    (1ull << 20)
#define CACHING_SMALL_SEGMENT  (2ull << 20)       /* also a page of the small pool's growing segments */
#define CACHING_LARGE_BYTES    (10ull << 20)      /* from here on a segment of its own size, … */
#define CACHING_LARGE_GRANULE  (2ull << 20)       /* … in multiples of this */
#define CACHING_REQUEST_MAX    (1ull << 60)       /* refused before anything is looked at */
#define CACHING_UNLIMITED      UINT64_MAX

/* Block size of a request of 1 … CACHING_REQUEST_MAX - 1 bytes. */
uint64_t caching_round(const struct conf *conf, uint64_t bytes);
/* Segment size for a block of that size. */
uint64_t caching_segment_bytes(const struct conf *conf, uint64_t rounded);

/*
 * Each rule that real recordings were found to decide, broken on purpose: for
 * tests that must fail then. Builds without faults cannot break any.
 */
enum caching_mutation {
	CACHING_INTACT,
	CACHING_SEGMENT_EXACT,            /* segments of their block's size */
	CACHING_TIE_HIGH,                 /* the highest address among equals */
	CACHING_NO_NON_SPLIT,             /* oversize requests take any larger block */
	CACHING_OVERSIZE_FOR_ALL,         /* normal requests take oversize blocks */
	CACHING_TAIL_PLAIN,               /* the mapped end counts with its own size */
	CACHING_SPLIT_MIB,                /* a rest of exactly 1 MiB is cut off */
	CACHING_EXPAND_SPLIT_MIB,         /* growing segments are cut as others */
	CACHING_ROUNDUP_FROM_LAST,        /* '>' overwrites the last interval */
	CACHING_TEN_MIB_SHARED,           /* exactly 10 MiB takes a segment of 20 */
	CACHING_OVERSIZE_SPLIT,           /* oversize requests are cut */
	CACHING_NO_RELEASE_OVERSIZE,      /* straight to releasing everything */
	CACHING_GC_ABOVE,                 /* only what is older than the average */
	CACHING_GC_STOPS,                 /* as soon as enough was collected */
	CACHING_GC_ONE_PASS,
	CACHING_GC_BOTH_POOLS,            /* ages count lookups of both pools */
	CACHING_GC_HITS,                  /* ages count only hits */
	CACHING_GC_OF_DEVICE,             /* the threshold is a share of the device */
	CACHING_NON_SPLIT_ABOVE,          /* a block that is larger by exactly the rounding may be taken */
	CACHING_MUTATION_N
};
extern const char *const caching_mutation_name[CACHING_MUTATION_N];
#ifdef TM_FAULTS
extern enum caching_mutation caching_mutation;    /* of every instance; not to be changed while one lives */
#define caching_broken(which) (caching_mutation == (which))
#else
#define caching_broken(which) false
#endif

/* ---- statistics --------------------------------------------------------- */

enum caching_stat {
	CACHING_ALLOCATION, CACHING_SEGMENT, CACHING_ACTIVE, CACHING_INACTIVE_SPLIT,
	CACHING_ALLOCATED_BYTES, CACHING_RESERVED_BYTES, CACHING_ACTIVE_BYTES,
	CACHING_INACTIVE_SPLIT_BYTES, CACHING_REQUESTED_BYTES,
	CACHING_STAT_N
};

enum caching_class { CACHING_SMALL, CACHING_LARGE, CACHING_CLASS_N };

/* allocated: everything that was ever added; what was ever taken away is allocated - current. */
struct caching_gauge {
	int64_t current, peak, allocated;
};

struct caching_stats {
	struct caching_gauge all[CACHING_STAT_N], by_class[CACHING_CLASS_N][CACHING_STAT_N];
	struct caching_gauge oversize_allocations, oversize_segments;
	int64_t alloc_retries, ooms, oom_rejections, sync_all_streams, device_allocs, device_frees;
	int64_t max_split_size;           /* as at the start; -1: unlimited */
};

/* n >= 0. What is taken away touches one number, what is added three, so they are apart. */
static inline void caching_gauge_add(struct caching_gauge *gauge, int64_t n)
{
	int64_t current = gauge->current + n;

	gauge->current = current;
	gauge->allocated += n;
	gauge->peak = current > gauge->peak ? current : gauge->peak;
}

static inline void caching_gauge_sub(struct caching_gauge *gauge, int64_t n)
{
	gauge->current -= n;
}

static inline void caching_stats_add(struct caching_stats *stats, enum caching_stat stat,
				     enum caching_class class, int64_t n)
{
	caching_gauge_add(&stats->all[stat], n);
	caching_gauge_add(&stats->by_class[class][stat], n);
}

static inline void caching_stats_sub(struct caching_stats *stats, enum caching_stat stat,
				     enum caching_class class, int64_t n)
{
	caching_gauge_sub(&stats->all[stat], n);
	caching_gauge_sub(&stats->by_class[class][stat], n);
}

/* Of either sign. */
static inline void caching_stats_move(struct caching_stats *stats, enum caching_stat stat,
				      enum caching_class class, int64_t delta)
{
	if (delta < 0)
		caching_stats_sub(stats, stat, class, -delta);
	else
		caching_stats_add(stats, stat, class, delta);
}

/* Every statistic under its name in torch.cuda.memory_stats, ascending. */
void caching_stats_each(const struct caching_stats *stats,
			void (*each)(void *arg, const char *name, int64_t value), void *arg);

/* ---- structure ---------------------------------------------------------- */

struct caching_private;

struct caching_pool {
	enum caching_class class;
	struct caching_private *owner;    /* NULL: the common pool */
	struct shelf free_blocks;         /* (stream, size, address) */
	struct keyset unmapped;           /* (stream, address) */
	uint64_t lookups;                 /* searches so far, the clock of the garbage collector */
};

struct caching_private {
	struct keyset_node node;          /* (id), as unsigned numbers */
	struct mem_pool_id id;
	unsigned flags;                   /* enum mem_pool_flags */
	uint64_t uses;                    /* by how many it is retained */
	uint64_t segments;
	struct caching_pool pools[CACHING_CLASS_N];
};

enum caching_state { CACHING_FREE, CACHING_LIVE, CACHING_PENDING };

struct caching_segment {
	struct keyset_node node;          /* (address) */
	uint64_t addr, size;              /* size: of a growing one all its addresses */
	uint64_t page;                    /* bytes; 0: it does not grow */
	struct caching_pool *pool;
	struct caching_block *first;      /* the same object for the segment's whole life */
};

/*
 * What a request and a free look at, of the block and of its neighbours, comes
 * first: one line of the cache, where blocks begin (caching_block_new). The
 * next line is the place in a set.
 */
struct caching_block {
	struct caching_block *prev, *next;        /* neighbours in the segment */
	struct caching_pool *pool;
	uint64_t stream, addr, size;
	uint64_t requested;               /* raw bytes of the last request */
	uint8_t state;                    /* enum caching_state */
	bool mapped;
	bool shared;                      /* another stream used it since it was handed out */
	bool grows;                       /* its segment does: segment->page > 0 */
	struct keyset_node node;          /* iff free: in pool->free_blocks, or unmapped */
	uint64_t freed_at;                /* pool->lookups when it was last parked */
	struct caching_segment *segment;
	struct caching_block *pending_prev, *pending_next;
};

struct caching {
	struct mem_policy_config cfg;
	struct mem_driver *driver;
	struct conf conf;
	uint64_t limit;                   /* bytes; CACHING_UNLIMITED: none */
	uint64_t reserved;
	struct caching_pool pools[CACHING_CLASS_N];
	struct keyset privates;           /* struct caching_private by id */
	struct keyset segments;
	unsigned captures;                /* open ones */
	bool ever_expandable;             /* so that reserved may lie above the limit */
	struct caching_block *pending_first, *pending_last;       /* in order of their free */
	struct caching_block *spare;      /* unused blocks, linked by next */
	struct caching_slab *slabs;
	struct caching_stats stats;
	struct mem_policy_oom oom;
	bool had_oom;
};

/* One allocation on its way. */
struct caching_request {
	uint64_t bytes, size, stream;     /* asked, rounded */
	uint64_t segment;                 /* bytes of the segment where no free block fits, else 0 */
	struct caching_pool *pool;
	bool expand;                      /* from a segment that grows */
};

struct caching *caching_new(const struct mem_policy_config *cfg, const struct conf *conf);
void caching_destroy(struct caching *c);          /* every segment back to the driver */
/* TM_EOOM: nothing handed out, but cached segments may have been released. */
int caching_malloc(struct caching *c, const struct mem_request *req, struct caching_block **out,
		   struct tm_err *err);
/* later: not to be reused before caching_complete; so it is too where another stream used the block. */
void caching_free(struct caching *c, struct caching_block *block, bool later);
/* TM_EINVALID for a string that PyTorch refuses; nothing has changed then. */
int caching_set_conf(struct caching *c, const char *text, struct tm_err *err);

/* ---- caching_block.c ---- */

static inline struct caching_block *caching_block_of(struct keyset_node *node)
{
	return node ? keyset_entry(node, struct caching_block, node) : NULL;
}

static inline bool caching_is_split(const struct caching_block *block)
{
	return block->prev || block->next;
}

static inline bool caching_expands(const struct caching_block *block)
{
	return block->grows;
}

struct caching_block *caching_block_new(struct caching *c);
void caching_block_drop(struct caching *c, struct caching_block *block);
void caching_blocks_free(struct caching *c);              /* all of them, whatever they are in */
void caching_park(struct caching_block *block);           /* into the free set */
void caching_unpark(struct caching_block *block);
/* The block keeps the low `size` bytes; the rest is returned, like it in all but the place, in no set. */
struct caching_block *caching_cut(struct caching *c, struct caching_block *block, uint64_t size);
/* `high` follows `low`, neither is in a set; the object of the lower one survives. */
struct caching_block *caching_join(struct caching *c, struct caching_block *low, struct caching_block *high);
/* The best free block of that pool, taken out of the free set, or NULL. */
struct caching_block *caching_find(struct caching *c, const struct caching_request *req);
/* Cuts the request off the block if that is worth it, and counts it as handed out. */
struct caching_block *caching_hand_out(struct caching *c, struct caching_block *block,
				       const struct caching_request *req);
/* Joins a block that was just freed with free neighbours, parks the result and counts. */
void caching_take_back(struct caching *c, struct caching_block *block);

/* ---- caching_segment.c ---- */

/* Puts a segment with one block over all of it into the books; the block is in no set. */
struct caching_block *caching_open(struct caching *c, struct caching_pool *pool, uint64_t stream,
				   uint64_t addr, uint64_t size, uint64_t page);
/* Out of the books; its last block is gone with it. */
void caching_close(struct caching *c, struct caching_segment *segment);
void caching_count_reserved(struct caching *c, enum caching_class class, int64_t bytes);
/* One block of at least req->size bytes, in no set. TM_EOOM: the limit or the driver refused. */
int caching_obtain(struct caching *c, const struct caching_request *req, struct caching_block **out,
		   struct tm_err *err);
void caching_collect(struct caching *c);
bool caching_release_oversize(struct caching *c, const struct caching_request *req);
void caching_release_pool(struct caching *c, struct caching_pool *pool);

/* ---- caching_expand.c ---- */

uint64_t caching_page_bytes(const struct conf *conf, enum caching_class class);
uint64_t caching_reserve_bytes(const struct caching *c, uint64_t page);
int caching_expand(struct caching *c, const struct caching_request *req, struct caching_block **out,
		   struct tm_err *err);
/* Takes the whole pages inside a free block away, and the segment if nothing of it is left. */
void caching_shrink(struct caching *c, struct caching_block *block);

/* ---- caching_pool.c ---- */

/* NULL: there is no such private pool. */
struct caching_private *caching_private_find(const struct caching *c, struct mem_pool_id id);
/* Makes it where it is not there, retained once then. */
struct caching_private *caching_private_get(struct caching *c, struct mem_pool_id id);
/* Out of the books, whatever is in it. */
void caching_private_drop(struct caching *c, struct caching_private *p);
void caching_pool_retain(struct caching *c, struct mem_pool_id id, unsigned flags);
void caching_pool_release(struct caching *c, struct mem_pool_id id);
/* empty_cache: of everything that may go now; of one private pool. */
void caching_release_all(struct caching *c);
void caching_release_private(struct caching *c, struct mem_pool_id id);
void caching_pend(struct caching *c, struct caching_block *block);
void caching_complete(struct caching *c, struct caching_block *block);
/* NULL: of every pool. tell: through cfg.completed, since the caller did not ask for it. */
void caching_complete_all(struct caching *c, const struct caching_private *of, bool tell);

/* ---- caching_check.c, caching_adopt.c ---- */

/* Every invariant above and every current statistic against a recount; BUGs. O(n log n). */
void caching_check(const struct caching *c);
/* Blocks in address order, unmapped ones too. */
void caching_each_block(const struct caching *c,
			void (*each)(void *arg, const struct caching_block *block), void *arg);
void caching_walk(const struct caching *c, void (*each)(void *arg, const struct mem_part *part), void *arg);
int caching_adopt(struct caching *c, const struct mem_part *parts, size_t n, struct mem_grant *grants,
		  struct tm_err *err);

#endif
