#include "snapshot/sniff.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdbool.h>
#include <string.h>

/* What people hand over instead of a snapshot, and what to do about it. */
static const struct { size_t at; const char *magic; size_t n; const char *is; } other[] = {
	{ 0, "PK\x03\x04", 4, "a zip archive, as torch.save writes model checkpoints; a snapshot comes from torch.cuda.memory._dump_snapshot" },
	{ 0, "BZh", 3, "packed with bzip2; unpack it first, or pack it with xz, gzip or zstd" },
	{ 0, "\x04\x22\x4d\x18", 4, "packed with lz4; unpack it first" },
	{ 0, "7z\xbc\xaf\x27\x1c", 6, "a 7z archive; unpack it first" },
	{ 257, "ustar", 5, "a tar archive; unpack it first" },
	{ 0, "\x89HDF", 4, "an HDF5 file, not a memory snapshot" },
	{ 0, "\x93NUMPY", 6, "a NumPy array, not a memory snapshot" },
	{ 0, "SQLite format 3", 15, "an SQLite database, not a memory snapshot" },
	{ 0, "\x7f" "ELF", 4, "a program, not a memory snapshot" },
	{ 8, "{\"", 2, "a safetensors file, not a memory snapshot" },
	{ 0, "version https://git-lfs", 23, "a pointer of Git LFS; get the file itself with git lfs pull" },
	{ 0, "<!DOCTYPE", 9, "a web page; give the snapshot that it was made from" },
	{ 0, "<!doctype", 9, "a web page; give the snapshot that it was made from" },
	{ 0, "<html", 5, "a web page; give the snapshot that it was made from" },
};

static bool begins(const uint8_t *p, size_t n, const char *with)
{
	size_t k = strlen(with);

	return n >= k && !memcmp(p, with, k);
}

static int text_format(struct snap_input *in, const uint8_t *p, size_t n, enum snap_format *format, struct tm_err *err)
{
	if (begins(p, n, "{\"format\":\"tidemark memory trace\"")) {
		*format = SNAP_TRACE;
		return 0;
	}
	/* protocol 1 has no version in front: an empty container, and a put or a group behind it */
	if (n > 1 && (p[0] == ']' || p[0] == '}' || p[0] == '(') && p[1] && strchr("qr(.ldp", p[1]))
		return tm_fail_at(err, TM_EINPUT, in->path, 0, 0, "a pickle of protocol 0 or 1, expected 2 to 5; save the snapshot again");
	if (p[0] != '{' && p[0] != '[')
		return tm_fail_at(err, TM_EINPUT, in->path, 0, 0, "no memory snapshot: expected a pickle (torch.cuda.memory._dump_snapshot), JSON of the same, or a trace of tidemark run --trace; each also packed by xz, gzip or zstd");
	*format = SNAP_JSON;
	return 0;
}

int snap_sniff(struct snap_input *in, enum snap_format *format, struct tm_err *err)
{
	const uint8_t *p;
	size_t n;

	snap_input_more(in, 512);
	if (in->failed) {
		if (err)
			*err = in->err;
		return in->failed;
	}
	p = in->p;
	n = (size_t)(in->end - p);
	if (n && p[0] == 0x80) {
		*format = SNAP_PICKLE;
		return 0;
	}
	for (size_t i = 0; i < TM_ARRAY_N(other); i++)
		if (n >= other[i].at + other[i].n && !memcmp(p + other[i].at, other[i].magic, other[i].n) &&
		    (other[i].at != 8 || (p[0] != '{' && p[0] != '[' && !p[7])))
			return tm_fail_at(err, TM_EINPUT, in->path, 0, 0, "%s", other[i].is);
	if (begins(p, n, "\xef\xbb\xbf")) {
		p += 3;
		n -= 3;
	}
	while (n > 1 && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
		p++;
		n--;
	}
	return text_format(in, p, n, format, err);
}
