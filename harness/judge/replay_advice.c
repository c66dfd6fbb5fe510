#include "judge/replay_advice.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORTH_SHARE 0.02                  /* of what is reserved: less is not worth a sentence */
#define PINNED_N 3                        /* frames named in a sentence */
#define WORSE_SHARE 0.02                  /* above the base: harmful */

/* ---- what the rules look at ------------------------------------------------- */

struct look {
	const struct replay_case *c;
	struct replay_limit limit;
	size_t base, best, seen;          /* seen: the setting whose moment of the peak is told of */
	const json_t *stranded;           /* of it; NULL */
};

static double real(const struct look *l, size_t i, const char *key)
{
	return i == REPLAY_NONE ? NAN : tm_json_real(l->c->results[i], key, NAN);
}

static double whole(const struct look *l)
{
	return tm_json_real(l->c->recording, "rounded_peak", 0);
}

static const char *conf_of(const struct look *l, size_t i)
{
	return tm_json_str(json_array_get(l->c->settings, i), "conf", NULL);
}

/* What the policy was really given: also where the recording's own settings were asked for. */
static const char *effective(const struct look *l, size_t i)
{
	const char *asked = conf_of(l, i);

	return i == REPLAY_NONE ? "" : asked ? asked : tm_json_str(l->c->results[i], "conf", "");
}

static bool is_on(const char *conf, const char *key, const char *value)
{
	struct tm_str word = TM_STR_INIT;
	bool found;

	tm_str_addf(&word, "%s:%s", key, value);
	found = strstr(conf, word.s) != NULL;
	tm_str_free(&word);
	return found;
}

static bool is_expandable(const char *conf)
{
	return is_on(conf, "expandable_segments", "True");
}

static const char *place(const json_t *entry)
{
	return tm_json_str(entry, "frame", NULL);
}

static void add_share(struct tm_str *out, double part, double of)
{
	if (of > 0)
		tm_str_addf(out, " (%.2g %%)", 100 * part / of);
}

/* ---- what to do --------------------------------------------------------------- */

/* Arithmetic that no packing can beat: what lives at once, or one request, is more than there is. */
static double no_setting_helps(const struct look *l, struct tm_str *out)
{
	const json_t *oom = replay_oom(l->c);
	double request = tm_json_real(oom, "request", 0), over = whole(l) - l->limit.bytes;
	double total = l->c->total_bytes > 0 ? l->c->total_bytes : l->limit.bytes;
	char a[32], b[32], d[32];

	if (!l->limit.of || !(over > 0))
		return -1;
	if (request > total) {
		tm_str_addf(out, "No allocator setting helps: one request of %s exceeds %s of %s by %s.", tm_size_text(request, a),
			    l->c->total_bytes > 0 ? "the card" : l->limit.of == REPLAY_BY_CAP ? "the cap" : "all that there was, a limit",
			    tm_size_text(total, b), tm_size_text(request - total, d));
		over = request - total;
	} else {
		tm_str_addf(out, "No allocator setting helps: %s have to live at once%s, and there are %s: short by %s however they are packed.",
			    tm_size_text(whole(l), a), request > 0 ? ", the refused request included" : "", tm_size_text(l->limit.bytes, b),
			    tm_size_text(over, d));
	}
	if (request > 0 && request >= over) {
		tm_str_addf(out, " It would take %.2g %% less of that request of %s", 100 * over / request, tm_size_text(request, a));
		if (place(oom))
			tm_str_addf(out, " (%s)", place(oom));
	} else {
		tm_str_add(out, " It would take a smaller batch or length");
	}
	tm_str_add(out, ", checkpointing, or fused attention and a loss in chunks where its scores or logits are that large.");
	return over;
}

static void add_price(const struct look *l, size_t i, struct tm_str *out)
{
	double retries = real(l, i, "retries");

	tm_str_addf(out, "%.0f driver calls against %.0f", replay_calls(l->c, i), replay_calls(l->c, l->base));
	if (retries > 0)
		tm_str_addf(out, " and %.0f retries, each of which waits for the device and empties the cache", retries);
}

