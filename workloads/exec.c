/*
 * Any program as a workload. It gets descriptor 3 to write our events to and
 * need not use it: wall time, exit status and peak memory are there anyway.
 * What it writes is checked, renumbered and passed on, so that a script in
 * another language needs to know no more than docs/protocol.md.
 */
#include "child.h"
#include "figures.h"
#include "relay.h"
#include "workload.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct exec_opts {
	struct param_list command, env;
	const char *workdir;
};

static const struct param params[] = {
	PARAM(exec_opts, command, .type = PARAM_LIST, .required_nonempty = true,
	      .help = "program and arguments, as a list; no shell is involved"),
	PARAM(exec_opts, workdir, .type = PARAM_TEXT, .def = "", .help = "folder to start in; empty: this one"),
	PARAM(exec_opts, env, .type = PARAM_LIST, .def = "[]", .help = "variables to add, each NAME=VALUE"),
};

/* ---- check ------------------------------------------------------------------- */

static bool executable(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* As tm_spawn will look for it: a name with a slash is a path, any other is searched in PATH. */
static bool program_exists(const char *name, const char *workdir)
{
	const char *path = getenv("PATH");
	bool found = false;

	if (strchr(name, '/')) {
		struct tm_str full = TM_STR_INIT;

		if (*name != '/' && *workdir)
			tm_str_addf(&full, "%s/", workdir);
		tm_str_add(&full, name);
		found = executable(full.s);
		tm_str_free(&full);
		return found;
	}
	for (path = path ? path : "/usr/bin:/bin"; !found; path++) {
		size_t n = strcspn(path, ":");
		struct tm_str full = TM_STR_INIT;

		tm_str_addn(&full, n ? path : ".", n ? n : 1);
		tm_str_addf(&full, "/%s", name);
		found = executable(full.s);
		tm_str_free(&full);
		path += n;
		if (!*path)
			break;
	}
	return found;
}

static int exec_check(const void *opts, const char **bad, struct tm_err *err)
{
	const struct exec_opts *o = opts;
	struct stat st;

	*bad = "workdir";
	if (*o->workdir && (stat(o->workdir, &st) || !S_ISDIR(st.st_mode)))
		return tm_fail(err, TM_EINVALID, "workdir: %s is not a folder", o->workdir);
	*bad = "env";
	for (size_t i = 0; i < o->env.n; i++)
		if (*o->env.v[i] == '=' || !strchr(o->env.v[i], '='))
			return tm_fail(err, TM_EINVALID, "env: '%.60s' is not NAME=VALUE", o->env.v[i]);
	*bad = "command";
	if (!program_exists(o->command.v[0], o->workdir))
		return tm_fail(err, TM_EINVALID, "command: there is no program '%.200s' that may be executed", o->command.v[0]);
	return 0;
}

/* ---- run ------------------------------------------------------------------------ */

/* What the program may want to know of its run. */
static char **environment(const struct run *run)
{
	const struct exec_opts *o = run->opts;
	const struct job *job = run->job;
	struct child_env *env = child_env_new();

	child_env_addf(env, "TIDEMARK_EVENTS_FD=3");
	child_env_addf(env, "TIDEMARK_DEVICE=%s", job->device);
	child_env_addf(env, "TIDEMARK_THREADS=%" PRId64, job->threads);
	child_env_addf(env, "TIDEMARK_CAP=%" PRIu64, job->cap_bytes);
	child_env_addf(env, "TIDEMARK_SEED=%" PRId64, job->seed);
	child_env_addf(env, "TIDEMARK_WARMUP=%" PRId64, job->warmup_min);
	child_env_addf(env, "TIDEMARK_STEPS=%" PRId64, job->steps);
	for (size_t i = 0; i < o->env.n; i++)
		child_env_addf(env, "%s", o->env.v[i]);
	return child_env_take(env);
}

static int ended_badly(struct run *run, const char *program, int status, struct tm_err *err)
{
	if (WIFSIGNALED(status)) {
		run->cause = "signal";
		return tm_fail(err, TM_EIO, "%s was ended by signal %d (%s)", program, WTERMSIG(status),
			       sigdescr_np(WTERMSIG(status)));
	}
	run->cause = "exit";
	return tm_fail(err, TM_EIO, "%s ended with exit code %d", program, WEXITSTATUS(status));
}

static bool phase_event(struct run *run, const char *at)
{
	json_t *body = json_object();

	json_object_set_new(body, "name", json_string("measure"));
	json_object_set_new(body, "at", json_string(at));
	return event_send(run->events, "phase", body);
}

/* The result: the program's own, if it wrote one, with what only we could see added. */
static void send_result(struct run *run, struct relay *relay, const struct child *child)
{
	json_t *body = relay_result(relay, child->wall_us), *metrics = json_object_get(body, "metrics");

	/* where the program does not say what it measured, the window is its whole life */
	if (!relay_said_window(relay))
		phase_event(run, "end");
	if (child->host_peak_bytes)
		json_object_set_new(metrics, "mem.host.peak", json_integer((json_int_t)child->host_peak_bytes));
	event_send(run->events, "result", body);
}

static int exec_drive(struct run *run, struct tm_err *err)
{
	const struct exec_opts *o = run->opts;
	struct relay *relay = relay_new(run->events);
	struct child child = { .argv = o->command.v, .workdir = o->workdir, .env = environment(run) };
	int rc;

	phase_event(run, "begin");
	rc = child_run(&child, relay, err);
	run->step = relay_last_step(relay);
	if (rc) {
		run->cause = rc == TM_EINVALID ? "events" : "spawn";
		goto out;
	}
	run->told = relay_said_oom(relay) || relay_said_fail(relay);
	if (run->told || child.status) {
		rc = relay_said_oom(relay) ? TM_EOOM : ended_badly(run, o->command.v[0], child.status, err);
		goto out;
	}
	send_result(run, relay, &child);
out:
	child_env_free(child.env);
	relay_free(relay);
	return rc;
}

static void exec_describe(json_t *workload)
{
	json_t *examples = json_array();

	json_array_append_new(examples, json_string("tidemark run exec -s 'command=[python3, train.py, --batch, \"8\"]'"));
	json_object_set_new(workload, "examples", examples);
}

static const struct workload exec_workload = {
	.version = WORKLOAD_VERSION,
	.name = "exec",
	.help = "any program; wall time, exit status and host memory always, more if it writes events",
	.params = params, .param_n = TM_ARRAY_N(params), .opts_size = sizeof(struct exec_opts),
	.check = exec_check,
	.drive = exec_drive,
	.describe = exec_describe,
};

__attribute__((constructor)) static void register_exec(void)
{
	workload_register(&exec_workload);
}
