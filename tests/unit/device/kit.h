/*
 * What the device tests share: a device with a memory of its own, tensors
 * filled from a seed, distances. Numbers are drawn by splitmix64, so a failing
 * case repeats.
 *
 * The device is the CPU, or the one that TIDEMARK_TEST_DEVICE names: the same
 * tests are run on a card (mirror.h). "cpu:" is the CPU treated as a card is, which tests that.
 */
#ifndef TM_TEST_DEVICE_KIT_H
#define TM_TEST_DEVICE_KIT_H

#include "test.h"

#include "base/mem.h"
#include "device/device.h"
#include "device/half.h"
#include "device/mirror.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

struct kit {
	struct device *dev;
	struct mem *mem;
	struct mem_block *standing;       /* the device's, in this memory */
	struct mirror *mirror;            /* NULL: the device's addresses are pointers */
	uint64_t state;                   /* of the generator */
};

static inline const char *kit_device(void)
{
	const char *name = getenv("TIDEMARK_TEST_DEVICE");

	return name && *name ? name : "cpu";
}

static inline bool kit_on_cpu(void)
{
	return !strcmp(kit_device(), "cpu");
}

/* In main, of tests that say something about the CPU device alone: elsewhere they are skipped, with the reason. */
#define KIT_CPU_ONLY(why) do { \
	if (!kit_on_cpu()) { \
		printf("skipped on %s: %s\n", kit_device(), why); \
		return 77; \
	} \
} while (0)

/*
 * Of a card one device serves all kits, several at a time too: what its libraries build once takes them
 * seconds. So a kit gives it its own memory whenever something is done with it.
 */
static struct device *kit_card;

static inline void kit_lend_memory(struct kit *k)
{
	k->dev->mem = k->mem;
	k->dev->standing = k->standing;
}

static inline void kit_open_device(struct kit *k, int threads)
{
	struct tm_err err = { 0 };

	if (!kit_on_cpu() && kit_card) {
		k->dev = kit_card;
		device_reset_account(k->dev);
		return;
	}
	assert_ok(device_open(kit_device(), threads, &k->dev, &err), &err);
	if (!kit_on_cpu())
		kit_card = k->dev;
}

static inline void kit_close_memory(struct kit *k)
{
	kit_lend_memory(k);
	device_stop(k->dev);
	mem_free(k->mem);
	k->dev->mem = k->mem = NULL;
	k->standing = NULL;
}

/* In place of the one that is there, if any. */
static inline void kit_open_memory(struct kit *k, const char *policy)
{
	struct mem_config cfg = { .policy = policy };
	struct mem_driver *drv;
	struct tm_err err = { 0 };

	if (k->mem)
		kit_close_memory(k);
	drv = device_driver(k->dev, &err);
	assert_non_null(drv);
	k->mirror = kit_on_cpu() ? NULL : mirror_new(drv);
	assert_ok(mem_new(&cfg, k->mirror ? &k->mirror->driver : drv, &k->mem, &err), &err);
	kit_lend_memory(k);
	assert_ok(device_start(k->dev, &err), &err);
	k->standing = k->dev->standing;
}

static inline void kit_open(struct kit *k, int threads)
{
	*k = (struct kit){ .state = 1 };
	kit_open_device(k, threads);
	kit_open_memory(k, "raw");
	device_set_phase(k->dev, "forward");
}

/* Frees every tensor too. */
static inline void kit_close(struct kit *k)
{
	kit_close_memory(k);
	if (kit_on_cpu())
		device_close(k->dev);
}

static inline void kit_enter(struct kit *k)
{
	kit_lend_memory(k);
	if (k->mirror)
		mirror_all(k->dev, k->mirror, true);
}

static inline int kit_leave(struct kit *k, int rc)
{
	if (k->mirror)
		mirror_all(k->dev, k->mirror, false);
	return rc;
}

/* The code of an operation, called where the device can reach the tensors. */
#define KIT_CALL(k, call) (kit_enter(k), kit_leave(k, (call)))

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
	if (k->mirror)
		mirror_show(k->mirror, t.block);
	return t;
}

/* One element of any real type, read and (to nearest, ties to even) written. */
static inline double kit_get(const struct tensor *t, int64_t i)
{
	switch (t->dtype) {
	case DT_F32: return (double)tensor_f32(t)[i];
	case DT_BF16: return (double)bf16_to_f32(((const uint16_t *)tensor_data(t))[i]);
	case DT_F16: return (double)f16_to_f32(((const uint16_t *)tensor_data(t))[i]);
	default: fail_msg("element of a tensor of type %s", dtype_name[t->dtype]);
	}
	return 0;
}

