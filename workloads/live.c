#include "live.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct group {
	char *name;
	const char *op;
	enum mem_category category;
	uint64_t blocks, bytes;
};

/* Parts between dots that are numbers become stars. New text. */
static char *without_layers(const char *name)
{
	char *out = tm_xstrdup(name), *to = out;

	for (const char *part = name; *part; part += strcspn(part, ".") + (part[strcspn(part, ".")] == '.')) {
		size_t n = strcspn(part, ".");

		if (n && strspn(part, "0123456789") == n) {
			*to++ = '*';
		} else {
			memcpy(to, part, n);
			to += n;
		}
		if (part[n] == '.')
			*to++ = '.';
	}
	*to = '\0';
	return out;
}

static int by_tensor(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	if (!c)
		c = strcmp(x->op, y->op);
	return c ? c : (int)x->category - (int)y->category;
}

static int by_bytes(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return by_tensor(a, b);
}

/* Groups of the snapshot differ by phase and layer too; those are put together. */
static size_t gather(const struct mem *mem, struct group **out)
{
	struct mem_snapshot *peak = mem_snapshot_peak(mem);
	struct mem_stayed *fine = NULL;
	size_t n = mem_snapshot_diff(NULL, peak, &fine), groups = 0;
	struct group *v = tm_xcalloc(n ? n : 1, sizeof *v);

	for (size_t i = 0; i < n; i++)
		v[i] = (struct group){
			.name = without_layers(fine[i].name), .op = fine[i].op, .category = fine[i].category,
			.blocks = fine[i].blocks, .bytes = fine[i].bytes,
		};
	qsort(v, n, sizeof *v, by_tensor);
	for (size_t i = 0; i < n; i++) {
		if (groups && by_tensor(&v[groups - 1], &v[i]) == 0) {
			v[groups - 1].blocks += v[i].blocks;
			v[groups - 1].bytes += v[i].bytes;
			free(v[i].name);
		} else {
			v[groups++] = v[i];
		}
	}
	qsort(v, groups, sizeof *v, by_bytes);
	free(fine);
	mem_snapshot_free(peak);
	*out = v;
	return groups;
}

static json_t *entry(const char *name, const char *op, const char *category, uint64_t blocks, uint64_t bytes)
{
	return json_pack("{s:s, s:s, s:s, s:I, s:I}", "name", name, "op", op, "category", category,
			 "blocks", (json_int_t)blocks, "bytes", (json_int_t)bytes);
}

json_t *live_at_peak(const struct mem *mem, size_t most)
{
	json_t *list = json_array();
	struct group *v;
	size_t n = gather(mem, &v);
	uint64_t blocks = 0, bytes = 0;

	for (size_t i = 0; i < n; i++) {
		if (i < most) {
			json_array_append_new(list, entry(v[i].name, v[i].op, mem_category_name[v[i].category],
							  v[i].blocks, v[i].bytes));
		} else {
			blocks += v[i].blocks;
			bytes += v[i].bytes;
		}
		free(v[i].name);
	}
	if (n > most)
		json_array_append_new(list, entry("other", "", "", blocks, bytes));
	free(v);
	return list;
}
