#include "judge/replay_case.h"

#include "base/json.h"
#include "base/num.h"

#include <math.h>
#include <string.h>

const json_t *replay_oom(const struct replay_case *c)
{
	return json_array_get(json_object_get(c->recording, "ooms"), 0);
}

/* What the recorded program had when it ran out: all that was reserved, and what the driver called free. */
static double recorded_limit(const struct replay_case *c)
{
	const json_t *oom = replay_oom(c);
	double reserved = tm_json_real(oom, "reserved", NAN), left = tm_json_real(oom, "device_free", NAN);

	return reserved > 0 && left >= 0 ? reserved + left : NAN;
}

struct replay_limit replay_limit(const struct replay_case *c)
{
	struct replay_limit limit = { 0, REPLAY_NO_LIMIT };
	double recorded = recorded_limit(c);

	if (c->cap_bytes > 0)
		limit = (struct replay_limit){ c->cap_bytes, REPLAY_BY_CAP };
	if (c->total_bytes > 0 && (!limit.of || c->total_bytes - c->outside_bytes < limit.bytes))
		limit = (struct replay_limit){ c->total_bytes - c->outside_bytes, REPLAY_BY_DEVICE };
	/* somebody who names a cap asks about another place than that of the recording */
	if (limit.of != REPLAY_BY_CAP && !isnan(recorded) && (!limit.of || recorded < limit.bytes))
		limit = (struct replay_limit){ recorded, REPLAY_BY_RECORDING };
	return limit;
}

bool replay_has(const struct replay_case *c, size_t i)
{
	return i < json_array_size(c->settings) && c->results && c->results[i] &&
	       !json_object_get(c->results[i], "refused");
}

static double setting_cap(const struct replay_case *c, size_t i)
{
	return tm_json_real(json_array_get(c->settings, i), "cap", 0);
}

double replay_need(const struct replay_case *c, size_t i)
{
	const json_t *r = replay_has(c, i) ? c->results[i] : NULL;

	if (tm_json_real(r, "min_cap", 0) > 0)
		return tm_json_real(r, "min_cap", 0);
	/* with min_cap 0 in the answer none was found */
	if (json_object_get(r, "min_cap") && json_is_number(json_object_get(r, "min_cap")))
		return NAN;
	return json_is_true(json_object_get(r, "completes")) ? tm_json_real(r, "reserved_peak", NAN) : NAN;
}

double replay_calls(const struct replay_case *c, size_t i)
{
	const json_t *r = replay_has(c, i) ? c->results[i] : NULL;

	return tm_json_real(r, "device_allocs", 0) + tm_json_real(r, "device_frees", 0);
}

int replay_fits(const struct replay_case *c, size_t i, double limit_bytes)
{
	double need = replay_need(c, i);

	if (!replay_has(c, i))
		return -1;
	if (setting_cap(c, i) == limit_bytes)
		return json_is_true(json_object_get(c->results[i], "completes"));
	if (setting_cap(c, i) > 0)
		return -1;
	if (need <= limit_bytes)
		return 1;
	/* what is reserved without a cap is no lower bound of what is needed */
	return tm_json_real(c->results[i], "min_cap", 0) > 0 ? 0 : -1;
}

static bool is_own(const struct replay_case *c, size_t i)
{
	const json_t *setting = json_array_get(c->settings, i);

	return json_is_null(json_object_get(setting, "conf")) || !json_object_get(setting, "conf");
}

size_t replay_base(const struct replay_case *c)
{
	size_t base = REPLAY_NONE;
	int best = 0;

	for (size_t i = 0; i < json_array_size(c->settings); i++) {
		int rank = 1 + (setting_cap(c, i) == 0 ? 1 : 0) + (is_own(c, i) && setting_cap(c, i) == 0 ? 1 : 0);

		if (replay_has(c, i) && rank > best) {
			best = rank;
			base = i;
		}
	}
	return base;
}

bool replay_is_dear(const struct replay_case *c, size_t i)
{
	size_t base = replay_base(c);

	return base != REPLAY_NONE && replay_calls(c, i) > REPLAY_CALLS_FACTOR * replay_calls(c, base) + REPLAY_CALLS_FREE;
}

