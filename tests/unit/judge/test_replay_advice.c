/*
 * Advice over replays written by hand: which setting is best under which
 * limit, what arithmetic forbids, what is said of which options.
 */
#include "test.h"

#include "base/json.h"
#include "base/mem.h"
#include "judge/replay_advice.h"

#define GIB 1073741824.0
#define MIB 1048576.0
#define SETTINGS_MAX 8

/* One setting and what came of it; sizes in GiB. */
struct outcome {
	const char *conf;                 /* NULL: as recorded */
	double cap, reserved, min_cap;    /* min_cap 0: not asked for; below 0: none found */
	double calls, retries;
	bool fails;
};

struct world {
	struct replay_case c;
	json_t *recording, *settings;
	json_t *results[SETTINGS_MAX];
};

static json_t *result(const struct outcome *o, double live)
{
	json_t *r = json_pack("{s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:i, s:f}", "e", "result", "conf", o->conf ? o->conf : "",
			      "completes", !o->fails, "requested_peak", live * GIB, "allocated_peak", live * GIB, "active_peak", live * GIB,
			      "reserved_peak", o->reserved * GIB, "device_allocs", o->calls, "device_frees", 0, "retries", o->retries);

	assert_non_null(r);
	if (o->min_cap != 0)
		json_object_set_new(r, "min_cap", json_real(o->min_cap > 0 ? o->min_cap * GIB : 0));
	return r;
}

/* live: GiB that live at once, rounded. */
static struct world *world(const struct outcome *v, size_t n, double live)
{
	struct world *w = tm_xcalloc(1, sizeof(*w));

	w->recording = json_pack("{s:b, s:f, s:s, s:s}", "history", 1, "rounded_peak", live * GIB, "confidence", "whole",
				 "recorded_by", "PyTorch 2.9");
	w->settings = json_array();
	for (size_t i = 0; i < n; i++) {
		json_t *s = json_pack("{s:s, s:f}", "policy", "caching", "cap", v[i].cap * GIB);

		json_object_set_new(s, "conf", v[i].conf ? json_string(v[i].conf) : json_null());
		json_array_append_new(w->settings, s);
		w->results[i] = result(&v[i], live);
	}
	w->c = (struct replay_case){ .recording = w->recording, .settings = w->settings, .results = w->results };
	return w;
}

static void world_free(struct world *w)
{
	for (size_t i = 0; i < SETTINGS_MAX; i++)
		json_decref(w->results[i]);
	json_decref(w->recording);
	json_decref(w->settings);
	free(w);
}

static void add_oom(struct world *w, double request, double live, double reserved, double left)
{
	json_object_set_new(w->recording, "ooms", json_pack("[{s:i, s:f, s:f, s:f, s:f, s:s}]", "index", 7, "request", request * GIB,
							    "live", live * GIB, "reserved", reserved * GIB, "device_free", left * GIB,
							    "frame", "model.py:12 scores"));
}

static const char *said(const struct replay_remarks *r, const char *rule)
{
	for (size_t i = 0; i < r->n; i++)
		if (!strcmp(r->v[i].rule, rule))
			return r->v[i].text;
	return NULL;
}

static void assert_says(const char *text, const char *part)
{
	if (!text || !strstr(text, part))
		fail_msg("'%s' is not in: %s", part, text ? text : "(nothing)");
}

static void assert_headline(const struct world *w, const char *part)
{
	struct tm_str s = TM_STR_INIT;

	replay_headline(&w->c, &s);
	assert_says(s.s, part);
	tm_str_free(&s);
}

