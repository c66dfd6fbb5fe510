#include "oncard.h"

#include "card/users.h"
#include "card/visible.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 200
#define WAIT_US 60000000
/* A driver gives memory back within milliseconds; a second look costs nothing where it does. */
#define BACK_US 2000000
#define BACK_BYTES (64ull << 20)
/* In use with nobody to be seen: of a process behind the wall of a container, or of one that died badly. */
#define UNSEEN_BYTES (256ull << 20)

/* ---- the spec's section ---------------------------------------------------------- */

static enum oncard_action action(const json_t *card, const char *key, enum oncard_action def)
{
	static const char *const names[] = { [ONCARD_FLAG] = "flag", [ONCARD_WAIT] = "wait", [ONCARD_FAIL] = "fail" };
	const char *word = tm_json_str(card, key, "");

	for (size_t i = 0; i < TM_ARRAY_N(names); i++)
		if (!strcmp(names[i], word))
			return (enum oncard_action)i;
	return def;
}

void oncard_init(struct oncard *o, const json_t *spec_card, struct signals *signals)
{
	memset(o, 0, sizeof *o);
	o->signals = signals;
	o->policy = (struct oncard_policy){
		.wait_us = WAIT_US, .busy = action(spec_card, "on_busy", ONCARD_WAIT),
		.throttle = action(spec_card, "on_throttle", ONCARD_FLAG),
	};
	tm_parse_duration(tm_json_str(spec_card, "wait_idle", ""), &o->policy.wait_us);
}

void oncard_fini(struct oncard *o)
{
	for (size_t i = 0; i < o->lock_n; i++)
		card_lock_drop(&o->lock[i]);
	if (o->read && !o->lost)
		cards_free(&o->cards);
	memset(o, 0, sizeof *o);
}

static bool is_cuda(const char *device)
{
	return !strncmp(device, "cuda", 4) && (!device[4] || device[4] == ':');
}

/* ---- waiting ------------------------------------------------------------------------ */

static bool stopped(const struct oncard *o)
{
	return o->signals && o->signals->first;
}

static void pause_waiting(struct oncard *o)
{
	struct pollfd fd = { .fd = o->signals ? o->signals->fd : -1, .events = POLLIN };

	poll(&fd, 1, LOOK_MS);
	if (o->signals)
		signals_read(o->signals);
	if (o->tick)
		o->tick(o->arg);
}

static void say_waiting(struct oncard *o, const char *device, const char *why)
{
	struct tm_str line = TM_STR_INIT;
	char text[32];

	tm_str_addf(&line, "waiting up to %s for %s: %s", tm_duration_exact(o->policy.wait_us, text), device, why);
	if (o->say)
		o->say(o->arg, line.s);
	tm_str_free(&line);
}

/*
 * Asks `free` until it holds, for as long as the policy waits. `why` is what
 * it said last; false: it did not come to hold, or somebody stopped us.
 */
static bool wait_for(struct oncard *o, struct oncard_run *r, const char *device, int64_t wait_us,
		     bool (*is_free)(struct oncard *, struct oncard_run *, char why[256]), char why[256])
{
	int64_t until_us = tm_mono_us() + wait_us;
	bool said = false;

	while (!is_free(o, r, why)) {
		if (stopped(o) || tm_mono_us() >= until_us)
			return false;
		if (!said)
			say_waiting(o, device, why);
		said = true;
		pause_waiting(o);
	}
	return true;
}

/* ---- before --------------------------------------------------------------------------- */

static bool is_locked(const struct oncard *o, struct card_place at)
{
	for (size_t i = 0; i < o->lock_n; i++)
		if (o->locked[i].card == at.card && o->locked[i].instance == at.instance)
			return true;
	return false;
}

