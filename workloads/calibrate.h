/*
 * tidemark-work --calibrate: which products the steps of some jobs are made
 * of, measured on a device, as the file that the device reads when it is
 * opened (device.h, device_tuning). Question and answer: docs/protocol.md.
 */
#ifndef TM_CALIBRATE_H
#define TM_CALIBRATE_H

#include "base/err.h"

/* Reads the question from stdin, answers in lines on stdout. TM_EINPUT: the question; TM_EENV: the device. */
int calibrate_command(struct tm_err *err);

#endif
