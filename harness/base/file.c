#include "base/file.h"

#include "base/fault.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int tm_read_fd(int fd, size_t max_bytes, struct tm_str *out, struct tm_err *err)
{
	size_t start = out->n;

	for (;;) {
		ssize_t got;

		tm_str_reserve(out, 65536);
		got = read(fd, out->s + out->n, 65536);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return tm_fail(err, TM_EINPUT, "cannot read: %s", strerror(errno));
		if (!got)
			return 0;
		out->n += (size_t)got;
		out->s[out->n] = '\0';
		if (out->n - start > max_bytes)
			return tm_fail(err, TM_EINPUT, "larger than the limit of %zu bytes", max_bytes);
	}
}

int tm_read_file(const char *path, size_t max_bytes, struct tm_str *out, struct tm_err *err)
{
	struct stat st;
	int fd, rc;

	/* O_NONBLOCK so that a named pipe cannot hang us before it is refused. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return tm_fail_at(err, TM_EINPUT, path, 0, 0, "cannot open: %s", strerror(errno));
	if (fstat(fd, &st) < 0) {
		rc = tm_fail_at(err, TM_EINPUT, path, 0, 0, "cannot stat: %s", strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		rc = tm_fail_at(err, TM_EINPUT, path, 0, 0, "not a regular file");
	} else if ((unsigned long long)st.st_size > max_bytes) {
		rc = tm_fail_at(err, TM_EINPUT, path, 0, 0, "%lld bytes, larger than the limit of %zu",
				(long long)st.st_size, max_bytes);
	} else {
		rc = tm_read_fd(fd, max_bytes, out, err);
		if (rc && err)
			snprintf(err->file, sizeof err->file, "%s", path);
	}
	close(fd);
	return rc;
}

int tm_write_fd(int fd, const void *p, size_t n, struct tm_err *err)
{
	const char *s = p;

	while (n) {
		ssize_t put;

		if (tm_fault(TM_FAULT_WRITE)) {
			errno = ENOSPC;
			put = -1;
		} else {
			put = write(fd, s, n);
		}
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return tm_fail(err, TM_EIO, "cannot write: %s", strerror(errno));
		s += put;
		n -= (size_t)put;
	}
	return 0;
}

/* A device, a pipe: written as it is, since a rename would put a file in its place. */
static int write_in_place(const char *path, const void *p, size_t n, struct tm_err *err)
{
	/* O_NONBLOCK so that a named pipe that nobody reads cannot hang us; what is read may take its time */
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), flags, rc;

	if (fd < 0)
		return tm_fail_at(err, TM_EIO, path, 0, 0, "cannot open: %s", strerror(errno));
	flags = fcntl(fd, F_GETFL);
	if (flags >= 0)
		fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	rc = tm_write_fd(fd, p, n, err);
	if (close(fd) < 0 && !rc)
		rc = tm_fail_at(err, TM_EIO, path, 0, 0, "cannot close: %s", strerror(errno));
	if (rc && err)
		snprintf(err->file, sizeof err->file, "%s", path);
	return rc;
}

static int write_beside(const char *path, const void *p, size_t n, struct tm_err *err)
{
	struct tm_str tmp = TM_STR_INIT;
	int fd, rc;

	tm_str_addf(&tmp, "%s.tmp%ld", path, (long)getpid());
	fd = open(tmp.s, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0) {
		rc = tm_fail_at(err, TM_EIO, path, 0, 0, "cannot create: %s", strerror(errno));
		goto out;
	}
	rc = tm_write_fd(fd, p, n, err);
	if (!rc && (tm_fault(TM_FAULT_FSYNC) || fsync(fd) < 0))
		rc = tm_fail_at(err, TM_EIO, path, 0, 0, "cannot sync: %s", strerror(errno));
	if (close(fd) < 0 && !rc)
		rc = tm_fail_at(err, TM_EIO, path, 0, 0, "cannot close: %s", strerror(errno));
	if (!rc && (tm_fault(TM_FAULT_RENAME) || rename(tmp.s, path) < 0))
		rc = tm_fail_at(err, TM_EIO, path, 0, 0, "cannot rename: %s", strerror(errno));
	if (rc)
		unlink(tmp.s);
	if (rc && err)
		snprintf(err->file, sizeof err->file, "%s", path);
out:
	tm_str_free(&tmp);
	return rc;
}

int tm_write_file(const char *path, const void *p, size_t n, struct tm_err *err)
{
	struct stat st;
	char *target;
	int rc;

	if (stat(path, &st) < 0)
		return write_beside(path, p, n, err);
	if (S_ISDIR(st.st_mode))
		return tm_fail_at(err, TM_EIO, path, 0, 0, "a folder, not a file");
	/* through a link: it stays, and what it leads to is replaced; /dev/stdout can lead to what has no name */
	target = S_ISREG(st.st_mode) ? realpath(path, NULL) : NULL;
	rc = target ? write_beside(target, p, n, err) : write_in_place(path, p, n, err);
	free(target);
	return rc;
}

static int open_value(const char *dir, const char *file, int flags)
{
	char path[4096];

	if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
		return -1;
	return open(path, flags | O_CLOEXEC);
}

bool tm_value_get(const char *dir, const char *file, char *buf, size_t size)
{
	int fd = open_value(dir, file, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0;
}

bool tm_value_put(const char *dir, const char *file, const char *text)
{
	int fd = open_value(dir, file, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

int tm_mkdirs(const char *path, struct tm_err *err)
{
	char *copy = tm_xstrdup(path);
	int rc = 0;

	for (char *p = copy + (*copy != '\0'); ; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST) {
			rc = tm_fail_at(err, TM_EIO, copy, 0, 0, "cannot make the folder: %s", strerror(errno));
			break;
		}
		*p = c;
		if (!c)
			break;
	}
	free(copy);
	return rc;
}

char *tm_path_join(const char *dir, const char *name)
{
	struct tm_str s = TM_STR_INIT;

	tm_str_addf(&s, "%s%s%s", dir, *dir && tm_ends_with(dir, "/") ? "" : "/", name);
	return tm_str_detach(&s);
}

char *tm_path_dir(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return tm_xstrdup(".");
	if (slash == path)
		return tm_xstrdup("/");
	return tm_xstrndup(path, (size_t)(slash - path));
}

char *tm_program_dir(void)
{
	char buf[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", buf, sizeof buf - 1);

	if (n < 0)
		return tm_xstrdup(".");
	buf[n] = '\0';
	return tm_path_dir(buf);
}

bool tm_path_exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}
