/*
 * A JSON object for people: a row a value, its name the path to it. Lists of
 * objects are numbered ("gpus.0.name"), other lists are one value.
 */
#include "cli/table.h"

#include "base/json.h"

static void numbered(struct table *t, const char *name, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct tm_str prefix = TM_STR_INIT;

		tm_str_addf(&prefix, "%s.%zu", name, i);
		table_members(t, prefix.s, json_array_get(list, i));
		tm_str_free(&prefix);
	}
}

static void value_row(struct table *t, const char *name, const json_t *v)
{
	struct tm_str text = TM_STR_INIT;

	if (json_is_string(v))
		tm_str_add(&text, json_string_value(v));
	else
		tm_json_canonical(v, &text);
	table_text(t, name);
	table_text(t, json_is_null(v) ? NULL : text.s);
	table_row(t);
	tm_str_free(&text);
}

void table_members(struct table *t, const char *prefix, const json_t *v)
{
	const char *key;
	json_t *member;

	json_object_foreach((json_t *)v, key, member) {
		struct tm_str name = TM_STR_INIT;

		tm_str_addf(&name, "%s%s%s", prefix, *prefix ? "." : "", key);
		if (json_is_object(member))
			table_members(t, name.s, member);
		else if (json_is_object(json_array_get(member, 0)))
			numbered(t, name.s, member);
		else
			value_row(t, name.s, member);
		tm_str_free(&name);
	}
}
