#include "figures.h"

#include "base/file.h"
#include "base/mem.h"
#include "live.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counts {
	uint64_t allocs, driver_calls, retries;
};

struct figures {
	int64_t steps, tokens, samples;   /* of the window; skipped steps did no work */
	struct mem_snapshot *empty;       /* before anything was allocated */
	struct counts begin, end;
	struct mem_peak peak;             /* of the run up to the end of the window */
	double flops, model_flops;        /* done, and needed without recomputation */
	int64_t us, blas_ns;              /* of the window: in steps, and of that inside BLAS */
	uint64_t host_peak_bytes;
};

struct figures *figures_new(const struct run *run)
{
	struct figures *f = tm_xcalloc(1, sizeof *f);

	if (run->mem)
		f->empty = mem_snapshot_take(run->mem);
	return f;
}

void figures_free(struct figures *f)
{
	if (!f)
		return;
	mem_snapshot_free(f->empty);
	free(f);
}

/* ---- usage now -------------------------------------------------------------- */

static void set_bytes(json_t *obj, const char *key, uint64_t bytes)
{
	json_object_set_new(obj, key, json_integer((json_int_t)bytes));
}

static void set_usage(json_t *obj, const struct mem_usage *u)
{
	set_bytes(obj, "requested", u->requested);
	set_bytes(obj, "allocated", u->allocated);
	set_bytes(obj, "active", u->active);
	set_bytes(obj, "reserved", u->reserved);
}

static json_t *by_category(const uint64_t bytes[MEM_CATEGORY_N])
{
	json_t *by = json_object();

	for (int c = 0; c < MEM_CATEGORY_N; c++)
		set_bytes(by, mem_category_name[c], bytes[c]);
	return by;
}

/* What is live, by category: everything was born after the empty moment. */
static json_t *live_by_category(const struct figures *f, const struct mem *mem)
{
	uint64_t bytes[MEM_CATEGORY_N] = { 0 };
	struct mem_snapshot *now = mem_snapshot_take(mem);
	struct mem_stayed *groups = NULL;
	size_t n = mem_snapshot_diff(f->empty, now, &groups);

	for (size_t i = 0; i < n; i++)
		bytes[groups[i].category] += groups[i].bytes;
	free(groups);
	mem_snapshot_free(now);
	return by_category(bytes);
}

void figures_usage(struct figures *f, const struct run *run)
{
	struct mem_usage usage;
	json_t *body;

	if (!run->mem)
		return;
	mem_usage(run->mem, &usage);
	body = json_object();
	json_object_set_new(body, "step", json_integer(run->step));
	set_usage(body, &usage);
	json_object_set_new(body, "by", live_by_category(f, run->mem));
	event_send(run->events, "mem", body);
}

/* ---- the window ---------------------------------------------------------------- */

static void read_counts(const struct mem *mem, struct counts *out)
{
	struct mem_policy_counts c;

	mem_counts(mem, &c);
	out->allocs = mem_alloc_calls(mem);
	out->driver_calls = c.driver_allocs + c.driver_frees;
	out->retries = c.retries;
}

void figures_window_begin(struct figures *f, const struct run *run)
{
	if (run->mem)
		read_counts(run->mem, &f->begin);
	if (run->dev)
		device_reset_account(run->dev);
}

void figures_step(struct figures *f, const struct event_step *s)
{
	f->steps++;
	f->us += s->us;
	f->model_flops += s->flops;       /* of skipped ones too: they were carried out, only not counted as work */
	if (s->skipped)
		return;
	f->tokens += s->tokens;
	f->samples += s->samples;
}

void figures_window_end(struct figures *f, const struct run *run)
{
	figures_usage(f, run);
	if (run->mem) {
		read_counts(run->mem, &f->end);
		f->peak = *mem_run_peak(run->mem);
	}
	if (run->dev) {
		for (int op = 0; op < DEVICE_OP_N; op++)
			for (int p = 0; p < DEVICE_PHASE_N; p++)
				f->flops += run->dev->account[op][p].flops;
		f->blas_ns = device_blas_ns(run->dev);
	}
	f->host_peak_bytes = figures_host_peak(0);
}

/* ---- host memory ------------------------------------------------------------------ */

/*
 * Not ru_maxrss: that is inherited over exec, so a small worker of a large
 * parent would show the parent's size (measured: 400 MB for a 1.3 MB child).
 */
uint64_t figures_host_peak(int pid)
{
	struct tm_str text = TM_STR_INIT;
	char path[64], *at;
	uint64_t kib = 0;

	if (pid)
		snprintf(path, sizeof path, "/proc/%d/status", pid);
	else
		snprintf(path, sizeof path, "/proc/self/status");
	if (!tm_read_file(path, 65536, &text, NULL)) {
		at = strstr(text.s, "VmHWM:");
		if (at)
			kib = strtoull(at + strlen("VmHWM:"), NULL, 10);
	}
	tm_str_free(&text);
	return kib * 1024;
}

/* ---- events -------------------------------------------------------------------------- */

static json_t *op_line(const char *name, const char *phase, uint64_t calls)
{
	json_t *body = json_object();

	json_object_set_new(body, "name", json_string(name));
	json_object_set_new(body, "phase", json_string(phase));
	set_bytes(body, "calls", calls);
	return body;
}

