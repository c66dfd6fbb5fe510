/*
 * What an operator held at the run's peak is not copied at each peak, which
 * would cost a pass over all operators for every allocation of a growing run.
 * An operator's bytes change only in its own rows: so before a change, what it
 * holds is what it held at every peak since its last change, and is written
 * down then, once, if there was such a peak.
 */
#include "memory/operators.h"

#include "base/mem.h"

#include <stdlib.h>

void operators_free(struct operators *ops)
{
	names_free(&ops->names);
	free(ops->row);
}

uint32_t operators_index(struct operators *ops, const char *op)
{
	uint32_t i = names_index(&ops->names, op);

	if (i < ops->n)
		return i;
	if (ops->n == ops->cap) {
		ops->cap = ops->cap ? ops->cap * 2 : 32;
		ops->row = tm_xrealloc_n(ops->row, ops->cap, sizeof *ops->row);
	}
	ops->row[ops->n++] = (struct operator_row){ .usage.op = ops->names.text[i] };
	return i;
}

static struct operator_row *settle(struct operators *ops, size_t i, uint64_t peak_n)
{
	struct operator_row *row = &ops->row[i];

	if (row->settled < peak_n) {
		row->usage.at_peak = row->usage.live;
		row->settled = peak_n;
	}
	return row;
}

void operators_add(struct operators *ops, uint32_t i, uint64_t bytes, uint64_t peak_n)
{
	struct mem_op_usage *usage = &settle(ops, i, peak_n)->usage;

	usage->calls++;
	usage->live += bytes;
	if (usage->live > usage->live_max)
		usage->live_max = usage->live;
}

void operators_sub(struct operators *ops, uint32_t i, uint64_t bytes, uint64_t peak_n)
{
	settle(ops, i, peak_n)->usage.live -= bytes;
}

const struct mem_op_usage *operators_at(struct operators *ops, size_t i, uint64_t peak_n)
{
	BUG_ON(i >= ops->n);
	return &settle(ops, i, peak_n)->usage;
}
