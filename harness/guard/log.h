/*
 * The worker's stdout and stderr on their way into one file. The file is
 * made with the first byte; each stream may write GUARD_LOG_MAX_BYTES, then
 * a note says that the rest was dropped. The pipes are read to the end all
 * the same, so a chatty worker is neither blocked nor killed by SIGPIPE, and
 * a full disk costs only the log.
 */
#ifndef TM_GUARD_LOG_H
#define TM_GUARD_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log_stream {
	const char *name;
	int fd;                           /* reading end, non-blocking; -1: at its end */
	uint64_t kept_bytes;
	bool cut;
};

struct guard_log {
	const char *path;                 /* NULL: keep nothing */
	int file;                         /* -1: not made yet */
	bool failed;                      /* the disk is full or the like */
	uint64_t bytes;
	struct log_stream out, err;
	char line[512], last[512];        /* of stderr: being read, and the last that is not blank */
	size_t line_n;
};

/* Takes over both descriptors. */
void log_init(struct guard_log *log, const char *path, int out_fd, int err_fd);
/* Reads what is there, at most 64 KiB. False: nothing was there. */
bool log_pump(struct guard_log *log, struct log_stream *s);
/* Reads what is still in the pipes (at most 1 MiB each) and closes everything. */
void log_fini(struct guard_log *log);
bool log_is_cut(const struct guard_log *log);

#endif
