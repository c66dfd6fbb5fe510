/*
 * From a shape to something that can be carried out: the library's
 * configurations for its graph, one of them, its plan. Plans take half a second
 * (a kernel is compiled), so they are kept by shape and options.
 *
 * Nothing is timed. Taken is the first configuration in the order of the
 * library's heuristic that keeps to the workspace the plan of a run has promised
 * for the shape (workspace_flash.c): the same shape, library and card give the
 * same kernel.
 */
#ifndef TM_CUDA_FLASH_PLAN_H
#define TM_CUDA_FLASH_PLAN_H

#include "device/cuda/flash_recipe.h"

/* For whom: an open handle, or a card that is not here, described by its properties (flash_card_new). */
struct flash_place {
	cudnnHandle_t handle;             /* NULL: `card` */
	cudnnBackendDescriptor_t card;
};

/* A card from its properties as JSON, to ask about without having it. *out is to be given to cudnnBackendDestroyDescriptor. */
int flash_card_new(const char *json, cudnnBackendDescriptor_t *out, struct tm_err *err);

struct flash_offer {
	int64_t engine;                   /* the library's number of the kernel */
	uint64_t workspace_bytes;
};
enum { FLASH_OFFERS_MAX = 16 };

/* What the library offers for a shape, in its order; *n may be 0. Compiles nothing. */
int flash_offers(const struct flash_place *place, const struct flash_shape *s, struct flash_offer out[FLASH_OFFERS_MAX],
		 size_t *n, struct tm_err *err);
/* The first one of at most that much workspace, or -1. */
int flash_choose(const struct flash_offer *offer, size_t n, uint64_t workspace_bytes);

/* "bf16 backward, batch 8, …", for errors; the buffer is returned. */
#define FLASH_SHAPE_TEXT 160
const char *flash_shape_text(const struct flash_shape *s, char text[FLASH_SHAPE_TEXT]);

struct flash_plan {
	struct flash_shape shape;
	struct flash_graph graph;         /* its numbers are read whenever the plan is carried out */
	cudnnBackendDescriptor_t config, plan;
	struct flash_offer offer;
	struct flash_plan *next;
};

/* NULL: not in the list. */
const struct flash_plan *flash_plan_find(const struct flash_plan *list, const struct flash_shape *s);
/*
 * A new plan of at most that much workspace, put into the list. TM_EENV where
 * the library has none for this card, TM_EIO where it fails.
 */
int flash_plan_add(struct flash_plan **list, cudnnHandle_t handle, const struct flash_shape *s, uint64_t workspace_bytes,
		   const struct flash_plan **out, struct tm_err *err);
void flash_plans_free(struct flash_plan *list);

/* The memory of a real tensor. */
struct flash_memory {
	enum flash_id id;
	void *data;
};
/* Queues the plan on its handle's stream; `workspace` has offer.workspace_bytes. */
int flash_plan_run(const struct flash_plan *plan, cudnnHandle_t handle, const struct flash_memory *memory, size_t n,
		   void *workspace, struct tm_err *err);

#endif
