/* Short names of allocators (short.h). */
#include "spec/short.h"

#include <string.h>

const struct shorthand *short_find(const struct describe *d, const char *name)
{
	for (size_t i = 0; i < d->brief_n; i++)
		if (!strcmp(d->brief[i].name, name))
			return &d->brief[i];
	return NULL;
}

/* A value that nobody wrote, from the place of the one that brought it. */
static const struct value *text_value(struct doc *doc, const struct pdef *p, const char *text, struct place at)
{
	const struct val v = { .kind = VAL_TEXT, .s = text };
	const struct value *out = NULL;
	char why[200];

	return value_from_val(doc->a, p, &v, at, &out, why, sizeof why) ? NULL : out;
}

const struct shorthand *short_take(struct doc *doc, const struct wdef *w, const struct value **v)
{
	const struct value *allocator = w->allocator < 0 ? NULL : v[w->allocator];
	const struct shorthand *brief = allocator && w->alloc_conf >= 0 ? short_find(doc->describe, allocator->text) : NULL;

	if (brief)
		v[w->allocator] = text_value(doc, &w->p[w->allocator], brief->allocator, allocator->at);
	return brief;
}

/* What separates words of an option string (workloads/memory/conf.h). */
static bool is_separator(char c)
{
	return strchr(",:[] \t\r\n\v\f", c) != NULL;
}

static const char *next_word(const char *s, size_t *n)
{
	while (*s && is_separator(*s))
		s++;
	for (*n = 0; s[*n] && !is_separator(s[*n]);)
		++*n;
	return s;
}

/* What the string says for that key, as the last one counts; NULL: nothing. */
static const char *value_of(const char *conf, const char *key, size_t key_n, size_t *value_n)
{
	const char *found = NULL;
	size_t n;

	for (const char *s = next_word(conf, &n); n; s = next_word(s + n, &n)) {
		if (n != key_n || memcmp(s, key, n))
			continue;
		s = found = next_word(s + n, &n);
		*value_n = n;
	}
	return found;
}

int short_add(struct doc *doc, const struct wdef *w, const struct value **v, const struct shorthand *brief)
{
	const struct value *now = v[w->alloc_conf];
	const char *wanted = strchr(brief->conf, ':') + 1, *said;
	struct place at = *now->text ? now->at : v[w->allocator]->at;
	size_t key_n = (size_t)(wanted - 1 - brief->conf), said_n = 0;
	const struct value *both;

	said = value_of(now->text, brief->conf, key_n, &said_n);
	if (said && said_n == strlen(wanted) && !memcmp(said, wanted, said_n))
		return 0;
	if (said)
		return diag_at(doc->diag, at, "alloc_conf says %.*s:%.*s, but allocator %s is short for %s with %s; write allocator: %s, or leave that option out",
			       (int)key_n, brief->conf, (int)said_n, said, brief->name, brief->allocator, brief->conf, brief->allocator);
	both = text_value(doc, &w->p[w->alloc_conf],
			  *now->text ? arena_fmt(doc->a, "%s,%s", now->text, brief->conf) : brief->conf, at);
	if (!both)
		return diag_at(doc->diag, at, "alloc_conf is too long to add %s to it, which allocator %s stands for", brief->conf, brief->name);
	v[w->alloc_conf] = both;
	return 0;
}
