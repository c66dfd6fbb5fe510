#include "stayed.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* A group and the steps in which it grew. */
struct births {
	struct mem_stayed key;
	uint64_t steps;
};

struct stayed {
	struct mem_snapshot *first, *last;      /* first counted step; last time more was live than before */
	uint64_t live_max_bytes;
	struct births *births;
	size_t births_n;
};

struct stayed *stayed_new(void)
{
	return tm_xcalloc(1, sizeof(struct stayed));
}

void stayed_free(struct stayed *st)
{
	if (!st)
		return;
	mem_snapshot_free(st->first);
	mem_snapshot_free(st->last);
	free(st->births);
	free(st);
}

static bool equal_or_null(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_group(const struct mem_stayed *a, const struct mem_stayed *b)
{
	return a->category == b->category && equal_or_null(a->op, b->op) &&
	       equal_or_null(a->phase, b->phase) && equal_or_null(a->name, b->name);
}

static struct births *births_of(const struct stayed *st, const struct mem_stayed *key)
{
	for (size_t i = 0; i < st->births_n; i++)
		if (same_group(&st->births[i].key, key))
			return &st->births[i];
	return NULL;
}

static void count_births(struct stayed *st, const struct mem_stayed *groups, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct births *b = births_of(st, &groups[i]);

		if (!b) {
			st->births = tm_xrealloc_n(st->births, st->births_n + 1, sizeof *st->births);
			b = &st->births[st->births_n++];
			*b = (struct births){ .key = groups[i] };
		}
		b->steps++;
	}
}

void stayed_step(struct stayed *st, const struct mem *mem)
{
	struct mem_usage usage;
	struct mem_snapshot *now;
	struct mem_stayed *groups = NULL;
	size_t n;

	mem_usage(mem, &usage);
	if (!st->first) {
		st->first = mem_snapshot_take(mem);
		st->last = mem_snapshot_take(mem);
		st->live_max_bytes = usage.requested;
		return;
	}
	if (usage.requested <= st->live_max_bytes)
		return;
	st->live_max_bytes = usage.requested;
	now = mem_snapshot_take(mem);
	n = mem_snapshot_diff(st->last, now, &groups);
	count_births(st, groups, n);
	free(groups);
	mem_snapshot_free(st->last);
	st->last = now;
}

static json_t *text_or_empty(const char *s)
{
	return json_string(s ? s : "");
}

static void send_group(const struct stayed *st, const struct mem_stayed *g, struct event_out *ev)
{
	const struct births *b = births_of(st, g);
	json_t *body = json_object();

	json_object_set_new(body, "op", text_or_empty(g->op));
	json_object_set_new(body, "phase", text_or_empty(g->phase));
	json_object_set_new(body, "name", text_or_empty(g->name));
	json_object_set_new(body, "category", json_string(mem_category_name[g->category]));
	json_object_set_new(body, "blocks", json_integer((json_int_t)g->blocks));
	json_object_set_new(body, "bytes", json_integer((json_int_t)g->bytes));
	json_object_set_new(body, "steps", json_integer(b ? (json_int_t)b->steps : 1));
	event_send(ev, "stayed", body);
}

void stayed_send(const struct stayed *st, const struct mem *mem, struct event_out *ev)
{
	struct mem_snapshot *now;
	struct mem_stayed *groups = NULL;
	size_t n;

	if (!st->first)
		return;
	now = mem_snapshot_take(mem);
	n = mem_snapshot_diff(st->first, now, &groups);
	for (size_t i = 0; i < n && i < STAYED_GROUPS_MAX; i++)
		send_group(st, &groups[i], ev);
	free(groups);
	mem_snapshot_free(now);
}
