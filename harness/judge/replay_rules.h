/*
 * Private to the advice over replays: what a rule looks at, and the rules. A
 * rule adds its sentence and returns the bytes it is about, 0 where it is about
 * no amount; negative: it has nothing to say.
 */
#ifndef TM_JUDGE_REPLAY_RULES_H
#define TM_JUDGE_REPLAY_RULES_H

#include "judge/replay_advice.h"

#define REPLAY_WORTH_SHARE 0.02           /* of what is reserved: less is not worth a sentence */

struct look {
	const struct replay_case *c;
	struct replay_limit limit;
	size_t base, best, seen;          /* seen: the setting whose moment of the peak is told of */
	const json_t *stranded;           /* of it; NULL */
};

/* A number of the result of setting i; NaN. */
double look_real(const struct look *l, size_t i, const char *key);
/* The option string asked for; NULL: as recorded. */
const char *look_conf(const struct look *l, size_t i);
/* What the policy was really given, also where the recording's own settings were asked for. */
const char *look_effective(const struct look *l, size_t i);
bool look_is_expandable(const char *conf);
/* The frame of an entry of the worker's lists; NULL. */
const char *look_place(const json_t *entry);
/* " (12 %)" */
void look_add_share(struct tm_str *out, double part, double of);

/* replay_rules_do.c */
double rule_no_setting_helps(const struct look *l, struct tm_str *out);
double rule_use_best(const struct look *l, struct tm_str *out);
double rule_lower_but_dear(const struct look *l, struct tm_str *out);
double rule_neighbour(const struct look *l, struct tm_str *out);

/* replay_rules_why.c */
double rule_ran_out(const struct look *l, struct tm_str *out);
double rule_stranded(const struct look *l, struct tm_str *out);
double rule_by_stream(const struct look *l, struct tm_str *out);
double rule_by_pool(const struct look *l, struct tm_str *out);
double rule_rounding(const struct look *l, struct tm_str *out);
double rule_workspace_is_no_leak(const struct look *l, struct tm_str *out);
double rule_marks(const struct look *l, struct tm_str *out);

/* replay_rules_option.c */
double rule_inert(const struct look *l, struct tm_str *out);
double rule_collector_without_limit(const struct look *l, struct tm_str *out);
double rule_expandable_and_split(const struct look *l, struct tm_str *out);
double rule_harmful(const struct look *l, struct tm_str *out);

/* replay_rules_sure.c */
double rule_shares_tensors(const struct look *l, struct tm_str *out);
double rule_uses_sleep_mode(const struct look *l, struct tm_str *out);
double rule_calls_stop(const struct look *l, struct tm_str *out);
double rule_rules_and_version(const struct look *l, struct tm_str *out);
double rule_is_truncated(const struct look *l, struct tm_str *out);
double rule_is_inferred(const struct look *l, struct tm_str *out);
double rule_not_monotone(const struct look *l, struct tm_str *out);

#endif
