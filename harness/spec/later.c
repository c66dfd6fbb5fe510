/*
 * Sections that are read by other parts of the program: their shape is
 * checked here, so that a mistake is answered with its line before anything
 * runs, and they are kept as JSON.
 */
#include "spec/doc.h"

#include "base/mem.h"
#include "base/num.h"

#include <string.h>

static void check_percent(struct doc *doc, const struct node *map, const char *key)
{
	const struct node *node = node_get(map, key);
	double v;

	if (node)
		doc_percent(doc, node, key, &v);
}

static void check_probability(struct doc *doc, const struct node *map, const char *key)
{
	const struct node *node = node_get(map, key);
	double v;

	if (node && (node->kind != NODE_SCALAR || tm_parse_double(node->text, &v) || v <= 0 || v >= 1))
		diag_at(doc->diag, node->at, "%s: expected a probability between 0 and 1, such as 1e-4, got '%s'", key,
			node->kind == NODE_SCALAR ? diag_quote(doc->diag, node->text) : node_kind_name(node));
}

static void check_choice(struct doc *doc, const struct node *map, const char *key, const char *const *words, size_t n)
{
	const struct node *node = node_get(map, key);

	if (node)
		doc_choice(doc, node, key, words, n);
}

static void check_int(struct doc *doc, const struct node *map, const char *key, int64_t min, int64_t max)
{
	const struct node *node = node_get(map, key);
	int64_t v;

	if (node)
		doc_int(doc, node, key, min, max, &v);
}

static void check_metric(struct doc *doc, const struct node *rule)
{
	const struct node *metric = node_get(rule, "metric");
	const struct describe *d = doc->describe;

	if (!metric)
		diag_at(doc->diag, rule->at, "gates: a rule needs a metric, such as {metric: mem.reserved.peak, max: +0.5%%}");
	else if (metric->kind != NODE_SCALAR || !schema_metric(d, metric->text))
		diag_at(doc->diag, metric->at, "metric: unknown '%s'%s",
			metric->kind == NODE_SCALAR ? diag_quote(doc->diag, metric->text) : node_kind_name(metric),
			metric->kind == NODE_SCALAR ? diag_near(doc->diag, metric->text, d->metric_names, d->metric_n) : "");
}

/* A share, or a bare number for metrics that are no sizes (floor of a loss). */
static void check_floor(struct doc *doc, const struct node *rule)
{
	const struct node *node = node_get(rule, "floor");
	uint64_t bytes;
	int64_t us;
	double v;

	if (!node)
		return;
	if (node->kind != NODE_SCALAR || (tm_parse_size(node->text, &bytes) && tm_parse_duration(node->text, &us) &&
					  tm_parse_double(node->text, &v)))
		diag_at(doc->diag, node->at, "floor: expected a size, a duration or a number, got '%s'",
			node->kind == NODE_SCALAR ? diag_quote(doc->diag, node->text) : node_kind_name(node));
}

static void check_rule(struct doc *doc, const struct node *rule)
{
	static const char *const keys[] = { "metric", "max", "min", "floor", "severity", "two_sided", "only" };
	static const char *const severities[] = { "fail", "warn" };
	static const char *const bools[] = { "true", "false" };
	struct formula only = { 0 };

	if (rule->kind != NODE_MAP) {
		diag_at(doc->diag, rule->at, "gates: expected a rule such as {metric: mem.reserved.peak, max: +0.5%%}, got %s",
			node_kind_name(rule));
		return;
	}
	doc_keys(doc, rule, "a rule of gates", keys, TM_ARRAY_N(keys));
	check_metric(doc, rule);
	if (!node_get(rule, "max") && !node_get(rule, "min"))
		diag_at(doc->diag, rule->at, "gates: a rule needs max, the change that is tolerated, such as +3%% or -3%%");
	check_percent(doc, rule, "max");
	check_percent(doc, rule, "min");
	check_floor(doc, rule);
	check_choice(doc, rule, "severity", severities, 2);
	check_choice(doc, rule, "two_sided", bools, 2);
	if (node_get(rule, "only"))
		formula_read(doc, node_get(rule, "only"), "only", &only);
}

