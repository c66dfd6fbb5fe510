/*
 * Device files. Ten keys, each with a unit where it is a quantity and with
 * a range in which real devices lie: a plan against a card of 80 MB, because
 * a G became an M, would be believed.
 */
#include "spec/card.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "spec/card_files.h"
#include "spec/doc.h"
#include "spec/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct unit { const char *name; double factor; };

static const struct unit rate_units[] = {
	{ "GFLOP/s", 1e9 }, { "TFLOP/s", 1e12 }, { "PFLOP/s", 1e15 },
};
static const struct unit bandwidth_units[] = {
	{ "GB/s", 1e9 }, { "TB/s", 1e12 }, { "GiB/s", 1073741824.0 }, { "TiB/s", 1099511627776.0 },
};
static const struct unit time_units[] = {
	{ "ns", 1e-9 }, { "us", 1e-6 }, { "ms", 1e-3 },
};

struct quantity {
	const char *name;
	const struct unit *units;
	size_t unit_n;
	double min, max;
	const char *range;                /* the same for people */
};

/* ---- one value --------------------------------------------------------------- */

static int with_unit(const char *s, const struct quantity *q, double *out)
{
	size_t n = strspn(s, "0123456789.");
	const char *unit = s + n + strspn(s + n, " ");
	char number[32];
	double v;

	if (!n || n >= sizeof number)
		return TM_EINVALID;
	memcpy(number, s, n);
	number[n] = '\0';
	if (tm_parse_double(number, &v))
		return TM_EINVALID;
	for (size_t i = 0; i < q->unit_n; i++) {
		if (strcmp(unit, q->units[i].name))
			continue;
		*out = v * q->units[i].factor;
		return 0;
	}
	return TM_EINVALID;
}

static const char *unit_list(struct diag *d, const struct quantity *q)
{
	const char *names[8];

	for (size_t i = 0; i < q->unit_n && i < TM_ARRAY_N(names); i++)
		names[i] = q->units[i].name;
	return diag_list(d, names, q->unit_n);
}

static int implausible(struct diag *d, const struct node *node, const char *name, const char *range)
{
	return diag_at(d, node->at, "%s: %s is nothing a device has; expected %s", name, diag_quote(d, node->text), range);
}

static int read_quantity(struct doc *doc, const struct node *node, const struct quantity *q, double *out)
{
	if (node->kind != NODE_SCALAR || with_unit(node->text, q, out))
		return diag_at(doc->diag, node->at, "%s: expected a number with a unit (%s), %s, got '%s'", q->name,
			       unit_list(doc->diag, q), q->range,
			       node->kind == NODE_SCALAR ? diag_quote(doc->diag, node->text) : node_kind_name(node));
	return *out < q->min || *out > q->max ? implausible(doc->diag, node, q->name, q->range) : 0;
}

static int read_size(struct doc *doc, const struct node *node, const char *name, double min, double max, const char *range,
		     uint64_t *out)
{
	int rc = size_parse(doc->diag, node, name, out);

	if (!rc && ((double)*out < min || (double)*out > max))
		rc = implausible(doc->diag, node, name, range);
	return rc;
}

static int read_share(struct doc *doc, const struct node *node, const char *name, double *out)
{
	if (node->kind != NODE_SCALAR || tm_parse_percent(node->text, out))
		return diag_at(doc->diag, node->at, "%s: expected a share of the peak, such as 70%%, got '%s'", name,
			       node->kind == NODE_SCALAR ? diag_quote(doc->diag, node->text) : node_kind_name(node));
	return *out < 0.01 || *out > 1 ? implausible(doc->diag, node, name, "1% to 100%") : 0;
}

/* ---- the keys ------------------------------------------------------------------ */

static const char *const keys[] = {
	"title", "names", "backend", "memory", "granularity", "context", "rates", "bandwidth", "launch", "efficiency",
};

/* The value of a key that must be there; NULL (reported) where it is not. */
static const struct node *wanted(struct doc *doc, const struct node *map, const char *where, const char *key, const char *what)
{
	const struct node *node = node_get(map, key);

	if (!node)
		diag_at(doc->diag, map->at, "%s lacks '%s': %s", where, key, what);
	return node;
}

static void set_size(json_t *card, const char *key, uint64_t bytes)
{
	json_object_set_new(card, key, json_integer((json_int_t)bytes));
}

static uint64_t machine_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

static void read_what(struct doc *doc, json_t *card)
{
	static const char *const backends[] = { "cpu", "cuda" };
	const struct node *title = wanted(doc, doc->root, "the device", "title", "a line that says what it is");
	const struct node *backend = wanted(doc, doc->root, "the device", "backend", "cpu or cuda");
	const char *text = title ? doc_text(doc, title, "title") : NULL;
	int k = backend ? doc_choice(doc, backend, "backend", backends, TM_ARRAY_N(backends)) : -1;

	if (text && strlen(text) > 120)
		diag_at(doc->diag, title->at, "title: expected at most 120 bytes");
	json_object_set_new(card, "title", json_string(text ? text : ""));
	json_object_set_new(card, "backend", json_string(k >= 0 ? backends[k] : ""));
}

