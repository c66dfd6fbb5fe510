/*
 * Which algorithms a card's library is to multiply with: the worker goes
 * through the jobs of some points, measures the products they are made of on
 * the card (docs/protocol.md, "Calibrate"), and answers with the file.
 */
#ifndef TM_RUN_CALIBRATE_H
#define TM_RUN_CALIBRATE_H

#include "spec/spec.h"

struct calibrate_ask {
	const char *work;                 /* path of the worker */
	const struct describe *describe;
	const char *device;               /* "cuda:1" */
	/* Called as products are done, for somebody who waits; may be NULL. */
	void (*progress)(void *arg, size_t done, size_t n);
	void *arg;
};

/* *file: the file's contents. TM_EENV: no such device, or the worker's reason, or it is of another build. */
int calibrate_points(const struct calibrate_ask *ask, const struct spec_point *points, size_t n, json_t **file,
		     struct tm_err *err);

/* The file as text: a line for each pin, so that two of them can be compared. */
void calibrate_text(const json_t *file, struct tm_str *out);

#endif
