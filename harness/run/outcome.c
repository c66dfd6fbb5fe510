#include "outcome.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* Exit codes of a worker (docs/protocol.md). */
enum { WORK_OOM = 3, WORK_FAILED = 4, WORK_REFUSED = 20, WORK_ENVIRONMENT = 21 };

#define HOST_NEAR_SHARE 0.95              /* a SIGKILL this close to the limit was probably the kernel's */

__attribute__((format(printf, 4, 5)))
static void say(struct outcome *out, const char *status, const char *cause, const char *fmt, ...)
{
	struct tm_str given = TM_STR_INIT, text = TM_STR_INIT;
	va_list ap;
	size_t n;

	out->status = status;
	snprintf(out->cause, sizeof out->cause, "%s", cause ? cause : "");
	va_start(ap, fmt);
	tm_str_vaddf(&given, fmt, ap);
	va_end(ap);
	/* parts come from the worker: keep a terminal and the database safe from them */
	tm_utf8_show_line(&text, given.s, given.n);
	n = text.n < sizeof out->reason - 1 ? text.n : sizeof out->reason - 1;
	while (n && !tm_utf8_valid(text.s, n))          /* cut between characters */
		n--;
	memcpy(out->reason, text.s, n);
	out->reason[n] = '\0';
	tm_str_free(&given);
	tm_str_free(&text);
}

/* The step in words, or nothing before the first one. */
static const char *at_step(char out[40], const char *before, int64_t step, const char *after)
{
	out[0] = '\0';
	if (step >= 0)
		snprintf(out, 40, "%sstep %" PRId64 "%s", before, step, after);
	return out;
}

/* "in phase measure; the last event was beat, 3.1 s before; step 12" */
static void add_place(const struct attempt *a, struct tm_str *out)
{
	char quiet[32];

	tm_str_addf(out, "in phase %s", a->phase);
	if (a->last_step >= 0)
		tm_str_addf(out, " after step %" PRId64, a->last_step);
	if (a->last_kind[0])
		tm_str_addf(out, "; the last event, %s, came %s before", a->last_kind,
			    tm_duration_text((double)a->quiet_us / 1e6, quiet));
	else
		tm_str_add(out, "; there was no event");
}

static void add_last_line(const struct attempt *a, struct tm_str *out)
{
	if (a->guarded.report.last_line[0])
		tm_str_addf(out, "; last line of stderr: %s", a->guarded.report.last_line);
}

/* The event stream broke the protocol, or shows by itself that the run can come to nothing. */
static void violated(const struct attempt *a, struct outcome *out)
{
	if (a->collect.verdict_cause)
		say(out, "invalid", a->collect.verdict_cause, "%s", a->collect.verdict.text);
	else
		say(out, "invalid", "events", "%s", a->violation);
}

/* ---- ended by us ----------------------------------------------------------- */

static void timed_out(const struct outcome_input *in, const char *cause, const char *limit, int64_t limit_us, struct outcome *out)
{
	struct tm_str place = TM_STR_INIT;
	char text[32];

	add_place(in->attempt, &place);
	say(out, "timeout", cause, "%s limit of %s reached %s", limit, tm_duration_exact(limit_us, text), place.s);
	tm_str_free(&place);
}

static void host_memory(const struct outcome_input *in, bool probable, struct outcome *out)
{
	const struct guard_report *r = &in->attempt->guarded.report;
	double peak = (double)(r->tree_peak_bytes > r->host_peak_bytes ? r->tree_peak_bytes : r->host_peak_bytes);
	char limit[32], used[32];

	out->oom = "host";
	say(out, "oom", probable ? "probable" : NULL, "host memory %s with a limit of %s%s in phase %s", tm_size_text(peak, used),
	    tm_size_exact(in->limits->host_bytes, limit),
	    probable ? ": killed by a signal that was not ours, probably the kernel's," : "", in->attempt->phase);
}

