#include "snapshot/write.h"

#include "base/file.h"
#include "base/mem.h"
#include "snapshot/addresses.h"

#include <stdlib.h>
#include <string.h>

#define BATCH 1000                        /* a longer group is spread as arguments of a call in the browser */
#define ADDRESS_MAX (1ull << 53)

struct pickler {
	struct tm_str *out;
	const struct recording *r;
	uint32_t memo_n;
	struct snap_addresses texts;      /* address of a text to its number in the memo */
	uint32_t *frames, *stacks;        /* numbers in the memo + 1; 0: not written yet */
};

static void op(struct pickler *p, char opcode)
{
	tm_str_addc(p->out, opcode);
}

static void little(struct pickler *p, uint64_t v, size_t n)
{
	char s[8];

	for (size_t i = 0; i < n; i++)
		s[i] = (char)(v >> 8 * i);
	tm_str_addn(p->out, s, n);
}

static uint32_t memoize(struct pickler *p)
{
	op(p, '\x94');
	return p->memo_n++;
}

static void get(struct pickler *p, uint32_t index)
{
	op(p, index < 256 ? 'h' : 'j');
	little(p, index, index < 256 ? 1 : 4);
}

static void number(struct pickler *p, int64_t v)
{
	size_t n = 1;

	if (v >= 0 && v < 65536) {
		op(p, v < 256 ? 'K' : 'M');
		little(p, (uint64_t)v, v < 256 ? 1 : 2);
	} else if (v == (int32_t)v) {
		op(p, 'J');
		little(p, (uint64_t)v, 4);
	} else {
		while (n < 8 && v >> (8 * n - 1) != 0 && v >> (8 * n - 1) != -1)
			n++;
		op(p, '\x8a');
		op(p, (char)n);
		little(p, (uint64_t)v, n);
	}
}

/* Equal texts have mostly equal addresses; where not, a text is written twice, which is no harm. */
static void text(struct pickler *p, const char *s)
{
	uint64_t index;
	size_t n = strlen(s);

	if (snap_addresses_get(&p->texts, (uintptr_t)s, &index)) {
		get(p, (uint32_t)index);
		return;
	}
	op(p, n < 256 ? '\x8c' : 'X');
	little(p, n, n < 256 ? 1 : 4);
	tm_str_addn(p->out, s, n);
	snap_addresses_put(&p->texts, (uintptr_t)s, memoize(p));
}

static void truth(struct pickler *p, bool v)
{
	op(p, v ? '\x88' : '\x89');
}

static void real(struct pickler *p, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof bits);
	op(p, 'G');
	for (int i = 7; i >= 0; i--)
		op(p, (char)(bits >> 8 * i));
}

static void item_number(struct pickler *p, const char *key, int64_t v)
{
	text(p, key);
	number(p, v);
}

static void item_text(struct pickler *p, const char *key, const char *v)
{
	text(p, key);
	text(p, v);
}

/* A list of n entries, in groups. */
static void list(struct pickler *p, size_t n, void (*entry)(struct pickler *p, size_t i, const void *arg), const void *arg)
{
	op(p, ']');
	for (size_t i = 0; i < n; i++) {
		if (i % BATCH == 0)
			op(p, '(');
		entry(p, i, arg);
		if ((i + 1) % BATCH == 0 || i + 1 == n)
			op(p, 'e');
	}
}

/* ---- frames -------------------------------------------------------------- */

static void frame(struct pickler *p, size_t i, const void *arg)
{
	const struct recording_stack *stack = arg;
	uint32_t id = p->r->stack_frames[stack->first + i];
	const struct recording_frame *f = &p->r->frames[id];

	if (p->frames[id]) {
		get(p, p->frames[id] - 1);
		return;
	}
	op(p, '}');
	p->frames[id] = memoize(p) + 1;
	op(p, '(');
	item_text(p, "name", f->name);
	item_text(p, "filename", f->file);
	item_number(p, "line", f->line);
	op(p, 'u');
}

static void frames(struct pickler *p, uint32_t id)
{
	text(p, "frames");
	if (id == RECORDING_NONE) {
		op(p, ']');
	} else if (p->stacks[id]) {
		get(p, p->stacks[id] - 1);
	} else {
		list(p, p->r->stacks[id].n, frame, &p->r->stacks[id]);
		p->stacks[id] = memoize(p) + 1;
	}
}

static void pool(struct pickler *p, const char *key, uint32_t id)
{
	text(p, key);
	number(p, p->r->pools[id].id[0]);
	number(p, p->r->pools[id].id[1]);
	op(p, '\x86');
}

/* ---- events, blocks, segments -------------------------------------------- */

static void event(struct pickler *p, size_t i, const void *arg)
{
	const struct recording_event *e = &p->r->events[i];
	bool timed = *(const bool *)arg;

	op(p, '}');
	op(p, '(');
	item_text(p, "action", recording_action_name[e->action]);
	item_number(p, e->action == REC_OOM ? "device_free" : "addr", (int64_t)e->addr);
	item_number(p, "size", (int64_t)e->size);
	item_number(p, "stream", (int64_t)p->r->streams[e->stream]);
	if (timed)
		item_number(p, "time_us", e->time_us);
	if (e->pool_known)
		pool(p, "pool_id", e->pool);
	if (e->frames != RECORDING_NONE)
		frames(p, e->frames);
	op(p, 'u');
}

static void trace(struct pickler *p, size_t device, const void *arg)
{
	bool timed = p->r->counts.no_time < p->r->event_n;

	(void)arg;
	list(p, device == (size_t)p->r->device ? p->r->event_n : 0, event, &timed);
}