/* What the driver calls such a card: by this a run finds the peaks of the card it is on. */
static void read_names(struct doc *doc, json_t *card)
{
	const struct node *list = doc_section(doc, doc->root, "names", NODE_SEQ);
	json_t *names;

	if (!list)
		return;
	names = json_array();
	for (size_t i = 0; i < list->n; i++) {
		const char *text = doc_text(doc, list->item[i], "names");

		if (text)
			json_array_append_new(names, json_string(text));
	}
	json_object_set_new(card, "names", names);
}

/* A CPU's device memory is the machine's, whatever the machine. */
static int read_memory(struct doc *doc, const struct node *node, const json_t *card, uint64_t *bytes)
{
	bool cpu = !strcmp(json_string_value(json_object_get(card, "backend")), "cpu");

	if (node->kind == NODE_SCALAR && !strcmp(node->text, "machine")) {
		*bytes = machine_bytes();
		return cpu ? 0 : diag_at(doc->diag, node->at, "memory: 'machine' is this machine's memory, which only backend cpu has; "
					 "write a size, such as 40GiB");
	}
	return read_size(doc, node, "memory", 0x1p26, 0x1p44, "64MiB to 16TiB", bytes);
}

static void read_sizes(struct doc *doc, json_t *card)
{
	const struct node *memory = wanted(doc, doc->root, "the device", "memory", "what the driver offers, such as 40GiB");
	const struct node *granularity = wanted(doc, doc->root, "the device", "granularity", "what the driver rounds to, such as 2MiB");
	const struct node *context = wanted(doc, doc->root, "the device", "context", "what starting up takes, such as 500MiB");
	uint64_t m = 0, g = 0, c = 0;

	if (memory)
		read_memory(doc, memory, card, &m);
	if (granularity && !read_size(doc, granularity, "granularity", 512, 0x1p30, "512B to 1GiB", &g) && (g & (g - 1)))
		diag_at(doc->diag, granularity->at, "granularity: expected a power of two, such as 2MiB, got '%s'",
			diag_quote(doc->diag, granularity->text));
	if (context && !read_size(doc, context, "context", 0, 0x1p34, "0B to 16GiB", &c) && m && c >= m)
		diag_at(doc->diag, context->at, "context: '%s' leaves nothing of the memory", diag_quote(doc->diag, context->text));
	set_size(card, "memory", m);
	set_size(card, "granularity", g);
	set_size(card, "context", c);
}

static void read_rates(struct doc *doc, json_t *card)
{
	static const char *const names[] = { "fp32", "tf32", "bf16", "fp16" };
	struct quantity q = { NULL, rate_units, TM_ARRAY_N(rate_units), 1e9, 1e17, "1GFLOP/s to 100PFLOP/s" };
	const struct node *map = doc_section(doc, doc->root, "rates", NODE_MAP);
	json_t *rates = json_object();
	double fp32 = 0;

	json_object_set_new(card, "rates", rates);
	if (!map) {
		if (!node_get(doc->root, "rates"))
			wanted(doc, doc->root, "the device", "rates", "dense peaks, such as {fp32: 19.5TFLOP/s, bf16: 312TFLOP/s}");
		return;
	}
	doc_keys(doc, map, "rates", names, TM_ARRAY_N(names));
	wanted(doc, map, "rates", "fp32", "the dense peak, such as 19.5TFLOP/s");
	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		const struct node *node = node_get(map, names[i]);
		double v = fp32;          /* what the hardware does not have runs as fp32 does */

		q.name = names[i];
		if (node && read_quantity(doc, node, &q, &v))
			continue;
		fp32 = i ? fp32 : v;
		json_object_set_new(rates, names[i], json_real(v));
	}
}

static void read_speed(struct doc *doc, json_t *card)
{
	static const struct quantity bandwidth = { "bandwidth", bandwidth_units, TM_ARRAY_N(bandwidth_units), 1e9, 1e14, "1GB/s to 100TB/s" };
	static const struct quantity launch = { "launch", time_units, TM_ARRAY_N(time_units), 0, 1e-3, "0us to 1ms" };
	static const char *const shares[] = { "matrix", "memory" };
	const struct node *b = wanted(doc, doc->root, "the device", "bandwidth", "of its memory, such as 1555GB/s");
	const struct node *l = wanted(doc, doc->root, "the device", "launch", "what starting one operation costs, such as 4us");
	const struct node *map = doc_section(doc, doc->root, "efficiency", NODE_MAP);
	json_t *efficiency = json_object();
	double v = 0;

	if (b && !read_quantity(doc, b, &bandwidth, &v))
		json_object_set_new(card, "bandwidth", json_real(v));
	if (l && !read_quantity(doc, l, &launch, &v))
		json_object_set_new(card, "launch", json_real(v));
	json_object_set_new(card, "efficiency", efficiency);
	if (!map && !node_get(doc->root, "efficiency"))
		wanted(doc, doc->root, "the device", "efficiency", "shares of the peaks that are reached, such as {matrix: 70%, memory: 85%}");
	if (map)
		doc_keys(doc, map, "efficiency", shares, TM_ARRAY_N(shares));
	for (size_t i = 0; map && i < TM_ARRAY_N(shares); i++) {
		const struct node *node = wanted(doc, map, "efficiency", shares[i], "a share of the peak, such as 70%");

		if (node && !read_share(doc, node, shares[i], &v))
			json_object_set_new(efficiency, shares[i], json_real(v));
	}
}

