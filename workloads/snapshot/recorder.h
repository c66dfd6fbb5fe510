/*
 * Builds what the readers of files build, from events told one by one: our
 * traces, and programs that record a policy. Segments and blocks at the end
 * are what the events leave, or what the policy's own walk says.
 */
#ifndef TM_SNAP_RECORDER_H
#define TM_SNAP_RECORDER_H

#include "memory/memory.h"
#include "snapshot/addresses.h"
#include "snapshot/build.h"

struct recorder_place {
	int64_t time_us;
	uint64_t stream;                  /* a raw handle */
	uint32_t stack;                   /* of the tables of the recorder's build; RECORDING_NONE */
};

/* A range of memory at the end; sorted by address. */
struct recorder_range {
	uint64_t addr, size, stream;
	uint32_t stack;
	bool expandable;
};

struct recorder_block { uint64_t size, requested; uint32_t stack; };

struct recorder {
	struct snap_build *b;
	struct snap_array ranges;         /* struct recorder_range */
	struct snap_array blocks;         /* struct recorder_block; those of freed blocks are used again */
	struct snap_array spare;          /* uint32_t: numbers of blocks */
	struct snap_addresses live;       /* address to number of a block */
	struct snap_array parts;          /* struct mem_part, by recorder_walk */
	bool walked;
};

void recorder_begin(struct recorder *rec, struct snap_build *b);

/* Each: TM_EINPUT where the event does not fit the ones before it (a free of nothing, a range given twice). */
int recorder_segment(struct recorder *rec, enum recording_action action, uint64_t addr, uint64_t bytes,
		     const struct recorder_place *place);
int recorder_alloc(struct recorder *rec, uint64_t addr, uint64_t requested, uint64_t block, const struct recorder_place *place);
/* Requested and completed at once. */
int recorder_free(struct recorder *rec, uint64_t addr, const struct recorder_place *place);
int recorder_oom(struct recorder *rec, uint64_t requested, uint64_t device_free, const struct recorder_place *place);
int recorder_note(struct recorder *rec, const char *name, const char *stage, int64_t time_us);    /* texts of the tables */
/* The end as a policy's walk tells it, instead of what the events leave. */
void recorder_walk(struct recorder *rec, const struct mem_policy *policy, void *state);

/* Into rec->b, and *result for snap_finish. */
int recorder_end(struct recorder *rec, struct snap_value *result);
void recorder_free_all(struct recorder *rec);

/* ---- without a file ------------------------------------------------------ */

/* A recorder with a build of its own, for programs that record what they do. */
struct recorder *recorder_new(const char *name, struct tm_err *err);
/* frames: innermost first; RECORDING_NONE where there is no room for more. */
uint32_t recorder_stack(struct recorder *rec, const struct recording_frame *frames, size_t n);
/* Frees rec, also on failure. conf: the option string, copied. */
int recorder_done(struct recorder *rec, const char *conf, struct recording **out, struct tm_err *err);

#endif
