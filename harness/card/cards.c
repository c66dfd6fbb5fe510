#include "card/cards.h"

#include "card/users.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ------------------------------------------------------------------- */

static void read_instances(const struct nvml *n, struct card *c)
{
	unsigned max = nvml_mig_max(n, c->handle);

	for (unsigned i = 0; i < max && c->instance_n < CARD_MIG_MAX; i++) {
		struct card_instance *one = &c->instance[c->instance_n];

		if (!nvml_mig_at(n, c->handle, i, &one->handle))
			continue;
		nvml_uuid(n, one->handle, one->uuid, sizeof one->uuid);
		c->instance_n++;
	}
}

static void read_card(const struct nvml *n, struct card *c)
{
	struct nvml_memory memory = { 0 };

	nvml_name(n, c->handle, c->name, sizeof c->name);
	nvml_uuid(n, c->handle, c->uuid, sizeof c->uuid);
	nvml_pci_id(n, c->handle, c->pci, sizeof c->pci);
	nvml_capability(n, c->handle, &c->major, &c->minor);
	nvml_max_clock(n, c->handle, NVML_CLOCK_SM, &c->sm_mhz_max);
	nvml_max_clock(n, c->handle, NVML_CLOCK_MEM, &c->mem_mhz_max);
	nvml_power_limit(n, c->handle, &c->power_limit_mw);
	c->has_ecc = nvml_ecc(n, c->handle, &c->ecc);
	c->has_persistence = nvml_persistence(n, c->handle, &c->persistence);
	nvml_mig(n, c->handle, &c->mig);
	nvml_compute_mode(n, c->handle, &c->compute_mode);
	nvml_memory(n, c->handle, &memory);
	c->memory_bytes = memory.total;
	if (c->mig)
		read_instances(n, c);
}

void cards_read(struct cards *c)
{
	struct tm_err err = { 0 };
	int rc;

	memset(c, 0, sizeof *c);
	rc = nvml_open(&c->nvml, &err);
	if (rc) {
		snprintf(c->why, sizeof c->why, "%.300s", err.text);
		c->failed = rc != TM_ENOTFOUND;
		return;
	}
	nvml_driver_version(c->nvml, c->driver, sizeof c->driver);
	nvml_cuda_version(c->nvml, &c->cuda);
	c->n = nvml_card_n(c->nvml);
	c->v = tm_xcalloc(c->n + 1, sizeof *c->v);
	for (size_t i = 0; i < c->n; i++) {
		c->v[i].index = (unsigned)i;
		if (nvml_card_at(c->nvml, (unsigned)i, &c->v[i].handle, &err))
			snprintf(c->v[i].broken, sizeof c->v[i].broken, "%.150s", err.text);
		else
			read_card(c->nvml, &c->v[i]);
	}
}

void cards_free(struct cards *c)
{
	nvml_close(c->nvml);
	free(c->v);
	memset(c, 0, sizeof *c);
}

/* ---- for the record --------------------------------------------------------------- */

static void set_text(json_t *o, const char *key, const char *text)
{
	if (text && *text)
		json_object_set_new(o, key, json_string(text));
}

static void set_count(json_t *o, const char *key, uint64_t v)
{
	if (v)
		json_object_set_new(o, key, json_integer((json_int_t)v));
}

static json_t *card_json(const struct card *c)
{
	json_t *o = json_object(), *list;
	char text[32];

	json_object_set_new(o, "index", json_integer(c->index));
	set_text(o, "broken", c->broken);
	set_text(o, "name", c->name);
	set_text(o, "uuid", c->uuid);
	set_text(o, "pci", c->pci);
	if (c->major) {
		snprintf(text, sizeof text, "%d.%d", c->major, c->minor);
		set_text(o, "capability", text);
	}
	set_count(o, "memory_bytes", c->memory_bytes);
	set_count(o, "sm_mhz_max", c->sm_mhz_max);
	set_count(o, "mem_mhz_max", c->mem_mhz_max);
	if (c->power_limit_mw)
		json_object_set_new(o, "power_limit_w", json_real(c->power_limit_mw / 1000.0));
	if (c->has_ecc)
		json_object_set_new(o, "ecc", json_boolean(c->ecc));
	if (c->has_persistence)
		json_object_set_new(o, "persistence", json_boolean(c->persistence));
	set_text(o, "compute_mode", c->compute_mode);
	json_object_set_new(o, "mig", json_boolean(c->mig));
	if (!c->mig)
		return o;
	list = json_array();
	for (size_t i = 0; i < c->instance_n; i++)
		json_array_append_new(list, json_string(c->instance[i].uuid));
	json_object_set_new(o, "instances", list);
	return o;
}

