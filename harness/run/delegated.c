#include "delegated.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where cgroup v2 is mounted, to be freed, or NULL. */
static char *mount_point(void)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	char *found = NULL;
	struct mntent *m;

	while (f && !found && (m = getmntent(f)))
		if (!strcmp(m->mnt_type, "cgroup2"))
			found = tm_xstrdup(m->mnt_dir);
	if (f)
		endmntent(f);
	return found;
}

/* The folder of our own cgroup, to be freed, or NULL. */
static char *own_folder(void)
{
	char buf[4096], *mount = mount_point(), *own, *dir = NULL;

	if (mount && tm_value_get("/proc/self", "cgroup", buf, sizeof buf) && (own = strstr(buf, "0::/"))) {
		own += 4;
		own[strcspn(own, "\n")] = '\0';
		/* the root belongs to the machine, never to us */
		if (*own)
			dir = tm_path_join(mount, own);
	}
	free(mount);
	return dir;
}

/* Ours alone: the only process in it is this one. */
static bool is_alone_in(const char *dir)
{
	char buf[256], self[32];

	snprintf(self, sizeof self, "%ld\n", (long)getpid());
	return tm_value_get(dir, "cgroup.procs", buf, sizeof buf) && !strcmp(buf, self);
}

char *delegated_open(void)
{
	char *dir = own_folder(), *leaf, buf[512];

	if (!dir)
		return NULL;
	if (!tm_value_get(dir, "cgroup.controllers", buf, sizeof buf) || !strstr(buf, "memory") || !is_alone_in(dir)) {
		free(dir);
		return NULL;
	}
	leaf = tm_path_join(dir, "harness");
	if ((mkdir(leaf, 0755) == 0 || errno == EEXIST) && tm_value_put(leaf, "cgroup.procs", "0") &&
	    tm_value_put(dir, "cgroup.subtree_control", "+memory")) {
		free(leaf);
		return dir;
	}
	tm_value_put(dir, "cgroup.procs", "0");
	rmdir(leaf);
	free(leaf);
	free(dir);
	return NULL;
}

void delegated_end_run(const char *dir, const char *run_id)
{
	struct tm_str path = TM_STR_INIT;

	if (!dir)
		return;
	tm_str_addf(&path, "%s/run-%s", dir, run_id);
	tm_value_put(path.s, "cgroup.kill", "1");
	rmdir(path.s);
	tm_str_free(&path);
}

void delegated_close(char *dir)
{
	char *leaf;

	if (!dir)
		return;
	leaf = tm_path_join(dir, "harness");
	tm_value_put(dir, "cgroup.subtree_control", "-memory");
	tm_value_put(dir, "cgroup.procs", "0");
	rmdir(leaf);
	free(leaf);
	free(dir);
}
