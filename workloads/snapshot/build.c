#include "snapshot/build.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a dict that does not say yet what it is; `next` is the number + 1. */
struct open_pair {
	struct snap_value value;
	uint32_t key, next;
};

static const char *const key_names[K_N] = {
	[K_ACTION] = "action", [K_ADDR] = "addr", [K_SIZE] = "size", [K_STREAM] = "stream", [K_TIME_US] = "time_us",
	[K_FRAMES] = "frames", [K_DEVICE_FREE] = "device_free", [K_POOL_ID] = "pool_id",
	[K_DEVICE] = "device", [K_ADDRESS] = "address", [K_TOTAL_SIZE] = "total_size", [K_SEGMENT_TYPE] = "segment_type",
	[K_SEGMENT_POOL_ID] = "segment_pool_id", [K_IS_EXPANDABLE] = "is_expandable", [K_BLOCKS] = "blocks",
	[K_REQUESTED_SIZE] = "requested_size", [K_STATE] = "state", [K_HISTORY] = "history", [K_REAL_SIZE] = "real_size",
	[K_FILENAME] = "filename", [K_LINE] = "line", [K_NAME] = "name", [K_STAGE] = "stage",
	[K_CONF] = "PYTORCH_CUDA_ALLOC_CONF", [K_MAX_SPLIT_SIZE] = "max_split_size",
	[K_GC_THRESHOLD] = "garbage_collection_threshold", [K_EXPANDABLE] = "expandable_segments",
	[K_ROUNDUP] = "roundup_power2_divisions", [K_MAX_ENTRIES] = "trace_alloc_max_entries",
	[K_OVERFLOWED] = "trace_alloc_overflowed",
	[K_SEGMENTS] = "segments", [K_DEVICE_TRACES] = "device_traces", [K_SETTINGS] = "allocator_settings",
	[K_ANNOTATIONS] = "external_annotations",
};
_Static_assert(K_N <= 64, "the keys of a dict are bits of one word");

void snap_build_init(struct snap_build *b, struct snap_input *in, uint64_t max_bytes, struct tm_err *err)
{
	memset(b, 0, sizeof *b);
	b->in = in;
	b->err = err;
	b->last_stream = RECORDING_NONE;
	snap_tables_init(&b->t, max_bytes);
	for (uint32_t i = 0; i < K_N; i++)
		BUG_ON(snap_text(&b->t, key_names[i], strlen(key_names[i])) != i);
	for (uint32_t i = 0; i < REC_ACTION_N; i++) {
		uint32_t id = snap_text(&b->t, recording_action_name[i], strlen(recording_action_name[i]));

		BUG_ON(id != SNAP_ACTION_TEXT + i);
	}
}

void snap_build_free(struct snap_build *b)
{
	struct snap_array *plain[] = {
		&b->stack, &b->events, &b->segments, &b->blocks, &b->notes, &b->history, &b->ranges, &b->ints,
		&b->traces, &b->open, &b->scratch, &b->memo, &b->wide, &b->max_entries, &b->overflowed,
	};

	for (size_t i = 0; i < TM_ARRAY_N(plain); i++)
		free(plain[i]->v);
	snap_tables_free(&b->t);
}

int snap_stack_room(struct snap_build *b)
{
	if (!snap_array_room(&b->stack, 1, sizeof(struct snap_value), &b->t.budget))
		return snap_no_room(b);
	return 0;
}

int snap_push_text(struct snap_build *b, const char *s, size_t n)
{
	uint32_t id;

	if (n > SNAP_TEXT_MAX)
		return snap_push(b, V_JUNK, 0);
	id = snap_text(&b->t, s, n);
	if (id == SNAP_NO_ROOM)
		return snap_no_room(b);
	return snap_push(b, V_TEXT, id);
}

static struct snap_range *range_of(const struct snap_build *b, uint64_t id)
{
	return (struct snap_range *)b->ranges.v + id;
}

