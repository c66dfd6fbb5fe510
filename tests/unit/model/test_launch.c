/*
 * Steps that are recorded and launched: who is called when and with what (on a
 * device that plans, with its graphs watched), that memory sees the same steps,
 * and on a card that they compute the same bits.
 */
#include "rig.h"

#include "train/launch.h"

/* ---- a device whose graphs are watched ------------------------------------------ */

#define CALLS_MAX 256

static struct spy {
	char call[CALLS_MAX];             /* b egin, e nd, a bandon, f eed, l aunch, d rop; - between steps */
	size_t n;
	struct device_step step;          /* of the last launch */
	size_t next_slot;
	uint64_t fed_bytes;
	int begin_code, end_code;
} spy;

static int token;

static void note(char c)
{
	assert_true(spy.n + 1 < CALLS_MAX);
	spy.call[spy.n++] = c;
	spy.call[spy.n] = '\0';
}

static int spy_begin(struct device *dev, struct tm_err *err)
{
	(void)dev;
	note('b');
	return spy.begin_code ? tm_fail(err, spy.begin_code, "no recording today") : 0;
}

static int spy_end(struct device *dev, struct device_graph **out, struct tm_err *err)
{
	(void)dev;
	note('e');
	*out = (struct device_graph *)(void *)&token;
	spy.next_slot = 0;
	return spy.end_code ? tm_fail(err, spy.end_code, "it was broken off") : 0;
}

static void spy_abandon(struct device *dev)
{
	(void)dev;
	note('a');
}

static int spy_feed(struct device *dev, struct device_graph *graph, size_t slot, const void *src, uint64_t bytes,
		    struct tm_err *err)
{
	(void)src, (void)err;
	assert_false(dev->launched);
	assert_ptr_equal(graph, &token);
	assert_int_equal(slot, spy.next_slot++);
	spy.fed_bytes += bytes;
	note('f');
	return 0;
}

static int spy_launch(struct device *dev, struct device_graph *graph, const struct device_step *step, struct tm_err *err)
{
	(void)err;
	assert_false(dev->launched);
	assert_ptr_equal(graph, &token);
	spy.step = *step;
	spy.next_slot = 0;
	note('l');
	return 0;
}

static void spy_drop(struct device *dev, struct device_graph *graph)
{
	(void)dev;
	assert_ptr_equal(graph, &token);
	note('d');
}

static const struct device_graphs spy_graphs = { spy_begin, spy_end, spy_abandon, spy_feed, spy_launch, spy_drop };
static struct device_backend watched;

static void open_watched(struct rig *r, const struct train_opts *o, enum model_kind kind, const char *allocator)
{
	struct mem_config mc = { .policy = allocator };
	struct tm_err err = { 0 };

	*r = (struct rig){ 0 };
	spy = (struct spy){ 0 };
	assert_ok(device_open("plan:cuda", 1, &r->dev, &err), &err);
	watched = *r->dev->backend;
	watched.graphs = &spy_graphs;
	r->dev->backend = &watched;
	assert_ok(mem_new(&mc, device_driver(r->dev, &err), &r->mem, &err), &err);
	r->dev->mem = r->mem;
	assert_ok(trainer_new(o, kind, r->dev, 3, &r->trainer, &err), &err);
}

static struct train_opts graph_opts(enum model_kind kind)
{
	struct train_opts o = rig_opts(kind);

	o.launch = "graph";
	return o;
}

static void steps(struct rig *r, int64_t first, int64_t n)
{
	for (int64_t i = first; i < first + n; i++) {
		rig_step(r, i);
		note('-');
	}
}

/* ---- who is called when ------------------------------------------------------------ */

