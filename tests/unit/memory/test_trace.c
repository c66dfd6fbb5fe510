/*
 * The books against the trace: a run of random requests is recorded, the file
 * is read back, and every usage, peak, phase, mark and category is computed
 * again from its lines by the plainest means.
 */
#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "memory/driver.h"

#include <locale.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define BLOCK_MAX 100000

static char path[] = "/tmp/tidemark-trace-XXXXXX";

/* One high-water mark, recomputed. */
struct high {
	char name[32];
	bool mark;
	struct mem_peak p;
};

struct books {
	struct mem_usage now;             /* active = allocated in these policies */
	uint64_t requested_by[MEM_CATEGORY_N], allocated_by[MEM_CATEGORY_N];
	struct { uint64_t addr, bytes, block; int category; bool live; } block[BLOCK_MAX];
	struct { char op[32]; uint64_t live, live_max, calls, at_peak; } op[16];
	size_t op_n;
	uint8_t op_of_block[BLOCK_MAX];
	struct high run, high[16];
	size_t high_n;
	struct high *phase, *mark;
	uint64_t events, segments;
};

static void naive_raise(struct books *b, struct high *h)
{
	struct mem_usage *max = &h->p.max;

	if (b->now.requested > max->requested)
		max->requested = b->now.requested;
	if (b->now.active > max->active)
		max->active = b->now.active;
	if (b->now.reserved > max->reserved) {
		max->reserved = b->now.reserved;
		h->p.allocated_at_reserved = b->now.allocated;
	}
	if (b->now.allocated > max->allocated) {
		max->allocated = b->now.allocated;
		h->p.reserved_at_peak = b->now.reserved;
		memcpy(h->p.requested_at_peak, b->requested_by, sizeof b->requested_by);
		memcpy(h->p.allocated_at_peak, b->allocated_by, sizeof b->allocated_by);
		if (h == &b->run)
			for (size_t i = 0; i < b->op_n; i++)
				b->op[i].at_peak = b->op[i].live;
	}
}

static struct high *high_named(struct books *b, const char *name, bool mark)
{
	for (size_t i = 0; i < b->high_n; i++)
		if (b->high[i].mark == mark && strcmp(b->high[i].name, name) == 0)
			return &b->high[i];
	assert_true(b->high_n < TM_ARRAY_N(b->high));
	struct high *h = &b->high[b->high_n++];
	snprintf(h->name, sizeof h->name, "%s", name);
	h->mark = mark;
	return h;
}

static size_t op_named(struct books *b, const char *op)
{
	for (size_t i = 0; i < b->op_n; i++)
		if (strcmp(b->op[i].op, op) == 0)
			return i;
	assert_true(b->op_n < TM_ARRAY_N(b->op));
	snprintf(b->op[b->op_n].op, sizeof b->op[0].op, "%s", op);
	return b->op_n++;
}

static int category_named(const char *name)
{
	for (int i = 0; i < MEM_CATEGORY_N; i++)
		if (strcmp(mem_category_name[i], name) == 0)
			return i;
	fail_msg("no category %s", name);
	return -1;
}

static void book_alloc(struct books *b, const json_t *line)
{
	int64_t id = tm_json_i64(line, "id", 0), bytes = tm_json_i64(line, "bytes", 0), block = tm_json_i64(line, "block", 0);
	int category = category_named(tm_json_str(line, "category", ""));
	size_t op = op_named(b, tm_json_str(line, "op", ""));

	assert_true(id > 0 && id < BLOCK_MAX && !b->block[id].addr && bytes > 0 && block >= bytes);
	b->block[id].addr = (uint64_t)tm_json_i64(line, "addr", 0);
	b->block[id].bytes = (uint64_t)bytes;
	b->block[id].block = (uint64_t)block;
	b->block[id].category = category;
	b->block[id].live = true;
	b->op_of_block[id] = (uint8_t)op;
	b->now.requested += (uint64_t)bytes;
	b->now.allocated += (uint64_t)block;
	b->now.active += (uint64_t)block;
	b->requested_by[category] += (uint64_t)bytes;
	b->allocated_by[category] += (uint64_t)block;
	b->op[op].calls++;
	b->op[op].live += (uint64_t)bytes;
	if (b->op[op].live > b->op[op].live_max)
		b->op[op].live_max = b->op[op].live;
	naive_raise(b, &b->run);
	if (b->phase)
		naive_raise(b, b->phase);
	if (b->mark)
		naive_raise(b, b->mark);
}

