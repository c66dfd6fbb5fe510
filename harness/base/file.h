/* Files: whole reads with a limit, writes that are complete or absent. */
#ifndef TM_FILE_H
#define TM_FILE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Reads a regular file of at most max_bytes into *out (appended). A longer
 * one is refused by its size before anything is read. Errors carry
 * code TM_EINPUT and the reason.
 */
int tm_read_file(const char *path, size_t max_bytes, struct tm_str *out, struct tm_err *err);

/* The same for an open descriptor of any kind, until end of file. */
int tm_read_fd(int fd, size_t max_bytes, struct tm_str *out, struct tm_err *err);

/* All of it, over short writes and EINTR. */
int tm_write_fd(int fd, const void *p, size_t n, struct tm_err *err);

/*
 * Writes to a temporary name beside `path`, syncs, renames: nobody ever sees
 * half a file under the final name. On an error the temporary is removed. A link stays
 * and what it leads to is replaced; a device or pipe is written to as it is.
 */
int tm_write_file(const char *path, const void *p, size_t n, struct tm_err *err);

/*
 * One value in a file of the kernel (/proc, cgroups): in one read or write, as those
 * want it. False on any error; buf is "" then.
 */
bool tm_value_get(const char *dir, const char *file, char *buf, size_t size);
bool tm_value_put(const char *dir, const char *file, const char *text);

/* mkdir -p. */
int tm_mkdirs(const char *path, struct tm_err *err);

/* dir + "/" + name, to be freed by the caller. */
char *tm_path_join(const char *dir, const char *name);
/* The folder of a path ("." where it has none), to be freed by the caller. */
char *tm_path_dir(const char *path);
/* The folder the running program lies in, links resolved; to be freed. */
char *tm_program_dir(void);
bool tm_path_exists(const char *path);

#endif
