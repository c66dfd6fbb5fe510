/*
 * High-water marks. Only an allocation can raise one, so a free costs nothing
 * here; and only a new highest `allocated` copies the categories, which in a
 * steady run happens in the first step and then no more.
 */
#include "memory/account.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

const char *const mem_category_name[MEM_CATEGORY_N] = {
	"parameters", "gradients", "optimizer", "activations", "logits", "workspace", "input",
};

void account_free(struct account *account)
{
	for (size_t i = 0; i < account->peak_n; i++) {
		free(account->peaks[i]->name);
		free(account->peaks[i]);
	}
	free(account->peaks);
}

static void set_moment(struct mem_peak *peak, const struct account *account, const struct account_place *place)
{
	memcpy(peak->requested_at_peak, account->requested_by, sizeof peak->requested_at_peak);
	memcpy(peak->allocated_at_peak, account->allocated_by, sizeof peak->allocated_at_peak);
	peak->reserved_at_peak = account->now.reserved;
	peak->step = place->step;
	peak->phase = place->phase;
	peak->op = place->op;
}

/* The present as the first moment of a new mark. */
static void set_first(struct mem_peak *peak, const struct account *account, const struct account_place *place)
{
	peak->max = account->now;
	peak->allocated_at_reserved = account->now.allocated;
	peak->device = account->device;
	set_moment(peak, account, place);
}

static bool raise_one(struct mem_peak *peak, const struct account *account, const struct account_place *place)
{
	const struct mem_usage *now = &account->now;
	struct mem_usage *max = &peak->max;

	if (now->requested > max->requested)
		max->requested = now->requested;
	if (now->active > max->active)
		max->active = now->active;
	if (now->reserved > max->reserved) {
		max->reserved = now->reserved;
		peak->allocated_at_reserved = now->allocated;
	}
	if (account->device > peak->device)
		peak->device = account->device;
	if (now->allocated <= max->allocated)
		return false;
	max->allocated = now->allocated;
	set_moment(peak, account, place);
	return true;
}

bool account_raise(struct account *account, const struct account_place *place)
{
	bool rose = raise_one(&account->run, account, place);

	account->run_peaks += rose;
	if (account->phase)
		raise_one(&account->phase->peak, account, place);
	if (account->mark)
		raise_one(&account->mark->peak, account, place);
	return rose;
}

const struct account_peak *account_find(const struct account *account, const char *name, bool mark)
{
	for (size_t i = 0; i < account->peak_n; i++)
		if (account->peaks[i]->mark == mark && strcmp(account->peaks[i]->name, name) == 0)
			return account->peaks[i];
	return NULL;
}

/* The one of that name; *fresh: it was made now. */
static struct account_peak *find_or_add(struct account *account, const char *name, bool mark, bool *fresh)
{
	struct account_peak *peak = (struct account_peak *)account_find(account, name, mark);

	*fresh = !peak;
	if (peak)
		return peak;
	peak = tm_xcalloc(1, sizeof *peak);
	peak->name = tm_xstrdup(name);
	peak->mark = mark;
	if (account->peak_n == account->peak_cap) {
		account->peak_cap = account->peak_cap ? account->peak_cap * 2 : 16;
		account->peaks = tm_xrealloc_n(account->peaks, account->peak_cap, sizeof *account->peaks);
	}
	return account->peaks[account->peak_n++] = peak;
}

/* A phase comes again every step and keeps its highest. */
void account_phase(struct account *account, const char *name, const struct account_place *place)
{
	bool fresh;

	account->phase = find_or_add(account, name, false, &fresh);
	if (fresh)
		set_first(&account->phase->peak, account, place);
	else
		raise_one(&account->phase->peak, account, place);
}

void account_mark(struct account *account, const char *name, const struct account_place *place)
{
	bool fresh;

	account->mark = NULL;
	if (!name)
		return;
	account->mark = find_or_add(account, name, true, &fresh);
	set_first(&account->mark->peak, account, place);
}
