/*
 * The database: the only way by which a number travels from a run to a
 * verdict, a plot or a person. SQLite in WAL mode, every write in one
 * BEGIN IMMEDIATE transaction, no transaction open while something runs.
 *
 * All functions return 0, TM_ESTORE (damaged, foreign, newer, locked, full:
 * the text says which and what to do) or what they state.
 */
#ifndef TM_STORE_H
#define TM_STORE_H

#include "base/err.h"
#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct store;

enum store_mode {
	STORE_READ,       /* must exist; opened read-only, untouched */
	STORE_WRITE,      /* created with its folder if absent; a race of two creators is fine */
};
/* No database, or an empty file, opened for reading: TM_ENONE, "run something first". */
int store_open(const char *path, enum store_mode mode, struct store **out, struct tm_err *err);
void store_close(struct store *st);
const char *store_path(const struct store *st);
/* A sentence for people about how it was opened (a network file system), or NULL. */
const char *store_warning(const struct store *st);

/* ---- a full disk -------------------------------------------------------- */

/*
 * A write that fails for lack of space is rolled back whole and returns
 * TM_ESTORE; then store_is_full holds and store_need_bytes is about what that write
 * takes. store_release_reserve folds the log back and deletes the reserve
 * file (DB-reserve, made when a database is opened for writing): true if that
 * freed anything; the same write may then be tried once more. After that the
 * sweep has to stop; opening the database again makes a new reserve.
 */
#define STORE_RESERVE_BYTES (256 * 1024)
bool store_is_full(const struct store *st);
int64_t store_need_bytes(const struct store *st);
bool store_release_reserve(struct store *st);

/* ---- writing a sweep -------------------------------------------------- */

struct store_env { const char *host, *cpu, *gpu, *driver, *cuda, *kernel; int64_t gpu_n, gpu_mem;
	const char *class_key;            /* what decides comparability; stored as its SHA-256 (tm_sha256_hex) */
	const json_t *json; };            /* every field */
struct store_build { const char *commit, *branch, *compiler, *flags, *binary_sha; int dirty; int64_t commit_us; };

struct store_config { const char *hash, *label, *workload, *params; };

struct store_planned { size_t config; int64_t rep, ord; };       /* index into configs */

struct store_sweep_new {
	const char *kind, *suite, *spec_sha, *spec;      /* spec: JSON text of the settings */
	int64_t seed;
	struct store_env env;
	struct store_build build;
	const char *tool, *owner;
	const struct store_config *configs; size_t config_n;
	const struct store_planned *runs; size_t run_n;
};

struct store_sweep_id { int64_t id; char uuid[37]; };

/* One transaction: env, build, configs, sweep (open), every run `pending`. run_ids[run_n] is filled. */
int store_sweep_create(struct store *st, const struct store_sweep_new *in,
		       struct store_sweep_id *out, int64_t *run_ids, struct tm_err *err);
/* state: done, interrupted, failed. Also writes the end time. */
int store_sweep_end(struct store *st, int64_t sweep_id, const char *state, struct tm_err *err);
int store_sweep_beat(struct store *st, int64_t sweep_id, struct tm_err *err);

/* `running`, before the child starts. TM_EENV: not pending any more, another process has taken the sweep over. */
int store_run_begin(struct store *st, int64_t run_id, const char *device, struct tm_err *err);

struct store_value { const char *metric; double v; int64_t n; bool has_mad; double mad; };
struct store_series { const char *metric; const double *f64; const int64_t *i64; size_t n; };    /* one of the two */
struct store_op { const char *name, *phase; int64_t calls; double time_us, bytes_at_peak, bytes_max, flops; };
struct store_event { int64_t t_us; const char *kind; const char *json; };

/* A run that was stored as ok and turns out to be none: it becomes invalid and its values go. */
struct store_withdrawal { int64_t run_id; const char *cause, *reason; };

struct store_run_result {
	int64_t run_id;
	const char *status, *oom, *cause, *reason, *log; /* NULL where there is none */
	bool has_exit; int exit_code; bool has_signal; int signal;
	int64_t flags;                                   /* enum store_flag */
	const struct store_value *values; size_t value_n;   /* ignored unless ok: an invalid run has no values */
	const struct store_series *series; size_t series_n;
	const struct store_op *ops; size_t op_n;
	const struct store_event *events; size_t event_n;
	/* What its end shows about others of its sweep: in the same transaction. Those that are not ok stay as they are. */
	const struct store_withdrawal *withdrawn; size_t withdrawn_n;
};

enum store_flag {
	FLAG_THROTTLED = 1, FLAG_BUSY = 2, FLAG_UNSTEADY = 4, FLAG_DRIFT = 8, FLAG_LEAK = 16,
	FLAG_CLOCK = 32, FLAG_BLIND = 64, FLAG_LOG_CUT = 128, FLAG_SPILL = 256,
};
/* "throttled busy …" for people, appended. */
void store_flags_text(int64_t flags, struct tm_str *out);
/* "ok", "oom (cap)", … for people, appended; oom may be NULL. */
void store_status_text(const char *status, const char *oom, struct tm_str *out);

