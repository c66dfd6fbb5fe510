#include "base/fault.h"

#ifdef TM_FAULTS
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[TM_FAULT_N] = {
	[TM_FAULT_WRITE] = "write", [TM_FAULT_FSYNC] = "fsync", [TM_FAULT_RENAME] = "rename",
	[TM_FAULT_SQLITE] = "sqlite", [TM_FAULT_SPAWN] = "spawn", [TM_FAULT_PIPE] = "pipe",
	[TM_FAULT_GRADIENT] = "gradient", [TM_FAULT_UPDATE] = "update", [TM_FAULT_REPLAY] = "replay",
	[TM_FAULT_OVERFLOW] = "overflow",
};

static struct {
	bool ready, fired;
	int point;               /* 0: any */
	unsigned left;           /* 0: off */
} fault;

void tm_fault_arm(int point, unsigned n)
{
	fault.ready = true;
	fault.fired = false;
	fault.point = point;
	fault.left = n;
}

bool tm_fault_fired(void)
{
	return fault.fired;
}

static void read_environment(void)
{
	const char *s = getenv("TIDEMARK_FAULT"), *colon;
	int64_t n;

	fault.ready = true;
	colon = s ? strchr(s, ':') : NULL;
	if (!colon || tm_parse_i64(colon + 1, &n) || n < 1)
		return;
	for (int i = 1; i < TM_FAULT_N; i++)
		if (strlen(names[i]) == (size_t)(colon - s) && !memcmp(names[i], s, (size_t)(colon - s)))
			fault.point = i;
	if (fault.point || *s == '*')
		fault.left = (unsigned)n;
}

bool tm_fault(enum tm_fault_point point)
{
	if (!fault.ready)
		read_environment();
	if (!fault.left || (fault.point && fault.point != (int)point))
		return false;
	if (--fault.left)
		return false;
	fault.fired = true;
	errno = ENOSPC;
	return true;
}
#else
typedef int tm_fault_is_off;
#endif
