#include "replay_command.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "replay_answer.h"

#include <string.h>
#include <unistd.h>

#define QUESTION_BYTES_MAX (64u << 20)     /* thousands of files with long names, or of settings */

/* A question, and the setting at hand. */
struct question {
	json_t *json;
	const json_t *files, *settings;
	bool min_cap, detail;
	int device;
};

/* A recording at hand; history: it can be replayed. */
struct subject {
	const char *file;
	struct recording *r;
	struct replay *replay;
};

/* ---- the question ---------------------------------------------------------------- */

static int check_setting(const json_t *s, size_t i, struct tm_err *err)
{
	static const char *const sizes[] = { "cap", "total", "outside" };
	const char *mode = tm_json_str(s, "mode", "what-if"), *start = tm_json_str(s, "start", "warm");

	if (!json_is_object(s))
		return tm_fail(err, TM_EINPUT, "settings[%zu]: expected an object", i);
	if (strcmp(mode, "what-if") && strcmp(mode, "exact"))
		return tm_fail(err, TM_EINPUT, "settings[%zu]: mode \"%s\"; expected exact or what-if", i, mode);
	if (strcmp(start, "warm") && strcmp(start, "cold"))
		return tm_fail(err, TM_EINPUT, "settings[%zu]: start \"%s\"; expected warm or cold", i, start);
	for (size_t k = 0; k < TM_ARRAY_N(sizes); k++)
		if (tm_json_i64(s, sizes[k], 0) < 0)
			return tm_fail(err, TM_EINPUT, "settings[%zu]: %s is negative", i, sizes[k]);
	return 0;
}

static int read_question(struct question *q, struct tm_err *err)
{
	struct tm_str text = TM_STR_INIT;
	int rc = tm_read_fd(STDIN_FILENO, QUESTION_BYTES_MAX, &text, err);

	if (!rc)
		rc = tm_json_parse(text.s, text.n, &q->json, err);
	tm_str_free(&text);
	if (rc)
		return rc;
	q->files = json_object_get(q->json, "files");
	q->settings = json_object_get(q->json, "settings");
	q->min_cap = json_is_true(json_object_get(q->json, "min_cap"));
	q->detail = json_is_true(json_object_get(q->json, "detail"));
	q->device = (int)tm_json_i64(q->json, "device", -1);
	if (tm_json_i64(q->json, "v", 0) != 1)
		return tm_fail(err, TM_EINPUT, "v: expected 1; build tidemark and tidemark-work together");
	if (!json_is_array(q->files) || (q->settings && !json_is_array(q->settings)))
		return tm_fail(err, TM_EINPUT, "files and settings must be arrays");
	for (size_t i = 0; i < json_array_size(q->files); i++)
		if (!json_is_string(json_array_get(q->files, i)))
			return tm_fail(err, TM_EINPUT, "files[%zu]: expected a path", i);
	for (size_t i = 0; i < json_array_size(q->settings) && !rc; i++)
		rc = check_setting(json_array_get(q->settings, i), i, err);
	return rc;
}

static struct replay_setting setting_of(const json_t *s)
{
	return (struct replay_setting){
		.policy = tm_json_str(s, "policy", "caching"), .conf = tm_json_str(s, "conf", NULL),
		.cap_bytes = (uint64_t)tm_json_i64(s, "cap", 0), .total_bytes = (uint64_t)tm_json_i64(s, "total", 0),
		.outside_bytes = (uint64_t)tm_json_i64(s, "outside", 0),
		.mode = strcmp(tm_json_str(s, "mode", "what-if"), "exact") ? REPLAY_WHAT_IF : REPLAY_EXACT,
		.start = strcmp(tm_json_str(s, "start", "warm"), "cold") ? REPLAY_WARM : REPLAY_COLD,
	};
}

/* ---- lines ------------------------------------------------------------------------- */