/*
 * The end state with everything it brought, the runs that it withdraws, and the `point` rows of their
 * configurations in this sweep, in one transaction. A value that is not
 * finite, or of a metric nobody registered, turns `ok` into `invalid` with the metric
 * in the reason. A series of an unknown metric registers it without a unit;
 * a NaN in a series is a missing sample. TM_EENV: the run has ended already
 * (taken over). Also from `pending` (skipped).
 */
int store_run_end(struct store *st, const struct store_run_result *r, struct tm_err *err);

/*
 * Metrics are registered from the description before values are written
 * (idempotent; the description has the last word about units). Known from the
 * start, for the harness: step.median step.p99 throughput.* mem.growth
 * mem.growth.eval mem.host.peak loss.first loss.final scale.final plan.*, and the series step.time
 * (us), loss, mem.live, scale (of the loss), skipped (1: the step's update was not taken).
 */
int store_metrics_register(struct store *st, const json_t *metrics, struct tm_err *err);

/* ---- resuming ---------------------------------------------------------- */

struct store_open_sweep {
	int64_t id; char uuid[37];
	char *suite, *spec, *owner, *state, *class_hash, *binary_sha, *kind;
	char *env;                        /* its machine's fingerprint, JSON */
	int64_t seed, started_us;
	int64_t beat_us;                  /* last sign of life of its owner */
	int64_t todo, done;               /* runs */
};
/*
 * uuid NULL or "": the newest resumable sweep, that is one neither done nor
 * failed that has runs to do; TM_ENONE if there is none. Else a sweep in any state, by
 * whatever store_sweep_resolve takes. Fields are freed by store_open_sweep_free.
 */
int store_sweep_find(struct store *st, const char *uuid, struct store_open_sweep *out, struct tm_err *err);
void store_open_sweep_free(struct store_open_sweep *s);

struct store_todo { int64_t run_id, rep, attempt, ord; char *hash, *label, *workload, *params; };
/*
 * Takes the sweep over for `owner`: running rows of the dead owner become
 * `interrupted`, each with a new pending row of attempt + 1; interrupted
 * ones without a successor likewise. Lists what is to do in the order of `ord`.
 * With nothing to do the sweep becomes `done`. TM_EENV: the owner is no longer
 * the one that store_sweep_find saw on this connection; somebody else is resuming.
 */
int store_sweep_take(struct store *st, int64_t sweep_id, const char *owner,
		     struct store_todo **out, size_t *n, struct tm_err *err);
void store_todo_free(struct store_todo *v, size_t n);

/* ---- reading ------------------------------------------------------------ */

struct store_sweep_run { int64_t run_id, rep; char *hash, *label, *workload, *params, *status; };
/* The runs of a sweep, of each the latest attempt, in the order of run_id. Freed by store_sweep_runs_free. */
int store_sweep_runs(struct store *st, int64_t sweep_id, struct store_sweep_run **out, size_t *n, struct tm_err *err);
void store_sweep_runs_free(struct store_sweep_run *v, size_t n);

/* "12", a uuid or its prefix, NULL or "last": the sweep's id. TM_ENONE with the nearest known ones in the text. */
int store_sweep_resolve(struct store *st, const char *name, int64_t *out, struct tm_err *err);

/* A run by its run_id, or the newest of a configuration by its label. TM_ENONE likewise. */
int store_run_resolve(struct store *st, const char *name, int64_t *out, struct tm_err *err);

/*
 * Read-only SQL, one statement; a statement that writes, attaches or loads is
 * refused (TM_EINPUT). Calls `row` for each row with text values (NULL: NULL)
 * after `head` with the column names. Stops when a callback returns non-zero
 * and returns that. args are bound as texts to ?1, ?2, ….
 */
struct store_sink {
	int (*head)(void *arg, int n, const char *const *names);
	int (*row)(void *arg, int n, const char *const *values, const int *types /* SQLITE_INTEGER, … */);
	void *arg;
};
int store_query(struct store *st, const char *sql, const char *const *args, size_t arg_n,
		const struct store_sink *sink, struct tm_err *err);

/* A series, to be freed; TM_ENOTFOUND. Integers are converted. */
int store_series(struct store *st, int64_t run_id, const char *metric, double **out, size_t *n, struct tm_err *err);

/*
 * A run with all that belongs to it as one JSON object: the line of
 * `tidemark export` (docs/database.md). A new reference.
 */
int store_run_json(struct store *st, int64_t run_id, json_t **out, struct tm_err *err);
/* The part of that object which store_run_end would have written, for a result that cannot be stored. */
json_t *store_result_json(const struct store_run_result *r);

#endif
