#include "card/visible.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VISIBLE "CUDA_VISIBLE_DEVICES"
#define ORDER "CUDA_DEVICE_ORDER"

nvml_handle card_place_handle(const struct cards *c, struct card_place at)
{
	const struct card *card = &c->v[at.card];

	return at.instance < 0 ? card->handle : card->instance[at.instance].handle;
}

const char *card_place_uuid(const struct cards *c, struct card_place at)
{
	const struct card *card = &c->v[at.card];

	return at.instance < 0 ? card->uuid : card->instance[at.instance].uuid;
}

/* ---- in which order CUDA counts ------------------------------------------------ */

/* Compute capability, then clock: about what the runtime takes for fast. */
static bool faster(const struct card *a, const struct card *b)
{
	if (a->major != b->major)
		return a->major > b->major;
	if (a->minor != b->minor)
		return a->minor > b->minor;
	return a->sm_mhz_max > b->sm_mhz_max;
}

/* Cards that can be used, as CUDA counts them without CUDA_VISIBLE_DEVICES. Returns whether that is sure. */
static bool count(const struct cards *c, bool by_pci, struct card_visible *out)
{
	bool alike = true;

	out->n = 0;
	for (size_t i = 0; i < c->n && out->n < TM_ARRAY_N(out->v); i++) {
		size_t at = out->n;

		if (*c->v[i].broken)
			continue;
		/* of a card in MIG mode a program gets the first instance, and nothing where it has none */
		if (c->v[i].mig && !c->v[i].instance_n)
			continue;
		alike = alike && (!at || !strcmp(c->v[out->v[0].card].name, c->v[i].name));
		for (; !by_pci && at && faster(&c->v[i], &c->v[out->v[at - 1].card]); at--)
			out->v[at] = out->v[at - 1];
		out->v[at] = (struct card_place){ i, c->v[i].mig ? 0 : -1 };
		out->n++;
	}
	return by_pci || alike;
}

/* ---- what CUDA_VISIBLE_DEVICES names ----------------------------------------------- */

/* "GPU-8932f937…" may be cut short as long as it is one card's; "MIG-…" must be whole. */
static bool by_uuid(const struct cards *c, const char *name, size_t len, struct card_place *out)
{
	size_t hits = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (!strncasecmp(c->v[i].uuid, name, len) && len > 4) {
			*out = (struct card_place){ i, c->v[i].mig && c->v[i].instance_n ? 0 : -1 };
			hits++;
		}
		for (size_t k = 0; k < c->v[i].instance_n; k++) {
			if (strlen(c->v[i].instance[k].uuid) != len || strncasecmp(c->v[i].instance[k].uuid, name, len))
				continue;
			*out = (struct card_place){ i, (int)k };
			hits++;
		}
	}
	return hits == 1;
}

static bool by_number(const struct card_visible *all, const char *name, size_t len, struct card_place *out)
{
	char text[24];
	int64_t n;

	if (!len || len >= sizeof text)
		return false;
	memcpy(text, name, len);
	text[len] = '\0';
	if (tm_parse_i64(text, &n) || n < 0 || (uint64_t)n >= all->n)
		return false;
	*out = all->v[n];
	return true;
}

static bool has(const struct card_visible *v, struct card_place at)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->v[i].card == at.card && v->v[i].instance == at.instance)
			return true;
	return false;
}

void card_visible(const struct cards *c, const char *visible, const char *order, struct card_visible *out)
{
	struct card_visible all;
	bool sure = count(c, order && !strcmp(order, "PCI_BUS_ID"), &all);

	*out = all;
	out->sure = sure;
	if (!visible)
		return;
	out->n = 0;
	for (const char *p = visible; *p && out->n < TM_ARRAY_N(out->v); ) {
		size_t blank = strspn(p, " \t"), len = strcspn(p + blank, ","), word = len;
		struct card_place at;

		p += blank;
		while (word && strchr(" \t", p[word - 1]))
			word--;
		/* the first that means nothing ends the list; one that comes twice makes it void */
		if (!by_number(&all, p, word, &at) && !by_uuid(c, p, word, &at))
			return;
		if (has(out, at)) {
			out->n = 0;
			return;
		}
		out->v[out->n++] = at;
		p += len + (p[len] == ',');
	}
}

void card_visible_here(const struct cards *c, struct card_visible *out)
{
	card_visible(c, getenv(VISIBLE), getenv(ORDER), out);
}

/* ---- devices --------------------------------------------------------------------------- */

static int none(const struct cards *c, const char *device, struct tm_err *err)
{
	const char *visible = getenv(VISIBLE);
	size_t broken = 0, empty = 0;

	if (!c->n)
		return tm_fail(err, TM_EENV, "device %.40s: the driver sees no card; may this user open /dev/nvidia*?", device);
	if (visible && !*visible)
		return tm_fail(err, TM_EENV, "device %.40s: " VISIBLE " is empty, which hides every card; unset it, or give it the number of a card "
			       "(`tidemark devices` lists them)", device);
	if (visible)
		return tm_fail(err, TM_EENV, "device %.40s: " VISIBLE "=%.100s leaves no card (a list ends at its first entry that is none, and "
			       "one that comes twice makes it void); `tidemark devices` lists them", device, visible);
	for (size_t i = 0; i < c->n; i++) {
		broken += *c->v[i].broken != '\0';
		empty += c->v[i].mig && !c->v[i].instance_n;
	}
	if (broken)
		return tm_fail(err, TM_EENV, "device %.40s: %s", device, c->v[0].broken);
	return tm_fail(err, TM_EENV, "device %.40s: %s in MIG mode without an instance; make one (`nvidia-smi mig -cgi … -C`), or switch "
		       "MIG off", device, empty == 1 ? "the card is" : "the cards are");
}

int card_of_device(const struct cards *c, const char *device, struct card_place *out, struct tm_err *err)
{
	bool ours = !strncmp(device, "cuda", 4) && (!device[4] || device[4] == ':');
	const char *number = ours && device[4] ? device + 5 : "0", *visible = getenv(VISIBLE);
	struct card_visible v;
	int64_t n;

	if (!ours || tm_parse_i64(number, &n) || n < 0)
		return tm_fail(err, TM_EINVALID, "device %.60s: expected cuda, or cuda:N with the number of a card from 0", device);
	card_visible_here(c, &v);
	if (!v.n)
		return none(c, device, err);
	if ((uint64_t)n >= v.n)
		return tm_fail(err, TM_EENV, "device %.40s is not here: the last one is cuda:%zu%s%.60s", device, v.n - 1,
			       visible ? ", with " VISIBLE "=" : "", visible ? visible : "");
	*out = v.v[n];
	return 0;
}

bool card_by_facts(const struct cards *c, const char *uuid, const char *pci, struct card_place *out)
{
	for (size_t i = 0; i < c->n; i++) {
		for (size_t k = 0; uuid && k < c->v[i].instance_n; k++) {
			/* the runtime writes an instance's uuid with the prefix of a card */
			const char *own = strchr(c->v[i].instance[k].uuid, '-'), *told = strchr(uuid, '-');

			if (!own || !told || strcasecmp(own, told))
				continue;
			*out = (struct card_place){ i, (int)k };
			return true;
		}
		if ((uuid && *uuid && !strcasecmp(uuid, c->v[i].uuid)) ||
		    (pci && *pci && !strcasecmp(pci, c->v[i].pci))) {
			*out = (struct card_place){ i, c->v[i].mig && c->v[i].instance_n ? 0 : -1 };
			return true;
		}
	}
	return false;
}
