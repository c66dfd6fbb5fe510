#include "device/cuda/gemm_pins.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (64u << 20)

enum { ALGO_WORDS = sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t) };
_Static_assert(ALGO_WORDS * sizeof(uint64_t) == sizeof(cublasLtMatmulAlgo_t), "an algorithm is whole words");

static int by_key(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct gemm_key));
}
_Static_assert(offsetof(struct gemm_pin, key) == 0, "a pin begins with its key");

/* ---- reading ------------------------------------------------------------ */

/* Hexadecimal, 16 digits a word. */
static int read_algo(const json_t *pin, cublasLtMatmulAlgo_t *out, struct tm_err *err)
{
	static const char digits[] = "0123456789abcdef";
	const char *text = tm_json_str(pin, "algo", "");

	if (strlen(text) != ALGO_WORDS * 16 || strspn(text, digits) != ALGO_WORDS * 16)
		return tm_fail(err, TM_EINPUT, "'algo' must be %d lower-case hexadecimal digits", ALGO_WORDS * 16);
	for (int i = 0; i < ALGO_WORDS; i++) {
		uint64_t word = 0;

		for (int j = 0; j < 16; j++)
			word = word << 4 | (uint64_t)(strchr(digits, text[16 * i + j]) - digits);
		out->data[i] = word;
	}
	return 0;
}

static int read_pin(const json_t *v, struct gemm_pin *out, struct tm_err *err)
{
	int rc;

	if (!json_is_object(v))
		return tm_fail(err, TM_EINPUT, "expected an object");
	rc = gemm_key_read(json_object_get(v, "product"), &out->key, err);
	return rc ? rc : read_algo(v, &out->algo, err);
}

static int read_head(const json_t *v, struct gemm_pins *p, struct tm_err *err)
{
	if (!json_is_object(v) || !json_is_integer(json_object_get(v, "format")))
		return tm_fail(err, TM_EINPUT, "expected an object with the number 'format', as `tidemark devices NAME --calibrate` writes it");
	if (tm_json_i64(v, "format", 0) != GEMM_PINS_FORMAT)
		return tm_fail(err, TM_EINPUT, "format %lld, this program reads %d; calibrate again",
			       (long long)tm_json_i64(v, "format", 0), GEMM_PINS_FORMAT);
	if (!*tm_json_str(v, "card", ""))
		return tm_fail(err, TM_EINPUT, "'card' must be the card's name");
	p->card = tm_xstrdup(tm_json_str(v, "card", ""));
	p->cublas = tm_json_i64(v, "cublas", 0);
	if (p->cublas < 1)
		return tm_fail(err, TM_EINPUT, "'cublas' must be the version as a number, such as 130100");
	if (tm_json_i64(v, "workspace", 0) != (int64_t)CUDA_GEMM_WORKSPACE_BYTES)
		return tm_fail(err, TM_EINPUT, "'workspace' is %lld bytes, this program has %llu; calibrate again",
			       (long long)tm_json_i64(v, "workspace", 0), (unsigned long long)CUDA_GEMM_WORKSPACE_BYTES);
	return 0;
}

static int read_pins(const json_t *list, struct gemm_pins *p, struct tm_err *err)
{
	struct tm_err why = { 0 };

	if (!json_is_array(list))
		return tm_fail(err, TM_EINPUT, "'pins' must be an array");
	p->v = tm_xcalloc(json_array_size(list) + 1, sizeof *p->v);
	for (; p->n < json_array_size(list); p->n++)
		if (read_pin(json_array_get(list, p->n), &p->v[p->n], &why))
			return tm_fail(err, TM_EINPUT, "pin %zu: %s", p->n + 1, why.text);
	qsort(p->v, p->n, sizeof *p->v, by_key);
	for (size_t i = 1; i < p->n; i++)
		if (!by_key(&p->v[i - 1], &p->v[i]))
			return tm_fail(err, TM_EINPUT, "one product has two pins (m %lld, n %lld, k %lld)", (long long)p->v[i].key.m,
				       (long long)p->v[i].key.n, (long long)p->v[i].key.k);
	return 0;
}

int gemm_pins_parse(const char *text, size_t n, const char *from, struct gemm_pins **out, struct tm_err *err)
{
	struct gemm_pins *p = tm_xcalloc(1, sizeof *p);
	struct tm_err why = { 0 };
	json_t *v = NULL;
	int rc;

	p->from = tm_xstrdup(from);
	tm_sha256_hex(text, n, p->sha256);
	rc = tm_json_parse(text, n, &v, &why);
	if (!rc)
		rc = read_head(v, p, &why);
	if (!rc)
		rc = read_pins(json_object_get(v, "pins"), p, &why);
	json_decref(v);
	if (rc) {
		gemm_pins_free(p);
		return tm_fail_at(err, TM_EINPUT, from, why.line, why.column, "pinned algorithms: %s", why.text);
	}
	*out = p;
	return 0;
}

