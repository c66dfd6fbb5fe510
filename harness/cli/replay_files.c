/* The files to replay: those named, and in a folder those that look like recordings. */
#include "cli/replay.h"

#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILES_MAX 4096

/* What PyTorch's users call them, whole or packed. */
static bool has_ending(const char *name, const char *const *endings, size_t n)
{
	static const char *const packed[] = { ".xz", ".gz", ".zst" };
	char *base = tm_xstrdup(name);
	bool is = false;

	for (size_t i = 0; i < TM_ARRAY_N(packed); i++)
		if (tm_ends_with(base, packed[i]))
			base[strlen(base) - strlen(packed[i])] = '\0';
	for (size_t i = 0; i < n; i++)
		is |= tm_ends_with(base, endings[i]);
	free(base);
	return is && name[0] != '.';
}

static int is_pickle(const struct dirent *e)
{
	static const char *const endings[] = { ".pickle", ".pkl", ".snapshot" };

	return has_ending(e->d_name, endings, TM_ARRAY_N(endings));
}

static int is_json(const struct dirent *e)
{
	static const char *const endings[] = { ".json", ".jsonl" };

	return has_ending(e->d_name, endings, TM_ARRAY_N(endings));
}

static int add(struct cli *cli, struct replay_view *v, char *path)
{
	for (size_t i = 0; i < v->file_n; i++) {
		if (strcmp(v->files[i], path))
			continue;
		free(path);
		return 0;
	}
	v->files = tm_xrealloc_n(v->files, v->file_n + 1, sizeof *v->files);
	v->files[v->file_n++] = path;
	if (!tm_utf8_valid(path, strlen(path)))
		return tm_fail(&cli->err, TM_EINPUT, "the name of a file is no UTF-8; rename it");
	if (v->file_n > FILES_MAX)
		return tm_fail(&cli->err, TM_EINPUT, "more than %d files at once", FILES_MAX);
	return 0;
}

/* "rank2" before "rank10": runs of digits count as numbers. */
static int by_number(const struct dirent **x, const struct dirent **y)
{
	const char *a = (*x)->d_name, *b = (*y)->d_name;

	return strverscmp(a, b);
}

/* JSON only where there is nothing else: beside snapshots it is mostly somebody's settings. */
static int add_folder(struct cli *cli, const char *dir, struct replay_view *v)
{
	struct dirent **e = NULL;
	int n = scandir(dir, &e, is_pickle, by_number), rc = 0;

	if (n == 0) {
		free(e);
		n = scandir(dir, &e, is_json, by_number);
	}
	if (n < 0)
		return tm_fail_at(&cli->err, TM_EINPUT, dir, 0, 0, "this folder cannot be read: %s", strerror(errno));
	for (int i = 0; i < n; i++) {
		if (!rc)
			rc = add(cli, v, tm_path_join(dir, e[i]->d_name));
		free(e[i]);
	}
	free(e);
	if (!n)
		rc = tm_fail_at(&cli->err, TM_EINPUT, dir, 0, 0, "no recordings in this folder: none ends in .pickle, .pkl, .snapshot, "
				".json or .jsonl (also with .xz, .gz or .zst behind it)");
	return rc;
}

int replay_find_files(struct cli *cli, int argc, char **argv, struct replay_view *v)
{
	int rc = 0;

	for (int i = 0; i < argc && !rc; i++) {
		struct stat st;

		/* what is not there is said by whoever reads it, and the others go on */
		if (!stat(argv[i], &st) && S_ISDIR(st.st_mode))
			rc = add_folder(cli, argv[i], v);
		else
			rc = add(cli, v, tm_xstrdup(argv[i]));
	}
	return rc;
}
