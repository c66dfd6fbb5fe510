/* Training steps through the real program: what the events say of scale, skipped steps, lengths, and of work not done. */
#include "test.h"
#include "worker.h"

#include "model/config.h"

#define SHORT "\"steps\":4,\"warmup\":{\"min\":2,\"max\":2}"
#define JOB(workload, params, more) "{\"v\":1,\"run\":\"t\",\"workload\":\"" workload "\",\"params\":{\"device\":\"cpu\",\"threads\":1," \
	params "}," more "}"
#define GPT "\"model\":\"gpt-tiny\",\"layers\":2,\"width\":32,\"batch\":2"
#define BERT "\"model\":\"bert-tiny\",\"layers\":1,\"width\":32,\"batch\":2"

/* One column of all `steps` events, warm-up included. */
static size_t column(const struct worker *w, const char *name, double *out, size_t most)
{
	const json_t *e, *v;
	size_t n = 0, i;

	for (size_t k = 0; (e = worker_event(w, "steps", k)); k++)
		json_array_foreach(json_object_get(e, name), i, v) {
			assert_true(n < most);
			out[n++] = json_number_value(v);
		}
	return n;
}

static void the_scale_of_each_step_is_told(void **state)
{
	struct worker w = worker_run(JOB("gpt", GPT ",\"seq\":16,\"precision\":\"fp16\",\"loss_scale\":8,\"loss_scale_every\":3", SHORT));
	double scale[16];

	(void)state;
	assert_int_equal(w.status, 0);
	assert_int_equal(column(&w, "scale", scale, 16), 6);
	for (int i = 0; i < 6; i++)
		assert_true(scale[i] == (i < 3 ? 8 : 16));
	/* scale.final follows from these and is the harness's to say */
	assert_null(json_object_get(json_object_get(worker_result(&w), "metrics"), "scale.final"));
	worker_free(&w);

	w = worker_run(JOB("gpt", GPT ",\"seq\":16", SHORT));
	assert_int_equal(column(&w, "scale", scale, 16), 0);
	worker_free(&w);
}

static void drawn_lengths_are_counted_as_drawn(void **state)
{
	struct worker w = worker_run(JOB("gpt", GPT ",\"seq\":{\"choices\":[8,32]}", "\"steps\":20,\"warmup\":{\"min\":0,\"max\":0}"));
	struct model_config cfg = *model_preset("gpt-tiny");
	double tokens[32], flops = 0, sum = 0;
	size_t n, shorter = 0;

	(void)state;
	assert_int_equal(w.status, 0);
	cfg.layers = 2;
	cfg.width = 32;
	n = column(&w, "tokens", tokens, 32);
	assert_int_equal(n, 20);
	for (size_t i = 0; i < n; i++) {
		assert_true(tokens[i] == 16 || tokens[i] == 64);
		shorter += tokens[i] == 16;
		sum += tokens[i];
		flops += model_flops_per_token(&cfg, (int64_t)tokens[i] / 2) * tokens[i];
	}
	assert_true(shorter > 2 && shorter < 18);
	assert_int_equal(tm_json_i64(json_object_get(worker_result(&w), "work"), "tokens", -1), (json_int_t)sum);
	assert_true(worker_metric(&w, "flops.model") == flops / 20);
	worker_free(&w);
}

/* Real tokens are what is trained on, and a head of chosen rows needs less. */
static void padding_and_unchosen_positions_are_not_work(void **state)
{
	struct worker all = worker_run(JOB("bert", BERT ",\"seq\":64", SHORT));
	struct worker random = worker_run(JOB("bert", BERT ",\"seq\":64,\"lengths\":\"random\"", SHORT));
	struct worker masked = worker_run(JOB("bert", BERT ",\"seq\":64,\"mlm_positions\":\"masked\"", SHORT));
	const double C = 32, V = 384, rows = 2 * 10, tokens = 2 * 64;
	double t[16];
	size_t n = column(&random, "tokens", t, 16);

	(void)state;
	assert_int_equal(n, 6);
	for (size_t i = 0; i < n; i++)
		assert_true(t[i] >= 2 * 16 && t[i] <= 2 * 64);
	assert_true(t[0] < 128 || t[1] < 128);
	assert_true(worker_metric(&random, "flops.model") < worker_metric(&all, "flops.model"));
	assert_true(worker_metric(&all, "flops.model") - worker_metric(&masked, "flops.model")
		    == 6 * (C * C + V * C) * (tokens - rows));
	assert_true(worker_metric(&masked, "flops.done") < worker_metric(&all, "flops.done"));
	worker_free(&all);
	worker_free(&random);
	worker_free(&masked);
}