const char *snap_value_name(const struct snap_build *b, const struct snap_value *v)
{
	static const char *const name[V_TAG_N] = {
		[V_UNSET] = "nothing", [V_NONE] = "None", [V_BOOL] = "a truth value", [V_INT] = "a whole number",
		[V_UINT] = "a whole number", [V_FLOAT] = "a real number", [V_TEXT] = "a text", [V_POOL] = "a pair of numbers",
		[V_JUNK] = "something else", [V_DICT] = "a dict", [V_LIST] = "an empty list", [V_OPEN] = "a dict",
		[V_EVENT] = "an event", [V_SEGMENT] = "a segment", [V_BLOCK] = "a block", [V_NOTE] = "an annotation",
		[V_HISTORY] = "a block's history", [V_FRAME] = "a frame", [V_SETTINGS] = "allocator settings",
		[V_TOP] = "a snapshot", [V_SKIPPED] = "an event", [V_STACK] = "a list of frames",
	};
	static const char *const range[] = {
		[R_EVENTS] = "a list of events", [R_SEGMENTS] = "a list of segments", [R_BLOCKS] = "a list of blocks",
		[R_NOTES] = "a list of annotations", [R_HISTORY] = "a list of a block's histories",
		[R_TRACES] = "a list of traces", [R_INTS] = "a list of numbers", [R_MAP] = "a dict of numbers",
	};

	return v->tag == V_RANGE ? range[range_of(b, v->v)->kind] : name[v->tag];
}

/* ---- the memo ------------------------------------------------------------ */

static uint64_t packed(const struct snap_value *v)
{
	return (uint64_t)v->tag << 56 | v->v;
}

static void store(struct snap_build *b, size_t index, uint64_t entry)
{
	uint64_t *to = (uint64_t *)b->memo.v + index;

	b->memo_rewrites += *to >> 56 == V_FRAME;
	*to = entry;
}

/* It knows containers from before they were filled; their numbers are small. */
static void tell_memo(struct snap_build *b, const struct snap_value *v)
{
	if (v->memo)
		store(b, v->memo - 1, packed(v));
}

/* A put takes two bytes at least, so that an index beyond the bytes read is none that a writer counted. */
int snap_memo_put(struct snap_build *b, uint64_t index)
{
	struct snap_value *top = snap_top(b), stored = *top;
	size_t n = b->memo.n;

	if (index >= n) {
		if (index > snap_input_offset(b->in) || index >= UINT32_MAX)
			return snap_fail(b->in, b->err, snap_input_offset(b->in), "index %llu of the memo is out of range: %zu entries are stored",
					 (unsigned long long)index, n);
		if (!snap_array_room(&b->memo, (size_t)index + 1 - n, sizeof(uint64_t), &b->t.budget))
			return snap_no_room(b);
		memset((uint64_t *)b->memo.v + n, 0, ((size_t)index + 1 - n) * sizeof(uint64_t));
		b->memo.n = (size_t)index + 1;
	}
	if (stored.v >> 56) {
		if (!snap_array_room(&b->wide, 1, sizeof(uint64_t), &b->t.budget))
			return snap_no_room(b);
		((uint64_t *)b->wide.v)[b->wide.n] = stored.v;
		stored.v = b->wide.n++;
		stored.tag |= SNAP_MEMO_WIDE;
	}
	store(b, (size_t)index, packed(&stored));
	top->memo = (uint32_t)index + 1;
	return 0;
}

/* ---- lists --------------------------------------------------------------- */

/* The array behind the records of one kind, and the size of one. */
static struct snap_array *array_of(struct snap_build *b, enum snap_range_kind kind, size_t *size)
{
	switch (kind) {
	case R_EVENTS: *size = sizeof(struct recording_event); return &b->events;
	case R_SEGMENTS: *size = sizeof(struct snap_segment); return &b->segments;
	case R_BLOCKS: *size = sizeof(struct recording_block); return &b->blocks;
	case R_NOTES: *size = sizeof(struct snap_note); return &b->notes;
	case R_HISTORY: *size = sizeof(struct snap_history); return &b->history;
	case R_TRACES: *size = sizeof(uint32_t); return &b->traces;
	case R_INTS: case R_MAP: break;
	}
	*size = sizeof(int64_t);
	return &b->ints;
}

static bool is_count(const struct snap_value *v)
{
	return v->tag == V_INT || v->tag == V_BOOL;
}

