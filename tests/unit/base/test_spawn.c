/* The test starts itself: the child writes what it sees of itself to its descriptor 1. */
#include "test.h"

#include "base/fault.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FD_LIMIT 300
#define SELF "/proc/self/exe"

/* ---- the child ------------------------------------------------------------- */

static bool is_null(int fd)
{
	struct stat st, null;

	return !fstat(fd, &st) && !stat("/dev/null", &null) && S_ISCHR(st.st_mode) && st.st_rdev == null.st_rdev;
}

/* "0=null 20=b": number and first byte of every open descriptor but the standard output. */
static int child_fds(void)
{
	for (int fd = 0; fd < FD_LIMIT; fd++) {
		char c = '?';

		if (fd == 1 || fcntl(fd, F_GETFD) < 0)
			continue;
		if (is_null(fd))
			dprintf(1, "%d=null ", fd);
		else
			dprintf(1, "%d=%c ", fd, pread(fd, &c, 1, 0) == 1 ? c : '?');
	}
	return 0;
}

static int child_signals(void)
{
	sigset_t mask;

	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int sig = 1; sig < 65; sig++) {
		struct sigaction now;

		if (!sigaction(sig, NULL, &now) && now.sa_handler == SIG_IGN)
			dprintf(1, "%d ignored ", sig);
		if (sigismember(&mask, sig) == 1)
			dprintf(1, "%d blocked ", sig);
	}
	return 0;
}

static int child_place(void)
{
	const char *word = getenv("SPAWN_TEST");
	char dir[256];

	dprintf(1, "%s %s %s %s", getcwd(dir, sizeof dir) ? dir : "?", word ? word : "-",
		getpgrp() == getpid() ? "group" : "-", getsid(0) == getpid() ? "session" : "-");
	return 0;
}

/* ---- the parent ------------------------------------------------------------- */

/* A file in memory that begins with this byte, with close-on-exec, at this number. */
static void letter_at(int fd, char c)
{
	int made = memfd_create("letter", MFD_CLOEXEC);

	assert_true(made >= 0);
	assert_int_equal(write(made, &c, 1), 1);
	assert_int_equal(dup3(made, fd, O_CLOEXEC), fd);
	close(made);
}

