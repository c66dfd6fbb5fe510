/* Devices from shared objects beside the program; see device.h, DEVICE_ENTRY. */
#ifndef TM_DEVICE_LOAD_H
#define TM_DEVICE_LOAD_H

#include "device/device.h"

/*
 * Looks for the object of the device `name` (len bytes) and loads it. The
 * backend is not registered. TM_ENOTFOUND (err untouched): there is no such
 * device; TM_EENV: it exists, but is not here or cannot be used, and why.
 */
int device_load(const char *name, size_t len, const struct device_backend **out, struct tm_err *err);

/* A device of this project, whether or not it was built. */
bool device_name_known(const char *name, size_t len);

#endif
