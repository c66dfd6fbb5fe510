/*
 * Settings of numerical libraries that they read from the environment when
 * they are loaded. Made before main, and only where the user has not: threads
 * that wait sleep instead of spinning (two spinning threads on a busy machine
 * made a step four times slower), and OpenBLAS starts no threads of its own
 * (calls are single-threaded tiles).
 */
#ifndef TM_SETTINGS_H
#define TM_SETTINGS_H

#include <stdbool.h>

/* True for an environment entry "NAME=value" that came from us; other programs should not inherit it. */
bool settings_ours(const char *entry);

#endif