static void book_free(struct books *b, const json_t *line)
{
	int64_t id = tm_json_i64(line, "id", 0);

	assert_true(id > 0 && id < BLOCK_MAX && b->block[id].live);
	assert_int_equal(b->block[id].addr, tm_json_i64(line, "addr", 0));
	assert_int_equal(b->block[id].bytes, tm_json_i64(line, "bytes", 0));
	assert_int_equal(b->block[id].block, tm_json_i64(line, "block", 0));
	b->block[id].live = false;
	b->now.requested -= b->block[id].bytes;
	b->now.allocated -= b->block[id].block;
	b->now.active -= b->block[id].block;
	b->requested_by[b->block[id].category] -= b->block[id].bytes;
	b->allocated_by[b->block[id].category] -= b->block[id].block;
	b->op[b->op_of_block[id]].live -= b->block[id].bytes;
}

/* What is live when a mark begins counts at once. */
static void first_moment(struct books *b, struct high *h)
{
	h->p = (struct mem_peak){ 0 };
	h->p.max = b->now;
	h->p.allocated_at_reserved = b->now.allocated;
	h->p.reserved_at_peak = b->now.reserved;
	memcpy(h->p.requested_at_peak, b->requested_by, sizeof b->requested_by);
	memcpy(h->p.allocated_at_peak, b->allocated_by, sizeof b->allocated_by);
}

static void book(struct books *b, const json_t *line)
{
	const char *e = tm_json_str(line, "e", ""), *name = tm_json_str(line, "name", "");

	b->events++;
	if (strcmp(e, "alloc") == 0) {
		book_alloc(b, line);
	} else if (strcmp(e, "free") == 0) {
		book_free(b, line);
	} else if (strcmp(e, "segment_alloc") == 0) {
		b->segments++;
		b->now.reserved += (uint64_t)tm_json_i64(line, "bytes", 0);
	} else if (strcmp(e, "segment_free") == 0) {
		b->now.reserved -= (uint64_t)tm_json_i64(line, "bytes", 0);
	} else if (strcmp(e, "phase") == 0) {
		size_t before = b->high_n;

		b->phase = high_named(b, name, false);
		if (b->high_n > before)
			first_moment(b, b->phase);
		else
			naive_raise(b, b->phase);
	} else if (strcmp(e, "mark_begin") == 0) {
		b->mark = high_named(b, name, true);
		first_moment(b, b->mark);
	} else if (strcmp(e, "mark_end") == 0) {
		b->mark = NULL;
	} else {
		assert_string_equal(e, "oom");
	}
}

/* Reads the file; checks the frame: header, times that rise, the last line. */
static struct books *read_trace(const char *policy, int64_t cap)
{
	struct books *b = tm_xcalloc(1, sizeof *b);
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };
	int64_t last_us = 0;
	bool ended = false, header = false;

	b->phase = high_named(b, "load", false);
	assert_ok(tm_read_file(path, 1 << 28, &text, &err), &err);
	for (char *p = text.s, *end; *p; p = end + 1) {
		json_t *line;

		end = strchr(p, '\n');
		assert_non_null(end);
		assert_false(ended);
		assert_ok(tm_json_parse(p, (size_t)(end - p), &line, &err), &err);
		if (!header) {
			assert_string_equal(tm_json_str(line, "format", ""), "tidemark memory trace");
			assert_int_equal(tm_json_i64(line, "version", 0), 1);
			assert_string_equal(tm_json_str(line, "policy", ""), policy);
			assert_int_equal(tm_json_i64(line, "cap", -1), cap);
			header = true;
		} else if (strcmp(tm_json_str(line, "e", ""), "end") == 0) {
			assert_int_equal(tm_json_i64(line, "events", -1), b->events);
			ended = true;
		} else {
			assert_true(tm_json_i64(line, "t_us", -1) >= last_us);
			last_us = tm_json_i64(line, "t_us", -1);
			book(b, line);
		}
		json_decref(line);
	}
	assert_true(ended);
	tm_str_free(&text);
	return b;
}

