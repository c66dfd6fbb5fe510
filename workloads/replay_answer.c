#include "replay_answer.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>

#define GROUPS_MOST 256
#define LARGEST_N 16
#define MARKERS_MOST 64

/* ---- small things ------------------------------------------------------------- */

void answer_text(json_t *list, const char *fmt, ...)
{
	struct tm_str text = TM_STR_INIT;
	va_list ap;

	va_start(ap, fmt);
	tm_str_vaddf(&text, fmt, ap);
	va_end(ap);
	json_array_append_new(list, json_string(text.s));
	tm_str_free(&text);
}

void answer_frame(json_t *obj, const struct recording_frame *frame)
{
	struct tm_str text = TM_STR_INIT;

	if (!frame)
		return;
	replay_frame_text(frame, &text);
	json_object_set_new(obj, "frame", json_string(text.s));
	tm_str_free(&text);
}

static void set_stack(json_t *obj, const struct recording *r, uint32_t stack)
{
	answer_frame(obj, replay_frame(r, stack));
}

/* ---- a recording: who held it --------------------------------------------------- */

struct group {
	uint64_t bytes, blocks;
	const struct recording_frame *frame;
	bool before;
};

/* The largest sums first; then by all that tells two apart. */
static int by_sum(const void *pa, const void *pb)
{
	const struct group *a = pa, *b = pb;
	uint64_t x = a->bytes * a->blocks, y = b->bytes * b->blocks;

	if (x != y)
		return x < y ? 1 : -1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	if (a->before != b->before)
		return a->before - b->before;
	return ((uintptr_t)a->frame > (uintptr_t)b->frame) - ((uintptr_t)a->frame < (uintptr_t)b->frame);
}

static int by_kind(const void *pa, const void *pb)
{
	const struct group *a = pa, *b = pb;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	if (a->before != b->before)
		return a->before - b->before;
	return ((uintptr_t)a->frame > (uintptr_t)b->frame) - ((uintptr_t)a->frame < (uintptr_t)b->frame);
}

static size_t join_groups(struct group *groups, size_t n)
{
	size_t to = 0;

	qsort(groups, n, sizeof *groups, by_kind);
	for (size_t i = 0; i < n; i++) {
		if (to && by_kind(&groups[to - 1], &groups[i]) == 0)
			groups[to - 1].blocks++;
		else
			groups[to++] = groups[i];
	}
	qsort(groups, to, sizeof *groups, by_sum);
	return to;
}

static json_t *group_json(const struct group *g)
{
	json_t *obj = json_object();

	answer_int(obj, "requested", g->bytes);
	answer_int(obj, "blocks", g->blocks);
	answer_int(obj, "bytes", g->bytes * g->blocks);
	answer_frame(obj, g->frame);
	json_object_set_new(obj, "before", json_boolean(g->before));
	return obj;
}

/* Takes the groups' order away; n blocks, one group each. */
static json_t *held_json(struct group *groups, size_t n, const char *at, uint64_t index)
{
	json_t *obj = json_object(), *list = json_array(), *rest;
	uint64_t bytes = 0, more = 0, more_bytes = 0;
	size_t group_n;

	for (size_t i = 0; i < n; i++)
		bytes += groups[i].bytes;
	json_object_set_new(obj, "at", json_string(at));
	answer_int(obj, "index", index);
	answer_int(obj, "requested", bytes);
	answer_int(obj, "blocks", n);
	group_n = join_groups(groups, n);
	for (size_t i = 0; i < group_n; i++) {
		if (i < GROUPS_MOST) {
			json_array_append_new(list, group_json(&groups[i]));
			continue;
		}
		more += groups[i].blocks;
		more_bytes += groups[i].bytes * groups[i].blocks;
	}
	if (more) {
		rest = json_object();
		answer_int(rest, "more", more);
		answer_int(rest, "blocks", more);
		answer_int(rest, "bytes", more_bytes);
		json_array_append_new(list, rest);
	}
	json_object_set_new(obj, "groups", list);
	return obj;
}

static json_t *held_at_peak(const struct recording *r, const struct replay *replay)
{
	uint64_t event = replay_facts(replay)->peak_event;
	struct replay_held *held;
	size_t n = replay_held(replay, &held);
	struct group *groups = tm_xcalloc(n + 1, sizeof *groups);
	json_t *obj;

	for (size_t i = 0; i < n; i++)
		groups[i] = (struct group){ held[i].bytes, 1, replay_frame(r, held[i].frames), held[i].before };
	obj = held_json(groups, n, "peak", event == REPLAY_NO_EVENT ? 0 : event);
	free(groups);
	free(held);
	return obj;
}

