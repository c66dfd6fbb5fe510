/*
 * A training step makes thousands of events, so a line is put together by
 * hand in one buffer: no printf, no allocation, one write for 64 KiB. A disk
 * that fills up must not end the run that is measured: after a failed write
 * nothing more is recorded, and closing tells.
 */
#include "memory/trace.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRACE_BUFFER_BYTES (64u << 10)

struct trace {
	int fd;
	int failed;                       /* 0, or the code of the first failure */
	struct tm_err err;
	int64_t start_us;
	uint64_t events;
	size_t n;
	char buffer[TRACE_BUFFER_BYTES];
};

static void flush(struct trace *trace)
{
	if (!trace->failed)
		trace->failed = tm_write_fd(trace->fd, trace->buffer, trace->n, &trace->err);
	trace->n = 0;
}

static void put(struct trace *trace, const char *s, size_t n)
{
	while (n > TRACE_BUFFER_BYTES - trace->n) {
		size_t part = TRACE_BUFFER_BYTES - trace->n;

		memcpy(trace->buffer + trace->n, s, part);
		trace->n += part;
		flush(trace);
		s += part;
		n -= part;
	}
	memcpy(trace->buffer + trace->n, s, n);
	trace->n += n;
}

static void put_text(struct trace *trace, const char *s)
{
	put(trace, s, strlen(s));
}

static void put_u64(struct trace *trace, uint64_t v)
{
	char digits[20], *p = digits + sizeof digits;

	do {
		*--p = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	put(trace, p, (size_t)(digits + sizeof digits - p));
}

static void put_i64(struct trace *trace, int64_t v)
{
	if (v < 0)
		put(trace, "-", 1);
	put_u64(trace, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

/* Names are ours or checked UTF-8; only what JSON itself forbids is escaped. */
static void put_string(struct trace *trace, const char *s)
{
	static const char hex[] = "0123456789abcdef";

	put(trace, "\"", 1);
	while (*s) {
		size_t plain = 0;

		while ((unsigned char)s[plain] >= 0x20 && s[plain] != '"' && s[plain] != '\\')
			plain++;
		put(trace, s, plain);
		s += plain;
		if (*s) {
			char escape[6] = { '\\', 'u', '0', '0', hex[(unsigned char)*s >> 4], hex[*s & 15] };

			put(trace, escape, sizeof escape);
			s++;
		}
	}
	put(trace, "\"", 1);
}

static void put_u64_member(struct trace *trace, const char *key, uint64_t v)
{
	put_text(trace, key);
	put_u64(trace, v);
}

static void put_string_member(struct trace *trace, const char *key, const char *v)
{
	put_text(trace, key);
	put_string(trace, v);
}

/* Every event starts alike. */
static void begin(struct trace *trace, const char *kind)
{
	put_string_member(trace, "{\"e\":", kind);
	put_text(trace, ",\"t_us\":");
	put_i64(trace, tm_mono_us() - trace->start_us);
	trace->events++;
}

static void put_place(struct trace *trace, const char *op, const char *phase, int64_t step)
{
	put_string_member(trace, ",\"op\":", op);
	put_string_member(trace, ",\"phase\":", phase);
	put_text(trace, ",\"step\":");
	put_i64(trace, step);
}

void trace_block(struct trace *trace, const char *kind, const struct mem_block *block,
		 const struct account_place *place)
{
	begin(trace, kind);
	put_u64_member(trace, ",\"id\":", block->id);
	put_u64_member(trace, ",\"addr\":", block->addr);
	put_u64_member(trace, ",\"bytes\":", block->requested);
	put_u64_member(trace, ",\"block\":", block->size);
	put_string_member(trace, ",\"category\":", mem_category_name[block->category]);
	put_string_member(trace, ",\"name\":", block->name);
	put_place(trace, place->op, place->phase, place->step);
	put_text(trace, ",\"stream\":0}\n");
}

void trace_segment(struct trace *trace, const char *kind, uint64_t addr, uint64_t bytes,
		   const struct account_place *place)
{
	begin(trace, kind);
	put_u64_member(trace, ",\"addr\":", addr);
	put_u64_member(trace, ",\"bytes\":", bytes);
	put_place(trace, place->op, place->phase, place->step);
	put_text(trace, ",\"stream\":0}\n");
}

void trace_oom(struct trace *trace, const struct mem_oom *oom, enum mem_category category)
{
	begin(trace, "oom");
	put_u64_member(trace, ",\"bytes\":", oom->asked);
	put_string_member(trace, ",\"category\":", mem_category_name[category]);
	put_string_member(trace, ",\"name\":", oom->name);
	put_place(trace, oom->op, oom->phase, oom->step);
	put_string_member(trace, ",\"by\":", oom->cap ? "cap" : "device");
	put_u64_member(trace, ",\"device_free\":", oom->device_free);
	put_text(trace, ",\"stream\":0}\n");
}

void trace_name(struct trace *trace, const char *kind, const char *name, int64_t step)
{
	begin(trace, kind);
	put_string_member(trace, ",\"name\":", name);
	put_text(trace, ",\"step\":");
	put_i64(trace, step);
	put_text(trace, "}\n");
}

int trace_open(const char *path, const struct mem_config *cfg, struct trace **out, struct tm_err *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	struct trace *trace;

	if (fd < 0)
		return tm_fail_at(err, TM_EIO, path, 0, 0, "the memory trace cannot be written: %s", strerror(errno));
	trace = tm_xmalloc(sizeof *trace);
	trace->fd = fd;
	trace->failed = 0;
	trace->start_us = tm_mono_us();
	trace->events = 0;
	trace->n = 0;
	put_text(trace, "{\"format\":\"tidemark memory trace\",\"version\":1");
	put_string_member(trace, ",\"policy\":", cfg->policy);
	put_string_member(trace, ",\"conf\":", cfg->conf ? cfg->conf : "");
	put_u64_member(trace, ",\"cap\":", cfg->cap_bytes);
	put_text(trace, "}\n");
	*out = trace;
	return 0;
}

int trace_close(struct trace *trace, struct tm_err *err)
{
	int rc;

	if (!trace)
		return 0;
	put_u64_member(trace, "{\"e\":\"end\",\"events\":", trace->events);
	put_text(trace, "}\n");
	flush(trace);
	/* Network file systems tell of a full disk only here. */
	if (close(trace->fd) && !trace->failed)
		trace->failed = tm_fail(&trace->err, TM_EIO, "closing: %s", strerror(errno));
	rc = trace->failed ? tm_fail(err, TM_EIO, "the memory trace is incomplete: %s", trace->err.text) : 0;
	free(trace);
	return rc;
}
