/*
 * gnuplot as an external program that is not trusted to succeed. It may be
 * absent, built without the terminal we want, print warnings, hang, or leave
 * an empty file and exit 0; each comes back as one sentence.
 *
 * What runs is always `gnuplot -d -c TEMPLATE ARG…`: -d so that no start-up
 * file is read, a template that is a constant of this program, arguments that
 * are file names and numbers of ours. Text reaches gnuplot only in data files.
 */
#ifndef TM_DRAW_GNUPLOT_H
#define TM_DRAW_GNUPLOT_H

#include "base/err.h"

#include <stdint.h>

enum gnuplot_terminal { GNUPLOT_NONE, GNUPLOT_SVG, GNUPLOT_PNGCAIRO, GNUPLOT_PNG };

struct gnuplot {
	char *path;                       /* absolute; NULL: there is none */
	enum gnuplot_terminal terminal;   /* the best that this build lists */
	int64_t limit_us;                 /* of one call; 30 s */
	char why[256];                    /* terminal NONE: the reason and what to do */
};

/*
 * Finds the program (`given`, or on PATH) and asks it for its terminals, in
 * the folder `dir`. Never fails: what is wrong is in ->why.
 */
void gnuplot_open(struct gnuplot *g, const char *given, const char *dir);
void gnuplot_close(struct gnuplot *g);

/* "svg" or "png": the ending of its files. */
const char *gnuplot_ending(const struct gnuplot *g);

/*
 * Runs it in `dir` with arguments args[0] … (NULL-terminated, without the
 * program's name), stdin closed to input, an environment of its own with HOME =
 * dir, 1 GiB of memory, 64 MiB a file. 0, or TM_EUNAVAILABLE with a sentence.
 */
int gnuplot_run(const struct gnuplot *g, const char *dir, const char *const *args, struct tm_err *err);

/*
 * 0 if the bytes are a whole PNG file that is no mere frame: signature, end chunk, and more
 * bytes than an empty picture has; else TM_EUNAVAILABLE with a sentence.
 */
int gnuplot_png_check(const char *p, size_t n, struct tm_err *err);

#endif
