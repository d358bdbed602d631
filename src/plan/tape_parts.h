/* tape_parts.h - the inside of a tape; for tape*.c, and for operators that handle autocast. */
#ifndef VW_PLAN_TAPE_PARTS_H
#define VW_PLAN_TAPE_PARTS_H

#include "plan/tape.h"

enum { VW__TAPE_UNIT_BYTES = 512 }; /* PyTorch's allocator rounds up to these */

typedef struct vw__storage {
    uint64_t size_bytes; /* rounded */
    uint32_t holders;    /* 0: free */
    uint8_t use;         /* vw__tape_use */
    bool is_aside;       /* has no memory now */
} vw__storage;

typedef enum vw__node_step_kind {
    VW__NODE_STEP_TAKE,       /* slot, bytes */
    VW__NODE_STEP_LET_GO,     /* slot */
    VW__NODE_STEP_GIVE,       /* edge, slot */
    VW__NODE_STEP_PASS,       /* edge, slot: the incoming output's number */
    VW__NODE_STEP_GIVE_SAVED, /* edge, slot: the number of what was saved */
    VW__NODE_STEP_RETURN,     /* the derivative is done; what follows is the engine's */
} vw__node_step_kind;

/* A step of a derivative. */
typedef struct vw__node_step {
    uint64_t size_bytes;
    uint16_t edge, slot;
    uint8_t kind;
} vw__node_step;

typedef struct vw__node {
    uint32_t first_edge, edge_count;
    uint32_t first_saved, saved_count;
    uint32_t first_step, step_count;
    uint32_t first_incoming, incoming_count; /* one storage for each output, or none */
    uint32_t place;
    uint32_t checkpoint; /* the one it was made in, or VW__TAPE_NO_SOURCE */
    uint32_t hook;       /* or VW__TAPE_NO_SOURCE */
    uint16_t slot_count;
    uint8_t use;
    bool has_run;
} vw__node;

typedef struct vw__tape_hook_entry {
    vw__tape_hook_call call;
    void *context;
    size_t number;
} vw__tape_hook_entry;

typedef struct vw__tape_leaf {
    vw__tensor tensor;
    vw__tape_matrix matrix;
    uint32_t gradient; /* storage, or none */
    uint32_t arriving; /* what has come in this backward pass, or none */
    uint32_t expected; /* edges that will bring some */
    uint32_t cast;     /* 1 + its place in the casts; 0: it is not cast in this autocast region */
} vw__tape_leaf;

typedef struct vw__tape_checkpoint_frame {
    vw__tape_forward forward;
    void *context;
    vw__tensor argument; /* held until it has run again */
    uint32_t first_node, node_count;
    uint32_t nodes_to_run;                      /* the last one drops the argument */
    uint32_t first_owner;                       /* of what they save, in order */
    uint64_t save_count;                        /* by all of them */
    uint32_t first_kept, kept_count, next_kept; /* results that are not made again */
    uint32_t place;
    uint8_t use;
    bool has_run_again;
    bool is_autocast;
    bool is_selective;
} vw__tape_checkpoint_frame;

/* A weight that was cast in this autocast region. */
typedef struct vw__tape_cast {
    uint32_t leaf;
    vw__tensor made; /* held */
} vw__tape_cast;

/* The tables of a tape: X(type, name). */
#define VW__TAPE_TABLES(X)                                                                         \
    X(vw__storage, storages)                                                                       \
    X(uint32_t, free_storages)                                                                     \
    X(vw__node, nodes)                                                                             \
    X(vw__tape_source, edges)                                                                      \
    X(uint32_t, saved)                                                                             \
    X(vw__node_step, steps)                                                                        \
    X(uint32_t, incoming)                                                                          \
    X(uint64_t, incoming_bytes) /* of each: the size of what it is the gradient of */              \
    X(uint32_t, slots)          /* of the node that runs */                                        \
    X(vw__tape_leaf, leaves)                                                                       \
    X(vw__tape_scope, places)                                                                      \
    X(uint32_t, place_stack)                                                                       \
    X(vw__tape_checkpoint_frame, checkpoints)                                                      \
    X(uint32_t, owners) /* nodes: who saved what a checkpoint threw away */                        \
    X(uint32_t, kept)   /* storages, or none */                                                    \
    X(vw__tape_hook_entry, hooks)                                                                  \
    X(vw__tape_cast, casts)                                                                        \
    X(uint32_t, until_graph) /* storages, until the graph is gone */
#define VW__TAPE_TABLE(type, name)                                                                 \
    struct {                                                                                       \
        type *items; /* owned */                                                                   \
        size_t count, capacity;                                                                    \
    } name;

struct vw__tape {
    vw__tape_listener listener;
    vw_status status;

    VW__TAPE_TABLES(VW__TAPE_TABLE)
    size_t held_bytes, limit_bytes; /* of host memory, for these tables */

    uint32_t place; /* now; UINT32_MAX: outermost */
    vw__tape_use use;
    bool is_grad_on;
    bool is_in_backward;
    bool is_node_open;
    bool is_autocast;
    vw__dtype autocast_dtype;

    uint32_t checkpoint; /* in which nodes are made now, or VW__TAPE_NO_SOURCE */
    /* While a checkpoint runs again: saved tensors go to the nodes of the first run, in the same
     * order. With the last of them it stops, in the middle of an operator if need be. */
    bool is_running_again, has_stopped;
    uint32_t checkpoint_again;
    uint32_t next_owner;
    uint64_t saves_to_come;

    vw__tape_watch_call watch; /* or NULL */
    void *watch_context;

    uint64_t live_bytes;
    uint64_t live_of[VW__TAPE_USE_COUNT];
    vw__tape_peak peak;
};

/* Makes room for `more` items; without host memory, or beyond the tape's limit, the tape fails, and
 * it returns false. */
bool vw__tape_reserve(vw__tape *tape, void **items, size_t *capacity, size_t count, size_t more,
                      size_t item_bytes);
#define VW__TAPE_RESERVE(tape, table, more)                                                        \
    vw__tape_reserve((tape), (void **)&(table).items, &(table).capacity, (table).count, (more),    \
                     sizeof *(table).items)

/* A storage held once; VW__TAPE_NO_STORAGE if the tape has failed. */
uint32_t vw__storage_new(vw__tape *tape, uint64_t elements, uint64_t element_bytes,
                         vw__tape_use use);
void vw__storage_hold(vw__tape *tape, uint32_t storage);
void vw__storage_let_go(vw__tape *tape, uint32_t storage);
void vw__storage_set_use(vw__tape *tape, uint32_t storage, vw__tape_use use);

/* tape_checkpoint.c: runs the part again, which restores what its nodes saved. */
void vw__tape_checkpoint_run_again(vw__tape *tape, uint32_t checkpoint);
void vw__tape_checkpoint_let_go(vw__tape *tape, vw__tape_checkpoint_frame *frame);

#endif /* VW_PLAN_TAPE_PARTS_H */
