/*
 * Devices that are not linked in: tidemark-device-NAME.so beside the program,
 * opened when somebody asks for NAME and never before. A machine without the
 * vendor's libraries runs everything else as if the device did not exist, and
 * a run that computes nothing does not pay for a BLAS (5 ms of relocations).
 */
#include "device/load.h"

#include "base/err.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Devices of this build, linked in or beside the program; CMake says which. */
static const char *const built[] = { TIDEMARK_DEVICES };

size_t device_name_n(void)
{
	return sizeof built / sizeof built[0];
}

const char *device_name_at(size_t i)
{
	BUG_ON(i >= device_name_n());
	return built[i];
}

/* Names a user may well type here although the file was not built. */
static const char *const known[] = { "cpu", "cuda", "plan" };

bool device_name_known(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strlen(known[i]) == len && !memcmp(known[i], name, len))
			return true;
	return false;
}

/* Letters, digits and underscore only: the name becomes part of a path. */
static bool name_is_plain(const char *name, size_t len)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

	return len > 0 && len <= 32 && strspn(name, plain) >= len;
}

static bool object_path(char *out, size_t size, const char *name, size_t len)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	char *slash;
	int need;

	if (n <= 0)
		return false;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return false;
	*slash = '\0';
	need = snprintf(out, size, "%s/tidemark-device-%.*s.so", self, (int)len, name);
	return need > 0 && (size_t)need < size;
}

int device_load(const char *name, size_t len, const struct device_backend **out, struct tm_err *err)
{
	char path[PATH_MAX + 64];
	const struct device_backend *backend;
	device_entry *entry;
	void *handle;

	if (!name_is_plain(name, len) || !object_path(path, sizeof path, name, len))
		return TM_ENOTFOUND;
	if (access(path, F_OK)) {
		if (!device_name_known(name, len))
			return TM_ENOTFOUND;
		return tm_fail(err, TM_EENV, "device %.*s is not here: this build has no %s; "
			       "`tidemark devices` lists what is", (int)len, name, path);
	}
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return tm_fail(err, TM_EENV, "device %.*s cannot be loaded: %s", (int)len, name, dlerror());
	/* POSIX lets an object pointer from dlsym hold a function; ISO C only through a copy. */
	void *symbol = dlsym(handle, DEVICE_ENTRY);
	memcpy(&entry, &symbol, sizeof entry);
	backend = symbol ? entry() : NULL;
	if (!backend || backend->version != DEVICE_VERSION || strlen(backend->name) != len ||
	    memcmp(backend->name, name, len)) {
		tm_fail(err, TM_EENV, "%s is not a device of this version (%d): rebuild it with the program",
			path, DEVICE_VERSION);
		dlclose(handle);
		return TM_EENV;
	}
	*out = backend;         /* stays loaded until the process ends */
	return 0;
}
