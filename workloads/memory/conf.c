/*
 * PyTorch cuts the string into words at , : [ ] and drops all white space.
 * Then it goes from key to key, and where a separator should be it only looks
 * whether there is any word. Both are kept, since a string that works there
 * must work here; the reader remarks on what came of it.
 */
#include "memory/conf_priv.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define PYTORCH_MINOR 11

int conf_minor(const struct conf_reader *r)
{
	return r->ctx->pytorch_minor ? r->ctx->pytorch_minor : PYTORCH_MINOR;
}

int conf_refuse(struct conf_reader *r, enum conf_verdict verdict, size_t at, const char *fmt, ...)
{
	static const char *const says[] = {
		[CONF_VALUE_ERROR] = "PyTorch raises a ValueError",
		[CONF_ASSERTION] = "PyTorch fails an internal assertion",
	};
	struct tm_str what = TM_STR_INIT;
	va_list ap;

	va_start(ap, fmt);
	tm_str_vaddf(&what, fmt, ap);
	va_end(ap);
	r->verdict = verdict;
	tm_fail_at(r->err, TM_EINVALID, NULL, 1, (unsigned)at + 1, "alloc_conf, character %zu: %s; %s", at + 1, what.s,
		   says[verdict]);
	tm_str_free(&what);
	return TM_EINVALID;
}

void conf_note(struct conf_reader *r, enum conf_note_kind kind, size_t at, const char *fmt, ...)
{
	struct tm_str what = TM_STR_INIT;
	va_list ap;

	if (!r->notes)
		return;
	va_start(ap, fmt);
	tm_str_vaddf(&what, fmt, ap);
	va_end(ap);
	r->notes->v = tm_xrealloc_n(r->notes->v, r->notes->n + 1, sizeof *r->notes->v);
	r->notes->v[r->notes->n++] = (struct conf_note){ .kind = kind, .at = at, .text = tm_str_detach(&what) };
}

void conf_notes_free(struct conf_notes *notes)
{
	for (size_t i = 0; i < notes->n; i++)
		free(notes->v[i].text);
	free(notes->v);
	*notes = (struct conf_notes){ 0 };
}

/* ---- words ---------------------------------------------------------------- */

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_mark(char c)
{
	return c == ',' || c == ':' || c == '[' || c == ']';
}

static void cut_words(struct conf_reader *r)
{
	size_t length = strlen(r->text);
	bool open = false, gap = false;
	char *to;

	/* Each byte gives at most one word, and each word ends with a byte more. */
	to = r->letters = tm_xmalloc(2 * length + 1);
	r->word = tm_xcalloc(length + 1, sizeof *r->word);
	for (size_t at = 0; at < length; at++) {
		char c = r->text[at];

		if (is_blank(c)) {
			gap = open;
			continue;
		}
		if (is_mark(c) || !open) {
			if (open)
				*to++ = '\0';
			r->word[r->n++] = (struct conf_word){ .at = at, .s = to };
		} else if (gap) {
			r->word[r->n - 1].gap = true;
		}
		*to++ = c;
		gap = false;
		open = !is_mark(c);
		if (!open)
			*to++ = '\0';
	}
	*to = '\0';
}

bool conf_is(const struct conf_reader *r, size_t i, const char *s)
{
	return i < r->n && strcmp(r->word[i].s, s) == 0;
}

int conf_separator(struct conf_reader *r, const char *want)
{
	size_t end = r->n ? r->word[r->n - 1].at + strlen(r->word[r->n - 1].s) : 0;

	if (r->i >= r->n)
		return conf_refuse(r, CONF_ASSERTION, end, "the string ends where '%s' was expected", want);
	if (!conf_is(r, r->i, want))
		conf_note(r, CONF_LENIENT, r->word[r->i].at, "\"%s\" stands where '%s' was expected, and PyTorch takes it for one",
			  r->word[r->i].s, want);
	r->i++;
	return 0;
}

/* ---- keys ----------------------------------------------------------------- */

static const struct conf_key *find_key(const char *name)
{
	for (size_t i = 0; i < conf_key_n; i++)
		if (strcmp(conf_key[i].name, name) == 0 || (conf_key[i].alias && strcmp(conf_key[i].alias, name) == 0))
			return &conf_key[i];
	return NULL;
}

