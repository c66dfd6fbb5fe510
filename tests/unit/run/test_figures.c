/* A run that says it succeeded: is it true. One honest stream, and liars who differ from it in one thing each. */
#include "test.h"

#include "run/figures.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>

static const char descriptions[] =
	"[{\"name\":\"mem.requested.peak\"},{\"name\":\"mem.allocated.peak\"},{\"name\":\"mem.reserved.peak\"},"
	"{\"name\":\"mem.parameters.at_peak\"},{\"name\":\"mem.input.at_peak\"},{\"name\":\"mem.fragmentation\"},"
	"{\"name\":\"mem.host.peak\"},{\"name\":\"flops.done\"},{\"name\":\"loss.final\"},{\"name\":\"throughput.tokens\"}]";

static const char allocator_list[] = "[{\"name\":\"raw\",\"exact\":true},{\"name\":\"pool\",\"exact\":false}]";

/* Everything has the honest default; a test changes one of them. */
struct story {
	const char *us, *tokens, *loss, *live, *phase, *skipped;     /* of the four counted steps */
	const char *metrics, *work;
	int steps, first, window_us;
	const char *allocator;
	bool unsettled;
	int warmup_max;
	int64_t seen_us;                  /* how long the window took by our clock; 0: as the worker says */
};

static struct collect collect;
static json_t *params, *metrics, *allocators;

static int tell(const struct story *s, struct figures *f, struct tm_err *err)
{
	struct tm_str t = TM_STR_INIT;
	struct events ev;
	struct spec_measure measure = { .reps = 1, .warmup_min = 2, .warmup_max = s->warmup_max ? s->warmup_max : 2,
					.warmup_window = 20, .warmup_slope = 0.01, .steps = 4 };
	int window_us = s->window_us ? s->window_us : 4100;

	tm_str_addf(&t, "{\"e\":\"steps\",\"seq\":0,\"t_us\":0,\"i0\":0,\"phase\":\"warmup\",\"us\":[1000,1000],\"tokens\":[64,64],"
		    "\"samples\":[1,1],\"loss\":[3.5,3.25],\"live\":[10,10]}\n"
		    "{\"e\":\"phase\",\"seq\":1,\"t_us\":10,\"name\":\"measure\",\"at\":\"begin\"}\n");
	tm_str_addf(&t, "{\"e\":\"steps\",\"seq\":2,\"t_us\":20,\"i0\":2,\"phase\":\"%s\",\"us\":[%s],\"tokens\":[%s],\"samples\":[1,1,1,1],"
		    "\"loss\":[%s],\"live\":[%s],\"skipped\":[%s]}\n", s->phase ? s->phase : "train",
		    s->us ? s->us : "1000,1000,1000,1000", s->tokens ? s->tokens : "64,64,64,64",
		    s->loss ? s->loss : "3,2.75,2.5,2.25", s->live ? s->live : "10,10,10,10", s->skipped ? s->skipped : "");
	tm_str_addf(&t, "{\"e\":\"phase\",\"seq\":3,\"t_us\":%d,\"name\":\"measure\",\"at\":\"end\"}\n", 10 + window_us);
	tm_str_addf(&t, "{\"e\":\"result\",\"seq\":4,\"t_us\":1000000,\"steps\":%d,\"first\":%d,\"settled\":%s,\"metrics\":{%s},\"work\":{%s}}\n",
		    s->steps ? s->steps : 4, s->first ? s->first : 2, s->unsettled ? "false" : "true",
		    s->metrics ? s->metrics : "\"mem.requested.peak\":90,\"mem.allocated.peak\":100,\"mem.reserved.peak\":200",
		    s->work ? s->work : "\"steps\":4,\"tokens\":256,\"samples\":4");
	collect_init(&collect, 0);
	events_init(&ev, collect_event, &collect);
	assert_ok(events_feed(&ev, t.s, t.n, err), err);
	collect.window_seen_us = s->seen_us ? s->seen_us : window_us;
	events_free(&ev);
	tm_str_free(&t);
	params = json_pack("{s:s}", "allocator", s->allocator ? s->allocator : "raw");
	assert_ok(tm_json_parse(descriptions, strlen(descriptions), &metrics, err), err);
	assert_ok(tm_json_parse(allocator_list, strlen(allocator_list), &allocators, err), err);
	struct figures_input in = { .collect = &collect, .metrics = metrics, .allocators = allocators, .params = params,
				    .measure = &measure, .host_peak_bytes = 4096 };
	return figures_make(&in, f, err);
}

static void forget(struct figures *f)
{
	figures_free(f);
	collect_free(&collect);
	json_decref(params);
	json_decref(metrics);
	json_decref(allocators);
}

static void caught(const struct story *s, const char *why)
{
	struct tm_err err = { 0 };
	struct figures f;

	if (tell(s, &f, &err) != TM_EINVALID)
		fail_msg("believed, though: %s", why);
	if (!strstr(err.text, why))
		fail_msg("'%s' where '%s' was expected", err.text, why);
	assert_int_equal(f.n, 0);
	forget(&f);
}

static void believed(const struct story *s, int64_t flags)
{
	struct tm_err err = { 0 };
	struct figures f;

	assert_ok(tell(s, &f, &err), &err);
	assert_int_equal(f.flags & (FLAG_UNSTEADY | FLAG_LEAK), flags);
	forget(&f);
}

