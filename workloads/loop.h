/* The loop every workload shares: load, warm up, measure, inspect, report. */
#ifndef TM_LOOP_H
#define TM_LOOP_H

#include "workload.h"

/*
 * Drives run->workload through init, its steps and metrics, and sends every
 * event up to and including `result`. 0, or the code of what stopped it
 * (TM_EOOM; a loss that is not finite is TM_EINVALID with cause "nan").
 */
int loop_drive(struct run *run, struct tm_err *err);

#endif
