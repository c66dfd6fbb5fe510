#include "spec/extends.h"

#include "base/file.h"
#include "base/str.h"
#include "spec/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct loader {
	struct arena *a;
	struct diag *d;
	char project[PATH_MAX];          /* resolved; nothing outside is opened */
	size_t nodes_left;
	char *seen[EXTENDS_MAX_LEVELS + 2];      /* resolved paths of the chain */
	size_t seen_n;
};

/* The nearest folder with .git above (or at) dir; dir itself where there is none. */
static void find_project(struct loader *l, const char *dir)
{
	char path[PATH_MAX], git[PATH_MAX + 8];

	if (!realpath(dir, path))
		snprintf(path, sizeof path, "/nonexistent");
	snprintf(l->project, sizeof l->project, "%s", path);
	for (;;) {
		char *slash;

		snprintf(git, sizeof git, "%s/.git", path);
		if (tm_path_exists(git)) {
			snprintf(l->project, sizeof l->project, "%s", path);
			return;
		}
		slash = strrchr(path, '/');
		if (!slash || slash == path)
			return;
		*slash = '\0';
	}
}

static bool beneath(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return !strncmp(path, folder, n) && (path[n] == '/' || (n && folder[n - 1] == '/'));
}

/* True if the open file is the one that was checked: a link swapped in between does not get us out. */
static bool same_file(int fd, const char *path)
{
	char link[64], now[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, now, sizeof now - 1);
	if (n < 0)
		return false;
	now[n] = '\0';
	return !strcmp(now, path);
}

static int read_beneath(struct loader *l, struct place at, const char *shown, const char *real, struct tm_str *text)
{
	struct tm_err err = { 0 };
	struct stat st;
	int fd, rc = 0;

	fd = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0)
		return diag_at(l->d, at, "extends: cannot open %s: %s", shown, strerror(errno));
	if (!same_file(fd, real) || fstat(fd, &st) < 0)
		rc = diag_at(l->d, at, "extends: %s changed while it was opened", shown);
	else if (!S_ISREG(st.st_mode))
		rc = diag_at(l->d, at, "extends: %s is not a regular file", shown);
	else if (st.st_size > YAML_MAX_BYTES)
		rc = diag_at(l->d, at, "extends: %s has %lld bytes, larger than the limit of %d", shown, (long long)st.st_size, YAML_MAX_BYTES);
	else if (tm_read_fd(fd, YAML_MAX_BYTES, text, &err))
		rc = diag_at(l->d, at, "extends: %s: %s", shown, err.text);
	close(fd);
	return rc;
}

static int follow(struct loader *l, struct node *child, const char *dir, struct node **out);

static int load_parent(struct loader *l, const struct node *node, const char *dir, struct node **out)
{
	char real[PATH_MAX], *path, *folder;
	struct tm_str text = TM_STR_INIT;
	struct node *parent;
	int rc;

	if (node->kind != NODE_SCALAR || !*node->text)
		return diag_at(l->d, node->at, "extends: expected the path of one file, got %s", node_kind_name(node));
	if (*node->text == '/')
		return diag_at(l->d, node->at, "extends: expected a path relative to this file, got '%s'", diag_quote(l->d, node->text));
	if (l->seen_n > EXTENDS_MAX_LEVELS)
		return diag_at(l->d, node->at, "extends: more than %d levels", EXTENDS_MAX_LEVELS);
	path = tm_path_join(dir, node->text);
	if (strlen(path) >= PATH_MAX || !realpath(path, real)) {
		rc = diag_at(l->d, node->at, "extends: cannot open %s: %s", diag_quote(l->d, node->text),
			     strlen(path) >= PATH_MAX ? "name too long" : strerror(errno));
		free(path);
		return rc;
	}
	if (!beneath(real, l->project))
		rc = diag_at(l->d, node->at, "extends: '%s' leads out of the project folder %s", diag_quote(l->d, node->text), l->project);
	else
		rc = read_beneath(l, node->at, diag_quote(l->d, node->text), real, &text);
	for (size_t i = 0; i < l->seen_n && !rc; i++)
		if (!strcmp(l->seen[i], real))
			rc = diag_at(l->d, node->at, "extends: a cycle: '%s' is already part of this spec", diag_quote(l->d, node->text));
	if (!rc) {
		l->seen[l->seen_n++] = arena_str(l->a, real);
		rc = yaml_read(l->a, l->d, diag_source(l->d, path, false), text.s, text.n, &l->nodes_left, &parent);
	}
	if (!rc && parent->kind != NODE_MAP)
		rc = diag_at(l->d, parent->at, "a spec is a mapping, not %s", node_kind_name(parent));
	if (!rc) {
		folder = tm_path_dir(path);
		rc = follow(l, parent, folder, out);
		free(folder);
	}
	tm_str_free(&text);
	free(path);
	return rc;
}

/* The child laid over all its parents. Recursion is bounded by the number of levels. */
static int follow(struct loader *l, struct node *child, const char *dir, struct node **out)
{
	const struct node *extends = node_get(child, "extends");
	struct node *parent = NULL;
	int rc;

	if (extends) {
		rc = load_parent(l, extends, dir, &parent);
		if (rc)
			return rc;
	}
	*out = node_merge(l->a, parent, child);
	return 0;
}

int extends_load_text(struct arena *a, struct diag *d, const char *name, const char *dir, const char *text, size_t n,
		      struct node **out)
{
	struct loader *l = arena_alloc(a, sizeof *l);
	char real[PATH_MAX];
	struct node *child;
	int rc;

	l->a = a;
	l->d = d;
	l->nodes_left = YAML_MAX_NODES;
	find_project(l, dir);
	l->seen[l->seen_n++] = realpath(name, real) ? arena_str(a, real) : arena_str(a, name);
	rc = yaml_read(a, d, diag_source(d, name, false), text, n, &l->nodes_left, &child);
	return rc ? rc : follow(l, child, dir, out);
}

int extends_load(struct arena *a, struct diag *d, const char *path, struct tm_str *source, struct node **out)
{
	struct tm_err err = { 0 };
	char *dir;
	int rc;

	rc = tm_read_file(path, YAML_MAX_BYTES, source, &err);
	if (rc)
		return diag_at(d, (struct place){ diag_source(d, path, false), 0, 0 }, "%s", err.text);
	dir = tm_path_dir(path);
	rc = extends_load_text(a, d, path, dir, source->s, source->n, out);
	free(dir);
	return rc;
}
