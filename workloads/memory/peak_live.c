/* The list of peak_live.h. */
#include "memory/peak_live.h"

#include "base/mem.h"

#include <stdlib.h>

void peak_live_add(struct peak_live *peak, const struct mem_block *block)
{
	if (peak->item_id != peak->last_id) {
		peak->item_id = peak->last_id;
		peak->n = 0;
	}
	if (peak->n == peak->cap) {
		peak->cap = peak->cap ? peak->cap * 2 : 64;
		peak->item = tm_xrealloc_n(peak->item, peak->cap, sizeof *peak->item);
	}
	peak->item[peak->n++] = live_item(block);
}

void peak_live_free(struct peak_live *peak)
{
	free(peak->item);
	*peak = (struct peak_live){ 0 };
}
