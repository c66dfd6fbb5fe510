#include "cli/show_page.h"

#include "base/json.h"

#include <string.h>

void page_heading(struct page *p, const char *text)
{
	if (p->format == CLI_MD)
		tm_str_addf(&p->out, "\n## %s\n\n", text);
	else
		tm_str_addf(&p->out, "\n%s\n", text);
}

void page_section(struct page *p, const char *title, struct table *t)
{
	if (table_rows(t)) {
		page_heading(p, title);
		table_print(t, p->format, table_width(), &p->out);
	}
	table_free(t);
}

const json_t *page_at(const json_t *obj, const char *a, const char *b)
{
	return json_object_get(json_object_get(obj, a), b);
}

bool page_is_event(const json_t *event, const char *kind)
{
	return strcmp(tm_json_str(event, "kind", ""), kind) == 0;
}
