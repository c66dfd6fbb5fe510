/*
 * The builder (flash_graph.h). A descriptor is made, given its attributes and
 * finalized; whatever the library does not like about it, it says at the
 * latest then.
 */
#include "device/cuda/flash_graph.h"

#include "base/err.h"

#include <string.h>

/* 3000 to 3999 say what the library, or this card, does not have. */
static int code_of(cudnnStatus_t status)
{
	if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
		return TM_EOOM;
	return status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000 ? TM_EENV : TM_EIO;
}

int flash_check(cudnnStatus_t status, const char *what, struct tm_err *err)
{
	char text[512] = "";

	if (status == CUDNN_STATUS_SUCCESS)
		return 0;
	cudnnGetLastErrorString(text, sizeof text);
	text[strcspn(text, "\n")] = '\0';
	return tm_fail(err, code_of(status), "cuDNN, %s: %s%s%s", what, cudnnGetErrorString(status), *text ? ": " : "", text);
}

/* ---- descriptors ------------------------------------------------------------- */

static bool check(struct flash_graph *g, cudnnStatus_t status, const char *what)
{
	if (!g->rc)
		g->rc = flash_check(status, what, g->err);
	return !g->rc;
}

/* NULL after an error. */
static cudnnBackendDescriptor_t make(struct flash_graph *g, cudnnBackendDescriptorType_t type)
{
	cudnnBackendDescriptor_t d = NULL;

	if (g->rc)
		return NULL;
	BUG_ON(g->made_n == FLASH_MADE_MAX);
	if (!check(g, cudnnBackendCreateDescriptor(type, &d), "a descriptor"))
		return NULL;
	g->made[g->made_n++] = d;
	return d;
}

static void set(struct flash_graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
		cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
	if (!g->rc)
		check(g, cudnnBackendSetAttribute(d, name, type, n, value), "an attribute");
}

/* Another descriptor as attribute; NULL: left out. */
static void set_part(struct flash_graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t part)
{
	if (part)
		set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static void set_type(struct flash_graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnDataType_t type)
{
	set(g, d, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

static void finish(struct flash_graph *g, cudnnBackendDescriptor_t d, const char *what)
{
	if (!g->rc)
		check(g, cudnnBackendFinalize(d), what);
}

static void add(struct flash_graph *g, cudnnBackendDescriptor_t op, const char *what)
{
	finish(g, op, what);
	BUG_ON(g->op_n == FLASH_OPS_MAX);
	g->op[g->op_n++] = op;
}

/* ---- the graph ---------------------------------------------------------------- */

void flash_graph_begin(struct flash_graph *g, int64_t batch, int64_t heads, int64_t seq, struct tm_err *err)
{
	const int64_t dim[4] = { batch, heads, seq, seq }, stride[4] = { heads * seq * seq, seq * seq, seq, 1 };

	memset(g, 0, sizeof *g);
	g->err = err;
	g->last_id = FLASH_ID_END;
	memcpy(g->scores, dim, sizeof dim);
	memcpy(g->scores_stride, stride, sizeof stride);
}

int flash_graph_end(struct flash_graph *g, cudnnHandle_t handle)
{
	cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);

	set(g, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, (int64_t)g->op_n, g->op);
	if (handle)
		set(g, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
	finish(g, d, "the graph of attention");
	g->graph = g->rc ? NULL : d;
	g->err = NULL;                    /* the caller's; it may be gone when a plan is made */
	return g->rc;
}

void flash_graph_drop(struct flash_graph *g)
{
	while (g->made_n)
		cudnnBackendDestroyDescriptor(g->made[--g->made_n]);
	g->op_n = 0;
	g->graph = NULL;
}

/* ---- tensors ------------------------------------------------------------------- */

static flash_tensor tensor(struct flash_graph *g, int64_t id, cudnnDataType_t type, const int64_t dim[4], const int64_t stride[4],
			   int64_t alignment, cudnnBackendAttributeName_t kind)
{
	cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	bool yes = true;

	set_type(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
	set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
	set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
	set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
	set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
	if (kind != CUDNN_ATTR_TENSOR_UNIQUE_ID)
		set(g, d, kind, CUDNN_TYPE_BOOLEAN, 1, &yes);
	finish(g, d, "a tensor");
	return d;
}

flash_tensor flash_real(struct flash_graph *g, int64_t id, cudnnDataType_t type, const int64_t dim[4], const int64_t stride[4],
			int64_t alignment)
{
	BUG_ON(id <= 0 || id >= FLASH_ID_END);
	return tensor(g, id, type, dim, stride, alignment, CUDNN_ATTR_TENSOR_UNIQUE_ID);
}

flash_tensor flash_virtual(struct flash_graph *g, cudnnDataType_t type, const int64_t dim[4], const int64_t stride[4])
{
	return tensor(g, ++g->last_id, type, dim, stride, FLASH_ALIGNMENT, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

flash_tensor flash_scores_like(struct flash_graph *g, cudnnDataType_t type, bool turned)
{
	const int64_t *s = g->scores_stride, other[4] = { s[0], s[1], s[3], s[2] };

	return flash_virtual(g, type, g->scores, turned ? other : s);
}

flash_tensor flash_rows(struct flash_graph *g, int64_t id)
{
	const int64_t dim[4] = { g->scores[0], g->scores[1], g->scores[2], 1 };
	const int64_t stride[4] = { g->scores[1] * g->scores[2], g->scores[2], 1, 1 };

	return id ? flash_real(g, id, CUDNN_DATA_FLOAT, dim, stride, FLASH_ALIGNMENT) : flash_virtual(g, CUDNN_DATA_FLOAT, dim, stride);
}

static const int64_t ones[4] = { 1, 1, 1, 1 };

flash_tensor flash_vector(struct flash_graph *g, int64_t id, cudnnDataType_t type, int64_t n)
{
	const int64_t dim[4] = { n, 1, 1, 1 };

	return flash_real(g, id, type, dim, ones, FLASH_ALIGNMENT);
}

flash_tensor flash_number(struct flash_graph *g, float value)
{
	BUG_ON(g->number_n == FLASH_NUMBERS_MAX);
	g->number_id[g->number_n] = ++g->last_id;
	g->number[g->number_n++] = value;
	return tensor(g, g->last_id, CUDNN_DATA_FLOAT, ones, ones, FLASH_ALIGNMENT, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
}

/* ---- operations ------------------------------------------------------------------ */

struct point { cudnnPointwiseMode_t mode; cudnnDataType_t math; int64_t axis; flash_tensor x, b, t, y; };

static void point(struct flash_graph *g, struct point p)
{
	cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), op;
	float one = 1;

	set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &p.mode);
	set_type(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, p.math);
	if (p.mode == CUDNN_POINTWISE_GEN_INDEX)
		set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &p.axis);
	finish(g, how, "a pointwise descriptor");
	op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
	set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p.x);
	set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p.b);
	set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p.t);
	set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, p.y);
	set(g, op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, &one);
	set(g, op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &one);
	add(g, op, "a pointwise operation");
}

