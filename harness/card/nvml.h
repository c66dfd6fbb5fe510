/*
 * NVML: what the driver tells of the cards, without CUDA and without a
 * context on them. The library comes with the driver and is opened by name
 * when somebody asks; a machine without it has no cards. TIDEMARK_NVML names
 * another file in its place, or "none".
 *
 * Everything a card or a driver may not know has an answer for that: readers
 * return false and leave *out as it is.
 */
#ifndef TM_CARD_NVML_H
#define TM_CARD_NVML_H

#include "card/nvml_types.h"

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvml;

/* TM_ENOTFOUND: there is no such library; TM_EENV: it does not start, and why. *out is NULL then. */
int nvml_open(struct nvml **out, struct tm_err *err);
void nvml_close(struct nvml *n);              /* NULL is fine */

/* "no such function in this driver" and the like, for people. */
const char *nvml_text(int code);

/* ---- the machine ------------------------------------------------------------ */

bool nvml_driver_version(const struct nvml *n, char *out, size_t size);
/* The newest CUDA the driver serves: 13.0 is 13000. */
bool nvml_cuda_version(const struct nvml *n, int *out);
unsigned nvml_card_n(const struct nvml *n);
/* In PCI order. TM_EENV with the reason: a card that has fallen off the bus. */
int nvml_card_at(const struct nvml *n, unsigned i, nvml_handle *out, struct tm_err *err);
/* The MIG instances of a card: at most nvml_mig_max, with gaps. */
unsigned nvml_mig_max(const struct nvml *n, nvml_handle card);
bool nvml_mig_at(const struct nvml *n, nvml_handle card, unsigned i, nvml_handle *out);

/* ---- what does not change ------------------------------------------------------ */

bool nvml_name(const struct nvml *n, nvml_handle card, char *out, size_t size);
bool nvml_uuid(const struct nvml *n, nvml_handle card, char *out, size_t size);
/* "00000000:1a:00.0", in small letters. */
bool nvml_pci_id(const struct nvml *n, nvml_handle card, char *out, size_t size);
bool nvml_capability(const struct nvml *n, nvml_handle card, int *major, int *minor);
bool nvml_max_clock(const struct nvml *n, nvml_handle card, enum nvml_clock clock, unsigned *mhz);
bool nvml_power_limit(const struct nvml *n, nvml_handle card, unsigned *mw);
bool nvml_ecc(const struct nvml *n, nvml_handle card, bool *on);
bool nvml_mig(const struct nvml *n, nvml_handle card, bool *on);
bool nvml_persistence(const struct nvml *n, nvml_handle card, bool *on);
/* "default", "exclusive thread", "prohibited", "exclusive process". */
bool nvml_compute_mode(const struct nvml *n, nvml_handle card, const char **out);

/* ---- what does ------------------------------------------------------------------- */

/*
 * exact: `used` is what processes have; else (drivers before 510) it includes
 * what the driver keeps for itself.
 */
struct nvml_memory { uint64_t total, used; bool exact; };
bool nvml_memory(const struct nvml *n, nvml_handle card, struct nvml_memory *out);
bool nvml_clock(const struct nvml *n, nvml_handle card, enum nvml_clock clock, unsigned *mhz);
bool nvml_power(const struct nvml *n, nvml_handle card, unsigned *mw);
bool nvml_temperature(const struct nvml *n, nvml_handle card, unsigned *celsius);
/* enum nvml_reason bits. */
bool nvml_reasons(const struct nvml *n, nvml_handle card, uint64_t *out);
/* Since the driver was loaded. */
bool nvml_energy(const struct nvml *n, nvml_handle card, uint64_t *mj);

struct nvml_user { int64_t pid; uint64_t bytes; };      /* bytes 0: not known */
/*
 * Processes with a compute context, at most `max`; *used their number. They
 * carry the numbers of the driver's pid namespace, which inside a container
 * may be another one than ours.
 */
bool nvml_users(const struct nvml *n, nvml_handle card, struct nvml_user *out, size_t max, size_t *used);

/* ---- activity between two moments (GPM, from Hopper on) ------------------------------ */

struct nvml_gpm;
/* NULL: the card or the driver has none. */
struct nvml_gpm *nvml_gpm_new(const struct nvml *n, nvml_handle card);
void nvml_gpm_free(struct nvml_gpm *g);       /* NULL is fine */
/* end: false for the first moment, true for the second. */
bool nvml_gpm_take(struct nvml_gpm *g, bool end);
/* Shares from 0 to 1; NaN: not known. */
struct nvml_activity { double sm, tensor, dram; };
bool nvml_gpm_read(struct nvml_gpm *g, struct nvml_activity *out);

#endif