static void the_cpu_says_that_it_is_deterministic(void **state)
{
	struct worker w = worker_run(JOB("gpt", GPT ",\"seq\":16,\"deterministic\":false", SHORT));
	const json_t *note = worker_event(&w, "note", 0);

	(void)state;
	assert_int_equal(w.status, 0);
	assert_non_null(note);
	assert_string_equal(tm_json_str(note, "level", ""), "info");
	assert_non_null(strstr(tm_json_str(note, "text", ""), "the cpu device has no other mode"));
	worker_free(&w);
}

#ifdef TM_FAULTS
static void fails(const char *fault, const char *job, const char *cause, const char *text, int step)
{
	struct worker w;
	const json_t *fail;

	setenv("TIDEMARK_FAULT", fault, 1);
	w = worker_run(job);
	unsetenv("TIDEMARK_FAULT");
	fail = worker_event(&w, "fail", 0);
	if (!fail)
		fail_msg("%s was not noticed: %.600s", fault, w.raw.s);
	assert_int_equal(WEXITSTATUS(w.status), 4);
	assert_string_equal(tm_json_str(fail, "cause", ""), cause);
	assert_non_null(strstr(tm_json_str(fail, "text", ""), text));
	assert_int_equal(tm_json_i64(fail, "step", -1), step);
	assert_null(worker_event(&w, "result", 0));
	worker_free(&w);
}

/* 28 tensors: two tables, 12 a layer, the last norm. */
static void work_not_done_is_told_by_name(void **state)
{
	(void)state;
	fails("gradient:3", JOB("gpt", GPT ",\"seq\":16", SHORT), "gradient",
	      "the gradient of h.0.ln_1.weight is all zero in step 0", 0);
	fails("gradient:86", JOB("gpt", GPT ",\"seq\":16", SHORT), "gradient",
	      "the gradient of wpe.weight is all zero in step 3", 3);
	fails("update:5", JOB("gpt", GPT ",\"seq\":16", SHORT), "update",
	      "the update of step 0 did not change h.0.attn.c_attn.weight", 0);
	fails("overflow:2", JOB("bert", BERT ",\"seq\":16", SHORT), "gradient", "is not finite in step 1", 1);
}

/* In fp16 the same is a step that is skipped and not counted. */
static void an_overflow_of_fp16_is_a_skipped_step(void **state)
{
	struct worker w;
	const json_t *e, *work;
	double scale[16];
	int64_t found = -1;

	(void)state;
	setenv("TIDEMARK_FAULT", "overflow:4", 1);
	w = worker_run(JOB("gpt", GPT ",\"seq\":16,\"precision\":\"fp16\",\"loss_scale\":1024", SHORT));
	unsetenv("TIDEMARK_FAULT");
	assert_int_equal(w.status, 0);
	for (size_t k = 0; (e = worker_event(&w, "steps", k)); k++)
		if (json_array_size(json_object_get(e, "skipped")))
			found = (int64_t)json_integer_value(json_array_get(json_object_get(e, "skipped"), 0));
	assert_int_equal(found, 3);
	assert_int_equal(column(&w, "scale", scale, 16), 6);
	for (int i = 0; i < 6; i++)
		assert_true(scale[i] == (i < 4 ? 1024 : 512));
	work = json_object_get(worker_result(&w), "work");
	assert_int_equal(tm_json_i64(work, "tokens", -1), 3 * 2 * 16);
	assert_int_equal(tm_json_i64(work, "samples", -1), 3 * 2);
	worker_free(&w);
}

/* What a wrong replay of dropout leaves to be seen: other gradients. */
static void a_shifted_replay_changes_the_gradients(void **state)
{
	static const char job[] = JOB("gpt", GPT ",\"seq\":16,\"dropout\":0.1,\"checkpoint\":\"block\",\"gradients\":true", SHORT);
	struct worker right = worker_run(job), wrong;

	(void)state;
	setenv("TIDEMARK_FAULT", "replay:2", 1);
	wrong = worker_run(job);
	unsetenv("TIDEMARK_FAULT");
	assert_int_equal(wrong.status, 0);
	for (size_t i = 0; i < 6; i++) {
		const char *a = tm_json_str(worker_event(&right, "grad", i), "hash", "none");
		const char *b = tm_json_str(worker_event(&wrong, "grad", i), "hash", "none");

		assert_int_equal(!strcmp(a, b), i < 1);
	}
	worker_free(&right);
	worker_free(&wrong);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_scale_of_each_step_is_told),
		cmocka_unit_test(drawn_lengths_are_counted_as_drawn),
		cmocka_unit_test(padding_and_unchosen_positions_are_not_work),
		cmocka_unit_test(the_cpu_says_that_it_is_deterministic),
#ifdef TM_FAULTS
		cmocka_unit_test(work_not_done_is_told_by_name),
		cmocka_unit_test(an_overflow_of_fp16_is_a_skipped_step),
		cmocka_unit_test(a_shifted_replay_changes_the_gradients),
#endif
	};

	return cmocka_run_group_tests(tests, worker_missing, NULL);
}