static double use_best(const struct look *l, struct tm_str *out)
{
	double need = replay_need(l->c, l->best), own = replay_need(l->c, l->base);
	bool capped = l->best != REPLAY_NONE && tm_json_real(json_array_get(l->c->settings, l->best), "cap", 0) > 0;
	bool known = l->best != REPLAY_NONE && json_is_number(json_object_get(l->c->results[l->best], "min_cap"));
	char a[32], b[32];

	if (l->best == REPLAY_NONE || l->best == l->base || (!conf_of(l, l->best) && conf_of(l, l->base) == NULL))
		return -1;
	if (!capped && !(need < own * (1 - REPLAY_EQUAL_SHARE)))
		return -1;
	tm_str_add(out, "Use ");
	replay_setting_text(l->c, l->best, out);
	if (capped)
		tm_str_addf(out, ": under %s the recording completes with it, reserving %s; ", tm_size_text(l->limit.bytes, a),
			    tm_size_text(real(l, l->best, "reserved_peak"), b));
	else
		tm_str_addf(out, known ? ": %s are enough, %s less than with " : ": it reserves %s, %s less than ", tm_size_text(need, a),
			    tm_size_text(own - need, b));
	if (!capped) {
		replay_setting_text(l->c, l->base, out);
		tm_str_add(out, "; ");
	}
	tm_str_add(out, "price: ");
	add_price(l, l->best, out);
	tm_str_addc(out, '.');
	return capped || isnan(own) ? real(l, l->best, "reserved_peak") : own - need;
}

/* A setting that needs still less but asks the driver so often that it is not the best. */
static double lower_but_dear(const struct look *l, struct tm_str *out)
{
	size_t at = REPLAY_NONE;
	double least = replay_need(l->c, l->best == REPLAY_NONE ? l->base : l->best);
	char a[32], b[32];

	for (size_t i = 0; i < json_array_size(l->c->settings); i++)
		if (replay_is_dear(l->c, i) && replay_need(l->c, i) < least * (1 - WORTH_SHARE) &&
		    (at == REPLAY_NONE || replay_need(l->c, i) < replay_need(l->c, at)))
			at = i;
	if (at == REPLAY_NONE)
		return -1;
	replay_setting_text(l->c, at, out);
	tm_str_addf(out, " needs still less, %s instead of %s, but at ", tm_size_text(replay_need(l->c, at), a), tm_size_text(least, b));
	add_price(l, at, out);
	tm_str_add(out, "; calls of the driver stop the program, so measure the speed before using it.");
	return least - replay_need(l->c, at);
}

/* Others hold the card: what fragmentation could give back is not what is missing. */
static double neighbour(const struct look *l, struct tm_str *out)
{
	const json_t *fail = l->base == REPLAY_NONE ? NULL : json_object_get(l->c->results[l->base], "first_failure"), *oom = replay_oom(l->c);
	double segment = tm_json_real(fail, "segment", 0), request = tm_json_real(fail, "request", tm_json_real(oom, "request", 0));
	double reserved = tm_json_real(oom, "reserved", real(l, l->base, "reserved_peak")), idle;
	char a[32], b[32], d[32];

	idle = reserved - tm_json_real(oom, "live", real(l, l->base, "active_peak"));
	if (!(l->c->outside_bytes > 0) || l->best != REPLAY_NONE || whole(l) + l->c->outside_bytes <= l->limit.bytes)
		return -1;
	tm_str_addf(out, "%s of the %s belong to others; of what this program reserved at most %s can be fragmentation.",
		    tm_size_text(l->c->outside_bytes, a), tm_size_text(l->c->total_bytes, b), tm_size_text(fmax(idle, 0), d));
	if (request > 0 && segment > request)
		tm_str_addf(out, " The %s that were refused are a segment; the request was %s.", tm_size_text(segment, a), tm_size_text(request, b));
	tm_str_add(out, " No option changes that: give each program its share (a cap, or the memory fraction), or move one of them to another card.");
	return l->c->outside_bytes;
}

