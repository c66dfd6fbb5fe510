#include "snapshot/input.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The window holds what more() must provide, and behind it what one read takes. */
#define READ_BYTES (64u << 10)
/* Where reads go to: the kernel's copy to any other address takes three times as long on some processors. */
#define READ_ALIGN 64u

static int64_t raw_read(struct snap_input *in, uint8_t *out, size_t n)
{
	ssize_t got;

	if (in->fd < 0)
		return 0;                 /* bytes in memory: all were fed at once */
	do {
		got = read(in->fd, out, n);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return tm_fail_at(&in->err, TM_EINPUT, in->path, 0, 0, "cannot read: %s", strerror(errno));
	snap_digest_add(&in->digest, out, (size_t)got);
	in->on_disk += (uint64_t)got;
	return got;
}

static int64_t read_some(struct snap_input *in, uint8_t *out, size_t n)
{
	if (in->unpack)
		return snap_unpack_read(in->unpack, in, raw_read, out, n);
	return raw_read(in, out, n);
}

/* Moves what is not read yet to the front of the window, so that it ends at an aligned address, and fills it. */
bool snap_input_more(struct snap_input *in, size_t n)
{
	size_t have = (size_t)(in->end - in->p);
	uint8_t *to = in->window + (-((uintptr_t)in->window + have) & (READ_ALIGN - 1));

	BUG_ON(n > SNAP_WINDOW_BYTES);
	if (have >= n)
		return true;
	if (in->at_end)
		return false;
	in->base += (uint64_t)(in->p - to);
	memmove(to, in->p, have);
	while (have < n) {
		int64_t got = read_some(in, to + have, READ_BYTES);

		if (got <= 0) {
			in->at_end = true;
			in->failed = (int)got;
			break;
		}
		have += (size_t)got;
	}
	in->p = to;
	in->end = to + have;
	memset(to + have, 0, SNAP_SLACK_BYTES);
	return have >= n;
}

uint64_t snap_input_offset(const struct snap_input *in)
{
	return in->base + (uint64_t)(in->p - in->window);
}

bool snap_input_may_have(const struct snap_input *in, uint64_t n)
{
	uint64_t have = (uint64_t)(in->end - in->p);

	if (n <= have)
		return true;
	return !in->at_end && (in->unpack || n - have <= in->disk_size - (in->on_disk < in->disk_size ? in->on_disk : in->disk_size));
}

static void input_new(struct snap_input *in, const char *path)
{
	*in = (struct snap_input){ .path = path, .fd = -1 };
	in->window = tm_xmalloc(READ_ALIGN + SNAP_WINDOW_BYTES + READ_BYTES + SNAP_SLACK_BYTES);
	memset(in->window, 0, SNAP_SLACK_BYTES);
	in->p = in->end = in->window;
	snap_digest_init(&in->digest);
}

/* The first bytes are in the window; packed ones go to the unpacker instead. */
static int begin(struct snap_input *in, struct tm_err *err)
{
	size_t n = (size_t)(in->end - in->p);

	if (!n)
		return tm_fail_at(err, TM_EINPUT, in->path, 0, 0, "the file is empty");
	in->unpack = snap_unpack_new(in->p, n, &in->packing);
	if (!in->unpack)
		return 0;
	snap_unpack_feed(in->unpack, in->p, n);
	in->end = in->p;
	if (snap_input_more(in, 1))
		return 0;
	if (in->failed) {
		if (err)
			*err = in->err;
		return in->failed;
	}
	return tm_fail_at(err, TM_EINPUT, in->path, 0, 0, "the %s data hold nothing", in->packing);
}

int snap_input_open(struct snap_input *in, const char *path, struct tm_err *err)
{
	struct stat st;
	int64_t got;
	int rc;

	input_new(in, path);
	/* O_NONBLOCK so that a named pipe cannot hang us before it is refused. */
	in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (in->fd < 0 || fstat(in->fd, &st) < 0) {
		rc = tm_fail_at(err, TM_EINPUT, path, 0, 0, "cannot open: %s", strerror(errno));
		goto fail;
	}
	if (!S_ISREG(st.st_mode)) {
		rc = tm_fail_at(err, TM_EINPUT, path, 0, 0, S_ISDIR(st.st_mode) ? "a folder, not a snapshot" : "not a regular file");
		goto fail;
	}
	in->disk_size = (uint64_t)st.st_size;
	in->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	got = raw_read(in, in->window, 64u << 10);
	if (got < 0) {
		rc = (int)got;
		if (err)
			*err = in->err;
		goto fail;
	}
	in->end = in->window + got;
	memset(in->window + got, 0, SNAP_SLACK_BYTES);
	rc = begin(in, err);
	if (!rc)
		return 0;
fail:
	snap_input_close(in);
	return rc;
}

int snap_input_memory(struct snap_input *in, const void *bytes, size_t n, struct tm_err *err)
{
	int rc;

	BUG_ON(n > (64u << 10));
	input_new(in, "memory");
	memcpy(in->window, bytes, n);
	memset(in->window + n, 0, SNAP_SLACK_BYTES);
	in->end = in->window + n;
	in->disk_size = in->on_disk = n;
	snap_digest_add(&in->digest, bytes, n);
	rc = begin(in, err);
	if (rc)
		snap_input_close(in);
	return rc;
}

void snap_input_close(struct snap_input *in)
{
	if (in->fd >= 0)
		close(in->fd);
	in->fd = -1;
	snap_unpack_free(in->unpack);
	in->unpack = NULL;
	free(in->window);
	in->window = NULL;
}

static int unchanged(const struct snap_input *in, struct tm_err *err)
{
	struct stat st;

	if (in->fd < 0)
		return 0;
	if (fstat(in->fd, &st) < 0)
		return tm_fail_at(err, TM_EINPUT, in->path, 0, 0, "cannot stat: %s", strerror(errno));
	if ((uint64_t)st.st_size == in->disk_size && in->on_disk == in->disk_size &&
	    (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == in->mtime_ns)
		return 0;
	return tm_fail_at(err, TM_EINPUT, in->path, 0, 0, "the file changed while it was read; read it once it is complete");
}

int snap_input_drain(struct snap_input *in, uint64_t *left, bool *zero, struct tm_err *err)
{
	*left = 0;
	*zero = true;
	while (snap_input_more(in, 1)) {
		*left += (uint64_t)(in->end - in->p);
		for (; in->p < in->end; in->p++)
			*zero &= !*in->p;
	}
	if (in->failed) {
		if (err)
			*err = in->err;
		return in->failed;
	}
	return unchanged(in, err);
}

void snap_input_sha(struct snap_input *in, char out[65])
{
	snap_digest_hex(&in->digest, out);
}

int snap_fail_at(const struct snap_input *in, struct tm_err *err, const char *src, int src_line,
		 uint64_t offset, const char *fmt, ...)
{
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return tm_err_set_at(err, TM_EINPUT, src, src_line, in->path, 0, 0, "byte %llu%s: %s",
			     (unsigned long long)offset, in->packing ? " (unpacked)" : "", text);
}

int snap_fail_end(const struct snap_input *in, struct tm_err *err, const char *within)
{
	if (in->failed) {
		if (err)
			*err = in->err;
		return in->failed;
	}
	if (unchanged(in, err))
		return TM_EINPUT;
	return snap_fail(in, err, in->base + (uint64_t)(in->end - in->window), "the file ends here, within %s: it was cut short", within);
}
