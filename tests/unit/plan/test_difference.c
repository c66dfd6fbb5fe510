/*
 * The plan as a gate: one tensor more, in a step or only in the run, is found
 * by name. A toy workload stands in for the models, since its step can be
 * changed here; nothing of the planner knows of it.
 */
#include "kit.h"

#include "live.h"
#include "plan_walk.h"
#include "run.h"

#define MIB (1048576ull)

/* ---- the toy -------------------------------------------------------------------- */

enum extra { NOTHING, ALWAYS, ONLY_WHERE_COMPUTED, LOST_WHERE_COMPUTED };

struct toy_opts {
	int64_t n;
};

struct toy {
	struct tensor w, m;
};

static enum extra extra;                  /* does the step save another tensor? */

static const struct param toy_params[] = {
	PARAM(toy_opts, n, .type = PARAM_INT, .def = "262144", .min = 1, .max = 1e9, .unit = "", .help = "elements"),
};

static int toy_init(struct run *run, struct tm_err *err)
{
	const struct toy_opts *o = run->opts;
	struct toy *t = run->self = tm_xcalloc(1, sizeof *t);

	mem_set_op(run->mem, "toy.init");
	return tensor_new(run->mem, &t->w, MEM_PARAMETERS, "h.0.w", DT_F32, err, 1, o->n);
}

static bool saves_extra(const struct run *run)
{
	return extra == ALWAYS || (extra == ONLY_WHERE_COMPUTED && run_computes(run)) ||
	       (extra == LOST_WHERE_COMPUTED && !run_computes(run));
}

static int toy_step(struct run *run, int64_t i, struct step_result *out, struct tm_err *err)
{
	const struct toy_opts *o = run->opts;
	struct tensor x = { 0 }, saved[3] = { 0 };
	struct toy *t = run->self;
	int rc;

	(void)i;
	out->samples = 1;
	device_set_phase(run->dev, "forward");
	mem_set_op(run->mem, "toy.layer");
	rc = tensor_new(run->mem, &x, MEM_ACTIVATIONS, "x", DT_F32, err, 1, o->n);
	for (int k = 0; k < 3 && saves_extra(run) && !rc; k++)
		rc = tensor_new(run->mem, &saved[k], MEM_ACTIVATIONS, "saved", DT_F32, err, 1, o->n / 4);
	if (!rc)
		rc = op_add(run->dev, &(struct op_add){ .out = &x, .a = &t->w, .b = &t->w }, err);
	device_set_phase(run->dev, "update");
	if (!rc && !tensor_here(&t->m))
		rc = tensor_new(run->mem, &t->m, MEM_OPTIMIZER, "h.0.w.m", DT_F32, err, 1, o->n);
	for (int k = 0; k < 3; k++)
		tensor_drop(run->mem, &saved[k]);
	tensor_drop(run->mem, &x);
	return rc;
}

static void toy_fini(struct run *run)
{
	struct toy *t = run->self;

	if (t) {
		tensor_drop(run->mem, &t->w);
		tensor_drop(run->mem, &t->m);
	}
	free(t);
}

static const struct workload toy = {
	.version = WORKLOAD_VERSION, .name = "plan_toy", .help = "of this test", .uses = WORKLOAD_MEMORY | WORKLOAD_DEVICE,
	.params = toy_params, .param_n = TM_ARRAY_N(toy_params), .opts_size = sizeof(struct toy_opts),
	.init = toy_init, .step = toy_step, .fini = toy_fini,
};

__attribute__((constructor)) static void register_toy(void)
{
	workload_register(&toy);
}

/* ---- planned and run in this process ----------------------------------------------- */

struct outcome {
	json_t *live;
	uint64_t requested, reserved, device;
};

static void read_outcome(const struct mem *mem, struct outcome *out)
{
	const struct mem_peak *p = mem_run_peak(mem);

	*out = (struct outcome){
		.live = live_at_peak(mem, LIVE_ALL), .requested = p->max.requested, .reserved = p->max.reserved, .device = p->device,
	};
}

static void begin(struct run *run, struct job *job, json_t **pool)
{
	static const char text[] = "{\"workload\": \"plan_toy\", \"params\": {\"allocator\": \"caching\", \"threads\": 1}, \"steps\": 3}";
	struct tm_err err = { 0 };
	const char *bad;

	assert_ok(job_parse(text, strlen(text), job, &err), &err);
	*run = (struct run){ .job = job };
	assert_ok(run_options(run, pool, &bad, &err), &err);
}

static void end(struct run *run, struct job *job, json_t *pool)
{
	free(run->opts);
	json_decref(pool);
	job_fini(job);
}

static void planned(struct outcome *out)
{
	const struct plan_card card = { .backend = "cpu", .granularity_bytes = PLAN_PAGE_BYTES };
	struct plan_walk walk;
	struct tm_err err = { 0 };
	struct job job;
	struct run run;
	json_t *pool = NULL;

	begin(&run, &job, &pool);
	assert_ok(plan_walk_go(&walk, &run, &card, 0, &err), &err);
	assert_true(walk.repeats);
	read_outcome(walk.run.mem, out);
	plan_walk_fini(&walk);
	end(&run, &job, pool);
}

