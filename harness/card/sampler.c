#include "card/sampler.h"

#include "card/users.h"
#include "card/visible.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define JOIN_S 2
/* NVML's own rate of refreshing what GPM counts: two samples that are closer are of the same moment. */
#define GPM_MIN_US 100000

enum window { BEFORE, OPEN, CLOSED };

struct sampler {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* asked for, under the lock */
	bool stop, move;
	enum window want;
	struct card_place to;
	uint64_t to_before_bytes;

	/* the thread's */
	const struct cards *cards;
	struct card_place at;
	char entry[160];
	uint64_t before_bytes;
	enum window window;
	struct nvml_gpm *gpm;
	int64_t begin_us, next_us, next_users_us, every_us;
	uint64_t begin_mj;
	bool has_begin_mj;
	int64_t hidden[CARD_USERS_MAX];   /* seen in the reading before and belonging to nobody known */
	size_t hidden_n;
	struct sampled out;
};

/* ---- readings of the window ------------------------------------------------------ */

static void thin_out(struct sampler *s)
{
	struct sampled *o = &s->out;

	for (size_t i = 0; i < o->n / 2; i++) {
		o->us[i] = o->us[2 * i];
		for (int k = 0; k < SAMPLED_N; k++)
			o->v[k][i] = o->v[k][2 * i];
	}
	o->n /= 2;
	s->every_us *= 2;
}

static double clock_mhz(const struct nvml *n, nvml_handle card, enum nvml_clock clock)
{
	unsigned v;

	return nvml_clock(n, card, clock, &v) ? v : NAN;
}

static double power_w(const struct nvml *n, nvml_handle card)
{
	unsigned v;

	return nvml_power(n, card, &v) ? v / 1000.0 : NAN;
}

static double temperature_c(const struct nvml *n, nvml_handle card)
{
	unsigned v;

	return nvml_temperature(n, card, &v) ? v : NAN;
}

static void read_card(struct sampler *s, int64_t now_us)
{
	const struct nvml *n = s->cards->nvml;
	nvml_handle card = s->cards->v[s->at.card].handle;
	struct sampled *o = &s->out;
	uint64_t reasons = 0;

	if (o->n == SAMPLER_KEEP_MAX)
		thin_out(s);
	o->us[o->n] = now_us - s->begin_us;
	o->v[SAMPLED_SM][o->n] = clock_mhz(n, card, NVML_CLOCK_SM);
	o->v[SAMPLED_MEM][o->n] = clock_mhz(n, card, NVML_CLOCK_MEM);
	o->v[SAMPLED_POWER][o->n] = power_w(n, card);
	o->v[SAMPLED_TEMPERATURE][o->n] = temperature_c(n, card);
	o->n++;
	o->taken++;
	if (nvml_reasons(n, card, &reasons)) {
		o->reasons |= reasons;
		o->slowed += (reasons & CARD_SLOWED) != 0;
		o->capped += (reasons & CARD_SLOWED) == 0 && (reasons & NVML_REASON_POWER_CAP);
	}
}

/* ---- who is on the card ------------------------------------------------------------- */

enum whose { OURS, OTHERS, HIDDEN };

/* One that has just gone is hidden too, and not seen again. */
static enum whose whose(const struct sampler *s, int64_t pid)
{
	struct tm_proc p;

	if (!tm_proc_read((pid_t)pid, &p))
		return HIDDEN;
	return tm_proc_has_env((pid_t)pid, s->entry) ? OURS : OTHERS;
}

static bool was_hidden(const struct sampler *s, int64_t pid)
{
	for (size_t i = 0; i < s->hidden_n; i++)
		if (s->hidden[i] == pid)
			return true;
	return false;
}

static void note_others(struct sampler *s, const struct card_user *v, size_t n)
{
	struct tm_str text = TM_STR_INIT;

	card_users_text(v, n, &text);
	snprintf(s->out.others, sizeof s->out.others, "%.250s", text.s);
	tm_str_free(&text);
}

static void grow_to(uint64_t *max, uint64_t v)
{
	*max = v > *max ? v : *max;
}

/*
 * Others count only while a process of ours is seen beside them. Where none
 * is, the driver's numbers are of another pid namespace (or the run is not on
 * the card yet), and the one process whose number means nothing here is ours.
 */
static void read_users(struct sampler *s)
{
	const struct nvml *n = s->cards->nvml;
	nvml_handle place = card_place_handle(s->cards, s->at);
	struct card_user v[CARD_USERS_MAX], others[CARD_USERS_MAX];
	int64_t hidden[CARD_USERS_MAX];
	size_t used, others_n = 0, hidden_n = 0, ours_n = 0;
	uint64_t bytes = 0, hidden_bytes = 0;
	struct nvml_memory memory;

	if (!card_users_read(n, place, v, &used))
		used = 0;
	for (size_t i = 0; i < used; i++) {
		enum whose w = whose(s, v[i].pid);

		if (w == OURS) {
			ours_n++;
			bytes += v[i].bytes;
		} else if (w == OTHERS || was_hidden(s, v[i].pid)) {
			others[others_n++] = v[i];
		}
		if (w == HIDDEN) {
			hidden_bytes = v[i].bytes;
			hidden[hidden_n++] = v[i].pid;
		}
	}
	if (ours_n && others_n && !*s->out.others)
		note_others(s, others, others_n);
	if (ours_n && bytes)
		grow_to(&s->out.run_bytes_max, bytes);
	else if (!ours_n && used == 1 && hidden_n == 1 && hidden_bytes)
		grow_to(&s->out.run_bytes_max, hidden_bytes);
	else if (!used && nvml_memory(n, place, &memory) && memory.used > s->before_bytes + (1u << 20))
		grow_to(&s->out.run_bytes_max, memory.used - s->before_bytes);
	memcpy(s->hidden, hidden, hidden_n * sizeof *hidden);
	s->hidden_n = hidden_n;
}

