#include "cli/binary.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/build_info.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int add_file_sha(const char *path, struct tm_str *all, struct tm_err *err)
{
	struct tm_str bytes = TM_STR_INIT;
	char hex[65];
	int rc = tm_read_file(path, 512u << 20, &bytes, err);

	if (!rc) {
		tm_sha256_hex(bytes.s, bytes.n, hex);
		tm_str_add(all, hex);
	}
	tm_str_free(&bytes);
	return rc;
}

static int is_device(const struct dirent *e)
{
	return tm_starts_with(e->d_name, "tidemark-device-") && tm_ends_with(e->d_name, ".so");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);      /* not alphasort: that asks the locale */
}

/* The devices that the worker opens on demand lie beside it; the portable build has none. */
static int add_device_shas(const char *work, struct tm_str *all, struct tm_err *err)
{
	char *dir = tm_path_dir(work);
	struct dirent **e;
	int n = scandir(dir, &e, is_device, by_name), rc = 0;

	if (n < 0)
		rc = tm_fail(err, TM_EENV, "%s cannot be read: %s", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		char *path = tm_path_join(dir, e[i]->d_name);

		if (!rc)
			rc = add_file_sha(path, all, err);
		free(path);
		free(e[i]);
	}
	if (n >= 0)
		free(e);
	free(dir);
	return rc;
}

int binary_sha(struct cli *cli, char out[65])
{
	const char *paths[] = { cli->work, cli->guard, "/proc/self/exe" };
	struct tm_str all = TM_STR_INIT;
	int rc = 0;

	for (size_t i = 0; !rc && i < TM_ARRAY_N(paths); i++)
		rc = add_file_sha(paths[i], &all, &cli->err);
	if (!rc)
		rc = add_device_shas(cli->work, &all, &cli->err);
	if (!rc)
		tm_sha256_hex(all.s, all.n, out);
	else
		rc = cli->err.code = TM_EENV;
	tm_str_free(&all);
	return rc;
}

struct store_build binary_build(const char *sha)
{
	return (struct store_build){
		.commit = build_info.commit, .branch = build_info.branch, .compiler = build_info.compiler, .flags = build_info.flags,
		.binary_sha = sha, .dirty = build_info.dirty, .commit_us = build_info.commit_us,
	};
}
