/* Which configuration hangs below which (draw/tree.h). */
#include "test.h"

#include "base/mem.h"
#include "draw/tree.h"

#include <stdlib.h>
#include <string.h>

static const char description[] =
	"{\"workloads\": [{\"name\": \"w\", \"params\": ["
	"{\"name\": \"batch\", \"default\": 8}, {\"name\": \"precision\", \"default\": \"fp32\", \"choices\": [\"fp32\", \"bf16\"]},"
	"{\"name\": \"attention\", \"default\": \"math\"}, {\"name\": \"keep\", \"default\": \"none\"},"
	"{\"name\": \"moments\", \"default\": \"fp32\", \"choices\": [\"fp32\", \"bf16\", \"bf8\"]}]}]}";

struct sweep {
	struct draw_sweep s;
	json_t *describe;
	struct draw_tree *trees;
	size_t n;
};

static struct sweep *sweep_of(const char *const *params, size_t n)
{
	struct sweep *w = tm_xcalloc(1, sizeof(*w));

	w->describe = json_loads(description, 0, NULL);
	assert_non_null(w->describe);
	w->s.describe = w->describe;
	w->s.configs = tm_xcalloc(n, sizeof(*w->s.configs));
	w->s.config_n = n;
	for (size_t i = 0; i < n; i++) {
		w->s.configs[i].workload = (char *)"w";
		w->s.configs[i].params = json_loads(params[i], 0, NULL);
		assert_non_null(w->s.configs[i].params);
	}
	w->n = draw_trees(&w->s, &w->trees);
	return w;
}

static void sweep_free(struct sweep *w)
{
	draw_trees_free(w->trees, w->n);
	for (size_t i = 0; i < w->s.config_n; i++)
		json_decref(w->s.configs[i].params);
	json_decref(w->describe);
	free(w->s.configs);
	free(w);
}

#define SWEEP(...) sweep_of((const char *const[]){ __VA_ARGS__ }, TM_ARRAY_N(((const char *const[]){ __VA_ARGS__ })))

static void node_is(const struct draw_tree *t, size_t i, size_t config, size_t parent, int depth, const char *change)
{
	assert_true(i < t->n);
	assert_int_equal(t->v[i].config, config);
	assert_int_equal(t->v[i].parent, parent);
	assert_int_equal(t->v[i].depth, depth);
	assert_string_equal(t->v[i].change, change);
}

/* The root has the most defaults, wherever it stands; single changes come in the order of the parameters. */
static void single_changes_are_flat(void **state)
{
	struct sweep *w = SWEEP("{\"batch\": 8, \"precision\": \"fp32\", \"attention\": \"math\", \"keep\": \"all\"}",
				"{\"batch\": 8, \"precision\": \"bf16\", \"attention\": \"math\", \"keep\": \"none\"}",
				"{\"batch\": 8, \"precision\": \"fp32\", \"attention\": \"math\", \"keep\": \"none\"}",
				"{\"batch\": 8, \"precision\": \"fp32\", \"attention\": \"flash\", \"keep\": \"none\"}");

	(void)state;
	assert_int_equal(w->n, 1);
	assert_true(w->trees[0].plain);
	assert_string_equal(w->trees[0].name, "w");
	node_is(&w->trees[0], 0, 2, 0, 0, "");
	node_is(&w->trees[0], 1, 1, 0, 1, "bf16");
	node_is(&w->trees[0], 2, 3, 0, 1, "flash");
	node_is(&w->trees[0], 3, 0, 0, 1, "keep=all");
	sweep_free(w);
}

