/* Starts the real tidemark-work with a job and gathers its events. */
#ifndef TEST_WORKER_H
#define TEST_WORKER_H

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKER BUILD_DIR "/tidemark-work"
#define WORKER_PATIENCE_MS 60000

extern char **environ;

struct worker {
	pid_t pid;
	int events_fd, log_fd;
	struct tm_str raw;                /* descriptor 3 */
	json_t *events;                   /* one entry a line; a string where the line is no JSON */
	int status;                       /* as waitpid */
};

static inline int worker_temp(const char *text)
{
	char path[] = "/tmp/tm-worker-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);

	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* Its group is its own, so that what it leaves behind can be ended. */
static inline struct worker worker_start(const char *job)
{
	struct worker w = { .raw = TM_STR_INIT, .log_fd = worker_temp("") };
	char *argv[] = { (char *)WORKER, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int events[2], far, in = worker_temp(job);

	assert_int_equal(pipe2(events, O_CLOEXEC), 0);
	/* above 3, so that no dup2 overwrites the source of another */
	far = fcntl(events[1], F_DUPFD_CLOEXEC, 10);
	close(events[1]);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, in, 0);
	posix_spawn_file_actions_adddup2(&files, w.log_fd, 1);
	posix_spawn_file_actions_adddup2(&files, w.log_fd, 2);
	posix_spawn_file_actions_adddup2(&files, far, 3);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	assert_int_equal(posix_spawn(&w.pid, argv[0], &files, &attr, argv, environ), 0);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	close(in);
	close(far);
	w.events_fd = events[0];
	return w;
}

/* Reads until the stream ends, `enough` bytes are there, or ms have passed. True: the end. */
static inline bool worker_read(struct worker *w, size_t enough, int ms)
{
	struct pollfd p = { .fd = w->events_fd, .events = POLLIN };
	char buf[65536];
	ssize_t n;

	while (w->raw.n < enough) {
		if (poll(&p, 1, ms) <= 0)
			return false;
		n = read(w->events_fd, buf, sizeof buf);
		if (n <= 0)
			return true;
		tm_str_addn(&w->raw, buf, (size_t)n);
	}
	return false;
}

static inline void worker_parse(struct worker *w)
{
	w->events = json_array();
	for (const char *s = w->raw.s, *end; (end = strchr(s, '\n')); s = end + 1) {
		json_t *v = NULL;

		if (tm_json_parse(s, (size_t)(end - s), &v, NULL))
			v = json_stringn(s, (size_t)(end - s));
		json_array_append_new(w->events, v);
	}
}

/* Waits for the end of stream and process. */
static inline void worker_finish(struct worker *w)
{
	if (!worker_read(w, SIZE_MAX, WORKER_PATIENCE_MS))
		fail_msg("the worker does not end: %.400s", w->raw.s);
	assert_int_equal(waitpid(w->pid, &w->status, 0), w->pid);
	worker_parse(w);
}

static inline struct worker worker_run(const char *job)
{
	struct worker w = worker_start(job);

	worker_finish(&w);
	return w;
}

static inline void worker_free(struct worker *w)
{
	json_decref(w->events);
	tm_str_free(&w->raw);
	close(w->events_fd);
	close(w->log_fd);
}

/* The n-th event of a kind from `from` on; NULL: none. */
static inline const json_t *worker_event(const struct worker *w, const char *kind, size_t n)
{
	const json_t *v;
	size_t i;

	json_array_foreach(w->events, i, v)
		if (strcmp(tm_json_str(v, "e", ""), kind) == 0 && !n--)
			return v;
	return NULL;
}

static inline const json_t *worker_result(const struct worker *w)
{
	const json_t *r = worker_event(w, "result", 0);

	if (!r)
		fail_msg("no result: %.1500s", w->raw.s + (w->raw.n > 1500 ? w->raw.n - 1500 : 0));
	return r;
}

static inline double worker_metric(const struct worker *w, const char *name)
{
	const json_t *v = json_object_get(json_object_get(worker_result(w), "metrics"), name);

	if (!v)
		fail_msg("the result has no %s", name);
	return json_number_value(v);
}

/* One column of all `steps` events put together, warm-up included. Numbers; NULL ends up as 0. */
struct worker_steps {
	size_t n;
	double us[4096], live[4096];
	char phase[4096];                 /* 'w', 't', 'e' */
};

static inline void worker_steps(const struct worker *w, struct worker_steps *out)
{
	const json_t *e;

	out->n = 0;
	for (size_t k = 0; (e = worker_event(w, "steps", k)); k++) {
		assert_int_equal(tm_json_i64(e, "i0", -1), out->n);
		for (size_t i = 0; i < json_array_size(json_object_get(e, "us")); i++) {
			assert_true(out->n < TM_ARRAY_N(out->us));
			out->us[out->n] = json_number_value(json_array_get(json_object_get(e, "us"), i));
			out->live[out->n] = json_number_value(json_array_get(json_object_get(e, "live"), i));
			out->phase[out->n++] = *tm_json_str(e, "phase", "?");
		}
	}
}

static inline int worker_missing(void **state)
{
	(void)state;
	if (access(WORKER, X_OK)) {
		fprintf(stderr, "%s is not built\n", WORKER);
		return -1;
	}
	return 0;
}

#endif
