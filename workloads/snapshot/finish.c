/*
 * From all that a file holds to the recording of one device: which one,
 * whether its parts fit together, in order of time and address.
 */
#include "snapshot/build.h"

#include "base/mem.h"
#include "base/str.h"
#include "snapshot/addresses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_MAX 1024

struct device {
	size_t segments, events, markers;         /* events: without markers */
	struct snap_range trace;
};

struct finish {
	struct snap_build *b;
	struct recording *r;
	struct snap_range segments;
	struct device device[DEVICE_MAX];
	size_t device_n;                  /* one past the highest seen */
	bool *used;                       /* streams, by number: of this device */
	uint32_t default_stream;
	size_t empty_n;                   /* events of 0 bytes that were left out */
};

#define FAIL(f, ...) tm_fail_at((f)->b->err, TM_EINPUT, (f)->b->in->path, 0, 0, __VA_ARGS__)

void snap_warn(struct recording *r, const char *fmt, ...)
{
	struct tm_str text = TM_STR_INIT;
	va_list ap;

	va_start(ap, fmt);
	tm_str_vaddf(&text, fmt, ap);
	va_end(ap);
	r->warnings = tm_xrealloc_n(r->warnings, r->warning_n + 1, sizeof r->warnings[0]);
	r->warnings[r->warning_n++] = tm_str_detach(&text);
}

/* ---- which device -------------------------------------------------------- */

static const struct snap_range *list(const struct finish *f, const struct snap_value *v, enum snap_range_kind kind)
{
	static const struct snap_range none;
	const struct snap_range *r;

	if (v->tag == V_UNSET || v->tag == V_NONE || v->tag == V_LIST)
		return &none;
	r = v->tag == V_RANGE ? (struct snap_range *)f->b->ranges.v + v->v : NULL;
	return r && r->kind == kind ? r : NULL;
}

static int split_traces(struct finish *f, const struct snap_range *traces)
{
	for (size_t i = 0; i < traces->n; i++) {
		uint32_t id = ((uint32_t *)f->b->traces.v)[traces->first + i];
		const struct recording_event *e;
		struct device *d = &f->device[i];

		if (i == DEVICE_MAX)
			return FAIL(f, "device_traces has %zu entries, more than there are devices", traces->n);
		if (id == RECORDING_NONE)
			continue;
		d->trace = ((struct snap_range *)f->b->ranges.v)[id];
		if (!d->trace.n)
			continue;
		e = (struct recording_event *)f->b->events.v + d->trace.first;
		for (size_t k = 0; f->b->markers && k < d->trace.n; k++)
			d->markers += e[k].action == REC_SNAPSHOT;
		d->events = d->trace.n - d->markers;
	}
	f->device_n = traces->n;
	return 0;
}

static int take_apart(struct finish *f, const struct snap_value *result)
{
	struct snap_build *b = f->b;
	const struct snap_range *segments = NULL, *traces = NULL;

	if (result->tag == V_TOP) {
		segments = list(f, &b->top_segments, R_SEGMENTS);
		traces = list(f, &b->top_traces, R_TRACES);
		if (!segments)
			return FAIL(f, "`segments` is %s, expected a list of segments", snap_value_name(b, &b->top_segments));
		if (!traces)
			return FAIL(f, "`device_traces` is %s, expected a list with a list of events for each device",
				    snap_value_name(b, &b->top_traces));
	} else if (result->tag == V_RANGE && list(f, result, R_SEGMENTS)) {
		/* torch.cuda.memory_snapshot(), and files from before traces existed */
		static const struct snap_value none;

		segments = list(f, result, R_SEGMENTS);
		traces = list(f, &none, R_TRACES);
	} else {
		return FAIL(f, "no memory snapshot: it holds %s, expected a dict with `segments` and `device_traces`, as torch.cuda.memory._dump_snapshot writes it",
			    snap_value_name(b, result));
	}
	f->segments = *segments;
	for (size_t i = 0; i < segments->n; i++) {
		const struct snap_segment *s = (struct snap_segment *)b->segments.v + segments->first + i;

		if (s->device < 0 || s->device >= DEVICE_MAX)
			return FAIL(f, "segment %zu is on device %lld, expected 0 to %d", i, (long long)s->device, DEVICE_MAX - 1);
		f->device[s->device].segments++;
	}
	if (split_traces(f, traces))
		return TM_EINPUT;
	for (size_t i = f->device_n; i < DEVICE_MAX; i++)
		if (f->device[i].segments)
			f->device_n = i + 1;
	return 0;
}

