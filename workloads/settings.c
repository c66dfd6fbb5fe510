#include "settings.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static struct setting {
	const char *name, *value;
	bool ours;
} settings[] = {
	{ .name = "OMP_WAIT_POLICY", .value = "passive" },
	{ .name = "OPENBLAS_NUM_THREADS", .value = "1" },
};

/*
 * 101 is the first priority free for programs: in the portable build the
 * libraries' own constructors come after it; otherwise they are loaded with
 * the device, after main has begun.
 */
__attribute__((constructor(101)))
static void make_settings(void)
{
	for (size_t i = 0; i < TM_ARRAY_N(settings); i++) {
		if (getenv(settings[i].name))
			continue;
		settings[i].ours = setenv(settings[i].name, settings[i].value, 0) == 0;
	}
}

bool settings_ours(const char *entry)
{
	for (size_t i = 0; i < TM_ARRAY_N(settings); i++) {
		size_t n = strlen(settings[i].name);

		if (settings[i].ours && strncmp(entry, settings[i].name, n) == 0 && entry[n] == '=')
			return true;
	}
	return false;
}
