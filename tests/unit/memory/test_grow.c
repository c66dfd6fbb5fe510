/*
 * Segments that grow on real memory, the walk over what a policy holds, and a
 * policy that starts with what another one left.
 */
#include "test.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "memory/caching.h"
#include "memory/driver.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)

static struct mem_block *get(struct mem *mem, uint64_t bytes)
{
	struct mem_block *block = NULL;
	struct tm_err err = { 0 };

	assert_ok(mem_alloc(mem, bytes, MEM_ACTIVATIONS, "t", &block, &err), &err);
	return block;
}

static struct mem *open_growing(struct mem_driver *driver, const char *trace)
{
	struct mem_config cfg = { .policy = "caching", .conf = "expandable_segments:True", .trace_path = trace };
	struct tm_err err = { 0 };
	struct mem *mem;

	assert_non_null(driver);
	assert_ok(mem_new(&cfg, driver, &mem, &err), &err);
	return mem;
}

/* ---- on the host ------------------------------------------------------------- */

static bool faults(void *at)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		fclose(stderr);
		*(volatile char *)at = 1;
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
}

static void host_memory_grows_and_shrinks(void **state)
{
	struct mem_driver *driver = driver_host_new(1ull << 30, NULL);
	struct mem *mem = open_growing(driver, NULL);
	struct mem_block *a = get(mem, 30 * MIB), *b = get(mem, 30 * MIB);
	char *first = (char *)(uintptr_t)a->addr, *second = (char *)(uintptr_t)b->addr;
	struct mem_usage usage;

	(void)state;
	/* One range without a gap; two pages of 20 MiB, then one more. */
	assert_ptr_equal(second, first + 30 * MIB);
	assert_int_equal(driver->held, 60 * MIB);
	memset(first, 1, 60 * MIB);
	assert_true(faults(first + 60 * MIB));
	mem_release(mem, a);
	mem_release_cached(mem);
	/* The page that `a` had for itself is gone, what it shared with `b` is not. */
	assert_int_equal(driver->held, 40 * MIB);
	assert_true(faults(first));
	assert_true(faults(first + 20 * MIB - 1));
	assert_false(faults(first + 20 * MIB));
	assert_int_equal(second[0], 1);
	a = get(mem, 30 * MIB);
	assert_ptr_equal((char *)(uintptr_t)a->addr, first);
	/* Fresh pages are zero, the rest is as it was left. */
	assert_int_equal(first[0], 0);
	assert_int_equal(first[20 * MIB], 1);
	mem_usage(mem, &usage);
	assert_int_equal(usage.reserved, 60 * MIB);
	mem_check(mem);
	mem_release(mem, a);
	mem_release(mem, b);
	mem_release_cached(mem);
	assert_int_equal(driver->held, 0);
	mem_free(mem);
}

static void a_full_host_refuses(void **state)
{
	struct mem *mem = open_growing(driver_host_new(50 * MIB, NULL), NULL);
	struct mem_block *a = get(mem, 30 * MIB), *b;
	struct tm_err err = { 0 };
	struct mem_oom oom;

	(void)state;
	assert_int_equal(mem_alloc(mem, 30 * MIB, MEM_INPUT, "x", &b, &err), TM_EOOM);
	assert_true(mem_last_oom(mem, &oom) && !oom.cap);
	mem_check(mem);
	mem_release(mem, a);
	a = get(mem, 39 * MIB);
	memset((void *)(uintptr_t)a->addr, 1, 39 * MIB);
	mem_free(mem);
}

static void the_trace_has_what_is_mapped(void **state)
{
	char path[] = "/tmp/tidemark-grow-XXXXXX";
	int fd = mkstemp(path);
	struct mem *mem = open_growing(driver_space_new(1ull << 40, 2 * MIB), path);
	struct tm_str text = TM_STR_INIT;

	(void)state;
	mem_release(mem, get(mem, 30 * MIB));
	mem_release_cached(mem);
	mem_free(mem);
	assert_int_equal(tm_read_fd(fd, 1 << 20, &text, NULL), 0);
	assert_non_null(strstr(text.s, "\"e\":\"segment_map\""));
	assert_non_null(strstr(text.s, "\"e\":\"segment_unmap\""));
	assert_non_null(strstr(text.s, "\"bytes\":41943040"));
	assert_null(strstr(text.s, "segment_alloc"));
	tm_str_free(&text);
	close(fd);
	unlink(path);
}

static void add_text(void *arg, const char *text)
{
	tm_str_addf(arg, "%s\n", text);
}

static void remarks_are_kept(void **state)
{
	struct mem_config cfg = { .policy = "caching", .conf = "expandable_segments:True,max_split_size_mb:64" };
	struct tm_str text = TM_STR_INIT;
	struct mem *mem;

	(void)state;
	assert_int_equal(mem_new(&cfg, driver_space_new(1ull << 40, 512), &mem, NULL), 0);
	mem_remarks(mem, add_text, &text);
	assert_non_null(strstr(text.s, "character 26: max_split_size_mb hides large free blocks"));
	tm_str_free(&text);
	mem_free(mem);
}