static double ran_out(const struct look *l, struct tm_str *out)
{
	const json_t *oom = replay_oom(l->c);
	double request = tm_json_real(oom, "request", 0), live = tm_json_real(oom, "live", NAN), reserved = tm_json_real(oom, "reserved", NAN);
	char a[32], b[32], d[32];

	if (!oom)
		return -1;
	tm_str_addf(out, "The recording itself ran out at event %.0f, which asked for %s", tm_json_real(oom, "index", 0), tm_size_text(request, a));
	if (place(oom))
		tm_str_addf(out, " (%s)", place(oom));
	if (!isnan(live) && !isnan(reserved))
		tm_str_addf(out, " with %s live of %s reserved", tm_size_text(live, b), tm_size_text(reserved, d));
	if (tm_json_real(oom, "device_free", -1) >= 0)
		tm_str_addf(out, " and %s free on the device", tm_size_text(tm_json_real(oom, "device_free", 0), a));
	tm_str_addc(out, '.');
	return request;
}

/* ---- why ------------------------------------------------------------------------ */

/*
 * cuBLAS makes one workspace a handle and stream: 2 of 4 MiB and 8 of 16 KiB by
 * default, 32 MiB on cards since Hopper, as PyTorch asks for them.
 */
const char *replay_workspace(double requested_bytes)
{
	static const struct { double bytes; const char *name; } known[] = {
		{ 8519680, "a cuBLAS workspace (2 x 4 MiB and 8 x 16 KiB)" },
		{ 33554432, "a cuBLAS workspace (32 MiB, as on Hopper)" },
	};

	for (size_t i = 0; i < TM_ARRAY_N(known); i++)
		if (requested_bytes == known[i].bytes)
			return known[i].name;
	return NULL;
}

static double stranded(const struct look *l, struct tm_str *out)
{
	double bytes = tm_json_real(l->stranded, "bytes", 0), reserved = real(l, l->seen, "reserved_peak");
	const json_t *list = json_object_get(l->stranded, "pinned"), *e;
	char a[32], b[32];
	size_t i, n = 0;

	if (!(bytes > WORTH_SHARE * reserved))
		return -1;
	tm_str_add(out, "With ");
	replay_setting_text(l->c, l->seen, out);
	tm_str_addf(out, ", when most was reserved (%s), %s of it", tm_size_text(reserved, a), tm_size_text(bytes, b));
	add_share(out, bytes, reserved);
	tm_str_add(out, " were in no block that was in use");
	json_array_foreach((json_t *)list, i, e) {
		const char *workspace = replay_workspace(tm_json_real(e, "bytes", 0) / fmax(1, tm_json_real(e, "blocks", 1)));

		if (n == PINNED_N || !(tm_json_real(e, "strands", 0) > 0))
			break;
		tm_str_addf(out, "%s %.0f block%s of %s in all ", n++ ? ";" : ". What keeps it there:", tm_json_real(e, "blocks", 0),
			    tm_json_real(e, "blocks", 0) == 1 ? "" : "s", tm_size_text(tm_json_real(e, "bytes", 0), a));
		tm_str_addf(out, "%s%s %s %s", place(e) ? "from " : "without a recorded frame", place(e) ? place(e) : "",
			    tm_json_real(e, "blocks", 0) == 1 ? "holds in its segment" : "hold in their segments",
			    tm_size_text(tm_json_real(e, "strands", 0), b));
		if (workspace)
			tm_str_addf(out, " (%s, kept once: no leak)", workspace);
	}
	tm_str_addc(out, '.');
	return bytes;
}

/* The largest share of a list, with the name of its holder. */
static double largest_of(const json_t *list, size_t *at)
{
	const json_t *e;
	double most = 0;
	size_t i;

	json_array_foreach((json_t *)list, i, e) {
		if (tm_json_real(e, "bytes", 0) > most) {
			most = tm_json_real(e, "bytes", 0);
			*at = i;
		}
	}
	return most;
}

static bool is_default_pool(const json_t *pool)
{
	return json_integer_value(json_array_get(pool, 0)) == 0 && json_integer_value(json_array_get(pool, 1)) == 0;
}

