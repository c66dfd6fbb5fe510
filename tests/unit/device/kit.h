/*
 * What the device tests share: a CPU device with a memory of its own, tensors
 * filled from a seed, distances. Numbers are drawn by splitmix64, so a failing
 * case repeats.
 */
#ifndef TM_TEST_DEVICE_KIT_H
#define TM_TEST_DEVICE_KIT_H

#include "test.h"

#include "base/mem.h"
#include "device/device.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

struct kit {
	struct device *dev;
	struct mem *mem;
	uint64_t state;                   /* of the generator */
};

static inline void kit_open(struct kit *k, int threads)
{
	struct mem_config cfg = { .policy = "raw" };
	struct mem_driver *drv;
	struct tm_err err = { 0 };

	*k = (struct kit){ .state = 1 };
	assert_ok(device_open("cpu", threads, &k->dev, &err), &err);
	drv = device_driver(k->dev, &err);
	assert_non_null(drv);
	assert_ok(mem_new(&cfg, drv, &k->mem, &err), &err);
	k->dev->mem = k->mem;
	device_set_phase(k->dev, "forward");
}

/* Frees every tensor too. */
static inline void kit_close(struct kit *k)
{
	mem_free(k->mem);
	device_close(k->dev);
}

static inline uint64_t kit_u64(struct kit *k)
{
	uint64_t z = k->state += 0x9E3779B97F4A7C15ull;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
	return z ^ (z >> 31);
}

static inline double kit_uniform(struct kit *k)
{
	return (double)(kit_u64(k) >> 11) * 0x1p-53;
}

static inline double kit_normal(struct kit *k)
{
	double u = 1 - kit_uniform(k), v = kit_uniform(k);

	return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static inline struct tensor kit_tensor(struct kit *k, enum dtype dtype, int rank, const int64_t *shape)
{
	struct tm_err err = { 0 };
	struct tensor t;
	int64_t s[4] = { 1, 1, 1, 1 };

	for (int i = 0; i < rank; i++)
		s[i] = shape[i];
	assert_ok(tensor_new(k->mem, &t, MEM_ACTIVATIONS, "test", dtype, &err, rank, s[0], s[1], s[2], s[3]), &err);
	return t;
}

#define SHAPE(...) (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ }
#define NEW(k, ...) kit_tensor(k, DT_F32, SHAPE(__VA_ARGS__))
#define NORMAL(k, ...) kit_normals(k, kit_tensor(k, DT_F32, SHAPE(__VA_ARGS__)))
#define BELOW(k, limit, ...) kit_below(k, limit, kit_tensor(k, DT_I32, SHAPE(__VA_ARGS__)))

static inline struct tensor kit_normals(struct kit *k, struct tensor t)
{
	for (int64_t i = 0; i < tensor_n(&t); i++)
		tensor_f32(&t)[i] = (float)kit_normal(k);
	return t;
}

/* Integers 0 … limit - 1. */
static inline struct tensor kit_below(struct kit *k, uint64_t limit, struct tensor t)
{
	for (int64_t i = 0; i < tensor_n(&t); i++)
		tensor_i32(&t)[i] = (int32_t)(kit_u64(k) % limit);
	return t;
}

static inline void kit_set(struct tensor *t, float value)
{
	for (int64_t i = 0; i < tensor_n(t); i++)
		tensor_f32(t)[i] = value;
}

/* To be freed. */
static inline double *kit_double(const struct tensor *t)
{
	double *d = tm_xcalloc((size_t)tensor_n(t), sizeof *d);

	for (int64_t i = 0; i < tensor_n(t); i++)
		d[i] = (double)tensor_f32(t)[i];
	return d;
}

/* ‖a - b‖ / ‖b‖; NaN anywhere gives NaN, which no bound accepts. */
static inline double kit_distance(const float *a, const double *b, int64_t n)
{
	double diff = 0, norm = 0;

	for (int64_t i = 0; i < n; i++) {
		diff += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
		norm += b[i] * b[i];
	}
	return norm > 0 ? sqrt(diff / norm) : sqrt(diff);
}

#define assert_near(tensor, reference, bound) do { \
	double distance_ = kit_distance(tensor_f32(tensor), (reference), tensor_n(tensor)); \
	if (!(distance_ <= (bound))) \
		fail_msg("%s: relative distance %.3g, expected at most %.3g", #tensor, distance_, (double)(bound)); \
} while (0)

#define RUN(op, k, ...) do { \
	struct tm_err err_ = { 0 }; \
	assert_ok(op_##op((k)->dev, &(struct op_##op){ __VA_ARGS__ }, &err_), &err_); \
} while (0)

/* True if fn ends its process as BUG does. */
static inline bool kit_is_bug(void (*fn)(void *), void *arg)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		fn(arg);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == -TM_EBUG;
}

#endif
