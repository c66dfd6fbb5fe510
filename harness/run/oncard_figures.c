/* What was seen of a card, as figures, flags and remarks. */
#include "oncard.h"

#include "card/users.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/stat.h"
#include "spec/card.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the highest clock: below it something holds the card down, whether it says so or not. */
#define SLOW_SHARE 0.75

/* ---- values --------------------------------------------------------------------- */

static bool has(const struct figures *f, const char *metric)
{
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(f->values[i].metric, metric))
			return true;
	return false;
}

static double value_of(const struct figures *f, const char *metric)
{
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(f->values[i].metric, metric))
			return f->values[i].v;
	return NAN;
}

/* What the worker reported itself stands. */
static void add(struct figures *f, const char *metric, double v, size_t n)
{
	if (isfinite(v) && v >= 0 && !has(f, metric))
		figures_add(f, (struct store_value){ .metric = metric, .v = v, .n = (int64_t)n });
}

/* Those that are known, to be freed. */
static double *known(const double *v, size_t n, size_t *out_n)
{
	double *out = tm_xcalloc(n + 1, sizeof *out);

	*out_n = 0;
	for (size_t i = 0; i < n; i++)
		if (!isnan(v[i]))
			out[(*out_n)++] = v[i];
	return out;
}

static void add_clock(struct figures *f, const struct sampled *s)
{
	size_t n;
	double *v = known(s->v[SAMPLED_SM], s->n, &n);

	if (n && !has(f, "clock.sm"))
		figures_add(f, (struct store_value){ .metric = "clock.sm", .v = tm_median(v, n), .n = (int64_t)n,
						     .has_mad = n > 1, .mad = n > 1 ? tm_mad(v, n) : 0 });
	free(v);
}

/* From the energy counter where there is one: it misses nothing between two readings. */
static void add_power(struct figures *f, const struct sampled *s)
{
	double mean = 0, *v;
	size_t n;

	v = known(s->v[SAMPLED_POWER], s->n, &n);
	for (size_t i = 0; i < n; i++)
		mean += v[i] / (double)n;
	free(v);
	if (isfinite(s->joules) && s->window_s > 0)
		add(f, "power", s->joules / s->window_s, n ? n : 1);
	else if (n)
		add(f, "power", mean, n);
}

static void add_temperature(struct figures *f, const struct sampled *s)
{
	double highest = NAN, *v;
	size_t n;

	v = known(s->v[SAMPLED_TEMPERATURE], s->n, &n);
	for (size_t i = 0; i < n; i++)
		highest = fmax(highest, v[i]);
	add(f, "temperature", highest, n);
	free(v);
}

/* Tokens of steps that were skipped cost energy and are no work: as in throughput.tokens. */
static double tokens_of_window(const struct collect *c)
{
	size_t first = (size_t)tm_json_i64(c->result, "first", 0);
	double tokens = 0;

	for (size_t i = first; i < c->steps.n; i++)
		tokens += c->steps.skipped[i] ? 0 : (double)c->steps.tokens[i];
	return tokens;
}

static void add_energy(struct figures *f, const struct sampled *s, const struct collect *c)
{
	double tokens = tokens_of_window(c);

	if (tokens > 0)
		add(f, "energy.token", s->joules / tokens, 1);
}

/* ---- share of the card's peak ------------------------------------------------------- */

static const char *rate_of(const char *precision)
{
	return !strcmp(precision, "bf16-pure") ? "bf16" : precision;
}

/* FLOP/s; NaN with the reason in *why. */
static double peak_rate(const struct card *card, const char *precision, struct tm_str *why)
{
	json_t *file;
	double rate;

	if (card->mig) {
		tm_str_add(why, "the card is in MIG mode, and a share of its peak is not known");
		return NAN;
	}
	if (card_by_product(card->name, &file)) {
		tm_str_addf(why, "no file of configs/devices has '%s' among its names", card->name);
		return NAN;
	}
	rate = tm_json_real(json_object_get(file, "rates"), rate_of(precision), NAN);
	json_decref(file);
	return rate;
}

/* From the begin of the first counted step to the end of the last, or the sum of their times. */
static double window_s(const struct collect *c, size_t first)
{
	double us = 0;

	for (size_t i = first; i < c->steps.n; i++)
		us += (double)c->steps.us[i];
	return fmax(us, (double)c->window_us) * 1e-6;
}

static void add_utilisation(struct figures *f, const struct oncard *o, const struct oncard_run *r, const json_t *params, struct collect *c)
{
	const char *precision = tm_json_str(params, "precision", NULL);
	size_t first = (size_t)tm_json_i64(c->result, "first", 0);
	double model = value_of(f, "flops.model"), done = value_of(f, "flops.done"), peak, each;
	struct tm_str why = TM_STR_INIT, note = TM_STR_INIT;

	if (!precision || (isnan(model) && isnan(done)) || first >= c->steps.n)
		return;
	peak = peak_rate(&o->cards.v[r->at.card], precision, &why);
	each = window_s(c, first) / (double)(c->steps.n - first);
	if (isfinite(peak) && each > 0) {
		add(f, "util.mfu", model / each / peak, c->steps.n - first);
		add(f, "util.hfu", done / each / peak, c->steps.n - first);
	} else if (why.n) {
		tm_str_addf(&note, "no util.mfu and util.hfu: %s", why.s);
		collect_note(c, note.s);
	}
	tm_str_free(&why);
	tm_str_free(&note);
}

