#include "cgroup.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void cgroup_make(struct cgroup *cg, const char *parent, const char *name, uint64_t limit_bytes)
{
	char text[32];

	memset(cg, 0, sizeof *cg);
	if (!parent || strlen(parent) >= sizeof cg->parent || strlen(name) > 100)
		return;
	memcpy(cg->parent, parent, strlen(parent) + 1);
	snprintf(cg->path, sizeof cg->path, "%s/run-%s", parent, name);
	if (mkdir(cg->path, 0755) < 0) {
		cg->path[0] = '\0';
		return;
	}
	if (!limit_bytes)
		return;
	snprintf(text, sizeof text, "%" PRIu64, limit_bytes);
	cg->limited = tm_value_put(cg->path, "memory.max", text);
	tm_value_put(cg->path, "memory.swap.max", "0");
	/* the run is one thing: a half-dead one tells nothing */
	tm_value_put(cg->path, "memory.oom.group", "1");
}

void cgroup_enter(const struct cgroup *cg)
{
	if (cg->path[0])
		tm_value_put(cg->path, "cgroup.procs", "0");
}

void cgroup_leave(const struct cgroup *cg)
{
	char home[3200];

	if (!cg->path[0])
		return;
	/* "harness" is where tidemark moved itself (run/delegated.c) */
	snprintf(home, sizeof home, "%s/harness", cg->parent);
	tm_value_put(home, "cgroup.procs", "0");
}

void cgroup_kill(const struct cgroup *cg)
{
	if (cg->path[0])
		tm_value_put(cg->path, "cgroup.kill", "1");
}

uint64_t cgroup_peak_bytes(const struct cgroup *cg)
{
	char buf[64];

	return cg->path[0] && tm_value_get(cg->path, "memory.peak", buf, sizeof buf) ? strtoull(buf, NULL, 10) : 0;
}

uint64_t cgroup_oom_kills(const struct cgroup *cg)
{
	char buf[512], *p;

	if (!cg->path[0] || !tm_value_get(cg->path, "memory.events", buf, sizeof buf))
		return 0;
	p = strstr(buf, "oom_kill ");
	return p ? strtoull(p + 9, NULL, 10) : 0;
}

void cgroup_remove(struct cgroup *cg)
{
	if (cg->path[0])
		rmdir(cg->path);
	cg->path[0] = '\0';
}
