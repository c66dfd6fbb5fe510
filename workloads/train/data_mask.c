/*
 * Which tokens of a BERT sample are targets: exactly max(1, round(0.15 n)) of
 * the n between CLS and SEP, without replacement (Devlin et al. 2019). Each
 * place draws a key and the smallest keys win, so the choice needs no state
 * and a second program can make the same one; between equal keys the earlier
 * place wins.
 *
 * ceil(5 T / 32) slots are always enough for n ≤ T - 2, T ≥ 3: round(0.15 n) ≤
 * 0.15 (T - 2) + 0.5 = 0.15 T + 0.2, and 5/32 = 0.15625, so the slots are the
 * more from T = 32 on; below that a test goes through all T. 20 of 128 and 80
 * of 512, as the published models have.
 */
#include "train/data_source.h"

#include "base/mem.h"
#include "model/draw.h"
#include "train/data.h"

#include <stdlib.h>

int64_t mask_count(int64_t n)
{
	int64_t count = (15 * n + 50) / 100;

	return count > 1 ? count : 1;
}

int64_t data_slots(int64_t seq)
{
	return (5 * seq + 31) / 32;
}

/* No two are equal: the place is the lower half. */
static uint64_t key(const uint32_t *word, int64_t t)
{
	return (uint64_t)word[t] << 32 | (uint64_t)t;
}

/* Restores the heap (largest on top) below `at`. */
static void sift(uint64_t *heap, int64_t n, int64_t at)
{
	uint64_t v = heap[at];

	for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
		if (child + 1 < n && heap[child + 1] > heap[child])
			child++;
		if (heap[child] <= v)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = v;
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/*
 * A heap of the smallest so far: most keys are compared once with its top
 * and forgotten, which is several times faster than sorting all of them.
 */
void mask_choose(uint64_t seed, uint64_t index, int64_t n, int64_t *chosen)
{
	int64_t count = mask_count(n);
	uint64_t *heap = tm_xmalloc((size_t)count * sizeof *heap);
	uint32_t *word = tm_xmalloc((size_t)n * sizeof *word);

	draw_words(seed, DRAW_SITE_DATA + DRAW_CHOSEN, 0, index, word, (uint64_t)n);
	for (int64_t t = 0; t < count; t++)
		heap[t] = key(word, t);
	for (int64_t i = count / 2; i-- > 0;)
		sift(heap, count, i);
	for (int64_t t = count; t < n; t++) {
		if (key(word, t) >= heap[0])
			continue;
		heap[0] = key(word, t);
		sift(heap, count, 0);
	}
	for (int64_t i = 0; i < count; i++)
		chosen[i] = (int64_t)(heap[i] & UINT32_MAX);
	qsort(chosen, (size_t)count, sizeof *chosen, ascending);
	free(heap);
	free(word);
}

void data_rows(const int32_t *targets, int64_t n, int64_t seq, int32_t *rows, int32_t *row_targets)
{
	int64_t slots = data_slots(seq);

	BUG_ON(n * seq > INT32_MAX);
	for (int64_t s = 0; s < n; s++) {
		int64_t at = s * slots, end = at + slots;

		for (int64_t r = s * seq; r < (s + 1) * seq; r++) {
			if (targets[r] < 0)
				continue;
			BUG_ON(at == end);
			rows[at] = (int32_t)r;
			row_targets[at++] = targets[r];
		}
		for (; at < end; at++)
			rows[at] = row_targets[at] = -1;
	}
}