static void block(struct pickler *p, size_t i, const void *arg)
{
	static const char *const state[] = {
		[REC_ACTIVE] = "active_allocated", [REC_PENDING] = "active_pending_free", [REC_INACTIVE] = "inactive",
	};
	const struct recording_segment *s = arg;
	const struct recording_block *b = &p->r->blocks[s->first_block + i];

	op(p, '}');
	op(p, '(');
	item_number(p, "address", (int64_t)b->addr);
	item_number(p, "size", (int64_t)b->size);
	item_number(p, "requested_size", (int64_t)b->requested);
	item_text(p, "state", state[b->state]);
	frames(p, b->frames);
	op(p, 'u');
}

/* The viewer knows segments by their blocks, so one without any gets a free one. */
static void blocks(struct pickler *p, const struct recording_segment *s)
{
	text(p, "blocks");
	if (s->block_n) {
		list(p, s->block_n, block, s);
		return;
	}
	op(p, ']');
	op(p, '}');
	op(p, '(');
	item_number(p, "address", (int64_t)s->addr);
	item_number(p, "size", (int64_t)s->size);
	item_number(p, "requested_size", 0);
	item_text(p, "state", "inactive");
	frames(p, RECORDING_NONE);
	op(p, 'u');
	op(p, 'a');
}

static void segment(struct pickler *p, size_t i, const void *arg)
{
	const struct recording_segment *s = &p->r->segments[i];
	uint64_t allocated = 0, active = 0, requested = 0;

	(void)arg;
	for (size_t k = 0; k < s->block_n; k++) {
		const struct recording_block *b = &p->r->blocks[s->first_block + k];

		allocated += b->state == REC_ACTIVE ? b->size : 0;
		active += b->state != REC_INACTIVE ? b->size : 0;
		requested += b->state != REC_INACTIVE ? b->requested : 0;
	}
	op(p, '}');
	op(p, '(');
	item_number(p, "device", p->r->device);
	item_number(p, "address", (int64_t)s->addr);
	item_number(p, "total_size", (int64_t)s->size);
	item_number(p, "allocated_size", (int64_t)allocated);
	item_number(p, "active_size", (int64_t)active);
	item_number(p, "requested_size", (int64_t)requested);
	item_number(p, "stream", (int64_t)p->r->streams[s->stream]);
	item_text(p, "segment_type", s->small ? "small" : "large");
	pool(p, "segment_pool_id", s->pool);
	text(p, "is_expandable");
	truth(p, s->expandable);
	frames(p, s->frames);
	blocks(p, s);
	op(p, 'u');
}

/* ---- the rest ------------------------------------------------------------ */

static void settings(struct pickler *p)
{
	static const char *const size_mib[16] = {
		"1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096", "8192", "16384", "32768",
	};
	const struct recording_settings *s = &p->r->settings;

	op(p, '}');
	op(p, '(');
	item_text(p, "PYTORCH_CUDA_ALLOC_CONF", s->conf);
	item_number(p, "max_split_size", s->max_split_size);
	text(p, "garbage_collection_threshold");
	real(p, s->gc_threshold);
	text(p, "expandable_segments");
	truth(p, s->expandable);
	text(p, "roundup_power2_divisions");
	op(p, '}');
	op(p, '(');
	for (int i = 0; i < 16; i++)
		item_number(p, size_mib[i], (int64_t)s->roundup[i]);
	op(p, 'u');
	op(p, 'u');
}

static void note(struct pickler *p, size_t i, const void *arg)
{
	const struct recording_note *n = &p->r->notes[i];

	(void)arg;
	op(p, '}');
	op(p, '(');
	item_text(p, "stage", n->stage);
	item_text(p, "name", n->name);
	item_number(p, "device", p->r->device);
	item_number(p, "time_us", n->time_us);
	op(p, 'u');
}

static int check(const struct recording *r, struct tm_err *err)
{
	for (size_t i = 0; i < r->event_n; i++)
		if (r->events[i].addr >= ADDRESS_MAX && r->events[i].action != REC_OOM)
			return tm_fail_at(err, TM_EINPUT, r->path, 0, 0, "event %zu: the address %llu is above 2^53, which the viewer cannot show",
					  i, (unsigned long long)r->events[i].addr);
	for (size_t i = 0; i < r->segment_n; i++)
		if (r->segments[i].addr + r->segments[i].size > ADDRESS_MAX)
			return tm_fail_at(err, TM_EINPUT, r->path, 0, 0, "the segment at %llu lies above 2^53, where the viewer cannot show it",
					  (unsigned long long)r->segments[i].addr);
	return 0;
}

int recording_pickle(const struct recording *r, struct tm_str *out, struct tm_err *err)
{
	struct pickler p = { .out = out, .r = r };
	int rc = check(r, err);

	if (rc)
		return rc;
	p.frames = tm_xcalloc(r->frame_n, sizeof p.frames[0]);
	p.stacks = tm_xcalloc(r->stack_n, sizeof p.stacks[0]);
	tm_str_addn(out, "\x80\x04}(", 4);
	text(&p, "segments");
	list(&p, r->segment_n, segment, NULL);
	text(&p, "device_traces");
	list(&p, (size_t)r->device + 1, trace, NULL);
	text(&p, "allocator_settings");
	settings(&p);
	text(&p, "external_annotations");
	list(&p, r->note_n, note, NULL);
	tm_str_add(out, "u.");
	free(p.frames);
	free(p.stacks);
	snap_addresses_free(&p.texts);
	return 0;
}

int recording_write(const struct recording *r, const char *path, struct tm_err *err)
{
	struct tm_str out = TM_STR_INIT;
	int rc = recording_pickle(r, &out, err);

	if (!rc)
		rc = tm_write_file(path, out.s, out.n, err);
	tm_str_free(&out);
	return rc;
}
