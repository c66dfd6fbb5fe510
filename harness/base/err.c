#include "base/err.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void fill(struct tm_err *err, int code, const char *src, int src_line,
		 const char *file, unsigned line, unsigned column, int sys,
		 const char *fmt, va_list ap)
{
	memset(err, 0, sizeof *err);
	err->code = code;
	err->sys = sys;
	err->src = src;
	err->src_line = src_line;
	err->line = line;
	err->column = column;
	if (file)
		snprintf(err->file, sizeof err->file, "%s", file);
	vsnprintf(err->text, sizeof err->text, fmt, ap);
}

int tm_err_set(struct tm_err *err, int code, const char *src, int src_line,
	       const char *fmt, ...)
{
	int sys = errno;
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	fill(err, code, src, src_line, NULL, 0, 0, sys, fmt, ap);
	va_end(ap);
	return code;
}

int tm_err_set_at(struct tm_err *err, int code, const char *src, int src_line,
		  const char *file, unsigned line, unsigned column,
		  const char *fmt, ...)
{
	int sys = errno;
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	fill(err, code, src, src_line, file, line, column, sys, fmt, ap);
	va_end(ap);
	return code;
}

void tm_errs_add(struct tm_errs *errs, const struct tm_err *err)
{
	if (errs->n >= TM_ERRS_MAX) {
		errs->n++;
		return;
	}
	if (errs->n == errs->cap) {
		errs->cap = errs->cap ? errs->cap * 2 : 4;
		errs->v = tm_xrealloc_n(errs->v, errs->cap, sizeof *errs->v);
	}
	errs->v[errs->n++] = *err;
}

void tm_errs_free(struct tm_errs *errs)
{
	free(errs->v);
	memset(errs, 0, sizeof *errs);
}

_Noreturn void tm_bug(const char *src, int line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "BUG at %s:%d: ", src, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("\nThis is a fault in tidemark; please report it with the command that led here.\n", stderr);
	fflush(stderr);
	_exit(-TM_EBUG);
}