static bool has_something(const struct device *d)
{
	return d->segments || d->events;
}

static int choose_device(struct finish *f, int device)
{
	struct tm_str all = TM_STR_INIT;
	int found = -1, rc = 0;

	f->r->device_n = 0;
	for (size_t i = 0; i < f->device_n; i++) {
		if (!has_something(&f->device[i]))
			continue;
		tm_str_addf(&all, "%s%zu (%zu segments, %zu events)", all.n ? ", " : "", i, f->device[i].segments, f->device[i].trace.n);
		found = (int)i;
		f->r->device_n++;
	}
	if (!f->r->device_n)
		rc = FAIL(f, "neither segments nor events: nothing was recorded; call torch.cuda.memory._record_memory_history() before the part to look at");
	else if (device < 0 && f->r->device_n > 1)
		rc = FAIL(f, "several devices are recorded, choose one: device %s", all.s);
	else if (device >= 0 && ((size_t)device >= f->device_n || !has_something(&f->device[device])))
		rc = FAIL(f, "device %d has neither segments nor events; there is device %s", device, all.s);
	f->r->device = device < 0 ? found : device;
	tm_str_free(&all);
	return rc;
}

/* ---- events -------------------------------------------------------------- */

static int check_event(struct finish *f, struct recording_event *e, size_t i)
{
	bool marker = e->action == REC_SNAPSHOT, oom = e->action == REC_OOM;
	const char *missing = NULL;

	if (e->size == SNAP_MISSING && !marker)
		missing = "size";
	if (e->addr == SNAP_MISSING && !marker && !oom)
		missing = "addr";
	if (missing)
		return FAIL(f, "event %zu of device %d (%s) has no `%s`", i, f->r->device, recording_action_name[e->action], missing);
	if (e->size == SNAP_MISSING)
		e->size = 0;
	if (e->addr == SNAP_MISSING)
		e->addr = 0;
	return 0;
}

/* Who tells none is on the default stream. */
static inline void use_stream(struct finish *f, uint32_t *id)
{
	if (*id == RECORDING_NONE)
		*id = f->default_stream;
	f->used[*id] = true;
}

/*
 * Only the chosen trace stays; its events are checked and counted. In one
 * pass, which mostly writes nothing: of many events, memory is what takes time.
 */
static int take_events(struct finish *f)
{
	const struct snap_range *trace = &f->device[f->r->device].trace;
	struct recording *r = f->r;
	size_t n = 0;

	if (trace->n) {
		struct recording_event *v = f->b->events.v, *from = v + trace->first;

		for (size_t i = 0; i < trace->n; i++) {
			struct recording_event *e = &from[i];

			if (check_event(f, e, i))
				return TM_EINPUT;
			/* a request of nothing gets no block; PyTorch records none, and replay could do nothing with it */
			if (!e->size && e->action < REC_SNAPSHOT) {
				f->empty_n++;
				continue;
			}
			if (!e->time_us)
				r->counts.no_time++;
			if (n && e->time_us < v[n - 1].time_us)
				r->counts.out_of_order++;
			use_stream(f, &e->stream);
			if (e != &v[n])
				v[n] = *e;
			n++;
		}
	}
	f->b->events.n = n;
	r->events = snap_array_take(&f->b->events, sizeof r->events[0], &r->event_n);
	if (r->counts.no_time)
		r->counts.out_of_order = 0;
	return 0;
}

struct moment { int64_t time_us; size_t index; };

