/* Configurations, plans and their list (flash_plan.h). */
#include "device/cuda/flash_plan.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int flash_card_new(const char *json, cudnnBackendDescriptor_t *out, struct tm_err *err)
{
	int rc = flash_check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, out), "a card's descriptor", err);

	if (rc)
		return rc;
	rc = flash_check(cudnnBackendSetAttribute(*out, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
						  (int64_t)strlen(json), json), "a card's properties", err);
	if (!rc)
		rc = flash_check(cudnnBackendFinalize(*out), "a card", err);
	if (rc) {
		cudnnBackendDestroyDescriptor(*out);
		*out = NULL;
	}
	return rc;
}

const char *flash_shape_text(const struct flash_shape *s, char text[FLASH_SHAPE_TEXT])
{
	snprintf(text, FLASH_SHAPE_TEXT, "%s %s%s, batch %" PRId64 ", heads %" PRId64 " of %" PRId64 ", seq %" PRId64 "%s%s%s",
		 s->type == DT_BF16 ? "bf16" : "f16", s->dq == FLASH_DQ_IN_ORDER ? "deterministic " : "",
		 s->backward ? "backward" : "forward", s->batch, s->heads, s->head_dim, s->seq, s->causal ? ", causal" : "",
		 s->padded ? ", padded" : "", s->dropout_p > 0 ? ", dropout" : "");
	return text;
}

static bool same_shape(const struct flash_shape *a, const struct flash_shape *b)
{
	return a->batch == b->batch && a->heads == b->heads && a->heads_all == b->heads_all && a->seq == b->seq &&
	       a->head_dim == b->head_dim && a->type == b->type && a->backward == b->backward && a->causal == b->causal &&
	       a->padded == b->padded && a->dq == b->dq && a->dropout_p == b->dropout_p;
}

/* ---- what is offered ----------------------------------------------------------- */

/* The heuristic's answer for a graph: configurations to read from and to destroy. */
struct answer {
	cudnnBackendDescriptor_t heuristic, config[FLASH_OFFERS_MAX];
	size_t made_n, n;
};

static void answer_drop(struct answer *a)
{
	while (a->made_n)
		if (a->config[--a->made_n])
			cudnnBackendDestroyDescriptor(a->config[a->made_n]);
	if (a->heuristic)
		cudnnBackendDestroyDescriptor(a->heuristic);
	a->heuristic = NULL;
	a->n = 0;
}

static int answer_make_configs(struct answer *a, struct tm_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < FLASH_OFFERS_MAX && !rc; i++) {
		rc = flash_check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &a->config[i]),
				 "a configuration's descriptor", err);
		a->made_n += !rc;
	}
	return rc;
}

static int set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const void *value,
	       struct tm_err *err)
{
	return flash_check(cudnnBackendSetAttribute(d, name, type, 1, value), "an attribute", err);
}

/* Mode A, the library's best guess; its other mode has nothing for backward. */
static int ask(struct answer *a, const struct flash_graph *g, const struct flash_place *place, struct tm_err *err)
{
	cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
	int64_t n = 0;
	int rc = flash_check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &a->heuristic), "a heuristic's descriptor", err);

	if (!rc)
		rc = set(a->heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, &g->graph, err);
	if (!rc)
		rc = set(a->heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode, err);
	if (!rc && !place->handle)
		rc = set(a->heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, &place->card, err);
	if (!rc)
		rc = flash_check(cudnnBackendFinalize(a->heuristic), "the heuristic", err);
	if (!rc)
		rc = answer_make_configs(a, err);
	if (!rc)
		rc = flash_check(cudnnBackendGetAttribute(a->heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
							  FLASH_OFFERS_MAX, &n, a->config), "the heuristic's answer", err);
	a->n = rc || n < 0 ? 0 : n > FLASH_OFFERS_MAX ? FLASH_OFFERS_MAX : (size_t)n;
	return rc;
}

