/* What the device said of itself when the run began: name, versions of libraries, memory of the context. */
#include "cli/show_page.h"

void page_device(struct page *p)
{
	struct table *t = table_new();
	json_t *event;
	size_t i;

	table_column(t, "the device", TABLE_TEXT);
	table_column(t, "says", TABLE_TEXT);
	json_array_foreach(json_object_get(p->run, "events"), i, event)
		if (page_is_event(event, "hello"))
			table_members(t, "", page_at(event, "json", "facts"));
	page_section(p, "Device", t);
}