static void two_steps_eager_the_third_recorded_then_launched(void **state)
{
	struct train_opts o = graph_opts(MODEL_GPT);
	struct rig r;

	(void)state;
	open_watched(&r, &o, MODEL_GPT, "caching");
	steps(&r, 0, 2);
	assert_string_equal(spy.call, "--");
	steps(&r, 2, 1);
	assert_string_equal(spy.call, "--bel-");
	assert_int_equal(spy.step.random, 2);
	assert_int_equal(spy.step.update, 3);
	steps(&r, 3, 2);
	/* ids and targets */
	assert_string_equal(spy.call, "--bel-ffl-ffl-");
	assert_int_equal(spy.step.random, 4);
	assert_int_equal(spy.step.update, 5);
	assert_true(spy.step.loss_scale == 1.0f / (2 * 64));
	assert_int_equal(spy.fed_bytes, 2 * 2 * 2 * 64 * 4);
	rig_close(&r);
	assert_int_equal(spy.call[spy.n - 1], 'd');
}

static void every_upload_of_every_micro_batch_is_fed(void **state)
{
	struct train_opts o = graph_opts(MODEL_BERT);
	struct rig r;

	(void)state;
	o.accum = 2;
	o.lengths = "random";
	o.mlm_positions = "masked";
	open_watched(&r, &o, MODEL_BERT, "caching");
	steps(&r, 0, 4);
	/* ids, rows, targets, types, lengths: twice */
	assert_string_equal(spy.call, "--bel-ffffffffffl-");
	rig_close(&r);
}

static void eager_records_nothing(void **state)
{
	struct train_opts o = rig_opts(MODEL_GPT);
	struct rig r;

	(void)state;
	open_watched(&r, &o, MODEL_GPT, "caching");
	steps(&r, 0, 5);
	assert_string_equal(spy.call, "-----");
	rig_close(&r);
}

static int carried_out;

static int count_gelu(struct device *dev, const struct op_gelu_fwd *a, void *ws, struct tm_err *err)
{
	(void)dev, (void)a, (void)ws, (void)err;
	carried_out++;
	return 0;
}

static int count_upload(struct device *dev, struct tensor *dst, const void *src, uint64_t bytes, struct tm_err *err)
{
	(void)dev, (void)dst, (void)src, (void)bytes, (void)err;
	carried_out++;
	return 0;
}

/* Operations and uploads reach the device in eager steps and into the recording, and never beside a launch. */
static void a_launched_step_carries_nothing_out(void **state)
{
	struct train_opts o = graph_opts(MODEL_GPT);
	struct device_table counted;
	struct rig r;
	int each;

	(void)state;
	open_watched(&r, &o, MODEL_GPT, "caching");
	counted = *watched.ops;
	counted.gelu_fwd = count_gelu;
	watched.ops = &counted;
	watched.upload = count_upload;
	carried_out = 0;
	steps(&r, 0, 1);
	each = carried_out;
	assert_true(each > 2);
	steps(&r, 1, 2);
	assert_int_equal(carried_out, 3 * each);
	steps(&r, 3, 3);
	assert_int_equal(carried_out, 3 * each);
	rig_close(&r);
}

/* ---- memory ----------------------------------------------------------------------------- */

struct seen {
	struct mem_peak run;
	struct mem_policy_counts counts;
	uint64_t calls, digest;
	struct op_account adamw, linear;
};

static void look(const struct train_opts *o, struct seen *s)
{
	int update = device_phase_index("update"), forward = device_phase_index("forward");
	struct rig r;

	open_watched(&r, o, MODEL_GPT, "caching");
	steps(&r, 0, 3);
	mem_digest_begin(r.mem);
	device_reset_account(r.dev);
	steps(&r, 3, 1);
	s->digest = mem_digest(r.mem);
	steps(&r, 4, 2);
	s->run = *mem_run_peak(r.mem);
	mem_counts(r.mem, &s->counts);
	s->calls = mem_alloc_calls(r.mem);
	s->adamw = r.dev->account[OP_adamw_all][update];
	s->linear = r.dev->account[OP_linear_fwd][forward];
	mem_check(r.mem);
	rig_close(&r);
}

