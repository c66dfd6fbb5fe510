/* cuBLASLt's descriptors of one product, its proposals for it, and the call. */
#include "device/cuda/gemm.h"

#include "base/mem.h"

static cudaDataType_t library_type(enum dtype t)
{
	switch (t) {
	case DT_F32: return CUDA_R_32F;
	case DT_BF16: return CUDA_R_16BF;
	case DT_F16: return CUDA_R_16F;
	default: BUG("a product of %s", dtype_name[t]);
	}
}

/* fp32 is fp32: no tensor cores, no emulation, whatever would be faster. */
static cublasComputeType_t compute_type(const struct gemm_key *key)
{
	return key->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

#define SET(what, object, name, value) cublasLt##what##SetAttribute(object, name, &(value), sizeof(value))

static int open_layout(cublasLtMatrixLayout_t *out, enum dtype type, const struct gemm_side *side, int64_t batch,
		       struct tm_err *err)
{
	int32_t count = (int32_t)batch;
	cublasStatus_t status;

	status = cublasLtMatrixLayoutCreate(out, library_type(type), (uint64_t)side->rows, (uint64_t)side->cols, side->ld);
	if (!status && batch > 1)
		status = SET(MatrixLayout, *out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
	if (!status && batch > 1)
		status = SET(MatrixLayout, *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, side->stride);
	return cuda_check_lt(status, "describing a matrix", err);
}

/* The proposals depend on how the bias is aligned, which is read off this address; nothing else is done with it. */
static int describe_bias(cublasLtMatmulDesc_t op, const struct gemm_key *key, struct tm_err *err)
{
	cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
	cudaDataType_t type = library_type((enum dtype)key->out);
	const void *somewhere = (const void *)((uintptr_t)1 << key->align_bias);
	cublasStatus_t status;

	status = SET(MatmulDesc, op, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
	if (!status)
		status = SET(MatmulDesc, op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
	if (!status)
		status = SET(MatmulDesc, op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
	return cuda_check_lt(status, "describing a bias", err);
}

static int open_operation(cublasLtMatmulDesc_t *out, const struct gemm_key *key, const struct gemm_sides *sides,
			  struct tm_err *err)
{
	cublasOperation_t first = sides->first.trans ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasOperation_t second = sides->second.trans ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasStatus_t status;
	int rc;

	status = cublasLtMatmulDescCreate(out, compute_type(key), CUDA_R_32F);
	if (!status)
		status = SET(MatmulDesc, *out, CUBLASLT_MATMUL_DESC_TRANSA, first);
	if (!status)
		status = SET(MatmulDesc, *out, CUBLASLT_MATMUL_DESC_TRANSB, second);
	rc = cuda_check_lt(status, "describing a product", err);
	return !rc && key->bias ? describe_bias(*out, key, err) : rc;
}

int gemm_shape_open(struct gemm_shape *s, const struct gemm_key *key, struct tm_err *err)
{
	const struct gemm_sides sides = gemm_sides_of(key);
	enum dtype in = (enum dtype)key->in, out = (enum dtype)key->out;
	int rc;

	BUG_ON(key->m < 1 || key->n < 1 || key->k < 1 || key->batch < 1 || key->batch > INT32_MAX);
	*s = (struct gemm_shape){ 0 };
	rc = open_operation(&s->op, key, &sides, err);
	if (!rc)
		rc = open_layout(&s->first, in, &sides.first, key->batch, err);
	if (!rc)
		rc = open_layout(&s->second, in, &sides.second, key->batch, err);
	if (!rc)
		rc = open_layout(&s->result, out, &sides.result, key->batch, err);
	if (rc)
		gemm_shape_close(s);
	return rc;
}

void gemm_shape_close(struct gemm_shape *s)
{
	if (s->op)
		cublasLtMatmulDescDestroy(s->op);
	if (s->first)
		cublasLtMatrixLayoutDestroy(s->first);
	if (s->second)
		cublasLtMatrixLayoutDestroy(s->second);
	if (s->result)
		cublasLtMatrixLayoutDestroy(s->result);
	*s = (struct gemm_shape){ 0 };
}

/* ---- proposals ---------------------------------------------------------- */

/*
 * Where a sum is split, the parts are kept in f32 until they are added: a
 * result is rounded once, when it is stored (ops.h).
 */
static int limits(cublasLtMatmulPreference_t want, const struct gemm_key *key, struct tm_err *err)
{
	uint64_t workspace_bytes = CUDA_GEMM_WORKSPACE_BYTES;
	uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	uint32_t first = 1u << key->align_b, second = 1u << key->align_a, result = 1u << key->align_c;
	cublasStatus_t status;

	status = SET(MatmulPreference, want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
	if (!status)
		status = SET(MatmulPreference, want, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
	if (!status)
		status = SET(MatmulPreference, want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, first);
	if (!status)
		status = SET(MatmulPreference, want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, second);
	if (!status)
		status = SET(MatmulPreference, want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result);
	if (!status)
		status = SET(MatmulPreference, want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result);
	return cuda_check_lt(status, "limiting algorithms", err);
}

int gemm_shape_propose(cublasLtHandle_t lt, const struct gemm_shape *s, const struct gemm_key *key,
		       cublasLtMatmulHeuristicResult_t *out, int most, int *n, struct tm_err *err)
{
	cublasLtMatmulPreference_t want = NULL;
	cublasStatus_t status;
	int got = 0, rc;

	*n = 0;
	rc = cuda_check_lt(cublasLtMatmulPreferenceCreate(&want), "limiting algorithms", err);
	if (!rc)
		rc = limits(want, key, err);
	if (rc)
		goto out;
	status = cublasLtMatmulAlgoGetHeuristic(lt, s->op, s->first, s->second, s->result, s->result, want, most, out, &got);
	if (status == CUBLAS_STATUS_NOT_SUPPORTED)      /* it knows none */
		goto out;
	rc = cuda_check_lt(status, "asking for algorithms", err);
	for (int i = 0; i < got && !rc; i++)
		if (out[i].state == CUBLAS_STATUS_SUCCESS && out[i].workspaceSize <= CUDA_GEMM_WORKSPACE_BYTES)
			out[(*n)++] = out[i];
out:
	if (want)
		cublasLtMatmulPreferenceDestroy(want);
	return rc;
}

bool gemm_shape_accepts(cublasLtHandle_t lt, const struct gemm_shape *s, const cublasLtMatmulAlgo_t *algo)
{
	cublasLtMatmulHeuristicResult_t result = { .state = CUBLAS_STATUS_SUCCESS };
	cublasStatus_t status = cublasLtMatmulAlgoCheck(lt, s->op, s->first, s->second, s->result, s->result, algo, &result);

	return status == CUBLAS_STATUS_SUCCESS && result.state == CUBLAS_STATUS_SUCCESS &&
	       result.workspaceSize <= CUDA_GEMM_WORKSPACE_BYTES;
}

/* ---- the call ----------------------------------------------------------- */

cublasStatus_t gemm_shape_run(struct device *dev, const struct gemm_shape *s, const struct cuda_product *p,
			      const cublasLtMatmulAlgo_t *algo)
{
	const struct cuda *cuda = cuda_of(dev);
	cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

	if (p->bias)
		status = SET(MatmulDesc, s->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p->bias);
	if (status)
		return status;
	return cublasLtMatmul(cuda->lt, s->op, &p->alpha, p->b, s->first, p->a, s->second, &p->beta, p->c, s->result,
			      p->c, s->result, algo, cuda_standing(dev), CUDA_GEMM_WORKSPACE_BYTES, cuda->stream);
}
