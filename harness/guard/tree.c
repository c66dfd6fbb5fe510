#include "tree.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int tree_reap(struct tree_end *end)
{
	int others = 0;

	for (;;) {
		struct rusage usage;
		int status;
		pid_t pid = wait4(-1, &status, WNOHANG, &usage);

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			return -1;
		if (!pid)
			return others;
		if (pid != end->worker) {
			others++;
			continue;
		}
		end->reaped = true;
		end->wait_status = status;
		/*
		 * A child's ru_maxrss starts from the memory of whoever spawned
		 * it. Here that is this program with its one or two megabytes,
		 * whatever the size of tidemark: one reason for a guard.
		 */
		end->host_peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
	}
}

/* Signals every descendant that is no zombie; returns how many there were. */
static unsigned kill_below(pid_t worker, pid_t *one)
{
	size_t n, below;
	struct tm_proc *v = tm_proc_all(&n);
	unsigned alive = 0;

	below = tm_proc_below(getpid(), v, n);
	for (size_t i = 0; i < below; i++) {
		*one = v[i].pid;
		if (v[i].state == 'Z')
			continue;
		kill(v[i].pid, SIGKILL);
		if (v[i].pid != worker)
			alive++;
	}
	free(v);
	return alive;
}

/* Until a child dies, or for so long. SIGCHLD is blocked, so none is missed. */
static void wait_for_child(int64_t us)
{
	struct timespec ts = { us / 1000000, us % 1000000 * 1000 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigtimedwait(&set, NULL, &ts);
}

unsigned tree_kill(struct tree_end *end, int64_t limit_us, unsigned *others_n, pid_t *stuck)
{
	int64_t until_us = tm_mono_us() + limit_us, pause_us = 1000;
	unsigned most = 0;

	*others_n = 0;
	while (tree_reap(end) >= 0) {
		unsigned others;

		if (!end->reaped)
			kill(-end->worker, SIGKILL);
		others = kill_below(end->worker, stuck);
		if (others > most)
			most = others;
		if (tm_mono_us() >= until_us) {
			unsigned stuck_n = others + !end->reaped;

			*others_n = most;
			return stuck_n ? stuck_n : 1;
		}
		wait_for_child(pause_us);
		if (pause_us < 64000)
			pause_us *= 2;
	}
	*others_n = most;
	return 0;
}

static void list_tree(struct tree_memory *m, int64_t now_us)
{
	long last_pid = tm_proc_last_pid();
	struct tm_proc *v;
	size_t n, below;

	if (now_us < m->next_list_us || (m->pids && last_pid >= 0 && last_pid == m->last_pid))
		return;
	v = tm_proc_all(&n);
	below = tm_proc_below(getpid(), v, n);
	m->pids = tm_xrealloc_n(m->pids, below + 1, sizeof *m->pids);
	m->n = 0;
	for (size_t i = 0; i < below; i++)
		m->pids[m->n++] = v[i].pid;
	m->last_pid = last_pid;
	m->next_list_us = now_us + 200 * (tm_mono_us() - now_us);
	free(v);
}

uint64_t tree_memory_bytes(struct tree_memory *m)
{
	uint64_t sum = 0;

	list_tree(m, tm_mono_us());
	for (size_t i = 0; i < m->n; i++)
		sum += tm_proc_rss_bytes(m->pids[i]);
	if (sum > m->peak_bytes)
		m->peak_bytes = sum;
	return sum;
}

uint64_t tree_memory_exact(const struct tree_memory *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->n; i++) {
		uint64_t pss = tm_proc_pss_bytes(m->pids[i]);

		sum += pss ? pss : tm_proc_rss_bytes(m->pids[i]);
	}
	return sum;
}

void tree_memory_free(struct tree_memory *m)
{
	free(m->pids);
	m->pids = NULL;
}
