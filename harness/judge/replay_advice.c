#include "judge/replay_advice.h"

#include "base/json.h"
#include "base/mem.h"
#include "judge/replay_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double look_real(const struct look *l, size_t i, const char *key)
{
	return i == REPLAY_NONE ? NAN : tm_json_real(l->c->results[i], key, NAN);
}

const char *look_conf(const struct look *l, size_t i)
{
	return tm_json_str(json_array_get(l->c->settings, i), "conf", NULL);
}

const char *look_effective(const struct look *l, size_t i)
{
	const char *asked = look_conf(l, i);

	if (i == REPLAY_NONE)
		return "";
	/* as it was read: people's own strings may have blanks, and keys twice */
	return tm_json_str(l->c->results[i], "effective", asked ? asked : tm_json_str(l->c->results[i], "conf", ""));
}

bool look_is_expandable(const char *conf)
{
	return strstr(conf, "expandable_segments:True") != NULL;
}

const char *look_place(const json_t *entry)
{
	return tm_json_str(entry, "frame", NULL);
}

void look_add_share(struct tm_str *out, double part, double of)
{
	if (of > 0)
		tm_str_addf(out, " (%.2g %%)", 100 * part / of);
}

/* ---- the table ------------------------------------------------------------------------ */

static const struct rule {
	const char *name;
	enum replay_remark_kind kind;
	bool without_history;
	double (*look)(const struct look *l, struct tm_str *out);
} rules[] = {
	{ "no-setting-helps", REPLAY_DO, false, rule_no_setting_helps },
	{ "best-setting", REPLAY_DO, false, rule_use_best },
	{ "lower-but-dear", REPLAY_DO, false, rule_lower_but_dear },
	{ "neighbour", REPLAY_DO, false, rule_neighbour },
	{ "ran-out", REPLAY_WHY, false, rule_ran_out },
	{ "stranded", REPLAY_WHY, false, rule_stranded },
	{ "by-stream", REPLAY_WHY, false, rule_by_stream },
	{ "by-pool", REPLAY_WHY, false, rule_by_pool },
	{ "rounding", REPLAY_WHY, false, rule_rounding },
	{ "workspace", REPLAY_WHY, true, rule_workspace_is_no_leak },
	{ "marks", REPLAY_WHY, true, rule_marks },
	{ "harmful", REPLAY_OPTION, false, rule_harmful },
	{ "expandable-and-split", REPLAY_OPTION, false, rule_expandable_and_split },
	{ "collector", REPLAY_OPTION, false, rule_collector_without_limit },
	{ "inert", REPLAY_OPTION, false, rule_inert },
	{ "shares-tensors", REPLAY_CHECK, false, rule_shares_tensors },
	{ "sleep-mode", REPLAY_CHECK, false, rule_uses_sleep_mode },
	{ "speed", REPLAY_CHECK, false, rule_calls_stop },
	{ "truncated", REPLAY_SURE, true, rule_is_truncated },
	{ "inferred", REPLAY_SURE, false, rule_is_inferred },
	{ "not-monotone", REPLAY_SURE, false, rule_not_monotone },
	{ "version", REPLAY_SURE, false, rule_rules_and_version },
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
