/*
 * Pinned algorithms: a file for one card and one version of cuBLAS, made by
 * measuring (calibrate.c), which says for each product how the library is to
 * carry it out. An algorithm is the library's own 64 bytes, which it documents
 * to be restorable with the same version; so a file for another version or
 * another card is not used at all.
 *
 * Looked for when the device is opened, first found first taken: the file that
 * TIDEMARK_GEMM_PINS names ("none": no pins at all), the files of the folder
 * `gemm` beside the program, the files built in from configs/gemm.
 */
#ifndef TM_CUDA_GEMM_PINS_H
#define TM_CUDA_GEMM_PINS_H

#include "device/cuda/gemm.h"

#define GEMM_PINS_FORMAT 1

/* Files of configs/gemm as the build embeds them (cmake/Bytes.cmake). */
struct gemm_file { const char *name, *text; };
extern const struct gemm_file gemm_files[];       /* name NULL ends */

struct gemm_pin {
	struct gemm_key key;
	cublasLtMatmulAlgo_t algo;
};

struct gemm_pins {
	char *from, *card;                /* where the file was; the card's name as CUDA says it */
	int64_t cublas;                   /* cublasLtGetVersion() */
	char sha256[65];                  /* of the file's bytes */
	struct gemm_pin *v;               /* sorted by key */
	size_t n;
};

/* `from` is for errors and the record. TM_EINPUT for anything that is not such a file, every member checked. */
int gemm_pins_parse(const char *text, size_t n, const char *from, struct gemm_pins **out, struct tm_err *err);
void gemm_pins_free(struct gemm_pins *pins);      /* NULL is fine */

/*
 * *out NULL where there is none for this card and library; *why (to be freed)
 * says so then as half a sentence. A file that cannot be read is an error even where another one
 * would do.
 */
int gemm_pins_open(const char *card, int64_t cublas, struct gemm_pins **out, char **why, struct tm_err *err);
/* `pins` may be NULL. */
const cublasLtMatmulAlgo_t *gemm_pins_find(const struct gemm_pins *pins, const struct gemm_key *key);

/* The file's head, and one pin with what is known of it beside (`measured`: an object, its members are added). */
json_t *gemm_pins_head(const char *card, int64_t cublas);
json_t *gemm_pin_json(const struct gemm_key *key, const cublasLtMatmulAlgo_t *algo, const json_t *measured);

#endif