/* The number of the engine behind a configuration. */
static int read_engine(cudnnBackendDescriptor_t config, struct flash_offer *out, struct tm_err *err)
{
	cudnnBackendDescriptor_t engine = NULL;
	int64_t n = 0;
	int rc = flash_check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine), "an engine's descriptor", err);

	if (!rc)
		rc = flash_check(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
							  &engine), "a configuration's engine", err);
	if (!rc)
		rc = flash_check(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n,
							  &out->engine), "an engine's number", err);
	if (engine)
		cudnnBackendDestroyDescriptor(engine);
	return rc;
}

static int read_offer(cudnnBackendDescriptor_t config, struct flash_offer *out, struct tm_err *err)
{
	int64_t n = 0, bytes = 0;
	int rc;

	*out = (struct flash_offer){ 0 };
	rc = flash_check(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &bytes),
			 "a configuration's workspace", err);
	if (!rc)
		rc = read_engine(config, out, err);
	out->workspace_bytes = (uint64_t)bytes;
	return rc;
}

static int read_offers(const struct answer *a, struct flash_offer *out, struct tm_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < a->n && !rc; i++)
		rc = read_offer(a->config[i], &out[i], err);
	return rc;
}

int flash_offers(const struct flash_place *place, const struct flash_shape *s, struct flash_offer out[FLASH_OFFERS_MAX],
		 size_t *n, struct tm_err *err)
{
	struct answer a = { 0 };
	struct flash_graph *g = tm_xcalloc(1, sizeof *g);
	int rc = flash_recipe(g, s, place->handle, err);

	if (!rc)
		rc = ask(&a, g, place, err);
	if (!rc)
		rc = read_offers(&a, out, err);
	*n = rc ? 0 : a.n;
	answer_drop(&a);
	flash_graph_drop(g);
	free(g);
	return rc;
}

int flash_choose(const struct flash_offer *offer, size_t n, uint64_t workspace_bytes)
{
	for (size_t i = 0; i < n; i++)
		if (offer[i].workspace_bytes <= workspace_bytes)
			return (int)i;
	return -1;
}

/* ---- plans ---------------------------------------------------------------------- */

static void plan_free(struct flash_plan *p)
{
	if (p->plan)
		cudnnBackendDestroyDescriptor(p->plan);
	if (p->config)
		cudnnBackendDestroyDescriptor(p->config);
	flash_graph_drop(&p->graph);
	free(p);
}

void flash_plans_free(struct flash_plan *list)
{
	while (list) {
		struct flash_plan *next = list->next;

		plan_free(list);
		list = next;
	}
}

/* Compiles the kernel of one configuration; it may still not come off. */
static int compile(struct flash_plan *p, cudnnHandle_t handle, uint64_t workspace_bytes, struct tm_err *err)
{
	int64_t n = 0, bytes = 0;
	int rc = flash_check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p->plan), "a plan's descriptor", err);

	if (!rc)
		rc = set(p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &handle, err);
	if (!rc)
		rc = set(p->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, &p->config, err);
	if (!rc)
		rc = flash_check(cudnnBackendFinalize(p->plan), "a plan", err);
	if (!rc)
		rc = flash_check(cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
							  &bytes), "a plan's workspace", err);
	if (!rc && (uint64_t)bytes > workspace_bytes)
		rc = tm_fail(err, TM_EENV, "cuDNN asks for %" PRId64 " B of workspace where it said %" PRIu64 " B", bytes,
			     p->offer.workspace_bytes);
	if (rc && p->plan) {
		cudnnBackendDestroyDescriptor(p->plan);
		p->plan = NULL;
	}
	p->offer.workspace_bytes = (uint64_t)bytes;
	return rc;
}

/* The first configuration that fits and can be compiled becomes the plan; *last is why the one before could not. */
static int take(struct flash_plan *p, struct answer *a, cudnnHandle_t handle, uint64_t workspace_bytes, struct tm_err *last)
{
	struct flash_offer offer[FLASH_OFFERS_MAX];
	int rc = read_offers(a, offer, last);

	for (size_t i = 0; i < a->n && !rc && !p->plan; i++) {
		int next = flash_choose(offer + i, a->n - i, workspace_bytes);

		if (next < 0)
			break;
		i += (size_t)next;
		p->config = a->config[i];
		p->offer = offer[i];
		if (compile(p, handle, workspace_bytes, last))
			p->config = NULL;
		else
			a->config[i] = NULL;     /* the plan's now */
	}
	return rc;
}