static void same_peak(const char *name, const struct mem_peak *is, const struct mem_peak *want)
{
	if (!is || memcmp(&is->max, &want->max, sizeof is->max) != 0 ||
	    memcmp(is->requested_at_peak, want->requested_at_peak, sizeof is->requested_at_peak) != 0 ||
	    memcmp(is->allocated_at_peak, want->allocated_at_peak, sizeof is->allocated_at_peak) != 0 ||
	    is->reserved_at_peak != want->reserved_at_peak || is->allocated_at_reserved != want->allocated_at_reserved)
		fail_msg("the peak of %s differs from the trace", name);
}

static void random_run(struct mem *mem, uint64_t seed)
{
	static const char *const phases[] = { "forward", "backward", "update", "eval" };
	static const char *const ops[] = { "linear_fwd", "linear_dw", "gelu_fwd", "adamw", "loss" };
	struct mem_block *live[120] = { 0 };

	for (int i = 0; i < 30000; i++) {
		size_t k;

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		k = (seed >> 34) % TM_ARRAY_N(live);
		if (i % 97 == 0)
			mem_set_phase(mem, phases[(seed >> 50) % 4]);
		if (i % 5 == 0)
			mem_set_op(mem, ops[(seed >> 45) % 5]);
		if (i % 400 == 0)
			mem_set_step(mem, i / 400);
		if (i % 3000 == 100)
			mem_mark_begin(mem, i > 20000 ? "steady" : i > 9000 ? "second" : "first \"step\"\n");
		if (i % 3000 == 2500)
			mem_mark_end(mem);
		if (i % 1000 == 999)
			mem_release_cached(mem);
		if (live[k]) {
			mem_release(mem, live[k]);
			live[k] = NULL;
		} else {
			uint64_t bytes = 1 + (seed >> 33) % (i % 7 ? 70000 : 6 * MIB);

			mem_alloc(mem, bytes, (enum mem_category)((seed >> 20) % MEM_CATEGORY_N), "t", &live[k], NULL);
		}
		if (i % 100 == 0)
			mem_check(mem);
	}
}

static void books_agree(const char *policy, uint64_t cap)
{
	struct mem_config cfg = { .policy = policy, .cap_bytes = cap, .trace_path = path };
	struct tm_err err = { 0 };
	struct mem_policy_counts counts;
	struct mem_usage usage;
	struct mem_oom oom;
	struct mem *mem;
	struct books *b;

	assert_ok(mem_new(&cfg, driver_space_new(1ull << 40, 512), &mem, &err), &err);
	random_run(mem, 11);
	assert_ok(mem_trace_close(mem, &err), &err);
	b = read_trace(policy, (int64_t)cap);
	mem_usage(mem, &usage);
	assert_memory_equal(&usage, &b->now, sizeof usage);
	same_peak("the run", mem_run_peak(mem), &b->run.p);
	assert_int_equal(mem_peak_n(mem), b->high_n);
	for (size_t i = 0; i < b->high_n; i++)
		same_peak(b->high[i].name, b->high[i].mark ? mem_mark_peak(mem, b->high[i].name)
			  : mem_phase_peak(mem, b->high[i].name), &b->high[i].p);
	assert_int_equal(mem_op_n(mem), b->op_n);
	for (size_t i = 0; i < b->op_n; i++) {
		const struct mem_op_usage *op = mem_op_at(mem, i);

		assert_string_equal(op->op, b->op[i].op);
		assert_int_equal(op->calls, b->op[i].calls);
		assert_int_equal(op->live, b->op[i].live);
		assert_int_equal(op->live_max, b->op[i].live_max);
		assert_int_equal(op->at_peak, b->op[i].at_peak);
	}
	/* The policy's own count of the same things. */
	mem_counts(mem, &counts);
	assert_int_equal(counts.reserved_peak, b->run.p.max.reserved);
	assert_int_equal(counts.allocated_peak, b->run.p.max.allocated);
	assert_int_equal(counts.driver_allocs, b->segments);
	assert_true(!cap || mem_last_oom(mem, &oom));
	assert_true(!cap || counts.reserved_peak <= cap);
	free(b);
	mem_free(mem);
}

