/*
 * tidemark show: one run whole. Everything comes from the one JSON object
 * that `export` writes too, so what is shown is what can be carried away.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "cli/command_line.h"
#include "cli/request.h"
#include "cli/param_text.h"
#include "cli/show_page.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_show;

#define LOG_LINES 20
#define LOG_BYTES 65536

static void fact(struct table *t, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	table_text(t, name);
	table_text(t, value);
	table_row(t);
}

static void fact_of(struct table *t, const json_t *run, const char *group, const char *key, const char *name)
{
	const json_t *v = page_at(run, group, key);
	struct tm_str s = TM_STR_INIT;

	if (json_is_string(v)) {
		fact(t, name, json_string_value(v));
	} else if (json_is_integer(v)) {
		tm_str_addf(&s, "%" PRId64, (int64_t)json_integer_value(v));
		fact(t, name, s.s);
	}
	tm_str_free(&s);
}

/* ---- what it was and how it ended ------------------------------------------ */

static void status_fact(struct table *t, const json_t *run)
{
	const json_t *r = json_object_get(run, "run");
	struct tm_str s = TM_STR_INIT;

	store_status_text(tm_json_str(r, "status", "?"), tm_json_str(r, "oom", NULL), &s);
	fact(t, "status", s.s);
	tm_str_reset(&s);
	store_flags_text(tm_json_i64(r, "flags", 0), &s);
	fact(t, "flags", s.s);
	tm_str_free(&s);
}

static void time_facts(struct table *t, const json_t *run)
{
	const json_t *r = json_object_get(run, "run");
	int64_t from = tm_json_i64(r, "started_us", 0), to = tm_json_i64(r, "ended_us", 0);
	char text[32];

	if (from)
		fact(t, "started", tm_iso_time(from, text));
	if (from && to)
		fact(t, "duration", tm_duration_text((double)(to - from) * 1e-6, text));
}

static void build_fact(struct table *t, const json_t *run)
{
	struct tm_str s = TM_STR_INIT;

	tm_str_addf(&s, "%.12s%s", tm_json_str(json_object_get(run, "build"), "commit_sha", "?"),
		    tm_json_i64(json_object_get(run, "build"), "dirty", 0) ? " with changes" : "");
	fact(t, "commit", s.s);
	tm_str_reset(&s);
	tm_str_addf(&s, "%.8s (%s)", tm_json_str(json_object_get(run, "sweep"), "uuid", "?"),
		    tm_json_str(json_object_get(run, "sweep"), "suite", ""));
	fact(t, "sweep", s.s);
	tm_str_free(&s);
}

static void overview(struct page *p)
{
	struct table *t = table_new();
	struct tm_str title = TM_STR_INIT;
	const char *label = tm_json_str(json_object_get(p->run, "config"), "label", "");

	tm_str_addf(&title, "%srun %" PRId64 ": ", p->format == CLI_MD ? "# " : "",
		    tm_json_i64(json_object_get(p->run, "run"), "run_id", 0));
	tm_utf8_show(&title, label, strlen(label));
	tm_str_addf(&p->out, "%s\n\n", title.s);
	table_column(t, "what", TABLE_TEXT);
	table_column(t, "is", TABLE_TEXT);
	status_fact(t, p->run);
	fact_of(t, p->run, "run", "reason", "reason");
	fact_of(t, p->run, "run", "cause", "cause");
	fact_of(t, p->run, "run", "exit_code", "exit code");
	fact_of(t, p->run, "run", "signal", "signal");
	fact_of(t, p->run, "run", "device", "device");
	fact_of(t, p->run, "run", "rep", "repetition");
	fact_of(t, p->run, "run", "attempt", "attempt");
	build_fact(t, p->run);
	fact_of(t, p->run, "env", "host", "host");
	fact_of(t, p->run, "env", "cpu", "cpu");
	fact_of(t, p->run, "env", "gpu", "gpu");
	time_facts(t, p->run);
	fact_of(t, p->run, "run", "log", "log");
	table_print(t, p->format, 0, &p->out);
	table_free(t);
	tm_str_free(&title);
}

/* ---- parameters and values ---------------------------------------------------- */

static void parameters(struct page *p)
{
	const char *workload = tm_json_str(json_object_get(p->run, "config"), "workload", ""), *name;
	struct table *t = table_new();
	json_t *v;

	table_column(t, "parameter", TABLE_TEXT);
	table_column(t, "value", TABLE_TEXT);
	table_column(t, "default", TABLE_TEXT);
	json_object_foreach((json_t *)page_at(p->run, "config", "params"), name, v) {
		const json_t *about = param_description(workload, name), *def = json_object_get(about, "default");
		struct tm_str value = TM_STR_INIT, other = TM_STR_INIT;

		param_text(about, v, &value);
		if (def && !json_equal(def, v))
			param_text(about, def, &other);
		table_text(t, name);
		table_text(t, value.s);
		table_text(t, def && json_equal(def, v) ? "" : def ? other.s : NULL);
		table_row(t);
		tm_str_free(&value);
		tm_str_free(&other);
	}
	page_section(p, "Parameters (the default where it differs)", t);
}

