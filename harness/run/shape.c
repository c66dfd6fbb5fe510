#include "shape.h"

#include "base/mem.h"

#include <stdbool.h>
#include <string.h>

enum type {
	COUNT,            /* an integer, not negative */
	STEP,             /* an integer from -1 (before the first step) */
	NUMBER,           /* finite: JSON cannot say anything else */
	AMOUNT,           /* a number, not negative */
	BOOL,
	TEXT,
	COUNTS,           /* array of COUNT */
	LOSSES,           /* array of numbers and nulls */
	SCALES,           /* the same, none negative */
	AMOUNTS_BY,       /* object of AMOUNT */
	NUMBERS_BY,       /* object of NUMBER */
	LISTS_BY,         /* object of arrays of AMOUNT */
	LIST,             /* any array */
	OBJECT,           /* any object */
};

static const char *const type_name[] = {
	[COUNT] = "an integer, not negative", [STEP] = "a step number", [NUMBER] = "a number",
	[AMOUNT] = "a number, not negative", [BOOL] = "true or false", [TEXT] = "a text",
	[COUNTS] = "a list of integers, none negative", [LOSSES] = "a list of numbers and nulls",
	[SCALES] = "a list of numbers, none negative, and nulls",
	[AMOUNTS_BY] = "an object of numbers, none negative", [NUMBERS_BY] = "an object of numbers",
	[LISTS_BY] = "an object of lists of numbers, none negative", [LIST] = "a list",
	[OBJECT] = "an object",
};

struct member {
	const char *name;
	enum type type;
	bool needed;
};

#define MEMBERS_MAX 12

static const struct shape {
	const char *kind;
	struct member members[MEMBERS_MAX];
} shapes[] = {
	{ "hello", { { "v", COUNT, true }, { "pid", COUNT, false }, { "workload", TEXT, false },
		     { "describe", TEXT, false }, { "device", TEXT, false }, { "threads", COUNT, false },
		     { "facts", OBJECT, false } } },
	{ "phase", { { "name", TEXT, true }, { "at", TEXT, true }, { "us", COUNT, false } } },
	{ "beat", { { "step", STEP, true } } },
	{ "steps", { { "i0", COUNT, true }, { "us", COUNTS, true }, { "phase", TEXT, false }, { "tokens", COUNTS, false },
		     { "samples", COUNTS, false }, { "loss", LOSSES, false }, { "live", COUNTS, false },
		     { "skipped", COUNTS, false }, { "scale", SCALES, false } } },
	{ "mem", { { "step", STEP, false }, { "requested", AMOUNT, false }, { "allocated", AMOUNT, false },
		   { "active", AMOUNT, false }, { "reserved", AMOUNT, false }, { "by", AMOUNTS_BY, false } } },
	{ "peak", { { "name", TEXT, true }, { "requested", AMOUNT, false }, { "allocated", AMOUNT, false },
		    { "active", AMOUNT, false }, { "reserved", AMOUNT, false }, { "reserved_at_peak", AMOUNT, false },
		    { "by", AMOUNTS_BY, false }, { "step", STEP, false } } },
	{ "timeline", { { "step", STEP, true }, { "us", COUNTS, true }, { "requested", COUNTS, false },
			{ "allocated", COUNTS, false }, { "reserved", COUNTS, false }, { "by", LISTS_BY, false },
			{ "phases", LIST, false } } },
	{ "op", { { "name", TEXT, true }, { "phase", TEXT, true }, { "calls", COUNT, true }, { "time_us", AMOUNT, false },
		  { "bytes_at_peak", AMOUNT, false }, { "bytes_max", AMOUNT, false }, { "flops", AMOUNT, false } } },
	{ "stayed", { { "blocks", COUNT, false }, { "bytes", AMOUNT, false } } },
	{ "note", { { "text", TEXT, true }, { "level", TEXT, false } } },
	{ "oom", { { "kind", TEXT, true }, { "step", STEP, false }, { "asked", AMOUNT, false },
		   { "allocated", AMOUNT, false }, { "reserved", AMOUNT, false }, { "cap", AMOUNT, false },
		   { "suspected", BOOL, false } } },
	{ "fail", { { "cause", TEXT, true }, { "text", TEXT, true }, { "step", STEP, false } } },
	{ "refused", { { "code", COUNT, true }, { "text", TEXT, false } } },
	{ "grad", { { "step", STEP, true }, { "hash", TEXT, true } } },
	{ "result", { { "steps", COUNT, true }, { "metrics", NUMBERS_BY, true }, { "first", COUNT, false },
		      { "settled", BOOL, false }, { "work", AMOUNTS_BY, false } } },
};