static void the_least_that_is_enough_wins(void **state)
{
	static const struct outcome v[] = {
		{ NULL, 0, 12.4, 11.2, 100, 0, false }, { "expandable_segments:True", 0, 10.6, 10, 90, 0, false },
		{ "max_split_size_mb:128", 0, 20, 10.5, 150, 0, false },
	};
	struct world *w = world(v, 3, 9.1);
	struct replay_remarks r;

	(void)state;
	assert_int_equal(replay_base(&w->c), 0);
	assert_int_equal(replay_best(&w->c), 1);
	assert_headline(w, "reserves 12.4 GiB to hold 9.10 GiB; fits in 10.0 GiB with expandable_segments:True");
	replay_advice(&w->c, &r);
	assert_says(said(&r, "best-setting"), "10.0 GiB are enough, 1.20 GiB less than with its own settings");
	assert_says(said(&r, "best-setting"), "90 driver calls against 100");
	assert_non_null(said(&r, "shares-tensors"));
	assert_non_null(said(&r, "sleep-mode"));
	assert_says(said(&r, "version"), "the recording is from PyTorch 2.9");
	assert_null(said(&r, "no-setting-helps"));
	replay_remarks_free(&r);
	world_free(w);
}

static void what_calls_the_driver_all_the_time_is_named_and_not_chosen(void **state)
{
	static const struct outcome v[] = {
		{ NULL, 0, 12, 11.5, 100, 0, false }, { "max_split_size_mb:32", 0, 11, 9.5, 4300, 0, false },
		{ "expandable_segments:True", 0, 10.6, 10, 90, 0, false },
	};
	struct world *w = world(v, 3, 9);
	struct replay_remarks r;

	(void)state;
	assert_int_equal(replay_best(&w->c), 2);
	replay_advice(&w->c, &r);
	assert_says(said(&r, "lower-but-dear"), "max_split_size_mb:32 needs still less, 9.50 GiB instead of 10.0 GiB, but at 4300 driver calls");
	replay_remarks_free(&r);
	world_free(w);
}

/* Where the recording's own settings do not fit, the first that does is not the best yet. */
static void a_dear_one_gives_way_to_a_cheaper_one(void **state)
{
	static const struct outcome v[] = {
		{ NULL, 10, 9.9, 0, 150, 5, true }, { "max_split_size_mb:32", 10, 9.2, 0, 4300, 90, false },
		{ "expandable_segments:True", 10, 9.8, 0, 120, 3, false }, { NULL, 0, 12, 0, 100, 0, false },
	};
	struct world *w = world(v, 4, 9);

	(void)state;
	w->c.cap_bytes = 10 * GIB;
	assert_true(replay_is_dear(&w->c, 1));
	assert_int_equal(replay_best(&w->c), 2);
	/* and is taken where nothing else fits, with its price in the first sentence */
	json_object_set_new(w->results[2], "completes", json_false());
	assert_int_equal(replay_best(&w->c), 1);
	assert_headline(w, "fits with max_split_size_mb:32, at 4300 driver calls");
	world_free(w);
}

static void under_a_cap_only_what_completes_counts(void **state)
{
	static const struct outcome v[] = {
		{ NULL, 10, 9.9, 0, 150, 5, true }, { "expandable_segments:True", 10, 9.8, 0, 120, 3, false },
		{ NULL, 0, 12, 0, 100, 0, false },
	};
	struct world *w = world(v, 3, 9);
	struct replay_remarks r;

	(void)state;
	w->c.cap_bytes = 10 * GIB;
	assert_int_equal(replay_limit(&w->c).of, REPLAY_BY_CAP);
	assert_int_equal(replay_base(&w->c), 2);
	assert_int_equal(replay_best(&w->c), 1);
	assert_headline(w, "runs out under 10.0 GiB with its own settings; fits with expandable_segments:True");
	replay_advice(&w->c, &r);
	assert_says(said(&r, "best-setting"), "under 10.0 GiB the recording completes with it, reserving 9.80 GiB; price: 120 driver calls against 100 and 3 retries");
	replay_remarks_free(&r);
	world_free(w);
}