static inline void kit_put(struct tensor *t, int64_t i, double value)
{
	switch (t->dtype) {
	case DT_F32: tensor_f32(t)[i] = (float)value; break;
	case DT_BF16: ((uint16_t *)tensor_data(t))[i] = bf16_from_f32((float)value); break;
	case DT_F16: ((uint16_t *)tensor_data(t))[i] = f16_from_f32((float)value); break;
	default: fail_msg("element of a tensor of type %s", dtype_name[t->dtype]);
	}
}

/* x as the type stores it. */
static inline double kit_round(enum dtype dtype, float x)
{
	return dtype == DT_BF16 ? (double)bf16_to_f32(bf16_from_f32(x)) : dtype == DT_F16 ? (double)f16_to_f32(f16_from_f32(x))
									: (double)x;
}

/* The unit roundoff u of a type: storing x once gives x · (1 + δ), |δ| ≤ u. */
static inline double kit_roundoff(enum dtype dtype)
{
	return dtype == DT_BF16 ? 0x1p-8 : dtype == DT_F16 ? 0x1p-11 : 0x1p-24;
}

/* The bound of a result that is computed in f32 to `f32` and then rounded once. */
static inline double kit_bound(enum dtype dtype, double f32)
{
	return dtype == DT_F32 ? f32 : f32 + kit_roundoff(dtype);
}

static const enum dtype kit_types[] = { DT_F32, DT_BF16, DT_F16 };

#define SHAPE(...) (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ }
#define NEW_OF(k, dtype, ...) kit_tensor(k, dtype, SHAPE(__VA_ARGS__))
#define NORMAL_OF(k, dtype, ...) kit_normals(k, kit_tensor(k, dtype, SHAPE(__VA_ARGS__)))
#define NEW(k, ...) NEW_OF(k, DT_F32, __VA_ARGS__)
#define NORMAL(k, ...) NORMAL_OF(k, DT_F32, __VA_ARGS__)
#define BELOW(k, limit, ...) kit_below(k, limit, kit_tensor(k, DT_I32, SHAPE(__VA_ARGS__)))

static inline struct tensor kit_normals(struct kit *k, struct tensor t)
{
	for (int64_t i = 0; i < tensor_n(&t); i++)
		kit_put(&t, i, kit_normal(k));
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
		kit_put(t, i, (double)value);
}

/* To be freed. */
static inline double *kit_double(const struct tensor *t)
{
	double *d = tm_xcalloc((size_t)tensor_n(t), sizeof *d);

	for (int64_t i = 0; i < tensor_n(t); i++)
		d[i] = kit_get(t, i);
	return d;
}

/* ‖a - b‖ / ‖b‖; NaN anywhere gives NaN, which no bound accepts. */
static inline double kit_distance(const struct tensor *a, const double *b)
{
	double diff = 0, norm = 0;

	for (int64_t i = 0; i < tensor_n(a); i++) {
		diff += (kit_get(a, i) - b[i]) * (kit_get(a, i) - b[i]);
		norm += b[i] * b[i];
	}
	return norm > 0 ? sqrt(diff / norm) : sqrt(diff);
}

#define assert_near(tensor, reference, bound) do { \
	double distance_ = kit_distance(tensor, reference); \
	if (!(distance_ <= (bound))) \
		fail_msg("%s (%s): relative distance %.3g, expected at most %.3g", #tensor, dtype_name[(tensor)->dtype], \
			 distance_, (double)(bound)); \
} while (0)

#define RUN(op, k, ...) do { \
	struct tm_err err_ = { 0 }; \
	assert_ok(KIT_CALL(k, op_##op((k)->dev, &(struct op_##op){ __VA_ARGS__ }, &err_)), &err_); \
} while (0)

/* True if fn ends its process as BUG does; `text` takes what it writes to stderr. */
static inline bool kit_bug(void (*fn)(void *), void *arg, char *text, size_t size)
{
	size_t got = 0;
	int fd[2], status;
	ssize_t n;
	pid_t pid;

	fflush(NULL);
	assert_int_equal(pipe(fd), 0);
	pid = fork();
	if (pid == 0) {
		if (dup2(fd[1], STDERR_FILENO) < 0)
			_exit(1);
		fn(arg);
		_exit(0);
	}
	assert_true(pid > 0);
	close(fd[1]);
	while (got + 1 < size && (n = read(fd[0], text + got, size - 1 - got)) > 0)
		got += (size_t)n;
	text[got] = 0;
	close(fd[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == -TM_EBUG;
}

#endif
