#include "plan_answer.h"

#include "base/str.h"
#include "live.h"

#include <string.h>

static void set_bytes(json_t *obj, const char *key, uint64_t bytes)
{
	json_object_set_new(obj, key, json_integer((json_int_t)bytes));
}

static void set_text(json_t *obj, const char *key, const char *text)
{
	json_object_set_new(obj, key, json_string(text ? text : ""));
}

static json_t *by_category(const uint64_t bytes[MEM_CATEGORY_N])
{
	json_t *by = json_object();

	for (int c = 0; c < MEM_CATEGORY_N; c++)
		set_bytes(by, mem_category_name[c], bytes[c]);
	return by;
}

/* ---- peaks ------------------------------------------------------------------- */

/* The step as the run counts it: what repeats was gone through earlier than the run gets there. */
static int64_t step_of(const struct plan_walk *walk, const char *name, const struct mem_peak *p)
{
	bool early = strcmp(name, "steady") == 0 && walk->repeats && walk->steps <= walk->steady_step;

	return early ? walk->steady_step : p->step;
}

static json_t *peak(const struct plan_walk *walk, const char *name, const struct mem_peak *p)
{
	json_t *obj = json_object();

	set_text(obj, "name", name);
	set_bytes(obj, "requested", p->max.requested);
	set_bytes(obj, "allocated", p->max.allocated);
	set_bytes(obj, "active", p->max.active);
	set_bytes(obj, "reserved", p->max.reserved);
	set_bytes(obj, "device", p->device);
	set_bytes(obj, "reserved_at_peak", p->reserved_at_peak);
	json_object_set_new(obj, "by", by_category(p->requested_at_peak));
	json_object_set_new(obj, "blocks", by_category(p->allocated_at_peak));
	json_object_set_new(obj, "step", json_integer(step_of(walk, name, p)));
	set_text(obj, "phase", p->phase);
	set_text(obj, "op", p->op);
	return obj;
}

json_t *plan_answer_peaks(const struct plan_walk *walk)
{
	const struct mem *mem = walk->run.mem;
	json_t *list = json_array();

	json_array_append_new(list, peak(walk, "run", mem_run_peak(mem)));
	for (size_t i = 0; i < mem_peak_n(mem); i++) {
		const char *name;
		const struct mem_peak *p = mem_peak_at(mem, i, &name);

		json_array_append_new(list, peak(walk, name, p));
	}
	return list;
}

json_t *plan_answer_oom(const struct plan_walk *walk)
{
	json_t *obj = json_object();
	struct mem_oom oom;

	if (!mem_last_oom(walk->run.mem, &oom))
		return obj;
	set_text(obj, "kind", oom.cap && oom.cap_bytes ? "cap" : "device");
	set_text(obj, "op", oom.op);
	set_text(obj, "phase", oom.phase);
	set_text(obj, "name", oom.name);
	json_object_set_new(obj, "step", json_integer(oom.step));
	set_bytes(obj, "asked", oom.asked);
	set_bytes(obj, "allocated", oom.allocated);
	set_bytes(obj, "reserved", oom.reserved);
	return obj;
}

/* ---- work ---------------------------------------------------------------------- */

struct totals {
	double flops, recomputed, time_us;
};

/* One line an operation and phase; a mean where the covered steps differ. */
static json_t *ops(const struct plan_walk *walk, bool timed, struct totals *sum)
{
	json_t *list = json_array();
	double n = (double)walk->counted;

	for (int op = 0; op < DEVICE_OP_N; op++) {
		for (int p = 0; p < DEVICE_PHASE_N; p++) {
			const struct op_account *a = &walk->run.dev->account[op][p];
			double us = (double)a->time_ns / 1000 / n;
			json_t *obj;

			if (!a->calls)
				continue;
			obj = json_object();
			set_text(obj, "name", device_op_name[op]);
			set_text(obj, "phase", device_phase_name[p]);
			if (walk->counted == 1)
				set_bytes(obj, "calls", a->calls);
			else
				json_object_set_new(obj, "calls", json_real((double)a->calls / n));
			json_object_set_new(obj, "flops", json_real(a->flops / n));
			json_object_set_new(obj, "bytes", json_real(a->bytes / n));
			if (timed)
				json_object_set_new(obj, "time_us", json_real(us));
			json_array_append_new(list, obj);
			sum->time_us += us;
			sum->flops += a->flops;
			if (strcmp(device_phase_name[p], "recompute") == 0)
				sum->recomputed += a->flops;
		}
	}
	sum->flops /= n;
	sum->recomputed /= n;
	return list;
}

static void add_work(json_t *answer, const struct plan_walk *walk, const struct plan_card *card)
{
	struct totals sum = { 0 };
	bool timed = card->bandwidth > 0;

	json_object_set_new(answer, "ops", ops(walk, timed, &sum));
	json_object_set_new(answer, "flops", json_pack("{s:f, s:f, s:f}",
						       "model", walk->model_flops / (double)walk->counted, "done", sum.flops, "recomputed", sum.recomputed));
	if (timed)
		json_object_set_new(answer, "time_us", json_real(sum.time_us));
	json_object_set_new(answer, "driver_calls", json_real(walk->driver_calls));
}

/* ---- all -------------------------------------------------------------------------- */

/* What the numbers do not cover. Nothing where a step repeats: then they hold for any number of them. */
static void add_notes(json_t *answer, const struct plan_walk *walk)
{
	const struct job *job = walk->run.job;
	struct tm_str text = TM_STR_INIT;
	json_t *notes = json_array();

	if (walk->cut) {
		tm_str_addf(&text, "no two steps are alike, so only the first %lld of %lld were planned: the peaks are lower bounds",
			    (long long)walk->steps, (long long)walk->last);
		json_array_append_new(notes, json_string(text.s));
		tm_str_reset(&text);
	}
	if (!walk->repeats && job->warmup_max > job->warmup_min) {
		tm_str_addf(&text, "the warm-up takes %lld to %lld steps, whatever the times say; planned are %lld",
			    (long long)job->warmup_min, (long long)job->warmup_max, (long long)job->warmup_min);
		json_array_append_new(notes, json_string(text.s));
	}
	if (json_array_size(notes))
		json_object_set(answer, "notes", notes);
	json_decref(notes);
	tm_str_free(&text);
}

void plan_answer(json_t *answer, const struct plan_walk *walk, const struct plan_card *card, size_t live_most)
{
	json_object_set_new(answer, "steps", json_integer(walk->steps));
	json_object_set_new(answer, "repeats", json_boolean(walk->repeats));
	if (walk->cut)
		json_object_set_new(answer, "cut", json_true());
	json_object_set_new(answer, "peaks", plan_answer_peaks(walk));
	json_object_set_new(answer, "live", live_at_peak(walk->run.mem, live_most));
	add_work(answer, walk, card);
	add_notes(answer, walk);
}
