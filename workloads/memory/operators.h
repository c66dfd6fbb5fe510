/* Who holds how much: allocations and live bytes by operator. Private to struct mem. */
#ifndef TM_OPERATORS_H
#define TM_OPERATORS_H

#include "memory/memory.h"
#include "memory/names.h"

/* Zero-initialise. */
struct operators {
	struct names names;
	struct operator_row {
		struct mem_op_usage usage;
		uint64_t settled;         /* usage.at_peak is right for this peak of the run and later ones until it changes */
	} *row;
	size_t n, cap;
};

void operators_free(struct operators *ops);
uint32_t operators_index(struct operators *ops, const char *op);
/* peak_n: how many peaks the run has had before this change (account.run_peaks). */
void operators_add(struct operators *ops, uint32_t i, uint64_t bytes, uint64_t peak_n);
void operators_sub(struct operators *ops, uint32_t i, uint64_t bytes, uint64_t peak_n);
const struct mem_op_usage *operators_at(struct operators *ops, size_t i, uint64_t peak_n);

#endif
