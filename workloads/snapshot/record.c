/*
 * The records: what a dict must hold to be one, and what of it is kept. Keys
 * may come in any order and, in a few files, one by one.
 */
#include "snapshot/build.h"

#include "base/mem.h"

#include <string.h>

const char *const recording_action_name[REC_ACTION_N] = {
	[REC_ALLOC] = "alloc", [REC_FREE_REQUESTED] = "free_requested", [REC_FREE_COMPLETED] = "free_completed",
	[REC_SEGMENT_ALLOC] = "segment_alloc", [REC_SEGMENT_FREE] = "segment_free",
	[REC_SEGMENT_MAP] = "segment_map", [REC_SEGMENT_UNMAP] = "segment_unmap",
	[REC_SNAPSHOT] = "snapshot", [REC_OOM] = "oom",
};

/* No device has more; an out-of-memory event may tell of a request that was nonsense. */
#define SIZE_MAX_BYTES (1ull << 50)
#define OOM_MAX_BYTES (1ull << 60)

static const struct snap_value *field(const struct snap_build *b, enum snap_key key)
{
	return b->fields.has >> key & 1 ? b->fields.of[key] : NULL;
}

static int wrong(struct snap_build *b, enum snap_key key, const char *expected)
{
	return snap_fail(b->in, b->err, snap_input_offset(b->in), "%s is %s, expected %s", snap_text_of(&b->t, key),
			 snap_value_name(b, b->fields.of[key]), expected);
}

/* A size or an address. *out stays where the key is absent. */
static int get_bytes(struct snap_build *b, enum snap_key key, uint64_t max, uint64_t *out)
{
	const struct snap_value *v = field(b, key);

	if (!v)
		return 0;
	if (v->tag != V_INT && v->tag != V_UINT)
		return wrong(b, key, "a whole number");
	if (v->tag == V_INT && (int64_t)v->v < 0)
		return snap_fail(b->in, b->err, snap_input_offset(b->in), "%s is negative: %lld", snap_text_of(&b->t, key), (long long)v->v);
	if (v->v > max)
		return snap_fail(b->in, b->err, snap_input_offset(b->in), "%s is %llu, more than any device has", snap_text_of(&b->t, key),
				 (unsigned long long)v->v);
	*out = v->v;
	return 0;
}

static int get_i64(struct snap_build *b, enum snap_key key, int64_t *out)
{
	const struct snap_value *v = field(b, key);

	if (!v || v->tag == V_NONE)
		return 0;
	if (v->tag != V_INT && v->tag != V_BOOL)
		return wrong(b, key, "a whole number below 2^63");
	*out = (int64_t)v->v;
	return 0;
}

static int get_bool(struct snap_build *b, enum snap_key key, bool *out)
{
	int64_t v = *out;
	int rc = get_i64(b, key, &v);

	*out = v != 0;
	return rc;
}

static int get_text(struct snap_build *b, enum snap_key key, const char **out)
{
	const struct snap_value *v = field(b, key);

	if (!v)
		return 0;
	if (v->tag != V_TEXT)
		return wrong(b, key, "a text");
	*out = snap_text_of(&b->t, v->v);
	return 0;
}

/* Handles are written as signed numbers by some and unsigned by others. */
static int get_stream(struct snap_build *b, uint32_t *out)
{
	const struct snap_value *v = field(b, K_STREAM);

	if (!v)
		return 0;
	if (v->tag != V_INT && v->tag != V_UINT)
		return wrong(b, K_STREAM, "a whole number");
	if (v->v != b->last_handle || b->last_stream == RECORDING_NONE) {
		uint32_t id = snap_stream(&b->t, v->v);

		if (id == SNAP_NO_ROOM)
			return snap_no_room(b);
		b->last_handle = v->v;
		b->last_stream = id;
	}
	*out = b->last_stream;
	return 0;
}

static int get_pool(struct snap_build *b, enum snap_key key, uint32_t *out, bool *known)
{
	const struct snap_value *v = field(b, key);
	const struct snap_range *r;
	const int64_t *ints;
	uint32_t id;

	if (!v || v->tag == V_NONE)
		return 0;
	if (v->tag == V_POOL) {
		*out = (uint32_t)v->v;
		*known = true;
		return 0;
	}
	/* JSON has no tuples */
	r = v->tag == V_RANGE ? (struct snap_range *)b->ranges.v + v->v : NULL;
	if (!r || r->kind != R_INTS || r->n != 2)
		return wrong(b, key, "a pair of whole numbers");
	ints = (int64_t *)b->ints.v + r->first;
	id = snap_pool(&b->t, ints[0], ints[1]);
	if (id == SNAP_NO_ROOM)
		return snap_no_room(b);
	*out = id;
	*known = true;
	return 0;
}

