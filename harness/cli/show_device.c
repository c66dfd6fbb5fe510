/* What the device said of itself when the run began: name, versions of libraries, memory of the context. */
#include "cli/show_page.h"

#include "base/json.h"

static void rows(struct table *t, const char *prefix, const json_t *v)
{
	const char *key;
	json_t *member;

	json_object_foreach((json_t *)v, key, member) {
		struct tm_str name = TM_STR_INIT, value = TM_STR_INIT;

		tm_str_addf(&name, "%s%s%s", prefix, *prefix ? "." : "", key);
		if (json_is_object(member)) {
			rows(t, name.s, member);
		} else {
			if (json_is_string(member))
				tm_str_add(&value, json_string_value(member));
			else
				tm_json_canonical(member, &value);
			table_text(t, name.s);
			table_text(t, value.s);
			table_row(t);
		}
		tm_str_free(&name);
		tm_str_free(&value);
	}
}

void page_device(struct page *p)
{
	struct table *t = table_new();
	json_t *event;
	size_t i;

	table_column(t, "the device", TABLE_TEXT);
	table_column(t, "says", TABLE_TEXT);
	json_array_foreach(json_object_get(p->run, "events"), i, event)
		if (page_is_event(event, "hello"))
			rows(t, "", page_at(event, "json", "facts"));
	page_section(p, "Device", t);
}
