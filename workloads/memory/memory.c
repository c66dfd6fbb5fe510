/*
 * The run's memory: hands requests to the policy and keeps the books. The
 * books are kept here and not in the policies, so that the figures of two
 * policies are counted by the same code.
 */
#include "memory/mem_priv.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdlib.h>

#define PHASE_AT_START "load"
#define OP_WHERE_NONE  "other"

/* ---- the driver as the policy sees it ----------------------------------- */

static struct mem *mem_of(struct mem_driver *watch)
{
	return (struct mem *)watch;       /* its first member */
}

/*
 * One event more. The multipliers are odd with mixed bits (2^64 / golden ratio,
 * and the finalizer of MurmurHash3); the rotation brings high bits down. Only
 * one product waits for the event before.
 */
static void digest(struct mem *mem, uint64_t addr, uint64_t bytes)
{
	uint64_t event = addr * 0x9e3779b97f4a7c15ull ^ bytes * 0xff51afd7ed558ccdull, h = mem->digest;

	mem->digest = ((h << 29 | h >> 35) ^ event) * 0xc4ceb9fe1a85ec53ull;
}

static int watch_alloc(struct mem_driver *watch, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct mem *mem = mem_of(watch);
	int rc = mem->driver->alloc(mem->driver, bytes, addr, err);

	mem->refused = rc != 0;
	if (rc)
		return rc;
	digest(mem, *addr, bytes);
	if (mem->trace)
		trace_segment(mem->trace, "segment_alloc", *addr, bytes, &mem->place);
	return 0;
}

static void watch_free(struct mem_driver *watch, uint64_t addr, uint64_t bytes)
{
	struct mem *mem = mem_of(watch);

	digest(mem, ~addr, bytes);
	if (mem->trace)
		trace_segment(mem->trace, "segment_free", addr, bytes, &mem->place);
	mem->driver->free(mem->driver, addr, bytes);
}

/* Addresses alone are nothing that a program has, so only mapping shows in a trace. */
static int watch_reserve(struct mem_driver *watch, uint64_t bytes, uint64_t page, uint64_t *addr, struct tm_err *err)
{
	struct mem *mem = mem_of(watch);
	int rc = mem->driver->reserve(mem->driver, bytes, page, addr, err);

	mem->refused = rc != 0;
	return rc;
}

static int watch_map(struct mem_driver *watch, uint64_t addr, uint64_t bytes, struct tm_err *err)
{
	struct mem *mem = mem_of(watch);
	int rc = mem->driver->map(mem->driver, addr, bytes, err);

	mem->refused = rc != 0;
	if (rc)
		return rc;
	digest(mem, addr, bytes);
	if (mem->trace)
		trace_segment(mem->trace, "segment_map", addr, bytes, &mem->place);
	return 0;
}

static void watch_unmap(struct mem_driver *watch, uint64_t addr, uint64_t bytes)
{
	struct mem *mem = mem_of(watch);

	digest(mem, ~addr, bytes);
	if (mem->trace)
		trace_segment(mem->trace, "segment_unmap", addr, bytes, &mem->place);
	mem->driver->unmap(mem->driver, addr, bytes);
}

static void watch_release(struct mem_driver *watch, uint64_t addr, uint64_t bytes)
{
	struct mem_driver *driver = mem_of(watch)->driver;

	driver->release(driver, addr, bytes);
}

/* The pool's own segments stay its secret, so what shows in a trace are the blocks. */
static int watch_pool_alloc(struct mem_driver *watch, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct mem *mem = mem_of(watch);
	int rc = mem->driver->pool_alloc(mem->driver, bytes, addr, err);

	mem->refused = rc != 0;
	return rc;
}

static void watch_pool_free(struct mem_driver *watch, uint64_t addr)
{
	struct mem_driver *driver = mem_of(watch)->driver;

	driver->pool_free(driver, addr);
}

