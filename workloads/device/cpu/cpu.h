/*
 * What the files of the CPU backend share.
 *
 * Two rules hold in all of them. The result does not depend on the number of
 * threads: work is cut into pieces by the shapes alone, each piece is computed
 * by one thread in a fixed order, and sums over pieces are combined in a fixed
 * order. And no workspace depends on it either, so that memory figures are the
 * same on every machine.
 *
 * Inner loops are functions of their own with CPU_CLONES: compiled for AVX2
 * and for the baseline and chosen when the program is loaded. (The bodies of
 * OpenMP regions are not cloned by the compiler, so the loops cannot sit in
 * them.)
 */
#ifndef TM_CPU_H
#define TM_CPU_H

#include "device/device.h"

#include "device/cpu/convert.h"

/* The device itself; entry.c and builtin/ hand it out. */
extern const struct device_backend device_cpu;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CPU_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CPU_CLONES
#endif

/* Elements that elementwise operations hand to a thread at a time: 16 KiB a tensor, which stays in L1 and L2. */
#define CPU_CHUNK 4096

/* Below this many elements a parallel region costs more than it saves. */
#define CPU_SERIAL 16384

/* Columns of a tile in sums over rows: two cache lines, so that threads do not share one. */
#define CPU_SUM_COLS 32

/*
 * Rows that are summed in float before the sum goes to a double. A float sum
 * of n terms has an error of up to n/2 ulp; 64 keeps it at the size of the
 * other roundings, and the doubles cost little then.
 */
#define CPU_SUM_ROWS 64

/* Terms that a sum over a vector takes before it goes to a double; sums of whole blocks can be added up. */
#define CPU_SUM_BLOCK 1024

static inline int64_t cpu_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t cpu_pieces(int64_t n, int64_t piece)
{
	return (n + piece - 1) / piece;
}

/* Sums over n floats, lanes and blocks as above (sum.c). */
double cpu_sum(const float *x, int64_t n);
double cpu_squares(const float *x, int64_t n);
/* The same over elements first … first + n - 1 of a tensor of any real type. */
double cpu_sum_of(const struct tensor *x, int64_t first, int64_t n);
double cpu_squares_of(const struct tensor *x, int64_t first, int64_t n);

/* to[j] (+)= Σ over the rows of x, all columns, tiled; both of any real type, rounded once (sum.c). */
void cpu_column_sums(struct device *dev, struct tensor *to, const struct tensor *x, bool accumulate);
/* to[first + j] (+)= sums[j], n ≤ CPU_SUM_COLS of them, rounded once. */
void cpu_add_sums(struct tensor *to, int64_t first, int64_t n, const double *sums, bool accumulate);

/*
 * factor[i] = 0 or 1/(1-p) for elements first … first + n - 1, n ≤ CPU_CHUNK
 * (dropout.c).
 */
void cpu_drop_factors(float *factor, uint64_t first, int64_t n, float p, struct random_at at);

#define X(name) int cpu_##name(struct device *dev, const struct op_##name *a, void *ws, struct tm_err *err);
DEVICE_OPS(X)
#undef X

#endif
