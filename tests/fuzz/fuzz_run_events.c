/*
 * Any bytes as the event stream of a worker, in pieces of varying size: read,
 * checked, collected, and where they hold a result also judged. What is kept
 * stays within its bounds, and nothing is taken behind a violation.
 */
#include "run/figures.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void judge(const struct collect *c)
{
	static json_t *metrics, *params;
	struct spec_measure measure = { .reps = 1, .warmup_min = 1, .warmup_max = 3, .warmup_window = 20, .warmup_slope = 0.01, .steps = 4 };
	struct tm_err err = { 0 };
	struct figures f;

	if (!metrics) {
		metrics = json_pack("[{s:s},{s:s},{s:s},{s:s}]", "name", "mem.requested.peak", "name", "mem.allocated.peak",
				    "name", "mem.reserved.peak", "name", "mem.input.at_peak");
		params = json_pack("{s:s,s:i}", "allocator", "raw", "cap", 1000);
	}
	struct figures_input in = { .collect = c, .metrics = metrics, .params = params, .measure = &measure };

	if (figures_make(&in, &f, &err)) {
		BUG_ON(!err.text[0]);
		return;
	}
	for (size_t i = 0; i < f.n; i++)
		BUG_ON(!(f.values[i].v - f.values[i].v == 0));
	figures_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	/* the first byte says how large the pieces are */
	size_t piece = n ? (size_t)data[0] + 1 : 1;
	struct tm_err err = { 0 };
	struct collect c;
	struct events ev;
	bool failed = false;

	collect_init(&c, 0);
	events_init(&ev, collect_event, &c);
	for (size_t i = 1; i < n; i += piece) {
		size_t steps = c.steps.n, kept = c.event_n;
		int rc = events_feed(&ev, data + i, n - i < piece ? n - i : piece, &err);

		BUG_ON(failed && (rc || c.steps.n != steps || c.event_n != kept));
		failed |= rc != 0;
	}
	if (!events_end(&ev, &err) && !failed && c.result)
		judge(&c);
	collect_close(&c);
	BUG_ON(c.event_n > COLLECT_EVENTS_MAX || c.event_bytes > COLLECT_EVENT_BYTES_MAX);
	collect_free(&c);
	events_free(&ev);
	return 0;
}