void gemm_pins_free(struct gemm_pins *p)
{
	if (!p)
		return;
	free(p->from);
	free(p->card);
	free(p->v);
	free(p);
}

const cublasLtMatmulAlgo_t *gemm_pins_find(const struct gemm_pins *p, const struct gemm_key *key)
{
	const struct gemm_pin *pin = p && p->n ? bsearch(key, p->v, p->n, sizeof *p->v, by_key) : NULL;

	return pin ? &pin->algo : NULL;
}

/* ---- which file ----------------------------------------------------------- */

struct search {
	const char *card;
	int64_t cublas;
	struct gemm_pins *found;
	struct tm_str others;             /* what was there, but for something else */
};

/* Takes the pins where they are for this card and library; else remembers what they were for. */
static void consider(struct search *s, struct gemm_pins *p)
{
	if (!s->found && !strcmp(p->card, s->card) && p->cublas == s->cublas) {
		s->found = p;
		return;
	}
	tm_str_addf(&s->others, "%s%s is for %s with cuBLAS %lld", s->others.n ? ", " : "", p->from, p->card, (long long)p->cublas);
	gemm_pins_free(p);
}

static int consider_file(struct search *s, const char *path, struct tm_err *err)
{
	struct tm_str text = TM_STR_INIT;
	struct gemm_pins *p;
	int rc = tm_read_file(path, FILE_BYTES_MAX, &text, err);

	if (!rc)
		rc = gemm_pins_parse(text.s, text.n, path, &p, err);
	if (!rc)
		consider(s, p);
	tm_str_free(&text);
	return rc;
}

static int is_json(const struct dirent *e)
{
	return tm_ends_with(e->d_name, ".json");
}

/* In the order of their names, so that it does not depend on the file system which of two is taken. */
static int consider_folder(struct search *s, const char *folder, struct tm_err *err)
{
	struct dirent **names = NULL;
	int n = scandir(folder, &names, is_json, alphasort), rc = 0;

	for (int i = 0; i < n; i++) {
		char *path = tm_path_join(folder, names[i]->d_name);

		if (!rc && !s->found)
			rc = consider_file(s, path, err);
		free(path);
		free(names[i]);
	}
	free(names);
	return rc;
}

static int consider_beside(struct search *s, struct tm_err *err)
{
	char *program = tm_program_dir(), *folder = tm_path_join(program, "gemm");
	int rc = consider_folder(s, folder, err);

	free(folder);
	free(program);
	return rc;
}

static int consider_built_in(struct search *s, struct tm_err *err)
{
	int rc = 0;

	for (const struct gemm_file *f = gemm_files; f->name && !s->found && !rc; f++) {
		struct tm_str from = TM_STR_INIT;
		struct gemm_pins *p;

		tm_str_addf(&from, "built in: configs/gemm/%s.json", f->name);
		rc = gemm_pins_parse(f->text, strlen(f->text), from.s, &p, err);
		if (!rc)
			consider(s, p);
		tm_str_free(&from);
	}
	return rc;
}

int gemm_pins_open(const char *card, int64_t cublas, struct gemm_pins **out, char **why, struct tm_err *err)
{
	struct search s = { .card = card, .cublas = cublas, .others = TM_STR_INIT };
	const char *named = getenv("TIDEMARK_GEMM_PINS");
	int rc = 0;

	*out = NULL;
	*why = NULL;
	if (named && !strcmp(named, "none")) {
		*why = tm_xstrdup("TIDEMARK_GEMM_PINS is 'none'");
		return 0;
	}
	if (named && *named) {
		rc = consider_file(&s, named, err);
	} else {
		rc = consider_beside(&s, err);
		if (!rc && !s.found)
			rc = consider_built_in(&s, err);
	}
	if (!rc && !s.found)
		*why = tm_xstrdup(s.others.n ? s.others.s : "there is no file of them");
	*out = s.found;
	tm_str_free(&s.others);
	return rc;
}

/* ---- writing ---------------------------------------------------------------- */

json_t *gemm_pins_head(const char *card, int64_t cublas)
{
	return json_pack("{s:i, s:s, s:I, s:I, s:[]}", "format", GEMM_PINS_FORMAT, "card", card, "cublas", (json_int_t)cublas,
			 "workspace", (json_int_t)CUDA_GEMM_WORKSPACE_BYTES, "pins");
}

json_t *gemm_pin_json(const struct gemm_key *key, const cublasLtMatmulAlgo_t *algo, const json_t *measured)
{
	struct tm_str hex = TM_STR_INIT;
	json_t *v = json_object();

	for (int i = 0; i < ALGO_WORDS; i++)
		tm_str_addf(&hex, "%016llx", (unsigned long long)algo->data[i]);
	json_object_set_new(v, "product", gemm_key_json(key));
	json_object_set_new(v, "algo", json_string(hex.s));
	json_object_update(v, (json_t *)measured);
	tm_str_free(&hex);
	return v;
}
