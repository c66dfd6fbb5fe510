/* struct mem, for memory.c and snapshot.c only. */
#ifndef TM_MEM_PRIV_H
#define TM_MEM_PRIV_H

#include "memory/account.h"
#include "memory/operators.h"
#include "memory/peak_live.h"
#include "memory/timeline.h"
#include "memory/trace.h"

struct mem {
	struct mem_driver watch;          /* what the policy sees; hands on to `driver` */
	struct mem_driver *driver;
	bool refused;                     /* the driver's answer to its last alloc */
	const struct mem_policy *policy;
	void *state;
	uint64_t cap_bytes;

	struct mem_block *live;           /* newest first */
	struct mem_block *spare;          /* unused, linked by next */
	uint64_t last_id, alloc_calls;
	struct account_place place;
	const char *indexed_op;           /* place.op, if op_index is its number */
	uint32_t op_index;

	struct account account;
	struct peak_live peak_live;
	uint64_t digest;
	struct operators ops;
	struct timeline *timeline;        /* NULL: none yet */
	bool timeline_on;
	struct trace *trace;              /* NULL: none */
	struct names names;               /* mem_intern */
	char **remarks;
	size_t remark_n;
	struct mem_oom oom;
	bool had_oom;
};

#endif