/* False: the worker ended by itself. */
static bool ended_by_us(const struct outcome_input *in, struct outcome *out)
{
	const struct attempt *a = in->attempt;
	const struct guard_report *r = &a->guarded.report;

	if (a->stop == STOP_GUARD || (a->guarded.lost && a->stop == STOP_NOT)) {
		say(out, "interrupted", "guard", "tidemark-guard was killed; everything it guarded was ended");
		return true;
	}
	/* it was done before the order reached it */
	if (a->guarded.done && r->why == GUARD_BY_ITSELF && a->stop != STOP_VIOLATION)
		return false;
	if (a->stop == STOP_SIGNAL || (a->guarded.done && r->why == GUARD_BY_SIGNAL)) {
		say(out, "interrupted", NULL, "stopped by a signal in phase %s", a->phase);
		return true;
	}
	if (a->stop == STOP_VIOLATION) {
		violated(a, out);
		return true;
	}
	if (a->stop == STOP_SILENT)
		timed_out(in, "silent", "silence", in->limits->silent_us, out);
	else if (r->why == GUARD_BY_HOST)
		host_memory(in, false, out);
	else
		timed_out(in, "wall", "wall-clock", in->limits->wall_us, out);
	return true;
}

/* ---- ended by itself ---------------------------------------------------------- */

static void signalled(const struct outcome_input *in, struct outcome *out)
{
	const struct attempt *a = in->attempt;
	const struct guard_report *r = &a->guarded.report;
	const char *name = sigabbrev_np(out->signal);
	struct tm_str last = TM_STR_INIT;
	double limit = (double)in->limits->host_bytes;

	if (r->oom_kills || (out->signal == SIGKILL && limit > 0 && (double)r->host_peak_bytes >= HOST_NEAR_SHARE * limit)) {
		host_memory(in, !r->oom_kills, out);
		return;
	}
	add_last_line(a, &last);
	say(out, "crash", "signal", "ended by signal %d (SIG%s) in phase %s%s", out->signal, name ? name : "?", a->phase, last.s);
	tm_str_free(&last);
}

static void out_of_memory(const struct outcome_input *in, struct outcome *out)
{
	const json_t *oom = in->attempt->collect.oom;
	char asked[32], reserved[32], size[32], step[40], cap[48] = "";

	if (!oom) {
		say(out, "crash", "exit", "exit code %d says out of memory, but there was no `oom` event", WORK_OOM);
		return;
	}
	out->oom = !strcmp(tm_json_str(oom, "kind", ""), "cap") ? "cap" : "device";
	if (!json_object_get(oom, "asked")) {
		say(out, "oom", json_is_true(json_object_get(oom, "suspected")) ? "suspected" : NULL,
		    "out of memory in phase %s%s%s", in->attempt->phase, *tm_json_str(oom, "text", "") ? ": " : "",
		    tm_json_str(oom, "text", ""));
		return;
	}
	if (!strcmp(out->oom, "cap") && tm_json_real(oom, "cap", 0) > 0)
		snprintf(cap, sizeof cap, " of a cap of %s", tm_size_text(tm_json_real(oom, "cap", 0), size));
	say(out, "oom", json_is_true(json_object_get(oom, "suspected")) ? "suspected" : NULL,
	    "%s asked for %s with %s reserved%s, in phase %s%s", tm_json_str(oom, "op", "the workload"),
	    tm_size_text(tm_json_real(oom, "asked", 0), asked), tm_size_text(tm_json_real(oom, "reserved", 0), reserved), cap,
	    in->attempt->phase, at_step(step, ", ", tm_json_i64(oom, "step", in->attempt->last_step), ""));
}

/*
 * Causes where something broke that another day might not break. The rest
 * (data, nan, a launch the hardware refuses for its size, …) is the
 * configuration's own fault and makes it invalid.
 */
static bool is_breakdown(const char *cause)
{
	static const char *const causes[] = {
		"library", "io", "device", "error", "reader", "spawn", "signal", "exit",
	};

	for (size_t i = 0; i < TM_ARRAY_N(causes); i++)
		if (!strcmp(cause, causes[i]))
			return true;
	return false;
}

static void failed(const struct outcome_input *in, struct outcome *out)
{
	const json_t *fail = in->attempt->collect.fail;
	const char *cause = tm_json_str(fail, "cause", "");
	struct tm_str text = TM_STR_INIT;
	char step[40];

	if (!fail) {
		say(out, "crash", "exit", "exit code %d says that it failed, but there was no `fail` event", WORK_FAILED);
		return;
	}
	tm_str_addf(&text, "%s%s", tm_json_str(fail, "text", ""),
		    at_step(step, " (", tm_json_i64(fail, "step", in->attempt->last_step), ")"));
	/* a program of somebody else ended badly: what it said last is the best reason there is */
	if (!strcmp(cause, "exit") || !strcmp(cause, "signal"))
		add_last_line(in->attempt, &text);
	say(out, is_breakdown(cause) ? "crash" : "invalid", cause, "%s", text.s);
	tm_str_free(&text);
}

