/*
 * Device memory of one run. Every byte a workload uses on a device comes
 * through here: counted, tagged with category, operator, tensor name and
 * phase, limited by the cap, and traced where asked.
 *
 * Three layers:
 *   struct mem         what the training step calls; accounting and tags
 *   struct mem_policy  how blocks are cut (raw, caching, …): one file each
 *   struct mem_driver  where segments come from (host memory, a card, a
 *                      virtual address space in which nothing is computed)
 *
 * Addresses are 64-bit numbers: on the CPU they are pointers, on a planning
 * device they point nowhere. Not thread-safe; one thread owns a struct mem.
 */
#ifndef TM_MEMORY_H
#define TM_MEMORY_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mem_category {
	MEM_PARAMETERS, MEM_GRADIENTS, MEM_OPTIMIZER, MEM_ACTIVATIONS,
	MEM_LOGITS, MEM_WORKSPACE, MEM_INPUT,
	MEM_CATEGORY_N
};
extern const char *const mem_category_name[MEM_CATEGORY_N];

/* ---- driver: where a policy gets its segments ---------------------- */

/* Of a driver's own pool, in bytes as it counts them: now, and at the most since it is there. */
struct mem_pool_usage {
	uint64_t used, used_peak, reserved, reserved_peak;
};

struct mem_driver {
	/*
	 * bytes > 0. Writes the address; TM_EOOM where the device has no more
	 * (the driver stays usable after that), another code where it is broken.
	 */
	int (*alloc)(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err);
	void (*free)(struct mem_driver *drv, uint64_t addr, uint64_t bytes);
	/* Bytes of the whole device and what the driver says is free; 0: unknown. */
	void (*info)(struct mem_driver *drv, uint64_t *total, uint64_t *unused);
	void (*close)(struct mem_driver *drv);
	/*
	 * Addresses and memory apart, for segments that grow; all four or none
	 * (NULL). A reserved range has nothing behind it. map gives memory to a
	 * part of it, all of that part or (TM_EOOM) nothing, unmap takes it away
	 * again, maybe in other parts; a range is unmapped before it is released.
	 * All in multiples of the policy's page for this range, itself one of 2 MiB.
	 */
	int (*reserve)(struct mem_driver *drv, uint64_t bytes, uint64_t page, uint64_t *addr, struct tm_err *err);
	int (*map)(struct mem_driver *drv, uint64_t addr, uint64_t bytes, struct tm_err *err);
	void (*unmap)(struct mem_driver *drv, uint64_t addr, uint64_t bytes);
	void (*release)(struct mem_driver *drv, uint64_t addr, uint64_t bytes);
	/*
	 * For a policy that starts with what another one left (mem_policy.adopt):
	 * from now on the range is as if `alloc` (or `reserve`) had given it.
	 * NULL: cannot be had.
	 */
	int (*claim)(struct mem_driver *drv, uint64_t addr, uint64_t bytes, bool reserve, struct tm_err *err);
	/*
	 * A pool that the driver itself keeps, for the policy async; all four or
	 * none (NULL). Blocks come and go in the order of the work that is queued.
	 * `held` is then what the pool has of the device. empty gives back what is
	 * not in use, once the work that is queued is done.
	 */
	int (*pool_alloc)(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err);
	void (*pool_free)(struct mem_driver *drv, uint64_t addr);
	void (*pool_usage)(struct mem_driver *drv, struct mem_pool_usage *out);
	void (*pool_empty)(struct mem_driver *drv);
	/*
	 * What the device shows as taken, in bytes: the segments as the driver
	 * counts them, each rounded up to what it can give. Kept by the driver.
	 */
	uint64_t held;
};

/* ---- policy: one file each, registered by a constructor ------------ */

#define MEM_POLICY_VERSION 2

/* Pools that keep apart what they cache, as CUDA graphs need it. {0, 0}: the common one. */
struct mem_pool_id {
	int64_t id[2];
};

enum mem_pool_flags {
	MEM_POOL_NO_SPLIT = 1,            /* a request takes the whole block that it finds */
	MEM_POOL_USE_ON_OOM = 2,          /* its free blocks serve the common pool before that gives up */
	MEM_POOL_OWN_MEMORY = 4,          /* has its own way to memory: never expandable */
};

struct mem_request {
	uint64_t bytes;                   /* > 0 */
	uint64_t stream;                  /* a raw handle; 0: the default one */
	struct mem_pool_id pool;
};

struct mem_grant {
	uint64_t addr;
	uint64_t size;                    /* bytes the policy counts for it (rounded) */
	void *cookie;                     /* the policy's own block; valid until its free has completed */
};

