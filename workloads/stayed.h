/*
 * Leak diagnosis: what was born after the first counted step and is still
 * there, by who asked for it and in how many different steps. A library's
 * workspace is born once, a leak again and again; the number of steps is what
 * tells them apart.
 */
#ifndef TM_STAYED_H
#define TM_STAYED_H

#include "event.h"
#include "memory/memory.h"

#define STAYED_GROUPS_MAX 16              /* events sent: the largest */

struct stayed;

struct stayed *stayed_new(void);
void stayed_free(struct stayed *st);
/* Behind each counted step. Costs something only where more is live than ever before. */
void stayed_step(struct stayed *st, const struct mem *mem);
/* Compares now with the end of the first counted step; nothing if there was none. */
void stayed_send(const struct stayed *st, const struct mem *mem, struct event_out *ev);

#endif
