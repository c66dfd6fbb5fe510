/* `tidemark devices NAME --calibrate SPEC` */
#ifndef TM_CALIBRATE_CLI_H
#define TM_CALIBRATE_CLI_H

#include "cli/request.h"

/* Measures the products of the spec's points on the device; the file goes to r->out or stdout. */
int calibrate_device(struct cli *cli, const struct request *r, const char *device, const char *spec_name);

#endif
