/* tape_parts.h - a tape from inside; for tape*.c only. */
#ifndef HR_PLAN_TAPE_PARTS_H
#define HR_PLAN_TAPE_PARTS_H

#include "plan/tape.h"

typedef struct hr__storage {
    uint64_t size_bytes; /* rounded */
    uint32_t holders;    /* 0: free */
    uint8_t use;         /* hr__use */
    bool is_aside;       /* has no memory now */
} hr__storage;

typedef enum hr__step_kind {
    HR__STEP_TAKE,   /* slot, bytes */
    HR__STEP_LET_GO, /* slot */
    HR__STEP_GIVE,   /* edge, slot */
    HR__STEP_PASS,   /* edge, slot: the incoming output's number */
    HR__STEP_RETURN, /* the derivative is done; what follows is the engine's */
} hr__step_kind;

/* One thing a derivative does. */
typedef struct hr__step {
    uint64_t size_bytes;
    uint16_t edge, slot;
    uint8_t kind;
} hr__step;

typedef struct hr__node {
    uint32_t first_edge, edge_count;
    uint32_t first_saved, saved_count;
    uint32_t first_step, step_count;
    uint32_t first_incoming, incoming_count; /* one storage for each output, or none */
    uint32_t place;
    uint32_t checkpoint; /* the one it was made in, or HR__NO_SOURCE */
    uint32_t hook;       /* or HR__NO_SOURCE */
    uint16_t slot_count;
    uint8_t use;
    bool has_run;
} hr__node;

typedef struct hr__hook_entry {
    hr__hook_call call;
    void *context;
    size_t number;
} hr__hook_entry;

typedef struct hr__leaf {
    hr__tensor tensor;
    hr__matrix matrix;
    uint32_t gradient; /* storage, or none */
    uint32_t arriving; /* what has come in this backward pass, or none */
    uint32_t expected; /* edges that will bring some */
} hr__leaf;

typedef struct hr__checkpoint_frame {
    hr__forward forward;
    void *context;
    hr__tensor argument; /* held until it has run again */
    uint32_t first_node, node_count;
    uint32_t nodes_to_run;                      /* of them; with the last the argument is let go */
    uint32_t first_owner;                       /* of what they save, in order */
    uint64_t save_count;                        /* by all of them */
    uint32_t first_kept, kept_count, next_kept; /* results that are not made again */
    uint32_t place;
    uint8_t use;
    bool has_run_again;
    bool is_autocast;
    bool is_selective;
} hr__checkpoint_frame;

/* A weight that was cast in this autocast region. */
typedef struct hr__cast {
    uint32_t parameter_storage;
    hr__tensor made; /* held */
} hr__cast;

#define HR__TABLE(type)                                                                            \
    struct {                                                                                       \
        type *items; /* owned */                                                                   \
        size_t count, capacity;                                                                    \
    }

struct hr__tape {
    hr__tape_listener listener;
    hr_status status;

    HR__TABLE(hr__storage) storages;
    HR__TABLE(uint32_t) free_storages;
    HR__TABLE(hr__node) nodes;
    HR__TABLE(hr__source) edges;
    HR__TABLE(uint32_t) saved;
    HR__TABLE(hr__step) steps;
    HR__TABLE(uint32_t) incoming;
    HR__TABLE(uint32_t) slots; /* of the node that runs */
    HR__TABLE(hr__leaf) leaves;
    HR__TABLE(hr__place) places;
    HR__TABLE(uint32_t) place_stack;
    HR__TABLE(hr__checkpoint_frame) checkpoints;
    HR__TABLE(uint32_t) owners; /* nodes: who saved what a checkpoint threw away */
    HR__TABLE(uint32_t) kept;   /* storages, or none */
    HR__TABLE(hr__hook_entry) hooks;
    HR__TABLE(hr__cast) casts;
    HR__TABLE(uint32_t) until_graph; /* storages, until the graph is gone */

    uint32_t place; /* now; UINT32_MAX: outermost */
    hr__use use;
    bool is_grad_on;
    bool is_in_backward;
    bool is_node_open;
    bool is_autocast;
    hr__dtype autocast_dtype;

    uint32_t checkpoint; /* in which nodes are made now, or HR__NO_SOURCE */
    /* While a checkpoint runs again: what is saved goes to whom it belonged in the first run, in
     * the same order, and with the last of that it stops in the middle. */
    bool is_running_again, has_stopped;
    uint32_t checkpoint_again;
    uint32_t next_owner;
    uint64_t saves_to_come;

    hr__watch_call watch; /* or NULL */
    void *watch_context;

    uint64_t live_bytes;
    uint64_t live_of[HR__USE_COUNT];
    hr__tape_peak peak;
};

/* Makes room for `more` items; false (and the tape has failed) if there is no host memory. */
bool hr__table_reserve(hr__tape *tape, void **items, size_t *capacity, size_t count, size_t more,
                       size_t item_bytes);
#define HR__RESERVE(tape, table, more)                                                             \
    hr__table_reserve((tape), (void **)&(table).items, &(table).capacity, (table).count, (more),   \
                      sizeof *(table).items)

/* A storage held once; HR__NO_STORAGE if the tape has failed. */
uint32_t hr__storage_new(hr__tape *tape, uint64_t elements, uint64_t element_bytes, hr__use use);
void hr__storage_hold(hr__tape *tape, uint32_t storage);
void hr__storage_let_go(hr__tape *tape, uint32_t storage);
void hr__storage_set_use(hr__tape *tape, uint32_t storage, hr__use use);

/* tape_checkpoint.c: what the nodes of the checkpoint saved is there again. */
void hr__checkpoint_run_again(hr__tape *tape, uint32_t checkpoint);
void hr__checkpoint_let_go(hr__tape *tape, hr__checkpoint_frame *frame);

#endif /* HR_PLAN_TAPE_PARTS_H */
