/* Files of tests/data, snapshots put together by hand, and reading them. */
#ifndef TM_SNAPSHOT_KIT_H
#define TM_SNAPSHOT_KIT_H

#include "test.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "snapshot/build.h"
#include "snapshot/recording.h"

#include <fcntl.h>
#include <unistd.h>

#define MIB (1ull << 20)

static inline struct recording *read_data(const char *name, int device)
{
	struct recording *r = NULL;
	struct tm_err err = { 0 };
	char path[512];

	snprintf(path, sizeof path, TESTS_DIR "/data/%s", name);
	assert_ok(recording_read(path, device, NULL, &r, &err), &err);
	return r;
}

static inline struct tm_str data_bytes(const char *name)
{
	struct tm_str s = TM_STR_INIT;
	struct tm_err err = { 0 };
	char path[512];

	snprintf(path, sizeof path, TESTS_DIR "/data/%s", name);
	assert_ok(tm_read_file(path, 1 << 20, &s, &err), &err);
	return s;
}

/* Bytes as a file; *out may be NULL where it is to be refused. */
static inline int read_bytes(const void *p, size_t n, uint64_t max_bytes, struct recording **out, struct tm_err *err)
{
	char path[] = "/tmp/tidemark-snapshot-XXXXXX";
	struct recording_limits limits = { max_bytes };
	struct recording *r = NULL;
	int fd = mkstemp(path), rc;

	*err = (struct tm_err){ 0 };
	assert_true(fd >= 0);
	assert_ok(tm_write_fd(fd, p, n, err), err);
	close(fd);
	rc = recording_read(path, -1, &limits, &r, err);
	unlink(path);
	if (out)
		*out = r;
	else
		recording_free(r);
	return rc;
}

/* Refused as bad input, with these words in the reason, and a file named. */
#define assert_refused(p, n, words) do { \
	struct tm_err err_ = { 0 }; \
	assert_int_equal(read_bytes((p), (n), 0, NULL, &err_), TM_EINPUT); \
	if (!strstr(err_.text, (words)) || !err_.file[0]) \
		fail_msg("expected `%s`, got %s: %s", (words), err_.file, err_.text); \
} while (0)

/* ---- pickles by hand ----------------------------------------------------- */

static inline void op(struct tm_str *s, const char *bytes, size_t n)
{
	tm_str_addn(s, bytes, n);
}
#define OP(s, literal) op((s), literal, sizeof(literal) - 1)

static inline void put_text(struct tm_str *s, const char *text)
{
	tm_str_addc(s, '\x8c');
	tm_str_addc(s, (char)strlen(text));
	tm_str_add(s, text);
}

static inline void put_int(struct tm_str *s, int64_t v)
{
	OP(s, "\x8a\x08");
	tm_str_addn(s, &v, 8);
}

static inline void put_item(struct tm_str *s, const char *key, int64_t v)
{
	put_text(s, key);
	put_int(s, v);
}

/* {"device_traces": [[ … */
static inline struct tm_str trace_begin(void)
{
	struct tm_str s = TM_STR_INIT;

	OP(&s, "\x80\x04}(");
	put_text(&s, "device_traces");
	OP(&s, "](](");
	return s;
}

/* … ]], "segments": []}. */
static inline void trace_end(struct tm_str *s)
{
	OP(s, "ee");
	put_text(s, "segments");
	OP(s, "]u.");
}

static inline void put_event(struct tm_str *s, const char *action, int64_t addr, int64_t size)
{
	OP(s, "}(");
	put_text(s, "action");
	put_text(s, action);
	put_item(s, "addr", addr);
	put_item(s, "size", size);
	put_item(s, "stream", 0);
	OP(s, "u");
}

#endif