static void watch_pool_usage(struct mem_driver *watch, struct mem_pool_usage *out)
{
	struct mem_driver *driver = mem_of(watch)->driver;

	driver->pool_usage(driver, out);
}

static void watch_pool_empty(struct mem_driver *watch)
{
	struct mem_driver *driver = mem_of(watch)->driver;

	driver->pool_empty(driver);
}

static void watch_info(struct mem_driver *watch, uint64_t *total, uint64_t *unused)
{
	struct mem_driver *driver = mem_of(watch)->driver;

	driver->info(driver, total, unused);
}

/* ---- life ---------------------------------------------------------------- */

static int unknown_policy(const char *name, struct tm_err *err)
{
	const char *near, **names = tm_xcalloc(mem_policy_n(), sizeof *names);
	struct tm_str list = TM_STR_INIT;
	int rc;

	for (size_t i = 0; i < mem_policy_n(); i++) {
		names[i] = mem_policy_at(i)->name;
		tm_str_addf(&list, "%s%s", i ? ", " : "", names[i]);
	}
	near = tm_nearest(name, names, mem_policy_n());
	if (near)
		rc = tm_fail(err, TM_EINVALID, "no allocator is called \"%s\"; did you mean \"%s\"? There are: %s",
			     name, near, list.s);
	else
		rc = tm_fail(err, TM_EINVALID, "no allocator is called \"%s\"; there are: %s", name, list.s);
	tm_str_free(&list);
	free(names);
	return rc;
}

static void keep_remark(void *arg, const char *text)
{
	struct mem *mem = arg;

	mem->remarks = tm_xrealloc_n(mem->remarks, mem->remark_n + 1, sizeof *mem->remarks);
	mem->remarks[mem->remark_n++] = tm_xstrdup(text);
}

void mem_remarks(const struct mem *mem, void (*each)(void *arg, const char *text), void *arg)
{
	for (size_t i = 0; i < mem->remark_n; i++)
		each(arg, mem->remarks[i]);
}

static int open_policy(struct mem *mem, const struct mem_config *cfg, struct tm_err *err)
{
	const struct mem_policy_config policy_cfg = {
		.conf = cfg->conf ? cfg->conf : "", .cap_bytes = cfg->cap_bytes, .driver = &mem->watch,
		.warn = keep_remark, .arg = mem,
	};

	mem->policy = mem_policy_find(cfg->policy);
	if (!mem->policy)
		return unknown_policy(cfg->policy, err);
	if (!mem->policy->takes_conf && *policy_cfg.conf)
		return tm_fail(err, TM_EINVALID, "the allocator \"%s\" has no options, but alloc_conf is \"%s\"",
			       cfg->policy, policy_cfg.conf);
	return mem->policy->create(&policy_cfg, &mem->state, err);
}

int mem_new(const struct mem_config *cfg, struct mem_driver *drv, struct mem **out, struct tm_err *err)
{
	struct mem *mem = tm_xcalloc(1, sizeof *mem);
	int rc;

	mem->watch = (struct mem_driver){ .alloc = watch_alloc, .free = watch_free, .info = watch_info };
	if (drv->map) {
		mem->watch.reserve = watch_reserve;
		mem->watch.map = watch_map;
		mem->watch.unmap = watch_unmap;
		mem->watch.release = watch_release;
	}
	if (drv->pool_alloc) {
		mem->watch.pool_alloc = watch_pool_alloc;
		mem->watch.pool_free = watch_pool_free;
		mem->watch.pool_usage = watch_pool_usage;
		mem->watch.pool_empty = watch_pool_empty;
	}
	mem->driver = drv;
	mem->cap_bytes = cfg->cap_bytes;
	mem->place = (struct account_place){ .phase = PHASE_AT_START, .op = OP_WHERE_NONE, .step = -1 };
	rc = open_policy(mem, cfg, err);
	if (!rc && cfg->trace_path)
		rc = trace_open(cfg->trace_path, cfg, &mem->trace, err);
	if (rc) {
		mem_free(mem);
		return rc;
	}
	account_phase(&mem->account, PHASE_AT_START, &mem->place);
	*out = mem;
	return 0;
}

