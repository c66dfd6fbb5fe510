/*
 * Runs vectors.txt: the caching policy against blocks, statistics and events
 * worked out by hand. And runs them again with each rule broken in turn, to
 * see that they notice.
 */
#include "test.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "memory/caching.h"
#include "memory/driver.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEGMENT_MAX 64

/* A driver that records, over the placement rule or over ascending addresses. */
struct recorder {
	struct mem_driver driver, *down;
	uint64_t capacity, used, next, next_reserved, reserved;
	uint64_t segment[SEGMENT_MAX];
	size_t segment_n;
	struct tm_str events;
};

struct named {
	char name[8];
	struct caching_block *block;
};

struct vector {
	const char *file;
	unsigned line, start;             /* start: of the vector */
	char title[128];
	char conf[256];
	uint64_t cap, device;
	bool down;
	struct recorder recorder;
	struct caching *c;                /* made by the first step that needs it */
	struct named blocks[32];
	size_t block_n, checks;
};

#define fail_here(v, ...) do { \
	print_error("vectors.txt:%u (vector %s): ", (v)->line, (v)->title); \
	fail_msg(__VA_ARGS__); \
} while (0)

static int record_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct recorder *r = (struct recorder *)drv;

	if (bytes > r->capacity - r->used)
		return tm_fail(err, TM_EOOM, "the device is full");
	if (r->down) {
		if (r->down->alloc(r->down, bytes, addr, err))
			fail_msg("no addresses");
	} else {
		*addr = r->next;
		r->next += (bytes + (32u << 20)) & ~((32ull << 20) - 1);
	}
	r->used += bytes;
	assert_true(r->segment_n < SEGMENT_MAX);
	r->segment[r->segment_n++] = *addr;
	tm_str_addf(&r->events, " segment_alloc#%zu:%llu", r->segment_n, (unsigned long long)bytes);
	return 0;
}

static void record_free(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	struct recorder *r = (struct recorder *)drv;
	size_t i = r->segment_n;

	while (i > 0 && r->segment[i - 1] != addr)
		i--;
	assert_true(i > 0);
	tm_str_addf(&r->events, " segment_free#%zu:%llu", i, (unsigned long long)bytes);
	r->used -= bytes;
	if (r->down)
		r->down->free(r->down, addr, bytes);
}

static int record_reserve(struct mem_driver *drv, uint64_t bytes, uint64_t page, uint64_t *addr, struct tm_err *err)
{
	struct recorder *r = (struct recorder *)drv;

	(void)page;
	(void)err;
	*addr = r->next_reserved;
	r->next_reserved += bytes + (1ull << 40);
	r->reserved += bytes;
	return 0;
}

static int record_map(struct mem_driver *drv, uint64_t addr, uint64_t bytes, struct tm_err *err)
{
	struct recorder *r = (struct recorder *)drv;

	(void)addr;
	if (bytes > r->capacity - r->used)
		return tm_fail(err, TM_EOOM, "the device is full");
	r->used += bytes;
	tm_str_addf(&r->events, " segment_map:%llu", (unsigned long long)bytes);
	return 0;
}

static void record_unmap(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	struct recorder *r = (struct recorder *)drv;

	(void)addr;
	r->used -= bytes;
	tm_str_addf(&r->events, " segment_unmap:%llu", (unsigned long long)bytes);
}

static void record_release(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	(void)addr;
	((struct recorder *)drv)->reserved -= bytes;
}

static void record_info(struct mem_driver *drv, uint64_t *total, uint64_t *unused)
{
	struct recorder *r = (struct recorder *)drv;

	*total = r->capacity;
	*unused = r->capacity - r->used;
}

static uint64_t size_of(struct vector *v, const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);

	if (tm_starts_with(end, "MiB"))
		n <<= 20;
	else if (tm_starts_with(end, "KiB"))
		n <<= 10;
	if (*end == 'M' || *end == 'K')
		end += 3;
	if (*end == '+')
		n += strtoull(end + 1, &end, 10);
	else if (*end == '-')
		n -= strtoull(end + 1, &end, 10);
	if (end == text || *end)
		fail_here(v, "not a size: %s", text);
	return n;
}

/* A free that completed without being asked for, as in a retry. */
static void record_completed(void *arg, void *cookie)
{
	struct vector *v = arg;

	for (size_t i = 0; i < v->block_n; i++)
		if (v->blocks[i].block == cookie)
			v->blocks[i].block = NULL;
	tm_str_addf(&v->recorder.events, " free_completed:%llu",
		    (unsigned long long)((struct caching_block *)cookie)->requested);
}