static bool is_trace(const struct snap_build *b, const struct snap_value *v)
{
	return v->tag == V_LIST || (v->tag == V_RANGE && range_of(b, v->v)->kind == R_EVENTS);
}

/* Which list an entry makes. False: none that is of use. */
static bool kind_of_entry(const struct snap_build *b, const struct snap_value *v, enum snap_range_kind *kind)
{
	if (v->tag >= V_EVENT && v->tag <= V_HISTORY)
		*kind = R_EVENTS + (v->tag - V_EVENT);
	else if (is_trace(b, v))
		*kind = R_TRACES;
	else if (is_count(v))
		*kind = R_INTS;
	else
		return false;
	return true;
}

/* A list of records, or (map) a dict of numbers. */
static bool is_range(const struct snap_build *b, const struct snap_value *v, bool map)
{
	return v->tag == V_RANGE && (range_of(b, v->v)->kind == R_MAP) == map;
}

static int new_range(struct snap_build *b, enum snap_range_kind kind, size_t first, struct snap_value *list)
{
	if (b->ranges.n >= UINT32_MAX - 1 || !snap_array_room(&b->ranges, 1, sizeof(struct snap_range), &b->t.budget))
		return snap_no_room(b);
	((struct snap_range *)b->ranges.v)[b->ranges.n] = (struct snap_range){ kind, first, 0 };
	list->tag = V_RANGE;
	list->v = b->ranges.n++;
	return 0;
}

/*
 * Records are made one after the other, so a list of them is a range. A record
 * that is not the next one (the same object twice in a list) is copied behind
 * the last; while two lists grow in turns that cannot be.
 */
static int add_entry(struct snap_build *b, struct snap_range *range, const struct snap_value *v)
{
	size_t size;
	struct snap_array *a = array_of(b, range->kind, &size);
	int64_t number = (int64_t)v->v;
	uint32_t trace = v->tag == V_RANGE ? (uint32_t)v->v : RECORDING_NONE;
	const void *item = range->kind == R_TRACES ? (const void *)&trace : &number;

	if (range->kind < R_TRACES && v->v == range->first + range->n) {
		range->n++;
		return 0;
	}
	if (range->first + range->n != a->n)
		return snap_fail(b->in, b->err, snap_input_offset(b->in), "two lists of one kind are written in turns, as no recorder does");
	if (!snap_array_room(a, 1, size, &b->t.budget))
		return snap_no_room(b);
	if (range->kind < R_TRACES)
		item = (char *)a->v + v->v * size;
	memcpy((char *)a->v + a->n++ * size, item, size);
	range->n++;
	return 0;
}

static int append_records(struct snap_build *b, struct snap_value *list, const struct snap_value *v, size_t n)
{
	enum snap_range_kind kind, entry;
	size_t size, i = 0;
	int rc = 0;

	if (list->tag == V_LIST) {
		if (!kind_of_entry(b, v, &kind)) {
			list->tag = V_JUNK;
			return 0;
		}
		rc = new_range(b, kind, kind < R_TRACES ? (size_t)v->v : array_of(b, kind, &size)->n, list);
	}
	for (; !rc && i < n; i++) {
		struct snap_range *range = range_of(b, list->v);

		kind = range->kind;
		/* as nearly always: the next record */
		if (kind < R_TRACES && v[i].tag == V_EVENT + kind && v[i].v == range->first + range->n) {
			range->n++;
			continue;
		}
		if (v[i].tag == V_SKIPPED && kind == R_EVENTS)
			continue;
		if (!kind_of_entry(b, &v[i], &entry) || entry != kind) {
			if (kind <= R_BLOCKS)
				return snap_fail(b->in, b->err, snap_input_offset(b->in), "%s holds %s",
						 snap_value_name(b, list), snap_value_name(b, &v[i]));
			list->tag = V_JUNK;
			return 0;
		}
		rc = add_entry(b, range, &v[i]);
	}
	return rc;
}

void snap_become_stack(struct snap_build *b, struct snap_value *list, uint32_t stack)
{
	list->tag = V_STACK;
	list->v = stack;
	tell_memo(b, list);
}

