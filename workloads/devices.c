#include "devices.h"

#include "device/device.h"

#include <string.h>

static void try_to_open(const char *name, json_t *obj)
{
	struct tm_err err = { 0 };
	struct device *dev;
	int rc = device_open(name, 1, &dev, &err);

	json_object_set_new(obj, "usable", json_boolean(!rc));
	if (rc) {
		json_object_set_new(obj, "why", json_string(err.text));
		return;
	}
	if (dev->backend->facts)
		json_object_set_new(obj, "facts", dev->backend->facts(dev));
	device_close(dev);
}

json_t *devices_here(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < device_name_n(); i++) {
		const char *name = device_name_at(i);
		const struct device_backend *b;
		json_t *obj;
		int rc = device_backend_get(name, strlen(name), &b, NULL);

		if (!rc && !b->computes)
			continue;
		obj = json_object();
		json_object_set_new(obj, "name", json_string(name));
		json_object_set_new(obj, "help", json_string(rc ? "" : b->help));
		try_to_open(name, obj);
		json_array_append_new(list, obj);
	}
	return list;
}
