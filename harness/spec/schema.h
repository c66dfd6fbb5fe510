/*
 * The description of the workloads as the reader of specs needs it:
 * parameters by index, defaults as values.
 */
#ifndef TM_SPEC_SCHEMA_H
#define TM_SPEC_SCHEMA_H

#include "spec/expr.h"
#include "spec/node.h"
#include "spec/spec.h"

enum ptype { PT_INT, PT_REAL, PT_BOOL, PT_SIZE, PT_DURATION, PT_CHOICE, PT_TEXT, PT_LIST };

/* An immutable value of a parameter; sizes and durations are ints (bytes, microseconds). */
struct value {
	struct val v;
	const char *text;        /* as a spec would write it; of a list joined by commas */
	const char *json;        /* canonical */
	struct place at;         /* src 0: a default */
};

enum choice_arg { ARG_NONE, ARG_INT, ARG_SIZE, ARG_TEXT };
struct choice { const char *word; enum choice_arg arg; const char *shown; };     /* "every", "every:int" */
struct alias { const char *from, *to; };
/* An allocator's name for another one with an option, "KEY:VALUE" (short.h). */
struct shorthand { const char *name, *allocator, *conf; };

struct pdef {
	const char *name, *unit, *help;
	enum ptype type;
	bool has_min, has_max, unhashed, nonempty;
	bool drawn;                      /* PT_INT: a value may be a list of ints, of which each step draws one (drawn.h) */
	bool same_numbers;               /* changes no bit of a loss or gradient */
	double min, max;
	struct choice *choice;
	const char **choice_shown;       /* the list for messages */
	size_t choice_n;
	struct alias *alias;
	size_t alias_n;
	const struct value *def;         /* NULL: must be given */
};

struct wdef {
	const char *name;
	const json_t *json, *presets;
	struct pdef *p;
	size_t n;
	const char **name_of;            /* of each parameter, for suggestions */
	uint16_t *sorted;                /* indices by name, for canonical JSON */
	const char **same_numbers;       /* names of the parameters flagged so */
	size_t same_numbers_n;
	int model, device, cap, seed, allocator, alloc_conf;     /* indices or -1 */
};

struct describe {
	struct arena arena;
	json_t *json;
	char hash[65];
	struct wdef *w;
	size_t n;
	const char **workload_names;
	struct shorthand *brief;
	size_t brief_n;
	const char **metric_names;
	size_t metric_n;
};

const struct wdef *schema_workload(const struct describe *d, const char *name);
int schema_param(const struct wdef *w, const char *name);                /* index or -1 */
bool schema_metric(const struct describe *d, const char *name);
/* True if the allocator reads an option string. */
bool schema_allocator_conf(const struct describe *d, const char *allocator);

/* A node as a value of the parameter. 0, or TM_ESPEC with an entry in diag. */
int value_parse(struct arena *a, struct diag *diag, const struct pdef *p, const struct node *node, const struct value **out);
/* The result of an expression; `why` (of why_n bytes) says what does not fit. */
int value_from_val(struct arena *a, const struct pdef *p, const struct val *v, struct place at,
		   const struct value **out, char *why, size_t why_n);
/* A default as the description writes it; NULL if it does not fit the type. */
const struct value *value_from_json(struct arena *a, const struct pdef *p, const json_t *json);
/* Rewrites an alias and normalises an argument. False: no such choice. */
bool value_choice(struct arena *a, const struct pdef *p, const char *text, const char **out);
/* "an int from 1 to 65536 (samples)" */
const char *value_expected(struct diag *diag, const struct pdef *p);

/* A size, or a sentence with the nearest sense (7.7, 770%, 16gb). */
int size_parse(struct diag *diag, const struct node *node, const char *name, uint64_t *out);
int duration_parse(struct diag *diag, const struct node *node, const char *name, int64_t *out_us);

#endif