/* ---- the window ------------------------------------------------------------------------ */

static void open_window(struct sampler *s)
{
	const struct card *card = &s->cards->v[s->at.card];

	s->gpm = nvml_gpm_new(s->cards->nvml, card_place_handle(s->cards, s->at));
	if (s->gpm)
		nvml_gpm_take(s->gpm, false);
	s->begin_us = tm_mono_us();
	s->has_begin_mj = nvml_energy(s->cards->nvml, card->handle, &s->begin_mj);
	s->next_us = s->begin_us;
	s->next_users_us = s->begin_us;
	s->window = OPEN;
}

static void close_window(struct sampler *s)
{
	const struct card *card = &s->cards->v[s->at.card];
	int64_t now_us = tm_mono_us();
	uint64_t mj;

	if (s->has_begin_mj && nvml_energy(s->cards->nvml, card->handle, &mj) && mj > s->begin_mj)
		s->out.joules = (double)(mj - s->begin_mj) / 1000;
	s->out.window_s = (double)(now_us - s->begin_us) * 1e-6;
	if (s->gpm && now_us - s->begin_us >= GPM_MIN_US && nvml_gpm_take(s->gpm, true))
		nvml_gpm_read(s->gpm, &s->out.activity);
	/* a window short enough to lie between two readings has these */
	read_card(s, tm_mono_us());
	read_users(s);
	s->window = CLOSED;
}

/* ---- the thread --------------------------------------------------------------------------- */

static void wait_until(struct sampler *s, int64_t until_us)
{
	struct timespec t = { .tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000 };

	pthread_cond_timedwait(&s->wake, &s->lock, &t);
}

/* Takes what was asked for; false: the end. Waits until something is due. */
static bool next_orders(struct sampler *s, enum window *want)
{
	bool go_on;

	pthread_mutex_lock(&s->lock);
	while (!s->stop && s->want == s->window && !s->move) {
		int64_t due_us = s->next_users_us;

		if (s->window == OPEN && s->next_us < due_us)
			due_us = s->next_us;
		if (tm_mono_us() >= due_us)
			break;
		wait_until(s, due_us);
	}
	if (s->move && s->window == BEFORE) {
		s->at = s->to;
		s->before_bytes = s->to_before_bytes;
	}
	s->move = false;
	*want = s->want;
	go_on = !s->stop || s->want != s->window;
	pthread_mutex_unlock(&s->lock);
	return go_on;
}

static void *run(void *arg)
{
	struct sampler *s = arg;
	enum window want;

	while (next_orders(s, &want)) {
		int64_t now_us;

		if (s->window == BEFORE && want != BEFORE)
			open_window(s);
		if (s->window == OPEN && want == CLOSED)
			close_window(s);
		now_us = tm_mono_us();
		if (s->window == OPEN && now_us >= s->next_us) {
			read_card(s, now_us);
			s->next_us = now_us + s->every_us;
		}
		if (now_us >= s->next_users_us) {
			read_users(s);
			s->next_users_us = tm_mono_us() + SAMPLER_USERS_US;
		}
	}
	return NULL;
}

static int start_thread(struct sampler *s)
{
	pthread_condattr_t attr;
	sigset_t all, before;
	int rc;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, &attr);
	pthread_condattr_destroy(&attr);
	/* signals are the harness's */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&s->thread, NULL, run, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static void release(struct sampler *s)
{
	nvml_gpm_free(s->gpm);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

struct sampler *sampler_start(const struct cards *cards, struct card_place at, const char *entry, uint64_t before_bytes)
{
	struct sampler *s = tm_xcalloc(1, sizeof *s);

	s->cards = cards;
	s->at = at;
	s->before_bytes = before_bytes;
	s->every_us = SAMPLER_INTERVAL_US;
	snprintf(s->entry, sizeof s->entry, "%s", entry);
	s->out.joules = NAN;
	s->out.activity = (struct nvml_activity){ NAN, NAN, NAN };
	s->out.us = tm_xcalloc(SAMPLER_KEEP_MAX, sizeof *s->out.us);
	for (int k = 0; k < SAMPLED_N; k++)
		s->out.v[k] = tm_xcalloc(SAMPLER_KEEP_MAX, sizeof *s->out.v[k]);
	if (start_thread(s)) {
		sampled_free(&s->out);
		release(s);
		return NULL;
	}
	return s;
}

static void order(struct sampler *s, enum window want)
{
	pthread_mutex_lock(&s->lock);
	if (want > s->want)
		s->want = want;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

void sampler_move(struct sampler *s, struct card_place at, uint64_t before_bytes)
{
	pthread_mutex_lock(&s->lock);
	s->move = true;
	s->to = at;
	s->to_before_bytes = before_bytes;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

void sampler_begin(struct sampler *s)
{
	order(s, OPEN);
}

void sampler_end(struct sampler *s)
{
	order(s, CLOSED);
}

/* One that hangs in the driver is left alone, with all that it uses: a few hundred kilobytes. */
void sampler_stop(struct sampler *s, struct sampled *out)
{
	struct timespec until;

	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += JOIN_S;
	if (pthread_timedjoin_np(s->thread, NULL, &until)) {
		pthread_detach(s->thread);
		*out = (struct sampled){ .joules = NAN, .activity = { NAN, NAN, NAN }, .lost = true };
		return;
	}
	*out = s->out;
	release(s);
}

void sampled_free(struct sampled *out)
{
	free(out->us);
	for (int k = 0; k < SAMPLED_N; k++)
		free(out->v[k]);
	*out = (struct sampled){ 0 };
}
