/* The plots of a report, in the order of the page. */
#include "draw/plot.h"

#include <string.h>

/* One word a plot: plot_NAME.c defines plot_NAME. */
#define PLOTS(X) X(front) X(waterfall) X(map) X(category) X(timeline) X(steps) X(ops) X(loss) \
	X(replay_course) X(replay_map)

#define X(name) extern const struct plot plot_##name;
PLOTS(X)
#undef X

const struct plot *const plots[] = {
#define X(name) &plot_##name,
	PLOTS(X)
#undef X
	NULL,
};

const char *plot_file(const char *name)
{
	for (const struct plot_file *f = plot_files; f->name; f++)
		if (!strcmp(f->name, name))
			return f->text;
	return NULL;
}
