/* The cards that NVML sees. */
#ifndef TM_CLI_DEVICES_CARDS_H
#define TM_CLI_DEVICES_CARDS_H

#include "base/str.h"
#include "cli/table.h"

#include <jansson.h>

/* What is wrong with all of them, or what else explains the list, in one line; "" where there is nothing to say. Appended. */
void devices_cards_remark(struct tm_str *out);
/*
 * Their rows. For people five columns: the device's name in specs, card, memory, in use, state; for
 * programs those of the list of devices: name, "card", memory, "cuda", what it is. Returns how many.
 */
size_t devices_cards_rows(struct table *t, bool people);

#endif