json_t *cards_json(const struct cards *c)
{
	json_t *list = json_array();

	for (size_t i = 0; i < c->n; i++)
		json_array_append_new(list, card_json(&c->v[i]));
	return list;
}

static json_t *user_json(const struct card_user *u)
{
	json_t *o = json_object();

	json_object_set_new(o, "pid", json_integer(u->pid));
	set_text(o, "program", u->program);
	set_count(o, "bytes", u->bytes);
	return o;
}

json_t *card_now_json(const struct cards *c, const struct card *card)
{
	json_t *o = json_object(), *list = json_array();
	struct card_user users[CARD_USERS_MAX];
	struct nvml_memory memory;
	unsigned v;
	uint64_t reasons;
	size_t n = 0;

	if (nvml_memory(c->nvml, card->handle, &memory))
		json_object_set_new(o, "used_bytes", json_integer((json_int_t)memory.used));
	if (nvml_clock(c->nvml, card->handle, NVML_CLOCK_SM, &v))
		json_object_set_new(o, "sm_mhz", json_integer(v));
	if (nvml_clock(c->nvml, card->handle, NVML_CLOCK_MEM, &v))
		json_object_set_new(o, "mem_mhz", json_integer(v));
	if (nvml_power(c->nvml, card->handle, &v))
		json_object_set_new(o, "power_w", json_real(v / 1000.0));
	if (nvml_temperature(c->nvml, card->handle, &v))
		json_object_set_new(o, "temperature_c", json_integer(v));
	if (nvml_reasons(c->nvml, card->handle, &reasons)) {
		struct tm_str text = TM_STR_INIT;

		card_reasons_text(reasons, &text);
		set_text(o, "clocks_held_by", text.s);
		tm_str_free(&text);
	}
	if (card_users_read(c->nvml, card->handle, users, &n))
		for (size_t i = 0; i < n; i++)
			json_array_append_new(list, user_json(&users[i]));
	json_object_set_new(o, "processes", list);
	return o;
}

static void kind_of(const struct card *c, struct tm_str *out)
{
	/* what the driver keeps back differs by some megabytes between versions: whole GiB */
	tm_str_addf(out, "%s %lluGiB", *c->name ? c->name : "unknown", (unsigned long long)((c->memory_bytes + (1 << 29)) >> 30));
	if (c->power_limit_mw)
		tm_str_addf(out, " %uW", (c->power_limit_mw + 500) / 1000);
	if (c->mig)
		tm_str_addf(out, " MIG %zu", c->instance_n);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/*
 * Each kind once: a node that lends one of its eight equal cards today and
 * another tomorrow is one class, and so is the container that sees only that one.
 */
void cards_class(const struct cards *c, struct tm_str *out)
{
	char **kind = tm_xcalloc(c->n + 1, sizeof *kind);

	for (size_t i = 0; i < c->n; i++) {
		struct tm_str s = TM_STR_INIT;

		kind_of(&c->v[i], &s);
		kind[i] = tm_str_detach(&s);
	}
	qsort(kind, c->n, sizeof *kind, by_text);
	if (!c->n)
		tm_str_add(out, "none");
	for (size_t i = 0; i < c->n; i++)
		if (!i || strcmp(kind[i], kind[i - 1]))
			tm_str_addf(out, "%s%s", i ? "+" : "", kind[i]);
	for (size_t i = 0; i < c->n; i++)
		free(kind[i]);
	free(kind);
}
