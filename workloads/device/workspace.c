/* The backends whose workspaces are known to this program, loaded or not. */
#include "device/device.h"

#include "base/mem.h"

#include <string.h>

static const struct {
	const char *backend;
	const struct device_workspaces *workspaces;
} table[] = {
	{ "cpu", &device_workspaces_cpu },
	{ "cuda", &device_workspaces_cuda },
};

const struct device_workspaces *device_workspaces_find(const char *backend)
{
	for (size_t i = 0; i < TM_ARRAY_N(table); i++)
		if (!strcmp(table[i].backend, backend))
			return table[i].workspaces;
	return NULL;
}
