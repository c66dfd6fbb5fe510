/*
 * A device: the table of operations, and the one place through which every
 * operation goes. That place allocates the workspace the backend asks for
 * (from the run's allocator, category workspace), sets the operator's name,
 * and counts calls, FLOPs, bytes and time, so that no backend repeats it.
 */
#ifndef TM_DEVICE_H
#define TM_DEVICE_H

#include "device/ops.h"

#include <jansson.h>

struct device;

#define DEVICE_VERSION 4

/* What a backend fills in: for each operation a function that computes it (ws: its workspace, NULL if it asked for none). */
struct device_table {
#define X(name) int (*name)(struct device *dev, const struct op_##name *a, void *ws, struct tm_err *err);
	DEVICE_OPS(X)
#undef X
};

/*
 * And beside it, for each operation, how many bytes of workspace it wants
 * for these arguments (NULL: none). A table of its own, since it follows from
 * shapes alone: the planning device asks it without having the backend, so it
 * is part of the program and needs none of the backend's libraries. One file
 * a backend: workspace_cpu.c, and its name in workspace.c.
 */
struct device_workspaces {
#define X(name) uint64_t (*name)(const struct op_##name *a);
	DEVICE_OPS(X)
#undef X
	/* One block for the whole run, allocated by device_start: what a library wants for its matrix products, whatever it chooses. */
	uint64_t standing_bytes;
	bool records;                     /* it has graphs (device_graphs) */
	/*
	 * Whether flash attention can be had for these: NULL, or the reason as half
	 * a sentence with what to choose instead. Member absent: always.
	 */
	const char *(*no_flash)(enum dtype type, int64_t head_dim, int64_t seq);
};
extern const struct device_workspaces device_workspaces_cpu, device_workspaces_cuda;
/* By the backend's name; NULL where there is none. */
const struct device_workspaces *device_workspaces_find(const char *backend);

/*
 * What changes from one step to the next in a step that was recorded: a
 * device with graphs takes these three from here and no longer from the
 * operations' arguments.
 */
struct device_step {
	uint32_t random;                  /* random_at.step of every operation */
	uint32_t update;                  /* step of adamw and sgd, from 1 */
	float loss_scale;                 /* scale of loss */
};

struct device_graph;

/*
 * A whole step recorded once and launched again and again. Between begin and
 * end operations and uploads are recorded and not run; downloads and sync are
 * refused. Uploads of the recording become numbered slots, in order, which
 * `feed` fills anew before a launch. Addresses are those of the recording:
 * the caller sees to it that the allocator keeps the memory (train/launch.h).
 */
struct device_graphs {
	int (*begin)(struct device *dev, struct tm_err *err);
	int (*end)(struct device *dev, struct device_graph **out, struct tm_err *err);
	/* Gives up what was recorded since begin: after an error in between. */
	void (*abandon)(struct device *dev);
	int (*feed)(struct device *dev, struct device_graph *graph, size_t slot, const void *src, uint64_t bytes,
		    struct tm_err *err);
	int (*launch)(struct device *dev, struct device_graph *graph, const struct device_step *step, struct tm_err *err);
	void (*drop)(struct device *dev, struct device_graph *graph);
};

/*
 * How a library carries out its matrix products, chosen beforehand by
 * measuring and never in a run: timed choices differ from night to night, and
 * speed and bits with them. Every operation of a model that is gone through on
 * the planning device is shown to `note`; `measure` makes of what was noted
 * the file that the device reads when it is opened.
 */
struct device_notes;
struct device_tuning {
	/*
	 * Notes what this call would multiply, each kind of product once; `args` is the operation's struct, of
	 * addresses only the alignment counts. *notes NULL: the first. Needs no device; cannot fail.
	 */
	void (*note)(struct device_notes **notes, enum device_op op, const void *args);
	size_t (*noted)(const struct device_notes *notes);              /* products; NULL: 0 */
	void (*forget)(struct device_notes *notes);                     /* NULL is fine */
	/* Measures them, one after the other; allocates from dev->mem, after device_start. *file: the file's contents. */
	int (*measure)(struct device *dev, const struct device_notes *notes, void (*told)(void *arg, size_t done, size_t of),
		       void *arg, json_t **file, struct tm_err *err);
};

struct device_backend {
	int version;
	const char *name, *help;          /* "cpu" */
	const struct device_table *ops;
	const struct device_workspaces *workspaces;     /* a planning device: NULL, open() sets the device's */
	/* `arg`: what follows the colon in the device name ("1" of cuda:1), or "". threads 0: all. */
	int (*open)(struct device *dev, const char *arg, int threads, struct tm_err *err);
	void (*close)(struct device *dev);
	struct mem_driver *(*driver)(struct device *dev, struct tm_err *err);   /* new; NULL on failure */
	int (*upload)(struct device *dev, struct tensor *dst, const void *src, uint64_t bytes, struct tm_err *err);
	int (*download)(struct device *dev, void *dst, const struct tensor *src, uint64_t bytes, struct tm_err *err);
	int (*sync)(struct device *dev, struct tm_err *err);                    /* NULL: nothing is pending ever */
	bool computes;                    /* false: a planning device */
	/* Whether the device has this type; TM_EENV with the alternatives. NULL: it has all. */
	int (*accepts)(struct device *dev, enum dtype type, bool tf32, struct tm_err *err);
	const struct device_graphs *graphs;     /* NULL: launch graph is refused */
	/* Facts for the record, as a new JSON object: name, uuid, driver, versions of libraries, memory of the context. NULL: none. */
	json_t *(*facts)(struct device *dev);
	const struct device_tuning *tuning;     /* NULL: there is nothing to choose */
};