/* 9.08 GiB live, 22.78 asked for, and 31.16 there: no packing makes that fit, whatever the error message recommends. */
static void arithmetic_is_not_argued_with(void **state)
{
	static const struct outcome v[] = { { NULL, 0, 41.2, 31.9, 10, 0, false }, { "expandable_segments:True", 0, 33, 31.9, 10, 0, false } };
	struct world *w = world(v, 2, 31.86);
	struct replay_remarks r;

	(void)state;
	add_oom(w, 22.78, 9.08, 18.43, 12.73);
	w->c.total_bytes = 31.47 * GIB;
	assert_int_equal(replay_limit(&w->c).of, REPLAY_BY_RECORDING);
	assert_int_equal(replay_best(&w->c), REPLAY_NONE);
	assert_headline(w, "no allocator setting helps: short by 717 MiB");        /* 0.70 GiB */
	replay_advice(&w->c, &r);
	assert_string_equal(r.v[0].rule, "no-setting-helps");
	assert_says(r.v[0].text, "short by 717 MiB however they are packed");
	assert_says(r.v[0].text, "3.1 % less of that request of 22.8 GiB (model.py:12 scores)");
	assert_null(said(&r, "best-setting"));
	assert_null(said(&r, "shares-tensors"));
	replay_remarks_free(&r);
	world_free(w);
}

static void one_request_larger_than_the_card(void **state)
{
	static const struct outcome v[] = { { NULL, 0, 130, 130, 10, 0, false } };
	struct world *w = world(v, 1, 130);
	struct replay_remarks r;

	(void)state;
	add_oom(w, 124.68, 1, 2, 70);
	w->c.total_bytes = 95.22 * GIB;
	w->c.outside_bytes = 14.91 * GIB;
	replay_advice(&w->c, &r);
	assert_says(said(&r, "no-setting-helps"), "one request of 125 GiB exceeds the card of 95.2 GiB by 29.5 GiB");
	replay_remarks_free(&r);
	world_free(w);
}

static void a_neighbour_is_no_fragmentation(void **state)
{
	static const struct outcome v[] = { { NULL, 0, 4.86, 4.86, 10, 0, false }, { "expandable_segments:True", 0, 4.87, 4.87, 9, 0, false } };
	struct world *w = world(v, 2, 4.39);
	struct replay_remarks r;

	(void)state;
	add_oom(w, 0.004, 4.37, 4.43, 0.0144);
	w->c.total_bytes = 14.76 * GIB;
	w->c.outside_bytes = 10.32 * GIB;
	assert_true(replay_limit(&w->c).bytes < 4.45 * GIB);
	replay_advice(&w->c, &r);
	assert_says(said(&r, "neighbour"), "10.3 GiB of the 14.8 GiB belong to others; of what this program reserved at most 61.4 MiB can be fragmentation");
	assert_null(said(&r, "best-setting"));
	replay_remarks_free(&r);
	/* with the card to itself nothing of the kind is said */
	w->c.outside_bytes = 0;
	replay_advice(&w->c, &r);
	assert_null(said(&r, "neighbour"));
	replay_remarks_free(&r);
	world_free(w);
}

static void options_that_do_nothing_or_harm(void **state)
{
	static const struct outcome v[] = {
		{ NULL, 0, 10, 9.5, 100, 0, false }, { "", 0, 10, 9.5, 100, 0, false }, { "max_split_size_mb:4096", 0, 10, 9.5, 100, 0, false },
		{ "garbage_collection_threshold:0.7", 0, 10, 9.5, 100, 0, false }, { "max_split_size_mb:64", 0, 14, 12, 110, 0, false },
		{ "expandable_segments:True,max_split_size_mb:128", 0, 30, 9.6, 100, 0, false },
	};
	struct world *w = world(v, 6, 9);
	struct replay_remarks r;

	(void)state;
	replay_advice(&w->c, &r);
	assert_says(said(&r, "inert"), "max_split_size_mb:4096, garbage_collection_threshold:0.7");
	assert_null(strstr(said(&r, "inert"), "max_split_size_mb:64"));
	assert_says(said(&r, "collector"), "share of a memory limit and none is set");
	assert_says(said(&r, "harmful"), "max_split_size_mb:64 makes it worse: it needs 2.50 GiB more");
	assert_says(said(&r, "expandable-and-split"), "Leave max_split_size_mb out");
	assert_headline(w, "no setting tried needs less");
	replay_remarks_free(&r);
	world_free(w);
}

