/*
 * Carries a sweep out: one fresh process a run, under a guard, its events
 * read, its end judged, its figures stored; resumable at any moment.
 */
#ifndef TM_RUN_H
#define TM_RUN_H

#include "spec/spec.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

enum run_progress { RUN_PROGRESS_AUTO, RUN_PROGRESS_PLAIN, RUN_PROGRESS_NONE };

struct run_programs { const char *guard, *work; };               /* paths */

struct run_request {
	struct store *store;
	const struct describe *describe;
	struct run_programs programs;
	const struct spec *spec;
	struct store_build build;
	const char *kind;                 /* "run" */
	const char *log_dir;              /* logs/<uuid>/<run>.log go beneath */
	const char *trace_dir;            /* NULL: none; exists; <uuid>-<run>.jsonl, every allocation (docs/trace.md) */
	enum run_progress progress;       /* to stderr */
	bool fail_fast;
	bool color;
	int verbose;                      /* -1 quiet, 0, 1 */
};

struct run_summary {
	int64_t sweep_id; char uuid[37];
	size_t planned, ok, oom, timeout, crash, invalid, skipped, interrupted;
	size_t disallowed;                /* ended in a status the spec does not allow */
	int stopped_by;                   /* SIGINT, SIGTERM or 0 */
	bool left;               /* something of the sweep has not been run to its end */
};

/*
 * Returns 0 when every run has ended (whatever its status), TM_EINTR or
 * TM_ETERM when a signal stopped it (the sweep is saved), TM_ESTORE,
 * TM_EENV. *out is filled in every case.
 */
int run_sweep(const struct run_request *req, struct run_summary *out, struct tm_err *err);

/* Goes on with a stored sweep; req->spec is not used. TM_EENV: live owner, other binary or machine class. 0 and planned = 0: nothing left. */
int run_resume(const struct run_request *req, const char *uuid, struct run_summary *out, struct tm_err *err);

/* ---- the machine (env.c) ------------------------------------------------ */

struct run_env {
	json_t *json;                     /* the fingerprint: nothing that moves by itself */
	json_t *now;                      /* clocks, power, users of the cards at this moment, and why there are none; not stored */
	char class_key[768];
	char host[64], cpu[128], kernel[128];
	char gpu[96], driver[80], cuda[16];     /* the first card's name; "" without */
	int64_t gpu_n, gpu_mem;
};
/* Every field read from /proc, uname and NVML. */
void run_env_read(struct run_env *env);
void run_env_free(struct run_env *env);
void run_env_to_store(const struct run_env *env, struct store_env *out);

/* One worker call without a run: `tidemark-work --check` and the like. Reads at most 64 MiB; 30 s. */
int run_ask_worker(const char *work, const char *option, const char *input, size_t n,
		   struct tm_str *out, struct tm_err *err);

/*
 * The same for an answer that comes in lines: `line` gets each as it arrives,
 * without its newline, at most 64 MiB; the worker is given up after 10 minutes
 * without one. What `line` returns other than 0 ends the worker and is returned.
 */
typedef int (*run_line)(void *arg, const char *s, size_t n, struct tm_err *err);
int run_ask_worker_lines(const char *work, const char *option, const char *input, size_t n,
			 run_line line, void *arg, struct tm_err *err);

#endif
