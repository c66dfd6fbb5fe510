/* Rules about why it ran out, where memory lies that cannot be used, and what is no leak. */
#include "judge/replay_rules.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <math.h>
#include <string.h>

#define PINNED_N 3                        /* frames named in a sentence */
#define HANDLES_N 2                       /* of cuBLAS a stream: the program's thread and autograd's */

/*
 * cuBLAS makes one workspace a handle and stream: 2 of 4 MiB and 8 of 16 KiB by
 * default, 32 MiB on cards since Hopper, as PyTorch asks for them.
 */
const char *replay_workspace(double requested_bytes, double blocks, double streams)
{
	static const struct { double bytes; bool common; const char *name; } known[] = {
		{ 8519680, false, "a cuBLAS workspace (2 x 4 MiB and 8 x 16 KiB)" },
		{ 33554432, true, "a cuBLAS workspace (32 MiB, as on Hopper)" },
	};

	for (size_t i = 0; i < TM_ARRAY_N(known); i++)
		if (requested_bytes == known[i].bytes && !(known[i].common && blocks > HANDLES_N * fmax(1, streams)))
			return known[i].name;
	return NULL;
}

const char *replay_owner(const json_t *group, double requested_bytes, double streams)
{
	const char *frame = look_place(group);

	return frame ? frame : replay_workspace(requested_bytes, tm_json_real(group, "blocks", 1), streams);
}

static double streams_of(const struct look *l)
{
	return tm_json_real(l->c->recording, "streams", 1);
}

double rule_ran_out(const struct look *l, struct tm_str *out)
{
	const json_t *oom = replay_oom(l->c);
	double request = tm_json_real(oom, "request", 0), live = tm_json_real(oom, "live", NAN), reserved = tm_json_real(oom, "reserved", NAN);
	char a[32], b[32], d[32];

	if (!oom)
		return -1;
	tm_str_addf(out, "The recording itself ran out at event %.0f, which asked for %s", tm_json_real(oom, "index", 0), tm_size_text(request, a));
	if (look_place(oom))
		tm_str_addf(out, " (%s)", look_place(oom));
	if (!isnan(live) && !isnan(reserved))
		tm_str_addf(out, " with %s live of %s reserved", tm_size_text(live, b), tm_size_text(reserved, d));
	if (tm_json_real(oom, "device_free", -1) >= 0)
		tm_str_addf(out, " and %s free on the device", tm_size_text(tm_json_real(oom, "device_free", 0), a));
	tm_str_addc(out, '.');
	return request;
}

