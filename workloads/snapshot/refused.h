/*
 * Opcodes that a memory snapshot has no use for: those that would import or
 * call what the file names, those of other protocols, and bytes that are none.
 */
#ifndef TM_SNAP_REFUSED_H
#define TM_SNAP_REFUSED_H

#include "snapshot/build.h"

/*
 * b->in is at the opcode, values of b->stack from `base` on are its own.
 * TM_EINPUT, always: which opcode, what it names, and what the file probably is.
 */
int snap_refuse_opcode(struct snap_build *b, size_t base, uint8_t op);

#endif
