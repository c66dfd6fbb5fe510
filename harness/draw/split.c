#include "draw/split.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* SIZE_MAX: it belongs to another part. */
static size_t index_of(const struct draw_sweep *t, int64_t config_id)
{
	for (size_t k = 0; k < t->config_n; k++)
		if (t->configs[k].id == config_id)
			return k;
	return SIZE_MAX;
}

/* The configurations of one workload, and their runs with indices that fit. */
static void fill(struct draw_part *part, const struct draw_sweep *s)
{
	struct draw_sweep *t = &part->sweep;

	*t = *s;
	t->configs = tm_xcalloc(s->config_n, sizeof(*t->configs));
	t->runs = tm_xcalloc(s->run_n + 1, sizeof(*t->runs));
	t->config_n = t->run_n = t->varying_n = 0;
	t->varying = NULL;
	for (size_t i = 0; i < s->config_n; i++) {
		if (strcmp(s->configs[i].workload, part->name))
			continue;
		t->configs[t->config_n] = s->configs[i];
		t->configs[t->config_n++].shown = NULL;
	}
	draw_vary(t);
	for (size_t i = 0; i < s->run_n; i++) {
		const struct draw_config *whole = &s->configs[s->runs[i].config];
		size_t k = index_of(t, whole->id);

		if (k == SIZE_MAX)
			continue;
		t->runs[t->run_n] = s->runs[i];
		t->runs[t->run_n].config = k;
		if (whole->first_run == i)
			t->configs[k].first_run = t->run_n;
		t->run_n++;
	}
}

size_t draw_split(const struct draw_sweep *s, struct draw_part **out)
{
	size_t n = 0;

	*out = NULL;
	for (size_t i = 0; i < s->config_n; i++) {
		bool seen = false;

		for (size_t k = 0; k < n && !seen; k++)
			seen = !strcmp((*out)[k].name, s->configs[i].workload);
		if (seen)
			continue;
		*out = tm_xrealloc_n(*out, n + 1, sizeof(**out));
		(*out)[n].name = s->configs[i].workload;
		fill(&(*out)[n++], s);
	}
	return n;
}

void draw_parts_free(struct draw_part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct draw_sweep *t = &parts[i].sweep;

		for (size_t k = 0; k < t->config_n; k++)
			free(t->configs[k].shown);
		for (size_t k = 0; k < t->varying_n; k++)
			free(t->varying[k]);
		free(t->varying);
		free(t->configs);
		free(t->runs);
	}
	free(parts);
}