/* ---- walk and adopt ------------------------------------------------------------- */

#define PART_MAX 4096

struct picture {
	struct mem_part part[PART_MAX];
	size_t n;
};

static void add_part(void *arg, const struct mem_part *part)
{
	struct picture *p = arg;

	assert_true(p->n < PART_MAX);
	p->part[p->n++] = *part;
}

static bool same_part(const struct mem_part *a, const struct mem_part *b)
{
	return a->segment_addr == b->segment_addr && a->segment_bytes == b->segment_bytes && a->addr == b->addr &&
	       a->size == b->size && (a->state == MEM_PART_FREE || a->requested == b->requested) && a->stream == b->stream &&
	       a->pool.id[0] == b->pool.id[0] && a->pool.id[1] == b->pool.id[1] && a->state == b->state &&
	       a->small == b->small && a->expandable == b->expandable;
}

static void fill(const struct mem_policy *policy, void *c, uint64_t seed)
{
	struct mem_grant live[200];
	size_t n = 0, pending = 0;

	for (int op = 0; op < 3000; op++) {
		struct mem_request req = { .bytes = 1 };

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		req.bytes += (seed >> 33) % (op % 3 ? 12 * MIB : 3 << 19);
		req.stream = (seed >> 20) % 3;
		req.pool.id[1] = (seed >> 25) % 4 ? 0 : 5;
		if (n < TM_ARRAY_N(live) && op % 5 < 3) {
			assert_int_equal(policy->alloc(c, &req, &live[n++], NULL), 0);
		} else if (n) {
			size_t i = (seed >> 45) % n;

			if (op > 2900 && pending++ < 20)
				policy->free_later(c, &live[i]);
			else
				policy->free(c, &live[i]);
			live[i] = live[--n];
		}
		if (op % 700 == 699)
			policy->release_cached(c);
	}
}

/* Segment by segment, as a snapshot lists them. */
static size_t adopt_all(const struct mem_policy *policy, void *c, const struct picture *from, struct mem_grant *grants)
{
	struct tm_err err = { 0 };
	size_t segments = 0;

	for (size_t i = 0, n; i < from->n; i += n) {
		for (n = 1; i + n < from->n && from->part[i + n].segment_addr == from->part[i].segment_addr; n++)
			;
		assert_ok(policy->adopt(c, &from->part[i], n, &grants[i], &err), &err);
		policy->check(c);
		segments++;
	}
	return segments;
}

static void one_goes_on_where_another_stopped(const char *conf)
{
	const struct mem_policy *policy = mem_policy_find("caching");
	struct mem_driver *drivers[2] = { driver_space_new(1ull << 36, 512), driver_space_new(1ull << 36, 512) };
	struct picture *before = tm_xcalloc(1, sizeof *before), *after = tm_xcalloc(1, sizeof *after);
	struct mem_grant *grants = tm_xcalloc(PART_MAX, sizeof *grants);
	struct mem_policy_counts counts[2];
	void *c[2];

	for (int i = 0; i < 2; i++) {
		struct mem_policy_config cfg = { .conf = conf, .driver = drivers[i] };

		assert_int_equal(policy->create(&cfg, &c[i], NULL), 0);
	}
	fill(policy, c[0], 3);
	policy->walk(c[0], add_part, before);
	assert_true(before->n > 100);
	assert_true(adopt_all(policy, c[1], before, grants) > 10);
	policy->walk(c[1], add_part, after);
	assert_int_equal(before->n, after->n);
	for (size_t i = 0; i < before->n; i++)
		assert_true(same_part(&before->part[i], &after->part[i]));
	policy->counts(c[0], &counts[0]);
	policy->counts(c[1], &counts[1]);
	assert_int_equal(counts[0].reserved, counts[1].reserved);
	assert_int_equal(counts[0].allocated, counts[1].allocated);
	assert_int_equal(counts[0].active, counts[1].active);
	assert_int_equal(counts[0].inactive_split, counts[1].inactive_split);
	assert_int_equal(counts[0].segments, counts[1].segments);
	assert_int_equal(drivers[0]->held, drivers[1]->held);
	/* A request that is a hit in the first is the same hit in the second. */
	for (int k = 0; k < 2; k++) {
		struct mem_grant got[2];

		for (int i = 0; i < 2; i++)
			assert_int_equal(policy->alloc(c[i], &(struct mem_request){ .bytes = k ? 3 * MIB : 700 }, &got[i], NULL), 0);
		assert_int_equal(got[0].addr, got[1].addr);
	}
	policy->complete_all(c[1]);
	for (size_t i = 0; i < before->n; i++)
		if (before->part[i].state == MEM_PART_LIVE)
			policy->free(c[1], &grants[i]);
	policy->check(c[1]);
	policy->release_cached(c[1]);
	policy->check(c[1]);
	for (int i = 0; i < 2; i++) {
		policy->destroy(c[i]);
		assert_int_equal(drivers[i]->held, 0);
		drivers[i]->close(drivers[i]);
	}
	free(before);
	free(after);
	free(grants);
}

