#include "log.h"

#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void log_init(struct guard_log *log, const char *path, int out_fd, int err_fd)
{
	memset(log, 0, sizeof *log);
	log->path = path;
	log->file = -1;
	log->out = (struct log_stream){ .name = "stdout", .fd = out_fd };
	log->err = (struct log_stream){ .name = "stderr", .fd = err_fd };
	fcntl(out_fd, F_SETFL, O_NONBLOCK);
	fcntl(err_fd, F_SETFL, O_NONBLOCK);
}

static void write_all(struct guard_log *log, const char *p, size_t n)
{
	if (log->file < 0 && !log->failed) {
		log->file = open(log->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		log->failed = log->file < 0;
	}
	while (n && !log->failed) {
		ssize_t put = write(log->file, p, n);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0) {
			log->failed = true;
			break;
		}
		log->bytes += (uint64_t)put;
		p += put;
		n -= (size_t)put;
	}
}

static void keep(struct guard_log *log, struct log_stream *s, const char *p, size_t n)
{
	size_t room = GUARD_LOG_MAX_BYTES - s->kept_bytes;
	char note[96];

	if (!log->path || s->cut)
		return;
	write_all(log, p, n < room ? n : room);
	s->kept_bytes += n < room ? n : room;
	if (n <= room && !log->failed)
		return;
	s->cut = true;
	snprintf(note, sizeof note, "\n[%s was cut here; at most %u bytes are kept]\n", s->name, GUARD_LOG_MAX_BYTES);
	write_all(log, note, strlen(note));
}

/* Keeps the last line that is not blank, for the reason of a crash. */
static void follow_lines(struct guard_log *log, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c == '\n' || c == '\r') {
			if (log->line_n) {
				memcpy(log->last, log->line, log->line_n);
				log->last[log->line_n] = '\0';
			}
			log->line_n = 0;
		} else if (log->line_n + 1 < sizeof log->line && (log->line_n || c > ' ')) {
			log->line[log->line_n++] = (char)c;
		}
	}
}

bool log_pump(struct guard_log *log, struct log_stream *s)
{
	static char buf[65536];
	ssize_t got;

	if (s->fd < 0)
		return false;
	do
		got = read(s->fd, buf, sizeof buf);
	while (got < 0 && errno == EINTR);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return false;
	if (got <= 0) {
		close(s->fd);
		s->fd = -1;
		return false;
	}
	if (s == &log->err)
		follow_lines(log, buf, (size_t)got);
	keep(log, s, buf, (size_t)got);
	return true;
}

void log_fini(struct guard_log *log)
{
	struct log_stream *const streams[] = { &log->out, &log->err };

	for (size_t i = 0; i < 2; i++) {
		for (int left = 16; left && log_pump(log, streams[i]); left--)
			;
		if (streams[i]->fd >= 0)
			close(streams[i]->fd);
		streams[i]->fd = -1;
	}
	follow_lines(log, "\n", 1);
	if (log->file >= 0)
		close(log->file);
	log->file = -1;
}

bool log_is_cut(const struct guard_log *log)
{
	return log->failed || log->out.cut || log->err.cut;
}
