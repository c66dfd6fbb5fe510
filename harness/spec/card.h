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
/* The built-in one that has the driver's name for a card ("NVIDIA H200") among its names. TM_ENOTFOUND: none. */
int card_by_product(const char *product, json_t **card);
size_t card_n(void);
const char *card_name_at(size_t i);

#endif
