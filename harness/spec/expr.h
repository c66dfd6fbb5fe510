/*
 * Expressions of `when`, `derive`, `only`, --only and --skip (grammar in
 * docs/spec.md): parsed once, evaluated for each point. There are no loops,
 * no functions of the user's and no environment, so an expression always
 * ends and depends on nothing but the point.
 */
#ifndef TM_SPEC_EXPR_H
#define TM_SPEC_EXPR_H

#include "spec/arena.h"

#include <stdbool.h>
#include <stdint.h>

#define EXPR_MAX_CHARS 4096
#define EXPR_MAX_DEPTH 48               /* of parentheses and prefix operators */

enum val_kind {
	VAL_NONE,                /* a parameter that this point's workload does not have: equals nothing */
	VAL_INT, VAL_REAL, VAL_BOOL, VAL_TEXT, VAL_LIST,
};

struct val {
	enum val_kind kind;
	union {
		int64_t i;
		double d;
		bool b;
		const char *s;
		struct { const struct val *v; size_t n; } list;
	};
};

struct expr;

/* What is wrong, and at which character of the text (from 1). */
struct expr_fault {
	unsigned at;
	char text[240];
};

/* dotted: names such as `loss.final` are allowed (where metrics are meant). 0 or TM_ESPEC. */
int expr_parse(struct arena *a, const char *text, bool dotted, struct expr **out, struct expr_fault *fault);

/*
 * Asks about each name, and about each text literal that is compared with a
 * name (by == != or in): the callback may replace *text (an alias) or refuse
 * it with a reason in `why`. Returns 0 or TM_ESPEC at the first refusal.
 */
struct expr_checker {
	int (*name)(void *arg, const char *name, char *why, size_t why_n);
	int (*literal)(void *arg, const char *name, const char **text, char *why, size_t why_n);
	void *arg;
};
int expr_check(struct expr *e, const struct expr_checker *c, struct expr_fault *fault);

/* Calls fn once for each occurrence of a name. */
void expr_names(const struct expr *e, void (*fn)(void *arg, const char *name), void *arg);

/*
 * get: the value of a name; 0, or TM_ESPEC with the reason in `why` where it
 * has none. Lists and texts must outlive the result.
 */
struct expr_env {
	int (*get)(void *arg, const char *name, struct val *out, char *why, size_t why_n);
	void *arg;
};
int expr_eval(const struct expr *e, const struct expr_env *env, struct val *out, struct expr_fault *fault);

const char *val_kind_name(enum val_kind kind);   /* "an int" */

#endif
