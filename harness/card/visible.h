/*
 * Which card CUDA calls number N. NVML counts all cards in PCI order; CUDA
 * counts those that CUDA_VISIBLE_DEVICES names, in that order, and without it
 * all, the fastest first, or in PCI order if CUDA_DEVICE_ORDER says so (which
 * tidemark sets for its workers where nobody else has).
 */
#ifndef TM_CARD_VISIBLE_H
#define TM_CARD_VISIBLE_H

#include "card/cards.h"

struct card_visible {
	struct card_place v[64];
	size_t n;
	bool sure;                        /* false: "the fastest first" of different cards is the runtime's own guess */
};

/* `visible`, `order`: the two variables, NULL where unset. */
void card_visible(const struct cards *c, const char *visible, const char *order, struct card_visible *out);
/* The same with the environment's. */
void card_visible_here(const struct cards *c, struct card_visible *out);

/* Of device "cuda" or "cuda:N". TM_EENV where there is none, and why; TM_EINVALID: no such name. */
int card_of_device(const struct cards *c, const char *device, struct card_place *out, struct tm_err *err);

/* The card that a worker says it is on. False: none has this uuid or PCI address. */
bool card_by_facts(const struct cards *c, const char *uuid, const char *pci, struct card_place *out);

/* What the harness asks NVML of; activity and processes of an instance are its own, the rest is the card's. */
nvml_handle card_place_handle(const struct cards *c, struct card_place at);
const char *card_place_uuid(const struct cards *c, struct card_place at);

#endif