struct mem_policy_config {
	const char *conf;                 /* PyTorch-style option string, or "" */
	uint64_t cap_bytes;               /* 0: none. A policy refuses when reserved + wanted exceeds it */
	uint64_t total_bytes;             /* of the device; 0: what the driver says */
	struct mem_driver *driver;
	/* Both may be NULL. A remark on the options, one sentence. */
	void (*warn)(void *arg, const char *text);
	/*
	 * The policy completed a pending free by itself, since it waited for the
	 * device (before it gives up, or in release_cached); the cookie is dead.
	 */
	void (*completed)(void *arg, void *cookie);
	void *arg;                        /* of both */
};

/* What a policy knows by itself; all in bytes or counts since creation. */
struct mem_policy_counts {
	uint64_t allocated, active, reserved;           /* now; active - allocated: freed, but pending */
	uint64_t allocated_peak, active_peak, reserved_peak;
	uint64_t requested, requested_peak;             /* of active blocks, as asked; 0 where it is not counted */
	uint64_t driver_allocs, driver_frees, retries, ooms;
	uint64_t inactive_split, inactive_split_peak;   /* bytes; 0 where the policy never splits */
	uint64_t segments, segments_peak;
};

/* Bytes in use at one moment. */
struct mem_usage {
	uint64_t requested, allocated, active, reserved;
};

/* The last refusal, as PyTorch's report groups it; bytes. */
struct mem_policy_oom {
	uint64_t asked, block, segment;   /* raw request, rounded, and the segment that could not be had */
	uint64_t allocated;               /* by the program, free blocks of private pools included */
	uint64_t private_cached;          /* of it: those */
	uint64_t reserved, unallocated;   /* unallocated: reserved and neither of the above */
	uint64_t limit;                   /* UINT64_MAX: none */
	uint64_t total, device_free;      /* as the driver says; 0: unknown */
	bool by_limit;                    /* the last attempt failed at the limit, not at the driver */
};

enum mem_part_state { MEM_PART_FREE, MEM_PART_LIVE, MEM_PART_PENDING };

/* One block of a segment; of memory that grows a segment is a mapped range without gaps. */
struct mem_part {
	uint64_t segment_addr, segment_bytes;
	uint64_t addr, size, requested;   /* requested: of the block's last request */
	uint64_t stream;
	struct mem_pool_id pool;
	enum mem_part_state state;
	bool small, expandable;
	uint64_t range_addr;              /* adopt: where the addresses of memory that grows begin; 0: not known */
};

struct mem_policy {
	int version;                      /* MEM_POLICY_VERSION */
	const char *name, *help;
	bool exact;                       /* its reserved peak is the same in every run */
	bool drivers_pool;                /* is a pool of the driver's: only where there is one, and not to be planned */
	bool takes_conf;                  /* the option string means something; else only "" gets to create */
	/* What a spec may write for this policy with that option beside others; both or (NULL) none. */
	const char *short_name, *short_conf;
	int (*create)(const struct mem_policy_config *cfg, void **state, struct tm_err *err);
	void (*destroy)(void *state);     /* returns every segment to the driver */
	/*
	 * TM_EOOM with text on refusal: no block in use has changed then, but
	 * cached memory may have gone back to the driver.
	 */
	int (*alloc)(void *state, const struct mem_request *req, struct mem_grant *out, struct tm_err *err);
	/* Completes at once, unless another stream used the block: then as free_later. */
	void (*free)(void *state, const struct mem_grant *grant);
	void (*counts)(void *state, struct mem_policy_counts *out);
	/* Of the same what is read after every call, but for `requested`; NULL: counts is asked. */
	void (*usage)(void *state, struct mem_usage *out);
	void (*release_cached)(void *state);            /* empty_cache; NULL: nothing is cached */
	/* Everything the policy counts, under names of its own, ascending. NULL: counts() says it all. */
	void (*stats)(void *state, void (*each)(void *arg, const char *name, int64_t value), void *arg);
	/* Checks every invariant and BUGs on a violation; for tests and debug builds. May be NULL. */
	void (*check)(void *state);

