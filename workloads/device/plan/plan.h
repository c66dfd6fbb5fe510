/*
 * The planning device: the same step code against the same allocators, in
 * addresses that point nowhere, with nothing computed. What an operation asks
 * for as workspace is the table of the backend that is planned for; what it
 * costs comes from cost.c, as on every device. There is no size formula here.
 *
 * To device_open it is "plan" or "plan:BACKEND" ("plan:cpu"): workspaces of
 * that backend, pages of 4 KiB, no time. With a card it is opened here.
 */
#ifndef TM_DEVICE_PLAN_H
#define TM_DEVICE_PLAN_H

#include "device/device.h"

/* What the host gives at the least: the granularity where no card says another. */
#define PLAN_PAGE_BYTES 4096u

/* In what a card does matrix products, at the rate it does them. */
enum plan_rate { PLAN_FP32, PLAN_TF32, PLAN_BF16, PLAN_FP16, PLAN_RATE_N };
extern const char *const plan_rate_name[PLAN_RATE_N];

/* A card as a plan needs it (docs/protocol.md). */
struct plan_card {
	const char *backend;              /* whose workspaces; must have a table (device_workspaces_find) */
	uint64_t granularity_bytes;       /* of driver_space_new */
	/* The rest is for the estimate of time; bandwidth 0: none is made. */
	double rate[PLAN_RATE_N];         /* flop/s */
	double bandwidth;                 /* bytes/s */
	double launch_s;                  /* of one operation */
	double matrix_efficiency, memory_efficiency;    /* share of rate and bandwidth that is reached */
	/* Shown every operation, `a` being its struct op_NAME; NULL: nobody. */
	void (*saw)(void *arg, enum device_op op, const void *a);
	void *saw_arg;
};

/* As device_open("plan:BACKEND"), with the card's granularity and speeds. The card is copied, its name kept. */
int device_plan_open(const struct plan_card *card, struct device **out, struct tm_err *err);

/*
 * Seconds of one call: the longer of computing and moving, and the launch
 * (Williams et al. 2009, the roofline). `rate` applies to matrix products;
 * anything else computes at fp32 and is nearly always bound by bytes.
 */
double plan_seconds(const struct plan_card *card, bool matrix, enum plan_rate rate, double flops, double bytes);

/* Does `op` with these arguments (its struct op_NAME) consist of matrix products, and in which type? */
bool plan_matrix(enum device_op op, const void *a, enum plan_rate *rate);

#endif