int mem_trace_close(struct mem *mem, struct tm_err *err)
{
	struct trace *trace = mem->trace;

	mem->trace = NULL;
	return trace_close(trace, err);
}

static void free_blocks(struct mem_block *block)
{
	struct mem_block *next;

	for (; block; block = next) {
		next = block->next;
		free(block);
	}
}

void mem_free(struct mem *mem)
{
	if (!mem)
		return;
	/* First, so that the trace ends with what was still live. */
	mem_trace_close(mem, NULL);
	free_blocks(mem->live);
	free_blocks(mem->spare);
	if (mem->state)
		mem->policy->destroy(mem->state);
	mem->driver->close(mem->driver);
	account_free(&mem->account);
	operators_free(&mem->ops);
	peak_live_free(&mem->peak_live);
	timeline_free(mem->timeline);
	names_free(&mem->names);
	for (size_t i = 0; i < mem->remark_n; i++)
		free(mem->remarks[i]);
	free(mem->remarks);
	free(mem);
}

/* ---- tags ---------------------------------------------------------------- */

void mem_set_phase(struct mem *mem, const char *phase)
{
	mem->place.phase = phase ? phase : PHASE_AT_START;
	account_phase(&mem->account, mem->place.phase, &mem->place);
	if (mem->trace)
		trace_name(mem->trace, "phase", mem->place.phase, mem->place.step);
}

const char *mem_set_op(struct mem *mem, const char *op)
{
	const char *old = mem->place.op;

	mem->place.op = op ? op : OP_WHERE_NONE;
	return old;
}

void mem_set_step(struct mem *mem, int64_t step)
{
	mem->place.step = step;
}

const char *mem_intern(struct mem *mem, const char *s)
{
	uint32_t i = names_index(&mem->names, s);

	return mem->names.text[i];
}

void mem_mark_begin(struct mem *mem, const char *name)
{
	BUG_ON(!name);
	account_mark(&mem->account, name, &mem->place);
	if (mem->trace)
		trace_name(mem->trace, "mark_begin", name, mem->place.step);
}

void mem_mark_end(struct mem *mem)
{
	account_mark(&mem->account, NULL, &mem->place);
	if (mem->trace)
		trace_name(mem->trace, "mark_end", "", mem->place.step);
}

/* ---- blocks -------------------------------------------------------------- */

static void read_usage(struct mem *mem)
{
	struct mem_policy_counts counts;
	struct mem_usage usage;

	if (mem->policy->usage) {
		mem->policy->usage(mem->state, &usage);
	} else {
		mem->policy->counts(mem->state, &counts);
		usage = (struct mem_usage){
			.allocated = counts.allocated, .active = counts.active, .reserved = counts.reserved,
		};
	}
	account_usage(&mem->account, &usage, mem->driver->held);
}

/* What happened since the last event, for those who watch. */
static void note_change(struct mem *mem)
{
	if (mem->timeline_on)
		timeline_add(mem->timeline, &mem->account, &mem->place);
}

static int refused(struct mem *mem, uint64_t bytes, enum mem_category category, const char *name,
		   const struct tm_err *cause, struct tm_err *err)
{
	char text[4][32];
	uint64_t total;

	mem->oom = (struct mem_oom){
		.cap = !mem->refused, .op = mem->place.op, .phase = mem->place.phase, .name = name,
		.step = mem->place.step, .asked = bytes, .allocated = mem->account.now.allocated,
		.reserved = mem->account.now.reserved, .cap_bytes = mem->cap_bytes,
	};
	mem->driver->info(mem->driver, &total, &mem->oom.device_free);
	mem->had_oom = true;
	if (mem->trace)
		trace_oom(mem->trace, &mem->oom, category);
	return tm_fail(err, TM_EOOM,
		       "out of device memory: %s (%s, step %lld) asked for %s for \"%s\" (%s) "
		       "with %s allocated, %s reserved, cap %s: %s",
		       mem->place.op, mem->place.phase, (long long)mem->place.step,
		       tm_size_text((double)bytes, text[0]), name, mem_category_name[category],
		       tm_size_text((double)mem->oom.allocated, text[1]),
		       tm_size_text((double)mem->oom.reserved, text[2]),
		       mem->cap_bytes ? tm_size_text((double)mem->cap_bytes, text[3]) : "none", cause->text);
}