/* Stacks are a help for people: what is no list of frames is no stack, and no error. */
static void get_frames(struct snap_build *b, uint32_t *out)
{
	const struct snap_value *v = field(b, K_FRAMES);

	if (v)
		*out = v->tag == V_STACK ? (uint32_t)v->v : RECORDING_NONE;
}

static int add(struct snap_build *b, struct snap_array *a, size_t size, enum snap_tag tag, struct snap_value *value)
{
	if (a->n >= UINT32_MAX - 1 || !snap_array_room(a, 1, size, &b->t.budget))
		return snap_no_room(b);
	value->tag = (uint8_t)tag;
	value->v = a->n++;
	return 0;
}

/* ---- one function a kind ------------------------------------------------- */

static int event(struct snap_build *b, struct snap_value *value)
{
	const struct snap_value *action = field(b, K_ACTION);
	struct recording_event *e;
	int rc;

	if (action && action->tag != V_TEXT)
		return wrong(b, K_ACTION, "a text");
	if (action && action->v - SNAP_ACTION_TEXT >= REC_ACTION_N) {
		if (value->tag == V_EVENT)
			return snap_fail(b->in, b->err, snap_input_offset(b->in), "an event changes its action");
		b->unknown_events++;
		b->unknown_action = snap_text_of(&b->t, action->v);
		value->tag = V_SKIPPED;
		return 0;
	}
	if (value->tag != V_EVENT) {
		rc = add(b, &b->events, sizeof *e, V_EVENT, value);
		if (rc)
			return rc;
		e = (struct recording_event *)b->events.v + value->v;
		*e = (struct recording_event){
			.addr = SNAP_MISSING, .size = SNAP_MISSING, .stream = RECORDING_NONE, .frames = RECORDING_NONE,
		};
	}
	e = (struct recording_event *)b->events.v + value->v;
	if (action)
		e->action = (uint8_t)(action->v - SNAP_ACTION_TEXT);
	b->markers += e->action == REC_SNAPSHOT;
	rc = get_bytes(b, K_ADDR, INT64_MAX, &e->addr);
	if (!rc)
		rc = get_bytes(b, K_SIZE, e->action == REC_OOM ? OOM_MAX_BYTES : SIZE_MAX_BYTES, &e->size);
	if (!rc && e->action == REC_OOM)
		rc = get_bytes(b, K_DEVICE_FREE, OOM_MAX_BYTES, &e->addr);
	if (!rc)
		rc = get_stream(b, &e->stream);
	if (!rc)
		rc = get_i64(b, K_TIME_US, &e->time_us);
	if (!rc && b->fields.has >> K_POOL_ID & 1)
		rc = get_pool(b, K_POOL_ID, &e->pool, &e->pool_known);
	get_frames(b, &e->frames);
	return rc;
}

static int segment(struct snap_build *b, struct snap_value *value)
{
	const struct snap_value *blocks = field(b, K_BLOCKS);
	const char *type = NULL;
	struct snap_segment *s;
	bool known;
	int rc = 0;

	if (value->tag != V_SEGMENT) {
		rc = add(b, &b->segments, sizeof *s, V_SEGMENT, value);
		if (rc)
			return rc;
		s = (struct snap_segment *)b->segments.v + value->v;
		*s = (struct snap_segment){ .blocks = RECORDING_NONE };
		s->s = (struct recording_segment){
			.addr = SNAP_MISSING, .size = SNAP_MISSING, .stream = RECORDING_NONE, .frames = RECORDING_NONE,
		};
	}
	s = (struct snap_segment *)b->segments.v + value->v;
	if (blocks && blocks->tag != V_LIST) {
		if (blocks->tag != V_RANGE || ((struct snap_range *)b->ranges.v)[blocks->v].kind != R_BLOCKS)
			return wrong(b, K_BLOCKS, "a list of blocks");
		s->blocks = (uint32_t)blocks->v;
	}
	rc = get_bytes(b, K_ADDRESS, INT64_MAX, &s->s.addr);
	if (!rc)
		rc = get_bytes(b, K_TOTAL_SIZE, SIZE_MAX_BYTES, &s->s.size);
	if (!rc)
		rc = get_i64(b, K_DEVICE, &s->device);
	if (!rc)
		rc = get_stream(b, &s->s.stream);
	if (!rc)
		rc = get_pool(b, K_SEGMENT_POOL_ID, &s->s.pool, &known);
	if (!rc)
		rc = get_bool(b, K_IS_EXPANDABLE, &s->s.expandable);
	if (!rc)
		rc = get_text(b, K_SEGMENT_TYPE, &type);
	if (!rc && type) {
		s->s.small = strcmp(type, "small") == 0;
		s->has_type = true;
	}
	get_frames(b, &s->s.frames);
	return rc;
}