static void open_vector(struct vector *v)
{
	struct mem_policy_config cfg = {
		.conf = v->conf, .cap_bytes = v->cap, .driver = &v->recorder.driver, .completed = record_completed, .arg = v,
	};
	struct tm_err err = { 0 };
	void *state;

	if (v->c)
		return;
	v->recorder.driver = (struct mem_driver){
		.alloc = record_alloc, .free = record_free, .info = record_info, .reserve = record_reserve,
		.map = record_map, .unmap = record_unmap, .release = record_release,
	};
	v->recorder.capacity = v->device;
	v->recorder.next = 1ull << 40;
	v->recorder.next_reserved = 1ull << 45;
	v->recorder.down = v->down ? driver_space_new(1ull << 40, 512) : NULL;
	tm_str_init(&v->recorder.events);
	if (mem_policy_find("caching")->create(&cfg, &state, &err))
		fail_here(v, "%s", err.text);
	v->c = state;
}

static void close_vector(struct vector *v)
{
	if (!v->c)
		return;
	if (!v->checks)
		fail_here(v, "nothing was checked");
	caching_destroy(v->c);
	assert_int_equal(v->recorder.used, 0);
	assert_int_equal(v->recorder.reserved, 0);
	if (v->recorder.down)
		v->recorder.down->close(v->recorder.down);
	tm_str_free(&v->recorder.events);
}

static struct named *block_named(struct vector *v, const char *name)
{
	for (size_t i = 0; i < v->block_n; i++)
		if (strcmp(v->blocks[i].name, name) == 0)
			return &v->blocks[i];
	return NULL;
}

static struct mem_pool_id pool_named(struct vector *v, const char *number)
{
	return (struct mem_pool_id){ .id = { 0, (int64_t)size_of(v, number) } };
}

/* SIZE [STREAM] [pool=NUMBER] */
static void request_of(struct vector *v, char **word, size_t n, struct mem_request *out)
{
	*out = (struct mem_request){ .bytes = size_of(v, word[0]) };
	for (size_t i = 1; i < n; i++) {
		if (tm_starts_with(word[i], "pool="))
			out->pool = pool_named(v, word[i] + strlen("pool="));
		else
			out->stream = size_of(v, word[i]);
	}
}

static void do_malloc(struct vector *v, char **word, size_t n)
{
	struct named *slot = block_named(v, word[1]);
	struct tm_err err = { 0 };
	struct mem_request req;

	if (!slot) {
		assert_true(v->block_n < TM_ARRAY_N(v->blocks));
		slot = &v->blocks[v->block_n++];
		snprintf(slot->name, sizeof slot->name, "%s", word[1]);
	}
	if (slot->block)
		fail_here(v, "%s is in use", word[1]);
	request_of(v, word + 2, n - 2, &req);
	if (caching_malloc(v->c, &req, &slot->block, &err))
		fail_here(v, "%s", err.text);
	assert_int_equal(slot->block->requested, size_of(v, word[2]));
	tm_str_addf(&v->recorder.events, " alloc:%llu", (unsigned long long)size_of(v, word[2]));
}

static void add_allocated(void *arg, const struct caching_block *block)
{
	if (block->state == CACHING_LIVE)
		tm_str_addf(arg, " %llx+%llx", (unsigned long long)block->addr, (unsigned long long)block->size);
}

static void do_oom(struct vector *v, char **word, const char *rest)
{
	struct tm_str before = TM_STR_INIT, after = TM_STR_INIT;
	struct caching_block *block = NULL;
	struct tm_err err = { 0 };

	caching_each_block(v->c, add_allocated, &before);
	if (caching_malloc(v->c, &(struct mem_request){ .bytes = size_of(v, word[1]) }, &block, &err) != TM_EOOM)
		fail_here(v, "was not refused");
	assert_null(block);
	caching_each_block(v->c, add_allocated, &after);
	if (strcmp(before.s, after.s) != 0)
		fail_here(v, "blocks in use changed from%s to%s", before.s, after.s);
	if (*rest && !strstr(err.text, rest))
		fail_here(v, "\"%s\" is not in: %s", rest, err.text);
	tm_str_addf(&v->recorder.events, " oom:%llu", (unsigned long long)size_of(v, word[1]));
	tm_str_free(&before);
	tm_str_free(&after);
	v->checks++;
}

