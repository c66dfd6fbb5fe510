/* One clock for durations (monotonic), one for labels (wall). */
#ifndef TM_CLOCK_H
#define TM_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t tm_mono_us(void);
int64_t tm_mono_ns(void);
int64_t tm_wall_us(void);                    /* since the epoch */
void tm_sleep_us(int64_t us);                /* goes on after a signal */
/* "2026-11-30T14:56:40Z" of a wall time; returns out. */
char *tm_iso_time(int64_t wall_us, char out[32]);

#endif