void flash_point(struct flash_graph *g, cudnnPointwiseMode_t mode, flash_tensor x, flash_tensor b, flash_tensor y)
{
	point(g, (struct point){ .mode = mode, .math = CUDNN_DATA_FLOAT, .x = x, .b = b, .y = y });
}

flash_tensor flash_scored(struct flash_graph *g, cudnnPointwiseMode_t mode, flash_tensor x, flash_tensor b)
{
	flash_tensor y = flash_scores_like(g, CUDNN_DATA_FLOAT, false);

	flash_point(g, mode, x, b, y);
	return y;
}

flash_tensor flash_mask(struct flash_graph *g, cudnnPointwiseMode_t mode, flash_tensor x, flash_tensor b)
{
	flash_tensor y = flash_scores_like(g, CUDNN_DATA_BOOLEAN, false);

	point(g, (struct point){ .mode = mode, .math = CUDNN_DATA_BOOLEAN, .x = x, .b = b, .y = y });
	return y;
}

flash_tensor flash_index(struct flash_graph *g, flash_tensor x, int64_t axis, cudnnDataType_t math)
{
	flash_tensor y = flash_scores_like(g, CUDNN_DATA_INT32, false);

	point(g, (struct point){ .mode = CUDNN_POINTWISE_GEN_INDEX, .math = math, .axis = axis, .x = x, .y = y });
	return y;
}

flash_tensor flash_select(struct flash_graph *g, flash_tensor x, flash_tensor other, flash_tensor mask)
{
	flash_tensor y = flash_scores_like(g, CUDNN_DATA_FLOAT, false);

	point(g, (struct point){ .mode = CUDNN_POINTWISE_BINARY_SELECT, .math = CUDNN_DATA_FLOAT, .x = x, .b = other, .t = mask, .y = y });
	return y;
}

void flash_reduce(struct flash_graph *g, cudnnReduceTensorOp_t how, flash_tensor x, flash_tensor y)
{
	cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR), op;

	set_type(g, d, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
	set(g, d, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
	finish(g, d, "a reduction descriptor");
	op = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
	set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, d);
	set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
	set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
	add(g, op, "a reduction");
}

void flash_reshape(struct flash_graph *g, flash_tensor x, flash_tensor y)
{
	cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

	set_part(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
	set_part(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
	add(g, op, "a reshape");
}

void flash_multiply(struct flash_graph *g, flash_tensor a, flash_tensor b, flash_tensor c, struct flash_limits limits, bool padding)
{
	cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR), op;
	double zero = 0;

	set_type(g, d, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
	if (padding)
		set(g, d, CUDNN_ATTR_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 1, &zero);
	finish(g, d, "a matmul descriptor");
	op = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
	set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
	set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
	set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
	set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, d);
	set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, limits.m);
	set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, limits.n);
	set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, limits.k);
	add(g, op, "a matmul");
}

flash_tensor flash_random(struct flash_graph *g, double keep, flash_tensor seed, flash_tensor offset)
{
	flash_tensor y = flash_scores_like(g, CUDNN_DATA_FLOAT, false);
	cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_RNG_DESCRIPTOR), op;
	cudnnRngDistribution_t bernoulli = CUDNN_RNG_DISTRIBUTION_BERNOULLI;

	set(g, d, CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION, 1, &bernoulli);
	set(g, d, CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, CUDNN_TYPE_DOUBLE, 1, &keep);
	finish(g, d, "a generator's descriptor");
	op = make(g, CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR);
	set_part(g, op, CUDNN_ATTR_OPERATION_RNG_YDESC, y);
	set_part(g, op, CUDNN_ATTR_OPERATION_RNG_DESC, d);
	set_part(g, op, CUDNN_ATTR_OPERATION_RNG_SEED, seed);
	set_part(g, op, CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, offset);
	add(g, op, "a generator");
	return y;
}