static uint32_t op_index(struct mem *mem)
{
	/* The same literal comes many times in a row; others are looked up by their text. */
	if (mem->indexed_op != mem->place.op) {
		mem->op_index = operators_index(&mem->ops, mem->place.op);
		mem->indexed_op = mem->place.op;
	}
	return mem->op_index;
}

static struct mem_block *new_block(struct mem *mem, const struct mem_grant *grant, uint64_t bytes,
				   enum mem_category category, const char *name)
{
	struct mem_block *block = mem->spare;

	if (block)
		mem->spare = block->next;
	else
		block = tm_xmalloc(sizeof *block);
	*block = (struct mem_block){
		.addr = grant->addr, .requested = bytes, .size = grant->size, .id = ++mem->last_id,
		.category = category, .name = name, .op = mem->place.op, .phase = mem->place.phase,
		.step = mem->place.step, .grant = *grant, .next = mem->live, .op_index = op_index(mem),
	};
	if (mem->live)
		mem->live->prev = block;
	mem->live = block;
	return block;
}

/* Kept for the next one; not under the sanitizer, which is to see who still uses it. */
static void drop_block(struct mem *mem, struct mem_block *block)
{
#ifdef __SANITIZE_ADDRESS__
	(void)mem;
	free(block);
#else
	block->next = mem->spare;
	mem->spare = block;
#endif
}

int mem_alloc(struct mem *mem, uint64_t bytes, enum mem_category category, const char *name,
	      struct mem_block **out, struct tm_err *err)
{
	const struct mem_request req = { .bytes = bytes };
	struct mem_grant grant;
	struct mem_block *block;
	struct tm_err cause;
	int rc;

	BUG_ON((unsigned)category >= MEM_CATEGORY_N);
	*out = NULL;
	if (bytes == 0)
		return 0;
	name = name ? name : "";
	mem->alloc_calls++;
	mem->refused = false;
	rc = mem->policy->alloc(mem->state, &req, &grant, &cause);
	read_usage(mem);
	if (rc) {
		note_change(mem);
		if (rc == TM_EOOM)
			return refused(mem, bytes, category, name, &cause, err);
		if (err)
			*err = cause;
		return rc;
	}
	block = new_block(mem, &grant, bytes, category, name);
	account_block(&mem->account, category, bytes, block->size, 1);
	operators_add(&mem->ops, block->op_index, bytes, mem->account.run_peaks);
	if (account_raise(&mem->account, &mem->place))
		mem->peak_live.last_id = block->id;
	digest(mem, block->addr, bytes);
	note_change(mem);
	if (mem->trace)
		trace_block(mem->trace, "alloc", block, &mem->place);
	*out = block;
	return 0;
}

void mem_release(struct mem *mem, struct mem_block *block)
{
	if (!block)
		return;
	if (mem->trace)
		trace_block(mem->trace, "free", block, &mem->place);
	if (block->id <= mem->peak_live.last_id)
		peak_live_add(&mem->peak_live, block);
	digest(mem, ~block->addr, block->requested);
	mem->policy->free(mem->state, &block->grant);
	read_usage(mem);
	account_block(&mem->account, block->category, block->requested, block->size, -1);
	operators_sub(&mem->ops, block->op_index, block->requested, mem->account.run_peaks);
	note_change(mem);
	if (block->prev)
		block->prev->next = block->next;
	else
		mem->live = block->next;
	if (block->next)
		block->next->prev = block->prev;
	drop_block(mem, block);
}