int snap_frames(struct snap_build *b, struct snap_value *list, const uint32_t *frames, size_t n)
{
	uint32_t id = snap_stack(&b->t, frames, n);

	if (id == SNAP_NO_ROOM)
		return snap_no_room(b);
	snap_become_stack(b, list, id);
	return 0;
}

static int append_frames(struct snap_build *b, struct snap_value *list, const struct snap_value *v, size_t n)
{
	size_t have = 0;
	uint32_t *frames;

	if (list->tag == V_STACK) {
		have = ((struct recording_stack *)b->t.stacks.v)[list->v].n;
		b->rework += have;
		/* a frame at a time, again and again: quadratic */
		if (b->rework > 16 * snap_input_offset(b->in) + (1u << 20))
			return snap_fail(b->in, b->err, snap_input_offset(b->in), "lists of frames are written one by one, as no recorder does");
	}
	if (n > SNAP_STACK_MAX - have)
		n = SNAP_STACK_MAX - have;
	b->scratch.n = 0;
	if (!snap_array_room(&b->scratch, have + n, sizeof *frames, &b->t.budget))
		return snap_no_room(b);
	frames = b->scratch.v;
	if (have)
		memcpy(frames, (uint32_t *)b->t.stack_frames.v + ((struct recording_stack *)b->t.stacks.v)[list->v].first,
		       have * sizeof *frames);
	for (size_t i = 0; i < n; i++) {
		if (v[i].tag != V_FRAME) {
			list->tag = V_JUNK;
			return 0;
		}
		frames[have + i] = (uint32_t)v[i].v;
	}
	return snap_frames(b, list, frames, have + n);
}

static int changeable(struct snap_build *b, const struct snap_value *v, const char *what)
{
	if (!v->shared)
		return 0;
	return snap_fail(b->in, b->err, snap_input_offset(b->in), "%s is changed after it was taken out of the memo, as no recorder does", what);
}

int snap_append(struct snap_build *b, size_t first)
{
	struct snap_value *v = (struct snap_value *)b->stack.v + first, *list = v - 1;
	size_t n = b->stack.n - first;
	int rc;

	if (!n)
		return 0;
	if (list->tag != V_LIST && list->tag != V_STACK && !is_range(b, list, false) && list->tag != V_JUNK)
		return snap_fail(b->in, b->err, snap_input_offset(b->in), "entries for a list, but there is %s", snap_value_name(b, list));
	rc = changeable(b, list, "a list");
	if (rc)
		return rc;
	if (list->tag == V_LIST)
		while (n && v->tag == V_SKIPPED) {
			v++;
			n--;
		}
	if (n && list->tag != V_JUNK) {
		if (list->tag == V_STACK || (list->tag == V_LIST && v->tag == V_FRAME))
			rc = append_frames(b, list, v, n);
		else
			rc = append_records(b, list, v, n);
		tell_memo(b, list);
	}
	b->stack.n = first;
	return rc;
}

int snap_tuple(struct snap_build *b, size_t first)
{
	struct snap_value *v = (struct snap_value *)b->stack.v + first;
	size_t n = b->stack.n - first;
	uint32_t pool;

	b->stack.n = first;
	if (n == 0)
		return snap_push(b, V_LIST, 0);
	if (n != 2 || v[0].tag != V_INT || v[1].tag != V_INT)
		return snap_push(b, V_JUNK, 0);
	pool = snap_pool(&b->t, (int64_t)v[0].v, (int64_t)v[1].v);
	if (pool == SNAP_NO_ROOM)
		return snap_no_room(b);
	return snap_push(b, V_POOL, pool);
}

/* ---- dicts --------------------------------------------------------------- */

static bool number_of_text(const char *s, int64_t *out)
{
	int64_t n = 0;

	if (!*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || n > INT32_MAX)
			return false;
		n = 10 * n + (*s - '0');
	}
	*out = n;
	return true;
}

