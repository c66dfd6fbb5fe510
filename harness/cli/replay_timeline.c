/* The course of reserved and allocated memory over the events, for somebody's own plot. */
#include "cli/replay.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>

/* The points of one setting; `who` is what every line begins with. */
static void points(const json_t *course, const char *who, struct tm_str *out)
{
	static const char *const keys[] = { "event", "requested", "allocated", "reserved" };
	size_t n = json_array_size(json_object_get(course, keys[0]));

	for (size_t i = 0; i < n; i++) {
		tm_str_add(out, who);
		for (size_t k = 0; k < TM_ARRAY_N(keys); k++)
			tm_str_addf(out, "\t%" JSON_INTEGER_FORMAT, json_integer_value(json_array_get(json_object_get(course, keys[k]), i)));
		tm_str_addc(out, '\n');
	}
}

void replay_timeline(const struct replay_view *v, struct tm_str *out)
{
	struct tm_str who = TM_STR_INIT, setting = TM_STR_INIT;

	tm_str_add(out, "file\tsetting\tcap_bytes\tevent\trequested_bytes\tallocated_bytes\treserved_bytes\n");
	for (size_t k = 0; k < v->shown_n; k++) {
		size_t file = v->order[k];

		for (size_t i = 0; i < v->setting_n; i++) {
			if (!replay_is_row(v, file, i))
				continue;
			tm_str_reset(&who);
			tm_str_reset(&setting);
			replay_setting_name(&v->settings[i], &setting);
			tm_utf8_show_line(&who, v->files[file], strlen(v->files[file]));
			tm_str_addc(&who, '\t');
			tm_utf8_show_line(&who, setting.s, setting.n);
			tm_str_addf(&who, "\t%" PRIu64, v->settings[i].cap_bytes);
			points(json_object_get(v->replayed[file].results[i], "course"), who.s, out);
		}
	}
	tm_str_free(&who);
	tm_str_free(&setting);
}
