/*
 * What is in use now, and the highest it ever was: of the run, of each phase,
 * of each mark, with what every category held at that moment. Private to
 * struct mem (mem_priv.h).
 */
#ifndef TM_ACCOUNT_H
#define TM_ACCOUNT_H

#include "memory/memory.h"

struct account_peak {
	struct mem_peak peak;
	char *name;
	bool mark;                        /* else a phase */
};

struct account {
	struct mem_usage now;
	uint64_t device;                  /* held by the driver */
	uint64_t requested_by[MEM_CATEGORY_N], allocated_by[MEM_CATEGORY_N];
	struct mem_peak run;
	uint64_t run_peaks;               /* how often run.max.allocated has risen */
	struct account_peak **peaks;      /* phases and marks; pointers, since callers keep them */
	size_t peak_n, peak_cap;
	struct account_peak *phase, *mark;        /* open ones, or NULL */
};

/* Who is asking, for the record of a peak. */
struct account_place {
	const char *phase, *op;
	int64_t step;
};

void account_free(struct account *account);

/* sign +1 or -1: a block comes or goes. Usage of the policy is set by account_usage. */
static inline void account_block(struct account *account, enum mem_category category,
				 uint64_t requested, uint64_t size, int sign)
{
	uint64_t r = sign < 0 ? -requested : requested, s = sign < 0 ? -size : size;

	account->now.requested += r;
	account->requested_by[category] += r;
	account->allocated_by[category] += s;
}

static inline void account_usage(struct account *account, const struct mem_usage *usage, uint64_t device)
{
	account->device = device;
	account->now.allocated = usage->allocated;
	account->now.active = usage->active;
	account->now.reserved = usage->reserved;
}

/* After a change that may have raised something. True: the run's peak of `allocated` rose. */
bool account_raise(struct account *account, const struct account_place *place);

void account_phase(struct account *account, const char *name, const struct account_place *place);
void account_mark(struct account *account, const char *name, const struct account_place *place);
const struct account_peak *account_find(const struct account *account, const char *name, bool mark);

#endif
