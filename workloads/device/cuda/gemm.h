/*
 * Between cuda_multiply and cuBLASLt. A product is known by its key: all that
 * the choice of an algorithm may depend on, and nothing else, so that the same
 * key has the same algorithm in every run. The algorithm is the one pinned for
 * the key (gemm_pins.h), or the library's first within the workspace; it is
 * never found by timing in a run, since timed choices differ from night to
 * night and change speed and bits.
 */
#ifndef TM_CUDA_GEMM_H
#define TM_CUDA_GEMM_H

#include "base/str.h"
#include "device/cuda/cuda.h"

/* Alignments are logarithms; the library tells no more apart than 256 bytes. */
enum { GEMM_ALIGN_MAX = 8 };

/* Keys are compared and hashed as bytes, so there is no padding. Strides are 0 where batch is 1. */
struct gemm_key {
	int64_t m, n, k, batch;
	int64_t lda, ldb, ldc, stride_a, stride_b, stride_c;
	uint8_t ta, tb, in, out;          /* in, out: enum dtype */
	uint8_t tf32, bias, accumulate;   /* accumulate: beta is not 0 */
	uint8_t align_a, align_b, align_c, align_bias;
	uint8_t zero[5];
};
_Static_assert(sizeof(struct gemm_key) == 10 * sizeof(int64_t) + 16, "a key has no padding");

void gemm_key_of(struct gemm_key *key, const struct cuda_product *p);
/* "bf16 m 16384 n 768 k 3072 …", for errors. */
void gemm_key_text(const struct gemm_key *key, struct tm_str *out);
/* As an object of a pins file (docs/protocol.md, "Calibrate"); reading is strict, TM_EINPUT. */
json_t *gemm_key_json(const struct gemm_key *key);
int gemm_key_read(const json_t *v, struct gemm_key *key, struct tm_err *err);

/*
 * The library thinks in columns. A row-major matrix is its transpose stored by
 * columns, so it is asked for Cᵀ = op(B)ᵀ · op(A)ᵀ: its first operand is our b,
 * its second our a, and nothing is moved. rows, cols: as it lies in memory.
 */
struct gemm_side { int64_t rows, cols, ld, stride; bool trans; };
struct gemm_sides { struct gemm_side first, second, result; };
struct gemm_sides gemm_sides_of(const struct gemm_key *key);

/* ---- the library's descriptors of one key (gemm_shape.c) ------------------- */

struct gemm_shape {
	cublasLtMatmulDesc_t op;
	cublasLtMatrixLayout_t first, second, result;
};

int gemm_shape_open(struct gemm_shape *s, const struct gemm_key *key, struct tm_err *err);
void gemm_shape_close(struct gemm_shape *s);

/*
 * The library's proposals, best first by its own estimate, none of which wants
 * more than the workspace or rounds partial sums to the stored type. *n: how
 * many there are, at most `most`; 0 is no error.
 */
int gemm_shape_propose(cublasLtHandle_t lt, const struct gemm_shape *s, const struct gemm_key *key,
		       cublasLtMatmulHeuristicResult_t *out, int most, int *n, struct tm_err *err);
/* Whether an algorithm from a file is one that the library accepts here, within the workspace. */
bool gemm_shape_accepts(cublasLtHandle_t lt, const struct gemm_shape *s, const cublasLtMatmulAlgo_t *algo);
/* Queues the product; p has the key that s was made for. */
cublasStatus_t gemm_shape_run(struct device *dev, const struct gemm_shape *s, const struct cuda_product *p,
			      const cublasLtMatmulAlgo_t *algo);

/* ---- which products an operation is made of ---------------------------------- */

/*
 * `args` is the operation's struct. What is queued several times with other
 * addresses is listed once. The number of them; 0: the operation has none.
 */
enum { CUDA_PRODUCTS_MAX = 4 };
size_t cuda_linear_products(enum device_op op, const void *args, struct cuda_product out[CUDA_PRODUCTS_MAX]);
size_t cuda_attention_products(enum device_op op, const void *args, const void *ws,
			       struct cuda_product out[CUDA_PRODUCTS_MAX]);

/*
 * For the record, as a new object: the library's version, the file of pins and
 * its SHA-256 or why there is none, how many products so far had a pinned
 * algorithm, the first heuristic, or a pin that the library refused.
 */
json_t *cuda_gemms_facts(const struct cuda_gemms *g);

/* Choosing them by measuring (calibrate.c). */
extern const struct device_tuning cuda_tuning;

#endif