/* Kept to the end of the sweep, so that nobody comes between two of its runs. */
static int lock(struct oncard *o, struct oncard_run *r, const char *device, struct tm_err *err)
{
	int64_t until_us = tm_mono_us() + (o->policy.busy == ONCARD_FAIL ? 0 : o->policy.wait_us);
	struct card_lock *l = &o->lock[o->lock_n];
	char who[128], why[192];
	bool held = false, said = false;
	int rc;

	if (is_locked(o, r->at))
		return 0;
	if (o->lock_n == ONCARD_LOCKS_MAX)
		return tm_fail(err, TM_EENV, "device %.40s: more than %d cards in one sweep", device, ONCARD_LOCKS_MAX);
	while (!(rc = card_lock_try(l, card_place_uuid(&o->cards, r->at), &held, who, err)) && !held) {
		if (stopped(o))
			return 0;
		if (tm_mono_us() >= until_us)
			return tm_fail(err, TM_EENV, "device %.40s: %s measures on this card (lock %s); wait for it, or give `card: {wait_idle: …}` "
				       "a longer time", device, who, l->path);
		snprintf(why, sizeof why, "%s measures on it", who);
		if (!said)
			say_waiting(o, device, why);
		said = true;
		pause_waiting(o);
	}
	if (!rc)
		o->locked[o->lock_n++] = r->at;
	return rc;
}

static bool nobody_on_it(struct oncard *o, struct oncard_run *r, char why[256])
{
	nvml_handle place = card_place_handle(&o->cards, r->at);
	struct card_user v[CARD_USERS_MAX];
	struct tm_str text = TM_STR_INIT;
	struct nvml_memory memory;
	char size[32];
	size_t n = 0;

	why[0] = '\0';
	card_users_read(o->cards.nvml, place, v, &n);
	if (n)
		card_users_text(v, n, &text);
	else if (nvml_memory(o->cards.nvml, place, &memory) && memory.exact && memory.used > UNSEEN_BYTES)
		tm_str_addf(&text, "somebody who cannot be seen from here, with %s", tm_size_text((double)memory.used, size));
	snprintf(why, 256, "%.250s", text.s);
	tm_str_free(&text);
	return !why[0];
}

static bool not_slowed(struct oncard *o, struct oncard_run *r, char why[256])
{
	uint64_t reasons = 0;
	struct tm_str text = TM_STR_INIT;

	nvml_reasons(o->cards.nvml, o->cards.v[r->at.card].handle, &reasons);
	card_reasons_text(reasons & CARD_SLOWED, &text);
	snprintf(why, 256, "%.250s", text.s);
	tm_str_free(&text);
	return !(reasons & CARD_SLOWED);
}

static int make_free(struct oncard *o, struct oncard_run *r, const char *device, struct tm_err *err)
{
	bool at_once = o->policy.busy == ONCARD_FAIL || (o->policy.busy == ONCARD_FLAG && o->waited_in_vain);
	char why[256], text[32];

	if (wait_for(o, r, device, at_once ? 0 : o->policy.wait_us, nobody_on_it, why) || stopped(o))
		return 0;
	o->waited_in_vain = true;
	if (o->policy.busy == ONCARD_FLAG) {
		snprintf(r->busy, sizeof r->busy, "%s", why);
		return 0;
	}
	if (at_once)
		return tm_fail(err, TM_EENV, "device %.40s is busy: %s", device, why);
	return tm_fail(err, TM_EENV, "device %.40s is still busy after %s: %s; `card: {on_busy: flag}` measures beside it and flags the runs",
		       device, tm_duration_exact(o->policy.wait_us, text), why);
}

int oncard_before(struct oncard *o, struct oncard_run *r, const char *device, struct tm_err *err)
{
	char why[256];
	int rc;

	memset(r, 0, sizeof *r);
	r->cuda = is_cuda(device);
	if (!r->cuda || o->lost)
		return 0;
	if (!o->read)
		cards_read(&o->cards);
	o->read = true;
	/* the worker knows best what is wrong where there is no driver; one that needs none may go on */
	if (!o->cards.nvml)
		return 0;
	rc = card_of_device(&o->cards, device, &r->at, err);
	if (rc)
		return TM_EENV;
	rc = lock(o, r, device, err);
	rc = rc || stopped(o) ? rc : make_free(o, r, device, err);
	if (rc || stopped(o))
		return rc;
	if (o->policy.throttle == ONCARD_WAIT)
		wait_for(o, r, device, o->policy.wait_us, not_slowed, why);
	r->watched = true;
	return 0;
}