static void the_collector_is_alive_under_a_cap(void **state)
{
	static const struct outcome v[] = { { NULL, 10, 9.9, 0, 100, 0, false }, { "garbage_collection_threshold:0.7", 10, 9, 0, 120, 0, false } };
	struct world *w = world(v, 2, 8);
	struct replay_remarks r;

	(void)state;
	w->c.cap_bytes = 10 * GIB;
	replay_advice(&w->c, &r);
	assert_null(said(&r, "collector"));
	replay_remarks_free(&r);
	world_free(w);
}

static void add_stranded(struct world *w, const char *text)
{
	json_t *v = NULL;

	assert_int_equal(tm_json_parse(text, strlen(text), &v, NULL), 0);
	json_object_set_new(w->results[0], "at_peak", json_pack("{s:o}", "stranded", v));
}

static void what_is_stranded_is_named_with_its_holder(void **state)
{
	static const struct outcome v[] = { { NULL, 0, 10, 0, 100, 0, false } };
	struct world *w = world(v, 1, 7);
	struct replay_remarks r;

	(void)state;
	add_stranded(w, "{\"bytes\":3221225472,\"rounding\":536870912,"
		     "\"by_stream\":[{\"stream\":0,\"bytes\":2147483648},{\"stream\":94,\"bytes\":1073741824}],"
		     "\"by_pool\":[{\"pool\":[0,0],\"bytes\":2147483648},{\"pool\":[0,3],\"bytes\":1073741824}],"
		     "\"pinned\":[{\"frame\":\"attn.py:88 forward\",\"blocks\":3,\"bytes\":6291456,\"strands\":2147483648},"
		     "{\"frame\":null,\"blocks\":1,\"bytes\":8519680,\"strands\":1048576}]}");
	replay_advice(&w->c, &r);
	assert_says(said(&r, "stranded"), "3.00 GiB of it (30 %) were in no block that was in use");
	assert_says(said(&r, "stranded"), "3 blocks of 6.00 MiB in all from attn.py:88 forward hold in their segments 2.00 GiB");
	assert_says(said(&r, "stranded"), "kept once: no leak");
	assert_says(said(&r, "by-stream"), "1 side stream keeps 1.00 GiB cached that no other may use");
	assert_says(said(&r, "by-pool"), "1 private pool (CUDA graphs, MemPool) holds 1.00 GiB");
	assert_says(said(&r, "rounding"), "512 MiB (5 %) are rounding");
	/* the largest first */
	for (size_t i = 1; i < r.n; i++)
		assert_true(r.v[i].kind > r.v[i - 1].kind || (r.v[i].kind == r.v[i - 1].kind && r.v[i].bytes <= r.v[i - 1].bytes));
	replay_remarks_free(&r);
	world_free(w);
}

static void weights_of_32_mib_are_no_workspaces(void **state)
{
	static const struct outcome v[] = { { NULL, 0, 10, 0, 100, 0, false } };
	struct world *w = world(v, 1, 7);
	json_t *list = json_array();
	struct replay_remarks r;

	(void)state;
	for (int i = 0; i < 12; i++)
		json_array_append_new(list, json_pack("{s:i}", "bytes", 33554432));
	json_object_set_new(w->recording, "state", json_pack("{s:i, s:o}", "allocated", 12 * 33554432, "largest", list));
	replay_advice(&w->c, &r);
	assert_null(said(&r, "workspace"));
	replay_remarks_free(&r);
	world_free(w);
}

/* What no cap helps has no need that could be printed. */
static void without_a_need_none_is_made_up(void **state)
{
	static const struct outcome none[] = { { NULL, 0, 10, -1, 100, 0, true } };
	static const struct outcome other[] = { { NULL, 0, 10, -1, 100, 0, true }, { "expandable_segments:True", 0, 9, 8, 100, 0, false } };
	struct world *w = world(none, 1, 7);

	(void)state;
	assert_headline(w, "reserves 10.0 GiB to hold 7.00 GiB; runs out even without a cap");
	world_free(w);
	w = world(other, 2, 7);
	assert_headline(w, "fits in 8.00 GiB with expandable_segments:True");
	world_free(w);
}

