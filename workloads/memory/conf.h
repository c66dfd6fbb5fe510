/*
 * The option string of PyTorch's allocator (PYTORCH_ALLOC_CONF), read as
 * PyTorch reads it: what it accepts is accepted, what it refuses is refused
 * with the same kind of error. Where it accepts what its author can hardly
 * have meant, and where an option does nothing or does harm, a note says so.
 */
#ifndef TM_CONF_H
#define TM_CONF_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONF_ROUNDUP_N 16
#define CONF_UNLIMITED UINT64_MAX

enum conf_backend { CONF_NATIVE, CONF_ASYNC };

struct conf {
	enum conf_backend backend;
	uint64_t max_split_bytes;         /* blocks from here on are oversize: kept for oversize requests, never split */
	uint64_t max_non_split_rounding_bytes;    /* an oversize request takes a block smaller than itself plus this */
	uint64_t large_segment_bytes;     /* segment for requests above the small pool's and below 10 MiB; a large page */
	double gc_threshold;              /* share of the limit above which old segments are collected; 0: never */
	uint64_t roundup[CONF_ROUNDUP_N]; /* steps a power of two; [i]: sizes from 2^(20+i); 0, 1: plain */
	bool expandable;
	double fraction;                  /* of the device's memory that may be reserved; 1: no limit */
	bool throw_on_oom;                /* refuse at the limit before anything is released */
	bool release_lock, capture_reuse; /* no effect on one thread without captures */
	/* Address range of a growing segment: bytes, or a share of the device; both 0: 9/8 of it. */
	uint64_t reserve_bytes;
	double reserve_share;
	bool pinned_register, pinned_background, pinned_catch_all;
	uint64_t pinned_threads, pinned_reserve_bytes;
};

/* What PyTorch does with the string. */
enum conf_verdict {
	CONF_ACCEPTED,
	CONF_VALUE_ERROR,                 /* Python sees a ValueError (before mid 2025 a RuntimeError) */
	CONF_ASSERTION                    /* an internal assertion: what is missing is not said */
};

enum conf_note_kind {
	CONF_LENIENT,                     /* accepted, but hardly as it was meant */
	CONF_INERT,                       /* does nothing here */
	CONF_HARMFUL,
	CONF_VERSION                      /* other versions of PyTorch read it otherwise, or not at all */
};

struct conf_note {
	enum conf_note_kind kind;
	size_t at;                        /* byte of the string, from 0 */
	char *text;                       /* one sentence without a full stop */
};

struct conf_notes {
	struct conf_note *v;
	size_t n;
};

/* Zero-initialise: PyTorch 2.11, no limit known. */
struct conf_context {
	int pytorch_minor;                /* of 2.x; 0: 11 */
	bool limited;                     /* the run has a cap, so a threshold is not inert */
	bool runtime;                     /* a change while it runs: see conf_read */
	bool no_expand;                   /* the device cannot map memory: expandable_segments is taken as False, with a note */
	bool fill_from_last;              /* '>' of roundup lists as before mid 2025, whatever the version */
};

void conf_default(struct conf *out);
/*
 * runtime false: *conf is set from the defaults. True: it holds what is in
 * effect; what PyTorch takes back to its default on every change goes back,
 * the rest stays unless given. On failure (TM_EINVALID) *conf is untouched,
 * err->column is the byte of the string from 1, and the text names it.
 * verdict and notes may be NULL; notes are added to, also on failure.
 */
int conf_read(const char *text, const struct conf_context *ctx, struct conf *conf, enum conf_verdict *verdict,
	      struct conf_notes *notes, struct tm_err *err);
void conf_notes_free(struct conf_notes *notes);

#endif