/* A candidate against the best so far; needs within REPLAY_EQUAL_SHARE are equal, and the earlier stays. */
static bool better(const struct replay_case *c, size_t i, size_t best)
{
	bool dear = replay_is_dear(c, i), best_dear = replay_is_dear(c, best);
	double need = replay_need(c, i), best_need = replay_need(c, best);

	if (dear != best_dear)
		return best_dear;
	if (dear)
		return replay_calls(c, i) < replay_calls(c, best);
	if (isnan(need) || isnan(best_need))
		return isnan(best_need) && !isnan(need);
	return need < best_need * (1 - REPLAY_EQUAL_SHARE);
}

size_t replay_best(const struct replay_case *c)
{
	struct replay_limit limit = replay_limit(c);
	size_t best = REPLAY_NONE;

	for (size_t i = 0; i < json_array_size(c->settings); i++) {
		if (!replay_has(c, i) || (limit.of ? replay_fits(c, i, limit.bytes) <= 0 : isnan(replay_need(c, i))))
			continue;
		if (best == REPLAY_NONE || better(c, i, best))
			best = i;
	}
	return best;
}

bool replay_is_default_pool(const json_t *pool)
{
	return json_integer_value(json_array_get(pool, 0)) == 0 && json_integer_value(json_array_get(pool, 1)) == 0;
}

void replay_setting_text(const struct replay_case *c, size_t i, struct tm_str *out)
{
	const json_t *setting = json_array_get(c->settings, i);
	const char *conf = tm_json_str(setting, "conf", NULL);

	if (strcmp(tm_json_str(setting, "policy", "caching"), "caching"))
		tm_str_add(out, tm_json_str(setting, "policy", ""));
	else if (is_own(c, i))
		tm_str_add(out, "its own settings");
	else
		tm_str_add(out, *conf ? conf : "the defaults");
}

/* ---- the sentence ----------------------------------------------------------- */

static const char *limit_words(const struct replay_case *c, const struct replay_limit *limit)
{
	if (limit->of == REPLAY_BY_RECORDING)
		return " that there were";
	return limit->of == REPLAY_BY_DEVICE && c->outside_bytes > 0 ? " that others leave" : "";
}

static double real(const struct replay_case *c, size_t i, const char *key)
{
	return replay_has(c, i) ? tm_json_real(c->results[i], key, NAN) : NAN;
}

static void add_state(const struct replay_case *c, struct tm_str *out)
{
	const json_t *s = json_object_get(c->recording, "state");
	double live = tm_json_real(s, "allocated", 0), pending = tm_json_real(s, "pending", 0), cached = tm_json_real(s, "cached", 0);
	char a[32], b[32], d[32];

	tm_str_addf(out, "no history, so nothing can be replayed: %s reserved, %s live, %s cached",
		    tm_size_text(live + pending + cached, a), tm_size_text(live + pending, b), tm_size_text(cached, d));
}

/* "reserves 12.4 GiB to hold 9.10 GiB" */
static void add_reserves(const struct replay_case *c, size_t base, struct tm_str *out)
{
	char a[32], b[32];

	tm_str_addf(out, "reserves %s to hold %s", tm_size_text(real(c, base, "reserved_peak"), a),
		    tm_size_text(real(c, base, "requested_peak"), b));
}

static void add_free(const struct replay_case *c, size_t base, size_t best, struct tm_str *out)
{
	double need = replay_need(c, best), own = replay_need(c, base);
	bool known = json_is_number(json_object_get(c->results[best], "min_cap"));
	char a[32];

	add_reserves(c, base, out);
	if (isnan(own) && !(need > 0)) {
		tm_str_add(out, "; runs out even without a cap");
		return;
	}
	if (best == base || need >= own * (1 - REPLAY_EQUAL_SHARE)) {
		if (known)
			tm_str_addf(out, "; fits in %s", tm_size_text(own, a));
		if (json_array_size(c->settings) > 1)
			tm_str_add(out, known ? ", and no setting tried needs less" : "; no setting tried reserves less");
		return;
	}
	tm_str_addf(out, known ? "; fits in %s with " : "; reserves %s with ", tm_size_text(need, a));
	replay_setting_text(c, best, out);
}