static void taken_over(void **state)
{
	(void)state;
	one_goes_on_where_another_stopped("");
	one_goes_on_where_another_stopped("expandable_segments:True");
	one_goes_on_where_another_stopped("max_split_size_mb:20");
}

static void what_cannot_be_taken_over(void **state)
{
#define PART(bytes, block, asked, is, ...) { \
	.segment_addr = 1 << 30, .segment_bytes = (bytes), .addr = 1 << 30, .size = (block), .requested = (asked), \
	.state = (is), __VA_ARGS__ }
	static const struct { struct mem_part part; const char *says; } cases[] = {
		{ PART(2 << 20, 1 << 20, 0, MEM_PART_FREE, .small = true), "do not tile" },
		{ PART(2 << 20, 2 << 20, 3 << 20, MEM_PART_LIVE, .small = true), "does not fit its block" },
		{ PART(1025, 1025, 0, MEM_PART_FREE, .small = true), "no multiple of 512" },
		{ PART(3 << 20, 3 << 20, 0, MEM_PART_FREE, .expandable = true), "whole pages" },
	};
#undef PART
	const struct mem_policy *policy = mem_policy_find("caching");
	struct mem_driver *driver = driver_space_new(1ull << 36, 512);
	struct mem_policy_config cfg = { .conf = "", .driver = driver };
	struct mem_part whole = {
		.segment_addr = 1 << 30, .segment_bytes = 2 << 20, .addr = 1 << 30, .size = 2 << 20, .small = true,
	};
	struct mem_grant grants[2];
	void *c;

	(void)state;
	assert_int_equal(policy->create(&cfg, &c, NULL), 0);
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tm_err err = { 0 };

		assert_int_equal(policy->adopt(c, &cases[i].part, 1, grants, &err), TM_EINVALID);
		if (!strstr(err.text, cases[i].says))
			fail_msg("case %zu: %s", i, err.text);
		policy->check(c);
	}
	assert_int_equal(policy->adopt(c, &whole, 1, grants, NULL), 0);
	assert_int_equal(policy->adopt(c, &whole, 1, grants, NULL), TM_EINVALID);
	policy->destroy(c);
	driver->close(driver);
}

/* The report's groups add up, and name what was wanted. */
static void a_refusal_is_told_in_groups(void **state)
{
	const struct mem_policy *policy = mem_policy_find("caching");
	struct mem_driver *driver = driver_space_new(100 * MIB, 512);
	struct mem_policy_config cfg = { .conf = "", .driver = driver, .cap_bytes = 60 * MIB };
	struct mem_request in_pool = { .bytes = 2 * MIB, .pool = { { 0, 1 } } };
	struct mem_grant a, b, x;
	struct mem_policy_oom oom;
	void *c;

	(void)state;
	assert_int_equal(policy->create(&cfg, &c, NULL), 0);
	assert_false(policy->last_oom(c, &oom));
	assert_int_equal(policy->alloc(c, &in_pool, &a, NULL), 0);
	assert_int_equal(policy->alloc(c, &(struct mem_request){ .bytes = 12 * MIB }, &b, NULL), 0);
	assert_int_equal(policy->alloc(c, &(struct mem_request){ .bytes = 2 * MIB }, &b, NULL), 0);
	assert_int_equal(policy->alloc(c, &(struct mem_request){ .bytes = 19 * MIB + 1 }, &x, NULL), TM_EOOM);
	assert_true(policy->last_oom(c, &oom));
	assert_int_equal(oom.asked, 19 * MIB + 1);
	assert_int_equal(oom.block, 19 * MIB + 512);
	assert_int_equal(oom.segment, 20 * MIB);
	assert_int_equal(oom.private_cached, 18 * MIB);
	assert_int_equal(oom.allocated, (2 + 12 + 2 + 18) * MIB);
	assert_int_equal(oom.reserved, 52 * MIB);
	assert_int_equal(oom.unallocated, oom.reserved - oom.allocated);
	assert_true(oom.by_limit && oom.limit == 60 * MIB);
	assert_int_equal(oom.total, 100 * MIB);
	assert_int_equal(oom.device_free, 48 * MIB);
	policy->destroy(c);
	driver->close(driver);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host_memory_grows_and_shrinks),
		cmocka_unit_test(a_full_host_refuses),
		cmocka_unit_test(the_trace_has_what_is_mapped),
		cmocka_unit_test(remarks_are_kept),
		cmocka_unit_test(taken_over),
		cmocka_unit_test(what_cannot_be_taken_over),
		cmocka_unit_test(a_refusal_is_told_in_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
