/* The order of a sweep's runs. */
#ifndef TM_RUN_SCHEDULE_H
#define TM_RUN_SCHEDULE_H

#include "spec/spec.h"
#include "store/store.h"

#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood 2014): the same numbers from the same seed on every machine. */
uint64_t schedule_random(uint64_t *state);

/*
 * Every run of the sweep, `ord` from 0, to be freed. Interleaved: round r
 * holds each point with more than r repetitions once, in an order drawn from
 * (seed, r), so that slow drift of the machine falls on all points alike.
 * Listed: point by point, its repetitions one after another.
 */
struct store_planned *schedule_make(const struct spec *spec, size_t *n);

#endif