static void add_limited(const struct replay_case *c, const struct replay_limit *limit, size_t base, size_t best, struct tm_str *out)
{
	int own = base == REPLAY_NONE ? -1 : replay_fits(c, base, limit->bytes);
	char a[32], b[32];

	/* the same settings under the cap itself may stand in another row */
	for (size_t i = 0; i < json_array_size(c->settings) && own < 0; i++)
		if (is_own(c, i))
			own = replay_fits(c, i, limit->bytes);
	if (own == 1) {
		add_reserves(c, base, out);
		tm_str_addf(out, "; fits in the %s%s", tm_size_text(limit->bytes, a), limit_words(c, limit));
		if (best != REPLAY_NONE && best != base && replay_need(c, best) < replay_need(c, base) * (1 - REPLAY_EQUAL_SHARE)) {
			tm_str_addf(out, ", and in %s with ", tm_size_text(replay_need(c, best), b));
			replay_setting_text(c, best, out);
		}
		return;
	}
	if (own == 0)
		tm_str_addf(out, "runs out under %s%s with its own settings; fits with ", tm_size_text(limit->bytes, a), limit_words(c, limit));
	else
		tm_str_addf(out, "fits in the %s%s with ", tm_size_text(limit->bytes, a), limit_words(c, limit));
	replay_setting_text(c, best, out);
	if (replay_is_dear(c, best))
		tm_str_addf(out, ", at %.0f driver calls", replay_calls(c, best));
}

static void add_nothing_fits(const struct replay_case *c, const struct replay_limit *limit, struct tm_str *out)
{
	double least = NAN, live = tm_json_real(c->recording, "rounded_peak", 0);
	size_t n = 0, at = REPLAY_NONE;
	char a[32], b[32];

	for (size_t i = 0; i < json_array_size(c->settings); i++) {
		double need = replay_need(c, i);

		n += replay_has(c, i);
		if (!isnan(need) && !(need >= least)) {
			least = need;
			at = i;
		}
	}
	if (live > limit->bytes) {
		tm_str_addf(out, "no allocator setting helps: short by %s of the %s that live at once",
			    tm_size_text(live - limit->bytes, a), tm_size_text(live, b));
		return;
	}
	tm_str_addf(out, "runs out under %s%s with %s", tm_size_text(limit->bytes, a), limit_words(c, limit),
		    n == 1 ? "the setting tried" : "every setting tried");
	if (at != REPLAY_NONE) {
		tm_str_addf(out, "; %s would be enough with ", tm_size_text(least, b));
		replay_setting_text(c, at, out);
	}
}

static bool is_exact(const struct replay_case *c, size_t i)
{
	return i != REPLAY_NONE && json_is_number(json_object_get(c->results[i], "exact_address_share"));
}

void replay_headline(const struct replay_case *c, struct tm_str *out)
{
	struct replay_limit limit = replay_limit(c);
	size_t base = replay_base(c), best = replay_best(c);

	if (!json_is_true(json_object_get(c->recording, "history"))) {
		add_state(c, out);
	} else if (base == REPLAY_NONE) {
		tm_str_add(out, "nothing was replayed: every option string was refused");
	} else if (is_exact(c, base)) {
		add_reserves(c, base, out);
		tm_str_addf(out, "; %.6g %% of the addresses", 100 * real(c, base, "exact_address_share"));
		if (isfinite(real(c, base, "exact_segment_share")))
			tm_str_addf(out, " and %.6g %% of the segment events", 100 * real(c, base, "exact_segment_share"));
		tm_str_add(out, " are as recorded");
	} else if (limit.of && best == REPLAY_NONE) {
		add_nothing_fits(c, &limit, out);
	} else if (limit.of) {
		add_limited(c, &limit, base, best, out);
	} else {
		add_free(c, base, best == REPLAY_NONE ? base : best, out);
	}
}
