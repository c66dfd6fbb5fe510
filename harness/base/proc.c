/*
 * Reads /proc with plain calls into fixed buffers: the guard asks every 50 ms
 * while something is measured, so this must be cheap. Processes are found by
 * listing /proc and comparing parents; /proc/PID/task/TID/children would be
 * quicker but is a build option of the kernel and, by its manual, only
 * reliable for stopped processes.
 */
#include "base/proc.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A whole small file of /proc; the number of bytes or -1. buf is terminated. */
static ssize_t slurp(const char *path, char *buf, size_t size)
{
	size_t n = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while (n + 1 < size) {
		ssize_t got = read(fd, buf + n, size - 1 - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	close(fd);
	buf[n] = '\0';
	return (ssize_t)n;
}

bool tm_proc_read(pid_t pid, struct tm_proc *out)
{
	char path[48], buf[1024], *p;
	long ppid;
	char state;

	snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
	if (slurp(path, buf, sizeof buf) <= 0)
		return false;
	/* the name in brackets may hold anything, brackets too: count from the last one */
	p = strrchr(buf, ')');
	if (!p || sscanf(p + 1, " %c %ld", &state, &ppid) != 2)
		return false;
	out->pid = pid;
	out->ppid = (pid_t)ppid;
	out->state = state;
	out->start_ticks = 0;
	for (int field = 3; field <= 22 && p; field++)
		p = strchr(p + 1, ' ');
	if (p)
		out->start_ticks = strtoull(p + 1, NULL, 10);
	return true;
}

struct tm_proc *tm_proc_all(size_t *n)
{
	struct tm_proc *v = NULL;
	size_t cap = 0;
	struct dirent *e;
	DIR *dir = opendir("/proc");

	*n = 0;
	if (!dir)
		return NULL;
	while ((e = readdir(dir))) {
		char *end;
		long pid;

		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		pid = strtol(e->d_name, &end, 10);
		if (*end)
			continue;
		if (*n == cap) {
			cap = cap ? 2 * cap : 128;
			v = tm_xrealloc_n(v, cap, sizeof *v);
		}
		if (tm_proc_read((pid_t)pid, &v[*n]))
			(*n)++;
	}
	closedir(dir);
	return v;
}

size_t tm_proc_below(pid_t root, struct tm_proc *v, size_t n)
{
	size_t below = 0, seen = 0;
	pid_t parent = root;

	/* v[0..below) is found; v[seen] is the next whose children are looked for */
	for (;;) {
		for (size_t i = below; i < n; i++) {
			struct tm_proc found = v[i];

			if (found.ppid != parent || found.pid == root)
				continue;
			v[i] = v[below];
			v[below++] = found;
		}
		if (seen == below)
			return below;
		parent = v[seen++].pid;
	}
}

static bool has_env(pid_t pid, const char *entry, bool prefix)
{
	size_t want = strlen(entry) + !prefix, cap = 65536;
	char path[48], *buf;
	ssize_t n;
	bool found = false;

	snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
	buf = tm_xmalloc(cap);
	while ((n = slurp(path, buf, cap)) == (ssize_t)cap - 1 && cap < (4u << 20)) {
		cap *= 4;
		buf = tm_xrealloc_n(buf, cap, 1);
	}
	for (ssize_t i = 0; i < n && !found; i += (ssize_t)strlen(buf + i) + 1)
		found = (size_t)(n + 1 - i) >= want && !memcmp(buf + i, entry, want);
	free(buf);
	return found;
}

bool tm_proc_has_env(pid_t pid, const char *entry)
{
	return has_env(pid, entry, false);
}

bool tm_proc_has_env_prefix(pid_t pid, const char *prefix)
{
	return has_env(pid, prefix, true);
}

uint64_t tm_proc_rss_bytes(pid_t pid)
{
	char path[48], buf[256], *p;

	snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
	if (slurp(path, buf, sizeof buf) <= 0 || !(p = strchr(buf, ' ')))
		return 0;
	return strtoull(p + 1, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t tm_proc_pss_bytes(pid_t pid)
{
	char path[48], buf[2048], *p;

	snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", (long)pid);
	if (slurp(path, buf, sizeof buf) <= 0 || !(p = strstr(buf, "\nPss:")))
		return 0;
	return strtoull(p + 5, NULL, 10) * 1024;
}

long tm_proc_last_pid(void)
{
	char buf[128], *p;

	if (slurp("/proc/loadavg", buf, sizeof buf) <= 0 || !(p = strrchr(buf, ' ')))
		return -1;
	return strtol(p + 1, NULL, 10);
}

void tm_boot_id(char out[37])
{
	if (slurp("/proc/sys/kernel/random/boot_id", out, 37) != 36)
		out[0] = '\0';
}
