/* driver_calls.h - which functions of the CUDA driver the launch gate has to see.
 *
 * The gate must not miss a function that starts work on memory. New drivers have new functions, so
 * there is no list of those that do: there is one of those known not to, and every other is gated.
 * On it are above all the calls that libvramwise makes under a pool's lock, which must never wait
 * at a gate whose closer may want that lock (docs/design/007-safe-moments.md). */
#ifndef VRAMWISE_TORCH_DRIVER_CALLS_H
#define VRAMWISE_TORCH_DRIVER_CALLS_H

typedef enum vw__driver_call_kind {
    VW__CALL_GATED,        /* may start work on a pool's memory, or is not known */
    VW__CALL_HARMLESS,     /* starts none */
    VW__CALL_BEGINS_GRAPH, /* begins to capture a graph; gated */
    VW__CALL_ENDS_GRAPH,   /* ends a capture; harmless otherwise */
    VW__CALL_MAKES_CONTEXT /* after which not all work is in a device's primary context; gated */
} vw__driver_call_kind;

/* By the name as CUPTI has it: "cuMemcpyDtoDAsync_v2_ptsz". */
vw__driver_call_kind vw__driver_call_kind_of(const char *name);

#endif /* VRAMWISE_TORCH_DRIVER_CALLS_H */
