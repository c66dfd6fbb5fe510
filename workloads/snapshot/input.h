/*
 * The bytes of a snapshot: a regular file, unpacked where its first bytes say
 * xz, gzip or zstd, through a window of bounded size. The readers take bytes
 * from `p` and ask for more; nothing is mapped, since a file that is cut
 * while it is read must be an error and no signal.
 */
#ifndef TM_SNAP_INPUT_H
#define TM_SNAP_INPUT_H

#include "base/err.h"
#include "snapshot/digest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SNAP_WINDOW_BYTES (256u << 10)    /* what snap_input_more can provide at once, at least */
#define SNAP_SLACK_BYTES 32u              /* readable behind `end`, of no meaning */

struct snap_unpack;

struct snap_input {
	const uint8_t *p, *end;           /* the part of the window that is not read yet */
	const char *path;                 /* the caller's */
	const char *packing;              /* "xz", "gzip", "zstd"; NULL: plain */
	/* private */
	int fd;
	bool at_end;
	uint8_t *window;
	uint64_t base;                    /* unpacked bytes before the window's first byte; below 0 (modulo 2^64) at first */
	uint64_t on_disk, disk_size;      /* bytes read of the file so far; its size */
	int64_t mtime_ns;
	struct snap_digest digest;
	struct snap_unpack *unpack;
	int failed;                       /* 0, or the code of the first failure … */
	struct tm_err err;                /* … and its words */
};

/* TM_EINPUT: cannot be opened, no regular file, empty. in is closed on failure. */
int snap_input_open(struct snap_input *in, const char *path, struct tm_err *err);
/* The same from memory, for fuzzers; bytes stay the caller's. Packed ones are unpacked. */
int snap_input_memory(struct snap_input *in, const void *bytes, size_t n, struct tm_err *err);
void snap_input_close(struct snap_input *in);

/*
 * Provides at least n bytes from p on, if there are so many; n up to
 * SNAP_WINDOW_BYTES. p and end move. True: they are there. False: fewer are
 * left, or reading failed (in->failed).
 */
bool snap_input_more(struct snap_input *in, size_t n);
/* Unpacked bytes before `p`. */
uint64_t snap_input_offset(const struct snap_input *in);
/* False: surely not n more bytes are left behind p. */
bool snap_input_may_have(const struct snap_input *in, uint64_t n);
/*
 * Reads to the end (the digest and the packing's own check want it), counts
 * what was left and says whether any of it was not zero. TM_EINPUT: damaged,
 * or the file is no longer the one that was opened.
 */
int snap_input_drain(struct snap_input *in, uint64_t *left, bool *zero, struct tm_err *err);
/* After snap_input_drain: SHA-256 of the file as it lies on disk. */
void snap_input_sha(struct snap_input *in, char out[65]);

/* TM_EINPUT at byte `offset` of the (unpacked) file. */
#define snap_fail(in, err, offset, ...) \
	snap_fail_at((in), (err), __FILE__, __LINE__, (offset), __VA_ARGS__)
int snap_fail_at(const struct snap_input *in, struct tm_err *err, const char *src, int src_line,
		 uint64_t offset, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* The file ends within something, or reading failed: says which. */
int snap_fail_end(const struct snap_input *in, struct tm_err *err, const char *within);

/* ---- unpack.c ------------------------------------------------------------ */

/* Raw bytes of the file; n 0: the end. Negative: failed, in->err is set. */
typedef int64_t snap_raw_fn(struct snap_input *in, uint8_t *out, size_t n);

/* By the first bytes; NULL, *name NULL: not packed. */
struct snap_unpack *snap_unpack_new(const uint8_t *head, size_t n, const char **name);
void snap_unpack_free(struct snap_unpack *u);
/*
 * Up to n unpacked bytes; 0: the end, which is checked. Negative: in->err is
 * set. The first bytes of the file are given by snap_unpack_feed.
 */
int64_t snap_unpack_read(struct snap_unpack *u, struct snap_input *in, snap_raw_fn *raw, uint8_t *out, size_t n);
void snap_unpack_feed(struct snap_unpack *u, const uint8_t *p, size_t n);

#endif
