/*
 * Who is on a card, and what holds its clocks down: in words for people.
 */
#ifndef TM_CARD_USERS_H
#define TM_CARD_USERS_H

#include "card/nvml.h"

#include "base/str.h"

#define CARD_USERS_MAX 64

struct card_user {
	int64_t pid;
	uint64_t bytes;                   /* 0: not known */
	char program[64];                 /* "" where the process cannot be seen from here */
};

/* False: the driver does not say. */
bool card_users_read(const struct nvml *n, nvml_handle card, struct card_user out[CARD_USERS_MAX], size_t *used);

/* "python (process 4711) with 12.0 GiB, …", appended. */
void card_users_text(const struct card_user *v, size_t n, struct tm_str *out);

/* Those that slow a card down whatever its user set: heat, a brake, a fault. Not the power cap, which is how a card under load runs. */
#define CARD_SLOWED (NVML_REASON_HW_SLOWDOWN | NVML_REASON_SW_THERMAL | NVML_REASON_HW_THERMAL | NVML_REASON_POWER_BRAKE)
/* "power cap, heat", appended; nothing where nothing holds them. */
void card_reasons_text(uint64_t reasons, struct tm_str *out);

#endif