/* Of two possible parents the one that lacks the later parameter: the ladder follows the order of parameters. */
static void a_ladder_is_deep(void **state)
{
	struct sweep *w = SWEEP("{\"batch\": 8, \"precision\": \"fp32\", \"attention\": \"math\", \"keep\": \"none\"}",
				"{\"batch\": 8, \"precision\": \"fp32\", \"attention\": \"flash\", \"keep\": \"none\"}",
				"{\"batch\": 8, \"precision\": \"bf16\", \"attention\": \"math\", \"keep\": \"none\"}",
				"{\"batch\": 8, \"precision\": \"bf16\", \"attention\": \"flash\", \"keep\": \"none\"}",
				"{\"batch\": 8, \"precision\": \"bf16\", \"attention\": \"flash\", \"keep\": \"all\"}");

	(void)state;
	assert_int_equal(w->trees[0].n, 5);
	node_is(&w->trees[0], 1, 2, 0, 1, "bf16");
	node_is(&w->trees[0], 2, 3, 1, 2, "flash");
	node_is(&w->trees[0], 3, 4, 2, 3, "keep=all");
	node_is(&w->trees[0], 4, 1, 0, 1, "flash");
	sweep_free(w);
}

/* No single step leads there: the nearest that lies on the way, with all that changes named. */
static void a_gap_is_bridged(void **state)
{
	struct sweep *w = SWEEP("{\"batch\": 8, \"precision\": \"fp32\", \"attention\": \"math\", \"keep\": \"none\"}",
				"{\"batch\": 4, \"precision\": \"fp32\", \"attention\": \"math\", \"keep\": \"none\"}",
				"{\"batch\": 4, \"precision\": \"bf16\", \"attention\": \"flash\", \"keep\": \"none\"}",
				"{\"batch\": 2, \"precision\": \"bf16\", \"attention\": \"math\", \"keep\": \"none\"}");

	(void)state;
	node_is(&w->trees[0], 1, 1, 0, 1, "batch=4");
	node_is(&w->trees[0], 2, 2, 1, 2, "bf16 flash");
	node_is(&w->trees[0], 3, 3, 0, 1, "batch=2 bf16");
	sweep_free(w);
}

/* Models are trees of their own, and a root need not be at its defaults. */
static void models_are_apart(void **state)
{
	struct sweep *w = SWEEP("{\"model\": \"a\", \"batch\": 8, \"keep\": \"all\"}",
				"{\"model\": \"b\", \"batch\": 4, \"keep\": \"all\"}",
				"{\"model\": \"b\", \"batch\": 2, \"keep\": \"none\"}");

	(void)state;
	assert_int_equal(w->n, 2);
	assert_string_equal(w->trees[0].name, "w a");
	assert_int_equal(w->trees[0].n, 1);
	assert_string_equal(w->trees[1].name, "w b");
	assert_false(w->trees[1].plain);
	node_is(&w->trees[1], 0, 2, 0, 0, "");
	node_is(&w->trees[1], 1, 1, 0, 1, "batch=4 keep=all");
	sweep_free(w);
}

/* A word that an earlier parameter has too is said with its name: bf16 alone is the precision. */
static void words_of_two_parameters_have_a_name(void **state)
{
	struct sweep *w = SWEEP("{\"precision\": \"fp32\", \"moments\": \"fp32\"}", "{\"precision\": \"bf16\", \"moments\": \"fp32\"}",
				"{\"precision\": \"fp32\", \"moments\": \"bf16\"}", "{\"precision\": \"fp32\", \"moments\": \"bf8\"}");

	(void)state;
	node_is(&w->trees[0], 1, 1, 0, 1, "bf16");
	node_is(&w->trees[0], 2, 2, 0, 1, "moments=bf16");
	node_is(&w->trees[0], 3, 3, 0, 1, "bf8");
	sweep_free(w);
}

/* A database of a program whose description is not known here. */
static void no_description_is_needed(void **state)
{
	struct sweep *w = SWEEP("{\"batch\": 8, \"keep\": \"none\"}", "{\"batch\": 4, \"keep\": \"none\"}");

	(void)state;
	w->s.describe = NULL;
	draw_trees_free(w->trees, w->n);
	w->n = draw_trees(&w->s, &w->trees);
	assert_int_equal(w->trees[0].n, 2);
	assert_false(w->trees[0].plain);
	node_is(&w->trees[0], 1, 1, 0, 1, "batch=4");
	sweep_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(single_changes_are_flat),
		cmocka_unit_test(a_ladder_is_deep),
		cmocka_unit_test(a_gap_is_bridged),
		cmocka_unit_test(models_are_apart),
		cmocka_unit_test(words_of_two_parameters_have_a_name),
		cmocka_unit_test(no_description_is_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