static const char *nearest_key(const char *name)
{
	const char **names = tm_xcalloc(conf_key_n, sizeof *names), *near;

	for (size_t i = 0; i < conf_key_n; i++)
		names[i] = conf_key[i].name;
	near = tm_nearest(name, names, conf_key_n);
	free(names);
	return near;
}

/* Seen in recipes and posts, but in no PyTorch that reads them. */
static const char *known_stranger(const char *name)
{
	static const struct { const char *name, *what; } strangers[] = {
		{ "expandable_segments_page_size", "pages follow large_segment_size_mb" },
		{ "roundup_bypass_threshold_mb", "it was replaced by roundup_power2_divisions" },
		{ "pinned_max_cachesize_mb", "it was proposed, but is in no release" },
	};

	for (size_t i = 0; i < TM_ARRAY_N(strangers); i++)
		if (strcmp(strangers[i].name, name) == 0)
			return strangers[i].what;
	return NULL;
}

static int unknown_key(struct conf_reader *r)
{
	const struct conf_word *w = &r->word[r->i];
	const char *equal = strchr(w->s, '='), *near, *what;
	char *head;
	int rc;

	if (is_mark(*w->s))
		return conf_refuse(r, CONF_VALUE_ERROR, w->at, "'%c' where an option's name was expected", *w->s);
	head = tm_xstrndup(w->s, equal ? (size_t)(equal - w->s) : strlen(w->s));
	near = find_key(head) ? head : nearest_key(head);
	what = known_stranger(head);
	if (what)
		rc = conf_refuse(r, CONF_VALUE_ERROR, w->at, "PyTorch has no option \"%.64s\": %s", head, what);
	else if (equal && near)
		rc = conf_refuse(r, CONF_VALUE_ERROR, w->at, "\"%.64s\" is one word; write %s:%.64s", w->s, near, equal + 1);
	else if (near)
		rc = conf_refuse(r, CONF_VALUE_ERROR, w->at, "there is no option \"%.64s\"; did you mean \"%s\"?", head, near);
	else
		rc = conf_refuse(r, CONF_VALUE_ERROR, w->at, "there is no option \"%.64s\"", head);
	free(head);
	return rc;
}

/* Before the reading of a key's value: what can be said about its being there. */
static void remark_key(struct conf_reader *r, const struct conf_key *key, bool seen)
{
	const struct conf_word *w = &r->word[r->i];

	if (seen)
		conf_note(r, CONF_LENIENT, w->at, "%s is given twice; the last one counts", key->name);
	if (w->gap)
		conf_note(r, CONF_LENIENT, w->at, "white space inside a name is dropped: %s", key->name);
	if (key->since_minor > conf_minor(r))
		conf_note(r, CONF_VERSION, w->at, "%s is not in PyTorch 2.%d, which refuses it; 2.%d or later is needed",
			  key->name, conf_minor(r), key->since_minor);
	if (key->inert)
		conf_note(r, CONF_INERT, w->at, "%s changes nothing here: %s", key->name, key->inert);
}

/* The value behind the key; *seen of each key is kept by the caller. */
static int read_key(struct conf_reader *r, bool *seen)
{
	const struct conf_key *key = find_key(r->word[r->i].s);
	int rc;

	if (!key)
		return unknown_key(r);
	remark_key(r, key, seen[key - conf_key]);
	seen[key - conf_key] = true;
	r->i++;
	rc = conf_separator(r, ":");
	if (rc)
		return rc;
	if (r->i >= r->n)
		return conf_refuse(r, CONF_ASSERTION, strlen(r->text), "%s has no value", key->name);
	rc = key->read(r, key);
	r->i++;
	return rc;
}

/*
 * Sizes of other options are checked against that of large segments wherever
 * it stands, so it is read first. What is wrong with it is said in the second pass.
 */
static void read_large_first(struct conf_reader *r)
{
	struct conf_notes *notes = r->notes;
	struct tm_err *err = r->err;

	r->notes = NULL;
	r->err = NULL;
	for (r->i = 0; r->i < r->n; r->i++) {
		const struct conf_key *key = find_key(r->word[r->i].s);

		if (key && strcmp(key->name, "large_segment_size_mb") == 0 && r->i + 2 < r->n) {
			r->i += 2;
			(void)key->read(r, key);
		} else if (key && conf_is(r, r->i + 2, "[")) {
			while (r->i < r->n && !conf_is(r, r->i, "]"))
				r->i++;
		} else {
			r->i += 2;
		}
		r->i++;                   /* the separator */
	}
	r->i = 0;
	r->notes = notes;
	r->err = err;
	r->verdict = CONF_ACCEPTED;
}

