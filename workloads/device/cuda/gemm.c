/*
 * cuda_multiply: each product's descriptors and algorithm are found once and
 * kept by key, so that a step of the thousandth call costs a look-up and the
 * launch.
 */
#include "device/cuda/gemm.h"

#include "base/mem.h"
#include "device/cuda/gemm_pins.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1024 };                    /* of chains; a training step has some dozens of keys */

enum entry_kind { ENTRY_HEURISTIC, ENTRY_PINNED };

struct entry {
	struct entry *next;
	struct gemm_key key;
	struct gemm_shape shape;
	cublasLtMatmulAlgo_t algo;
	enum entry_kind kind;
	bool bias_apart;                  /* no algorithm adds the bias: it is put into c, and the product added */
};

struct cuda_gemms {
	struct gemm_pins *pins;           /* NULL: none for this card and library */
	char *no_pins;                    /* why, then */
	struct entry *slot[SLOTS];
	int64_t pinned_n, heuristic_n, refused_n;       /* keys */
	char *refused;                    /* the first of those, as text */
};

/* ---- opening --------------------------------------------------------------- */

struct cuda_gemms *cuda_gemms_new(struct device *dev, struct tm_err *err)
{
	struct cuda_gemms *g = tm_xcalloc(1, sizeof *g);

	if (gemm_pins_open(cuda_of(dev)->prop.name, (int64_t)cublasLtGetVersion(), &g->pins, &g->no_pins, err)) {
		if (err)
			err->code = TM_EENV;
		cuda_gemms_free(g);
		return NULL;
	}
	return g;
}

static void entry_free(struct entry *e)
{
	gemm_shape_close(&e->shape);
	free(e);
}

void cuda_gemms_free(struct cuda_gemms *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < SLOTS; i++)
		for (struct entry *e = g->slot[i], *next; e; e = next) {
			next = e->next;
			entry_free(e);
		}
	gemm_pins_free(g->pins);
	free(g->no_pins);
	free(g->refused);
	free(g);
}

json_t *cuda_gemms_facts(const struct cuda_gemms *g)
{
	json_t *v = json_pack("{s:I, s:s, s:I, s:I, s:I}", "cublas", (json_int_t)cublasLtGetVersion(),
			      "algorithms", g->pins ? "pinned" : "first heuristic", "pinned", (json_int_t)g->pinned_n,
			      "heuristic", (json_int_t)g->heuristic_n, "refused", (json_int_t)g->refused_n);

	if (g->pins) {
		json_object_set_new(v, "file", json_string(g->pins->from));
		json_object_set_new(v, "sha256", json_string(g->pins->sha256));
		json_object_set_new(v, "pins", json_integer((json_int_t)g->pins->n));
	} else {
		json_object_set_new(v, "why", json_string(g->no_pins ? g->no_pins : ""));
	}
	if (g->refused)
		json_object_set_new(v, "first_refused", json_string(g->refused));
	return v;
}

/* ---- choosing --------------------------------------------------------------- */

/* The library takes its pin back: said in the record, and the product goes on with the first heuristic. */
static void note_refusal(struct cuda_gemms *g, const struct entry *e)
{
	struct tm_str text = TM_STR_INIT;

	g->refused_n++;
	if (g->refused)
		return;
	gemm_key_text(&e->key, &text);
	g->refused = tm_str_detach(&text);
}

/* *n is 0 where the library has no algorithm. */
static int first_heuristic(struct device *dev, struct entry *e, int *n, struct tm_err *err)
{
	cublasLtMatmulHeuristicResult_t found;
	int rc = gemm_shape_propose(cuda_of(dev)->lt, &e->shape, &e->key, &found, 1, n, err);

	if (!rc && *n) {
		e->algo = found.algo;
		e->kind = ENTRY_HEURISTIC;
	}
	return rc;
}

/* Shapes that no algorithm with a bias has (odd widths in 16 bits): the same result by another way, see cuda_multiply. */
static int without_bias(struct device *dev, struct entry *e, int *n, struct tm_err *err)
{
	int rc;

	gemm_shape_close(&e->shape);
	e->key.bias = e->key.align_bias = 0;
	e->key.accumulate = 1;
	e->bias_apart = true;
	rc = gemm_shape_open(&e->shape, &e->key, err);
	return rc ? rc : first_heuristic(dev, e, n, err);
}

static int no_algorithm(const struct entry *e, const char *what, struct tm_err *err)
{
	struct tm_str text = TM_STR_INIT;
	int rc;

	gemm_key_text(&e->key, &text);
	rc = tm_fail(err, TM_EENV, "%s: cuBLASLt %zu has no algorithm within %llu MiB for %s", what, cublasLtGetVersion(),
		     CUDA_GEMM_WORKSPACE_BYTES >> 20, text.s);
	tm_str_free(&text);
	return rc;
}

