/*
 * A workload's parameter table: the only place a parameter is written down.
 * Parsing, range checks, --describe (and with it the harness's validation,
 * help, completion and JSON Schema) come from it.
 */
#ifndef TM_PARAM_H
#define TM_PARAM_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum param_type {
	PARAM_INT,        /* int64_t */
	PARAM_REAL,       /* double */
	PARAM_BOOL,       /* bool */
	PARAM_SIZE,       /* uint64_t bytes; written with a unit, "27MiB"; JSON integer */
	PARAM_DURATION,   /* int64_t microseconds; written with a unit, "30s"; JSON integer */
	PARAM_CHOICE,     /* const char *: one of `choices`; an entry "word:int", "word:size" or "word:text"
	                   * takes an argument after a colon ("every:2"); the whole text is stored */
	PARAM_TEXT,       /* const char * */
	PARAM_LIST,       /* struct param_list: of text; a YAML sequence, JSON array of strings */
};

/*
 * An integer that may be drawn anew in each step: written 128, or
 * {choices: [64, 128]} (also choices:64,128 on the command line); JSON 128 or
 * {"choices": [64, 128]}. n is 1 where it is fixed. Order and repeats count.
 */
struct param_drawn {
	size_t n;
	const int64_t *v;
};
#define PARAM_DRAWN_MAX 64
int64_t param_drawn_max(const struct param_drawn *d);

struct param_list {
	size_t n;
	const char *const *v;     /* n entries and a NULL behind them */
};

struct param {
	const char *name;
	enum param_type type;
	size_t offset;            /* of the member in the options struct */
	const char *def;          /* as written in a spec; NULL: must be given */
	double min, max;          /* inclusive; min == max == 0: no limits. INT, REAL, SIZE, DURATION */
	const char *unit;         /* "tokens", "" ; shown in help */
	const char *help;         /* one line */
	const char *const *choices;       /* NULL-terminated; "old=new" entries are aliases, rewritten to new */
	bool required_nonempty;   /* TEXT, LIST */
	bool drawn;               /* INT: the member is a struct param_drawn */
	/*
	 * Changes where and how something is computed or kept, but no bit of a
	 * loss or gradient on a deterministic device (checkpoint, allocator, cap).
	 * Runs that differ only in such parameters must show the same losses.
	 */
	bool same_numbers;
	bool unhashed;            /* does not change what is computed or measured, so not part of a configuration's hash */
};

#define PARAM(st, member, ...) { .name = #member, .offset = offsetof(struct st, member), __VA_ARGS__ }

/*
 * Fills `opts` (zeroed, of the workload's size) from a JSON object of
 * resolved parameters; absent ones take their default. Strings are owned by
 * *pool (json_decref it after the options). TM_EINVALID names the parameter
 * in err->text and in `bad` (may be NULL).
 */
int param_parse(const struct param *table, size_t n, const json_t *values, void *opts,
		json_t **pool, const char **bad, struct tm_err *err);

/* The table as the JSON of docs/protocol.md ("params" of a workload). */
json_t *param_describe(const struct param *table, size_t n);

#endif
