/* The trace of a rig's memory, event by event. */
#ifndef TM_TEST_TRACE_KIT_H
#define TM_TEST_TRACE_KIT_H

#include "rig.h"

#include "base/file.h"
#include "base/json.h"

#include <unistd.h>

/* A new empty file; the caller unlinks it and frees the name. */
static inline char *trace_file(void)
{
	char *path = tm_xstrdup(BUILD_DIR "/trace-XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	return path;
}

static inline void trace_each(const char *path, void (*each)(void *arg, const char *kind, json_t *event), void *arg)
{
	struct tm_str s = TM_STR_INIT;
	struct tm_err err = { 0 };

	assert_ok(tm_read_file(path, 64 << 20, &s, &err), &err);
	for (char *line = s.s, *end; *line; line = end + 1) {
		json_t *event;

		end = strchr(line, '\n');
		assert_non_null(end);
		assert_ok(tm_json_parse(line, (size_t)(end - line), &event, &err), &err);
		each(arg, tm_json_str(event, "e", ""), event);
		json_decref(event);
	}
	tm_str_free(&s);
}

#endif
