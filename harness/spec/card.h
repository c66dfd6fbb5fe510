/*
 * A device as the planner knows it: configs/devices/NAME.yaml, compiled into
 * the program, or a file of the user's. Read with the same YAML reader and
 * the same care as a spec.
 */
#ifndef TM_CARD_H
#define TM_CARD_H

#include "base/err.h"

#include <jansson.h>

/*
 * name: one of the built-in ones, or a path (it has a '/' or ends in
 * ".yaml"). *card is the "card" object of docs/protocol.md. TM_ESPEC with
 * file, line and column in errs; TM_EUSAGE with the list and the nearest name.
 */
int card_load(const char *name, json_t **card, struct tm_errs *errs);
size_t card_n(void);
const char *card_name_at(size_t i);

#endif