void mem_release_cached(struct mem *mem)
{
	if (!mem->policy->release_cached)
		return;
	mem->policy->release_cached(mem->state);
	read_usage(mem);
	note_change(mem);
}

/* ---- what is known ------------------------------------------------------- */

bool mem_last_oom(const struct mem *mem, struct mem_oom *out)
{
	if (mem->had_oom)
		*out = mem->oom;
	return mem->had_oom;
}

void mem_usage(const struct mem *mem, struct mem_usage *out)
{
	*out = mem->account.now;
}

void mem_counts(const struct mem *mem, struct mem_policy_counts *out)
{
	mem->policy->counts(mem->state, out);
}

bool mem_stats_each(const struct mem *mem, void (*each)(void *arg, const char *name, int64_t value), void *arg)
{
	if (!mem->policy->stats)
		return false;
	mem->policy->stats(mem->state, each, arg);
	return true;
}

uint64_t mem_alloc_calls(const struct mem *mem)
{
	return mem->alloc_calls;
}

const struct mem_peak *mem_run_peak(const struct mem *mem)
{
	return &mem->account.run;
}

const struct mem_peak *mem_phase_peak(const struct mem *mem, const char *phase)
{
	const struct account_peak *found = account_find(&mem->account, phase, false);

	return found ? &found->peak : NULL;
}

const struct mem_peak *mem_mark_peak(const struct mem *mem, const char *name)
{
	const struct account_peak *found = account_find(&mem->account, name, true);

	return found ? &found->peak : NULL;
}

size_t mem_peak_n(const struct mem *mem)
{
	return mem->account.peak_n;
}

const struct mem_peak *mem_peak_at(const struct mem *mem, size_t i, const char **name)
{
	BUG_ON(i >= mem->account.peak_n);
	*name = mem->account.peaks[i]->name;
	return &mem->account.peaks[i]->peak;
}

size_t mem_op_n(const struct mem *mem)
{
	return mem->ops.n;
}

const struct mem_op_usage *mem_op_at(const struct mem *mem, size_t i)
{
	/* Settling what is held at the peak changes no answer, only when it is written down. */
	return operators_at((struct operators *)&mem->ops, i, mem->account.run_peaks);
}

void mem_digest_begin(struct mem *mem)
{
	mem->digest = 0;
}

uint64_t mem_digest(const struct mem *mem)
{
	return mem->digest;
}

void mem_timeline_begin(struct mem *mem, size_t max)
{
	timeline_free(mem->timeline);
	mem->timeline = timeline_new(max, &mem->account, &mem->place);
	mem->timeline_on = true;
}

void mem_timeline_end(struct mem *mem)
{
	if (mem->timeline)
		timeline_end(mem->timeline);
	mem->timeline_on = false;
}

size_t mem_timeline(const struct mem *mem, const struct mem_timeline_point **out)
{
	*out = NULL;
	return mem->timeline ? timeline_points(mem->timeline, out) : 0;
}

void mem_check(const struct mem *mem)
{
	uint64_t requested[MEM_CATEGORY_N] = { 0 }, allocated[MEM_CATEGORY_N] = { 0 }, total = 0, blocks = 0;

	if (mem->policy->check)
		mem->policy->check(mem->state);
	for (const struct mem_block *b = mem->live; b; b = b->next) {
		BUG_ON(b->next && b->next->prev != b);
		requested[b->category] += b->requested;
		allocated[b->category] += b->size;
		total += b->requested;
		blocks += b->size;
	}
	for (int i = 0; i < MEM_CATEGORY_N; i++)
		BUG_ON(requested[i] != mem->account.requested_by[i] || allocated[i] != mem->account.allocated_by[i]);
	BUG_ON(total != mem->account.now.requested || blocks != mem->account.now.allocated);
}