static struct caching_block *in_use(struct vector *v, const char *name)
{
	struct named *slot = block_named(v, name);

	if (!slot || !slot->block)
		fail_here(v, "%s is not in use", name);
	return slot->block;
}

/* A block that stays pending keeps its name until it is complete. */
static void do_free(struct vector *v, const char *name, bool later)
{
	struct caching_block *block = in_use(v, name);

	tm_str_addf(&v->recorder.events, " free:%llu", (unsigned long long)block->requested);
	later |= block->shared;
	caching_free(v->c, block, later);
	if (!later)
		block_named(v, name)->block = NULL;
}

static void do_complete(struct vector *v, const char *name)
{
	struct caching_block *block = in_use(v, name);

	if (block->state != CACHING_PENDING)
		fail_here(v, "%s is not pending", name);
	record_completed(v, block);
	caching_complete(v->c, block);
}

static void do_retain(struct vector *v, char **word, size_t n)
{
	unsigned flags = 0;

	for (size_t i = 2; i < n; i++) {
		if (strcmp(word[i], "no_split") == 0)
			flags |= MEM_POOL_NO_SPLIT;
		else if (strcmp(word[i], "on_oom") == 0)
			flags |= MEM_POOL_USE_ON_OOM;
		else if (strcmp(word[i], "own_memory") == 0)
			flags |= MEM_POOL_OWN_MEMORY;
		else
			fail_here(v, "unknown flag %s", word[i]);
	}
	caching_pool_retain(v->c, pool_named(v, word[1]), flags);
}

/* The rest of a growing segment's addresses has no number: it depends on the device alone. */
static void add_layout(void *arg, const struct caching_block *block)
{
	static const char letter[] = { [CACHING_FREE] = 'F', [CACHING_LIVE] = 'A', [CACHING_PENDING] = 'P' };

	if (!block->prev && ((struct tm_str *)arg)->n)
		tm_str_add(arg, " |");
	if (!block->mapped && !block->next)
		tm_str_add(arg, " U");
	else
		tm_str_addf(arg, " %c%llu", block->mapped ? letter[block->state] : 'U', (unsigned long long)block->size);
}

static void expect_text(struct vector *v, const char *what, const char *is, const char *want)
{
	v->checks++;
	if (strcmp(is, want) != 0)
		fail_here(v, "%s is\n  %s\nexpected\n  %s", what, is, want);
}

static void do_layout(struct vector *v, char **word, size_t n)
{
	struct tm_str is = TM_STR_INIT, want = TM_STR_INIT;

	caching_each_block(v->c, add_layout, &is);
	for (size_t i = 1; i < n && strcmp(word[i], "none") != 0; i++) {
		if (*word[i] == '|' || strcmp(word[i], "U") == 0)
			tm_str_addf(&want, " %s", word[i]);
		else
			tm_str_addf(&want, " %c%llu", *word[i], (unsigned long long)size_of(v, word[i] + 1));
	}
	expect_text(v, "layout", is.s, want.s);
	tm_str_free(&is);
	tm_str_free(&want);
}

static void do_events(struct vector *v, char **word, size_t n)
{
	struct tm_str want = TM_STR_INIT;

	for (size_t i = 1; i < n; i++) {
		char *colon = strchr(word[i], ':');

		if (!colon)
			fail_here(v, "an event is KIND:SIZE");
		tm_str_addf(&want, " %.*s:%llu", (int)(colon - word[i]), word[i],
			    (unsigned long long)size_of(v, colon + 1));
	}
	expect_text(v, "events", v->recorder.events.s, want.s);
	tm_str_reset(&v->recorder.events);
	tm_str_free(&want);
}

struct lookup {
	const char *name;
	int64_t value;
	bool found;
};

static void look_up(void *arg, const char *name, int64_t value)
{
	struct lookup *l = arg;

	if (strcmp(l->name, name) == 0) {
		l->value = value;
		l->found = true;
	}
}

static void expect_stat(struct vector *v, const char *name, int64_t want)
{
	struct lookup l = { .name = name };

	caching_stats_each(&v->c->stats, look_up, &l);
	v->checks++;
	if (!l.found)
		fail_here(v, "there is no statistic %s", name);
	if (l.value != want)
		fail_here(v, "%s is %lld, expected %lld", name, (long long)l.value, (long long)want);
}