static bool is_amount(const json_t *v)
{
	return json_is_number(v) && json_number_value(v) >= 0;
}

static bool is_count(const json_t *v)
{
	return json_is_integer(v) && json_integer_value(v) >= 0;
}

static bool is_number(const json_t *v)
{
	return json_is_number(v);
}

static bool is_loss(const json_t *v)
{
	return json_is_number(v) || json_is_null(v);
}

static bool is_scale(const json_t *v)
{
	return is_amount(v) || json_is_null(v);
}

static bool each_of_list(const json_t *list, bool (*ok)(const json_t *))
{
	if (!json_is_array(list))
		return false;
	for (size_t i = 0; i < json_array_size(list); i++)
		if (!ok(json_array_get(list, i)))
			return false;
	return true;
}

static bool is_amount_list(const json_t *v)
{
	return each_of_list(v, is_amount);
}

static bool each_of_object(const json_t *object, bool (*ok)(const json_t *))
{
	const char *key;
	json_t *v;

	if (!json_is_object(object))
		return false;
	json_object_foreach((json_t *)object, key, v)
		if (!ok(v))
			return false;
	return true;
}

static bool fits(const json_t *v, enum type type)
{
	switch (type) {
	case COUNT: return is_count(v);
	case STEP: return json_is_integer(v) && json_integer_value(v) >= -1;
	case NUMBER: return json_is_number(v);
	case AMOUNT: return is_amount(v);
	case BOOL: return json_is_boolean(v);
	case TEXT: return json_is_string(v);
	case COUNTS: return each_of_list(v, is_count);
	case LOSSES: return each_of_list(v, is_loss);
	case SCALES: return each_of_list(v, is_scale);
	case AMOUNTS_BY: return each_of_object(v, is_amount);
	case NUMBERS_BY: return each_of_object(v, is_number);
	case LISTS_BY: return each_of_object(v, is_amount_list);
	case LIST: return json_is_array(v);
	case OBJECT: return json_is_object(v);
	}
	return false;
}

/* Lists that tell of the same steps or moments must be of one length. */
static int same_lengths(const char *kind, const json_t *body, const char *const *lists, size_t n, struct tm_err *err)
{
	size_t want = json_array_size(json_object_get(body, lists[0]));

	for (size_t i = 1; i < n; i++) {
		const json_t *list = json_object_get(body, lists[i]);

		if (list && json_array_size(list) != want)
			return tm_fail(err, TM_EINVALID, "`%s` of a `%s` event has %zu entries where `%s` has %zu",
				       lists[i], kind, json_array_size(list), lists[0], want);
	}
	return 0;
}

static int check_words(const char *kind, const json_t *body, struct tm_err *err)
{
	static const char *const steps[] = { "us", "tokens", "samples", "loss", "live", "scale" };
	static const char *const timeline[] = { "us", "requested", "allocated", "reserved" };
	const char *word;

	if (!strcmp(kind, "steps"))
		return same_lengths(kind, body, steps, TM_ARRAY_N(steps), err);
	if (!strcmp(kind, "timeline"))
		return same_lengths(kind, body, timeline, TM_ARRAY_N(timeline), err);
	if (!strcmp(kind, "phase")) {
		word = json_string_value(json_object_get(body, "at"));
		if (strcmp(word, "begin") && strcmp(word, "end"))
			return tm_fail(err, TM_EINVALID, "`at` of a `phase` event is neither begin nor end");
	}
	if (!strcmp(kind, "oom")) {
		word = json_string_value(json_object_get(body, "kind"));
		if (strcmp(word, "device") && strcmp(word, "cap"))
			return tm_fail(err, TM_EINVALID, "`kind` of an `oom` event is neither device nor cap");
	}
	if (!strcmp(kind, "hello") && json_integer_value(json_object_get(body, "v")) != 1)
		return tm_fail(err, TM_EINVALID, "`v` of `hello` is not 1: another version of the protocol");
	return 0;
}

int shape_check(const char *kind, const json_t *body, struct tm_err *err)
{
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++) {
		if (strcmp(shapes[i].kind, kind))
			continue;
		for (const struct member *m = shapes[i].members; m < shapes[i].members + MEMBERS_MAX && m->name; m++) {
			const json_t *v = json_object_get(body, m->name);

			if (!v && m->needed)
				return tm_fail(err, TM_EINVALID, "a `%s` event lacks `%s`", kind, m->name);
			if (v && !fits(v, m->type))
				return tm_fail(err, TM_EINVALID, "`%s` of a `%s` event is not %s", m->name, kind, type_name[m->type]);
		}
		return check_words(kind, body, err);
	}
	return 0;
}