/* A dict from numbers, or texts of digits, to numbers. False: it is not. */
static bool set_numbers(struct snap_build *b, struct snap_value *dict, const struct snap_value *v, size_t n, int *rc)
{
	int64_t key;

	for (size_t i = 0; i < n; i += 2) {
		bool number = v[i].tag == V_INT || (v[i].tag == V_TEXT && number_of_text(snap_text_of(&b->t, v[i].v), &key));

		if (!number || !is_count(&v[i + 1]))
			return false;
	}
	if (dict->tag == V_DICT) {
		*rc = new_range(b, R_MAP, b->ints.n, dict);
		if (*rc)
			return true;
	}
	for (size_t i = 0; i < n && !*rc; i += 2) {
		struct snap_value k = v[i];

		if (k.tag == V_TEXT && number_of_text(snap_text_of(&b->t, k.v), &key))
			k.v = (uint64_t)key;
		*rc = add_entry(b, range_of(b, dict->v), &k);
		if (!*rc)
			*rc = add_entry(b, range_of(b, dict->v), &v[i + 1]);
	}
	return true;
}

static int keep_open(struct snap_build *b, struct snap_value *dict)
{
	const struct snap_fields *f = &b->fields;
	uint32_t next = 0;

	if (!f->has)
		return 0;
	for (uint32_t key = 0; key < K_N; key++) {
		if (!(f->has >> key & 1))
			continue;
		if (b->open.n >= UINT32_MAX - 1 || !snap_array_room(&b->open, 1, sizeof(struct open_pair), &b->t.budget))
			return snap_no_room(b);
		((struct open_pair *)b->open.v)[b->open.n++] = (struct open_pair){ *f->of[key], key, next };
		next = (uint32_t)b->open.n;
	}
	dict->tag = V_OPEN;
	dict->v = next - 1;
	return 0;
}

/* What a dict told before, under what it tells now. */
static void recall_open(struct snap_build *b, const struct snap_value *dict)
{
	struct snap_fields *f = &b->fields;

	for (uint32_t next = (uint32_t)dict->v + 1; next;) {
		const struct open_pair *pair = (struct open_pair *)b->open.v + next - 1;

		if (!(f->has >> pair->key & 1)) {
			f->has |= 1ull << pair->key;
			f->recalled[pair->key] = pair->value;
			f->of[pair->key] = &f->recalled[pair->key];
		}
		next = pair->next;
	}
}

static int set_sorted(struct snap_build *b, struct snap_value *dict)
{
	const struct snap_value was = *dict;
	int rc;

	if (dict->tag == V_OPEN) {
		recall_open(b, dict);
		dict->tag = V_DICT;
	}
	rc = snap_record(b, dict);
	if (!rc && dict->tag == V_DICT)
		rc = keep_open(b, dict);
	if (!rc && (was.tag != dict->tag || was.v != dict->v))
		tell_memo(b, dict);
	return rc;
}

int snap_set_sorted(struct snap_build *b, uint64_t has)
{
	b->fields.has = has;
	return set_sorted(b, snap_top(b));
}

int snap_set(struct snap_build *b, size_t first)
{
	struct snap_value *v = (struct snap_value *)b->stack.v + first, *dict = v - 1;
	size_t n = b->stack.n - first;
	struct snap_fields *f = &b->fields;
	uint64_t has = 0;
	int rc;

	if (n % 2)
		return snap_fail(b->in, b->err, snap_input_offset(b->in), "a key without a value");
	if (!n)
		return 0;
	b->stack.n = first;
	if ((dict->tag < V_DICT || dict->tag > V_TOP || dict->tag == V_LIST) && dict->tag != V_SKIPPED && !is_range(b, dict, true))
		return snap_fail(b->in, b->err, snap_input_offset(b->in), "items for a dict, but there is %s", snap_value_name(b, dict));
	rc = changeable(b, dict, "a dict");
	if (rc || dict->tag == V_SKIPPED)
		return rc;
	for (size_t i = 0; i < n; i += 2) {
		if (v[i].tag == V_TEXT && v[i].v < K_N) {
			f->of[v[i].v] = &v[i + 1];
			has |= 1ull << v[i].v;
		}
	}
	f->has = has;
	if (dict->tag == V_RANGE || !f->has) {
		bool numbers = dict->tag == V_DICT || dict->tag == V_RANGE;

		if (numbers && !f->has && set_numbers(b, dict, v, n, &rc))
			tell_memo(b, dict);
		return rc;
	}
	return set_sorted(b, dict);
}
