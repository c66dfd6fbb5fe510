/* Who is left of a run, found independently of the code under test. */
#ifndef TM_TEST_SURVIVORS_H
#define TM_TEST_SURVIVORS_H

#include "test.h"

#include "base/proc.h"
#include "base/str.h"

/* Processes of a run that live (zombies are dead), found by what they carry in their environment. */
static unsigned survivors(const char *run_prefix)
{
	struct tm_str entry = TM_STR_INIT;
	unsigned alive = 0;
	size_t n;
	struct tm_proc *v = tm_proc_all(&n);

	tm_str_addf(&entry, "TIDEMARK_RUN=%s", run_prefix);
	for (size_t i = 0; i < n; i++)
		if (v[i].state != 'Z' && v[i].state != 'X' && tm_proc_has_env_prefix(v[i].pid, entry.s))
			alive++;
	free(v);
	tm_str_free(&entry);
	return alive;
}

#endif