static double by_stream(const struct look *l, struct tm_str *out)
{
	const json_t *list = json_object_get(l->stranded, "by_stream"), *e;
	double side = 0, reserved = real(l, l->seen, "reserved_peak"), most;
	size_t n = 0, i, at = 0;
	char a[32], b[32];

	json_array_foreach((json_t *)list, i, e) {
		if (tm_json_i64(e, "stream", 0) == 0 || !(tm_json_real(e, "bytes", 0) > 0))
			continue;
		side += tm_json_real(e, "bytes", 0);
		n++;
	}
	most = largest_of(list, &at);
	if (!n || !(side > WORTH_SHARE * reserved))
		return -1;
	tm_str_addf(out, "Streams never share: %zu side stream%s keep%s %s cached that no other may use", n, n == 1 ? "" : "s", n == 1 ? "s" : "",
		    tm_size_text(side, a));
	if (tm_json_i64(json_array_get(list, at), "stream", 0) != 0 && n > 1)
		tm_str_addf(out, ", stream %lld alone %s", (long long)tm_json_i64(json_array_get(list, at), "stream", 0), tm_size_text(most, b));
	tm_str_add(out, ". Where a stream only copies or communicates, allocate its buffers on the main one and use record_stream, or keep one set of buffers.");
	return side;
}

static double by_pool(const struct look *l, struct tm_str *out)
{
	const json_t *list = json_object_get(l->stranded, "by_pool"), *e;
	double bytes = 0, reserved = real(l, l->seen, "reserved_peak");
	size_t n = 0, i;
	char a[32];

	json_array_foreach((json_t *)list, i, e) {
		if (is_default_pool(json_object_get(e, "pool")) || !(tm_json_real(e, "bytes", 0) > 0))
			continue;
		bytes += tm_json_real(e, "bytes", 0);
		n++;
	}
	if (!n || !(bytes > WORTH_SHARE * reserved))
		return -1;
	tm_str_addf(out, "%zu private pool%s (CUDA graphs, MemPool) hold%s %s that are not in use; nothing outside may take them, and empty_cache "
		    "gives them back only after the graph or pool is gone. Graphs that do not run at the same time can share a pool.",
		    n, n == 1 ? "" : "s", n == 1 ? "s" : "", tm_size_text(bytes, a));
	return bytes;
}

static double rounding(const struct look *l, struct tm_str *out)
{
	double bytes = tm_json_real(l->stranded, "rounding", 0), reserved = real(l, l->seen, "reserved_peak");
	const char *conf = effective(l, l->seen);
	char a[32];

	if (!(bytes > WORTH_SHARE * reserved))
		return -1;
	tm_str_addf(out, "%s", tm_size_text(bytes, a));
	add_share(out, bytes, reserved);
	tm_str_add(out, " are rounding: blocks are larger than what was asked for");
	if (strstr(conf, "roundup_power2_divisions"))
		tm_str_add(out, ", by roundup_power2_divisions; more divisions round less");
	else
		tm_str_add(out, ", by up to 1 MiB each where the rest of a block is too small to be cut off");
	tm_str_addc(out, '.');
	return bytes;
}

/* Bytes that stay at the end and are no leak. */
static double workspace_is_no_leak(const struct look *l, struct tm_str *out)
{
	const json_t *list = json_object_get(json_object_get(l->c->recording, "state"), "largest"), *e;
	double bytes = 0, live = tm_json_real(json_object_get(l->c->recording, "state"), "allocated", 0);
	const char *name = NULL;
	size_t i, n = 0;
	char a[32], b[32];

	json_array_foreach((json_t *)list, i, e) {
		const char *is = replay_workspace(tm_json_real(e, "bytes", 0));

		if (!is)
			continue;
		name = is;
		bytes += tm_json_real(e, "bytes", 0);
		n++;
	}
	if (!n)
		return -1;
	tm_str_addf(out, "Of the %s that are live at the end %s are %s", tm_size_text(live, a), tm_size_text(bytes, b), name);
	if (n > 1)
		tm_str_addf(out, ", %zu of them: one a stream", n);
	tm_str_add(out, ". The library makes it once and keeps it: no leak.");
	return bytes;
}

