#include "progress.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/num.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TICK_US 500000
#define BAR_WIDTH 20

static bool is_live_terminal(int fd)
{
	const char *term = getenv("TERM");

	return isatty(fd) && term && *term && strcmp(term, "dumb");
}

void progress_init(struct progress *p, enum run_progress mode, bool color, int verbose, size_t total)
{
	memset(p, 0, sizeof *p);
	p->fd = STDERR_FILENO;
	p->lines = mode != RUN_PROGRESS_NONE && verbose >= 0;
	p->live = p->lines && mode == RUN_PROGRESS_AUTO && is_live_terminal(p->fd);
	p->color = color;
	p->total = total;
	p->started_us = tm_mono_us();
}

int64_t progress_tick_us(const struct progress *p)
{
	return p->live ? TICK_US : 0;
}

/* Progress is a courtesy: a closed stderr ends nothing. */
static void put(const struct progress *p, const struct tm_str *s)
{
	tm_write_fd(p->fd, s->s, s->n, NULL);
}

/* Texts of the spec and of workers, without what a terminal might obey. */
static void add_plain(struct tm_str *out, const char *s)
{
	tm_utf8_show_line(out, s, strlen(s));
}

static void erase(struct progress *p, struct tm_str *out)
{
	if (p->painted)
		tm_str_add(out, "\r\033[K");
	p->painted = false;
}

void progress_begin(struct progress *p, const char *shown, int64_t rep, int64_t reps, int64_t steps)
{
	p->run_started_us = tm_mono_us();
	p->steps = steps;
	if (reps > 1)
		snprintf(p->name, sizeof p->name, "%.120s%srep %" PRId64 "/%" PRId64, shown, *shown ? " " : "", rep + 1, reps);
	else
		snprintf(p->name, sizeof p->name, "%.150s", *shown ? shown : "the point");
	progress_tick(p, NULL);
}

/* Mean time of the runs so far, for those that are left; NaN before the first has ended. */
static double seconds_left(const struct progress *p)
{
	int64_t now_us = tm_mono_us();
	double mean_us, left;

	if (!p->done)
		return NAN;
	mean_us = (double)(p->run_started_us - p->started_us) / (double)p->done;
	left = (double)(p->total - p->done) * mean_us - (double)(now_us - p->run_started_us);
	return left > 0 ? left / 1e6 : 0;
}

static double share_of_run(const struct progress *p, const struct collect *c)
{
	double share = c && p->steps > 0 ? (double)(c->last_step + 1) / (double)p->steps : 0;

	return share < 1 ? share : 1;
}

static void add_bar(const struct progress *p, const struct collect *c, struct tm_str *out)
{
	double share = ((double)p->done + share_of_run(p, c)) / (double)(p->total ? p->total : 1);
	int full = (int)(share * BAR_WIDTH);

	tm_str_addc(out, '[');
	for (int i = 0; i < BAR_WIDTH; i++)
		tm_str_addc(out, i < full ? '=' : i == full ? '>' : ' ');
	tm_str_addf(out, "] %zu/%zu", p->done, p->total);
}

static size_t terminal_width(int fd)
{
	struct winsize w;

	return !ioctl(fd, TIOCGWINSZ, &w) && w.ws_col > 20 ? w.ws_col - 1u : 79;
}

/* What fits into `width` columns from byte `start` on; cut between characters. */
static void cut(struct tm_str *s, size_t start, size_t width)
{
	size_t columns = 0, bytes;
	uint32_t c;

	for (size_t i = start; i < s->n; i += bytes) {
		bytes = tm_utf8_next(s->s + i, s->s + s->n, &c);
		columns += tm_utf8_columns(c);
		if (columns > width) {
			s->n = i;
			s->s[i] = '\0';
			return;
		}
	}
}

void progress_tick(struct progress *p, const struct collect *c)
{
	struct tm_str out = TM_STR_INIT;
	double left = seconds_left(p);
	size_t start;
	char text[32];

	if (!p->live)
		return;
	erase(p, &out);
	start = out.n;
	add_bar(p, c, &out);
	if (!isnan(left))
		tm_str_addf(&out, "  %s left", tm_duration_text(left, text));
	tm_str_add(&out, "  ");
	add_plain(&out, p->name);
	if (c) {
		tm_str_add(&out, "  ");
		add_plain(&out, c->phase);
	}
	if (c && c->last_step >= 0)
		tm_str_addf(&out, " step %" PRId64 "/%" PRId64, c->last_step + 1, p->steps);
	cut(&out, start, terminal_width(p->fd));
	put(p, &out);
	p->painted = true;
	tm_str_free(&out);
}

static const char *color_of(const char *status)
{
	if (!strcmp(status, "ok"))
		return "\033[32m";
	return !strcmp(status, "oom") || !strcmp(status, "skipped") || !strcmp(status, "interrupted") ? "\033[33m" : "\033[31m";
}

static void add_figures(const struct progress_end *e, struct tm_str *out)
{
	char text[32];

	if (!isnan(e->tokens_s))
		tm_str_addf(out, "  %.*f tokens/s", e->tokens_s < 100 ? 1 : 0, e->tokens_s);
	if (!isnan(e->peak_bytes))
		tm_str_addf(out, "  peak %s", tm_size_text(e->peak_bytes, text));
	tm_str_addf(out, "  %s", tm_duration_text((double)e->wall_us / 1e6, text));
	if (e->flags) {
		tm_str_add(out, "  ");
		store_flags_text(e->flags, out);
	}
	if (e->reason && *e->reason) {
		tm_str_add(out, "  ");
		add_plain(out, e->reason);
	}
}

void progress_end(struct progress *p, const struct progress_end *e)
{
	int digits = snprintf(NULL, 0, "%zu", p->total);
	struct tm_str out = TM_STR_INIT, status = TM_STR_INIT;

	p->done++;
	if (!p->lines)
		return;
	store_status_text(e->status, e->oom, &status);
	erase(p, &out);
	tm_str_addf(&out, "[%*zu/%zu] %s%-11s%s ", digits, p->done, p->total,
		    p->color ? color_of(e->status) : "", status.s, p->color ? "\033[0m" : "");
	add_plain(&out, p->name);
	add_figures(e, &out);
	tm_str_addc(&out, '\n');
	put(p, &out);
	tm_str_free(&out);
	tm_str_free(&status);
}

void progress_say(struct progress *p, const char *text)
{
	struct tm_str out = TM_STR_INIT;

	erase(p, &out);
	add_plain(&out, text);
	tm_str_addc(&out, '\n');
	put(p, &out);
	tm_str_free(&out);
}

void progress_fini(struct progress *p)
{
	struct tm_str out = TM_STR_INIT;

	erase(p, &out);
	put(p, &out);
	tm_str_free(&out);
}