static void do_gauge(struct vector *v, char **word, size_t n)
{
	static const char *const field[] = { "current", "peak", "allocated", "freed" };

	if (n != 6)
		fail_here(v, "gauge NAME and four numbers");
	for (size_t i = 0; i < TM_ARRAY_N(field); i++) {
		char name[96];

		snprintf(name, sizeof name, "%s.%s", word[1], field[i]);
		expect_stat(v, name, (int64_t)size_of(v, word[2 + i]));
	}
}

/* Lines before the allocator exists; false: none of these. */
static bool set_up(struct vector *v, char **word, size_t n)
{
	if (strcmp(word[0], "conf") == 0 && n == 2)
		snprintf(v->conf, sizeof v->conf, "%s", word[1]);
	else if (strcmp(word[0], "cap") == 0)
		v->cap = size_of(v, word[1]);
	else if (strcmp(word[0], "device") == 0)
		v->device = size_of(v, word[1]);
	else if (strcmp(word[0], "addresses") == 0)
		v->down = strcmp(word[1], "down") == 0;
	else
		return false;
	if (v->c)
		fail_here(v, "%s belongs before the first step", word[0]);
	return true;
}

static void do_set(struct vector *v, const char *conf)
{
	struct tm_err err = { 0 };

	if (caching_set_conf(v->c, conf, &err))
		fail_here(v, "%s", err.text);
}

static void step(struct vector *v, char **word, size_t n, const char *rest)
{
	open_vector(v);
	if (strcmp(word[0], "malloc") == 0 && n >= 3)
		do_malloc(v, word, n);
	else if (strcmp(word[0], "oom") == 0 && n >= 2)
		do_oom(v, word, rest);
	else if (strcmp(word[0], "free") == 0 && n == 2)
		do_free(v, word[1], false);
	else if (strcmp(word[0], "later") == 0 && n == 2)
		do_free(v, word[1], true);
	else if (strcmp(word[0], "complete") == 0 && n == 2)
		do_complete(v, word[1]);
	else if (strcmp(word[0], "use") == 0 && n == 3)
		in_use(v, word[1])->shared |= size_of(v, word[2]) != in_use(v, word[1])->stream;
	else if (strcmp(word[0], "empty") == 0 && n == 2)
		caching_release_private(v->c, pool_named(v, word[1]));
	else if (strcmp(word[0], "empty") == 0)
		caching_release_all(v->c);
	else if (strcmp(word[0], "retain") == 0 && n >= 2)
		do_retain(v, word, n);
	else if (strcmp(word[0], "release") == 0 && n == 2)
		caching_pool_release(v->c, pool_named(v, word[1]));
	else if (strcmp(word[0], "capture") == 0 && n == 2)
		v->c->captures += strcmp(word[1], "begin") == 0 ? 1u : -1u;
	else if (strcmp(word[0], "set") == 0)
		do_set(v, n > 1 ? word[1] : "");
	else if (strcmp(word[0], "layout") == 0)
		do_layout(v, word, n);
	else if (strcmp(word[0], "stat") == 0 && n == 3)
		expect_stat(v, word[1], *word[2] == '-' ? -(int64_t)size_of(v, word[2] + 1) : (int64_t)size_of(v, word[2]));
	else if (strcmp(word[0], "gauge") == 0)
		do_gauge(v, word, n);
	else if (strcmp(word[0], "events") == 0)
		do_events(v, word, n);
	else
		fail_here(v, "not a step: %s", word[0]);
	caching_check(v->c);
}

/* Splits in place; *rest: the line after its second word. */
static size_t words_of(char *line, char *copy, size_t copy_size, char **word, size_t max, const char **rest)
{
	size_t n = 0;
	char *p = copy;

	snprintf(copy, copy_size, "%s", line);
	*rest = "";
	while (*p) {
		while (*p == ' ')
			*p++ = '\0';
		if (!*p)
			break;
		if (n == 2)
			*rest = line + (p - copy);
		assert_true(n < max);
		word[n++] = p;
		p += strcspn(p, " ");
	}
	return n;
}

