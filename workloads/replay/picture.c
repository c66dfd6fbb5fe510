/* A second pass that stops to look: all blocks at the highest moment, and the course of time. */
#include "pass.h"

#include "base/mem.h"

#include <stdlib.h>

/* Of the course: each of the stretches keeps its highest points. */
#define STRETCH_N (REPLAY_COURSE_MAX / 2 - 1)

/* A slot with something in it, by its address. */
struct occupied {
	uint64_t addr;
	uint32_t slot;
};

struct looker {
	struct replay_picture *picture;
	struct pass *pass;
	struct occupied *occupied; size_t occupied_n, next;
	size_t cap;
};

static int by_address(const void *pa, const void *pb)
{
	const struct occupied *a = pa, *b = pb;

	return (a->addr > b->addr) - (a->addr < b->addr);
}

static void find_occupied(struct looker *l)
{
	struct pass *pass = l->pass;

	l->occupied = tm_xcalloc(pass->replay->slot_n + 1, sizeof *l->occupied);
	for (uint32_t s = 0; s <= pass->replay->slot_n; s++)
		if (pass->slots[s] != PASS_EMPTY)
			l->occupied[l->occupied_n++] = (struct occupied){ pass->grants[s].addr, s };
	qsort(l->occupied, l->occupied_n, sizeof *l->occupied, by_address);
}

static void add_part(void *arg, const struct mem_part *part)
{
	struct looker *l = arg;
	struct replay_picture *picture = l->picture;
	struct replay_part *to;

	if (picture->part_n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 256;
		picture->parts = tm_xrealloc_n(picture->parts, l->cap, sizeof *picture->parts);
	}
	to = &picture->parts[picture->part_n++];
	*to = (struct replay_part){ .part = *part, .event = REPLAY_NO_EVENT, .frames = RECORDING_NONE };
	while (l->next < l->occupied_n && l->occupied[l->next].addr < part->addr)
		l->next++;
	if (l->next < l->occupied_n && l->occupied[l->next].addr == part->addr) {
		to->event = l->pass->event[l->occupied[l->next].slot];
		if (to->event != REPLAY_NO_EVENT)
			to->frames = l->pass->replay->r->events[to->event].frames;
	}
}

/* Blocks from before have the frames of the list of segments, where they are in it. */
static void add_frames_before(struct looker *l)
{
	const struct replay *replay = l->pass->replay;
	uint32_t *frames = tm_xcalloc(replay->slot_n + 1, sizeof *frames);
	size_t next = 0;

	for (size_t i = 0; i < replay->before_n; i++)
		frames[replay->before[i].slot] = replay->before[i].frames;
	for (size_t i = 0; i < l->picture->part_n; i++) {
		struct replay_part *part = &l->picture->parts[i];

		while (next < l->occupied_n && l->occupied[next].addr < part->part.addr)
			next++;
		if (next < l->occupied_n && l->occupied[next].addr == part->part.addr && part->event == REPLAY_NO_EVENT)
			part->frames = frames[l->occupied[next].slot];
	}
	free(frames);
}

/* For a policy that does not count it. */
static uint64_t sum_requested(const struct pass *pass)
{
	const struct replay *replay = pass->replay;
	uint64_t bytes = 0;

	for (uint32_t s = 0; s <= replay->slot_n; s++)
		if (pass->slots[s] != PASS_EMPTY && pass->event[s] != REPLAY_NO_EVENT)
			bytes += replay->r->events[pass->event[s]].size;
	for (size_t i = 0; i < replay->before_n; i++) {
		uint32_t s = replay->before[i].slot;

		if (pass->slots[s] != PASS_EMPTY && pass->event[s] == REPLAY_NO_EVENT)
			bytes += replay->before[i].bytes;
	}
	return bytes;
}

static void look(struct pass *pass, void *arg)
{
	struct looker l = { .picture = arg, .pass = pass };
	struct mem_policy_counts now;

	pass->policy->counts(pass->state, &now);
	l.picture->requested = now.requested ? now.requested : sum_requested(pass);
	l.picture->allocated = now.allocated;
	l.picture->active = now.active;
	l.picture->reserved = now.reserved;
	l.picture->part_n = 0;
	if (!pass->policy->walk)
		return;
	find_occupied(&l);
	pass->policy->walk(pass->state, add_part, &l);
	add_frames_before(&l);
	free(l.occupied);
}

/* ---- course ------------------------------------------------------------------------ */

struct course {
	struct replay_picture *picture;
	struct replay_point allocated, reserved;  /* the highest of this stretch */
	bool any;
};

static void keep(struct course *c, const struct replay_point *point)
{
	struct replay_picture *picture = c->picture;

	if (picture->course_n && picture->course[picture->course_n - 1].event >= point->event &&
	    picture->course_n > 1)
		return;
	if (picture->course_n < REPLAY_COURSE_MAX)
		picture->course[picture->course_n++] = *point;
}

static void end_stretch(struct course *c)
{
	bool allocated_first = c->allocated.event <= c->reserved.event;

	if (!c->any)
		return;
	keep(c, allocated_first ? &c->allocated : &c->reserved);
	keep(c, allocated_first ? &c->reserved : &c->allocated);
	c->any = false;
}

static struct replay_point point_now(const struct pass *pass, uint64_t event)
{
	struct mem_policy_counts now;

	pass->policy->counts(pass->state, &now);
	return (struct replay_point){
		.event = event, .requested = now.requested, .allocated = now.allocated, .reserved = now.reserved,
	};
}

static void add_point(struct course *c, const struct replay_point *point)
{
	if (!c->any || point->allocated > c->allocated.allocated)
		c->allocated = *point;
	if (!c->any || point->reserved > c->reserved.reserved)
		c->reserved = *point;
	c->any = true;
}

/* Completions stay with the request behind them, as pass_go takes them together. */
static size_t group_end(const struct replay *replay, size_t i)
{
	size_t end = i + 1;

	while (end < replay->op_n && replay->ops[end - 1].kind == TAPE_COMPLETE)
		end++;
	return end;
}

static void follow(struct pass *pass, struct replay_picture *picture)
{
	const struct replay *replay = pass->replay;
	size_t stretch = replay->op_n / STRETCH_N + 1, done = 0;
	struct course course = { .picture = picture };
	struct replay_point point = point_now(pass, 0);

	picture->course = tm_xcalloc(REPLAY_COURSE_MAX, sizeof *picture->course);
	picture->course[picture->course_n++] = point;
	for (size_t i = 0; i < replay->op_n; i = done) {
		done = group_end(replay, i);
		pass_go(pass, i, done, false);
		point = point_now(pass, replay->ops[done - 1].event);
		add_point(&course, &point);
		if (done / stretch != i / stretch)
			end_stretch(&course);
	}
	end_stretch(&course);
	keep(&course, &point);
}

int replay_picture(const struct replay *replay, const struct replay_setting *setting,
		   const struct replay_result *result, struct replay_picture *out, struct tm_err *err)
{
	struct pass_watch watch = { .event = result->peak_event, .look = look, .arg = out };
	struct replay_result again;
	struct pass pass;
	int rc;

	*out = (struct replay_picture){ 0 };
	rc = pass_init(&pass, replay, setting, &again, &watch, err);
	if (pass.state && (rc == 0 || rc == TM_EOOM)) {
		rc = 0;
		follow(&pass, out);
	}
	pass_fini(&pass);
	return rc;
}

void replay_picture_fini(struct replay_picture *picture)
{
	free(picture->parts);
	free(picture->course);
}