/* The first history of a block of PyTorch 2.0 and before is that of what is in it. */
static int block_history(struct snap_build *b, struct recording_block *block)
{
	const struct snap_value *v = field(b, K_HISTORY);
	const struct snap_history *h;
	const struct snap_range *r;

	if (!v || v->tag == V_LIST)
		return 0;
	r = v->tag == V_RANGE ? (struct snap_range *)b->ranges.v + v->v : NULL;
	if (!r || r->kind != R_HISTORY)
		return wrong(b, K_HISTORY, "a list of dicts with real_size");
	h = (struct snap_history *)b->history.v + r->first;
	if (h->real_size != SNAP_MISSING)
		block->requested = h->real_size;
	block->frames = h->frames;
	return 0;
}

static int block(struct snap_build *b, struct snap_value *value)
{
	static const struct { const char *name; enum recording_state state; } states[] = {
		{ "active_allocated", REC_ACTIVE }, { "active_pending_free", REC_PENDING },
		{ "active_awaiting_free", REC_PENDING }, { "inactive", REC_INACTIVE },
	};
	struct recording_block *block;
	const char *state = NULL;
	size_t i = 0;
	int rc;

	if (value->tag != V_BLOCK) {
		rc = add(b, &b->blocks, sizeof *block, V_BLOCK, value);
		if (rc)
			return rc;
		block = (struct recording_block *)b->blocks.v + value->v;
		*block = (struct recording_block){
			.addr = SNAP_MISSING, .size = SNAP_MISSING, .requested = SNAP_MISSING, .frames = RECORDING_NONE,
		};
	}
	block = (struct recording_block *)b->blocks.v + value->v;
	rc = get_text(b, K_STATE, &state);
	if (!rc && state) {
		while (i < TM_ARRAY_N(states) && strcmp(states[i].name, state) != 0)
			i++;
		if (i == TM_ARRAY_N(states))
			return snap_fail(b->in, b->err, snap_input_offset(b->in), "a block's state is `%.40s`, expected active_allocated, active_pending_free or inactive", state);
		block->state = (uint8_t)states[i].state;
	}
	if (!rc)
		rc = get_bytes(b, K_ADDRESS, INT64_MAX, &block->addr);
	if (!rc)
		rc = get_bytes(b, K_SIZE, SIZE_MAX_BYTES, &block->size);
	if (!rc)
		rc = block_history(b, block);
	if (!rc)
		rc = get_bytes(b, K_REQUESTED_SIZE, SIZE_MAX_BYTES, &block->requested);
	if (!rc && b->fields.has >> K_FRAMES & 1)
		get_frames(b, &block->frames);
	return rc;
}

static int history(struct snap_build *b, struct snap_value *value)
{
	struct snap_history *h;
	int rc;

	if (value->tag != V_HISTORY) {
		rc = add(b, &b->history, sizeof *h, V_HISTORY, value);
		if (rc)
			return rc;
		((struct snap_history *)b->history.v)[value->v] = (struct snap_history){ SNAP_MISSING, RECORDING_NONE };
	}
	h = (struct snap_history *)b->history.v + value->v;
	get_frames(b, &h->frames);
	return get_bytes(b, K_REAL_SIZE, SIZE_MAX_BYTES, &h->real_size);
}

