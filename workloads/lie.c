#include "lie.h"

#include "base/str.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* "fast" is told by null.c: it does not do its work. */
const char *const lie_hows[] = {
	"fast", "inf", "zero-steps", "zero-time", "negative", "peak-below-parts", "unknown-metric",
	"after-result", "not-json", "gap", "1e999", NULL,
};

static bool is(const char *how, const char *what)
{
	return strcmp(how, what) == 0;
}

/* A `mem` event with a number no JSON writer of ours would write. */
static void write_number(struct run *run, const char *number)
{
	struct tm_str line = TM_STR_INIT;

	event_flush(run->events);
	tm_str_addf(&line, "{\"e\":\"mem\",\"seq\":%" PRId64 ",\"t_us\":1,\"requested\":%s}\n",
		    event_skip(run->events, 0), number);
	event_skip(run->events, 1);
	event_raw(run->events, line.s, line.n);
	tm_str_free(&line);
}

void lie_in_step(const char *how, struct run *run)
{
	static const char prose[] = "this is no JSON\n";

	if (is(how, "inf"))
		write_number(run, "Infinity");
	else if (is(how, "1e999"))
		write_number(run, "1e999");
	else if (is(how, "gap"))
		event_skip(run->events, 7);
	else if (is(how, "not-json"))
		event_raw(run->events, prose, sizeof prose - 1);
}

/* A whole result of a run that counted nothing. */
static void claim_no_steps(struct run *run, json_t *metrics)
{
	json_t *body = json_object();

	json_object_set_new(body, "steps", json_integer(0));
	json_object_set_new(body, "first", json_integer(0));
	json_object_set_new(body, "settled", json_true());
	json_object_set(body, "metrics", metrics);
	event_send(run->events, "result", body);
	_exit(0);
}

/* One step more, of no duration. */
static void claim_no_time(struct run *run)
{
	struct event_step s = { .i = run->step, .us = 0, .tokens = 1024, .samples = 1, .phase = "train" };

	event_step(run->events, &s);
	event_flush(run->events);
}

void lie_in_metrics(const char *how, struct run *run, json_t *metrics)
{
	if (is(how, "zero-steps"))
		claim_no_steps(run, metrics);
	else if (is(how, "zero-time"))
		claim_no_time(run);
	else if (is(how, "negative"))
		json_object_set_new(metrics, "mem.reserved.peak", json_integer(-5));
	else if (is(how, "peak-below-parts"))
		json_object_set_new(metrics, "mem.parameters.at_peak", json_integer((json_int_t)1 << 50));
	else if (is(how, "unknown-metric"))
		json_object_set_new(metrics, "speed.of.light", json_integer(299792458));
}

void lie_after(const char *how, struct run *run)
{
	json_t *body;

	if (!is(how, "after-result"))
		return;
	body = json_object();
	json_object_set_new(body, "level", json_string("info"));
	json_object_set_new(body, "text", json_string("one word more"));
	event_send(run->events, "note", body);
}
