/* The plots of a report, in the order of the page. A new one is one line in each half. */
#include "draw/plot.h"

#include <string.h>

extern const struct plot plot_front, plot_map, plot_category, plot_timeline, plot_steps, plot_loss, plot_ops;

const struct plot *const plots[] = {
	&plot_front,
	&plot_map,
	&plot_category,
	&plot_timeline,
	&plot_steps,
	&plot_ops,
	&plot_loss,
	NULL,
};

const char *plot_file(const char *name)
{
	for (const struct plot_file *f = plot_files; f->name; f++)
		if (!strcmp(f->name, name))
			return f->text;
	return NULL;
}
