/*
 * Where points can run, and which devices they can be planned for: the ones
 * of this build, which the worker tries to open, and the device files of
 * configs/devices.
 */
#include "cli/cli.h"

#include "base/json.h"
#include "base/num.h"
#include "cli/calibrate.h"
#include "cli/devices_cards.h"
#include "cli/request.h"
#include "cli/table.h"
#include "run/run.h"
#include "spec/card.h"

#include <stdio.h>

extern const struct command command_devices;

/* ---- the list ------------------------------------------------------------------ */

/* What the worker found when it tried each. (The planning device has no name of its own: it is one of the cards.) */
static int ask_here(struct cli *cli, json_t **list)
{
	struct tm_str out = TM_STR_INIT;
	int rc = run_ask_worker(cli->work, "--devices", "", 0, &out, &cli->err);

	if (!rc)
		rc = tm_json_parse(out.s, out.n, list, &cli->err);
	tm_str_free(&out);
	return rc;
}

/* What it is where it can be used, else why it cannot. */
static const char *told(const json_t *d)
{
	const char *name = tm_json_str(json_object_get(d, "facts"), "name", NULL);

	if (!json_is_true(json_object_get(d, "usable")))
		return tm_json_str(d, "why", "");
	return name ? name : tm_json_str(d, "help", "");
}

static int add_built(struct cli *cli, bool people, struct table *t)
{
	json_t *list;
	int rc = ask_here(cli, &list);

	if (rc)
		return rc;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *d = json_array_get(list, i);
		bool usable = json_is_true(json_object_get(d, "usable"));

		table_text(t, tm_json_str(d, "name", ""));
		table_text(t, people ? usable ? "yes" : "no" : usable ? "runs" : "absent");
		if (!people) {
			table_null(t);
			table_null(t);
		}
		table_text(t, told(d));
		table_row(t);
	}
	json_decref(list);
	return 0;
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

/* The cards of this machine and who is on them, as the driver tells it. */
static void add_here(struct cli *cli, struct tm_str *out)
{
	struct tm_str remark = TM_STR_INIT;
	struct table *t = table_new();

	devices_cards_remark(&remark);
	table_column(t, "device", TABLE_TEXT);
	table_column(t, "card of this machine", TABLE_TEXT);
	table_column(t, "memory", TABLE_BYTES);
	table_column(t, "in use", TABLE_BYTES);
	table_column(t, "state", TABLE_TEXT);
	if (devices_cards_rows(t, true)) {
		tm_str_addc(out, '\n');
		table_print(t, cli->format, 0, out);
	}
	if (remark.n)
		tm_str_addf(out, "\n%s\n", remark.s);
	table_free(t);
	tm_str_free(&remark);
}

/* Three tables for people, one for programs. */
static int list(struct cli *cli, struct tm_str *out)
{
	bool people = cli->format == CLI_TABLE || cli->format == CLI_MD;
	struct table *t = table_new();
	int rc = 0;

	table_column(t, "device", TABLE_TEXT);
	if (people) {
		table_column(t, "here", TABLE_TEXT);
		table_column(t, "what it is, or why it cannot be used", TABLE_TEXT);
		rc = add_built(cli, true, t);
		table_print(t, cli->format, 0, out);
		table_free(t);
		add_here(cli, out);
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
	if (!rc && !people)
		rc = add_built(cli, false, t);
	if (!rc && !people)
		devices_cards_rows(t, false);
	if (!rc)
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

static int show(struct cli *cli, const struct request *r, const char *name)
{
	struct tm_str out = TM_STR_INIT;
	const char *of_points = request_changes(r);
	int rc = 0;

	if (of_points || r->set.n || r->axis.n || r->only || r->skip)
		rc = tm_fail(&cli->err, TM_EUSAGE, "options of points go with --calibrate SPEC");
	if (!rc)
		rc = name ? one(cli, name, &out) : list(cli, &out);
	if (!rc)
		rc = request_answer(cli, r, &out);
	tm_str_free(&out);
	return rc;
}

static int devices_main(struct cli *cli, int argc, char **argv)
{
	struct cli_opt opts[REQUEST_OPT_N + 2];
	const char *spec = NULL;
	struct request r = { 0 };
	size_t n = request_options(&r, opts);
	int rc;

	opts[n++] = (struct cli_opt){ .name = "calibrate", .text = &spec };
	opts[n] = (struct cli_opt){ 0 };
	argc = cli_options(cli, &command_devices, opts, argc, argv);
	if (argc < 0)
		rc = argc;
	else if (argc > 2)
		rc = tm_fail(&cli->err, TM_EUSAGE, "devices takes one name at most; %s is one too many", argv[2]);
	else if (spec && argc < 2)
		rc = tm_fail(&cli->err, TM_EUSAGE, "--calibrate needs the device: tidemark devices cuda --calibrate %s", spec);
	else
		rc = spec ? calibrate_device(cli, &r, argv[1], spec) : show(cli, &r, argc > 1 ? argv[1] : NULL);
	request_free(&r);
	return rc;
}

const struct command command_devices = {
	.name = "devices",
	.summary = "where points can run, and the cards they can be planned for; with a name, one card",
	.usage = "devices [NAME] [--calibrate SPEC]",
	.help =
		"NAME is a card of the list or the path of a device file; what is printed is what `plan` uses.\n\n"
		"  --calibrate SPEC     measure on the device NAME how its library multiplies fastest in the points of\n"
		"                       SPEC, which options -s, -a, --only, … change as in `plan`, and print the file of\n"
		"                       algorithms to pin; in the folder `gemm` beside tidemark-work it is used from then on\n"
		"  --out FILE           the answer to a file instead of stdout\n\n"
		"  tidemark devices\n"
		"  tidemark devices h200-141gb\n"
		"  tidemark devices cuda --calibrate configs/gpu-variants.yaml --out h200.json\n"
		"  tidemark plan gpt --device h200-141gb\n",
	.main = devices_main,
};
