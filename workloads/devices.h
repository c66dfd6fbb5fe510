/* `tidemark-work --devices`: which devices of this build can be used on this machine. */
#ifndef TM_WORK_DEVICES_H
#define TM_WORK_DEVICES_H

#include <jansson.h>

/*
 * New: an array of one object a device that computes: name, help, usable; then
 * facts (an object, where the device has any) or why not, as a sentence. Opens
 * each of them, which of a card takes a second.
 */
json_t *devices_here(void);

#endif