/* Marks of the recorded program (`snapshot` events): the same each time, or more each time. */
static double marks(const struct look *l, struct tm_str *out)
{
	const json_t *list = json_object_get(l->c->recording, "markers");
	size_t n = json_array_size(list), grown = 0, reserved_grown = 0;
	double first, last;
	char a[32], b[32];

	if (n < 3)
		return -1;
	first = tm_json_real(json_array_get(list, 0), "active", 0);
	last = tm_json_real(json_array_get(list, n - 1), "active", 0);
	for (size_t i = 1; i < n; i++) {
		const json_t *x = json_array_get(list, i - 1), *y = json_array_get(list, i);

		grown += tm_json_real(y, "active", 0) > tm_json_real(x, "active", 0);
		reserved_grown = tm_json_real(y, "reserved", 0) > tm_json_real(x, "reserved", 0) ? i : reserved_grown;
	}
	if (grown == n - 1) {
		tm_str_addf(out, "What is live grows from mark to mark of the recording, from %s to %s over %zu marks: something is kept each time.",
			    tm_size_text(first, a), tm_size_text(last, b), n);
		return last - first;
	}
	if (first != last)
		return -1;
	tm_str_addf(out, "No leak: %s are live at the first and the last of %zu marks", tm_size_text(first, a), n);
	if (reserved_grown && reserved_grown < n - 1)
		tm_str_addf(out, "; what is reserved grew until mark %zu and not after: warm-up", reserved_grown + 1);
	tm_str_addc(out, '.');
	return first;
}

/* ---- options -------------------------------------------------------------------- */

static bool same_figures(const struct look *l, size_t i, size_t k)
{
	static const char *const keys[] = { "completes", "requested_peak", "allocated_peak", "active_peak", "reserved_peak", "inactive_split_peak",
					    "segments_peak", "device_allocs", "device_frees", "retries", "ooms", "min_cap" };

	for (size_t n = 0; n < TM_ARRAY_N(keys); n++) {
		const json_t *a = json_object_get(l->c->results[i], keys[n]), *b = json_object_get(l->c->results[k], keys[n]);

		if (a != b && !(a && b && json_equal(a, b)))
			return false;
	}
	return true;
}

/* The defaults without a cap, against which an option shows whether it does anything. */
static size_t plain(const struct look *l)
{
	for (size_t i = 0; i < json_array_size(l->c->settings); i++)
		if (replay_has(l->c, i) && !*effective(l, i) && tm_json_real(json_array_get(l->c->settings, i), "cap", 0) == 0)
			return i;
	return REPLAY_NONE;
}

static void add_list(struct tm_str *list, const struct look *l, size_t i, size_t n)
{
	if (n < 6)
		tm_str_addf(list, "%s%s", n ? ", " : "", conf_of(l, i));
	else if (n == 6)
		tm_str_add(list, ", …");
}

static double inert(const struct look *l, struct tm_str *out)
{
	struct tm_str list = TM_STR_INIT;
	size_t ref = plain(l), n = 0;

	for (size_t i = 0; i < json_array_size(l->c->settings) && ref != REPLAY_NONE; i++) {
		if (i == ref || !replay_has(l->c, i) || !conf_of(l, i) || !*conf_of(l, i) || !same_figures(l, i, ref))
			continue;
		add_list(&list, l, i, n++);
	}
	if (n)
		tm_str_addf(out, "Changes nothing here, every figure is that of the defaults: %s.", list.s);
	tm_str_free(&list);
	return n ? 0 : -1;
}

/* garbage_collection_threshold is a share of a limit; without one it is never looked at. */
static double collector_without_limit(const struct look *l, struct tm_str *out)
{
	for (size_t i = 0; i < json_array_size(l->c->settings); i++) {
		if (!replay_has(l->c, i) || !strstr(effective(l, i), "garbage_collection_threshold") ||
		    tm_json_real(json_array_get(l->c->settings, i), "cap", 0) > 0 || strstr(effective(l, i), "per_process_memory_fraction"))
			continue;
		tm_str_add(out, "garbage_collection_threshold is inert: it is a share of a memory limit and none is set. Replay it with --cap; "
			   "in the program it needs torch.cuda.set_per_process_memory_fraction.");
		return 0;
	}
	return -1;
}

static double expandable_and_split(const struct look *l, struct tm_str *out)
{
	for (size_t i = 0; i < json_array_size(l->c->settings); i++) {
		const char *conf = replay_has(l->c, i) ? effective(l, i) : "";

		if (!is_expandable(conf) || !strstr(conf, "max_split_size_mb"))
			continue;
		tm_str_add(out, "max_split_size_mb together with expandable_segments hides freed memory that has grown beyond it from all smaller "
			   "requests, so that what is reserved can grow without end. Leave max_split_size_mb out.");
		return 0;
	}
	return -1;
}