static int print_refused(const char *file, const struct tm_err *why, int code, struct tm_err *err)
{
	json_t *line = json_pack("{s:s, s:s, s:i, s:s}", "e", "refused", "file", file, "code", -code, "text", why->text);

	if (why->line)
		answer_int(line, "line", why->line);
	return tm_json_write_line(STDOUT_FILENO, line, err);
}

static void take_stat(void *arg, const char *name, int64_t value)
{
	json_object_set_new(arg, name, json_integer(value));
}

/* ---- one setting ------------------------------------------------------------------- */

/* The option string read once more, for what is to be said about it. True: it is refused. */
static bool read_conf(const struct replay_setting *setting, const char *text, json_t *line, json_t *warnings)
{
	struct conf_context ctx = { .limited = setting->cap_bytes > 0 };
	struct conf_notes notes = { 0 };
	struct tm_str effective = TM_STR_INIT;
	struct tm_err why = { 0 };
	struct conf conf;
	int rc = conf_read(text, &ctx, &conf, NULL, &notes, &why);

	for (size_t i = 0; i < notes.n; i++)
		answer_text(warnings, "%s", notes.v[i].text);
	conf_notes_free(&notes);
	if (rc) {
		json_object_set_new(line, "refused", json_string(why.text));
		answer_int(line, "refused_at", why.column ? why.column - 1 : 0);
		return true;
	}
	replay_spell(&conf, &effective);
	json_object_set_new(line, "effective", json_string(effective.s));
	tm_str_free(&effective);
	if (conf.fraction < 1 && !setting->total_bytes)
		answer_text(warnings, "per_process_memory_fraction is a share of the device's memory, which is not given (--total)");
	return false;
}

/* Another layout of addresses; where it gives other figures, ties between equal blocks decide them. */
static void compare_layouts(const struct subject *s, const struct replay_setting *setting,
			    const struct replay_result *result, json_t *warnings)
{
	struct replay_setting other = *setting;
	struct replay_result again;
	char a[32], b[32];

	other.layout = 2;
	if (setting->mode != REPLAY_WHAT_IF || replay_run(s->replay, &other, &again, NULL))
		return;
	if (again.completes != result->completes)
		answer_text(warnings, "it is a near thing: where other memory of the program lies otherwise, this %s",
			    again.completes ? "completes" : "runs out");
	else if (again.reserved_peak != result->reserved_peak)
		answer_text(warnings, "ties between equal free blocks decide the figure: %s reserved here, %s where other memory of the program lies otherwise",
			    tm_size_text((double)result->reserved_peak, a), tm_size_text((double)again.reserved_peak, b));
}

static int add_detail(const struct subject *s, const struct replay_setting *setting, const struct replay_result *result,
		      json_t *line, struct tm_err *err)
{
	struct replay_stranded stranded;
	struct replay_picture picture;
	int rc = replay_picture(s->replay, setting, result, &picture, err);

	if (!rc) {
		replay_stranded(s->replay, setting, &picture, &stranded);
		answer_picture(line, s->r, &picture, &stranded);
		replay_stranded_fini(&stranded);
	}
	replay_picture_fini(&picture);
	return rc;
}

static void remark(const struct replay_setting *setting, const struct replay_result *result, json_t *warnings)
{
	if (result->cold && setting->start == REPLAY_WARM)
		answer_text(warnings, "the segments at the first event could not be taken over; what lived in them was asked for anew");
	if (!result->completes && result->first_failure.request_bytes == 0)
		answer_text(warnings, "what was in use at the first event does not fit: its segments are kept as they were (--start cold asks for each block anew)");
	else if (!result->completes && setting->mode == REPLAY_WHAT_IF)
		answer_text(warnings, "behind the first request that is refused the program would have gone another way; the figures go on as if it had done without");
}