	/*
	 * The rest is for programs with several streams and pools; a policy
	 * without it has each member NULL, and serves every request from one pool.
	 *
	 * Another stream uses the block (record_stream); the block's own is ignored.
	 */
	void (*use)(void *state, const struct mem_grant *grant, uint64_t stream);
	/* Freed by the program, but not to be used again before `complete`: work on it is not done. */
	void (*free_later)(void *state, const struct mem_grant *grant);
	void (*complete)(void *state, const struct mem_grant *grant);
	void (*complete_all)(void *state);              /* all that are pending, in order of their free */
	/*
	 * A private pool comes into being with its first pool_retain, or with the
	 * first request that names it (then without flags). Its cached memory can
	 * go back only while nobody retains it; a request for a pool that nobody
	 * retains does so once.
	 */
	void (*pool_retain)(void *state, struct mem_pool_id id, unsigned flags);
	void (*pool_release)(void *state, struct mem_pool_id id);
	/* empty_cache of one pool: nothing for one that is retained or unknown. */
	void (*pool_release_cached)(void *state, struct mem_pool_id id);
	/*
	 * While a capture (or a pool context) is open, memory of the common pool
	 * is not given back, and there is no retry. They nest.
	 */
	void (*capture_begin)(void *state);
	void (*capture_end)(void *state);
	/* Options that can be changed at run time are; as torch.cuda.memory._set_allocator_settings. */
	int (*set_conf)(void *state, const char *conf, struct tm_err *err);
	/* False: no request was refused so far. */
	bool (*last_oom)(void *state, struct mem_policy_oom *out);
	/* Every mapped block in order of address. */
	void (*walk)(void *state, void (*each)(void *arg, const struct mem_part *part), void *arg);
	/*
	 * Takes over a segment with its blocks: what a policy had at some moment,
	 * so that it can go on from there. parts tile the segment (only addr,
	 * size, requested, state are read of each, the rest of the first); free
	 * neighbours are joined. grants[i] is filled where a part is live or
	 * pending. For a mapped range of memory that grows, ranges of one stream
	 * and pool come in order of address. The driver must have `claim`.
	 * TM_EINVALID: they do not tile, or overlap what is there.
	 */
	int (*adopt)(void *state, const struct mem_part *parts, size_t n, struct mem_grant *grants, struct tm_err *err);
};

/* Called from a constructor in the policy's own file. */
void mem_policy_register(const struct mem_policy *policy);
const struct mem_policy *mem_policy_find(const char *name);     /* NULL: none */
size_t mem_policy_n(void);
const struct mem_policy *mem_policy_at(size_t i);               /* by name, ascending */

/* ---- the run's memory ---------------------------------------------- */

struct mem;

/* One live block. Read only for callers; owned by its struct mem. */
struct mem_block {
	uint64_t addr, requested, size;   /* bytes */
	uint64_t id;                      /* from 1, in order of birth */
	enum mem_category category;
	const char *name;                 /* the tensor; static or interned */
	const char *op, *phase;           /* who asked, and when */
	int64_t step;
	/* private */
	struct mem_grant grant;
	struct mem_block *prev, *next;
	uint32_t op_index;
};

struct mem_config {
	const char *policy;               /* "raw", "caching", … */
	const char *conf;                 /* option string or NULL */
	uint64_t cap_bytes;               /* 0: none */
	const char *trace_path;           /* JSON lines of every event, or NULL */
};

/* Takes ownership of drv, also on failure. TM_EINVALID for an unknown policy or option. */
int mem_new(const struct mem_config *cfg, struct mem_driver *drv, struct mem **out, struct tm_err *err);
/* What the policy remarked on its option string: one sentence a call. */
void mem_remarks(const struct mem *mem, void (*each)(void *arg, const char *text), void *arg);
void mem_free(struct mem *mem);       /* NULL is fine; frees what is still live */
/*
 * Writes the end of the trace and closes it; later events are not recorded.
 * TM_EIO: some of it could not be written, now or earlier. Without a trace 0.
 * mem_free closes too, but cannot tell.
 */
int mem_trace_close(struct mem *mem, struct tm_err *err);

/*
 * Tags of what follows; strings must outlive the struct mem (literals or
 * mem_intern). Phases in use: "load", "forward", "backward", "update",
 * "eval". The step is counted from 0; -1 before the first. A run starts in
 * phase "load" with the operator "other"; NULL brings these back.
 */
void mem_set_phase(struct mem *mem, const char *phase);
const char *mem_set_op(struct mem *mem, const char *op);        /* returns the old one */
void mem_set_step(struct mem *mem, int64_t step);
const char *mem_intern(struct mem *mem, const char *s);

/*
 * bytes may be 0: then *out is NULL and nothing is counted. On TM_EOOM the
 * error text has operator, tensor, bytes asked, cap and usage, and
 * mem_last_oom tells them as numbers.
 */
int mem_alloc(struct mem *mem, uint64_t bytes, enum mem_category category, const char *name,
	      struct mem_block **out, struct tm_err *err);
void mem_release(struct mem *mem, struct mem_block *block);     /* NULL is fine */

struct mem_oom {
	bool cap;                         /* our layer refused; else the driver did */
	const char *op, *phase, *name;
	int64_t step;
	uint64_t asked, allocated, reserved, cap_bytes, device_free;
};
/* False: no allocation has failed so far. */
bool mem_last_oom(const struct mem *mem, struct mem_oom *out);