static void refused(const struct outcome_input *in, struct outcome *out)
{
	const char *text = tm_json_str(in->attempt->collect.refused, "text", "no `refused` event says why");

	if (out->exit_code == WORK_ENVIRONMENT) {
		out->refused = true;
		say(out, "interrupted", "refused", "the worker refuses to run here: %s", text);
	} else {
		say(out, "invalid", "refused", "the worker refuses the job: %s", text);
	}
}

/* Memory was taken and time went by, but nothing was learnt: 0 tokens a second are no point of a front. */
static void untaken(const struct attempt *a, struct outcome *out)
{
	struct tm_str text = TM_STR_INIT;

	judge_scale_text(&a->collect.scale, &text);
	say(out, "invalid", "scale", "no counted step was taken: %s; a longer warm-up, or a smaller scale at first, lets it find its place", text.s);
	tm_str_free(&text);
}

/* Skipped steps are no fault, but whoever reads the speed should know. */
static void taken(const struct attempt *a, struct outcome *out)
{
	struct tm_str text = TM_STR_INIT;

	out->flags |= out->figures.flags;
	judge_scale_text(&a->collect.scale, &text);
	if (text.n)
		say(out, "ok", NULL, "%s", text.s);
	tm_str_free(&text);
}

static void succeeded(const struct outcome_input *in, struct outcome *out)
{
	const struct attempt *a = in->attempt;
	struct figures_input fi = {
		.collect = &a->collect, .metrics = in->metrics, .allocators = in->allocators, .params = in->params,
		.measure = in->measure, .host_peak_bytes = a->guarded.report.host_peak_bytes,
	};
	struct tm_err err = { 0 };

	if (a->violation[0])
		violated(a, out);
	else if (!a->collect.result)
		say(out, "invalid", "events", "it ended with exit code 0 and without a result");
	else if (figures_make(&fi, &out->figures, &err))
		say(out, "invalid", "figures", "%s", err.text);
	else if (out->figures.none_taken)
		untaken(a, out);
	else
		taken(a, out);
}

static void exited(const struct outcome_input *in, struct outcome *out)
{
	struct tm_str last = TM_STR_INIT;

	switch (out->exit_code) {
	case 0:
		succeeded(in, out);
		break;
	case WORK_OOM:
		out_of_memory(in, out);
		break;
	case WORK_FAILED:
		failed(in, out);
		break;
	case WORK_REFUSED:
	case WORK_ENVIRONMENT:
		refused(in, out);
		break;
	default:
		add_last_line(in->attempt, &last);
		say(out, "crash", "exit", "exit code %d in phase %s%s", out->exit_code, in->attempt->phase, last.s);
	}
	tm_str_free(&last);
}

void outcome_decide(const struct outcome_input *in, struct outcome *out)
{
	const struct attempt *a = in->attempt;
	const struct guard_report *r = &a->guarded.report;

	memset(out, 0, sizeof *out);
	out->status = "ok";
	if (a->guarded.done && r->wait_status >= 0) {
		out->has_exit = WIFEXITED(r->wait_status);
		out->has_signal = WIFSIGNALED(r->wait_status);
		out->exit_code = out->has_exit ? WEXITSTATUS(r->wait_status) : 0;
		out->signal = out->has_signal ? WTERMSIG(r->wait_status) : 0;
	}
	if (a->guarded.done && r->log_cut)
		out->flags |= FLAG_LOG_CUT;
	if (ended_by_us(in, out))
		return;
	if (out->has_signal)
		signalled(in, out);
	else if (out->has_exit)
		exited(in, out);
	else
		say(out, "crash", "stuck", "the worker could not be reaped");
}

void outcome_invalid(struct outcome *out, const char *cause, const char *reason)
{
	say(out, "invalid", cause, "%s", reason);
}

void outcome_free(struct outcome *out)
{
	figures_free(&out->figures);
}