static void the_honest_one(void **state)
{
	struct tm_err err = { 0 };
	struct figures f;
	bool host = false, speed = false;

	(void)state;
	assert_ok(tell(&(struct story){ 0 }, &f, &err), &err);
	assert_true(f.peak_bytes == 200);
	assert_true(fabs(f.tokens_s - 256 / 4100e-6) < 1);
	for (size_t i = 0; i < f.n; i++) {
		host |= !strcmp(f.values[i].metric, "mem.host.peak") && f.values[i].v == 4096;
		speed |= !strcmp(f.values[i].metric, "step.median") && f.values[i].v == 0.001;
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(f.values[i].metric, f.values[k].metric);
	}
	assert_true(host && speed);
	forget(&f);
}

static void liars(void **state)
{
	(void)state;
	caught(&(struct story){ .metrics = "\"speed.of.light\":1" }, "unknown metric speed.of.light");
	caught(&(struct story){ .metrics = "\"throughput.tokens\":1e12" }, "computed from its steps");
	caught(&(struct story){ .metrics = "\"loss.final\":0" }, "computed from its steps");
	caught(&(struct story){ .metrics = "\"mem.reserved.peak\":-5" }, "negative");
	caught(&(struct story){ .metrics = "\"mem.allocated.peak\":100,\"mem.reserved.peak\":99" }, "lower than mem.allocated.peak");
	caught(&(struct story){ .metrics = "\"mem.allocated.peak\":100,\"mem.requested.peak\":101" }, "lower than mem.requested.peak");
	caught(&(struct story){ .metrics = "\"mem.allocated.peak\":100,\"mem.parameters.at_peak\":60,\"mem.input.at_peak\":41" }, "its own parts");
	caught(&(struct story){ .us = "1000,0,1000,1000" }, "step 3 took 0 us");
	caught(&(struct story){ .steps = 5 }, "5 steps");
	caught(&(struct story){ .first = 3 }, "from step 3 on");
	caught(&(struct story){ .first = 7, .steps = 1 }, "from step 7 on");
	caught(&(struct story){ .tokens = "64,64,64,1" }, "256 tokens of work, the steps show 193");
	caught(&(struct story){ .work = "\"steps\":12,\"tokens\":256,\"samples\":4" }, "12 steps of work");
	caught(&(struct story){ .work = "\"steps\":4,\"tokens\":256,\"samples\":5" }, "5 samples of work");
	caught(&(struct story){ .tokens = "9223372036854775807,64,64,1" }, "2^63");
	caught(&(struct story){ .us = "9000,9000,9000,9000" }, "the window they lie in");
	caught(&(struct story){ .seen_us = 2000000 }, "the worker's clock");
}

static void a_loss_that_does_not_move(void **state)
{
	struct tm_err err = { 0 };
	struct events ev;
	struct figures f;
	struct spec_measure measure = { .reps = 1, .steps = 3 };
	static const char lines[] =
		"{\"e\":\"steps\",\"seq\":0,\"t_us\":0,\"i0\":0,\"us\":[5,5,5],\"loss\":[4,4,4]}\n"
		"{\"e\":\"result\",\"seq\":1,\"t_us\":1,\"steps\":3,\"metrics\":{}}\n";

	(void)state;
	collect_init(&collect, 0);
	events_init(&ev, collect_event, &collect);
	assert_ok(events_feed(&ev, lines, strlen(lines), &err), &err);
	events_free(&ev);
	struct figures_input in = { .collect = &collect, .measure = &measure };
	assert_int_equal(figures_make(&in, &f, &err), TM_EINVALID);
	assert_non_null(strstr(err.text, "did not move: 4 in each of 3 steps"));
	/* one bit is enough to show that something was computed */
	collect.steps.loss[2] = nextafter(4, 5);
	err = (struct tm_err){ 0 };
	assert_ok(figures_make(&in, &f, &err), &err);
	figures_free(&f);
	/* without a loss there is nothing to say */
	for (int i = 0; i < 3; i++)
		collect.steps.loss[i] = NAN;
	assert_ok(figures_make(&in, &f, &err), &err);
	figures_free(&f);
	collect_free(&collect);
}

static void what_is_no_lie(void **state)
{
	(void)state;
	believed(&(struct story){ .allocator = "pool", .metrics = "\"mem.allocated.peak\":100,\"mem.reserved.peak\":99" }, 0);
	believed(&(struct story){ .metrics = "\"mem.fragmentation\":-0.01" }, 0);
	/* a skipped step keeps its time and has no work */
	believed(&(struct story){ .skipped = "3", .work = "\"steps\":4,\"tokens\":192,\"samples\":3" }, 0);
	/* not settled matters only where it could have been waited for */
	believed(&(struct story){ .unsettled = true }, 0);
	believed(&(struct story){ .unsettled = true, .warmup_max = 10 }, FLAG_UNSTEADY);
	believed(&(struct story){ .live = "10,20,30,40" }, FLAG_LEAK);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_honest_one),
		cmocka_unit_test(liars),
		cmocka_unit_test(a_loss_that_does_not_move),
		cmocka_unit_test(what_is_no_lie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
