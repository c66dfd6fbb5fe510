/*
 * The cards of this machine: what NVML knows of each, and which of them a
 * CUDA program would find under which number.
 */
#ifndef TM_CARD_CARDS_H
#define TM_CARD_CARDS_H

#include "card/nvml.h"

#include "base/str.h"

#include <jansson.h>

#define CARD_MIG_MAX 8

struct card_instance { nvml_handle handle; char uuid[96]; };

struct card {
	nvml_handle handle;
	unsigned index;                   /* NVML's, which is nvidia-smi's */
	char name[96], uuid[96], pci[32]; /* "" where it is not known */
	int major, minor;                 /* compute capability; 0: not known */
	uint64_t memory_bytes;
	unsigned sm_mhz_max, mem_mhz_max, power_limit_mw;       /* 0: not known */
	bool has_ecc, ecc, has_persistence, persistence, mig;
	const char *compute_mode;         /* NULL: not known */
	struct card_instance instance[CARD_MIG_MAX];            /* of a card in MIG mode */
	size_t instance_n;
	char broken[160];                 /* "" or why it cannot be read */
};

struct cards {
	struct nvml *nvml;                /* NULL: see why */
	char driver[80];                  /* "" where there is none */
	int cuda;                         /* 13000; 0: not known */
	struct card *v;
	size_t n;
	char why[320];                    /* without NVML: the reason */
	bool failed;                      /* and that is a fault, not the absence of a driver */
};

/* Always succeeds; a machine without cards or driver has none. */
void cards_read(struct cards *c);
void cards_free(struct cards *c);

/* A card, or one instance of a card in MIG mode, as CUDA hands it out. */
struct card_place { size_t card; int instance; };       /* instance -1: the whole card */

/* ---- for the record ----------------------------------------------------------- */

/* What is stored with every sweep: nothing that moves by itself. */
json_t *cards_json(const struct cards *c);
/* Clocks, power, temperature, memory and processes at this moment. */
json_t *card_now_json(const struct cards *c, const struct card *card);
/*
 * What decides whether results may be compared, as part of a class key: the
 * kinds of card with memory, MIG and power limit, each once.
 */
void cards_class(const struct cards *c, struct tm_str *out);

#endif