static int by_time(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	if (x->time_us != y->time_us)
		return x->time_us < y->time_us ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

/* A ring that was made smaller while it recorded is written out in the wrong order. */
static void sort_events(struct recording *r)
{
	struct moment *m;

	if (!r->counts.out_of_order)
		return;
	m = tm_xmalloc(r->event_n * sizeof *m);
	for (size_t i = 0; i < r->event_n; i++)
		m[i] = (struct moment){ r->events[i].time_us, i };
	qsort(m, r->event_n, sizeof *m, by_time);
	/* in place, along the cycles of the permutation */
	for (size_t i = 0; i < r->event_n; i++) {
		struct recording_event first = r->events[i];
		size_t at = i;

		while (m[at].index != i) {
			size_t from = m[at].index;

			r->events[at] = r->events[from];
			m[at].index = at;
			at = from;
		}
		r->events[at] = first;
		m[at].index = at;
	}
	free(m);
	snap_warn(r, "%zu events were earlier than the one before them; all were sorted by time", r->counts.out_of_order);
}

enum { LIVE, PENDING };

/* Follows the addresses from event to event. */
static void count_frees(struct recording *r)
{
	struct snap_addresses at = { 0 };
	uint64_t state, addr;
	size_t i;

	for (i = 0; i < r->event_n; i++) {
		const struct recording_event *e = &r->events[i];

		if (e->action == REC_FREE_REQUESTED) {
			/* nearly always completed by the very next event */
			bool done = i + 1 < r->event_n && e[1].action == REC_FREE_COMPLETED && e[1].addr == e->addr;

			if (!snap_addresses_take(&at, e->addr, &state) || state != LIVE)
				r->counts.born_before++;
			if (done)
				i++;
			else
				snap_addresses_put(&at, e->addr, PENDING);
		} else if (e->action == REC_FREE_COMPLETED) {
			bool known = snap_addresses_take(&at, e->addr, &state);

			r->counts.no_free_requested += !known || state != PENDING;
			r->counts.born_before += !known;
		} else if (e->action == REC_ALLOC) {
			if (snap_addresses_get(&at, e->addr, &state) && state == PENDING)
				r->counts.no_free_completed++;
			snap_addresses_put(&at, e->addr, LIVE);
		}
	}
	for (i = 0; i < r->block_n; i++)
		if (r->blocks[i].state == REC_PENDING && snap_addresses_get(&at, r->blocks[i].addr, &state) && state == PENDING)
			snap_addresses_take(&at, r->blocks[i].addr, NULL);
	for (i = 0; snap_addresses_next(&at, &i, &addr, &state);)
		r->counts.no_free_completed += state == PENDING;
	snap_addresses_free(&at);
}

/* ---- segments ------------------------------------------------------------ */

static int by_address(const void *a, const void *b)
{
	const struct snap_segment *x = a, *y = b;

	return x->s.addr < y->s.addr ? -1 : x->s.addr > y->s.addr;
}

/* Old files tell no addresses of blocks: each begins where the one before it ends. */
static int take_blocks(struct finish *f, const struct snap_segment *from, struct recording_segment *s)
{
	const struct snap_range *range = from->blocks == RECORDING_NONE ? NULL : (struct snap_range *)f->b->ranges.v + from->blocks;
	struct recording *r = f->r;
	uint64_t at = s->addr;

	s->first_block = r->block_n;
	s->block_n = range ? range->n : 0;
	for (size_t i = 0; i < s->block_n; i++) {
		struct recording_block *block = &r->blocks[r->block_n++];

		*block = ((struct recording_block *)f->b->blocks.v)[range->first + i];
		if (block->addr == SNAP_MISSING)
			block->addr = at;
		if (block->size == SNAP_MISSING || !block->size)
			return FAIL(f, "block %zu of the segment at %llu has no size", i, (unsigned long long)s->addr);
		if (block->requested == SNAP_MISSING)
			block->requested = block->state == REC_INACTIVE ? 0 : block->size;
		if (block->addr != at)
			return FAIL(f, "block %zu of the segment at %llu begins at %llu, expected %llu: its blocks do not lie one behind the other",
				    i, (unsigned long long)s->addr, (unsigned long long)block->addr, (unsigned long long)at);
		if (block->state != REC_INACTIVE && block->requested > block->size)
			return FAIL(f, "block %zu of the segment at %llu holds %llu bytes, but has only %llu", i,
				    (unsigned long long)s->addr, (unsigned long long)block->requested, (unsigned long long)block->size);
		at += block->size;
	}
	if (s->size == SNAP_MISSING && range)
		s->size = at - s->addr;
	if (s->size == SNAP_MISSING || !s->size)
		return FAIL(f, "the segment at %llu has no total_size", (unsigned long long)s->addr);
	if (range && at - s->addr != s->size)
		return FAIL(f, "the blocks of the segment at %llu make %llu bytes, its total_size is %llu", (unsigned long long)s->addr,
			    (unsigned long long)(at - s->addr), (unsigned long long)s->size);
	return 0;
}

static int take_segments(struct finish *f)
{
	struct snap_segment *all = f->b->segments.v;
	struct recording *r = f->r;
	size_t n = 0, blocks = 0;

	if (!f->segments.n)
		return 0;
	all += f->segments.first;
	for (size_t i = 0; i < f->segments.n; i++) {
		if (all[i].device != r->device)
			continue;
		if (all[i].s.addr == SNAP_MISSING)
			return FAIL(f, "segment %zu has no address", i);
		if (all[i].blocks != RECORDING_NONE)
			blocks += ((struct snap_range *)f->b->ranges.v)[all[i].blocks].n;
		all[n++] = all[i];
	}
	if (!n)
		return 0;
	/* one list of blocks may be shared by segments of a file that was made to be large */
	if (blocks > f->b->blocks.n)
		return FAIL(f, "segments share their blocks");
	qsort(all, n, sizeof *all, by_address);
	r->segments = tm_xcalloc(n, sizeof r->segments[0]);
	r->blocks = blocks ? tm_xcalloc(blocks, sizeof r->blocks[0]) : NULL;
	for (size_t i = 0; i < n; i++) {
		struct recording_segment *s = &r->segments[r->segment_n++];

		*s = all[i].s;
		if (take_blocks(f, &all[i], s))
			return TM_EINPUT;
		if (!all[i].has_type)
			s->small = s->size <= 2u << 20;
		if (i && s->addr < s[-1].addr + s[-1].size)
			return FAIL(f, "the segments at %llu and %llu overlap", (unsigned long long)s[-1].addr, (unsigned long long)s->addr);
	}
	return 0;
}

/* ---- streams ------------------------------------------------------------- */

struct handle { uint64_t handle; uint32_t id; };

static int by_handle(const void *a, const void *b)
{
	const struct handle *x = a, *y = b;

	return x->handle < y->handle ? -1 : x->handle > y->handle;
}

static int find_streams(struct finish *f)
{
	f->default_stream = snap_stream(&f->b->t, 0);
	if (f->default_stream == SNAP_NO_ROOM)
		return snap_no_room(f->b);
	f->used = tm_xcalloc(f->b->t.streams.n, sizeof *f->used);
	return 0;
}

/* Those that this device uses, by handle. */
static void take_streams(struct finish *f)
{
	struct snap_tables *t = &f->b->t;
	struct recording *r = f->r;
	uint32_t *now = tm_xcalloc(t->streams.n, sizeof *now);
	struct handle *sorted = tm_xcalloc(t->streams.n, sizeof *sorted);
	bool moved = false;

	for (size_t i = 0; i < r->segment_n; i++)
		use_stream(f, &r->segments[i].stream);
	for (size_t i = 0; i < t->streams.n; i++)
		if (f->used[i])
			sorted[r->stream_n++] = (struct handle){ ((uint64_t *)t->streams.v)[i], (uint32_t)i };
	qsort(sorted, r->stream_n, sizeof *sorted, by_handle);
	r->streams = tm_xcalloc(r->stream_n, sizeof r->streams[0]);
	for (size_t i = 0; i < r->stream_n; i++) {
		r->streams[i] = sorted[i].handle;
		now[sorted[i].id] = (uint32_t)i;
		moved |= sorted[i].id != i;
	}
	for (size_t i = 0; moved && i < r->event_n; i++)
		r->events[i].stream = now[r->events[i].stream];
	for (size_t i = 0; moved && i < r->segment_n; i++)
		r->segments[i].stream = now[r->segments[i].stream];
	free(now);
	free(sorted);
}

/* ---- the rest ------------------------------------------------------------ */

static void take_notes(struct finish *f)
{
	const struct snap_range *range = list(f, &f->b->top_notes, R_NOTES);
	const struct snap_note *all = f->b->notes.v;
	struct recording *r = f->r;

	if (!range || !range->n)
		return;
	r->notes = tm_xcalloc(range->n, sizeof r->notes[0]);
	for (size_t i = range->first; i < range->first + range->n; i++)
		if (all[i].device < 0 || all[i].device == r->device)
			r->notes[r->note_n++] = all[i].note;
}

static int64_t of_device(const struct snap_array *a, int device, int64_t none)
{
	if (!a->n)
		return none;
	if (a->n == 1)
		return ((const int64_t *)a->v)[0];
	return (size_t)device < a->n ? ((const int64_t *)a->v)[device] : none;
}

static void take_settings(struct finish *f)
{
	struct snap_build *b = f->b;
	struct recording_settings *s = &f->r->settings;
	size_t events = f->device[f->r->device].trace.n + b->unknown_events;

	*s = b->settings;
	s->known = b->top_settings.tag == V_SETTINGS;
	if (!s->known)
		*s = (struct recording_settings){ .max_split_size = -1 };
	s->conf = tm_xstrdup(s->known && s->conf ? s->conf : "");
	s->max_entries = s->known ? of_device(&b->max_entries, f->r->device, -1) : -1;
	s->overflowed = s->known && of_device(&b->overflowed, f->r->device, 0) != 0;
	f->r->truncated = s->overflowed || (s->max_entries > 0 && events == (size_t)s->max_entries);
}

static void warn(struct finish *f)
{
	struct recording *r = f->r;

	if (f->b->unknown_events) {
		r->counts.unknown = f->b->unknown_events;
		snap_warn(r, "%zu events of a kind not known here (`%.60s`) were left out", f->b->unknown_events, f->b->unknown_action);
	}
	if (f->empty_n)
		snap_warn(r, "%zu events of 0 bytes were left out", f->empty_n);
	if (r->truncated)
		snap_warn(r, "the ring of events was full: what happened before the first of the %zu events is not in the file", r->event_n);
	if (!r->has_history)
		snap_warn(r, "no history of events: the file tells the state of one moment only");
	else if (!r->segment_n)
		snap_warn(r, "no segments: the state at the end is not in the file");
}

/* The texts stay where frames and notes point to. */
static void take_tables(struct finish *f)
{
	struct snap_tables *t = &f->b->t;
	struct recording *r = f->r;

	r->pools = snap_array_take(&t->pools, sizeof r->pools[0], &r->pool_n);
	r->frames = snap_array_take(&t->frames, sizeof r->frames[0], &r->frame_n);
	r->stacks = snap_array_take(&t->stacks, sizeof r->stacks[0], &r->stack_n);
	r->stack_frames = snap_array_take(&t->stack_frames, sizeof r->stack_frames[0], &r->stack_frame_n);
	r->arena = t->arena;
	t->arena = NULL;
}

int snap_finish(struct snap_build *b, const struct snap_value *result, int device, struct recording *r)
{
	struct finish *f = tm_xcalloc(1, sizeof *f);
	int rc;

	f->b = b;
	f->r = r;
	/* the largest first, before anything is made anew */
	snap_array_free(&b->stack, sizeof(struct snap_value), &b->t.budget);
	snap_array_free(&b->memo, sizeof(uint64_t), &b->t.budget);
	rc = take_apart(f, result);
	if (!rc)
		rc = choose_device(f, device);
	if (!rc)
		rc = find_streams(f);
	if (!rc)
		rc = take_events(f);
	if (!rc)
		rc = take_segments(f);
	if (!rc) {
		take_streams(f);
		r->has_history = r->event_n > 1 && f->device[r->device].events > 1;
		take_settings(f);
		take_notes(f);
		sort_events(r);
		count_frees(r);
		warn(f);
		take_tables(f);
	}
	free(f->used);
	free(f);
	return rc;
}
