/*
 * Copies from memory that is not pinned make the driver copy by itself and
 * wait, so everything goes through pinned memory of our own.
 *
 * Up: a ring. Each copy takes the next bytes of it and leaves an event behind
 * itself; the bytes come back in the order in which they were taken, when
 * somebody needs them. The token batches of a step are a few hundred kilobytes
 * behind which hours of kernels may be queued: they wait for nothing.
 *
 * Down: two halves, so that one is emptied while the other is filled.
 */
#include "device/cuda/staging.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN 256u                /* of places in the ring, so that copies start at whole lines */
#define FLIGHTS 256u

/* A copy under way: once its event has passed, the ring is free up to `end`. */
struct flight {
	cudaEvent_t event;
	uint64_t end;
};

struct cuda_staging {
	unsigned char *ring;
	uint64_t head, tail;              /* bytes ever taken, ever returned; never more than the ring apart */
	struct flight flight[FLIGHTS];    /* a ring too: n of them from `first` */
	size_t first, n;
	unsigned char *half[2];
	cudaEvent_t filled[2];
};

static int pinned(unsigned char **out, size_t bytes, struct tm_err *err)
{
	void *p = NULL;
	int rc = cuda_check(cudaHostAlloc(&p, bytes, cudaHostAllocDefault), "pinned host memory for copies", err);

	*out = p;
	/* It is the host that has none, and no allocator of ours is to blame. */
	return rc == TM_EOOM ? tm_fail(err, TM_EENV, "device cuda: the host has no %zu MiB to pin for copies; is there a limit on "
				       "locked memory (ulimit -l)?", bytes >> 20) : rc;
}

static int new_event(cudaEvent_t *out, struct tm_err *err)
{
	return cuda_check(cudaEventCreateWithFlags(out, cudaEventDisableTiming), "an event", err);
}

int cuda_staging_new(struct cuda *c, struct tm_err *err)
{
	struct cuda_staging *s = tm_xcalloc(1, sizeof *s);
	int rc = pinned(&s->ring, STAGING_RING_BYTES, err);

	c->staging = s;
	for (size_t i = 0; i < FLIGHTS && !rc; i++)
		rc = new_event(&s->flight[i].event, err);
	for (int i = 0; i < 2 && !rc; i++) {
		rc = pinned(&s->half[i], STAGING_PIECE_BYTES, err);
		if (!rc)
			rc = new_event(&s->filled[i], err);
	}
	if (rc)
		cuda_staging_free(c);
	return rc;
}

static void drop_event(cudaEvent_t event)
{
	if (event)
		cudaEventDestroy(event);
}

void cuda_staging_free(struct cuda *c)
{
	struct cuda_staging *s = c->staging;

	if (!s)
		return;
	c->staging = NULL;
	cudaStreamSynchronize(c->stream);
	for (size_t i = 0; i < FLIGHTS; i++)
		drop_event(s->flight[i].event);
	cudaFreeHost(s->ring);
	for (int i = 0; i < 2; i++) {
		drop_event(s->filled[i]);
		cudaFreeHost(s->half[i]);
	}
	free(s);
}

/* ---- up --------------------------------------------------------------------- */

/* Waits for the oldest copy under way, which in most cases is long done. */
static int retire(struct cuda_staging *s, struct tm_err *err)
{
	struct flight *oldest = &s->flight[s->first];
	int rc;

	BUG_ON(!s->n);
	rc = cuda_check(cudaEventSynchronize(oldest->event), "waiting for a copy to the card", err);
	if (rc)
		return rc;
	s->tail = oldest->end;
	s->first = (s->first + 1) % FLIGHTS;
	s->n--;
	return 0;
}

/* A place of `bytes` in one piece: what is left before the end of the ring is skipped where it is too short. */
static int take(struct cuda_staging *s, uint64_t bytes, unsigned char **at, struct tm_err *err)
{
	uint64_t size = (bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1), offset = s->head % STAGING_RING_BYTES;
	uint64_t skip = size <= STAGING_RING_BYTES - offset ? 0 : STAGING_RING_BYTES - offset;
	int rc = 0;

	while (!rc && (s->n == FLIGHTS || s->head + skip + size - s->tail > STAGING_RING_BYTES))
		rc = retire(s, err);
	if (rc)
		return rc;
	s->head += skip;
	*at = s->ring + s->head % STAGING_RING_BYTES;
	s->head += size;
	return 0;
}

/* On a failure the place stays taken until the next copy behind it is done. */
static int send(struct cuda *c, void *dst, const unsigned char *src, size_t bytes, struct tm_err *err)
{
	struct cuda_staging *s = c->staging;
	struct flight *flight;
	unsigned char *at;
	int rc = take(s, bytes, &at, err);

	if (rc)
		return rc;
	memcpy(at, src, bytes);
	rc = cuda_check(cudaMemcpyAsync(dst, at, bytes, cudaMemcpyHostToDevice, c->stream), "a copy to the card", err);
	if (rc)
		return rc;
	flight = &s->flight[(s->first + s->n) % FLIGHTS];
	rc = cuda_check(cudaEventRecord(flight->event, c->stream), "a copy to the card", err);
	if (rc)
		return rc;
	flight->end = s->head;
	s->n++;
	return 0;
}

static uint64_t piece(uint64_t left)
{
	return left < STAGING_PIECE_BYTES ? left : STAGING_PIECE_BYTES;
}

int cuda_staging_up(struct cuda *c, void *dst, const void *src, uint64_t bytes, struct tm_err *err)
{
	int rc = 0;

	for (uint64_t at = 0; at < bytes && !rc; at += piece(bytes - at))
		rc = send(c, (unsigned char *)dst + at, (const unsigned char *)src + at, piece(bytes - at), err);
	return rc;
}

/* ---- down ------------------------------------------------------------------- */

static int fill(struct cuda *c, int half, const unsigned char *src, uint64_t bytes, struct tm_err *err)
{
	struct cuda_staging *s = c->staging;
	int rc = cuda_check(cudaMemcpyAsync(s->half[half], src, bytes, cudaMemcpyDeviceToHost, c->stream),
			    "a copy from the card", err);

	return rc ? rc : cuda_check(cudaEventRecord(s->filled[half], c->stream), "a copy from the card", err);
}

static int empty(struct cuda *c, int half, unsigned char *dst, uint64_t bytes, struct tm_err *err)
{
	struct cuda_staging *s = c->staging;
	int rc = cuda_check(cudaEventSynchronize(s->filled[half]), "waiting for a copy from the card", err);

	if (!rc)
		memcpy(dst, s->half[half], bytes);
	return rc;
}

int cuda_staging_down(struct cuda *c, void *dst, const void *src, uint64_t bytes, struct tm_err *err)
{
	const unsigned char *from = src;
	unsigned char *to = dst;
	int half = 0, rc;

	if (!bytes)
		return 0;
	rc = fill(c, half, from, piece(bytes), err);
	for (uint64_t at = 0; at < bytes && !rc; half = !half) {
		uint64_t n = piece(bytes - at), next = at + n;

		if (next < bytes)
			rc = fill(c, !half, from + next, piece(bytes - next), err);
		if (!rc)
			rc = empty(c, half, to + at, n, err);
		at = next;
	}
	return rc;
}
