/*
 * Text as tokens: the bytes of a file, or of the regular files directly in a
 * folder in the order of their names, with SEP between two of them.
 */
#include "train/data_source.h"

#include "base/file.h"
#include "base/mem.h"
#include "train/data.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct files {
	char **path;
	size_t n;
	uint64_t bytes;                   /* with a separator between two files */
};

static void files_free(struct files *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->path[i]);
	free(f->path);
}

static int look_at(struct files *f, const char *path, const struct stat *st, struct tm_err *err)
{
	if (access(path, R_OK))
		return tm_fail(err, TM_EINVALID, "data %s cannot be read: %s", path, strerror(errno));
	if (!st->st_size)
		return 0;
	if ((uint64_t)st->st_size + (f->n > 0) > DATA_TEXT_MAX_BYTES - f->bytes)
		return tm_fail(err, TM_EINVALID, "data %s: more than %llu MiB of text", path, DATA_TEXT_MAX_BYTES >> 20);
	f->path = tm_xrealloc_n(f->path, f->n + 1, sizeof *f->path);
	f->path[f->n] = tm_xstrdup(path);
	f->bytes += (uint64_t)st->st_size + (f->n > 0);
	f->n++;
	return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);      /* not alphasort: that asks the locale */
}

static int visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static int look_into(struct files *f, const char *dir, struct tm_err *err)
{
	struct dirent **e;
	int n = scandir(dir, &e, visible, by_name), rc = 0;

	if (n < 0)
		return tm_fail(err, TM_EINVALID, "data folder %s cannot be read: %s", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		char *path = tm_path_join(dir, e[i]->d_name);
		struct stat st;

		if (!rc && !lstat(path, &st) && S_ISREG(st.st_mode))
			rc = look_at(f, path, &st, err);
		free(path);
		free(e[i]);
	}
	free(e);
	return rc;
}

/* The files of a text, by name; on an error *f is as it was. */
static int find_files(struct files *f, const char *path, struct tm_err *err)
{
	struct stat st;
	int rc;

	*f = (struct files){ 0 };
	if (!*path)
		return tm_fail(err, TM_EINVALID, "data text: has no path; write text:FILE or text:FOLDER");
	if (stat(path, &st))
		return tm_fail(err, TM_EINVALID, "data %s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		rc = look_into(f, path, err);
	else if (S_ISREG(st.st_mode))
		rc = look_at(f, path, &st, err);
	else
		rc = tm_fail(err, TM_EINVALID, "data %s is neither a file nor a folder", path);
	if (!rc && !f->n)
		rc = tm_fail(err, TM_EINVALID, "data %s is empty%s", path,
			     S_ISDIR(st.st_mode) ? ": no regular file with text lies directly in it (links are not followed)"
						 : "");
	if (rc) {
		files_free(f);
		*f = (struct files){ 0 };
	}
	return rc;
}

static int long_enough(const char *path, uint64_t bytes, size_t files, int64_t window, struct tm_err *err)
{
	if (bytes >= (uint64_t)window)
		return 0;
	return tm_fail(err, TM_EINVALID, "data %s is too short: %" PRIu64 " bytes in %zu file%s, but a sample needs %"
		       PRId64 "; give more text or a smaller seq", path, bytes, files, files == 1 ? "" : "s", window);
}

int text_check(const char *path, int64_t window, struct tm_err *err)
{
	struct files f;
	int rc = find_files(&f, path, err);

	if (!rc)
		rc = long_enough(path, f.bytes, f.n, window, err);
	files_free(&f);
	return rc;
}

int text_read(const char *path, int64_t window, struct source *out, struct tm_err *err)
{
	struct tm_str s = TM_STR_INIT;
	struct files f;
	int rc = find_files(&f, path, err);

	for (size_t i = 0; i < f.n && !rc; i++) {
		tm_str_reset(&s);
		rc = tm_read_file(f.path[i], DATA_TEXT_MAX_BYTES, &s, err);
		if (rc)
			break;
		out->text = tm_xrealloc_n(out->text, out->n + s.n + 1, sizeof *out->text);
		if (i)
			out->text[out->n++] = TOKEN_SEP;
		for (size_t j = 0; j < s.n; j++)
			out->text[out->n++] = (unsigned char)s.s[j];
	}
	if (!rc)        /* files may have changed since they were looked at */
		rc = long_enough(path, out->n, f.n, window, err);
	if (!rc && out->n > UINT32_MAX)
		rc = tm_fail(err, TM_EINVALID, "data %s: more than %u tokens", path, UINT32_MAX);
	out->token = out->text;
	tm_str_free(&s);
	files_free(&f);
	return rc ? TM_EINPUT : 0;
}
