/* What a file is, by its first bytes. */
#ifndef TM_SNAP_SNIFF_H
#define TM_SNAP_SNIFF_H

#include "snapshot/input.h"

enum snap_format { SNAP_PICKLE, SNAP_JSON, SNAP_TRACE };

/* TM_EINPUT: none of these; says what it is, where that can be told. Takes nothing from the input. */
int snap_sniff(struct snap_input *in, enum snap_format *format, struct tm_err *err);

#endif
