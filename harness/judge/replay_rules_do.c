/* Rules about what to set, or that nothing helps. */
#include "judge/replay_rules.h"

#include "base/json.h"
#include "base/num.h"

#include <math.h>

static double whole(const struct look *l)
{
	return tm_json_real(l->c->recording, "rounded_peak", 0);
}

/* Arithmetic that no packing can beat: what lives at once, or one request, is more than there is. */
double rule_no_setting_helps(const struct look *l, struct tm_str *out)
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
		if (look_place(oom))
			tm_str_addf(out, " (%s)", look_place(oom));
	} else {
		tm_str_add(out, " It would take a smaller batch or length");
	}
	tm_str_add(out, ", checkpointing, or fused attention and a loss in chunks where its scores or logits are that large.");
	return over;
}

static void add_price(const struct look *l, size_t i, struct tm_str *out)
{
	double retries = look_real(l, i, "retries");

	tm_str_addf(out, "%.0f driver calls against %.0f", replay_calls(l->c, i), replay_calls(l->c, l->base));
	if (retries > 0)
		tm_str_addf(out, " and %.0f retries, each of which waits for the device and empties the cache", retries);
}

double rule_use_best(const struct look *l, struct tm_str *out)
{
	double need = replay_need(l->c, l->best), own = replay_need(l->c, l->base);
	bool capped = l->best != REPLAY_NONE && tm_json_real(json_array_get(l->c->settings, l->best), "cap", 0) > 0;
	bool known = l->best != REPLAY_NONE && json_is_number(json_object_get(l->c->results[l->best], "min_cap"));
	char a[32], b[32];

	if (l->best == REPLAY_NONE || l->best == l->base || (!look_conf(l, l->best) && look_conf(l, l->base) == NULL))
		return -1;
	if (!capped && !(need < own * (1 - REPLAY_EQUAL_SHARE)))
		return -1;
	tm_str_add(out, "Use ");
	replay_setting_text(l->c, l->best, out);
	if (capped)
		tm_str_addf(out, ": under %s the recording completes with it, reserving %s; ", tm_size_text(l->limit.bytes, a),
			    tm_size_text(look_real(l, l->best, "reserved_peak"), b));
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
	return capped || isnan(own) ? look_real(l, l->best, "reserved_peak") : own - need;
}

/* A setting that needs still less but asks the driver so often that it is not the best. */
double rule_lower_but_dear(const struct look *l, struct tm_str *out)
{
	size_t at = REPLAY_NONE;
	double least = replay_need(l->c, l->best == REPLAY_NONE ? l->base : l->best);
	char a[32], b[32];

	for (size_t i = 0; i < json_array_size(l->c->settings); i++)
		if (replay_is_dear(l->c, i) && replay_need(l->c, i) < least * (1 - REPLAY_WORTH_SHARE) &&
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
double rule_neighbour(const struct look *l, struct tm_str *out)
{
	const json_t *fail = l->base == REPLAY_NONE ? NULL : json_object_get(l->c->results[l->base], "first_failure"), *oom = replay_oom(l->c);
	double segment = tm_json_real(fail, "segment", 0), request = tm_json_real(fail, "request", tm_json_real(oom, "request", 0));
	double reserved = tm_json_real(oom, "reserved", look_real(l, l->base, "reserved_peak")), idle;
	char a[32], b[32], d[32];

	idle = reserved - tm_json_real(oom, "live", look_real(l, l->base, "active_peak"));
	if (!(l->c->outside_bytes > 0) || l->best != REPLAY_NONE || whole(l) + l->c->outside_bytes <= l->limit.bytes)
		return -1;
	tm_str_addf(out, "%s of the %s belong to others; of what this program reserved at most %s can be fragmentation.",
		    tm_size_text(l->c->outside_bytes, a), tm_size_text(l->c->total_bytes, b), tm_size_text(fmax(idle, 0), d));
	if (request > 0 && segment > request)
		tm_str_addf(out, " The %s that were refused are a segment; the request was %s.", tm_size_text(segment, a), tm_size_text(request, b));
	tm_str_add(out, " No option changes that: give each program its share (a cap, or the memory fraction), or move one of them to another card.");
	return l->c->outside_bytes;
}