static int frame(struct snap_build *b, struct snap_value *value)
{
	struct recording_frame f;
	uint32_t id;
	int rc = 0;

	if (value->tag == V_FRAME) {
		f = ((struct recording_frame *)b->t.frames.v)[value->v];
	} else {
		id = snap_text(&b->t, "", 0);
		if (id == SNAP_NO_ROOM)
			return snap_no_room(b);
		f = (struct recording_frame){ snap_text_of(&b->t, id), snap_text_of(&b->t, id), 0 };
	}
	if (field(b, K_FILENAME) && field(b, K_FILENAME)->tag == V_TEXT)
		rc = get_text(b, K_FILENAME, &f.file);
	if (!rc && field(b, K_NAME) && field(b, K_NAME)->tag == V_TEXT)
		rc = get_text(b, K_NAME, &f.name);
	if (!rc)
		rc = get_i64(b, K_LINE, &f.line);
	if (rc)
		return rc;
	id = snap_frame(&b->t, f.file, f.name, f.line);
	if (id == SNAP_NO_ROOM)
		return snap_no_room(b);
	value->tag = V_FRAME;
	value->v = id;
	return 0;
}

static int note(struct snap_build *b, struct snap_value *value)
{
	struct snap_note *n;
	uint32_t empty = snap_text(&b->t, "", 0);
	int rc;

	if (empty == SNAP_NO_ROOM)
		return snap_no_room(b);
	if (value->tag != V_NOTE) {
		rc = add(b, &b->notes, sizeof *n, V_NOTE, value);
		if (rc)
			return rc;
		n = (struct snap_note *)b->notes.v + value->v;
		*n = (struct snap_note){ .device = -1 };
		n->note.name = n->note.stage = snap_text_of(&b->t, empty);
	}
	n = (struct snap_note *)b->notes.v + value->v;
	rc = get_text(b, K_NAME, &n->note.name);
	if (!rc)
		rc = get_text(b, K_STAGE, &n->note.stage);
	if (!rc)
		rc = get_i64(b, K_TIME_US, &n->note.time_us);
	if (!rc)
		rc = get_i64(b, K_DEVICE, &n->device);
	return rc;
}

/* A number for all devices, or a list or dict of one each. */
static int per_device(struct snap_build *b, enum snap_key key, struct snap_array *out)
{
	const struct snap_value *v = field(b, key);
	const struct snap_range *r;
	const int64_t *from;
	int64_t *to;
	size_t n;

	if (!v || (v->tag != V_RANGE && v->tag != V_INT && v->tag != V_BOOL && v->tag != V_UINT))
		return 0;
	r = v->tag == V_RANGE ? (struct snap_range *)b->ranges.v + v->v : NULL;
	if (r && r->kind != R_INTS && r->kind != R_MAP)
		return 0;
	n = r && r->kind == R_INTS ? r->n : 1;
	from = r ? (int64_t *)b->ints.v + r->first : NULL;
	for (size_t i = 0; r && r->kind == R_MAP && i < r->n; i += 2)
		if (from[i] >= 0 && from[i] < 1024 && (size_t)from[i] + 1 > n)
			n = (size_t)from[i] + 1;
	out->n = 0;
	if (!snap_array_room(out, n, sizeof *to, &b->t.budget))
		return snap_no_room(b);
	out->n = n;
	to = out->v;
	to[0] = v->tag == V_UINT ? -1 : (int64_t)v->v;
	for (size_t i = 0; r && r->kind == R_INTS && i < n; i++)
		to[i] = from[i];
	if (r && r->kind == R_MAP) {
		for (size_t i = 0; i < n; i++)
			to[i] = key == K_MAX_ENTRIES ? -1 : 0;
		for (size_t i = 0; i < r->n; i += 2)
			if (from[i] >= 0 && (size_t)from[i] < n)
				to[from[i]] = from[i + 1];
	}
	return 0;
}

static int roundup(struct snap_build *b)
{
	const struct snap_value *v = field(b, K_ROUNDUP);
	const struct snap_range *r;
	const int64_t *pairs;

	if (!v || v->tag == V_NONE || v->tag == V_DICT)
		return 0;
	r = v->tag == V_RANGE ? (struct snap_range *)b->ranges.v + v->v : NULL;
	if (!r || r->kind != R_MAP)
		return wrong(b, K_ROUNDUP, "a dict from sizes in MiB to numbers");
	pairs = (int64_t *)b->ints.v + r->first;
	for (size_t i = 0; i < r->n; i += 2)
		for (unsigned bit = 0; bit < 16; bit++)
			if (pairs[i] == 1 << bit && pairs[i + 1] >= 0)
				b->settings.roundup[bit] = (uint64_t)pairs[i + 1];
	return 0;
}

