/*
 * The record of every event of a run's memory, one JSON object a line
 * (docs/trace.md). Private to struct mem.
 */
#ifndef TM_TRACE_H
#define TM_TRACE_H

#include "memory/account.h"

struct trace;

/* TM_EIO where the file cannot be made. An existing one is overwritten. */
int trace_open(const char *path, const struct mem_config *cfg, struct trace **out, struct tm_err *err);
/* Writes the closing line; the first failure of all is reported here. Frees. NULL is fine. */
int trace_close(struct trace *trace, struct tm_err *err);

/* kind "alloc" or "free"; the place is that of the event, not of the block's birth. */
void trace_block(struct trace *trace, const char *kind, const struct mem_block *block,
		 const struct account_place *place);
/* kind "segment_alloc", "segment_free", "segment_map" or "segment_unmap" */
void trace_segment(struct trace *trace, const char *kind, uint64_t addr, uint64_t bytes,
		   const struct account_place *place);
void trace_oom(struct trace *trace, const struct mem_oom *oom, enum mem_category category);
/* kind "phase", "mark_begin" or "mark_end" (then name is "") */
void trace_name(struct trace *trace, const char *kind, const char *name, int64_t step);

#endif