static void memory_sees_the_same_steps(void **state)
{
	struct train_opts o = rig_opts(MODEL_GPT);
	struct seen eager, graph;

	(void)state;
	o.checkpoint = "block";
	look(&o, &eager);
	o.launch = "graph";
	look(&o, &graph);
	assert_int_equal(eager.digest, graph.digest);
	assert_int_equal(eager.calls, graph.calls);
	assert_memory_equal(&eager.run, &graph.run, sizeof eager.run);
	assert_memory_equal(&eager.counts, &graph.counts, sizeof eager.counts);
	/* what a step needs is counted, launched or not */
	assert_int_equal(graph.adamw.calls, 3);
	assert_int_equal(eager.linear.calls, graph.linear.calls);
	assert_true(eager.linear.flops > 0);
	assert_true(eager.linear.flops <= graph.linear.flops && eager.linear.flops >= graph.linear.flops);
}

/* Something else lies where the recorded step had its memory: that step is launched still, and the next recorded anew. */
static void other_addresses_are_recorded_anew(void **state)
{
	struct train_opts o = graph_opts(MODEL_GPT);
	struct mem_block *block;
	struct tm_err err = { 0 };
	struct rig r;

	(void)state;
	open_watched(&r, &o, MODEL_GPT, "caching");
	steps(&r, 0, 4);
	assert_ok(mem_alloc(r.mem, 512, MEM_INPUT, "in the way", &block, &err), &err);
	steps(&r, 4, 3);
	assert_string_equal(spy.call, "--bel-ffl-ffld-bel-ffl-");
	rig_close(&r);
}

/* ---- what goes wrong ------------------------------------------------------------------------ */

static void a_recording_that_fails_is_given_up(void **state)
{
	struct train_opts o = graph_opts(MODEL_GPT);
	struct tm_err err = { 0 };
	struct train_result out;
	struct mem_block *rest;
	struct rig r;

	(void)state;
	open_watched(&r, &o, MODEL_GPT, "caching");
	steps(&r, 0, 2);
	spy.begin_code = TM_EIO;
	assert_int_equal(trainer_step(r.trainer, 2, &out, &err), TM_EIO);
	spy.begin_code = 0;
	spy.end_code = TM_EIO;
	assert_int_equal(trainer_step(r.trainer, 2, &out, &err), TM_EIO);
	assert_string_equal(err.text, "it was broken off");
	spy.end_code = 0;
	/* and nothing of the step is left */
	mem_check(r.mem);
	assert_ok(mem_alloc(r.mem, 512, MEM_INPUT, "x", &rest, &err), &err);
	steps(&r, 2, 1);
	assert_string_equal(spy.call, "--bbebel-");
	rig_close(&r);
}

static int broken_gelu(struct device *dev, const struct op_gelu_bwd *a, void *ws, struct tm_err *err)
{
	(void)dev, (void)a, (void)ws;
	return tm_fail(err, TM_EIO, "gelu is gone");
}

static void an_error_in_a_recorded_step_abandons_it(void **state)
{
	struct train_opts o = graph_opts(MODEL_GPT);
	struct device_table broken;
	struct tm_err err = { 0 };
	struct train_result out;
	struct mem_usage before, after;
	struct rig r;

	(void)state;
	open_watched(&r, &o, MODEL_GPT, "caching");
	steps(&r, 0, 2);
	mem_usage(r.mem, &before);
	broken = *watched.ops;
	broken.gelu_bwd = broken_gelu;
	watched.ops = &broken;
	assert_int_equal(trainer_step(r.trainer, 2, &out, &err), TM_EIO);
	assert_string_equal(spy.call, "--ba");
	mem_usage(r.mem, &after);
	assert_int_equal(after.allocated, before.allocated);
	mem_check(r.mem);
	rig_close(&r);
}

