#include "remark.h"

#include "base/json.h"

#include <string.h>

#define STAYED_MAX 32

/* The parsed events; their texts live in docs[]. */
struct stays {
	struct judge_stayed v[STAYED_MAX];
	json_t *docs[STAYED_MAX];
	size_t n;
};

static void read_stays(const struct collect *c, struct stays *s)
{
	for (size_t i = 0; i < c->event_n && s->n < STAYED_MAX; i++) {
		json_t *doc;

		if (strcmp(c->events[i].kind, "stayed") ||
		    tm_json_parse(c->events[i].json, strlen(c->events[i].json), &doc, NULL))
			continue;
		s->v[s->n] = (struct judge_stayed){
			.op = tm_json_str(doc, "op", ""), .phase = tm_json_str(doc, "phase", ""),
			.name = tm_json_str(doc, "name", ""), .category = tm_json_str(doc, "category", ""),
			.blocks = tm_json_i64(doc, "blocks", 0), .steps = tm_json_i64(doc, "steps", 0),
			.bytes = tm_json_real(doc, "bytes", 0),
		};
		s->docs[s->n++] = doc;
	}
}

void remark_growth(struct collect *c, const struct figures *f)
{
	const struct judge_growth *g = &f->growth;
	struct tm_str text = TM_STR_INIT;
	struct stays stays = { .n = 0 };

	if (!g->leak && !(g->train.once_bytes > 0) && !(g->eval.once_bytes > 0))
		return;
	read_stays(c, &stays);
	judge_growth_text(g, stays.v, stays.n, &text);
	collect_note(c, text.s);
	for (size_t i = 0; i < stays.n; i++)
		json_decref(stays.docs[i]);
	tm_str_free(&text);
}
