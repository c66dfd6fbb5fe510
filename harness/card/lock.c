#include "card/lock.h"

#include "base/mem.h"
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * In a folder that all may write the file can be another user's: it is opened
 * as it is, since locking needs no right to write, and never through a link.
 * Never created with O_CREAT on one that exists: kernels refuse that there.
 */
static int open_in(const char *dir, const char *uuid, struct card_lock *l)
{
	int fd;

	snprintf(l->path, sizeof l->path, "%.80s/tidemark-%.90s.lock", dir, uuid);
	for (int i = 0; i < 2; i++) {
		fd = open(l->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0 && errno == EACCES)
			fd = open(l->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd >= 0 || errno != ENOENT)
			return fd;
		fd = open(l->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

static int open_file(const char *uuid, struct card_lock *l)
{
	const char *dirs[] = { getenv("TIDEMARK_LOCK_DIR"), "/run/lock", "/tmp" };

	for (size_t i = 0; i < TM_ARRAY_N(dirs); i++) {
		struct stat st;
		int fd = dirs[i] && *dirs[i] ? open_in(dirs[i], uuid, l) : -1;

		if (fd < 0)
			continue;
		if (!fstat(fd, &st) && S_ISREG(st.st_mode))
			return fd;
		close(fd);
	}
	return -1;
}

/* What the holder wrote: a line of ours, or whatever somebody put there. */
static void read_holder(int fd, char who[128])
{
	char text[96] = "";
	ssize_t n = pread(fd, text, sizeof text - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	for (char *p = text; *p; p++)
		*p = (char)(isprint((unsigned char)*p) ? *p : '?');
	snprintf(who, 128, "%s", *text ? text : "another process");
}

static void write_holder(int fd)
{
	char text[64];
	int n = snprintf(text, sizeof text, "tidemark, process %ld\n", (long)getpid());

	/* it helps people only; one that cannot be written holds just the same */
	if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n)
		return;
}

int card_lock_try(struct card_lock *l, const char *uuid, bool *held, char who[128], struct tm_err *err)
{
	char name[96];
	size_t n = 0;

	for (const char *p = uuid; *p && n < sizeof name - 1; p++)
		name[n++] = (char)(isalnum((unsigned char)*p) || *p == '-' ? *p : '_');
	name[n] = '\0';
	who[0] = '\0';
	*held = false;
	l->fd = open_file(name, l);
	if (l->fd < 0)
		return tm_fail(err, TM_EENV, "cannot open the lock of the card, %s: %s; TIDEMARK_LOCK_DIR names another folder", l->path,
			       strerror(errno));
	if (!flock(l->fd, LOCK_EX | LOCK_NB)) {
		*held = true;
		write_holder(l->fd);
		return 0;
	}
	read_holder(l->fd, who);
	close(l->fd);
	l->fd = -1;
	return 0;
}

/* The file stays: removing it would let two hold locks on two files of one name. */
void card_lock_drop(struct card_lock *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}
