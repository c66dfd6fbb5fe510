/*
 * The three packings, behind one interface. Each may be several members one
 * after the other, as `cat a.gz b.gz` makes them. What is unpacked is limited
 * by the share of what was read, so that a small file cannot keep the reader
 * busy for hours: no recording packs a thousandfold, since times and
 * addresses differ.
 */
#include "snapshot/input.h"

#include "base/mem.h"

#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define RAW_BYTES (64u << 10)
#define XZ_MEMORY_BYTES (256ull << 20)    /* xz -9 wants 65 MiB; a header may claim 4 GiB */
#define BOMB_BYTES (64ull << 20)          /* up to here any share is fine */
#define BOMB_SHARE 1000

enum packing { XZ, GZIP, ZSTD };

struct snap_unpack {
	enum packing packing;
	lzma_stream xz;
	z_stream gz;
	ZSTD_DStream *zstd;
	uint8_t raw[RAW_BYTES];
	size_t n, used;                   /* of raw */
	bool raw_end, within, done;       /* within: a member has begun and not ended */
	uint64_t unpacked;
};

struct snap_unpack *snap_unpack_new(const uint8_t *head, size_t n, const char **name)
{
	static const struct { const char *name, *magic; size_t n; } kind[] = {
		[XZ] = { "xz", "\xfd" "7zXZ\0", 6 },
		[GZIP] = { "gzip", "\x1f\x8b", 2 },
		[ZSTD] = { "zstd", "\x28\xb5\x2f\xfd", 4 },
	};
	struct snap_unpack *u;
	size_t i = 0;

	*name = NULL;
	while (i < TM_ARRAY_N(kind) && (n < kind[i].n || memcmp(head, kind[i].magic, kind[i].n)))
		i++;
	if (i == TM_ARRAY_N(kind))
		return NULL;
	u = tm_xcalloc(1, sizeof *u);
	u->packing = (enum packing)i;
	if (i == XZ && lzma_stream_decoder(&u->xz, XZ_MEMORY_BYTES, LZMA_CONCATENATED) != LZMA_OK)
		BUG("xz: no decoder");
	if (i == GZIP && inflateInit2(&u->gz, 15 + 16) != Z_OK)
		BUG("zlib: no decoder");
	if (i == ZSTD)
		u->zstd = ZSTD_createDStream();
	BUG_ON(i == ZSTD && !u->zstd);
	*name = kind[i].name;
	return u;
}

void snap_unpack_free(struct snap_unpack *u)
{
	if (!u)
		return;
	if (u->packing == XZ)
		lzma_end(&u->xz);
	if (u->packing == GZIP)
		inflateEnd(&u->gz);
	ZSTD_freeDStream(u->zstd);
	free(u);
}

void snap_unpack_feed(struct snap_unpack *u, const uint8_t *p, size_t n)
{
	BUG_ON(n > RAW_BYTES);
	memcpy(u->raw, p, n);
	u->n = n;
}

static int damaged(struct snap_input *in, const char *what)
{
	return tm_fail_at(&in->err, TM_EINPUT, in->path, 0, 0, "byte %llu on disk: the %s data are damaged: %s",
			  (unsigned long long)in->on_disk, in->packing, what);
}

static int step_xz(struct snap_unpack *u, struct snap_input *in, uint8_t *out, size_t n, size_t *made)
{
	lzma_ret rc;

	u->xz.next_in = u->raw + u->used;
	u->xz.avail_in = u->n - u->used;
	u->xz.next_out = out;
	u->xz.avail_out = n;
	rc = lzma_code(&u->xz, u->raw_end ? LZMA_FINISH : LZMA_RUN);
	u->used = u->n - u->xz.avail_in;
	*made = n - u->xz.avail_out;
	u->within = rc != LZMA_STREAM_END;
	u->done = rc == LZMA_STREAM_END;
	if (rc == LZMA_MEMLIMIT_ERROR)
		return tm_fail_at(&in->err, TM_EINPUT, in->path, 0, 0,
				  "packed by xz with a dictionary that needs more than %llu MiB; pack it again with xz -6",
				  XZ_MEMORY_BYTES >> 20);
	if (rc == LZMA_OK || rc == LZMA_STREAM_END || rc == LZMA_BUF_ERROR)
		return 0;
	return damaged(in, rc == LZMA_DATA_ERROR ? "its check does not fit" : "not xz");
}

static int step_gzip(struct snap_unpack *u, struct snap_input *in, uint8_t *out, size_t n, size_t *made)
{
	int rc;

	u->gz.next_in = u->raw + u->used;
	u->gz.avail_in = (unsigned)(u->n - u->used);
	u->gz.next_out = out;
	u->gz.avail_out = (unsigned)n;
	if (u->n > u->used)
		u->within = true;
	rc = inflate(&u->gz, Z_NO_FLUSH);
	u->used = u->n - u->gz.avail_in;
	*made = n - u->gz.avail_out;
	if (rc == Z_STREAM_END) {
		u->within = false;
		inflateReset(&u->gz);
		return 0;
	}
	if (rc == Z_OK || rc == Z_BUF_ERROR)
		return 0;
	return damaged(in, u->gz.msg ? u->gz.msg : "not gzip");
}

static int step_zstd(struct snap_unpack *u, struct snap_input *in, uint8_t *out, size_t n, size_t *made)
{
	ZSTD_inBuffer from = { u->raw + u->used, u->n - u->used, 0 };
	ZSTD_outBuffer to = { out, n, 0 };
	size_t rc = ZSTD_decompressStream(u->zstd, &to, &from);

	u->used += from.pos;
	*made = to.pos;
	if (ZSTD_isError(rc))
		return damaged(in, ZSTD_getErrorName(rc));
	u->within = rc != 0;
	return 0;
}

int64_t snap_unpack_read(struct snap_unpack *u, struct snap_input *in, snap_raw_fn *raw, uint8_t *out, size_t n)
{
	static int (*const step[])(struct snap_unpack *, struct snap_input *, uint8_t *, size_t, size_t *) = {
		[XZ] = step_xz, [GZIP] = step_gzip, [ZSTD] = step_zstd,
	};
	size_t made = 0, before;
	int rc;

	while (!made && !u->done) {
		if (u->used == u->n && !u->raw_end) {
			int64_t got = raw(in, u->raw, sizeof u->raw);

			if (got < 0)
				return got;
			u->n = (size_t)got;
			u->used = 0;
			u->raw_end = !got;
		}
		/* zlib takes an empty input for an error, and zstd for the start of a frame */
		if (u->packing != XZ && u->raw_end && u->used == u->n && !u->within)
			break;
		before = u->used;
		rc = step[u->packing](u, in, out, n, &made);
		if (rc)
			return rc;
		if (u->raw_end && !made && u->used == before && !u->done)
			return tm_fail_at(&in->err, TM_EINPUT, in->path, 0, 0, "cut short within the %s data, at byte %llu on disk",
					  in->packing, (unsigned long long)in->on_disk);
	}
	u->unpacked += made;
	if (u->unpacked > BOMB_BYTES && u->unpacked / BOMB_SHARE > in->on_disk)
		return tm_fail_at(&in->err, TM_EINPUT, in->path, 0, 0,
				  "unpacks to more than %d times its size (%llu bytes so far), as no recording does",
				  BOMB_SHARE, (unsigned long long)u->unpacked);
	return (int64_t)made;
}
