#include "leftovers.h"

#include "guard/wire.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void leftovers_init(struct leftovers *l)
{
	size_t n;
	struct tm_proc *v = tm_proc_all(&n);

	l->known = tm_xcalloc(n + 1, sizeof *l->known);
	l->known_n = 0;
	for (size_t i = 0; i < n; i++)
		if (v[i].ppid == getpid())
			l->known[l->known_n++] = v[i].pid;
	free(v);
	l->was_subreaper = 0;
	prctl(PR_GET_CHILD_SUBREAPER, &l->was_subreaper);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void leftovers_fini(struct leftovers *l)
{
	prctl(PR_SET_CHILD_SUBREAPER, l->was_subreaper);
	free(l->known);
	l->known = NULL;
}

static bool is_known(const struct leftovers *l, pid_t pid)
{
	for (size_t i = 0; i < l->known_n; i++)
		if (l->known[i] == pid)
			return true;
	return false;
}

/* One round: reaps the dead, kills the living; returns how many lived. */
static unsigned end_once(const struct leftovers *l, const char *entry, unsigned *reaped_n, pid_t *one)
{
	size_t n;
	struct tm_proc *v = tm_proc_all(&n);
	unsigned alive = 0;

	for (size_t i = 0; i < n; i++) {
		bool ours = v[i].ppid == getpid() && !is_known(l, v[i].pid);

		if (v[i].pid == getpid() || is_known(l, v[i].pid))
			continue;
		if (!ours && (v[i].state == 'Z' || !tm_proc_has_env(v[i].pid, entry)))
			continue;
		kill(v[i].pid, SIGKILL);
		if (ours && waitpid(v[i].pid, NULL, WNOHANG) == v[i].pid) {
			(*reaped_n)++;
			continue;
		}
		*one = v[i].pid;
		alive++;
	}
	free(v);
	return alive;
}

unsigned leftovers_end(const struct leftovers *l, const char *run_id, unsigned *ended_n, pid_t *stuck)
{
	int64_t until_us = tm_mono_us() + GUARD_KILL_US, pause_us = 1000;
	struct tm_str entry = TM_STR_INIT;
	unsigned alive;

	*ended_n = 0;
	tm_str_addf(&entry, "TIDEMARK_RUN=%s", run_id);
	while ((alive = end_once(l, entry.s, ended_n, stuck)) && tm_mono_us() < until_us) {
		tm_sleep_us(pause_us);
		if (pause_us < 64000)
			pause_us *= 2;
	}
	tm_str_free(&entry);
	return alive;
}

void leftovers_end_sweep(const char *uuid)
{
	struct tm_str prefix = TM_STR_INIT;
	size_t n;
	struct tm_proc *v = tm_proc_all(&n);

	tm_str_addf(&prefix, "TIDEMARK_RUN=%s.", uuid);
	for (size_t i = 0; i < n; i++)
		if (v[i].pid != getpid() && v[i].state != 'Z' && tm_proc_has_env_prefix(v[i].pid, prefix.s))
			kill(v[i].pid, SIGKILL);
	free(v);
	tm_str_free(&prefix);
}
