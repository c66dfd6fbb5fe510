#include "cli/devices_cards.h"

#include "base/num.h"
#include "card/cards.h"
#include "card/lock.h"
#include "card/users.h"
#include "card/visible.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void devices_cards_remark(struct tm_str *out)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	struct card_visible v;
	struct cards c;

	cards_read(&c);
	card_visible_here(&c, &v);
	if (!c.nvml)
		tm_str_addf(out, "no card: %s", c.why);
	else if (!c.n)
		tm_str_add(out, "the driver sees no card; may this user open /dev/nvidia*?");
	else if (visible && !*visible)
		tm_str_add(out, "CUDA_VISIBLE_DEVICES is empty: every card is hidden");
	else if (visible)
		tm_str_addf(out, "numbered by CUDA_VISIBLE_DEVICES=%.100s", visible);
	else if (!v.sure)
		tm_str_add(out, "numbered with the fastest first, as far as can be told (CUDA_DEVICE_ORDER)");
	cards_free(&c);
}

/* "cuda:1", or "" where CUDA does not hand it out. */
static void name_of(const struct card_visible *v, size_t card, char out[32])
{
	out[0] = '\0';
	for (size_t i = v->n; i-- > 0; )
		if (v->v[i].card == card)
			snprintf(out, 32, "cuda:%zu", i);
}

static bool is_locked(const char *uuid, char who[128])
{
	struct card_lock l;
	bool held = false;

	if (card_lock_try(&l, uuid, &held, who, NULL))
		return false;
	if (held)
		card_lock_drop(&l);
	return !held;
}

static void state_of(const struct cards *c, const struct card *card, bool visible, struct tm_str *out)
{
	struct card_user users[CARD_USERS_MAX];
	uint64_t reasons = 0;
	char who[128];
	size_t n = 0;

	if (*card->broken) {
		tm_str_add(out, card->broken);
		return;
	}
	if (card->mig)
		tm_str_addf(out, "MIG, %zu instance%s; ", card->instance_n, card->instance_n == 1 ? "" : "s");
	if (!visible)
		tm_str_add(out, "hidden; ");
	if (card->compute_mode && strcmp(card->compute_mode, "default"))
		tm_str_addf(out, "compute mode %s; ", card->compute_mode);
	nvml_reasons(c->nvml, card->handle, &reasons);
	if (reasons & CARD_SLOWED) {
		tm_str_add(out, "slowed down: ");
		card_reasons_text(reasons & CARD_SLOWED, out);
		tm_str_add(out, "; ");
	}
	card_users_read(c->nvml, card->handle, users, &n);
	if (n) {
		tm_str_add(out, "busy: ");
		card_users_text(users, n, out);
	} else if (is_locked(card->uuid, who)) {
		tm_str_addf(out, "locked by %s", who);
	} else {
		tm_str_add(out, "idle");
	}
}

static void row(struct table *t, bool people, const struct cards *c, const struct card *card, const char *name)
{
	struct tm_str text = TM_STR_INIT;
	struct nvml_memory memory = { 0 };
	char index[32];

	snprintf(index, sizeof index, "(card %u)", card->index);
	table_text(t, *name ? name : index);
	if (!people)
		table_text(t, "card");
	else
		table_text(t, *card->name ? card->name : NULL);
	table_real(t, card->memory_bytes ? (double)card->memory_bytes : NAN);
	if (!people)
		table_text(t, "cuda");
	else
		table_real(t, !*card->broken && nvml_memory(c->nvml, card->handle, &memory) ? (double)memory.used : NAN);
	if (!people)
		tm_str_addf(&text, "%s, %s, ", card->name, card->uuid);
	state_of(c, card, *name, &text);
	table_text(t, text.s);
	table_row(t);
	tm_str_free(&text);
}

size_t devices_cards_rows(struct table *t, bool people)
{
	struct card_visible v;
	struct cards c;
	char name[32];
	size_t n;

	cards_read(&c);
	card_visible_here(&c, &v);
	for (size_t i = 0; i < c.n; i++) {
		name_of(&v, i, name);
		row(t, people, &c, &c.v[i], name);
	}
	n = c.n;
	cards_free(&c);
	return n;
}