static void what_cannot_be_recorded_is_refused(void **state)
{
	static int64_t two[] = { 32, 64 };
	struct train_opts o = graph_opts(MODEL_GPT);
	const char *bad = NULL;
	struct tm_err err = { 0 };

	(void)state;
	assert_int_equal(train_check_device(&o, MODEL_GPT, &device_workspaces_cuda, &bad, &err), 0);
	assert_int_equal(train_check_allocator(&o, "caching", &bad, &err), 0);
	assert_int_equal(train_check_device(&o, MODEL_GPT, &device_workspaces_cpu, &bad, &err), TM_EINVALID);
	assert_string_equal(bad, "launch");
	assert_non_null(strstr(err.text, "expected launch eager, or device cuda"));
	assert_int_equal(train_check_allocator(&o, "raw", &bad, &err), TM_EINVALID);
	assert_int_equal(train_check_allocator(&o, "async", &bad, &err), TM_EINVALID);
	assert_non_null(strstr(err.text, "expected allocator caching, or launch eager"));
	o.gradients = true;
	assert_int_equal(train_check_device(&o, MODEL_GPT, &device_workspaces_cuda, &bad, &err), TM_EINVALID);
	assert_non_null(strstr(err.text, "gradients false"));
	o.gradients = false;
	o.seq = (struct param_drawn){ 2, two };
	assert_int_equal(train_check_device(&o, MODEL_GPT, &device_workspaces_cuda, &bad, &err), TM_EINVALID);
	assert_non_null(strstr(err.text, "expected one seq"));
	o.launch = "eager";
	assert_int_equal(train_check_device(&o, MODEL_GPT, &device_workspaces_cpu, &bad, &err), 0);
	assert_int_equal(train_check_allocator(&o, "raw", &bad, &err), 0);
}

/* ---- on a card ------------------------------------------------------------------------------- */

enum { BITS_STEPS = 6 };

static void run(struct train_opts o, const char *launch, enum model_kind kind, double loss[BITS_STEPS], double scale[BITS_STEPS])
{
	struct rig r;

	o.launch = launch;
	rig_open(&r, &(struct rig_conf){ 0 }, &o, kind, 5);
	for (int64_t i = 0; i < BITS_STEPS; i++) {
		struct train_result out = rig_step(&r, i);

		loss[i] = out.loss;
		scale[i] = out.scale;
	}
	assert_true(!strcmp(launch, "eager") || r.trainer->launch.recorded);
	rig_close(&r);
}

static void graph_computes_the_bits_of_eager(void **state)
{
	static const char *const precisions[] = { "fp32", "bf16", "fp16", "bf16-pure" };

	(void)state;
	if (!strncmp(rig_device(), "cpu", 3)) {
		print_message("skipped on cpu: it records no steps\n");
		skip();
	}
	for (size_t p = 0; p < TM_ARRAY_N(precisions); p++)
		for (int kind = 0; kind < 2; kind++) {
			struct train_opts o = rig_opts(kind ? MODEL_BERT : MODEL_GPT);
			double eager[2][BITS_STEPS], graph[2][BITS_STEPS];

			o.precision = precisions[p];
			o.dropout = 0.1;          /* whose masks follow the step */
			o.accum = 2;
			o.loss = "chunked:2";
			run(o, "eager", kind ? MODEL_BERT : MODEL_GPT, eager[0], eager[1]);
			run(o, "graph", kind ? MODEL_BERT : MODEL_GPT, graph[0], graph[1]);
			assert_memory_equal(eager, graph, sizeof eager);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_steps_eager_the_third_recorded_then_launched),
		cmocka_unit_test(every_upload_of_every_micro_batch_is_fed),
		cmocka_unit_test(eager_records_nothing),
		cmocka_unit_test(a_launched_step_carries_nothing_out),
		cmocka_unit_test(memory_sees_the_same_steps),
		cmocka_unit_test(other_addresses_are_recorded_anew),
		cmocka_unit_test(a_recording_that_fails_is_given_up),
		cmocka_unit_test(an_error_in_a_recorded_step_abandons_it),
		cmocka_unit_test(what_cannot_be_recorded_is_refused),
		cmocka_unit_test(graph_computes_the_bits_of_eager),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
