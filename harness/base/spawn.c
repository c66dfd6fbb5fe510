#include "base/spawn.h"

#include "base/err.h"
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/* The largest number that means something in the child; above it everything is closed. */
static int highest(const struct tm_spawn *s)
{
	int top = STDERR_FILENO;

	for (size_t i = 0; i < s->fd_n; i++)
		if (s->fds[i].child > top)
			top = s->fds[i].child;
	return top;
}

/*
 * Where each descriptor is taken from: what lies among the child's numbers is
 * copied above them first, so that no dup2 overwrites the source of another,
 * and none is of a descriptor onto itself, which would keep close-on-exec.
 */
static int find_sources(const struct tm_spawn *s, int top, int *source)
{
	for (size_t i = 0; i < s->fd_n; i++)
		source[i] = s->fds[i].ours;
	for (size_t i = 0; i < s->fd_n; i++) {
		if (source[i] == TM_SPAWN_NULL || source[i] > top)
			continue;
		source[i] = fcntl(s->fds[i].ours, F_DUPFD_CLOEXEC, top + 1);
		if (source[i] < 0) {
			int rc = errno;

			source[i] = s->fds[i].ours;
			return rc;
		}
	}
	return 0;
}

static void close_copies(const struct tm_spawn *s, const int *source)
{
	for (size_t i = 0; i < s->fd_n; i++)
		if (source[i] != s->fds[i].ours)
			close(source[i]);
}

static bool listed(const struct tm_spawn *s, int fd)
{
	for (size_t i = 0; i < s->fd_n; i++)
		if (s->fds[i].child == fd)
			return true;
	return false;
}

static int add_files(posix_spawn_file_actions_t *files, const struct tm_spawn *s, int top, const int *source)
{
	int rc = 0;

	for (size_t i = 0; i < s->fd_n && !rc; i++) {
		int fd = s->fds[i].child;

		if (source[i] == TM_SPAWN_NULL)
			rc = posix_spawn_file_actions_addopen(files, fd, "/dev/null", fd ? O_WRONLY : O_RDONLY, 0);
		else
			rc = posix_spawn_file_actions_adddup2(files, source[i], fd);
	}
	for (int fd = STDERR_FILENO + 1; fd < top && !rc; fd++)
		if (!listed(s, fd))
			rc = posix_spawn_file_actions_addclose(files, fd);
	if (!rc)
		rc = posix_spawn_file_actions_addclosefrom_np(files, top + 1);
	if (!rc && s->dir && *s->dir)
		rc = posix_spawn_file_actions_addchdir_np(files, s->dir);
	return rc;
}

static void set_attributes(posix_spawnattr_t *attr, enum tm_spawn_group group)
{
	short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
	sigset_t none, all;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_setsigmask(attr, &none);
	posix_spawnattr_setsigdefault(attr, &all);
	if (group == TM_SPAWN_GROUP)
		flags |= POSIX_SPAWN_SETPGROUP;
	else if (group == TM_SPAWN_SESSION)
		flags |= POSIX_SPAWN_SETSID;
	posix_spawnattr_setflags(attr, flags);
}

static int start(const struct tm_spawn *s, int top, const int *source, pid_t *pid)
{
	char *const *env = s->env ? s->env : environ;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int rc;

	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attr);
	set_attributes(&attr, s->group);
	rc = add_files(&files, s, top, source);
	if (!rc && tm_fault(TM_FAULT_SPAWN))
		rc = EAGAIN;
	else if (!rc && s->program)
		rc = posix_spawn(pid, s->program, &files, &attr, s->argv, env);
	else if (!rc)
		rc = posix_spawnp(pid, s->argv[0], &files, &attr, s->argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return rc;
}

/* posix_spawn tells what went wrong, not where: looked up afterwards. */
static const char *blame(const struct tm_spawn *s)
{
	struct stat st;

	if (s->dir && *s->dir && (stat(s->dir, &st) < 0 || !S_ISDIR(st.st_mode) || access(s->dir, X_OK) < 0))
		return s->dir;
	return s->program ? s->program : s->argv[0];
}

int tm_spawn(const struct tm_spawn *s, pid_t *pid, const char **place)
{
	int source[TM_SPAWN_FD_MAX], top = highest(s), rc;

	BUG_ON(s->fd_n > TM_SPAWN_FD_MAX);
	rc = find_sources(s, top, source);
	if (!rc)
		rc = start(s, top, source, pid);
	close_copies(s, source);
	if (rc && place)
		*place = blame(s);
	return rc;
}
