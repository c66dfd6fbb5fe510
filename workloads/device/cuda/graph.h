/* Recorded steps (graph.c): the members of struct device_graphs, and uploads while one is recorded. */
#ifndef TM_CUDA_GRAPH_H
#define TM_CUDA_GRAPH_H

#include "device/cuda/cuda.h"

int cuda_graph_begin(struct device *dev, struct tm_err *err);
int cuda_graph_end(struct device *dev, struct device_graph **out, struct tm_err *err);
void cuda_graph_abandon(struct device *dev);                   /* fine where nothing is recorded */
int cuda_graph_feed(struct device *dev, struct device_graph *graph, size_t slot, const void *src, uint64_t bytes,
		    struct tm_err *err);
int cuda_graph_launch(struct device *dev, struct device_graph *graph, const struct device_step *step, struct tm_err *err);
void cuda_graph_drop(struct device *dev, struct device_graph *graph);

/* In place of a copy, while c->recording. */
int cuda_graph_upload(struct cuda *c, void *dst, const void *src, uint64_t bytes, struct tm_err *err);

#endif
