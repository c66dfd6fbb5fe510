/*
 * kill -9 of tidemark, its guard or its worker at random moments. Whatever
 * dies, nothing of the run may outlive it for two seconds, the database must
 * be whole, and resuming must complete the sweep without doing anything
 * twice. tests/e2e/kill.sh does the same 200 times with the real programs.
 */
#include "sweep_fixture.h"
#include "survivors.h"

#include "run/schedule.h"

#include <sys/wait.h>

#define ROUNDS 36                         /* a third each */

enum victim { TIDEMARK, GUARD, WORKER, VICTIM_N };

/*
 * Workers that leave every kind of child behind, so that there is something
 * to overlook. While the file `gate` exists they do not end by themselves: a
 * run that is over in milliseconds would hide a guard that does nothing.
 */
static const char *const modes[] = { "setsid", "double", "stopped", "child", "pipe-held" };
#define POINTS 5
#define REPS 2

static char gate[96];

static struct spec *make_spec(void)
{
	const char *params[POINTS + 1] = { NULL };
	char text[POINTS][256];

	for (size_t i = 0; i < POINTS; i++) {
		snprintf(text[i], sizeof text[i], "\"mode\":\"%s\",\"step_us\":6000,\"gate\":\"%s\"", modes[i], gate);
		params[i] = text[i];
	}
	return fixture_spec(params, REPS);
}

static void close_gate(void)
{
	int fd = open(gate, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static pid_t child_in_run(pid_t parent, const char *entry)
{
	pid_t found = 0;
	size_t n;
	struct tm_proc *v = tm_proc_all(&n);

	for (size_t i = 0; i < n; i++)
		if (v[i].ppid == parent && v[i].state != 'Z' && tm_proc_has_env_prefix(v[i].pid, entry))
			found = v[i].pid;
	free(v);
	return found;
}

/* The process to kill just now, or 0 where there is none. */
static pid_t find_victim(pid_t tidemark, enum victim which)
{
	pid_t guard;

	if (which == TIDEMARK)
		return tidemark;
	guard = child_in_run(tidemark, "TIDEMARK_RUN=");
	return which == GUARD || !guard ? guard : child_in_run(guard, "TIDEMARK_RUN=");
}

static bool database_ready(void)
{
	return access(fixture_db, F_OK) == 0 && ask("SELECT count(*) FROM sqlite_master WHERE name = 'event'") == 1 &&
	       ask("SELECT count(*) FROM sweep") > 0;
}

static void check_nobody_is_left(enum victim which)
{
	char *uuid = ask_text("SELECT uuid FROM sweep");
	int64_t until_us = tm_mono_us() + 2000000;
	unsigned n;

	while ((n = survivors(uuid)) && tm_mono_us() < until_us)
		tm_sleep_us(5000);
	if (n)
		fail_msg("%u processes live two seconds after kill -9 of victim %d", n, which);
	free(uuid);
}

static void check_database(void)
{
	char *integrity = ask_text("PRAGMA integrity_check");

	assert_string_equal(integrity, "ok");
	free(integrity);
	/* a finished run has all of its values; any other none */
	assert_int_equal(ask("SELECT count(*) FROM run r WHERE status = 'ok' AND (SELECT count(*) FROM value v WHERE v.run_id = r.run_id) < 8"), 0);
	assert_int_equal(ask("SELECT count(*) FROM run r WHERE status <> 'ok' AND EXISTS(SELECT 1 FROM value v WHERE v.run_id = r.run_id)"), 0);
}

static void check_complete(enum victim which)
{
	/* a worker that was killed is a result (crash); everything else must have been done, once */
	assert_int_equal(ask("SELECT count(*) FROM (SELECT DISTINCT config_id, rep FROM run WHERE status IN ('ok', 'crash'))"), POINTS * REPS);
	assert_true(ask("SELECT count(*) FROM run WHERE status = 'crash'") <= (which == WORKER));
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status NOT IN ('ok', 'crash', 'interrupted')"), 0);
	assert_int_equal(ask("SELECT count(*) FROM (SELECT 1 FROM run WHERE status = 'ok' GROUP BY config_id, rep HAVING count(*) > 1)"), 0);
}

/* Returns whether somebody was there to be killed. */
static bool one_round(const struct spec *spec, enum victim which, int64_t wait_us, bool gated)
{
	struct run_summary sum;
	struct tm_err err = { 0 };
	pid_t tidemark, victim;
	int status;

	fixture_fresh();
	unlink(gate);
	tidemark = fork();
	assert_true(tidemark >= 0);
	if (!tidemark)
		_exit(-fixture_run(spec, &(struct fixture_how){ 0 }, &sum, &err));
	while (!database_ready())
		tm_sleep_us(2000);
	tm_sleep_us(wait_us);
	if (gated) {
		close_gate();
		/* until the run stands at the gate: one that still writes events would die of its dead reader */
		tm_sleep_us(60000);
	}
	/* between two runs there is neither guard nor worker */
	for (int i = 0; !(victim = find_victim(tidemark, which)) && i < 50; i++)
		tm_sleep_us(2000);
	if (victim)
		kill(victim, SIGKILL);
	if (which == TIDEMARK) {
		waitpid(tidemark, NULL, 0);
		check_nobody_is_left(which);
		unlink(gate);
	} else {
		/* the rest of the sweep needs the gate open, what was killed must go without */
		tm_sleep_us(gated ? 100000 : 0);
		unlink(gate);
		waitpid(tidemark, &status, 0);
		assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
		check_nobody_is_left(which);
	}
	check_database();
	assert_ok(fixture_run(NULL, &(struct fixture_how){ .resume = "" }, &sum, &err), &err);
	check_database();
	check_complete(which);
	assert_ok(fixture_run(NULL, &(struct fixture_how){ .resume = "" }, &sum, &err), &err);
	assert_int_equal(sum.planned, 0);
	return victim != 0;
}

static void nothing_outlives_a_kill(void **state)
{
	struct spec *spec = make_spec();
	uint64_t random = (uint64_t)tm_mono_ns();
	int killed = 0;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)random);
	for (int i = 0; i < ROUNDS; i++)
		killed += one_round(spec, (enum victim)(i % VICTIM_N), (int64_t)(schedule_random(&random) % 250000), i % 2);
	assert_true(killed >= 30);
	fixture_spec_free(spec);
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_outlives_a_kill) };
	int rc;

	fake_main();
	fixture_setup();
	snprintf(gate, sizeof gate, "%s/gate", fixture_dir);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	fixture_remove();
	return rc;
}