static json_t *read_gates(struct doc *doc)
{
	static const char *const keys[] = { "baselines", "rules", "confirm", "on_missing", "alpha" };
	static const char *const confirm_keys[] = { "reps", "against" };
	static const char *const missing[] = { "fail", "warn", "ignore" };
	const struct node *gates = doc_section(doc, doc->root, "gates", NODE_MAP), *list;

	if (!gates)
		return NULL;
	doc_keys(doc, gates, "gates", keys, TM_ARRAY_N(keys));
	list = doc_section(doc, gates, "baselines", NODE_SEQ);
	for (size_t i = 0; list && i < list->n; i++)
		doc_text(doc, list->item[i], "baselines");
	list = doc_section(doc, gates, "rules", NODE_SEQ);
	for (size_t i = 0; list && i < list->n; i++)
		check_rule(doc, list->item[i]);
	list = doc_section(doc, gates, "confirm", NODE_MAP);
	if (list) {
		doc_keys(doc, list, "confirm", confirm_keys, TM_ARRAY_N(confirm_keys));
		check_int(doc, list, "reps", 1, 1000);
		if (node_get(list, "against"))
			doc_text(doc, node_get(list, "against"), "against");
	}
	check_choice(doc, gates, "on_missing", missing, TM_ARRAY_N(missing));
	check_probability(doc, gates, "alpha");
	return node_json(gates);
}

static json_t *read_history(struct doc *doc)
{
	static const char *const keys[] = { "nights", "min_segment", "p", "min_change" };
	const struct node *history = doc_section(doc, doc->root, "history", NODE_MAP);

	if (!history)
		return NULL;
	doc_keys(doc, history, "history", keys, TM_ARRAY_N(keys));
	check_int(doc, history, "nights", 2, 365);
	check_int(doc, history, "min_segment", 1, 100);
	check_probability(doc, history, "p");
	check_percent(doc, history, "min_change");
	return node_json(history);
}

static json_t *read_card(struct doc *doc)
{
	static const char *const keys[] = { "wait_idle", "on_busy", "on_throttle" };
	static const char *const actions[] = { "flag", "wait", "fail" };
	const struct node *card = doc_section(doc, doc->root, "card", NODE_MAP), *wait;
	int64_t us;

	if (!card)
		return NULL;
	doc_keys(doc, card, "card", keys, TM_ARRAY_N(keys));
	wait = node_get(card, "wait_idle");
	if (wait)
		duration_parse(doc->diag, wait, "wait_idle", &us);
	check_choice(doc, card, "on_busy", actions, TM_ARRAY_N(actions));
	check_choice(doc, card, "on_throttle", actions, TM_ARRAY_N(actions));
	return node_json(card);
}

static void read_report(struct doc *doc)
{
	static const char *const keys[] = { "dir", "title" };
	const struct node *report = doc_section(doc, doc->root, "report", NODE_MAP), *node;
	const char *text;

	if (!report)
		return;
	doc_keys(doc, report, "report", keys, TM_ARRAY_N(keys));
	node = node_get(report, "dir");
	if (node)
		doc->report_dir = doc_text(doc, node, "report.dir");
	node = node_get(report, "title");
	text = node ? doc_text(doc, node, "report.title") : NULL;
	if (text && strlen(text) > 300)
		diag_at(doc->diag, node->at, "report.title: expected at most 300 bytes");
	else if (text)
		doc->title = text;
}

void doc_read_later(struct doc *doc)
{
	const struct pair *tune = node_pair(doc->root, "tune");

	doc->gates = read_gates(doc);
	doc->history = read_history(doc);
	doc->card = read_card(doc);
	read_report(doc);
	if (tune)
		diag_at(doc->diag, tune->key->at, "tune: this version cannot tune yet; remove the section to run the axes as a sweep");
}
