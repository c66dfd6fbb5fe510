/*
 * Where points can run, and which devices they can be planned for: the ones
 * of this build, and the device files of configs/devices.
 */
#include "cli/cli.h"

#include "base/json.h"
#include "base/num.h"
#include "cli/request.h"
#include "cli/table.h"
#include "spec/card.h"

#include <stdio.h>

extern const struct command command_devices;

/* ---- the list ------------------------------------------------------------------ */

static void add_built(bool people, struct table *t)
{
	const json_t *list = json_object_get(describe_json(cli_describe()), "devices");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *d = json_array_get(list, i);

		/* the planning device has no name of its own: it is one of those below */
		if (!json_is_true(json_object_get(d, "computes")))
			continue;
		table_text(t, tm_json_str(d, "name", ""));
		if (!people) {
			table_text(t, "runs");
			table_null(t);
			table_null(t);
		}
		table_text(t, tm_json_str(d, "help", ""));
		table_row(t);
	}
}

static int add_cards(struct cli *cli, bool people, struct table *t)
{
	for (size_t i = 0; i < card_n(); i++) {
		struct tm_errs errs = { 0 };
		json_t *card;
		int rc = card_load(card_name_at(i), &card, &errs);

		if (rc)
			cli_print_errors(cli, &errs);
		tm_errs_free(&errs);
		if (rc)
			return rc;
		table_text(t, card_name_at(i));
		if (!people)
			table_text(t, "plan");
		table_real(t, tm_json_real(card, "memory", 0));
		table_text(t, tm_json_str(card, "backend", ""));
		table_text(t, tm_json_str(card, "title", ""));
		table_row(t);
		json_decref(card);
	}
	return 0;
}

/* Two tables for people, one for programs. */
static int list(struct cli *cli, struct tm_str *out)
{
	bool people = cli->format == CLI_TABLE || cli->format == CLI_MD;
	struct table *t = table_new();
	int rc;

	table_column(t, "device", TABLE_TEXT);
	if (people) {
		table_column(t, "what it is", TABLE_TEXT);
		add_built(true, t);
		table_print(t, cli->format, 0, out);
		table_free(t);
		t = table_new();
		tm_str_add(out, "\ncards for plan (`tidemark plan SPEC --device NAME`, or the path of a device file)\n");
		if (cli->format == CLI_MD)
			tm_str_addc(out, '\n');
		table_column(t, "card", TABLE_TEXT);
	} else {
		table_column(t, "use", TABLE_TEXT);
	}
	table_column(t, "memory", TABLE_BYTES);
	table_column(t, "backend", TABLE_TEXT);
	table_column(t, "what it is", TABLE_TEXT);
	if (!people)
		add_built(false, t);
	rc = add_cards(cli, people, t);
	table_print(t, cli->format, 0, out);
	table_free(t);
	return rc;
}

/* ---- one of them ------------------------------------------------------------------ */

static void fact(struct table *t, const char *name, const char *value)
{
	table_text(t, name);
	table_text(t, value);
	table_row(t);
}

static void size_fact(struct table *t, const json_t *card, const char *key, const char *name)
{
	struct tm_str s = TM_STR_INIT;
	int64_t bytes = tm_json_i64(card, key, 0);
	char text[32];

	tm_str_addf(&s, "%s (%lld B)", tm_size_text((double)bytes, text), (long long)bytes);
	fact(t, name, s.s);
	tm_str_free(&s);
}

static void scaled_fact(struct table *t, const char *name, double v, double unit, const char *text)
{
	struct tm_str s = TM_STR_INIT;

	table_real_text(v / unit, &s);
	tm_str_add(&s, text);
	fact(t, name, s.s);
	tm_str_free(&s);
}

static void facts(const json_t *card, struct table *t)
{
	static const char *const rates[] = { "fp32", "tf32", "bf16", "fp16" };
	const json_t *share = json_object_get(card, "efficiency");
	char name[32];

	table_column(t, "what", TABLE_TEXT);
	table_column(t, "is", TABLE_TEXT);
	fact(t, "title", tm_json_str(card, "title", ""));
	fact(t, "backend", tm_json_str(card, "backend", ""));
	size_fact(t, card, "memory", "memory");
	size_fact(t, card, "granularity", "granularity");
	size_fact(t, card, "context", "context");
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
		snprintf(name, sizeof name, "dense peak, %s", rates[i]);
		scaled_fact(t, name, tm_json_real(json_object_get(card, "rates"), rates[i], 0), 1e12, " TFLOP/s");
	}
	scaled_fact(t, "bandwidth", tm_json_real(card, "bandwidth", 0), 1e9, " GB/s");
	scaled_fact(t, "launch of an operation", tm_json_real(card, "launch", 0), 1e-6, " us");
	scaled_fact(t, "of the peak, matrix products", tm_json_real(share, "matrix", 0), 0.01, " %");
	scaled_fact(t, "of the bandwidth, the rest", tm_json_real(share, "memory", 0), 0.01, " %");
}

static int one(struct cli *cli, const char *name, struct tm_str *out)
{
	struct tm_errs errs = { 0 };
	struct table *t;
	json_t *card;
	int rc = card_load(name, &card, &errs);

	if (rc)
		cli_print_errors(cli, &errs);
	tm_errs_free(&errs);
	if (rc)
		return rc;
	if (cli->format == CLI_JSON || cli->format == CLI_JSONL) {
		tm_json_canonical(card, out);
		tm_str_addc(out, '\n');
	} else {
		t = table_new();
		facts(card, t);
		table_print(t, cli->format, 0, out);
		table_free(t);
	}
	json_decref(card);
	return 0;
}

static int devices_main(struct cli *cli, int argc, char **argv)
{
	struct tm_str out = TM_STR_INIT;
	int rc;

	argc = cli_options(cli, &command_devices, NULL, argc, argv);
	if (argc < 0)
		return argc;
	if (argc > 2)
		return tm_fail(&cli->err, TM_EUSAGE, "devices takes one name at most; %s is one too many", argv[2]);
	rc = argc > 1 ? one(cli, argv[1], &out) : list(cli, &out);
	if (!rc)
		rc = request_answer(cli, NULL, &out);
	tm_str_free(&out);
	return rc;
}

const struct command command_devices = {
	.name = "devices",
	.summary = "where points can run, and the cards they can be planned for; with a name, one card",
	.usage = "devices [NAME]",
	.help =
		"NAME is a card of the list or the path of a device file; what is printed is what `plan` uses.\n\n"
		"  tidemark devices\n"
		"  tidemark devices h200-141gb\n"
		"  tidemark plan gpt --device h200-141gb\n",
	.main = devices_main,
};