static int replay_one(const struct question *q, const struct subject *s, const struct replay_setting *setting,
		      bool detail, json_t *line, json_t *warnings, struct tm_err *err)
{
	const struct mem_policy *policy = mem_policy_find(setting->policy);
	struct replay_result result;
	json_t *stats = json_object();
	uint64_t cap;
	bool monotone;
	int rc = 0;

	json_object_set_new(line, "stats", stats);
	if (policy && policy->takes_conf &&
	    read_conf(setting, setting->conf ? setting->conf : replay_conf(s->replay), line, warnings))
		return 0;
	rc = replay_run_stats(s->replay, setting, &result, take_stat, stats, err);
	if (rc)
		return rc;
	remark(setting, &result, warnings);
	if (detail) {
		rc = add_detail(s, setting, &result, line, err);
		compare_layouts(s, setting, &result, warnings);
	}
	if (!rc && q->min_cap && setting->mode == REPLAY_WHAT_IF) {
		rc = replay_min_cap(s->replay, setting, &cap, &monotone, err);
		answer_int(line, "min_cap", cap);
		json_object_set_new(line, "min_cap_monotone", json_boolean(monotone));
	}
	answer_result(line, s->r, s->replay, &result);
	return rc;
}

static int answer_setting(const struct question *q, const struct subject *s, const json_t *asked, struct tm_err *err)
{
	const struct replay_setting setting = setting_of(asked);
	json_t *line = json_object(), *warnings = json_array();
	struct tm_err why = { 0 };
	int rc;

	json_object_set_new(line, "e", json_string("result"));
	json_object_set_new(line, "file", json_string(s->file));
	json_object_set_new(line, "sha", json_string(s->r->sha));
	answer_int(line, "device", (uint64_t)s->r->device);
	json_object_set_new(line, "policy", json_string(setting.policy));
	json_object_set_new(line, "conf", json_string(setting.conf ? setting.conf : replay_conf(s->replay)));
	answer_int(line, "cap", setting.cap_bytes);
	json_object_set_new(line, "mode", json_string(setting.mode == REPLAY_EXACT ? "exact" : "what-if"));
	json_object_set_new(line, "start", json_string(setting.start == REPLAY_COLD ? "cold" : "warm"));
	json_object_set_new(line, "warnings", warnings);
	rc = replay_one(q, s, &setting, q->detail || json_is_true(json_object_get(asked, "detail")), line, warnings, &why);
	if (rc)
		json_object_set_new(line, "refused", json_string(why.text));
	return tm_json_write_line(STDOUT_FILENO, line, err);
}

/* ---- one file ------------------------------------------------------------------------ */

static int answer_file(const struct question *q, const char *file, struct tm_err *err)
{
	struct subject s = { .file = file };
	int64_t begin = tm_mono_ns();
	struct tm_err why = { 0 };
	int rc = recording_read(file, q->device, NULL, &s.r, &why);

	if (rc)
		return print_refused(file, &why, rc == TM_EIO ? TM_EINPUT : rc, err);
	if (s.r->has_history) {
		rc = replay_new(s.r, &s.replay, &why);
	} else {
		rc = tm_fail(&why, TM_ENONE, "the file tells of one moment only, so there is nothing to replay; record with torch.cuda.memory._record_memory_history()");
	}
	if (rc == TM_EINPUT) {
		rc = print_refused(file, &why, rc, err);
		goto out;
	}
	rc = tm_json_write_line(STDOUT_FILENO, answer_recording(s.r, s.replay, (double)(tm_mono_ns() - begin) * 1e-9), err);
	if (!rc && !s.replay && json_array_size(q->settings))
		rc = print_refused(file, &why, TM_ENONE, err);
	for (size_t i = 0; s.replay && i < json_array_size(q->settings) && !rc; i++)
		rc = answer_setting(q, &s, json_array_get(q->settings, i), err);
out:
	replay_free(s.replay);
	recording_free(s.r);
	return rc;
}

int replay_command(struct tm_err *err)
{
	struct question q = { 0 };
	int rc = read_question(&q, err);

	for (size_t i = 0; i < json_array_size(q.files) && !rc; i++)
		rc = answer_file(&q, json_string_value(json_array_get(q.files, i)), err);
	if (!rc)
		rc = tm_json_write_line(STDOUT_FILENO, json_pack("{s:s}", "e", "end"), err);
	json_decref(q.json);
	return rc;
}
