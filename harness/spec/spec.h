/*
 * From a YAML file (or a workload's name) and the flags of the command line
 * to a list of points, each with all parameters resolved. The format is in
 * docs/spec.md; the parameters are not known here but come from the
 * workloads' description.
 */
#ifndef TM_SPEC_H
#define TM_SPEC_H

#include "base/err.h"
#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- the description of the workloads (docs/protocol.md) -------------- */

struct describe;
/* json: the text of `tidemark-work --describe`. A text that does not fit the format is a BUG of the build. */
struct describe *describe_load(const char *json);
void describe_free(struct describe *d);
const json_t *describe_json(const struct describe *d);
const char *describe_hash(const struct describe *d);             /* 64 hex digits */
const json_t *describe_workload(const struct describe *d, const char *name);   /* NULL: none */
/* An entry of the workload's `params`; NULL: it has none of that name. */
const json_t *describe_param(const struct describe *d, const char *workload, const char *name);
/* Whether the workload lists `what` ("device", "memory") among what it uses. */
bool describe_uses(const struct describe *d, const char *workload, const char *what);

/*
 * SHA-256 of what decides a run's losses: workload and non-default parameters
 * (a JSON object as in spec_point.params) without those that are marked
 * same_numbers or unhashed; of the device its kind. Two runs with the same
 * hash on deterministic devices must show the same losses, step by step.
 */
void spec_numbers_hash(const struct describe *d, const char *workload, const json_t *params, char hex[65]);
/* Names of the parameters marked same_numbers, *n of them, in schema order; they live as long as d. */
const char *const *spec_same_numbers(const struct describe *d, const char *workload, size_t *n);

/* ---- what the command line adds --------------------------------------- */

/* Everything may be zero. Strings are as typed; nothing is owned. */
struct spec_request {
	const char *spec;                 /* a file, or a workload's name */
	const char *const *set; size_t set_n;         /* -s NAME=VALUE */
	const char *const *axis; size_t axis_n;       /* -a NAME=v1,v2 or NAME=lo:hi:step */
	const char *only, *skip;          /* expressions */
	int64_t reps;                     /* 0: as the spec says */
	bool has_seed; int64_t seed;
	const char *order;                /* "interleaved", "listed" */
	const char *device, *cap;
	const char *const *limit; size_t limit_n;     /* --limit KEY=VALUE */
	const char *const *label; size_t label_n;     /* --label KEY=V */
	int64_t max_points;               /* 0: 10,000 */
};

/* ---- the result ------------------------------------------------------- */

enum spec_order { SPEC_INTERLEAVED, SPEC_LISTED };

struct spec_limits {
	int64_t wall_us, silent_us, sweep_us;         /* 0: none */
	uint64_t host_bytes;
};

struct spec_measure {
	int64_t reps, warmup_min, warmup_max, warmup_window, steps;
	double warmup_slope;
};

enum spec_allow { SPEC_ALLOW_OOM = 1, SPEC_ALLOW_TIMEOUT = 2, SPEC_ALLOW_CRASH = 4, SPEC_ALLOW_INVALID = 8 };

struct spec_point {
	char *label;                      /* canonical: independent of the sweep */
	char *shown;                      /* only what varies in this sweep, for people: "batch=4 allocator=raw"; of many what is not at its default */
	char hash[65];                    /* of the configuration */
	char hash_anywhere[65];           /* the same without the device: joins a plan to its run */
	const char *workload;
	char *params;                     /* canonical JSON object, every parameter of the workload */
	struct spec_measure measure;      /* `memory` and `speed` passes may differ by point */
	unsigned line, column;            /* of the axis or include it came from */
};
/* `params` as an object, new. */
json_t *spec_point_params(const struct spec_point *point);

struct spec_excluded {
	char *shown, *why;                /* the point and the reason given in the spec */
	unsigned line;
};

struct spec {
	char *path, *suite, *workload, *title;
	char *source;                     /* the YAML as read, "" for a workload's name */
	char sha[65];                     /* SHA-256 of the resolved settings and points */
	struct spec_limits limits;
	unsigned allow;                   /* enum spec_allow */
	enum spec_order order;
	int64_t seed;
	char *report_dir;                 /* or NULL */
	json_t *labels;                   /* --label, object of strings */
	json_t *gates, *history, *card;   /* kept as checked JSON for later; may be NULL */

	char **varying;                   /* parameters that differ between points, schema order */
	size_t varying_n;
	struct spec_point *points;        /* in order of expansion */
	size_t n;
	struct spec_excluded *excluded;
	size_t excluded_n;
	struct {                          /* what each step left */
		size_t product, derived, excluded, included, merged, filtered;
	} count;
	char **warnings;                  /* sentences for people */
	size_t warning_n;
	json_t *origin;                   /* "set.batch" -> "FILE:LINE" or "flag -s" or "default", for plan -v */
};

/*
 * Reads, checks, expands. `check` (may be NULL) is asked about every point;
 * what is impossible becomes an error at the line, or the flag, that gave the
 * blamed parameter. On failure returns TM_ESPEC (TM_EUSAGE for a malformed
 * flag, or what check->ask returned) with at least one entry in errs, and
 * *out is NULL. For a flag, errs' file is the flag as typed, without a line.
 * The points keep pointers into *d, which must outlive the spec.
 */
struct spec_checker {
	/*
	 * points: JSON array for `tidemark-work --check`, at most 1,000 a call
	 * (so that 10,000 points do not stand in memory as JSON trees);
	 * answers: array of the same length. 0 or an error.
	 */
	int (*ask)(void *arg, const json_t *points, json_t **answers, struct tm_err *err);
	void *arg;
};
int spec_load(const struct spec_request *req, const struct describe *d,
	      const struct spec_checker *check, struct spec **out, struct tm_errs *errs);
void spec_free(struct spec *spec);

/* Settings without the points, as stored with a sweep; and back, for --resume (points stay empty). */
json_t *spec_settings(const struct spec *spec);
int spec_from_settings(const json_t *settings, struct spec **out, struct tm_err *err);

/* The job text of docs/protocol.md for one point. run_id NULL: a job to be planned; trace may be NULL. */
void spec_job(const struct spec_point *point, const char *run_id, const char *describe_hash,
	      const char *trace, struct tm_str *out);

/* Appends a part of a canonical label: percent-encoded outside [A-Za-z0-9._+-]. */
void spec_label_encode(const char *s, size_t n, struct tm_str *out);

/* JSON Schema (2020-12) of the format, for editors. */
json_t *spec_schema(const struct describe *d);

#endif
