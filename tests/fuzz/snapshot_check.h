/* Any bytes as a snapshot: refused with a reason, or a recording that keeps what recording.h says. */
#ifndef TM_FUZZ_SNAPSHOT_CHECK_H
#define TM_FUZZ_SNAPSHOT_CHECK_H

#include "snapshot/build.h"
#include "snapshot/state.h"
#include "snapshot/write.h"

#include <string.h>

static void check_stack(const struct recording *r, uint32_t id)
{
	if (id == RECORDING_NONE)
		return;
	BUG_ON(id >= r->stack_n || !r->stacks[id].n || r->stacks[id].first + r->stacks[id].n > r->stack_frame_n);
	for (size_t i = 0; i < r->stacks[id].n; i++) {
		BUG_ON(r->stack_frames[r->stacks[id].first + i] >= r->frame_n);
		BUG_ON(!tm_utf8_valid(recording_frame_at(r, id, i)->name, strlen(recording_frame_at(r, id, i)->name)));
	}
}

static void check_recording(const struct recording *r)
{
	BUG_ON(r->pool_n < 1 || r->pools[0].id[0] || r->pools[0].id[1] || strlen(r->sha) != 64 || !r->settings.conf);
	for (size_t i = 1; i < r->stream_n; i++)
		BUG_ON(r->streams[i - 1] >= r->streams[i]);
	for (size_t i = 0; i < r->event_n; i++) {
		const struct recording_event *e = &r->events[i];

		BUG_ON(e->stream >= r->stream_n || e->pool >= r->pool_n || e->action >= REC_ACTION_N);
		BUG_ON(!e->size && e->action < REC_SNAPSHOT);
		BUG_ON(i && !r->counts.no_time && e->time_us < e[-1].time_us);
		check_stack(r, e->frames);
	}
	for (size_t i = 0; i < r->segment_n; i++) {
		const struct recording_segment *s = &r->segments[i];
		uint64_t at = s->addr;

		BUG_ON(s->stream >= r->stream_n || s->pool >= r->pool_n || !s->size || s->first_block + s->block_n > r->block_n);
		BUG_ON(i && s->addr < s[-1].addr + s[-1].size);
		for (size_t k = s->first_block; k < s->first_block + s->block_n; k++) {
			const struct recording_block *b = &r->blocks[k];

			BUG_ON(b->addr != at || !b->size || (b->state != REC_INACTIVE && b->requested > b->size));
			at += b->size;
			check_stack(r, b->frames);
		}
		BUG_ON(s->block_n && at != s->addr + s->size);
		check_stack(r, s->frames);
	}
}

/* What was read can be written, and read again with the same content. */
static void check_writing(const struct recording *r)
{
	struct tm_str s = TM_STR_INIT;
	struct recording *again = NULL;
	struct snap_input in;
	struct tm_err err = { 0 };

	if (!recording_pickle(r, &s, &err) && s.n <= 60000) {
		BUG_ON(snap_input_memory(&in, s.s, s.n, &err) != 0);
		BUG_ON(snap_read(&in, r->device, 0, &again, &err) != 0);
		BUG_ON(again->event_n != r->event_n || again->segment_n != r->segment_n || again->note_n != r->note_n);
		BUG_ON(again->stream_n != r->stream_n || again->block_n < r->block_n);
		snap_input_close(&in);
		recording_free(again);
	}
	tm_str_free(&s);
}

static void check_snapshot(const uint8_t *data, size_t n)
{
	struct recording *r = NULL;
	struct snap_input in;
	struct tm_err err = { 0 };
	int rc = n <= 65536 ? snap_input_memory(&in, data, n, &err) : TM_EINPUT;

	if (rc)
		return;
	rc = snap_read(&in, -1, 0, &r, &err);
	BUG_ON(rc && (rc != TM_EINPUT || !err.text[0] || r));
	snap_input_close(&in);
	if (rc)
		return;
	check_recording(r);
	state_report_free(state_report_new(r));
	check_writing(r);
	recording_free(r);
}

#endif
