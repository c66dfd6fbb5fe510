/*
 * What the card did: a table of its own, since most of its columns are empty
 * for a sweep that ran on the CPU, and then it is left out.
 */
#include "draw/page.h"

#include "base/mem.h"
#include "base/num.h"
#include "draw/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum as { BYTES, SHARE, PLAIN, MILLI };

static const struct column { const char *head, *metric; enum as as; } columns[] = {
	{ "on the card", "mem.device.peak", BYTES },
	{ "MFU", "util.mfu", SHARE },
	{ "HFU", "util.hfu", SHARE },
	{ "SM", "util.sm", SHARE },
	{ "tensor", "util.tensor", SHARE },
	{ "DRAM", "util.dram", SHARE },
	{ "clock, MHz", "clock.sm", PLAIN },
	{ "power, W", "power", PLAIN },
	{ "at most, °C", "temperature", PLAIN },
	{ "mJ/token", "energy.token", MILLI },
};

static void cell(struct tm_str *out, const struct column *c, double v)
{
	char text[32] = "–";

	if (c->as == BYTES) {
		page_cell_bytes(out, v);
		return;
	}
	if (isfinite(v) && c->as == SHARE)
		snprintf(text, sizeof text, "%.1f %%", 100 * v);
	else if (isfinite(v) && c->as == MILLI)
		snprintf(text, sizeof text, "%.3g", 1000 * v);
	else if (isfinite(v))
		snprintf(text, sizeof text, "%.0f", v);
	tm_str_addf(out, "<td class=\"n\">%s</td>", text);
}

/* The median over the ok runs of a configuration. */
static void row(const struct draw_sweep *s, const struct draw_config *config, struct tm_str *out)
{
	tm_str_add(out, "<tr>");
	page_cell_text(out, config->shown, 72);
	for (size_t i = 0; i < TM_ARRAY_N(columns); i++)
		cell(out, &columns[i], draw_config_metric(s, config, columns[i].metric));
	tm_str_add(out, "</tr>\n");
}

static bool knows_any(const struct draw_sweep *s, const struct draw_config *config)
{
	for (size_t i = 0; i < TM_ARRAY_N(columns); i++)
		if (!isnan(draw_config_metric(s, config, columns[i].metric)))
			return true;
	return false;
}

void page_card(const struct draw_sweep *s, struct tm_str *out)
{
	const char *names[1 + TM_ARRAY_N(columns)] = { "configuration" };
	bool any = false;

	for (size_t i = 0; i < s->config_n && !any; i++)
		any = knows_any(s, &s->configs[i]);
	if (!any)
		return;
	for (size_t i = 0; i < TM_ARRAY_N(columns); i++)
		names[1 + i] = columns[i].head;
	tm_str_add(out, "<h2>The card</h2>\n<p>Medians over the runs of a configuration, within the measured window. MFU and HFU are shares of the "
		   "card's dense peak for the precision: of the operations a step needs, and of those it carried out. SM, tensor and DRAM are "
		   "what the driver counted.</p>\n");
	page_table_head(out, names, TM_ARRAY_N(names), 1);
	for (size_t i = 0; i < s->config_n; i++)
		if (knows_any(s, &s->configs[i]))
			row(s, &s->configs[i], out);
	page_table_foot(out);
}
