#include "replay_answer.h"

#include <math.h>
#include <string.h>

#define SEGMENTS_MOST 2000
#define BLOCKS_MOST 20000
#define PINS_MOST 64

static const char *const state_name[] = {
	[MEM_PART_FREE] = "free", [MEM_PART_LIVE] = "active", [MEM_PART_PENDING] = "pending",
};

/* ---- figures ------------------------------------------------------------------ */

static void set_share(json_t *obj, const char *key, double share)
{
	json_object_set_new(obj, key, isnan(share) ? json_null() : json_real(share));
}

/* What the allocator's own report says where it gives up, as PyTorch groups it. */
static json_t *report(const struct mem_policy_oom *oom)
{
	json_t *obj = json_object();

	answer_int(obj, "allocated", oom->allocated);
	answer_int(obj, "private_cached", oom->private_cached);
	answer_int(obj, "reserved", oom->reserved);
	answer_int(obj, "unallocated", oom->unallocated);
	json_object_set_new(obj, "by_limit", json_boolean(oom->by_limit));
	return obj;
}

static json_t *failure(const struct recording *r, const struct replay *replay, const struct replay_failure *f)
{
	json_t *obj = json_object();

	answer_int(obj, "index", f->index);
	answer_int(obj, "request", f->request_bytes);
	answer_int(obj, "segment", f->segment_bytes);
	json_object_set_new(obj, "first", json_boolean(f->index == replay_facts(replay)->first_request));
	answer_frame(obj, replay_frame(r, f->frames));
	if (f->oom.asked)
		json_object_set_new(obj, "report", report(&f->oom));
	return obj;
}

void answer_result(json_t *obj, const struct recording *r, const struct replay *replay,
		   const struct replay_result *n)
{
	answer_int(obj, "events", n->events);
	json_object_set_new(obj, "completes", json_boolean(n->completes));
	if (!n->completes)
		json_object_set_new(obj, "first_failure", failure(r, replay, &n->first_failure));
	answer_int(obj, "requested_peak", n->requested_peak);
	answer_int(obj, "allocated_peak", n->allocated_peak);
	answer_int(obj, "active_peak", n->active_peak);
	answer_int(obj, "reserved_peak", n->reserved_peak);
	answer_int(obj, "inactive_split_peak", n->inactive_split_peak);
	answer_int(obj, "segments_peak", n->segments_peak);
	answer_int(obj, "reserved_start", n->reserved_start);
	answer_int(obj, "allocated_end", n->allocated_end);
	answer_int(obj, "reserved_end", n->reserved_end);
	answer_int(obj, "device_allocs", n->device_allocs);
	answer_int(obj, "device_frees", n->device_frees);
	answer_int(obj, "retries", n->retries);
	answer_int(obj, "ooms", n->ooms);
	answer_int(obj, "peak_event", n->peak_event == REPLAY_NO_EVENT ? 0 : n->peak_event);
	set_share(obj, "fragmentation_at_peak", n->fragmentation_at_peak);
	set_share(obj, "exact_address_share", n->exact_address_share);
	set_share(obj, "exact_segment_share", n->exact_segment_share);
	set_share(obj, "exact_block_share", n->exact_block_share);
	if (n->first_difference != UINT64_MAX)
		answer_int(obj, "first_difference", n->first_difference);
	answer_int(obj, "inferred_blocks", replay_facts(replay)->inferred_blocks);
	json_object_set_new(obj, "seconds", json_real(n->seconds));
}

/* ---- the picture at the peak ---------------------------------------------------- */

static json_t *pool_json(const int64_t id[2])
{
	return json_pack("[I,I]", (json_int_t)id[0], (json_int_t)id[1]);
}

static json_t *block_json(const struct recording *r, const struct replay_part *part)
{
	json_t *obj = json_object();

	answer_int(obj, "size", part->part.size);
	json_object_set_new(obj, "state", json_string(state_name[part->part.state]));
	if (part->part.state == MEM_PART_FREE)
		return obj;
	answer_int(obj, "requested", part->part.requested);
	answer_frame(obj, replay_frame(r, part->frames));
	if (part->event == REPLAY_NO_EVENT)
		json_object_set_new(obj, "before", json_true());
	return obj;
}