static double harmful(const struct look *l, struct tm_str *out)
{
	size_t ref = plain(l), worst = REPLAY_NONE, n = 0;
	double most = 0, own;
	char a[32];

	ref = ref == REPLAY_NONE ? l->base : ref;
	own = replay_need(l->c, ref);
	for (size_t i = 0; i < json_array_size(l->c->settings); i++) {
		double more = replay_need(l->c, i) - own;

		if (i == ref || !replay_has(l->c, i) || !conf_of(l, i) || !(more > WORSE_SHARE * own))
			continue;
		n++;
		if (more > most) {
			most = more;
			worst = i;
		}
	}
	if (worst == REPLAY_NONE)
		return -1;
	replay_setting_text(l->c, worst, out);
	tm_str_addf(out, " makes it worse: it %s %s more than ",
		    json_is_number(json_object_get(l->c->results[worst], "min_cap")) ? "needs" : "reserves", tm_size_text(most, a));
	replay_setting_text(l->c, ref, out);
	if (n > 1)
		tm_str_addf(out, "; so do%s %zu other setting%s, by less", n == 2 ? "es" : "", n - 1, n == 2 ? "" : "s");
	tm_str_addc(out, '.');
	return most;
}

/* ---- what to check, and how sure it is ---------------------------------------------- */

static bool advises_expandable(const struct look *l)
{
	return l->best != REPLAY_NONE && l->best != l->base && is_expandable(effective(l, l->best)) && !is_expandable(effective(l, l->base));
}

static double shares_tensors(const struct look *l, struct tm_str *out)
{
	if (!advises_expandable(l))
		return -1;
	tm_str_add(out, "Does it pass CUDA tensors to other processes (torch.multiprocessing, CUDA IPC), or register buffers for RDMA? "
		   "Expandable segments need support for that from driver, platform and library; try that part first.");
	return 0;
}

static double uses_sleep_mode(const struct look *l, struct tm_str *out)
{
	if (!advises_expandable(l))
		return -1;
	tm_str_add(out, "Does it use torch.cuda.MemPool with an allocator of its own, as the sleep mode of inference servers does? "
		   "The two exclude each other there.");
	return 0;
}

static double calls_stop(const struct look *l, struct tm_str *out)
{
	if (l->best == REPLAY_NONE || !replay_is_dear(l->c, l->best))
		return -1;
	tm_str_addf(out, "How fast is it then? %.0f driver calls instead of %.0f can cost more time than the memory is worth; measure some steps.",
		    replay_calls(l->c, l->best), replay_calls(l->c, l->base));
	return 0;
}

static double rules_and_version(const struct look *l, struct tm_str *out)
{
	tm_str_addf(out, "Rules of PyTorch 2.11; the recording is from %s. What a program does after an out-of-memory of its own is another path, "
		    "which a recording cannot tell.", tm_json_str(l->c->recording, "recorded_by", "an unknown version"));
	return 0;
}

static double is_truncated(const struct look *l, struct tm_str *out)
{
	if (strcmp(tm_json_str(l->c->recording, "confidence", ""), "truncated"))
		return -1;
	tm_str_add(out, "The recording is truncated: its ring overflowed and the beginning is lost, with any peak in it. "
		   "Record again with a larger max_entries.");
	return 0;
}

static double is_inferred(const struct look *l, struct tm_str *out)
{
	int64_t n = tm_json_i64(l->c->recording, "inferred_blocks", 0);

	if (!n && strcmp(tm_json_str(l->c->recording, "confidence", ""), "inferred"))
		return -1;
	tm_str_add(out, "The recording began with memory in use");
	if (n)
		tm_str_addf(out, "; the sizes of %lld block%s that lived then are inferred, each up to 1 MiB uncertain", (long long)n, n == 1 ? "" : "s");
	tm_str_add(out, ". Start recording before the model is built.");
	return 0;
}

static double not_monotone(const struct look *l, struct tm_str *out)
{
	for (size_t i = 0; i < json_array_size(l->c->settings); i++) {
		if (!replay_has(l->c, i) || !json_is_false(json_object_get(l->c->results[i], "min_cap_monotone")))
			continue;
		replay_setting_text(l->c, i, out);
		tm_str_add(out, ": near its minimum cap a larger cap fails again; the figure is the smallest from which all that were tried complete.");
		return 0;
	}
	return -1;
}

