#include "trouble.h"

#include "base/clock.h"
#include "base/err.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const char *const trouble_hangs[] = {
	"sleep", "spin", "ignore-term", "stop", "close-stdout", "pipe-held", "half-line", "chatter", NULL,
};
const char *const trouble_crashes[] = { "segv", "abort", "exit1", "kill9", "killed", NULL };
const char *const trouble_forks[] = { "child", "setsid", "stopped", "double", NULL };

static _Noreturn void wait_for_ever(void)
{
	for (;;)
		pause();
}

/* One line on stdout as fast as it is taken, to fill logs. */
static _Noreturn void chatter(void)
{
	static const char line[] = "the quick brown fox jumps over the lazy dog and tells everybody about it\n";

	for (;;)
		if (write(STDOUT_FILENO, line, sizeof line - 1) < 0)
			tm_sleep_us(1000);
}

/* The beginning of an event that never ends: no newline, a few kilobytes a second. */
static _Noreturn void half_line(struct event_out *ev)
{
	static const char begin[] = "{\"e\":\"steps\",\"us\":[1";

	event_raw(ev, begin, sizeof begin - 1);
	for (;;) {
		event_raw(ev, ",1", 2);
		tm_sleep_us(200);
	}
}

/* The worker ends without a result, and a child of a session of its own keeps the event stream open. */
static _Noreturn void hold_pipe(void)
{
	if (fork())
		_exit(0);
	setsid();
	wait_for_ever();
}

static _Noreturn void spin(void)
{
	for (volatile unsigned long i = 0; ; i++)
		;
}

void trouble_hang(const char *how, struct event_out *ev)
{
	if (strcmp(how, "spin") == 0)
		spin();
	if (strcmp(how, "chatter") == 0)
		chatter();
	if (strcmp(how, "half-line") == 0)
		half_line(ev);
	if (strcmp(how, "pipe-held") == 0)
		hold_pipe();
	if (strcmp(how, "ignore-term") == 0)
		signal(SIGTERM, SIG_IGN);
	if (strcmp(how, "stop") == 0)
		raise(SIGSTOP);
	if (strcmp(how, "close-stdout") == 0) {
		close(STDIN_FILENO);
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
	}
	wait_for_ever();
}

void trouble_crash(const char *how)
{
	static const struct rlimit no_core = { 0, 0 };
	int sig = SIGSEGV;

	setrlimit(RLIMIT_CORE, &no_core);       /* wanted crashes need no core files */
	if (strcmp(how, "exit1") == 0)
		_exit(1);
	if (strcmp(how, "abort") == 0)
		sig = SIGABRT;
	else if (strcmp(how, "kill9") == 0)
		sig = SIGKILL;
	else if (strcmp(how, "killed") == 0)
		sig = SIGTERM;
	signal(sig, SIG_DFL);
	raise(sig);
	BUG("signal %d did not end this process", sig);
}

static _Noreturn void stay_behind(const char *how, struct event_out *ev)
{
	close(event_fd(ev));             /* else it would also be "pipe-held" */
	if (strcmp(how, "setsid") == 0)
		setsid();
	if (strcmp(how, "double") == 0) {
		setsid();
		if (fork())
			_exit(0);
	}
	if (strcmp(how, "stopped") == 0)
		raise(SIGSTOP);
	wait_for_ever();
}

void trouble_fork(const char *how, struct event_out *ev)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		stay_behind(how, ev);
}