static void ran(struct outcome *out)
{
	struct tm_err err = { 0 };
	struct job job;
	struct run run;
	json_t *pool = NULL;

	begin(&run, &job, &pool);
	assert_ok(device_open("cpu", 1, &run.dev, &err), &err);
	assert_ok(run_open_memory(&run, &err), &err);
	assert_ok(toy.init(&run, &err), &err);
	for (int64_t i = 0; i < 4; i++) {
		struct step_result result = { 0 };

		mem_set_step(run.mem, i);
		assert_ok(toy.step(&run, i, &result, &err), &err);
	}
	read_outcome(run.mem, out);
	toy.fini(&run);
	run_close_parts(&run);
	end(&run, &job, pool);
}

/* Both, and the lines that tell them apart. */
static size_t differences(enum extra what, struct outcome *plan, struct outcome *run, struct tm_str *lines)
{
	size_t n;

	extra = what;
	planned(plan);
	ran(run);
	n = plan_difference(plan->live, run->live, lines);
	json_decref(plan->live);
	json_decref(run->live);
	return n;
}

/* ---- tests ------------------------------------------------------------------------------ */

static void a_buffer_more_is_planned(void **state)
{
	struct tm_str lines = TM_STR_INIT;
	struct outcome plan[2], run[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(differences(i ? ALWAYS : NOTHING, &plan[i], &run[i], &lines), 0);
		assert_string_equal(lines.s, "");
		assert_int_equal(plan[i].requested, run[i].requested);
		assert_int_equal(plan[i].reserved, run[i].reserved);
		assert_int_equal(plan[i].device, run[i].device);
	}
	assert_int_equal(plan[0].requested, 3 * MIB);
	assert_int_equal(plan[1].requested, plan[0].requested + 3 * MIB / 4);
	tm_str_free(&lines);
}

static void a_buffer_that_only_the_run_has_is_named(void **state)
{
	struct tm_str lines = TM_STR_INIT;
	struct outcome plan, run;

	(void)state;
	assert_int_equal(differences(ONLY_WHERE_COMPUTED, &plan, &run, &lines), 1);
	assert_string_equal(lines.s, "saved of toy.layer (activations): the run held 3 blocks of 768 KiB in all at its peak, "
			    "planned was none\n");
	assert_int_equal(run.requested, plan.requested + 3 * MIB / 4);
	tm_str_reset(&lines);
	assert_int_equal(differences(LOST_WHERE_COMPUTED, &plan, &run, &lines), 1);
	assert_string_equal(lines.s, "saved of toy.layer (activations): the run held none at its peak, "
			    "planned were 3 blocks of 768 KiB in all\n");
	tm_str_free(&lines);
}

/* The numbers of layers are left out, so a tensor a layer is one line. */
static void layers_are_one_line(void **state)
{
	struct outcome plan;

	(void)state;
	extra = NOTHING;
	planned(&plan);
	assert_non_null(kit_entry(plan.live, "name", "h.*.w"));
	assert_non_null(kit_entry(plan.live, "name", "h.*.w.m"));
	json_decref(plan.live);
}

static json_t *entry(const char *name, const char *op, int64_t blocks, int64_t bytes)
{
	return json_pack("{s:s, s:s, s:s, s:I, s:I}", "name", name, "op", op, "category", *op ? "activations" : "",
			 "blocks", (json_int_t)blocks, "bytes", (json_int_t)bytes);
}

/* A list that was cut is compared as far as it goes, and its rest in sum. */
static void cut_lists(void **state)
{
	json_t *all = json_pack("[o, o, o]", entry("a", "x", 2, 2000), entry("b", "x", 1, 500), entry("c", "y", 1, 300));
	json_t *cut = json_pack("[o, o]", entry("a", "x", 2, 2000), entry("other", "", 2, 800));
	json_t *more = json_pack("[o, o]", entry("a", "x", 3, 3000), entry("other", "", 3, 900));
	struct tm_str lines = TM_STR_INIT;

	(void)state;
	assert_int_equal(plan_difference(all, all, &lines), 0);
	assert_int_equal(plan_difference(cut, all, &lines), 0);
	assert_int_equal(plan_difference(all, cut, &lines), 0);
	assert_int_equal(plan_difference(cut, cut, &lines), 0);
	assert_string_equal(lines.s, "");
	assert_int_equal(plan_difference(all, more, &lines), 2);
	assert_non_null(strstr(lines.s, "a of x (activations): the run held 3 blocks"));
	assert_non_null(strstr(lines.s, "tensors that are not named: the run held 3 blocks of 900 B in all"));
	tm_str_free(&lines);
	json_decref(all);
	json_decref(cut);
	json_decref(more);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_buffer_more_is_planned),
		cmocka_unit_test(a_buffer_that_only_the_run_has_is_named),
		cmocka_unit_test(layers_are_one_line),
		cmocka_unit_test(cut_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