/* ---- the table ------------------------------------------------------------------------ */

/* A rule returns the bytes it is about, 0 for none, negative where it has nothing to say. */
static const struct rule {
	const char *name;
	enum replay_remark_kind kind;
	bool without_history;
	double (*look)(const struct look *l, struct tm_str *out);
} rules[] = {
	{ "no-setting-helps", REPLAY_DO, false, no_setting_helps },
	{ "best-setting", REPLAY_DO, false, use_best },
	{ "lower-but-dear", REPLAY_DO, false, lower_but_dear },
	{ "neighbour", REPLAY_DO, false, neighbour },
	{ "ran-out", REPLAY_WHY, false, ran_out },
	{ "stranded", REPLAY_WHY, false, stranded },
	{ "by-stream", REPLAY_WHY, false, by_stream },
	{ "by-pool", REPLAY_WHY, false, by_pool },
	{ "rounding", REPLAY_WHY, false, rounding },
	{ "workspace", REPLAY_WHY, true, workspace_is_no_leak },
	{ "marks", REPLAY_WHY, true, marks },
	{ "harmful", REPLAY_OPTION, false, harmful },
	{ "expandable-and-split", REPLAY_OPTION, false, expandable_and_split },
	{ "collector", REPLAY_OPTION, false, collector_without_limit },
	{ "inert", REPLAY_OPTION, false, inert },
	{ "shares-tensors", REPLAY_CHECK, false, shares_tensors },
	{ "sleep-mode", REPLAY_CHECK, false, uses_sleep_mode },
	{ "speed", REPLAY_CHECK, false, calls_stop },
	{ "truncated", REPLAY_SURE, true, is_truncated },
	{ "inferred", REPLAY_SURE, false, is_inferred },
	{ "not-monotone", REPLAY_SURE, false, not_monotone },
	{ "version", REPLAY_SURE, false, rules_and_version },
};

const char *replay_remark_heading(enum replay_remark_kind kind)
{
	static const char *const names[] = { "What to do", "Why", "Options", "Check before", "How sure this is" };

	return names[kind];
}

/* Of equal amounts the order of the table stays: insertion is stable, and there are few. */
static void insert(struct replay_remarks *out, const struct replay_remark *r)
{
	size_t at = out->n;

	out->v = tm_xrealloc_n(out->v, out->n + 1, sizeof *out->v);
	while (at && (out->v[at - 1].kind > r->kind || (out->v[at - 1].kind == r->kind && out->v[at - 1].bytes < r->bytes)))
		at--;
	memmove(out->v + at + 1, out->v + at, (out->n - at) * sizeof *out->v);
	out->v[at] = *r;
	out->n++;
}

/* The moment of the peak is told of for the settings that were asked for in detail; the base's says most about today. */
static void find_moment(struct look *l)
{
	l->seen = l->base;
	if (l->base == REPLAY_NONE || !json_object_get(l->c->results[l->base], "at_peak"))
		for (size_t i = 0; i < json_array_size(l->c->settings); i++)
			if (replay_has(l->c, i) && json_object_get(l->c->results[i], "at_peak"))
				l->seen = i;
	if (l->seen != REPLAY_NONE)
		l->stranded = json_object_get(json_object_get(l->c->results[l->seen], "at_peak"), "stranded");
}

void replay_advice(const struct replay_case *c, struct replay_remarks *out)
{
	bool history = json_is_true(json_object_get(c->recording, "history"));
	struct look l = { .c = c, .limit = replay_limit(c), .base = replay_base(c), .best = replay_best(c) };

	*out = (struct replay_remarks){ 0 };
	find_moment(&l);
	for (size_t i = 0; i < TM_ARRAY_N(rules); i++) {
		struct tm_str text = TM_STR_INIT;
		double bytes;

		if (!rules[i].without_history && (!history || l.base == REPLAY_NONE))
			continue;
		bytes = rules[i].look(&l, &text);
		if (bytes >= 0) {
			struct replay_remark r = { rules[i].name, rules[i].kind, bytes, tm_str_detach(&text) };

			insert(out, &r);
		}
		tm_str_free(&text);
	}
}

void replay_remarks_free(struct replay_remarks *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i].text);
	free(r->v);
	*r = (struct replay_remarks){ 0 };
}