/* What a block holds for the program; older files do not tell. */
static uint64_t asked(const struct recording_block *block)
{
	return block->requested && block->requested <= block->size ? block->requested : block->size;
}

static json_t *held_at_end(const struct recording *r)
{
	struct group *groups = tm_xcalloc(r->block_n + 1, sizeof *groups);
	size_t n = 0;
	json_t *obj;

	for (size_t i = 0; i < r->block_n; i++)
		if (r->blocks[i].state != REC_INACTIVE)
			groups[n++] = (struct group){
				asked(&r->blocks[i]), 1, replay_frame(r, r->blocks[i].frames), false,
			};
	obj = held_json(groups, n, "end", r->event_n);
	free(groups);
	return obj;
}

/* ---- a recording: its last state -------------------------------------------------- */

struct state_sum {
	uint64_t allocated, pending, cached, releasable, largest_free;
};

static void sum_segment(const struct recording *r, const struct recording_segment *segment, struct state_sum *sum)
{
	uint64_t unused = 0;
	bool used = false;

	for (size_t i = 0; i < segment->block_n; i++) {
		const struct recording_block *block = &r->blocks[segment->first_block + i];

		if (block->state == REC_ACTIVE)
			sum->allocated += block->size;
		else if (block->state == REC_PENDING)
			sum->pending += block->size;
		else
			unused += block->size;
		used |= block->state != REC_INACTIVE;
		if (block->state == REC_INACTIVE && block->size > sum->largest_free)
			sum->largest_free = block->size;
	}
	sum->cached += unused;
	sum->releasable += used ? 0 : unused;
}

static int larger_block(const void *pa, const void *pb)
{
	const struct recording_block *const *a = pa, *const *b = pb;

	if ((*a)->size != (*b)->size)
		return (*a)->size < (*b)->size ? 1 : -1;
	return ((*a)->addr > (*b)->addr) - ((*a)->addr < (*b)->addr);
}

static json_t *largest_json(const struct recording *r)
{
	const struct recording_block **live = tm_xcalloc(r->block_n + 1, sizeof *live);
	json_t *list = json_array();
	size_t n = 0;

	for (size_t i = 0; i < r->block_n; i++)
		if (r->blocks[i].state != REC_INACTIVE)
			live[n++] = &r->blocks[i];
	qsort(live, n, sizeof *live, larger_block);
	for (size_t i = 0; i < n && i < LARGEST_N; i++) {
		json_t *obj = json_object();

		answer_int(obj, "bytes", live[i]->size);
		set_stack(obj, r, live[i]->frames);
		json_array_append_new(list, obj);
	}
	free(live);
	return list;
}

static json_t *state_json(const struct recording *r)
{
	struct state_sum sum = { 0 };
	json_t *obj = json_object();

	for (size_t i = 0; i < r->segment_n; i++)
		sum_segment(r, &r->segments[i], &sum);
	answer_int(obj, "allocated", sum.allocated);
	answer_int(obj, "pending", sum.pending);
	answer_int(obj, "cached", sum.cached);
	answer_int(obj, "releasable", sum.releasable);
	answer_int(obj, "pinned", sum.cached - sum.releasable);
	answer_int(obj, "largest_free", sum.largest_free);
	json_object_set_new(obj, "largest", largest_json(r));
	return obj;
}

/* ---- a recording ------------------------------------------------------------------- */

static const char *confidence(const struct recording *r, const struct replay_facts *facts)
{
	if (r->truncated)
		return "truncated";
	return facts && facts->before_n ? "inferred" : "whole";
}

static json_t *ooms_json(const struct recording *r, const struct replay_facts *facts)
{
	json_t *list = json_array();

	for (size_t i = 0; i < facts->oom_n && i < REPLAY_OOM_MAX; i++) {
		const struct replay_oom *oom = &facts->ooms[i];
		json_t *obj = json_object();

		answer_int(obj, "index", oom->index);
		answer_int(obj, "request", oom->request);
		answer_int(obj, "live", oom->live);
		answer_int(obj, "reserved", oom->reserved);
		answer_int(obj, "device_free", oom->device_free);
		set_stack(obj, r, oom->frames);
		json_array_append_new(list, obj);
	}
	return list;
}

/* `text` has one %llu. Nothing is said of 0. */
static void doubt(json_t *warnings, uint64_t n, const char *text)
{
	if (n)
		answer_text(warnings, text, (unsigned long long)n);
}

