/*
 * Numbered places that a test can make fail, after SQLite's fault simulator.
 * In production tm_fault is a constant false; a build with TM_FAULTS reads
 * TIDEMARK_FAULT="POINT:N" (or "*:N": the N-th time any point is reached)
 * once and fails there. Tests walk N from 1 until nothing fails any more.
 */
#ifndef TM_FAULT_H
#define TM_FAULT_H

#include <stdbool.h>

enum tm_fault_point {
	TM_FAULT_WRITE = 1,
	TM_FAULT_FSYNC,
	TM_FAULT_RENAME,
	TM_FAULT_SQLITE,
	TM_FAULT_SPAWN,
	TM_FAULT_PIPE,
	TM_FAULT_GRADIENT,       /* of a training step, once for each gradient: it becomes 0 */
	TM_FAULT_UPDATE,         /* once for each parameter: its update is left out */
	TM_FAULT_REPLAY,         /* once a step: from then on what is made again draws other dropout */
	TM_FAULT_OVERFLOW,       /* once a step: the first gradient becomes infinite */
	TM_FAULT_N
};

#ifdef TM_FAULTS
bool tm_fault(enum tm_fault_point point);
/* For tests in the same process; n = 0 switches off. point 0: any. */
void tm_fault_arm(int point, unsigned n);
bool tm_fault_fired(void);
#else
static inline bool tm_fault(enum tm_fault_point point)
{
	(void)point;
	return false;
}
#endif

#endif