static int plan_new(cudnnHandle_t handle, const struct flash_shape *s, uint64_t workspace_bytes, struct flash_plan **out,
		    struct tm_err *err)
{
	struct flash_place here = { .handle = handle };
	struct flash_plan *p = tm_xcalloc(1, sizeof *p);
	struct answer a = { 0 };
	struct tm_err last = { 0 };
	char text[FLASH_SHAPE_TEXT];
	int rc = flash_recipe(&p->graph, s, handle, &last);

	p->shape = *s;
	if (!rc)
		rc = ask(&a, &p->graph, &here, &last);
	if (!rc)
		rc = take(p, &a, handle, workspace_bytes, &last);
	if (rc == TM_EENV)
		rc = 0;                   /* nothing is offered */
	else if (rc)
		tm_fail(err, rc, "%s", last.text);
	if (!rc && !p->plan)
		rc = tm_fail(err, TM_EENV, "cuDNN %zu has no attention for %s on this card within %" PRIu64 " B of workspace "
			     "(of %zu offered)%s%s; expected attention materialised", cudnnGetVersion(), flash_shape_text(s, text),
			     workspace_bytes, a.n, last.text[0] ? ": " : "", last.text);
	answer_drop(&a);
	if (rc)
		plan_free(p);
	else
		*out = p;
	return rc;
}

const struct flash_plan *flash_plan_find(const struct flash_plan *list, const struct flash_shape *s)
{
	while (list && !same_shape(&list->shape, s))
		list = list->next;
	return list;
}

int flash_plan_add(struct flash_plan **list, cudnnHandle_t handle, const struct flash_shape *s, uint64_t workspace_bytes,
		   const struct flash_plan **out, struct tm_err *err)
{
	struct flash_plan *p;
	int rc = plan_new(handle, s, workspace_bytes, &p, err);

	if (rc)
		return rc;
	p->next = *list;
	*list = p;
	*out = p;
	return 0;
}

/* ---- carrying out ------------------------------------------------------------------ */

enum { POINTERS_MAX = FLASH_ID_N + FLASH_NUMBERS_MAX };

/* Of a call: whose memory is where. The library reads numbers from the host while it queues the kernel. */
static int pack_new(const struct flash_plan *p, const struct flash_memory *memory, size_t n, void *workspace,
		    cudnnBackendDescriptor_t *out, struct tm_err *err)
{
	int64_t id[POINTERS_MAX];
	void *data[POINTERS_MAX];
	size_t all = 0;
	int rc;

	BUG_ON(n + p->graph.number_n > POINTERS_MAX);
	for (size_t i = 0; i < n; i++, all++) {
		id[all] = memory[i].id;
		data[all] = memory[i].data;
	}
	for (size_t i = 0; i < p->graph.number_n; i++, all++) {
		id[all] = p->graph.number_id[i];
		data[all] = (void *)&p->graph.number[i];
	}
	rc = flash_check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, out), "a call's descriptor", err);
	if (!rc)
		rc = flash_check(cudnnBackendSetAttribute(*out, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, (int64_t)all, id),
				 "a call's names", err);
	if (!rc)
		rc = flash_check(cudnnBackendSetAttribute(*out, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, (int64_t)all,
							  data), "a call's addresses", err);
	if (!rc)
		rc = set(*out, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &workspace, err);
	if (!rc)
		rc = flash_check(cudnnBackendFinalize(*out), "a call", err);
	return rc;
}

int flash_plan_run(const struct flash_plan *p, cudnnHandle_t handle, const struct flash_memory *memory, size_t n,
		   void *workspace, struct tm_err *err)
{
	cudnnBackendDescriptor_t pack = NULL;
	cudnnStatus_t status;
	char what[FLASH_SHAPE_TEXT];
	int rc = pack_new(p, memory, n, workspace, &pack, err);

	if (!rc) {
		status = cudnnBackendExecute(handle, p->plan, pack);
		if (status != CUDNN_STATUS_SUCCESS)
			rc = flash_check(status, flash_shape_text(&p->shape, what), err);
	}
	if (pack)
		cudnnBackendDestroyDescriptor(pack);
	return rc;
}
