/*
 * How the configurations of a sweep follow from one another. Those of one
 * workload and model form a tree: its root is the plainest one (most
 * parameters at their defaults), and each other one hangs below the nearest
 * that lies between it and the root, that is, has each parameter either as the
 * root or as itself. So {bf16, flash} hangs below {bf16}, which hangs below {}:
 * a sweep of single changes is a flat list, a chain of changes a ladder.
 */
#ifndef TM_DRAW_TREE_H
#define TM_DRAW_TREE_H

#include "draw/data.h"

struct draw_node {
	size_t config;                    /* index into the sweep's configurations */
	size_t parent;                    /* index into the tree's nodes; of the root its own, 0 */
	int depth;                        /* 0: root */
	char *change;                     /* what it changes in its parent: "bf16 loss=chunked:8"; "" of the root */
};

/* Depth first, children in the order of the parameters they change. */
struct draw_tree {
	char *name;                       /* "gpt gpt-tiny" */
	bool plain;                       /* at the root every parameter that differs has its default */
	struct draw_node *v;
	size_t n;
};

/* One tree a workload and model, in the order of their first configurations. To be freed by draw_trees_free. */
size_t draw_trees(const struct draw_sweep *s, struct draw_tree **out);
void draw_trees_free(struct draw_tree *trees, size_t n);

#endif