static void readable(double v, const char *unit, struct tm_str *out)
{
	char text[32];

	if (strcmp(unit, "B") == 0) {
		tm_str_add(out, tm_size_text(v, text));
	} else if (strcmp(unit, "B/step") == 0) {
		tm_str_addf(out, "%s a step", tm_size_text(v, text));
	} else if (strcmp(unit, "s") == 0) {
		tm_str_add(out, tm_duration_text(v, text));
	} else {
		table_real_text(v, out);
		if (strcmp(unit, "1/step") == 0)
			tm_str_add(out, " a step");
		else if (*unit && strcmp(unit, "1"))
			tm_str_addf(out, " %s", unit);
	}
}

static void values(struct page *p)
{
	struct table *t = table_new();
	const char *name;
	json_t *v;

	table_column(t, "metric", TABLE_TEXT);
	table_column(t, "value", TABLE_TEXT);
	table_column(t, "MAD", TABLE_TEXT);
	table_column(t, "samples", TABLE_INT);
	json_object_foreach(json_object_get(p->run, "values"), name, v) {
		const char *unit = tm_json_str(v, "unit", "");
		struct tm_str value = TM_STR_INIT, mad = TM_STR_INIT;

		readable(tm_json_real(v, "v", NAN), unit, &value);
		if (json_is_number(json_object_get(v, "mad")))
			readable(tm_json_real(v, "mad", NAN), unit, &mad);
		table_text(t, name);
		table_text(t, value.s);
		table_text(t, mad.n ? mad.s : NULL);
		table_int(t, tm_json_i64(v, "n", 1));
		table_row(t);
		tm_str_free(&value);
		tm_str_free(&mad);
	}
	page_section(p, "Values", t);
}

static double value_of(const json_t *run, const char *metric)
{
	return tm_json_real(page_at(run, "values", metric), "v", NAN);
}

/* Peaks that were planned before the run, to the byte. */
static void planned(struct page *p)
{
	static const char *const names[] = { "requested", "allocated", "reserved" };
	struct table *t = table_new();

	table_column(t, "peak", TABLE_TEXT);
	table_column(t, "planned", TABLE_BYTES);
	table_column(t, "measured", TABLE_BYTES);
	table_column(t, "difference, bytes", TABLE_REAL);
	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		char plan[40], mem[40];
		double was, is;

		snprintf(plan, sizeof plan, "plan.%s.peak", names[i]);
		snprintf(mem, sizeof mem, "mem.%s.peak", names[i]);
		was = value_of(p->run, plan);
		is = value_of(p->run, mem);
		if (isnan(was))
			continue;
		table_text(t, names[i]);
		table_real(t, was);
		table_real(t, is);
		table_real(t, is - was);
		table_row(t);
	}
	page_section(p, "Planned and measured", t);
}

/* ---- events, log, command ----------------------------------------------------------- */

/* These have a section of their own or are made for plots. */
static bool is_shown_elsewhere(const json_t *event)
{
	static const char *const kinds[] = { "peak", "live", "timeline", "mem", "grad", "op", "hello", "result", "replay" };

	for (size_t i = 0; i < TM_ARRAY_N(kinds); i++)
		if (page_is_event(event, kinds[i]))
			return true;
	return false;
}

/* A sentence where the event has one, else "name=load at=begin". */
static void event_text(const json_t *e, struct tm_str *out)
{
	const char *text = tm_json_str(e, "text", NULL), *key;
	json_t *v;

	if (text) {
		tm_str_add(out, text);
		return;
	}
	json_object_foreach((json_t *)e, key, v) {
		if (!strcmp(key, "e") || !strcmp(key, "seq") || !strcmp(key, "t_us"))
			continue;
		tm_str_addf(out, "%s%s=", out->n ? " " : "", key);
		if (json_is_string(v))
			tm_str_add(out, json_string_value(v));
		else
			tm_json_canonical(v, out);
	}
}

static void events(struct page *p)
{
	struct table *t = table_new();
	json_t *event;
	size_t i;

	table_column(t, "after", TABLE_SECONDS);
	table_column(t, "event", TABLE_TEXT);
	table_column(t, "says", TABLE_TEXT);
	json_array_foreach(json_object_get(p->run, "events"), i, event) {
		struct tm_str s = TM_STR_INIT;

		if (is_shown_elsewhere(event))
			continue;
		event_text(json_object_get(event, "json"), &s);
		table_real(t, tm_json_real(event, "t_us", NAN) * 1e-6);
		table_text(t, tm_json_str(event, "kind", ""));
		table_text(t, s.s);
		table_row(t);
		tm_str_free(&s);
	}
	page_section(p, "Events", t);
}

static void add_lines(struct page *p, const char *s, const char *end)
{
	const char *from = end;
	int lines = 0;

	if (from > s && from[-1] == '\n')
		from--;
	while (from > s && lines < LOG_LINES) {
		from--;
		lines += *from == '\n';
	}
	from += from > s || *from == '\n';
	while (from < end) {
		const char *stop = memchr(from, '\n', (size_t)(end - from));

		stop = stop ? stop : end;
		tm_str_add(&p->out, "  ");
		tm_utf8_show(&p->out, from, (size_t)(stop - from));
		tm_str_addc(&p->out, '\n');
		from = stop + 1;
	}
}

