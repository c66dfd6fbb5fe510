/*
 * A plot answers one question about a sweep with zero or more pictures. One
 * C file prepares the data, one template under plots/ draws it, one word in
 * plots.c makes it known; docs/report.md shows how.
 */
#ifndef TM_DRAW_PLOT_H
#define TM_DRAW_PLOT_H

#include "draw/data.h"
#include "draw/tsv.h"

#define PICTURE_ARGS 16
#define PICTURE_WIDTH 900                 /* pixels; pages are made for it */
#define PICTURE_FONT 13.0                 /* pixels; what the templates use */

struct picture {
	char name[32];                    /* of its files; ours, never a label */
	const char *template;             /* name of the file under plots/, without .gp */
	struct tm_str heading;            /* what tells it from its sisters; may be empty */
	struct tm_str caption;            /* what is shown, in sentences */
	unsigned height;                  /* pixels */
	unsigned left, right, top, bottom;        /* margins around the plotted area, pixels */
	struct tsv data, more;            /* `more`: labels and the like; may be empty */
	double args[PICTURE_ARGS];        /* the template's num(1), num(2) … */
	size_t arg_n;
};

struct pictures { struct picture *v; size_t n; };

struct plot {
	const char *name;                 /* also the anchor in the page */
	const char *title;                /* heading and entry in the list of contents */
	const char *question;             /* what it answers; the template draws it as the picture's title */
	const char *reading;              /* how to read it, one or two sentences */
	bool replay;                      /* of sweeps of replays; else of runs */
	/* Appends its pictures; none where the sweep has no such data. 0, TM_ESTORE. */
	int (*make)(const struct draw_sweep *s, struct pictures *out, struct tm_err *err);
};

/* plots.c: in the order of the page, NULL-terminated. */
extern const struct plot *const plots[];

/* plots/NAME.gp as compiled in, NULL: there is none. `common` is put before each. */
struct plot_file { const char *name; const char *text; };
extern const struct plot_file plot_files[];       /* generated; name NULL ends it */
const char *plot_file(const char *name);

/* A new picture with default margins; the pointer holds until the next call. number 0: name alone. */
struct picture *picture_add(struct pictures *p, const char *name, unsigned number, const char *template);
void picture_arg(struct picture *p, double v);
void pictures_free(struct pictures *p);

/* Power of 1024 in which a largest value reads well: 0 B … 3 GiB. */
int picture_byte_power(double max_bytes);
double picture_byte_scale(int power);

/* Width of the plotted area, pixels. */
double picture_inner_width(const struct picture *p);
double picture_inner_height(const struct picture *p);

/* "1 234 567": thin groups for people. */
void picture_count_text(double v, struct tm_str *out);

/* One row of bars per entry: sets height and the left margin from the widest label (at most two fifths). */
void picture_rows(struct picture *p, const struct tm_str *labels, size_t n);
/* Makes room above for a horizontal key with these names; after picture_rows. */
void picture_key(struct picture *p, const char *const *names, size_t n);

/* The failed run that stands for a configuration, as words: "OOM (cap): attention asked for 64 MiB". */
void picture_failure_text(const struct draw_run *run, struct tm_str *out);
/* Bytes a failed run wanted when it died (reserved, else allocated, + asked); NaN if unknown. */
double picture_failure_bytes(const struct draw_run *run);

/* Colours as numbers for `lc rgb variable`; Okabe & Ito 2008. */
enum { COLOUR_BLUE = 0x0072b2, COLOUR_ORANGE = 0xe69f00, COLOUR_GREEN = 0x009e73, COLOUR_PINK = 0xcc79a7,
       COLOUR_SKY = 0x56b4e9, COLOUR_RED = 0xd55e00, COLOUR_YELLOW = 0xf0e442, COLOUR_GREY = 0x8c8c8c };
extern const int picture_colours[8];
/* A fixed colour for each category of memory and phase, so that it means the same in every picture. */
int picture_category_colour(const char *category);
/* The categories that have one, in the order of stacks and keys; NULL ends the list. */
extern const char *const picture_categories[];
int picture_phase_colour(const char *phase, size_t i);

#endif