/* ---- meanwhile ---------------------------------------------------------------------------- */

static uint64_t used_now(struct oncard *o, struct oncard_run *r)
{
	r->has_before = nvml_memory(o->cards.nvml, card_place_handle(&o->cards, r->at), &r->before);
	return r->has_before ? r->before.used : 0;
}

void oncard_start(struct oncard *o, struct oncard_run *r, const char *run_id)
{
	char entry[160];

	if (!r->watched)
		return;
	snprintf(entry, sizeof entry, "TIDEMARK_RUN=%s", run_id);
	r->can_move = true;
	r->sampler = sampler_start(&o->cards, r->at, entry, used_now(o, r));
}

/* Of a card that nobody looked at before: whoever holds its lock is measuring beside us. */
static void take_lock(struct oncard *o, struct oncard_run *r)
{
	char who[128];
	bool held = false;

	if (is_locked(o, r->at) || o->lock_n == ONCARD_LOCKS_MAX)
		return;
	if (card_lock_try(&o->lock[o->lock_n], card_place_uuid(&o->cards, r->at), &held, who, NULL))
		return;
	if (held)
		o->locked[o->lock_n++] = r->at;
	else
		snprintf(r->busy, sizeof r->busy, "%s measures on it", who);
}

/* The card of the worker's own facts is the truth: numbers are the runtime's. */
static void follow(struct oncard *o, struct oncard_run *r, const json_t *facts)
{
	struct card_place at;

	r->can_move = false;
	if (!card_by_facts(&o->cards, tm_json_str(facts, "uuid", NULL), tm_json_str(facts, "pci", NULL), &at) ||
	    (at.card == r->at.card && at.instance == r->at.instance))
		return;
	snprintf(r->moved, sizeof r->moved, "the worker is on card %u (%s), not on card %u as its number says in PCI order", o->cards.v[at.card].index,
		 card_place_uuid(&o->cards, at), o->cards.v[r->at.card].index);
	r->at = at;
	sampler_move(r->sampler, at, used_now(o, r));
	r->has_before = false;            /* with the worker on it already, what it held before is not known */
	take_lock(o, r);
}

void oncard_news(struct oncard *o, struct oncard_run *r, const struct collect *c)
{
	if (!r->sampler)
		return;
	if (r->can_move && c->facts)
		follow(o, r, c->facts);
	if (c->begin_seen_us)
		sampler_begin(r->sampler);
	if (c->window_seen_us)
		sampler_end(r->sampler);
}

/* ---- after ----------------------------------------------------------------------------------- */

void oncard_after(struct oncard *o, struct oncard_run *r)
{
	nvml_handle place;
	int64_t until_us = tm_mono_us() + BACK_US;
	struct nvml_memory now;
	char size[32], who[256];

	if (!r->watched)
		return;
	if (r->sampler)
		sampler_stop(r->sampler, &r->sampled);
	r->sampler = NULL;
	o->lost |= r->sampled.lost;
	if (o->lost || !r->has_before)
		return;
	place = card_place_handle(&o->cards, r->at);
	while (nvml_memory(o->cards.nvml, place, &now) && now.used > r->before.used + BACK_BYTES) {
		if (tm_mono_us() < until_us) {
			tm_sleep_us(20000);
			continue;
		}
		nobody_on_it(o, r, who);
		snprintf(r->leak, sizeof r->leak, "%s more than before are in use on the card: %.180s",
			 tm_size_text((double)(now.used - r->before.used), size), *who ? who : "nobody is on it");
		return;
	}
}

void oncard_run_free(struct oncard_run *r)
{
	if (r->sampler)
		sampler_stop(r->sampler, &r->sampled);
	sampled_free(&r->sampled);
	memset(r, 0, sizeof *r);
}
