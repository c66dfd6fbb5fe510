/*
 * A list of tensors in few launches: blocks are dealt out over the tensors in
 * chunks, and which tensor a block belongs to is found in a table that travels
 * as a kernel argument. So the hundreds of small tensors of a model cost as
 * many launches as fit arguments of 4 KB.
 */
#ifndef TM_CUDA_KERNELS_ITEMS_CUH
#define TM_CUDA_KERNELS_ITEMS_CUH

#include "device/cuda/kernels/types.cuh"

/* An item is a struct with an element count `n`; MOST of them fit a launch. */
template <typename ITEM, int MOST> struct item_table {
	ITEM item[MOST];
	int32_t first_block[MOST + 1];    /* of each item; the last: blocks in all */
	int32_t count;
};

/* The item that block `block` belongs to. */
template <typename ITEM, int MOST> __device__ static inline int item_of(const item_table<ITEM, MOST> &t, int block)
{
	int low = 0, high = t.count;

	while (high - low > 1) {
		int middle = (low + high) / 2;

		if (t.first_block[middle] <= block)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Takes as many items as fit, a block for each `chunk` elements of one; returns how many. */
template <typename ITEM, int MOST>
static int64_t fill_table(item_table<ITEM, MOST> *t, const ITEM *list, int64_t count, int64_t chunk)
{
	int64_t k, blocks = 0;

	for (k = 0; k < count && k < MOST; k++) {
		int64_t more = parts_of(list[k].n, chunk);

		if (k && blocks + more > INT32_MAX)
			break;
		t->item[k] = list[k];
		t->first_block[k] = (int32_t)blocks;
		blocks += more;
	}
	t->first_block[k] = (int32_t)blocks;
	t->count = (int32_t)k;
	return k;
}

#endif
