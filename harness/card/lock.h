/*
 * One tidemark at a time on a card, whatever database it writes to: two that
 * measure side by side measure each other. A lock is a file by the card's
 * uuid under /run/lock, or /tmp where that cannot be written; the kernel
 * drops it with the process that holds it.
 */
#ifndef TM_CARD_LOCK_H
#define TM_CARD_LOCK_H

#include "base/err.h"

#include <stdbool.h>

struct card_lock { int fd; char path[192]; };           /* fd -1: not held */

/*
 * Never waits. 0 and *held false: another process has it, and *who says which
 * as far as its file tells. TM_EENV: there is no place for locks. TIDEMARK_LOCK_DIR
 * names another folder (a container's, shared with others that see the same card).
 */
int card_lock_try(struct card_lock *l, const char *uuid, bool *held, char who[128], struct tm_err *err);
void card_lock_drop(struct card_lock *l);

#endif
