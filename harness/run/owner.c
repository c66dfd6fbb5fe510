#include "owner.h"

#include "base/proc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct owner {
	char host[65], boot[37], space[65];
	long pid;
	uint64_t start_ticks;
};

static void owner_self(struct owner *o)
{
	struct tm_proc self = { 0 };
	ssize_t n;

	memset(o, 0, sizeof *o);
	if (gethostname(o->host, sizeof o->host - 1) < 0 || !o->host[0])
		snprintf(o->host, sizeof o->host, "unknown");
	for (char *p = o->host; *p; p++)
		if (*p <= ' ')
			*p = '_';
	tm_boot_id(o->boot);
	n = readlink("/proc/self/ns/pid", o->space, sizeof o->space - 1);
	if (n <= 0)
		snprintf(o->space, sizeof o->space, "pid");
	o->pid = (long)getpid();
	if (tm_proc_read(getpid(), &self))
		o->start_ticks = self.start_ticks;
}

void owner_text(char out[320])
{
	struct owner o;

	owner_self(&o);
	snprintf(out, 320, "%s %s %s %ld %" PRIu64, o.host, o.boot[0] ? o.boot : "-", o.space, o.pid, o.start_ticks);
}

bool owner_alive(const char *text, int64_t beat_age_us)
{
	struct owner self, o = { 0 };
	struct tm_proc p;

	if (!text || sscanf(text, "%64s %36s %64s %ld %" SCNu64, o.host, o.boot, o.space, &o.pid, &o.start_ticks) != 5)
		return false;
	owner_self(&self);
	if (!strcmp(o.boot, self.boot) && !strcmp(o.space, self.space))
		return tm_proc_read((pid_t)o.pid, &p) && p.state != 'Z' && p.start_ticks == o.start_ticks;
	if (!strcmp(o.host, self.host) && strcmp(o.boot, self.boot))
		return false;
	return beat_age_us < OWNER_LOST_US;
}