static int settings(struct snap_build *b, struct snap_value *value)
{
	struct recording_settings *s = &b->settings;
	const struct snap_value *max_split = field(b, K_MAX_SPLIT_SIZE), *gc = field(b, K_GC_THRESHOLD);
	const char *conf = NULL;
	int rc;

	if (!b->has_settings)
		s->max_split_size = -1;
	b->has_settings = true;
	value->tag = V_SETTINGS;
	rc = get_text(b, K_CONF, &conf);
	if (conf)
		s->conf = (char *)conf;           /* copied by snap_finish */
	if (!rc)
		rc = get_bool(b, K_EXPANDABLE, &s->expandable);
	if (!rc && max_split && max_split->tag == V_UINT)
		s->max_split_size = -1;           /* files of late 2023 write 2^64 - 1 for "unlimited" */
	else if (!rc)
		rc = get_i64(b, K_MAX_SPLIT_SIZE, &s->max_split_size);
	if (s->max_split_size < 0)
		s->max_split_size = -1;
	if (!rc && gc && gc->tag == V_FLOAT)
		memcpy(&s->gc_threshold, &gc->v, sizeof gc->v);
	else if (!rc && gc && gc->tag == V_INT)
		s->gc_threshold = (double)(int64_t)gc->v;
	if (!rc)
		rc = roundup(b);
	if (!rc)
		rc = per_device(b, K_MAX_ENTRIES, &b->max_entries);
	if (!rc)
		rc = per_device(b, K_OVERFLOWED, &b->overflowed);
	return rc;
}

static int top(struct snap_build *b, struct snap_value *value)
{
	struct { enum snap_key key; struct snap_value *to; } part[] = {
		{ K_SEGMENTS, &b->top_segments }, { K_DEVICE_TRACES, &b->top_traces },
		{ K_SETTINGS, &b->top_settings }, { K_ANNOTATIONS, &b->top_notes },
	};

	if (value->tag != V_TOP && b->has_top)
		return snap_fail(b->in, b->err, snap_input_offset(b->in), "the file holds several snapshots; save each in a file of its own");
	b->has_top = true;
	value->tag = V_TOP;
	for (size_t i = 0; i < TM_ARRAY_N(part); i++)
		if (field(b, part[i].key))
			*part[i].to = *field(b, part[i].key);
	return 0;
}

int snap_record(struct snap_build *b, struct snap_value *value)
{
	static int (*const kind[V_TAG_N])(struct snap_build *, struct snap_value *) = {
		[V_EVENT] = event, [V_SEGMENT] = segment, [V_BLOCK] = block, [V_NOTE] = note, [V_HISTORY] = history,
		[V_FRAME] = frame, [V_SETTINGS] = settings, [V_TOP] = top,
	};
	/* what says it, the surest first */
	static const struct { enum snap_key key; enum snap_tag tag; } sign[] = {
		{ K_ACTION, V_EVENT }, { K_FILENAME, V_FRAME }, { K_STATE, V_BLOCK }, { K_TOTAL_SIZE, V_SEGMENT },
		{ K_BLOCKS, V_SEGMENT }, { K_REAL_SIZE, V_HISTORY }, { K_STAGE, V_NOTE }, { K_SEGMENTS, V_TOP },
		{ K_DEVICE_TRACES, V_TOP }, { K_CONF, V_SETTINGS }, { K_ROUNDUP, V_SETTINGS },
		{ K_MAX_SPLIT_SIZE, V_SETTINGS }, { K_EXPANDABLE, V_SETTINGS }, { K_GC_THRESHOLD, V_SETTINGS },
		{ K_OVERFLOWED, V_SETTINGS }, { K_MAX_ENTRIES, V_SETTINGS },
	};

	if (value->tag != V_DICT)
		return kind[value->tag](b, value);
	for (size_t i = 0; i < TM_ARRAY_N(sign); i++)
		if (b->fields.has >> sign[i].key & 1)
			return kind[sign[i].tag](b, value);
	return 0;
}
