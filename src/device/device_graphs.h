/* device_graphs.h - the graphs of a stand-in device: what a test says about captured work.
 *
 * A stand-in captures nothing. A test says which nodes come last on a stream that is being
 * captured, and which nodes each node waits for. Nodes are made-up numbers.
 *
 * No locks: the caller, device_common.c, has one. */
#ifndef VW_DEVICE_DEVICE_GRAPHS_H
#define VW_DEVICE_DEVICE_GRAPHS_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/device.h"

struct vw__device_graphs_list;

/* All zero: nothing was said. */
typedef struct vw__device_graphs {
    struct vw__device_graphs_list *terminals; /* by stream */
    struct vw__device_graphs_list *parents;   /* by node */
} vw__device_graphs;

void vw__device_graphs_deinit(vw__device_graphs *graphs);

/* Replaces what was said before. */
vw_status vw__device_graphs_set_terminals(vw__device_graphs *graphs, vw_stream stream,
                                          uint64_t capture, const vw_graph_node *nodes,
                                          size_t count);
vw_status vw__device_graphs_set_parents(vw__device_graphs *graphs, vw_graph_node node,
                                        const vw_graph_node *parents, size_t count);

/* Nothing waits for the stream's last capture any more. */
void vw__device_graphs_forget(vw__device_graphs *graphs, vw_stream stream);

/* The calls of the device table, for a stream that is being captured: its capture is 1 and it has
 * no nodes, if nothing was said. */
void vw__device_graphs_get_terminals(const vw__device_graphs *graphs, vw_stream stream,
                                     uint64_t *capture, vw_graph_node *nodes, size_t capacity,
                                     size_t *count);
void vw__device_graphs_get_parents(const vw__device_graphs *graphs, vw_graph_node node,
                                   vw_graph_node *parents, size_t capacity, size_t *count);

#endif /* VW_DEVICE_DEVICE_GRAPHS_H */