static int choose(struct device *dev, struct entry *e, const char *what, struct tm_err *err)
{
	struct cuda_gemms *g = cuda_of(dev)->gemms;
	const cublasLtMatmulAlgo_t *pin = gemm_pins_find(g->pins, &e->key);
	int rc, n = 0;

	if (pin && gemm_shape_accepts(cuda_of(dev)->lt, &e->shape, pin)) {
		e->algo = *pin;
		e->kind = ENTRY_PINNED;
		g->pinned_n++;
		return 0;
	}
	if (pin)
		note_refusal(g, e);
	rc = first_heuristic(dev, e, &n, err);
	if (!rc && !n && e->key.bias)
		rc = without_bias(dev, e, &n, err);
	if (!rc && !n)
		rc = no_algorithm(e, what, err);
	if (!rc)
		g->heuristic_n++;
	return rc;
}

/* FNV-1a, over words: every byte of a key is defined. */
static size_t slot_of(const struct gemm_key *key)
{
	uint64_t h = 0xcbf29ce484222325ull, word;

	for (size_t i = 0; i + sizeof word <= sizeof *key; i += sizeof word) {
		memcpy(&word, (const char *)key + i, sizeof word);
		h = (h ^ word) * 0x100000001b3ull;
		h ^= h >> 32;
	}
	return h % SLOTS;
}
_Static_assert(sizeof(struct gemm_key) % sizeof(uint64_t) == 0, "a key is whole words");

static int entry_of(struct device *dev, const struct cuda_product *p, struct entry **out, struct tm_err *err)
{
	struct cuda_gemms *g = cuda_of(dev)->gemms;
	struct gemm_key key;
	struct entry **slot, *e;
	int rc;

	gemm_key_of(&key, p);
	slot = &g->slot[slot_of(&key)];
	for (e = *slot; e; e = e->next) {
		struct gemm_key asked = key;

		if (e->bias_apart) {            /* its own key is that of what is queued */
			if (!asked.bias)
				continue;
			asked.bias = asked.align_bias = 0;
			asked.accumulate = 1;
		}
		if (!memcmp(&e->key, &asked, sizeof asked)) {
			*out = e;
			return 0;
		}
	}
	e = tm_xcalloc(1, sizeof *e);
	e->key = key;
	rc = gemm_shape_open(&e->shape, &key, err);
	if (!rc)
		rc = choose(dev, e, p->what, err);
	if (rc) {
		entry_free(e);
		return rc;
	}
	e->next = *slot;
	*slot = e;
	*out = e;
	return 0;
}

/* ---- multiplying --------------------------------------------------------------- */

/* What the check of an algorithm cannot see is found out by the call: a pin that fails there is refused as well. */
static int queue(struct device *dev, struct entry *e, const struct cuda_product *p, struct tm_err *err)
{
	cublasStatus_t status = gemm_shape_run(dev, &e->shape, p, &e->algo);
	struct cuda_gemms *g = cuda_of(dev)->gemms;
	int rc, n;

	if (!status || e->kind != ENTRY_PINNED || (status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_INVALID_VALUE))
		return cuda_check_lt(status, p->what, err);
	rc = first_heuristic(dev, e, &n, err);
	if (!rc && !n)
		rc = no_algorithm(e, p->what, err);
	if (rc)
		return rc;
	note_refusal(g, e);
	g->pinned_n--;
	g->heuristic_n++;
	return cuda_check_lt(gemm_shape_run(dev, &e->shape, p, &e->algo), p->what, err);
}

/* c = bias in each row, then c += product: one rounding, as with the bias added on the way out. */
static int queue_after_bias(struct device *dev, struct entry *e, const struct cuda_product *p, struct tm_err *err)
{
	struct cuda_product rest = *p;
	int rc;

	BUG_ON(p->batch != 1);
	rc = cuda_check(k_bias_rows(cuda_of(dev)->stream, p->out, p->c, p->bias, p->m, p->n, p->ldc), p->what, err);
	if (rc)
		return rc;
	rest.bias = NULL;
	rest.beta = 1;
	return queue(dev, e, &rest, err);
}

int cuda_multiply(struct device *dev, const struct cuda_product *p, struct tm_err *err)
{
	struct entry *e;
	int rc;

	BUG_ON(p->bias && (p->beta != 0 || p->batch != 1));
	if (p->m == 0 || p->n == 0 || p->batch == 0)
		return 0;
	rc = entry_of(dev, p, &e, err);
	if (rc)
		return rc;
	return e->bias_apart ? queue_after_bias(dev, e, p, err) : queue(dev, e, p, err);
}