/* Blanks in people's strings: what is said goes by what was read. */
static void blanks_in_an_option_string_change_no_advice(void **state)
{
	static const struct outcome v[] = { { NULL, 0, 12, 11, 100, 0, false }, { " expandable_segments : True ", 0, 9, 8, 90, 0, false } };
	struct world *w = world(v, 2, 7);
	struct replay_remarks r;

	(void)state;
	json_object_set_new(w->results[1], "effective", json_string("expandable_segments:True"));
	replay_advice(&w->c, &r);
	assert_says(said(&r, "shares-tensors"), "Does it pass CUDA tensors");
	assert_non_null(said(&r, "sleep-mode"));
	replay_remarks_free(&r);
	world_free(w);
}

/* Under a cap the moment of the peak may be that without one, and is called so. */
static void a_peak_above_the_cap_says_that_there_is_none(void **state)
{
	static const struct outcome v[] = { { NULL, 0, 19.4, 0, 100, 0, false }, { NULL, 14, 14, 0, 200, 9, true } };
	struct world *w = world(v, 2, 12);
	struct replay_remarks r;

	(void)state;
	w->c.cap_bytes = 14 * GIB;
	add_stranded(w, "{\"bytes\":3221225472,\"rounding\":0,\"by_stream\":[],\"by_pool\":[],\"pinned\":[]}");
	replay_advice(&w->c, &r);
	assert_says(said(&r, "stranded"), "With its own settings and no cap, when most was reserved (19.4 GiB)");
	replay_remarks_free(&r);
	world_free(w);
}

static void a_workspace_is_no_leak(void **state)
{
	static const struct outcome v[] = { { NULL, 0, 10, 0, 100, 0, false } };
	struct world *w = world(v, 1, 7);
	struct replay_remarks r;

	(void)state;
	json_object_set_new(w->recording, "state", json_pack("{s:i, s:[{s:i},{s:i},{s:i}]}", "allocated", 17040384, "largest",
							     "bytes", 8519680, "bytes", 8519680, "bytes", 1024));
	replay_advice(&w->c, &r);
	assert_says(said(&r, "workspace"), "16.2 MiB are a cuBLAS workspace");
	assert_says(said(&r, "workspace"), "2 of them: one for each thread and stream");
	assert_says(said(&r, "workspace"), "no leak");
	replay_remarks_free(&r);
	assert_non_null(replay_workspace(33554432, 2, 1));
	assert_null(replay_workspace(33554433, 1, 1));
	/* forty of 32 MiB are tensors, and what is said of them would be wrong; the odd size is nothing else */
	assert_null(replay_workspace(33554432, 40, 1));
	assert_non_null(replay_workspace(33554432, 6, 3));
	assert_non_null(replay_workspace(8519680, 40, 1));
	world_free(w);
}

static void add_marks(struct world *w, size_t n, double active, double step, size_t warm)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{s:i, s:f, s:f}", "index", (int)i, "active", active + (double)i * step,
						      "reserved", (24 + 8.0 * (double)(i < warm ? i : warm)) * MIB));
	json_object_set_new(w->recording, "markers", list);
}

static void equal_marks_are_no_leak_and_growing_ones_are(void **state)
{
	static const struct outcome v[] = { { NULL, 0, 10, 0, 100, 0, false } };
	struct world *w = world(v, 1, 7);
	struct replay_remarks r;

	(void)state;
	add_marks(w, 9, 46.53 * MIB, 0, 5);
	replay_advice(&w->c, &r);
	assert_says(said(&r, "marks"), "No leak: 46.5 MiB are live at the first and the last of 9 marks");
	assert_says(said(&r, "marks"), "grew until mark 6 and not after: warm-up");
	replay_remarks_free(&r);
	add_marks(w, 9, 46.53 * MIB, MIB, 5);
	replay_advice(&w->c, &r);
	assert_says(said(&r, "marks"), "grows from mark to mark");
	replay_remarks_free(&r);
	world_free(w);
}