/*
 * A device other than the built-in ones lives in tidemark-device-NAME.so
 * beside the program and is loaded when somebody names it. The file exports
 *     const struct device_backend *tidemark_device_backend(void);
 */
#define DEVICE_ENTRY "tidemark_device_backend"
const struct device_backend *tidemark_device_backend(void);
typedef const struct device_backend *device_entry(void);

enum { DEVICE_PHASE_N = 6 };
extern const char *const device_phase_name[DEVICE_PHASE_N];

struct op_account {
	uint64_t calls;
	int64_t time_ns;                  /* wall time inside the backend; of launches only where work is queued; of a planning device its estimate */
	int64_t blas_ns;                  /* of it inside BLAS, mean over the device's threads */
	double flops, bytes;              /* bytes: read and written, each tensor once */
};

struct device {
	const struct device_backend *backend;
	const struct device_workspaces *workspaces;
	struct mem *mem;                  /* the run's; not owned; set before the first operation */
	struct mem_block *standing;       /* between device_start and device_stop, where the backend wants one */
	void *priv;                       /* the backend's */
	int threads;
	const char *phase;                /* set by device_set_phase */
	/*
	 * Operations and uploads are not carried out, since a recording of them was
	 * launched; all else, their workspaces and accounts, is as ever.
	 */
	bool launched;
	int64_t blas_sum_ns;              /* summed over threads; the backend adds to it atomically */
	struct op_account account[DEVICE_OP_N][DEVICE_PHASE_N];   /* by device_phase_index */
};

/* Called from a constructor in the backend's own file. */
void device_register(const struct device_backend *backend);
const struct device_backend *device_backend_find(const char *name, size_t len);
size_t device_backend_n(void);
const struct device_backend *device_backend_at(size_t i);

/* The devices of this build by name, loaded or not. */
size_t device_name_n(void);
const char *device_name_at(size_t i);
/* Loads and registers a device if it is not here yet; errors as device_open. */
int device_backend_get(const char *name, size_t len, const struct device_backend **out, struct tm_err *err);

/*
 * name: "cpu", "cuda:1", …; TM_EENV where the device is not here, TM_EINVALID
 * for an unknown name. threads 0: as many as the machine offers. Set dev->mem
 * before the first operation.
 */
int device_open(const char *name, int threads, struct device **out, struct tm_err *err);
void device_close(struct device *dev);

/*
 * Allocates what stands for the whole run (workspaces->standing_bytes, category
 * workspace, operator "init"), in phase load and before anything else is
 * allocated; TM_EOOM. Stop releases it; fine without a start.
 */
int device_start(struct device *dev, struct tm_err *err);
void device_stop(struct device *dev);

/* Whether numbers of this type can be computed with (tf32: and so multiplied); TM_EENV with the alternatives. */
int device_accepts(struct device *dev, enum dtype type, bool tf32, struct tm_err *err);

/* A new memory driver of this device, for mem_new; NULL on failure. */
struct mem_driver *device_driver(struct device *dev, struct tm_err *err);
/* Between host memory and a tensor; `bytes` must be the tensor's size. When it returns, src may be changed, or dst read. */
int device_upload(struct device *dev, struct tensor *dst, const void *src, uint64_t bytes, struct tm_err *err);
int device_download(struct device *dev, void *dst, const struct tensor *src, uint64_t bytes, struct tm_err *err);
int device_sync(struct device *dev, struct tm_err *err);

/*
 * Also sets the phase of the run's memory. Phases: load, forward, recompute
 * (what a checkpoint policy makes again, within backward), backward, update,
 * eval; another one is a BUG.
 */
void device_set_phase(struct device *dev, const char *phase);
int device_phase_index(const char *phase);
void device_reset_account(struct device *dev);
/* Time inside BLAS since the last reset over all operations, mean over threads: compare it with wall time. */
int64_t device_blas_ns(const struct device *dev);

/* FLOPs and bytes moved of one call, from its arguments alone; the same for every backend. */
#define X(name) void op_cost_##name(const struct op_##name *a, double *flops, double *bytes);
DEVICE_OPS(X)
#undef X

/*
 * op_NAME(dev, &(struct op_NAME){ … }, err): 0, TM_EOOM if the workspace was
 * refused, or the backend's error. Shapes that do not fit together are a BUG.
 */
#define X(name) int op_##name(struct device *dev, const struct op_##name *a, struct tm_err *err);
DEVICE_OPS(X)
#undef X

/* The shapes an operation wants; a BUG where they do not fit together (check.c). */
#define X(name) void op_check_##name(const struct op_##name *a);
DEVICE_OPS(X)
#undef X

#ifdef TM_FAULTS
/*
 * For the golden test: from now on the sign of the main output of `op` (a
 * backward operation: embed_bwd, norm_bwd, linear_dx, linear_dw,
 * attention_bwd, gelu_bwd, dropout_bwd, loss) is flipped after each call.
 * DEVICE_OP_N: none. A mutant that no test notices is a test that is missing.
 */
void device_mutate(enum device_op op);
#endif

#endif
