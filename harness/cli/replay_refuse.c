/* What was not accepted: files that cannot be read, option strings, caps below anything. */
#include "cli/replay.h"

#include "base/json.h"
#include "base/num.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* The string with a mark below the first byte at fault, as compilers do. */
static void point_at(const char *conf, int64_t at)
{
	struct tm_str line = TM_STR_INIT;
	unsigned columns = 0;

	tm_utf8_show_line(&line, conf, strlen(conf));
	if (at >= 0 && (size_t)at <= strlen(conf)) {
		struct tm_str before = TM_STR_INIT;

		tm_utf8_show_line(&before, conf, (size_t)at);
		for (const char *p = before.s, *end = before.s + before.n; p < end; ) {
			uint32_t cp;

			p += tm_utf8_next(p, end, &cp);
			columns += tm_utf8_columns(cp);
		}
		tm_str_free(&before);
		fprintf(stderr, "    %s\n    %*s^\n", line.s, (int)columns, "");
	} else {
		fprintf(stderr, "    %s\n", line.s);
	}
	tm_str_free(&line);
}

/* The first file with an answer about the setting speaks for all: a string is right or wrong whatever the file. */
static const json_t *refusal(const struct replay_view *v, size_t setting)
{
	for (size_t f = 0; f < v->file_n; f++) {
		const json_t *r = v->replayed[f].results[setting];

		if (r && json_object_get(r, "refused"))
			return r;
	}
	return NULL;
}

static bool said_before(const struct replay_view *v, size_t setting)
{
	for (size_t i = 0; i < setting; i++)
		if (v->settings[i].conf && v->settings[setting].conf && !strcmp(v->settings[i].conf, v->settings[setting].conf))
			return true;
	return false;
}

static int option_strings(struct cli *cli, const struct replay_view *v)
{
	int rc = 0;

	for (size_t i = 0; i < v->setting_n; i++) {
		const json_t *r = refusal(v, i);
		struct tm_err err = { 0 };
		const char *text;

		if (!r || said_before(v, i))
			continue;
		text = tm_json_str(r, "refused", "refused");
		/* the worker calls it as a spec does */
		text += tm_starts_with(text, "alloc_conf, ") || tm_starts_with(text, "alloc_conf: ") ? strlen("alloc_conf, ") : 0;
		rc = tm_fail(&err, TM_EINPUT, "%s, %s", v->settings[i].conf ? "--conf" : "the recording's own settings", text);
		cli_print_error(cli, &err);
		point_at(v->settings[i].conf ? v->settings[i].conf : tm_json_str(r, "conf", ""), tm_json_i64(r, "refused_at", -1));
	}
	return rc;
}

static const json_t *failure_of(const struct replay_view *v, size_t file, size_t setting)
{
	return json_object_get(v->replayed[file].results[setting], "first_failure");
}

/* The cap itself forbids the first request, whatever the setting; a device that is too small (--total) is another matter. */
static bool below_first(const struct replay_view *v, size_t file, uint64_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < v->setting_n; i++) {
		const json_t *fail = failure_of(v, file, i);

		if (v->settings[i].cap_bytes != cap || !v->replayed[file].results[i])
			continue;
		if (!json_is_true(json_object_get(fail, "first")) || tm_json_real(fail, "segment", 0) <= (double)cap)
			return false;
		n++;
	}
	return n > 0;
}

/* A cap under which not even the first request is served is a slip of the hand, not a question. */
static int caps(struct cli *cli, const struct replay_view *v)
{
	char cap[32], request[32], segment[32];

	for (size_t f = 0; f < v->file_n; f++) {
		for (size_t i = 0; i < v->setting_n; i++) {
			const json_t *fail = failure_of(v, f, i);

			if (!v->settings[i].cap_bytes || !below_first(v, f, v->settings[i].cap_bytes))
				continue;
			return tm_fail(&cli->err, TM_EINPUT, "--cap %s is below the first request of %.200s: %s, for which the allocator takes "
				       "%s from the driver", tm_size_text((double)v->settings[i].cap_bytes, cap), v->files[f],
				       tm_size_text(tm_json_real(fail, "request", 0), request),
				       tm_size_text(tm_json_real(fail, "segment", 0), segment));
		}
	}
	return 0;
}

int replay_refuse_settings(struct cli *cli, const struct replay_view *v)
{
	int rc = option_strings(cli, v);

	return rc ? rc : caps(cli, v);
}

int replay_refuse_files(struct cli *cli, const struct replay_view *v)
{
	bool broken = false, none = false;

	for (size_t f = 0; f < v->file_n; f++) {
		const struct replayed *r = &v->replayed[f];
		struct tm_err err = { 0 };
		bool state = r->recording && !json_is_true(json_object_get(r->recording, "history"));

		broken |= r->code == TM_EINPUT;
		none |= r->code == TM_ENONE || state;
		if (!r->code && !state)
			continue;
		/* two states can be compared; that is all that --against wants */
		if (state && v->options->against && r->code != TM_EINPUT)
			continue;
		tm_fail_at(&err, r->code ? r->code : TM_ENONE, v->files[f], 0, 0, "%s", r->why ? r->why :
			   "no history in it, only the state at one moment; record with torch.cuda.memory._record_memory_history()");
		cli_print_error(cli, &err);
	}
	return broken ? TM_EINPUT : none && !v->options->against ? TM_ENONE : 0;
}