static void how_sure_it_is(void **state)
{
	static const struct outcome v[] = { { NULL, 0, 10, 9, 100, 0, false } };
	struct world *w = world(v, 1, 7);
	struct replay_remarks r;

	(void)state;
	json_object_set_new(w->recording, "confidence", json_string("truncated"));
	json_object_set_new(w->recording, "inferred_blocks", json_integer(12));
	json_object_set_new(w->results[0], "min_cap_monotone", json_false());
	replay_advice(&w->c, &r);
	assert_says(said(&r, "truncated"), "larger max_entries");
	assert_says(said(&r, "inferred"), "12 blocks that lived then are inferred");
	assert_says(said(&r, "not-monotone"), "near its minimum cap a larger cap fails again");
	replay_remarks_free(&r);
	world_free(w);
}

static void without_history_there_is_a_state_and_no_peak(void **state)
{
	static const struct outcome v[] = { { NULL, 0, 10, 9, 100, 0, false } };
	struct world *w = world(v, 1, 7);
	struct replay_remarks r;

	(void)state;
	json_object_set_new(w->recording, "history", json_false());
	json_object_set_new(w->recording, "state", json_pack("{s:f, s:f, s:f}", "allocated", 5 * GIB, "pending", GIB, "cached", 2 * GIB));
	json_decref(w->results[0]);
	w->results[0] = NULL;
	assert_headline(w, "no history, so nothing can be replayed: 8.00 GiB reserved, 6.00 GiB live, 2.00 GiB cached");
	replay_advice(&w->c, &r);
	assert_int_equal(r.n, 0);
	replay_remarks_free(&r);
	world_free(w);
}

static void a_refused_string_is_no_result(void **state)
{
	static const struct outcome v[] = { { "max_split_size_mb=8000", 0, 1, 1, 1, 0, false }, { NULL, 0, 10, 9, 100, 0, false } };
	struct world *w = world(v, 2, 7);

	(void)state;
	json_object_set_new(w->results[0], "refused", json_string("one word"));
	assert_false(replay_has(&w->c, 0));
	assert_int_equal(replay_best(&w->c), 1);
	world_free(w);
}

static void no_cap_was_enough(void **state)
{
	static const struct outcome v[] = { { NULL, 0, 10, -1, 100, 0, false }, { "expandable_segments:True", 0, 11, 10.5, 100, 0, false } };
	struct world *w = world(v, 2, 7);

	(void)state;
	assert_true(replay_need(&w->c, 0) != replay_need(&w->c, 0));       /* NaN: not "what it reserves" */
	assert_int_equal(replay_best(&w->c), 1);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_least_that_is_enough_wins),
		cmocka_unit_test(what_calls_the_driver_all_the_time_is_named_and_not_chosen),
		cmocka_unit_test(a_dear_one_gives_way_to_a_cheaper_one),
		cmocka_unit_test(under_a_cap_only_what_completes_counts),
		cmocka_unit_test(arithmetic_is_not_argued_with),
		cmocka_unit_test(one_request_larger_than_the_card),
		cmocka_unit_test(a_neighbour_is_no_fragmentation),
		cmocka_unit_test(options_that_do_nothing_or_harm),
		cmocka_unit_test(the_collector_is_alive_under_a_cap),
		cmocka_unit_test(what_is_stranded_is_named_with_its_holder),
		cmocka_unit_test(a_workspace_is_no_leak),
		cmocka_unit_test(weights_of_32_mib_are_no_workspaces),
		cmocka_unit_test(without_a_need_none_is_made_up),
		cmocka_unit_test(blanks_in_an_option_string_change_no_advice),
		cmocka_unit_test(a_peak_above_the_cap_says_that_there_is_none),
		cmocka_unit_test(equal_marks_are_no_leak_and_growing_ones_are),
		cmocka_unit_test(how_sure_it_is),
		cmocka_unit_test(without_history_there_is_a_state_and_no_peak),
		cmocka_unit_test(a_refused_string_is_no_result),
		cmocka_unit_test(no_cap_was_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