static json_t *segment_json(const struct recording *r, const struct replay_part *parts, size_t n)
{
	const struct mem_part *first = &parts->part;
	json_t *obj = json_object(), *blocks = json_array();

	answer_int(obj, "addr", first->segment_addr);
	answer_int(obj, "size", first->segment_bytes);
	answer_int(obj, "stream", first->stream);
	json_object_set_new(obj, "pool", pool_json(first->pool.id));
	json_object_set_new(obj, "expandable", json_boolean(first->expandable));
	for (size_t i = 0; i < n; i++)
		json_array_append_new(blocks, block_json(r, &parts[i]));
	json_object_set_new(obj, "blocks", blocks);
	return obj;
}

static json_t *segments_json(const struct recording *r, const struct replay_picture *picture)
{
	json_t *list = json_array(), *rest;
	uint64_t more = 0, more_bytes = 0;
	size_t end, segments = 0;

	for (size_t i = 0; i < picture->part_n; i = end) {
		uint64_t addr = picture->parts[i].part.segment_addr;

		for (end = i; end < picture->part_n && picture->parts[end].part.segment_addr == addr; end++)
			;
		if (segments < SEGMENTS_MOST && end <= BLOCKS_MOST) {
			json_array_append_new(list, segment_json(r, &picture->parts[i], end - i));
			segments++;
			continue;
		}
		more++;
		more_bytes += picture->parts[i].part.segment_bytes;
	}
	if (more) {
		rest = json_object();
		answer_int(rest, "more", more);
		answer_int(rest, "size", more_bytes);
		json_array_append_new(list, rest);
	}
	return list;
}

static json_t *pins_json(const struct replay_stranded *stranded)
{
	json_t *list = json_array();

	for (size_t i = 0; i < stranded->pin_n && i < PINS_MOST; i++) {
		const struct replay_pin *pin = &stranded->pins[i];
		json_t *obj = json_object();

		answer_frame(obj, pin->frame);
		answer_int(obj, "blocks", pin->blocks);
		answer_int(obj, "bytes", pin->bytes);
		answer_int(obj, "strands", pin->strands);
		json_object_set_new(obj, "before", json_boolean(pin->before));
		json_array_append_new(list, obj);
	}
	return list;
}

static json_t *stranded_json(const struct recording *r, const struct replay_stranded *stranded)
{
	json_t *obj = json_object(), *streams = json_array(), *pools = json_array();

	for (size_t i = 0; i < stranded->stream_n; i++)
		json_array_append_new(streams, json_pack("{s:I, s:I}",
							 "stream", (json_int_t)r->streams[stranded->streams[i].index],
							 "bytes", (json_int_t)stranded->streams[i].bytes));
	for (size_t i = 0; i < stranded->pool_n; i++)
		json_array_append_new(pools, json_pack("{s:o, s:I}",
						       "pool", pool_json(r->pools[stranded->pools[i].index].id),
						       "bytes", (json_int_t)stranded->pools[i].bytes));
	answer_int(obj, "bytes", stranded->bytes);
	answer_int(obj, "releasable", stranded->releasable);
	json_object_set_new(obj, "by_stream", streams);
	json_object_set_new(obj, "by_pool", pools);
	json_object_set_new(obj, "pinned", pins_json(stranded));
	answer_int(obj, "rounding", stranded->rounding);
	return obj;
}

static json_t *course_json(const struct replay_picture *picture)
{
	json_t *event = json_array(), *requested = json_array(), *allocated = json_array(), *reserved = json_array();

	for (size_t i = 0; i < picture->course_n; i++) {
		json_array_append_new(event, json_integer((json_int_t)picture->course[i].event));
		json_array_append_new(requested, json_integer((json_int_t)picture->course[i].requested));
		json_array_append_new(allocated, json_integer((json_int_t)picture->course[i].allocated));
		json_array_append_new(reserved, json_integer((json_int_t)picture->course[i].reserved));
	}
	return json_pack("{s:o, s:o, s:o, s:o}", "event", event, "requested", requested, "allocated", allocated,
			 "reserved", reserved);
}

void answer_picture(json_t *obj, const struct recording *r, const struct replay_picture *picture,
		    const struct replay_stranded *stranded)
{
	json_t *at = json_object();

	answer_int(at, "requested", picture->requested);
	answer_int(at, "allocated", picture->allocated);
	answer_int(at, "active", picture->active);
	answer_int(at, "reserved", picture->reserved);
	json_object_set_new(at, "segments", segments_json(r, picture));
	json_object_set_new(at, "stranded", stranded_json(r, stranded));
	json_object_set_new(obj, "at_peak", at);
	json_object_set_new(obj, "course", course_json(picture));
}
