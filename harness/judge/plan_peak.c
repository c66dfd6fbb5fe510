#include "judge/plan_peak.h"

#include "base/json.h"

#include <string.h>

const json_t *plan_peak(const json_t *answer, const char *name)
{
	const json_t *peaks = json_object_get(answer, "peaks");

	for (size_t i = 0; i < json_array_size(peaks); i++)
		if (!strcmp(tm_json_str(json_array_get(peaks, i), "name", ""), name))
			return json_array_get(peaks, i);
	return NULL;
}
