/* What to replay under: the settings asked for, or those that people use, times the caps. */
#include "cli/replay.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/*
 * What is worth trying first: the ways out that PyTorch's own documentation
 * and its error message name, with the values people give them.
 */
static const char *const usual[] = {
	"", "expandable_segments:True", "max_split_size_mb:128", "max_split_size_mb:512", "roundup_power2_divisions:8",
};
/* Only under a limit: without one it is never looked at. */
static const char *const usual_capped[] = { "garbage_collection_threshold:0.8" };

/*
 * The grid of --sweep. No products that cannot be better than their parts:
 * expandable segments make max_split_size_mb harmful and garbage collection
 * inert, and rounding costs where nothing can be split off.
 */
static const char *const grid[] = {
	"",
	"expandable_segments:True",
	"expandable_segments:True,roundup_power2_divisions:8",
	"expandable_segments:True,roundup_power2_divisions:16",
	"expandable_segments:True,large_segment_size_mb:12",
	"expandable_segments:True,large_segment_size_mb:40",
	"max_split_size_mb:32",
	"max_split_size_mb:64",
	"max_split_size_mb:128",
	"max_split_size_mb:256",
	"max_split_size_mb:512",
	"max_split_size_mb:1024",
	"roundup_power2_divisions:4",
	"roundup_power2_divisions:8",
	"roundup_power2_divisions:16",
	"max_split_size_mb:128,roundup_power2_divisions:8",
	"max_split_size_mb:512,roundup_power2_divisions:8",
	"large_segment_size_mb:12",
	"large_segment_size_mb:40",
};
static const char *const grid_capped[] = {
	"garbage_collection_threshold:0.6",
	"garbage_collection_threshold:0.8",
	"garbage_collection_threshold:0.8,max_split_size_mb:512",
};

static bool has(const struct replay_view *v, const char *conf, uint64_t cap)
{
	for (size_t i = 0; i < v->setting_n; i++) {
		const struct replay_setting *s = &v->settings[i];

		if (s->cap_bytes == cap && (s->conf == conf || (s->conf && conf && !strcmp(s->conf, conf))))
			return true;
	}
	return false;
}

static void add(struct replay_view *v, const char *conf, uint64_t cap, bool hidden)
{
	if (has(v, conf, cap))
		return;
	v->settings = tm_xrealloc_n(v->settings, v->setting_n + 1, sizeof *v->settings);
	v->settings[v->setting_n++] = (struct replay_setting){ conf, cap, hidden };
}

static void add_all(struct replay_view *v, const char *const *confs, size_t n, uint64_t cap)
{
	for (size_t i = 0; i < n; i++)
		add(v, confs[i], cap, false);
}

static int size_option(struct cli *cli, const char *name, const char *text, uint64_t *out)
{
	if (text && (tm_parse_size(text, out) || !*out))
		return tm_fail(&cli->err, TM_EUSAGE, "--%s %.60s: expected a size with its unit, such as 14GiB or 8188MiB", name, text);
	return 0;
}

static int word_option(struct cli *cli, const char *name, const char *text, const char *const *words, size_t n, size_t *out)
{
	const char *near = text ? tm_nearest(text, words, n) : NULL;

	*out = 0;
	for (size_t i = 0; text && i < n; i++) {
		*out = i;
		if (!strcmp(text, words[i]))
			return 0;
	}
	return text ? tm_fail(&cli->err, TM_EUSAGE, "--%s %.60s: expected %s or %s%s%s", name, text, words[0], words[1],
			      near ? "; did you mean " : "", near ? near : "") : 0;
}

