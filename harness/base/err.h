/*
 * Errors travel upwards as a negative code; what happened and where is in a
 * struct tm_err that the caller passes in. Only the command line prints and
 * exits. A code of -10 and below is the negated exit code of the program
 * (docs/exit-codes.md), so that the mapping needs no table.
 *
 * Every function that takes a `struct tm_err *` accepts NULL: then only the
 * code comes back.
 */
#ifndef TM_ERR_H
#define TM_ERR_H

#include <stdarg.h>
#include <stddef.h>

enum tm_code {
	TM_OK = 0,
	/* inside one process; never an exit code */
	TM_ENOMEM = -1,
	TM_EIO = -2,
	TM_EOOM = -3,          /* device memory: refused by the driver or by a cap */
	TM_EINVALID = -4,      /* a run that did not do its work */
	TM_ENOTFOUND = -5,
	/* what the program exits with, negated */
	TM_EREGRESSED = -10,
	TM_EUNSURE = -11,
	TM_ESTATUS = -12,
	TM_ESPEC = -20,
	TM_EENV = -21,
	TM_ESTORE = -22,
	TM_EINPUT = -23,
	TM_ENONE = -24,
	TM_EUSAGE = -64,
	TM_EUNAVAILABLE = -69,
	TM_EBUG = -70,
	TM_EINTR = -130,
	TM_ETERM = -143,
};

struct tm_err {
	int code;                /* enum tm_code; 0: nothing set */
	int sys;                 /* errno at the time, or 0 */
	unsigned line, column;   /* in `file`, from 1; 0: unknown */
	char file[256];          /* the user's file that is at fault, or "" */
	char text[768];          /* one sentence, without a final full stop or newline */
	const char *src;         /* our own source file and line, for -v */
	int src_line;
};

/*
 * Records `code` and the formatted text, keeps errno, returns `code`.
 * Text that does not fit is cut.
 */
#define tm_fail(err, code, ...) \
	tm_err_set((err), (code), __FILE__, __LINE__, __VA_ARGS__)
int tm_err_set(struct tm_err *err, int code, const char *src, int src_line,
	       const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The same with the place in a user's file; `file` may be NULL. */
#define tm_fail_at(err, code, file, line, column, ...) \
	tm_err_set_at((err), (code), __FILE__, __LINE__, (file), (line), (column), __VA_ARGS__)
int tm_err_set_at(struct tm_err *err, int code, const char *src, int src_line,
		  const char *file, unsigned line, unsigned column,
		  const char *fmt, ...) __attribute__((format(printf, 8, 9)));

/* Several errors at once (a spec reports all it can find). Zero-initialise. */
struct tm_errs {
	struct tm_err *v;
	size_t n, cap;
};

/* Appends a copy; after TM_ERRS_MAX further ones are counted but not kept. */
#define TM_ERRS_MAX 32
void tm_errs_add(struct tm_errs *errs, const struct tm_err *err);
void tm_errs_free(struct tm_errs *errs);

/*
 * A broken assumption of ours: prints expression and place to stderr and
 * ends the process with 70. For the user's mistakes use tm_fail.
 */
#define BUG(...) tm_bug(__FILE__, __LINE__, __VA_ARGS__)
_Noreturn void tm_bug(const char *src, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#define BUG_ON(cond) do { if (cond) BUG("%s", #cond); } while (0)

#endif