double rule_stranded(const struct look *l, struct tm_str *out)
{
	double bytes = tm_json_real(l->stranded, "bytes", 0), reserved = look_real(l, l->seen, "reserved_peak");
	const json_t *list = json_object_get(l->stranded, "pinned"), *e;
	char a[32], b[32];
	size_t i, n = 0;

	if (!(bytes > REPLAY_WORTH_SHARE * reserved))
		return -1;
	tm_str_add(out, "With ");
	replay_setting_text(l->c, l->seen, out);
	if (l->limit.of == REPLAY_BY_CAP && !(tm_json_real(json_array_get(l->c->settings, l->seen), "cap", 0) > 0))
		tm_str_add(out, " and no cap");
	tm_str_addf(out, ", when most was reserved (%s), %s of it", tm_size_text(reserved, a), tm_size_text(bytes, b));
	look_add_share(out, bytes, reserved);
	tm_str_add(out, " were in no block that was in use");
	json_array_foreach((json_t *)list, i, e) {
		double blocks = fmax(1, tm_json_real(e, "blocks", 1));
		const char *workspace = replay_workspace(tm_json_real(e, "bytes", 0) / blocks, blocks, streams_of(l));

		if (n == PINNED_N || !(tm_json_real(e, "strands", 0) > 0))
			break;
		tm_str_addf(out, "%s %.0f block%s of %s in all ", n++ ? ";" : ". What keeps it there:", tm_json_real(e, "blocks", 0),
			    tm_json_real(e, "blocks", 0) == 1 ? "" : "s", tm_size_text(tm_json_real(e, "bytes", 0), a));
		tm_str_addf(out, "%s%s %s %s", look_place(e) ? "from " : "without a recorded frame", look_place(e) ? look_place(e) : "",
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

double rule_by_stream(const struct look *l, struct tm_str *out)
{
	const json_t *list = json_object_get(l->stranded, "by_stream"), *e;
	double side = 0, reserved = look_real(l, l->seen, "reserved_peak"), most;
	size_t n = 0, i, at = 0;
	char a[32], b[32];

	json_array_foreach((json_t *)list, i, e) {
		if (tm_json_i64(e, "stream", 0) == 0 || !(tm_json_real(e, "bytes", 0) > 0))
			continue;
		side += tm_json_real(e, "bytes", 0);
		n++;
	}
	most = largest_of(list, &at);
	if (!n || !(side > REPLAY_WORTH_SHARE * reserved))
		return -1;
	tm_str_addf(out, "Streams never share: %zu side stream%s keep%s %s cached that no other may use", n, n == 1 ? "" : "s", n == 1 ? "s" : "",
		    tm_size_text(side, a));
	if (tm_json_i64(json_array_get(list, at), "stream", 0) != 0 && n > 1)
		tm_str_addf(out, ", stream %lld alone %s", (long long)tm_json_i64(json_array_get(list, at), "stream", 0), tm_size_text(most, b));
	tm_str_add(out, ". Where a stream only copies or communicates, allocate its buffers on the main one and use record_stream, or keep one set of buffers.");
	return side;
}

double rule_by_pool(const struct look *l, struct tm_str *out)
{
	const json_t *list = json_object_get(l->stranded, "by_pool"), *e;
	double bytes = 0, reserved = look_real(l, l->seen, "reserved_peak");
	size_t n = 0, i;
	char a[32];

	json_array_foreach((json_t *)list, i, e) {
		if (replay_is_default_pool(json_object_get(e, "pool")) || !(tm_json_real(e, "bytes", 0) > 0))
			continue;
		bytes += tm_json_real(e, "bytes", 0);
		n++;
	}
	if (!n || !(bytes > REPLAY_WORTH_SHARE * reserved))
		return -1;
	tm_str_addf(out, "%zu private pool%s (CUDA graphs, MemPool) hold%s %s that are not in use; nothing outside may take them, and empty_cache "
		    "gives them back only after the graph or pool is gone. Graphs that do not run at the same time can share a pool.",
		    n, n == 1 ? "" : "s", n == 1 ? "s" : "", tm_size_text(bytes, a));
	return bytes;
}

double rule_rounding(const struct look *l, struct tm_str *out)
{
	double bytes = tm_json_real(l->stranded, "rounding", 0), reserved = look_real(l, l->seen, "reserved_peak");
	const char *conf = look_effective(l, l->seen);
	char a[32];

	if (!(bytes > REPLAY_WORTH_SHARE * reserved))
		return -1;
	tm_str_addf(out, "%s", tm_size_text(bytes, a));
	look_add_share(out, bytes, reserved);
	tm_str_add(out, " are rounding: blocks are larger than what was asked for");
	if (strstr(conf, "roundup_power2_divisions"))
		tm_str_add(out, ", by roundup_power2_divisions; more divisions round less");
	else
		tm_str_add(out, ", by up to 1 MiB each where the rest of a block is too small to be cut off");
	tm_str_addc(out, '.');
	return bytes;
}

/* How many of the list are as large as this one. */
static double count_of(const json_t *list, const json_t *one)
{
	const json_t *e;
	double n = 0;
	size_t i;

	json_array_foreach((json_t *)list, i, e)
		n += tm_json_real(e, "bytes", 0) == tm_json_real(one, "bytes", 0);
	return n;
}

/* Bytes that stay at the end and are no leak. */
double rule_workspace_is_no_leak(const struct look *l, struct tm_str *out)
{
	const json_t *list = json_object_get(json_object_get(l->c->recording, "state"), "largest"), *e;
	double bytes = 0, live = tm_json_real(json_object_get(l->c->recording, "state"), "allocated", 0);
	const char *name = NULL;
	size_t i, n = 0;
	char a[32], b[32];

	json_array_foreach((json_t *)list, i, e) {
		const char *is = replay_workspace(tm_json_real(e, "bytes", 0), count_of(list, e), streams_of(l));

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
		tm_str_addf(out, ", %zu of them: one for each thread and stream", n);
	tm_str_add(out, ". The library makes it once and keeps it: no leak.");
	return bytes;
}

/* Marks of the recorded program (`snapshot` events): the same each time, or more each time. */
double rule_marks(const struct look *l, struct tm_str *out)
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