static void doubts_of_start(json_t *warnings, const struct replay_facts *facts)
{
	char size[32];

	if (facts->before_n)
		answer_text(warnings, "%llu blocks (%s) were there before the first event",
			 (unsigned long long)facts->before_n, tm_size_text((double)facts->before_bytes, size));
	if (facts->slack_blocks)
		answer_text(warnings, "the sizes of %llu of them are not in the file; %llu were found to reach further than their request",
			 (unsigned long long)facts->inferred_blocks, (unsigned long long)facts->slack_blocks);
	doubt(warnings, facts->undecided_blocks,
	      "of %llu blocks nothing tells whether they are larger than their request, by less than 1 MiB each");
}

static void doubts(json_t *warnings, const struct replay *replay)
{
	const struct replay_facts *facts = replay_facts(replay);

	if (*facts->conf_unread)
		answer_text(warnings, "the recorded option string is not one of PyTorch 2.11 (%s); what the file tells beside it was taken: %s",
			    facts->conf_unread, *replay_conf(replay) ? replay_conf(replay) : "the defaults");
	doubts_of_start(warnings, facts);
	doubt(warnings, facts->unmatched_frees, "%llu frees are of addresses where nothing was, and were left out");
	doubt(warnings, facts->reused_alive,
	      "%llu blocks were never freed although their address was used again; they end there");
	doubt(warnings, facts->impossible, "%llu events have sizes or addresses that cannot be, and were left out");
	doubt(warnings, facts->bad_segments,
	      "%llu segments or events of segments contradict each other, and were left out");
	doubt(warnings, facts->guessed_pools, "the pools of %llu segments are not told; the common one was taken");
	doubt(warnings, facts->empty_caches,
	      "the cache was emptied %llu times, as the freed segments show; replays do so at the same places");
	if (facts->oom_n)
		answer_text(warnings, "the program ran out of memory %zu time%s; what it did then says nothing about a run that does not",
			 facts->oom_n, facts->oom_n == 1 ? "" : "s");
}

static json_t *markers_json(const struct replay *replay)
{
	struct replay_marker markers[MARKERS_MOST];
	size_t n = replay_markers(replay, markers, MARKERS_MOST);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *obj = json_object();

		answer_int(obj, "index", markers[i].index);
		answer_int(obj, "active", markers[i].active);
		answer_int(obj, "reserved", markers[i].reserved);
		json_array_append_new(list, obj);
	}
	return list;
}

static void add_facts(json_t *obj, const struct recording *r, const struct replay *replay)
{
	const struct replay_facts *facts = replay_facts(replay);

	answer_int(obj, "requested_peak", facts->requested_peak);
	answer_int(obj, "rounded_peak", facts->rounded_peak);
	answer_int(obj, "reserved_start", facts->reserved_start);
	answer_int(obj, "inferred_blocks", facts->inferred_blocks);
	answer_int(obj, "undecided_blocks", facts->undecided_blocks);
	json_object_set_new(obj, "ooms", ooms_json(r, facts));
	json_object_set_new(obj, "markers", markers_json(replay));
	json_object_set_new(obj, "held", held_at_peak(r, replay));
}

json_t *answer_recording(const struct recording *r, const struct replay *replay, double seconds)
{
	json_t *obj = json_object(), *warnings = json_array();

	json_object_set_new(obj, "e", json_string("recording"));
	json_object_set_new(obj, "file", json_string(r->path));
	json_object_set_new(obj, "sha", json_string(r->sha));
	json_object_set_new(obj, "format", json_string(r->format));
	answer_int(obj, "device", (uint64_t)r->device);
	answer_int(obj, "device_n", (uint64_t)r->device_n);
	answer_int(obj, "events", r->event_n);
	answer_int(obj, "segments", r->segment_n);
	answer_int(obj, "blocks", r->block_n);
	answer_int(obj, "streams", r->stream_n);
	answer_int(obj, "pools", r->pool_n);
	json_object_set_new(obj, "history", json_boolean(replay != NULL));
	json_object_set_new(obj, "recorded_by", json_string(r->recorded_by ? r->recorded_by : ""));
	json_object_set_new(obj, "settings", json_pack("{s:s, s:b, s:b}",
						       "conf", replay ? replay_conf(replay) : r->settings.conf ? r->settings.conf : "",
						       "expandable", (int)r->settings.expandable, "known", (int)r->settings.known));
	json_object_set_new(obj, "confidence", json_string(confidence(r, replay ? replay_facts(replay) : NULL)));
	json_object_set_new(obj, "state", state_json(r));
	for (size_t i = 0; i < r->warning_n; i++)
		json_array_append_new(warnings, json_string(r->warnings[i]));
	if (replay) {
		add_facts(obj, r, replay);
		doubts(warnings, replay);
	} else {
		json_object_set_new(obj, "held", held_at_end(r));
	}
	json_object_set_new(obj, "warnings", warnings);
	json_object_set_new(obj, "seconds", json_real(seconds));
	return obj;
}