static void log_tail(struct page *p)
{
	const char *path = tm_json_str(json_object_get(p->run, "run"), "log", NULL);
	struct tm_str text = TM_STR_INIT;
	off_t size;
	int fd;

	if (!path)
		return;
	page_heading(p, "Log (its last lines)");
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	if (size > LOG_BYTES)
		size = lseek(fd, -LOG_BYTES, SEEK_END);
	else if (size >= 0)
		size = lseek(fd, 0, SEEK_SET);
	if (size < 0 || tm_read_fd(fd, 2 * LOG_BYTES, &text, NULL))
		tm_str_addf(&p->out, "  %s cannot be read: %s\n", path, strerror(errno));
	else
		add_lines(p, text.s, text.s + text.n);
	if (fd >= 0)
		close(fd);
	tm_str_free(&text);
}

/* As stored with the sweep by the scheduler: points by hash, each with its measure. */
static bool measure_of(const json_t *run, struct spec_measure *out)
{
	const json_t *points = page_at(run, "sweep", "spec"), *m;

	points = json_object_get(points, "points");
	m = page_at(points, tm_json_str(json_object_get(run, "config"), "hash", ""), "measure");
	if (!json_is_object(m))
		return false;
	*out = (struct spec_measure){
		.reps = tm_json_i64(m, "reps", 1), .steps = tm_json_i64(m, "steps", 1),
		.warmup_min = tm_json_i64(m, "warmup_min", 0), .warmup_max = tm_json_i64(m, "warmup_max", 0),
		.warmup_window = tm_json_i64(m, "warmup_window", 20), .warmup_slope = tm_json_real(m, "warmup_slope", 0.01),
	};
	return true;
}

static void command(const json_t *run, struct tm_str *out)
{
	const json_t *config = json_object_get(run, "config");
	struct spec_measure measure;
	struct tm_str params = TM_STR_INIT;
	bool measured = measure_of(run, &measure);
	const json_t *whole = json_object_get(page_at(run, "sweep", "spec"), "command");

	tm_json_canonical(json_object_get(config, "params"), &params);
	/* a sweep that is one command, as a replay, says so itself */
	if (json_is_string(whole))
		tm_str_add(out, json_string_value(whole));
	else
		command_line_of(cli_describe(), tm_json_str(config, "workload", ""), params.s, measured ? &measure : NULL, out);
	tm_str_free(&params);
}

static void page_print(struct page *p)
{
	overview(p);
	parameters(p);
	values(p);
	planned(p);
	page_memory(p);
	page_operators(p);
	page_device(p);
	events(p);
	log_tail(p);
	page_heading(p, "The command that repeats it");
	tm_str_add(&p->out, "  ");
	command(p->run, &p->out);
	tm_str_addc(&p->out, '\n');
}

static void json_print(json_t *run, struct tm_str *out)
{
	struct tm_str line = TM_STR_INIT;

	command(run, &line);
	json_object_set_new(run, "command", json_string(line.s));
	tm_json_canonical(run, out);
	tm_str_addc(out, '\n');
	tm_str_free(&line);
}

static int show_main(struct cli *cli, int argc, char **argv)
{
	struct page page = { .out = TM_STR_INIT };
	struct store *store;
	json_t *run = NULL;
	int64_t id;
	int rc;

	argc = cli_options(cli, &command_show, NULL, argc, argv);
	if (argc < 0)
		return argc;
	if (argc != 2)
		return tm_fail(&cli->err, TM_EUSAGE, "show takes one run: its number or its label");
	if (cli->format == CLI_CSV)
		return tm_fail(&cli->err, TM_EUSAGE, "show writes --format table, md, json or jsonl; for CSV use export or query");
	rc = cli_open_store(cli, false, &store);
	if (rc)
		return rc;
	rc = store_run_resolve(store, argv[1], &id, &cli->err);
	if (!rc)
		rc = store_run_json(store, id, &run, &cli->err);
	store_close(store);
	if (rc)
		return rc;
	page.run = run;
	page.format = cli->format;
	if (cli->format == CLI_JSON || cli->format == CLI_JSONL)
		json_print(run, &page.out);
	else
		page_print(&page);
	rc = request_answer(cli, NULL, &page.out);
	json_decref(run);
	tm_str_free(&page.out);
	return rc;
}

const struct command command_show = {
	.name = "show",
	.summary = "one run whole: figures, memory, operators, log, the command that repeats it",
	.usage = "show RUN",
	.help =
		"RUN is the number in the first column of a sweep's table, or a label (then its newest run).\n"
		"With --format json: the object that `export` writes, and the command.\n\n"
		"  tidemark show 12\n"
		"  tidemark --format json show gpt/batch=4\n",
	.everyday = true,
	.main = show_main,
};