static int parse_options(struct cli *cli, struct replay_view *v)
{
	static const char *const modes[] = { "what-if", "exact" }, *const starts[] = { "warm", "cold" };
	const struct replay_options *o = v->options;
	int64_t device = -1;
	size_t mode, start;
	int rc;

	if ((rc = size_option(cli, "total", o->total, &v->total_bytes)) || (rc = size_option(cli, "outside", o->outside, &v->outside_bytes)) ||
	    (rc = word_option(cli, "mode", o->mode, modes, 2, &mode)) || (rc = word_option(cli, "start", o->start, starts, 2, &start)))
		return rc;
	if (o->device && (tm_parse_i64(o->device, &device) || device < 0 || device > 1024))
		return tm_fail(&cli->err, TM_EUSAGE, "--device %.60s: expected the number of a device in the recording, from 0", o->device);
	if (v->outside_bytes && !v->total_bytes)
		return tm_fail(&cli->err, TM_EUSAGE, "--outside is what others use of the device; say with --total how much there is");
	if (v->outside_bytes > v->total_bytes)
		return tm_fail(&cli->err, TM_EUSAGE, "--outside %s is more than --total %s", o->outside, o->total);
	v->device = (int)device;
	v->exact = mode == 1;
	v->cold = start == 1;
	for (size_t i = 0; i < o->conf.n; i++)
		if (!tm_utf8_valid(o->conf.v[i], strlen(o->conf.v[i])))
			return tm_fail(&cli->err, TM_EINPUT, "--conf: an option string has bytes that are no UTF-8; no option of PyTorch has any");
	if (v->exact && (o->conf.n || o->cap.n || o->sweep || o->min_cap))
		return tm_fail(&cli->err, TM_EUSAGE, "--mode exact replays what was recorded, with its own settings and no other: without "
			       "--conf, --cap, --sweep and --min-cap");
	return 0;
}

static int parse_caps(struct cli *cli, const struct replay_options *o, uint64_t **out, size_t *n)
{
	int rc = 0;

	*n = o->cap.n ? o->cap.n : 1;
	*out = tm_xcalloc(*n, sizeof **out);
	for (size_t i = 0; i < o->cap.n && !rc; i++)
		rc = size_option(cli, "cap", o->cap.v[i], &(*out)[i]);
	return rc;
}

/* Everything under one cap. */
static void add_under(struct replay_view *v, uint64_t cap)
{
	const struct replay_options *o = v->options;
	bool limited = cap || v->total_bytes;

	for (size_t i = 0; i < o->conf.n; i++)
		add(v, o->conf.v[i], cap, false);
	if (o->conf.n && !o->sweep)
		return;
	add(v, NULL, cap, false);
	if (v->exact)
		return;
	if (o->sweep) {
		add_all(v, grid, TM_ARRAY_N(grid), cap);
		add_all(v, grid_capped, limited ? TM_ARRAY_N(grid_capped) : 0, cap);
	} else {
		add_all(v, usual, TM_ARRAY_N(usual), cap);
		add_all(v, usual_capped, limited ? TM_ARRAY_N(usual_capped) : 0, cap);
	}
}

/* The figures of a setting's moment of the peak are long; for the table those of the recording's own are enough. */
static bool wants_detail(const struct replay_view *v, const struct replay_setting *s)
{
	bool own = !s->conf && !s->cap_bytes;

	return v->options->out || v->options->timeline ? !s->hidden || own : v->detail && own;
}

static json_t *asked(const struct replay_view *v)
{
	json_t *list = json_array();

	for (size_t i = 0; i < v->setting_n; i++) {
		const struct replay_setting *s = &v->settings[i];
		json_t *o = json_object();

		json_object_set_new(o, "policy", json_string("caching"));
		json_object_set_new(o, "conf", s->conf ? json_string_nocheck(s->conf) : json_null());
		json_object_set_new(o, "cap", json_integer((json_int_t)s->cap_bytes));
		json_object_set_new(o, "total", json_integer((json_int_t)v->total_bytes));
		json_object_set_new(o, "outside", json_integer((json_int_t)v->outside_bytes));
		json_object_set_new(o, "mode", json_string(v->exact ? "exact" : "what-if"));
		json_object_set_new(o, "start", json_string(v->cold ? "cold" : "warm"));
		json_object_set_new(o, "detail", json_boolean(wants_detail(v, s)));
		json_array_append_new(list, o);
	}
	return list;
}

int replay_settings(struct cli *cli, struct replay_view *v)
{
	const struct replay_options *o = v->options;
	uint64_t *caps;
	size_t cap_n;
	int rc = parse_options(cli, v);

	if (rc)
		return rc;
	rc = parse_caps(cli, o, &caps, &cap_n);
	for (size_t i = 0; i < cap_n && !rc; i++)
		add_under(v, caps[i]);
	free(caps);
	if (rc)
		return rc;
	/* something to compare with: the recording as it was */
	add(v, NULL, 0, true);
	v->min_cap = o->min_cap || (!v->exact && !o->conf.n && !o->cap.n && !o->sweep && !o->against);
	v->detail |= o->out || o->timeline;
	v->asked = asked(v);
	return 0;
}

void replay_setting_name(const struct replay_setting *s, struct tm_str *out)
{
	tm_str_add(out, !s->conf ? "as recorded" : *s->conf ? s->conf : "defaults");
}