/*
 * A high-water mark: the usage with its four numbers each at its own
 * maximum, and what the categories held (requested bytes, block bytes) at
 * the first moment of the highest `allocated`.
 */
struct mem_peak {
	struct mem_usage max;
	uint64_t requested_at_peak[MEM_CATEGORY_N], allocated_at_peak[MEM_CATEGORY_N];
	uint64_t reserved_at_peak;        /* reserved when allocated was highest */
	uint64_t allocated_at_reserved;   /* allocated when reserved was first highest */
	uint64_t device;                  /* the driver's `held`, at its own maximum */
	int64_t step;                     /* when and where */
	const char *phase, *op;
};

void mem_usage(const struct mem *mem, struct mem_usage *out);
void mem_counts(const struct mem *mem, struct mem_policy_counts *out);
/* The policy's own statistics (of caching: PyTorch's); false where it has none. */
bool mem_stats_each(const struct mem *mem, void (*each)(void *arg, const char *name, int64_t value), void *arg);
/* Gives cached segments back to the driver, as torch.cuda.empty_cache does. */
void mem_release_cached(struct mem *mem);
/* Recounts everything, the policy's invariants included; BUGs on a difference. O(n log n), for tests. */
void mem_check(const struct mem *mem);
uint64_t mem_alloc_calls(const struct mem *mem);                /* mem_alloc with bytes > 0 so far */
/* Of the whole run; of one phase name (NULL if that phase never was). */
const struct mem_peak *mem_run_peak(const struct mem *mem);
const struct mem_peak *mem_phase_peak(const struct mem *mem, const char *phase);
/*
 * Starts a fresh high-water mark beside the run's, under a name of the caller
 * ("first step", "steady"); what is live at that moment counts. One mark is
 * open at a time: beginning another ends it; the same name starts afresh.
 */
void mem_mark_begin(struct mem *mem, const char *name);
void mem_mark_end(struct mem *mem);
const struct mem_peak *mem_mark_peak(const struct mem *mem, const char *name);
size_t mem_peak_n(const struct mem *mem);                       /* phases and marks, to list them */
const struct mem_peak *mem_peak_at(const struct mem *mem, size_t i, const char **name);

/* Per operator, in order of its first allocation. mem_op_at is valid until the next mem_alloc. */
struct mem_op_usage {
	const char *op;
	uint64_t calls;                   /* allocations */
	uint64_t live, live_max;          /* requested bytes it holds now, at most */
	uint64_t at_peak;                 /* requested bytes it held at the run's peak */
};
size_t mem_op_n(const struct mem *mem);
const struct mem_op_usage *mem_op_at(const struct mem *mem, size_t i);

/*
 * A digest of all that happened since mem_digest_begin: every request with the
 * address it got, every release, every segment. Two steps with the same digest
 * and none drawn at random did the same to memory.
 */
void mem_digest_begin(struct mem *mem);
uint64_t mem_digest(const struct mem *mem);

/* ---- a timeline of one step (for the plot "memory within a step") --- */

/*
 * Records every change until _end; at most `max` (32 or more) points are kept.
 * The first, the last and the highest point of each of the four usages and of
 * each category are never dropped; of the rest the higher one of neighbours
 * stays. mem_timeline gives the last finished one, valid until the next _begin.
 */
void mem_timeline_begin(struct mem *mem, size_t max);
void mem_timeline_end(struct mem *mem);
struct mem_timeline_point {
	int64_t us;                       /* since _begin */
	struct mem_usage usage;
	uint64_t by[MEM_CATEGORY_N];      /* requested bytes */
	const char *phase, *op;
};
size_t mem_timeline(const struct mem *mem, const struct mem_timeline_point **out);

/* ---- leaks: what stayed between two moments ------------------------ */

struct mem_snapshot;                      /* the live blocks of one moment */
struct mem_snapshot *mem_snapshot_take(const struct mem *mem);
void mem_snapshot_free(struct mem_snapshot *snap);
struct mem_stayed {
	const char *op, *phase, *name;
	enum mem_category category;
	uint64_t blocks, bytes;           /* requested; born after `from`, alive in `to` */
};
/*
 * Groups by (op, phase, name, category), largest first. *out is to be freed;
 * its strings belong to the struct mem. Returns the number of groups. `from`
 * NULL: all that `to` holds.
 */
size_t mem_snapshot_diff(const struct mem_snapshot *from, const struct mem_snapshot *to,
			 struct mem_stayed **out);
/* The blocks that were live at the run's peak (mem_run_peak), in no order; for mem_snapshot_diff from NULL. */
struct mem_snapshot *mem_snapshot_peak(const struct mem *mem);

#endif
