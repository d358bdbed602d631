/* graph_order.h - what the graph that is being captured says about the order of work.
 *
 * Captured work is a graph of nodes, each after its parents. The last nodes of a stream are those
 * which its next work will come after, and with them all of their ancestors. A block that several
 * streams used is *marked* when it is freed: with the last nodes of its own stream and of each that
 * used it. Once all marks are among the nodes that its own stream comes after, whatever that stream
 * does next comes after every use, and the block can be used again in the same graph. This is
 * PyTorch's graph_capture_record_stream_reuse.
 *
 * A graph only grows while it is captured, so the nodes found are kept for each stream, and no node
 * is asked for its parents twice. Where the device does not answer, or host memory is short, there
 * are no marks and nothing is in order: the block then waits for the end of the capture. */
#ifndef VW_POOL_GRAPH_ORDER_H
#define VW_POOL_GRAPH_ORDER_H

#include <stdbool.h>

#include "vramwise/device.h"
#include "engine/block.h"

typedef struct vw__graph_order_marks vw__graph_order_marks;
typedef struct vw__graph_order_past vw__graph_order_past;

/* All zero: nothing is known. */
typedef struct vw__graph_order {
    vw__graph_order_past *pasts; /* one for each capture and stream that was asked for */
} vw__graph_order;

/* Marks for a block that is freed, from its own stream and its uses; free them with
 * vw__host_free(). NULL: one of the streams is not part of the same capture, was used before it
 * began (then PyTorch would let work that still runs be overwritten), or none has nodes. */
vw__graph_order_marks *vw__graph_order_mark(const vw_device *device, const vw__block *block);

/* The nodes that the next work of `stream` comes after; valid until the next call. NULL: it is not
 * captured, or there are none. */
const vw__graph_order_past *vw__graph_order_look(vw__graph_order *order, const vw_device *device,
                                                 vw_stream stream);

/* Are all marks among them? */
bool vw__graph_order_is_over(const vw__graph_order_past *past, const vw__graph_order_marks *marks);

/* Forgets the nodes of all captures: those under way are looked at anew. */
void vw__graph_order_forget(vw__graph_order *order);

#endif /* VW_POOL_GRAPH_ORDER_H */