/* Time and FLOPs by operation and phase, over the counted steps. */
static void send_device_ops(const struct run *run)
{
	for (int op = 0; op < DEVICE_OP_N; op++) {
		for (int p = 0; p < DEVICE_PHASE_N; p++) {
			const struct op_account *a = &run->dev->account[op][p];
			json_t *body;

			if (!a->calls)
				continue;
			body = op_line(device_op_name[op], device_phase_name[p], a->calls);
			json_object_set_new(body, "time_us", json_real((double)a->time_ns / 1000));
			json_object_set_new(body, "flops", json_real(a->flops));
			event_send(run->events, "op", body);
		}
	}
}

/* Memory by whoever asked for it, over the whole run; `calls` are allocations and the phase is "all". */
static void send_memory_ops(const struct run *run)
{
	for (size_t i = 0; i < mem_op_n(run->mem); i++) {
		const struct mem_op_usage *u = mem_op_at(run->mem, i);
		json_t *body = op_line(u->op ? u->op : "", "all", u->calls);

		set_bytes(body, "bytes_at_peak", u->at_peak);
		set_bytes(body, "bytes_max", u->live_max);
		event_send(run->events, "op", body);
	}
}

static void send_peak(const struct run *run, const char *name, const struct mem_peak *p)
{
	json_t *body = json_object();

	json_object_set_new(body, "name", json_string(name));
	set_usage(body, &p->max);
	set_bytes(body, "reserved_at_peak", p->reserved_at_peak);
	json_object_set_new(body, "by", by_category(p->requested_at_peak));
	json_object_set_new(body, "step", json_integer(p->step));
	json_object_set_new(body, "phase", json_string(p->phase ? p->phase : ""));
	json_object_set_new(body, "op", json_string(p->op ? p->op : ""));
	event_send(run->events, "peak", body);
}

/* Which tensors made the peak, to be compared with a plan's. */
static void send_live(const struct run *run)
{
	json_t *body = json_object();

	json_object_set_new(body, "live", live_at_peak(run->mem, LIVE_ALL));
	event_send(run->events, "live", body);
}

void figures_send(const struct figures *f, const struct run *run)
{
	if (run->dev)
		send_device_ops(run);
	if (!run->mem)
		return;
	send_memory_ops(run);
	send_live(run);
	send_peak(run, "run", &f->peak);
	for (size_t i = 0; i < mem_peak_n(run->mem); i++) {
		const char *name;
		const struct mem_peak *p = mem_peak_at(run->mem, i, &name);

		send_peak(run, name, p);
	}
}

/* ---- result ----------------------------------------------------------------------------- */

static void per_step(json_t *m, const char *name, double total, int64_t steps)
{
	json_object_set_new(m, name, json_real(total / (double)steps));
}

static void mark_metric(json_t *m, const struct mem *mem, const char *mark, const char *metric)
{
	const struct mem_peak *p = mem_mark_peak(mem, mark);

	if (p)
		set_bytes(m, metric, p->max.allocated);
}

static void memory_metrics(const struct figures *f, const struct run *run, json_t *m)
{
	const struct mem_peak *load = mem_phase_peak(run->mem, "load");
	char name[64];

	set_bytes(m, "mem.requested.peak", f->peak.max.requested);
	set_bytes(m, "mem.allocated.peak", f->peak.max.allocated);
	set_bytes(m, "mem.reserved.peak", f->peak.max.reserved);
	if (load)
		set_bytes(m, "mem.allocated.peak.load", load->max.allocated);
	mark_metric(m, run->mem, "first step", "mem.allocated.peak.first_step");
	mark_metric(m, run->mem, "steady", "mem.allocated.peak.steady");
	for (int c = 0; c < MEM_CATEGORY_N; c++) {
		snprintf(name, sizeof name, "mem.%s.at_peak", mem_category_name[c]);
		set_bytes(m, name, f->peak.allocated_at_peak[c]);
	}
	if (f->peak.max.reserved)
		json_object_set_new(m, "mem.fragmentation",
				    json_real(1 - (double)f->peak.allocated_at_reserved / (double)f->peak.max.reserved));
	per_step(m, "alloc.count", (double)(f->end.allocs - f->begin.allocs), f->steps);
	per_step(m, "alloc.driver_calls", (double)(f->end.driver_calls - f->begin.driver_calls), f->steps);
	per_step(m, "alloc.retries", (double)(f->end.retries - f->begin.retries), f->steps);
}

json_t *figures_metrics(const struct figures *f, const struct run *run)
{
	json_t *m = json_object();

	if (run->mem)
		memory_metrics(f, run, m);
	if (f->model_flops > 0)
		per_step(m, "flops.model", f->model_flops, f->steps);
	if (f->flops > 0)
		per_step(m, "flops.done", f->flops, f->steps);
	if (f->blas_ns > 0)
		json_object_set_new(m, "util.blas", json_real((double)f->blas_ns / 1000 / (double)f->us));
	if (f->host_peak_bytes)
		set_bytes(m, "mem.host.peak", f->host_peak_bytes);
	return m;
}

json_t *figures_work(const struct figures *f)
{
	json_t *work = json_object();

	json_object_set_new(work, "steps", json_integer(f->steps));
	json_object_set_new(work, "tokens", json_integer(f->tokens));
	json_object_set_new(work, "samples", json_integer(f->samples));
	json_object_set_new(work, "flops", json_real(f->flops));
	return work;
}