/* ---- what the options mean together ---------------------------------------- */

static size_t place_of(const struct conf_reader *r, const char *name)
{
	for (size_t i = 0; i < r->n; i++)
		if (conf_is(r, i, name))
			return r->word[i].at;
	return 0;
}

static void remark_together(struct conf_reader *r, const bool *seen)
{
	struct conf *c = &r->conf;

	for (size_t i = 0; i < conf_key_n && c->backend == CONF_ASYNC; i++)
		if (seen[i] && conf_key[i].native_only)
			conf_note(r, CONF_INERT, place_of(r, conf_key[i].name),
				  "%s changes nothing with backend:cudaMallocAsync", conf_key[i].name);
	if (c->backend == CONF_ASYNC)
		return;
	if (c->expandable && r->ctx->no_expand) {
		c->expandable = false;
		conf_note(r, CONF_INERT, place_of(r, "expandable_segments"),
			  "expandable_segments is taken as False: the device cannot map memory apart from addresses");
	}
	if (c->gc_threshold > 0 && !r->ctx->limited && c->fraction >= 1)
		conf_note(r, CONF_INERT, place_of(r, "garbage_collection_threshold"),
			  "garbage_collection_threshold changes nothing without a memory limit (a cap, or per_process_memory_fraction below 1)");
	if (c->gc_threshold > 0 && c->expandable)
		conf_note(r, CONF_INERT, place_of(r, "garbage_collection_threshold"),
			  "garbage_collection_threshold never collects memory of expandable_segments");
	if (c->max_split_bytes == CONF_UNLIMITED && c->max_non_split_rounding_bytes != c->large_segment_bytes)
		conf_note(r, CONF_INERT, place_of(r, "max_non_split_rounding_mb"),
			  "max_non_split_rounding_mb changes nothing without max_split_size_mb");
	if (c->max_split_bytes != CONF_UNLIMITED && c->expandable)
		conf_note(r, CONF_HARMFUL, place_of(r, "max_split_size_mb"),
			  "max_split_size_mb hides large free blocks of expandable_segments from smaller requests, so that reserved memory can grow without bound");
	if (c->throw_on_oom && !r->ctx->limited && c->fraction >= 1)
		conf_note(r, CONF_INERT, place_of(r, "throw_on_cudamalloc_oom"),
			  "throw_on_cudamalloc_oom changes nothing without a memory limit");
}

/* ---- the whole ------------------------------------------------------------- */

void conf_default(struct conf *out)
{
	*out = (struct conf){
		.max_split_bytes = CONF_UNLIMITED,
		.max_non_split_rounding_bytes = 20ull << 20,
		.large_segment_bytes = 20ull << 20,
		.fraction = 1,
		.pinned_threads = 1,
	};
}

/* What every change at run time takes back to its default. */
static void forget(struct conf *conf)
{
	conf->max_split_bytes = CONF_UNLIMITED;
	conf->gc_threshold = 0;
	memset(conf->roundup, 0, sizeof conf->roundup);
}

static int read_all(struct conf_reader *r)
{
	bool *seen = tm_xcalloc(conf_key_n, sizeof *seen);
	int rc = 0;

	read_large_first(r);
	r->conf.max_non_split_rounding_bytes = r->conf.large_segment_bytes;
	while (!rc && r->i < r->n) {
		rc = read_key(r, seen);
		if (!rc && r->i < r->n)
			rc = conf_separator(r, ",");
	}
	if (!rc)
		remark_together(r, seen);
	free(seen);
	return rc;
}

int conf_read(const char *text, const struct conf_context *ctx, struct conf *conf, enum conf_verdict *verdict,
	      struct conf_notes *notes, struct tm_err *err)
{
	struct conf_reader r = { .text = text, .ctx = ctx, .notes = notes, .err = err };
	int rc;

	if (ctx->runtime) {
		r.conf = *conf;
		forget(&r.conf);
	} else {
		conf_default(&r.conf);
	}
	cut_words(&r);
	rc = read_all(&r);
	if (!rc && ctx->runtime && r.conf.backend != conf->backend)
		rc = conf_refuse(&r, CONF_ASSERTION, place_of(&r, "backend"), "backend cannot be changed at run time");
	if (!rc)
		*conf = r.conf;
	if (verdict)
		*verdict = r.verdict;
	free(r.word);
	free(r.letters);
	return rc;
}