/* ---- files ------------------------------------------------------------------------ */

static int read_card(const char *shown, const char *name, const char *text, size_t n, json_t **out, struct tm_errs *errs)
{
	size_t before = errs->n, nodes_left = YAML_MAX_NODES;
	struct arena a = { 0 };
	struct diag d;
	struct doc doc = { .a = &a, .diag = &d };
	struct node *root = NULL;
	json_t *card = json_object();
	int rc;

	diag_init(&d, errs);
	rc = yaml_read(&a, &d, diag_source(&d, shown, false), text, n, &nodes_left, &root);
	if (!rc && root->kind != NODE_MAP)
		rc = diag_at(&d, root->at, "a device file is a mapping with the keys %s, not %s",
			     diag_list(&d, keys, TM_ARRAY_N(keys)), node_kind_name(root));
	if (!rc) {
		doc.root = root;
		json_object_set_new(card, "name", json_string(name));
		doc_keys(&doc, root, "device", keys, TM_ARRAY_N(keys));
		read_what(&doc, card);
		read_names(&doc, card);
		read_sizes(&doc, card);
		read_rates(&doc, card);
		read_speed(&doc, card);
		rc = errs->n > before ? TM_ESPEC : 0;
	}
	if (!rc)
		*out = json_incref(card);
	json_decref(card);
	arena_free(&a);
	diag_fini(&d);
	return rc;
}

/* "cards/a100.yaml" is the device a100. */
static char *stem(const char *path)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	const char *dot = strrchr(base, '.');

	return tm_xstrndup(base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

static int fail_with(struct tm_errs *errs, const struct tm_err *err)
{
	tm_errs_add(errs, err);
	return err->code;
}

static int load_file(const char *path, json_t **card, struct tm_errs *errs)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };
	char *name = stem(path);
	int rc = tm_read_file(path, YAML_MAX_BYTES, &text, &err);

	if (rc) {
		err.code = TM_ESPEC;
		rc = fail_with(errs, &err);
	} else {
		rc = read_card(path, name, text.s, text.n, card, errs);
	}
	free(name);
	tm_str_free(&text);
	return rc;
}

size_t card_n(void)
{
	size_t n = 0;

	while (card_files[n].name)
		n++;
	return n;
}

const char *card_name_at(size_t i)
{
	BUG_ON(i >= card_n());
	return card_files[i].name;
}

static int unknown(const char *name, struct tm_errs *errs)
{
	const char *names[64] = { NULL }, *near;
	struct tm_str list = TM_STR_INIT;
	struct tm_err err = { 0 };
	size_t n = card_n() < TM_ARRAY_N(names) ? card_n() : TM_ARRAY_N(names);

	for (size_t i = 0; i < n; i++) {
		names[i] = card_files[i].name;
		tm_str_addf(&list, "%s%s", i ? i + 1 == n ? " and " : ", " : "", names[i]);
	}
	near = tm_nearest(name, names, n);
	for (size_t i = 0; !near && i < n; i++)          /* "h200" */
		near = *name && tm_starts_with(names[i], name) ? names[i] : NULL;
	tm_fail(&err, TM_EUSAGE, "no device file for %.80s%s%s%s known are %s, or give the path of a .yaml file", name,
		near ? ", did you mean " : ";", near ? near : "", near ? "?" : "", list.s);
	tm_str_free(&list);
	return fail_with(errs, &err);
}

int card_load(const char *name, json_t **card, struct tm_errs *errs)
{
	*card = NULL;
	if (strchr(name, '/') || tm_ends_with(name, ".yaml") || tm_ends_with(name, ".yml"))
		return load_file(name, card, errs);
	for (size_t i = 0; card_files[i].name; i++) {
		struct tm_str shown = TM_STR_INIT;
		int rc;

		if (strcmp(card_files[i].name, name))
			continue;
		tm_str_addf(&shown, "configs/devices/%s.yaml", name);
		rc = read_card(shown.s, name, card_files[i].text, strlen(card_files[i].text), card, errs);
		tm_str_free(&shown);
		return rc;
	}
	return unknown(name, errs);
}

static bool is_named(const json_t *card, const char *product)
{
	const json_t *names = json_object_get(card, "names");

	for (size_t i = 0; i < json_array_size(names); i++)
		if (!strcmp(json_string_value(json_array_get(names, i)), product))
			return true;
	return false;
}

int card_by_product(const char *product, json_t **card)
{
	for (size_t i = 0; card_files[i].name; i++) {
		struct tm_errs errs = { 0 };
		int rc = card_load(card_files[i].name, card, &errs);

		tm_errs_free(&errs);
		if (!rc && is_named(*card, product))
			return 0;
		if (!rc)
			json_decref(*card);
	}
	*card = NULL;
	return TM_ENOTFOUND;
}
