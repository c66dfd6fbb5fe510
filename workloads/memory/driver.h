/*
 * The drivers that need no card (struct mem_driver is in memory.h). Each
 * constructor returns a driver that its struct mem closes.
 */
#ifndef TM_DRIVER_H
#define TM_DRIVER_H

#include "memory/memory.h"

/*
 * Host memory for the CPU device. Pages are zero and cost nothing before they
 * are touched; addresses are aligned to 4096. Capacity 0: the machine's
 * physical memory. NULL with TM_EENV where no address range can be had.
 */
struct mem_driver *driver_host_new(uint64_t capacity_bytes, struct tm_err *err);

/*
 * Addresses that point nowhere, placed by the rule of space.h: what planning
 * and replay run on. Refuses beyond capacity_bytes, which must not be 0.
 * `held` counts each segment rounded up to the granularity, a power of two up
 * to 1 GiB: what a card can give at the least. A card lets small segments of a
 * process share such a piece; how, is not documented, so of many small
 * segments `held` is an upper bound.
 */
struct mem_driver *driver_space_new(uint64_t capacity_bytes, uint64_t granularity_bytes);
#define DRIVER_GRANULARITY_MAX (1ull << 30)

/*
 * The same with the answers of somebody who knows them, as from a recording.
 * For an allocation and a reservation `answer` writes the address; for a
 * mapping it gets the address. A code other than 0 (TM_EOOM: the device had no
 * more) is passed on to the policy. The answers are believed: nothing is
 * placed, and capacity_bytes is only what `info` tells. What goes back is
 * told too (err is NULL then, the answer is not looked at).
 */
enum driver_call { DRIVER_ALLOC, DRIVER_RESERVE, DRIVER_MAP, DRIVER_FREE, DRIVER_UNMAP, DRIVER_RELEASE };
typedef int driver_answer_fn(void *arg, enum driver_call call, uint64_t bytes, uint64_t *addr, struct tm_err *err);
struct mem_driver *driver_told_new(uint64_t capacity_bytes, driver_answer_fn *answer, void *arg);

#endif
