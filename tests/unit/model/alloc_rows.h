/*
 * The allocations of a step as rows, "name | category | operator | born | dies |
 * bytes" with a count, whether they come from a trace (here) or from
 * docs/allocations.md (alloc_doc.h).
 */
#ifndef TM_TEST_ALLOC_ROWS_H
#define TM_TEST_ALLOC_ROWS_H

#include "trace_kit.h"

#include <ctype.h>

#define ROWS_MAX 512
#define STEP_END 1000                    /* freed with this step: it outlived the training step */

/* ---- rows -------------------------------------------------------------------- */

struct row {
	char *key;                       /* "name | category | op | born | dies | bytes" */
	int64_t count;
	bool seen;
};

struct rows {
	struct row v[ROWS_MAX];
	size_t n;
};

static inline void rows_add(struct rows *rows, const char *key, int64_t count)
{
	if (!count)
		return;
	for (size_t i = 0; i < rows->n; i++) {
		if (!strcmp(rows->v[i].key, key)) {
			rows->v[i].count += count;
			return;
		}
	}
	assert_true(rows->n < ROWS_MAX);
	rows->v[rows->n++] = (struct row){ tm_xstrdup(key), count, false };
}

static inline void rows_free(struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		free(rows->v[i].key);
	rows->n = 0;
}

static inline void add_event(struct rows *rows, const char *name, const char *category, const char *op,
		      const char *born, const char *dies, int64_t bytes, int64_t count)
{
	struct tm_str key = TM_STR_INIT;

	tm_str_addf(&key, "%s | %s | %s | %s | %s | %lld", name, category, op, born, dies, (long long)bytes);
	rows_add(rows, key.s, count);
	tm_str_free(&key);
}

/* ---- the trace as rows ----------------------------------------------------------- */

/* "h.3.ln_1.bias" to "h.*.ln_1.bias" */
static inline void without_layer(const char *name, struct tm_str *out)
{
	while (*name) {
		if (isdigit((unsigned char)*name) && out->n && out->s[out->n - 1] == '.') {
			name += strspn(name, "0123456789");
			if (*name == '.')
				tm_str_addc(out, '*');
			continue;
		}
		tm_str_addc(out, *name++);
	}
}

static inline void add_block(struct rows *rows, const json_t *born, const json_t *dead)
{
	struct tm_str name = TM_STR_INIT, dies = TM_STR_INIT;

	without_layer(tm_json_str(born, "name", ""), &name);
	if (tm_json_i64(dead, "step", 0) == STEP_END)
		tm_str_add(&dies, "never");
	else
		tm_str_addf(&dies, "%s %s", tm_json_str(dead, "phase", ""), tm_json_str(dead, "op", ""));
	add_event(rows, name.s, tm_json_str(born, "category", ""), tm_json_str(born, "op", ""),
		  tm_json_str(born, "phase", ""), dies.s, tm_json_i64(born, "bytes", -1), 1);
	tm_str_free(&name);
	tm_str_free(&dies);
}

struct reading {
	struct rows *rows;
	json_t *live;                    /* births by id */
};

/* A free without its birth fails here, a birth without its free below. */
static inline void read_event(void *arg, const char *kind, json_t *event)
{
	struct reading *r = arg;
	char id[32];

	snprintf(id, sizeof id, "%lld", (long long)tm_json_i64(event, "id", -1));
	if (!strcmp(kind, "alloc")) {
		assert_int_equal(json_object_set(r->live, id, event), 0);
	} else if (!strcmp(kind, "free")) {
		assert_non_null(json_object_get(r->live, id));
		add_block(r->rows, json_object_get(r->live, id), event);
		json_object_del(r->live, id);
	}
}

static inline void read_trace(const char *path, struct rows *rows)
{
	struct reading r = { rows, json_object() };

	trace_each(path, read_event, &r);
	assert_int_equal(json_object_size(r.live), 0);
	json_decref(r.live);
}

#endif
