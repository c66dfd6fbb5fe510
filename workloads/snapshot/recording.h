/*
 * What one device's allocator did, as a program recorded it: PyTorch's
 * snapshot files (pickle or JSON, also compressed) and our own traces, read
 * into one compact form. Events are as recorded; nothing is mended or guessed
 * here, only counted: what a recording means is replay's business.
 */
#ifndef TM_RECORDING_H
#define TM_RECORDING_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum recording_action {
	REC_ALLOC, REC_FREE_REQUESTED, REC_FREE_COMPLETED,
	REC_SEGMENT_ALLOC, REC_SEGMENT_FREE, REC_SEGMENT_MAP, REC_SEGMENT_UNMAP,
	REC_SNAPSHOT,                     /* a marker; addr 0 */
	REC_OOM,                          /* addr: free bytes of the device */
	REC_ACTION_N
};
extern const char *const recording_action_name[REC_ACTION_N];     /* as in the files */

#define RECORDING_NONE UINT32_MAX

/* 40 bytes; a file of a million events takes 40 MB. */
struct recording_event {
	uint64_t addr, size;              /* size: raw request of alloc and free, bytes of a segment, … */
	int64_t time_us;                  /* since the epoch; 0 where the file has none */
	uint32_t stream, pool;            /* indices into streams and pools */
	uint32_t frames;                  /* index into stacks; RECORDING_NONE */
	uint8_t action;                   /* enum recording_action */
	bool pool_known;                  /* the event names its pool itself; else pool is 0 */
};

enum recording_state { REC_ACTIVE, REC_PENDING, REC_INACTIVE };

struct recording_block {
	uint64_t addr, size, requested;   /* requested is stale on inactive blocks */
	uint32_t frames;
	uint8_t state;
};

/* Its blocks tile it; a file may tell none (block_n 0). */
struct recording_segment {
	uint64_t addr, size;
	uint32_t stream, pool, frames;
	bool small, expandable;
	size_t first_block, block_n;      /* in blocks */
};

struct recording_pool { int64_t id[2]; };           /* pools[0] is {0, 0}, the default */
struct recording_frame { const char *file, *name; int64_t line; };
struct recording_stack { size_t first, n; };        /* in stack_frames, innermost first */
struct recording_note { const char *name, *stage; int64_t time_us; };     /* external_annotations */

/* As stored; `has` says what the file told. */
struct recording_settings {
	char *conf;                       /* PYTORCH_CUDA_ALLOC_CONF; "" */
	bool known;                       /* the file has allocator_settings */
	bool expandable;
	int64_t max_split_size;           /* bytes; -1: unlimited */
	double gc_threshold;
	uint64_t roundup[16];
	bool overflowed;                  /* trace_alloc_overflowed */
	int64_t max_entries;              /* -1: not told */
};

struct recording {
	char *path;
	const char *format;               /* "pickle 4", "json", "tidemark trace" */
	char sha[65];                     /* of the file as it lies on disk */
	int device, device_n;             /* this one; devices in the file with events or segments */
	struct recording_event *events; size_t event_n;
	struct recording_segment *segments; size_t segment_n;     /* by address */
	struct recording_block *blocks; size_t block_n;
	uint64_t *streams; size_t stream_n;       /* raw handles, ascending */
	struct recording_pool *pools; size_t pool_n;
	struct recording_frame *frames; size_t frame_n;           /* each once */
	struct recording_stack *stacks; size_t stack_n;           /* each once */
	uint32_t *stack_frames; size_t stack_frame_n;             /* indices into frames */
	struct recording_note *notes; size_t note_n;
	struct recording_settings settings;
	bool has_history;                 /* false: at most one event that is no marker: only the state at one moment */
	bool truncated;                   /* the ring overflowed: the file says so, or holds max_entries events */
	/*
	 * Events without a time; earlier than the one before them (they were sorted
	 * by time then, equal times as they stood); completed frees that nobody
	 * requested, requested frees that were neither completed nor are pending
	 * blocks; frees of blocks that were there before the first event; events of
	 * a kind not known here, which are left out.
	 */
	struct { size_t no_time, out_of_order, no_free_requested, no_free_completed, born_before, unknown; } counts;
	char *recorded_by;                /* "PyTorch 2.11" where it can be told, else "PyTorch (version not recorded)" */
	char **warnings; size_t warning_n;
	void *arena;                      /* private: texts */
};

struct recording_limits {
	uint64_t max_bytes;               /* of memory for all of it; 0: 2 times the bytes read (unpacked), at least 64 MiB */
};

/*
 * device -1: the only one with anything in it, else TM_EUSAGE-like TM_EINPUT
 * that lists them. Formats are told apart by their first bytes; xz, gz, zst
 * by theirs. TM_EINPUT: not such a file (err->text says what it is where that
 * can be told), too deep, too large, cut short, an opcode that would run
 * code (named), neither segments nor events. Nothing is ever executed.
 * A file without history is no error: has_history is false then.
 */
int recording_read(const char *path, int device, const struct recording_limits *limits,
		   struct recording **out, struct tm_err *err);
void recording_free(struct recording *r);         /* NULL is fine */

/* The frame i of a stack, 0 the innermost; i < r->stacks[stack].n. */
static inline const struct recording_frame *recording_frame_at(const struct recording *r, uint32_t stack, size_t i)
{
	return &r->frames[r->stack_frames[r->stacks[stack].first + i]];
}

#endif
