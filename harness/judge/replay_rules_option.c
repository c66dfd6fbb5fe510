/* Rules about options that change nothing, make it worse, or are never looked at. */
#include "judge/replay_rules.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <string.h>

#define WORSE_SHARE 0.02                  /* above the base: harmful */

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
		if (replay_has(l->c, i) && !*look_effective(l, i) && tm_json_real(json_array_get(l->c->settings, i), "cap", 0) == 0)
			return i;
	return REPLAY_NONE;
}

static void add_list(struct tm_str *list, const struct look *l, size_t i, size_t n)
{
	if (n < 6)
		tm_str_addf(list, "%s%s", n ? ", " : "", look_conf(l, i));
	else if (n == 6)
		tm_str_add(list, ", …");
}

double rule_inert(const struct look *l, struct tm_str *out)
{
	struct tm_str list = TM_STR_INIT;
	size_t ref = plain(l), n = 0;

	for (size_t i = 0; i < json_array_size(l->c->settings) && ref != REPLAY_NONE; i++) {
		if (i == ref || !replay_has(l->c, i) || !look_conf(l, i) || !*look_conf(l, i) || !same_figures(l, i, ref))
			continue;
		add_list(&list, l, i, n++);
	}
	if (n)
		tm_str_addf(out, "Changes nothing here, every figure is that of the defaults: %s.", list.s);
	tm_str_free(&list);
	return n ? 0 : -1;
}

/* garbage_collection_threshold is a share of a limit; without one it is never looked at. */
double rule_collector_without_limit(const struct look *l, struct tm_str *out)
{
	for (size_t i = 0; i < json_array_size(l->c->settings); i++) {
		if (!replay_has(l->c, i) || !strstr(look_effective(l, i), "garbage_collection_threshold") ||
		    tm_json_real(json_array_get(l->c->settings, i), "cap", 0) > 0 || strstr(look_effective(l, i), "per_process_memory_fraction"))
			continue;
		tm_str_add(out, "garbage_collection_threshold is inert: it is a share of a memory limit and none is set. Replay it with --cap; "
			   "in the program it needs torch.cuda.set_per_process_memory_fraction.");
		return 0;
	}
	return -1;
}

double rule_expandable_and_split(const struct look *l, struct tm_str *out)
{
	for (size_t i = 0; i < json_array_size(l->c->settings); i++) {
		const char *conf = replay_has(l->c, i) ? look_effective(l, i) : "";

		if (!look_is_expandable(conf) || !strstr(conf, "max_split_size_mb"))
			continue;
		tm_str_add(out, "max_split_size_mb together with expandable_segments hides freed memory that has grown beyond it from all smaller "
			   "requests, so that what is reserved can grow without end. Leave max_split_size_mb out.");
		return 0;
	}
	return -1;
}

double rule_harmful(const struct look *l, struct tm_str *out)
{
	size_t ref = plain(l), worst = REPLAY_NONE, n = 0;
	double most = 0, own;
	char a[32];

	ref = ref == REPLAY_NONE ? l->base : ref;
	own = replay_need(l->c, ref);
	for (size_t i = 0; i < json_array_size(l->c->settings); i++) {
		double more = replay_need(l->c, i) - own;

		if (i == ref || !replay_has(l->c, i) || !look_conf(l, i) || !(more > WORSE_SHARE * own))
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