static void raw_and_caching_agree_with_their_traces(void **state)
{
	(void)state;
	books_agree("raw", 0);
	books_agree("caching", 0);
	books_agree("raw", 40 * MIB);
	books_agree("caching", 80 * MIB);
}

static void names_are_escaped_and_the_locale_does_not_matter(void **state)
{
	struct mem_config cfg = { .policy = "raw", .trace_path = path };
	struct tm_str text = TM_STR_INIT;
	struct mem_block *block;
	struct mem *mem;
	char *line;
	json_t *v;

	(void)state;
	setlocale(LC_ALL, "de_DE.UTF-8");
	assert_int_equal(mem_new(&cfg, driver_space_new(1ull << 40, 512), &mem, NULL), 0);
	mem_set_op(mem, "a\"b\\c\n\x01\u00e9");
	assert_int_equal(mem_alloc(mem, 1234567, MEM_INPUT, "</script>", &block, NULL), 0);
	mem_free(mem);
	setlocale(LC_ALL, "C");
	assert_int_equal(tm_read_file(path, 1 << 20, &text, NULL), 0);
	line = strstr(text.s, "{\"e\":\"alloc\"");
	assert_non_null(line);
	assert_int_equal(tm_json_parse(line, strcspn(line, "\n"), &v, NULL), 0);
	assert_string_equal(tm_json_str(v, "op", ""), "a\"b\\c\n\x01\u00e9");
	assert_string_equal(tm_json_str(v, "name", ""), "</script>");
	assert_string_equal(tm_json_str(v, "phase", ""), "load");
	assert_int_equal(tm_json_i64(v, "bytes", 0), 1234567);
	assert_int_equal(tm_json_i64(v, "block", 0), (1234567 + 511) / 512 * 512);
	assert_int_equal(tm_json_i64(v, "step", 0), -1);
	/* Freed without a line: what is live at the end is told by its absence. */
	assert_null(strstr(text.s, "\"e\":\"free\""));
	json_decref(v);
	tm_str_free(&text);
}

static void a_trace_that_cannot_be_written_is_told(void **state)
{
	struct mem_config cfg = { .policy = "raw", .trace_path = "/nonexistent/trace" };
	struct mem *mem = NULL;
	struct tm_err err = { 0 };

	(void)state;
	assert_int_equal(mem_new(&cfg, driver_space_new(1ull << 40, 512), &mem, &err), TM_EIO);
	assert_null(mem);
	assert_string_equal(err.file, "/nonexistent/trace");
	cfg.trace_path = "/dev/full";
	assert_int_equal(mem_new(&cfg, driver_space_new(1ull << 40, 512), &mem, &err), 0);
	for (int i = 0; i < 2000; i++) {
		struct mem_block *block;

		/* The run goes on. */
		assert_int_equal(mem_alloc(mem, 5, MEM_INPUT, "x", &block, &err), 0);
		mem_release(mem, block);
	}
	assert_int_equal(mem_trace_close(mem, &err), TM_EIO);
	assert_non_null(strstr(err.text, "incomplete"));
	assert_int_equal(mem_trace_close(mem, &err), 0);
	mem_free(mem);
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(raw_and_caching_agree_with_their_traces),
		cmocka_unit_test(names_are_escaped_and_the_locale_does_not_matter),
		cmocka_unit_test(a_trace_that_cannot_be_written_is_told),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