/* ---- flags -------------------------------------------------------------------------- */

/*
 * Slowed down by heat, a brake or a fault; or far below the highest clock with
 * none of the reasons for which a card runs so night after night: the power
 * cap, clocks that somebody set, and nothing to do.
 */
static bool throttled(const struct card *card, const struct figures *f, const struct sampled *s)
{
	double clock = value_of(f, "clock.sm");

	if (s->slowed)
		return true;
	return card->sm_mhz_max && clock < SLOW_SHARE * card->sm_mhz_max &&
	       !(s->reasons & (NVML_REASON_POWER_CAP | NVML_REASON_SETTING | NVML_REASON_IDLE));
}

static void say_throttled(const struct sampled *s, struct collect *c)
{
	struct tm_str text = TM_STR_INIT, reasons = TM_STR_INIT;

	card_reasons_text(s->reasons & CARD_SLOWED, &reasons);
	if (s->slowed)
		tm_str_addf(&text, "the card was slowed down in %llu of %llu readings: %s", (unsigned long long)s->slowed,
			    (unsigned long long)s->taken, reasons.s);
	else
		tm_str_add(&text, "the card's clock was below three quarters of its highest, for no reason that it gives");
	collect_warn(c, text.s);
	tm_str_free(&text);
	tm_str_free(&reasons);
}

static void say(struct collect *c, const char *what, const char *detail)
{
	struct tm_str text = TM_STR_INIT;

	if (*detail) {
		tm_str_addf(&text, "%s%s", what, detail);
		collect_warn(c, text.s);
	}
	tm_str_free(&text);
}

/* What a run that is not ok shows too. */
static void flag_always(const struct oncard *o, const struct oncard_run *r, struct collect *c, struct outcome *out)
{
	say(c, "others were on the card when the run began: ", r->busy);
	say(c, "others were on the card during the run: ", r->sampled.others);
	say(c, "", r->leak);
	say(c, "", r->moved);
	out->flags |= *r->busy || *r->sampled.others ? FLAG_BUSY : 0;
	out->flags |= *r->leak ? FLAG_LEAK : 0;
	if (r->sampled.lost)
		say(c, "", "NVML did not answer within 2 s: nothing is known of the card, and it is not asked again");
	else if (!r->watched)
		say(c, "nothing is known of the card: ", o->lost ? "NVML does not answer" : o->cards.why);
	if (!r->watched || r->sampled.lost)
		out->flags |= FLAG_BLIND;
}

int oncard_figures(struct oncard *o, const struct oncard_run *r, const json_t *params, struct collect *c, struct outcome *out,
		   struct tm_err *err)
{
	const struct sampled *s = &r->sampled;
	struct figures *f = &out->figures;
	bool slow;

	if (!r->cuda)
		return 0;
	flag_always(o, r, c, out);
	if (!r->watched || s->lost || strcmp(out->status, "ok"))
		return 0;
	add(f, "mem.device.peak", s->run_bytes_max ? (double)s->run_bytes_max : NAN, 1);
	add_utilisation(f, o, r, params, c);
	add(f, "util.sm", s->activity.sm, 1);
	add(f, "util.tensor", s->activity.tensor, 1);
	add(f, "util.dram", s->activity.dram, 1);
	add_clock(f, s);
	add_power(f, s);
	add_temperature(f, s);
	add_energy(f, s, c);
	out->flags |= has(f, "clock.sm") ? 0 : FLAG_BLIND;
	slow = throttled(&o->cards.v[r->at.card], f, s);
	if (!slow)
		return 0;
	out->flags |= FLAG_THROTTLED;
	say_throttled(s, c);
	return o->policy.throttle == ONCARD_FAIL ?
	       tm_fail(err, TM_EENV, "the card was throttled, and the spec says `on_throttle: fail`") : 0;
}

/* ---- samples --------------------------------------------------------------------------- */

size_t oncard_series(const struct oncard_run *r, struct store_series out[ONCARD_SERIES_MAX])
{
	static const char *const names[SAMPLED_N] = {
		[SAMPLED_SM] = "clock.sm", [SAMPLED_MEM] = "clock.mem", [SAMPLED_POWER] = "power", [SAMPLED_TEMPERATURE] = "temperature",
	};
	const struct sampled *s = &r->sampled;
	size_t n = 0, known_n;

	if (!s->n)
		return 0;
	out[n++] = (struct store_series){ .metric = "card.time", .i64 = s->us, .n = s->n };
	for (int k = 0; k < SAMPLED_N; k++) {
		free(known(s->v[k], s->n, &known_n));
		if (known_n)
			out[n++] = (struct store_series){ .metric = names[k], .f64 = s->v[k], .n = s->n };
	}
	return n;
}