static void every_vector(void **state)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };
	struct vector *v = tm_xcalloc(1, sizeof *v);
	size_t vectors = 0;
	unsigned line = 0;

	(void)state;
	assert_ok(tm_read_file(TESTS_DIR "/unit/memory/vectors.txt", 1 << 20, &text, &err), &err);
	for (char *p = text.s, *end; *p; p = end + 1) {
		char copy[1024], *word[64];
		const char *rest;
		size_t n;

		end = p + strcspn(p, "\n");
		*end = '\0';
		v->line = ++line;
		n = words_of(p, copy, sizeof copy, word, TM_ARRAY_N(word), &rest);
		if (n == 0 || *p == '#')
			continue;
		if (strcmp(word[0], "vector") == 0) {
			close_vector(v);
			memset(v, 0, sizeof *v);
			v->line = line;
			v->device = 1ull << 40;
			snprintf(v->title, sizeof v->title, "%.100s", p + strlen("vector "));
			vectors++;
		} else if (!set_up(v, word, n)) {
			step(v, word, n, rest);
		}
	}
	close_vector(v);
	assert_true(vectors >= 60);
	free(v);
	tm_str_free(&text);
}

/*
 * Measured on a 16 GiB card (PyTorch pull request 193400): max_split_size and
 * expandable_segments together. Freed neighbours grow together to a block above
 * max_split, which then is hidden from every smaller request, so that reserved
 * memory grows with each turn. One live block of 64 MiB makes all rows fit.
 */
static void the_table_of_a_real_card(void **state)
{
	static const struct { int cycle; uint64_t allocated, reserved; } rows[] = {
		{ 0, 66, 220 }, { 20, 106, 2980 }, { 40, 146, 5760 }, { 60, 186, 8520 }, { 80, 226, 11300 }, { 100, 266, 14060 },
	};
	struct mem_driver *driver = driver_space_new(16ull << 30, 2 << 20);
	struct mem_policy_config cfg = { .conf = "max_split_size_mb:128,expandable_segments:True", .driver = driver };
	const struct mem_policy *policy = mem_policy_find("caching");
	struct mem_grant first, large, middle, small;
	struct mem_policy_counts counts;
	size_t row = 0;
	void *c;

	(void)state;
	assert_int_equal(policy->create(&cfg, &c, NULL), 0);
#define GET(grant, n) assert_int_equal(policy->alloc(c, &(struct mem_request){ .bytes = (n) }, &(grant), NULL), 0)
	GET(first, 64 << 20);
	for (int cycle = 0; cycle <= 100; cycle++) {
		GET(large, 91 << 20);
		GET(middle, 91 << 19);
		GET(small, 2 << 20);
		policy->free(c, &large);
		policy->free(c, &middle);
		policy->check(c);
		if (cycle != rows[row].cycle)
			continue;
		policy->counts(c, &counts);
		assert_int_equal(counts.allocated, rows[row].allocated << 20);
		assert_int_equal(counts.reserved, rows[row].reserved << 20);
		row++;
	}
#undef GET
	assert_int_equal(row, TM_ARRAY_N(rows));
	policy->destroy(c);
	driver->close(driver);
}

/* ---- broken rules -------------------------------------------------------------- */

#define MUTATION "CACHING_MUTATION"

/* True: the vectors fail in a process of their own, in which that rule is broken. */
static bool vectors_fail(const char *self, int mutation)
{
	char number[16], *argv[] = { (char *)self, NULL };
	int status;
	pid_t pid;

	snprintf(number, sizeof number, "%d", mutation);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int quiet = open("/dev/null", O_WRONLY);

		dup2(quiet, 1);
		dup2(quiet, 2);
		setenv(MUTATION, number, 1);
		execv("/proc/self/exe", argv);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status) != 0;
}

static void every_broken_rule_is_seen(void **state)
{
	(void)state;
#ifdef TM_FAULTS
	assert_false(vectors_fail("test_vectors", CACHING_INTACT));
	for (int i = CACHING_INTACT + 1; i < CACHING_MUTATION_N; i++)
		if (!vectors_fail("test_vectors", i))
			fail_msg("no vector notices: %s", caching_mutation_name[i]);
#else
	print_message("  skipped: this build cannot break rules (TIDEMARK_FAULTS)\n");
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_vector),
		cmocka_unit_test(the_table_of_a_real_card),
		cmocka_unit_test(every_broken_rule_is_seen),
	};

#ifdef TM_FAULTS
	if (getenv(MUTATION)) {
		int64_t mutation;

		assert_int_equal(tm_parse_i64(getenv(MUTATION), &mutation), 0);
		caching_mutation = (enum caching_mutation)mutation;
		return cmocka_run_group_tests_name("broken", (const struct CMUnitTest[1]){ tests[0] }, NULL, NULL);
	}
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