static int open_n(void)
{
	int n = 0;

	for (int fd = 0; fd < FD_LIMIT; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Starts `what` of the child with one more descriptor, 1, and returns what it wrote there. */
static const char *told(struct tm_spawn s, const char *what)
{
	char *argv[] = { (char *)"test", (char *)what, NULL };
	struct tm_spawn_fd fds[TM_SPAWN_FD_MAX];
	static char text[1024];
	int out = memfd_create("out", MFD_CLOEXEC), before, status;
	const char *place = NULL;
	ssize_t n;
	pid_t pid;

	assert_true(out >= 0);
	before = open_n();
	for (size_t i = 0; i < s.fd_n; i++)
		fds[i] = s.fds[i];
	fds[s.fd_n++] = (struct tm_spawn_fd){ 1, out };
	s.program = SELF;
	s.argv = argv;
	s.fds = fds;
	assert_int_equal(tm_spawn(&s, &pid, &place), 0);
	assert_null(place);
	assert_int_equal(open_n(), before);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	n = pread(out, text, sizeof text - 1, 0);
	assert_true(n >= 0);
	text[n] = '\0';
	close(out);
	return text;
}

static void numbers_that_overlap(void **state)
{
	static const struct tm_spawn_fd ring[] = {
		{ 0, TM_SPAWN_NULL }, { 2, TM_SPAWN_NULL }, { 20, 21 }, { 21, 22 }, { 22, 20 }, { 23, 23 }, { 24, 20 },
	};
	static const struct tm_spawn_fd swap[] = { { 0, 20 }, { 2, 0 }, { 20, 2 } };
	int in = dup(0), err = dup(2);
	const char *text;

	(void)state;
	for (int i = 0; i < 4; i++)
		letter_at(20 + i, (char)('a' + i));
	assert_string_equal(told((struct tm_spawn){ .fds = ring, .fd_n = TM_ARRAY_N(ring) }, "fds"),
			    "0=null 2=null 20=b 21=c 22=a 23=d 24=a ");
	/* the standard ones are numbers as any other */
	letter_at(0, 'i');
	letter_at(2, 'e');
	text = told((struct tm_spawn){ .fds = swap, .fd_n = TM_ARRAY_N(swap) }, "fds");
	dup2(in, 0);
	dup2(err, 2);
	assert_string_equal(text, "0=a 2=i 20=e ");
	for (int i = 0; i < 4; i++)
		close(20 + i);
	close(in);
	close(err);
}

static void nothing_else_is_inherited(void **state)
{
	static const struct tm_spawn_fd fds[] = { { 0, TM_SPAWN_NULL }, { 2, TM_SPAWN_NULL }, { 47, 40 } };
	static const int open_too[] = { 40, 41, 47, 48, 200 };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(open_too); i++) {
		letter_at(open_too[i], (char)('a' + i));
		fcntl(open_too[i], F_SETFD, 0);
	}
	assert_string_equal(told((struct tm_spawn){ .fds = fds, .fd_n = 3 }, "fds"), "0=null 2=null 47=a ");
	assert_string_equal(told((struct tm_spawn){ .fds = fds, .fd_n = 2 }, "fds"), "0=null 2=null ");
	for (size_t i = 0; i < TM_ARRAY_N(open_too); i++) {
		assert_int_equal(fcntl(open_too[i], F_GETFD), 0);
		close(open_too[i]);
	}
}

static void standard_ones_not_listed_are_ours(void **state)
{
	int in = dup(0), err = dup(2);
	const char *text;

	(void)state;
	letter_at(0, 'i');
	letter_at(2, 'e');
	fcntl(0, F_SETFD, 0);
	fcntl(2, F_SETFD, 0);
	text = told((struct tm_spawn){ 0 }, "fds");
	dup2(in, 0);
	dup2(err, 2);
	close(in);
	close(err);
	assert_string_equal(text, "0=i 2=e ");
}

static void signals_are_as_in_a_fresh_program(void **state)
{
	sigset_t block, before;
	const char *text;

	(void)state;
	sigemptyset(&block);
	sigaddset(&block, SIGUSR2);
	sigaddset(&block, SIGTERM);
	sigprocmask(SIG_BLOCK, &block, &before);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	text = told((struct tm_spawn){ 0 }, "signals");
	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	assert_string_equal(text, "");
}

static void folder_environment_and_group(void **state)
{
	char *env[] = { (char *)"SPAWN_TEST=word", NULL };

	(void)state;
	setenv("SPAWN_TEST", "ours", 1);
	assert_string_equal(told((struct tm_spawn){ .dir = "/", .env = env }, "place"), "/ word - -");
	assert_string_equal(told((struct tm_spawn){ .dir = "/", .group = TM_SPAWN_GROUP }, "place"), "/ ours group -");
	assert_string_equal(told((struct tm_spawn){ .dir = "/", .group = TM_SPAWN_SESSION }, "place"), "/ ours group session");
	assert_non_null(strstr(told((struct tm_spawn){ .dir = "" }, "place"), " ours - -"));
	unsetenv("SPAWN_TEST");
}

static int fails(const struct tm_spawn *s, const char **place)
{
	int before = open_n(), rc;
	pid_t pid;

	*place = NULL;
	rc = tm_spawn(s, &pid, place);
	assert_int_not_equal(rc, 0);
	assert_int_equal(open_n(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	return rc;
}

static void what_cannot_be_started(void **state)
{
	static const struct tm_spawn_fd closed[] = { { 0, 250 } }, closed_below[] = { { 0, TM_SPAWN_NULL }, { 30, 0 }, { 31, 29 } };
	char *argv[] = { (char *)"no-such-program-anywhere", NULL };
	const char *place;

	(void)state;
	assert_int_equal(fails(&(struct tm_spawn){ .program = "/no/such", .argv = argv }, &place), ENOENT);
	assert_string_equal(place, "/no/such");
	assert_int_equal(fails(&(struct tm_spawn){ .argv = argv }, &place), ENOENT);
	assert_ptr_equal(place, argv[0]);
	assert_int_equal(fails(&(struct tm_spawn){ .program = "/etc/passwd", .argv = argv, .dir = "/" }, &place), EACCES);
	assert_string_equal(place, "/etc/passwd");
	assert_int_equal(fails(&(struct tm_spawn){ .program = SELF, .argv = argv, .dir = "/no/folder" }, &place), ENOENT);
	assert_string_equal(place, "/no/folder");
	assert_int_equal(fails(&(struct tm_spawn){ .program = SELF, .argv = argv, .dir = "/etc/passwd" }, &place), ENOTDIR);
	assert_string_equal(place, "/etc/passwd");
	assert_int_equal(fails(&(struct tm_spawn){ .program = SELF, .argv = argv, .fds = closed, .fd_n = 1 }, &place), EBADF);
	assert_int_equal(fails(&(struct tm_spawn){ .program = SELF, .argv = argv, .fds = closed_below, .fd_n = 3 }, &place), EBADF);
	assert_string_equal(place, SELF);
	assert_int_not_equal(tm_spawn(&(struct tm_spawn){ .program = "/no/such", .argv = argv }, &(pid_t){ 0 }, NULL), 0);
}

static void a_name_is_searched_in_path(void **state)
{
	char *argv[] = { (char *)"true", NULL };
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(tm_spawn(&(struct tm_spawn){ .argv = argv }, &pid, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_fault(void **state)
{
#ifdef TM_FAULTS
	static const struct tm_spawn_fd fds[] = { { 0, 2 }, { 1, 0 } };
	char *argv[] = { (char *)"true", NULL };
	const char *place;

	(void)state;
	tm_fault_arm(TM_FAULT_SPAWN, 1);
	assert_int_equal(fails(&(struct tm_spawn){ .argv = argv, .fds = fds, .fd_n = 2 }, &place), EAGAIN);
	assert_true(tm_fault_fired());
	assert_ptr_equal(place, argv[0]);
	tm_fault_arm(0, 0);
#else
	(void)state;
	skip();
#endif
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_that_overlap),
		cmocka_unit_test(nothing_else_is_inherited),
		cmocka_unit_test(standard_ones_not_listed_are_ours),
		cmocka_unit_test(signals_are_as_in_a_fresh_program),
		cmocka_unit_test(folder_environment_and_group),
		cmocka_unit_test(what_cannot_be_started),
		cmocka_unit_test(a_name_is_searched_in_path),
		cmocka_unit_test(a_fault),
	};

	if (argc > 1)
		return !strcmp(argv[1], "fds") ? child_fds() : !strcmp(argv[1], "signals") ? child_signals() : child_place();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
