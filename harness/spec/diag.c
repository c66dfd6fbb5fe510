#include "spec/diag.h"

#include "base/str.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void diag_init(struct diag *d, struct tm_errs *errs)
{
	memset(d, 0, sizeof *d);
	d->errs = errs;
	diag_source(d, "default", false);
}

void diag_fini(struct diag *d)
{
	arena_free(&d->arena);
}

uint32_t diag_source(struct diag *d, const char *name, bool flag)
{
	d->source = arena_grow(&d->arena, d->source, d->source_n, &d->source_cap, sizeof *d->source);
	d->source[d->source_n] = (struct source){ .name = arena_str(&d->arena, name), .flag = flag };
	return (uint32_t)d->source_n++;
}

/* Errors beyond what is kept need no words: a file of 5,000 wrong keys is answered as fast as one. */
static bool full(const struct diag *d)
{
	return d->errs->n >= TM_ERRS_MAX;
}

int diag_at(struct diag *d, struct place at, const char *fmt, ...)
{
	struct tm_err err = { 0 };
	char text[sizeof err.text];
	va_list ap;

	if (full(d)) {
		tm_errs_add(d->errs, &err);      /* only counted */
		return TM_ESPEC;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (d->source[at.src].flag)
		at.line = at.column = 0;         /* the flag itself is shown; it has no lines */
	tm_fail_at(&err, TM_ESPEC, at.src ? d->source[at.src].name : NULL, at.line, at.column, "%s", text);
	err.sys = 0;
	/* One mistake seen from two sides is one message. */
	for (size_t i = 0; i < d->errs->n; i++) {
		const struct tm_err *e = &d->errs->v[i];

		if (e->line == err.line && e->column == err.column && !strcmp(e->file, err.file) &&
		    !strcmp(e->text, err.text))
			return TM_ESPEC;
	}
	tm_errs_add(d->errs, &err);
	return TM_ESPEC;
}

void diag_warn(struct diag *d, const char *fmt, ...)
{
	struct tm_str str = TM_STR_INIT;
	va_list ap;

	va_start(ap, fmt);
	tm_str_vaddf(&str, fmt, ap);
	va_end(ap);
	d->warning = arena_grow(&d->arena, d->warning, d->warning_n, &d->warning_cap, sizeof *d->warning);
	d->warning[d->warning_n++] = arena_strn(&d->arena, str.s, str.n);
	tm_str_free(&str);
}

bool diag_is_flag(const struct diag *d, struct place at)
{
	return d->source[at.src].flag;
}

const char *diag_origin(struct diag *d, struct place at)
{
	const struct source *s = &d->source[at.src];

	if (s->flag)
		return arena_fmt(&d->arena, "flag %.*s", (int)strcspn(s->name, " "), s->name);
	if (at.line)
		return arena_fmt(&d->arena, "%s:%u", s->name, at.line);
	return s->name;
}

const char *diag_near(struct diag *d, const char *word, const char *const *known, size_t n)
{
	const char *near = !full(d) && strlen(word) < 80 ? tm_nearest(word, known, n) : NULL;

	return near ? arena_fmt(&d->arena, "; did you mean '%s'?", near) : "";
}

const char *diag_list(struct diag *d, const char *const *words, size_t n)
{
	struct tm_str str = TM_STR_INIT;
	size_t shown = n > 20 ? 20 : n;
	const char *text;

	if (full(d))
		return "";
	for (size_t i = 0; i < shown; i++) {
		if (i)
			tm_str_add(&str, i + 1 == n ? " or " : ", ");
		tm_str_add(&str, words[i]);
	}
	if (shown < n)
		tm_str_addf(&str, " and %zu more", n - shown);
	text = arena_strn(&d->arena, str.s, str.n);
	tm_str_free(&str);
	return text;
}

const char *diag_number(struct diag *d, uint64_t v)
{
	char digits[24], *out = arena_alloc(&d->arena, 32), *p = out;
	int n = snprintf(digits, sizeof digits, "%" PRIu64, v);

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*p++ = ',';
		*p++ = digits[i];
	}
	return out;
}

const char *diag_quote(struct diag *d, const char *text)
{
	struct tm_str shown = TM_STR_INIT;
	size_t n = strlen(text), cut = n > 60 ? 57 : n;
	char *out;

	if (full(d))
		return "";
	/* not in the middle of a UTF-8 sequence */
	while (cut && cut < n && ((unsigned char)text[cut] & 0xc0) == 0x80)
		cut--;
	tm_utf8_show_line(&shown, text, cut);
	if (cut < n)
		tm_str_add(&shown, "...");
	out = arena_alloc(&d->arena, shown.n + 1);
	memcpy(out, shown.s, shown.n + 1);
	tm_str_free(&shown);
	return out;
}
