/* Who carries a sweep out: enough to know later whether that process still lives. */
#ifndef TM_RUN_OWNER_H
#define TM_RUN_OWNER_H

#include <stdbool.h>
#include <stdint.h>

/* "HOST BOOT-ID PID-NAMESPACE PID START-TICKS" of this process. */
void owner_text(char out[320]);

/*
 * Whether that owner may still be running. Seen from the same start of the
 * kernel and the same pid namespace, pid and start time decide: a recycled
 * pid is another process. The same host after a reboot: dead. From elsewhere
 * nothing can be seen, so the age of the owner's last sign of life decides.
 * A text that is not of this form counts as dead.
 */
bool owner_alive(const char *owner, int64_t beat_age_us);

/* An owner that signs every OWNER_BEAT_US is given up after OWNER_LOST_US. */
#define OWNER_BEAT_US 20000000
#define OWNER_LOST_US 120000000

#endif
