/* tape.h - a training step as PyTorch's autograd makes it, with sizes in place of numbers.
 *
 * The memory of a step follows from an order of events: which tensor is made when, who holds it and
 * when the last holder lets go. So the planner runs the step: model code (transformer*.c) calls
 * operators (op_*.c) as the Python code does, each operator makes its result and, where a gradient
 * will be wanted, a *node* with the tensors its derivative needs; the tape's engine then walks the
 * nodes backwards as PyTorch's does. Every storage that comes and goes is an event, and live bytes
 * are counted as PyTorch's allocator counts them, in units of 512 bytes.
 *
 * Ownership is PyTorch's: a storage lives as long as somebody holds it. A tensor that an operator
 * returns is held once, by its caller, who lets go with vw__tensor_drop(); operators borrow their
 * arguments. Nodes hold what they saved until they have run.
 *
 * Errors stick: after the first (no host memory, sizes beyond an address space) operators do
 * nothing, and vw__tape_status() returns the first error.
 *
 * No locks: one thread at a time. */
#ifndef VW_PLAN_TAPE_H
#define VW_PLAN_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"

typedef enum vw__dtype {
    VW__DTYPE_FLOAT32,
    VW__DTYPE_BFLOAT16,
    VW__DTYPE_FLOAT16,
    VW__DTYPE_INT64,
    VW__DTYPE_BOOL,
    VW__DTYPE_BYTE,
} vw__dtype;

static inline uint64_t vw__dtype_bytes(vw__dtype dtype)
{
    static const uint8_t bytes[] = {4, 2, 2, 8, 1, 1};
    return bytes[dtype];
}

/* The current purpose of a storage. */
typedef enum vw__tape_use {
    VW__TAPE_USE_WEIGHTS,
    VW__TAPE_USE_GRADIENTS, /* kept for the optimizer */
    VW__TAPE_USE_OPTIMIZER,
    VW__TAPE_USE_ACTIVATIONS, /* made in a forward pass */
    VW__TAPE_USE_LOSS,        /* logits, and what is made of them, in both directions */
    VW__TAPE_USE_BACKWARD,    /* gradients on their way, and what computing them needs */
    VW__TAPE_USE_WORKSPACE,   /* of libraries */
    VW__TAPE_USE_DATA,        /* the batch */
    VW__TAPE_USE_COUNT
} vw__tape_use;

#define VW__TAPE_NO_STORAGE UINT32_MAX
#define VW__TAPE_NO_SOURCE UINT32_MAX

/* Where a gradient goes: a node's output, or a parameter. */
typedef struct vw__tape_source {
    uint32_t node;   /* or the parameter; VW__TAPE_NO_SOURCE: no gradient is wanted */
    uint16_t output; /* of the node */
    bool is_parameter;
} vw__tape_source;

/* A value: a storage, or a part of one, and where it came from. */
typedef struct vw__tensor {
    uint64_t elements;
    uint32_t storage; /* VW__TAPE_NO_STORAGE: no tensor, Python's None */
    vw__tape_source source;
    vw__dtype dtype;
} vw__tensor;

typedef struct vw__tape vw__tape;

/* Where a run begins something new, for who listens. A checkpoint runs again inside of a backward
 * pass, and when it has, that pass goes on. */
typedef enum vw__tape_mark {
    VW__TAPE_MARK_STEP, /* a training step, or a forward pass without one, begins */
    VW__TAPE_MARK_STEP_END,
    VW__TAPE_MARK_BACKWARD,
    VW__TAPE_MARK_BACKWARD_END,
    VW__TAPE_MARK_AGAIN,
    VW__TAPE_MARK_AGAIN_END,
} vw__tape_mark;

/* Called for each event, in order. `place` is a scope (vw__tape_place()). */
typedef struct vw__tape_listener {
    void *context;
    void (*alloc)(void *context, uint32_t storage, uint64_t size_bytes, uint32_t place,
                  vw__tape_use use);
    void (*free)(void *context, uint32_t storage);
    void (*mark)(void *context, vw__tape_mark mark); /* or NULL */
} vw__tape_listener;

VW_MUST_CHECK vw_status vw__tape_create(const vw__tape_listener *listener, vw__tape **out);
void vw__tape_destroy(vw__tape *tape); /* NULL does nothing */
vw_status vw__tape_status(const vw__tape *tape);
void vw__tape_fail(vw__tape *tape, vw_status status);   /* keeps the first */
void vw__tape_tell(vw__tape *tape, vw__tape_mark mark); /* calls the listener */
/* VW_ERR_UNSUPPORTED: running the model takes more host memory than plan_limits.h allows. */
void vw__tape_fail_limit(vw__tape *tape, size_t limit_bytes);

/* ---- where we are ---------------------------------------------------------------------------- */

/* Scopes nest: "layer 7", "attention", "q_proj". A negative `number` is not shown. `name` must
 * outlive the tape. */
void vw__tape_enter(vw__tape *tape, const char *name, int64_t number);
void vw__tape_leave(vw__tape *tape);

typedef struct vw__tape_scope {
    uint32_t parent; /* UINT32_MAX: the outermost */
    const char *name;
    int64_t number;
} vw__tape_scope;

size_t vw__tape_place_count(const vw__tape *tape);
vw__tape_scope vw__tape_place(const vw__tape *tape, uint32_t place);

/* Sets the use of new storages, and returns the former. In the backward pass a node's storages have
 * the use of its forward pass; for activations that is BACKWARD. */
vw__tape_use vw__tape_set_use(vw__tape *tape, vw__tape_use use);

/* torch.no_grad() and its opposite; returns the former setting. */
bool vw__tape_set_grad(vw__tape *tape, bool is_on);

/* ---- storages -------------------------------------------------------------------------------- */

/* A new tensor that needs no gradient, in a storage of its own. */
vw__tensor vw__tensor_new(vw__tape *tape, uint64_t elements, vw__dtype dtype);

/* Adds a holder; removes one, and leaves no tensor in `*tensor`. */
vw__tensor vw__tensor_hold(vw__tape *tape, vw__tensor tensor);
void vw__tensor_drop(vw__tape *tape, vw__tensor *tensor);

/* x = y: drops the former tensor. */
void vw__tensor_rebind(vw__tape *tape, vw__tensor *tensor, vw__tensor value);

vw__tensor vw__tensor_none(void);

static inline bool vw__tensor_exists(vw__tensor tensor)
{
    return tensor.storage != VW__TAPE_NO_STORAGE;
}

static inline bool vw__tensor_wants_gradient(vw__tensor tensor)
{
    return tensor.source.node != VW__TAPE_NO_SOURCE;
}

/* Frees the memory of a tensor that stays (untyped_storage().resize_(0)), and allocates it again:
 * for weights that are kept elsewhere until they are needed. Idempotent. */
void vw__tensor_set_aside(vw__tape *tape, vw__tensor tensor);
void vw__tensor_bring_back(vw__tape *tape, vw__tensor tensor);

/* a * b; the tape fails if that overflows. */
uint64_t vw__tape_times(vw__tape *tape, uint64_t a, uint64_t b);

/* ---- parameters ------------------------------------------------------------------------------ */

/* A leaf. The number of a trained one is tensor.source.node; a frozen one has no source. */
vw__tensor vw__tape_parameter(vw__tape *tape, uint64_t elements, vw__dtype dtype, bool is_trained);
/* The same without memory: set aside. */
vw__tensor vw__tape_parameter_aside(vw__tape *tape, uint64_t elements, vw__dtype dtype,
                                    bool is_trained);
size_t vw__tape_parameter_count(const vw__tape *tape); /* trained ones */
uint64_t vw__tape_parameter_elements(const vw__tape *tape, size_t parameter);
vw__dtype vw__tape_parameter_dtype(const vw__tape *tape, size_t parameter);

/* The two last dimensions of a parameter; 0 and 0 for a vector. */
typedef struct vw__tape_matrix {
    uint64_t rows, width;
} vw__tape_matrix;
void vw__tape_set_matrix(vw__tape *tape, vw__tensor parameter, uint64_t rows, uint64_t width);
vw__tape_matrix vw__tape_parameter_matrix(const vw__tape *tape, size_t parameter);

/* p.grad = None; the caller takes over the gradient. */
vw__tensor vw__tape_take_gradient(vw__tape *tape, vw__tensor parameter);

/* Gives every parameter a gradient, as an earlier batch would. */
void vw__tape_make_gradients(vw__tape *tape);

/* optimizer.zero_grad(set_to_none=True) */
void vw__tape_drop_gradients(vw__tape *tape);

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Begins the node of an operator with these arguments (tensors without storage are passed over) if
 * gradients are on and one of them wants one. Its edges are the arguments, by their place. False:
 * there is no node, and the calls below, up to vw__node_end(), do nothing. Nodes do not nest.
 * With more than UINT16_MAX arguments, slots or outputs the tape fails. */
bool vw__node_begin(vw__tape *tape, const vw__tensor *arguments, size_t argument_count);

/* Holds a tensor for the derivative. */
void vw__node_save(vw__tape *tape, vw__tensor tensor);

/* The steps of the derivative, in order. A slot is a storage that the derivative allocates; it is
 * freed at its end unless it is given to an edge, or several. VW__NODE_NO_SLOT: no storage was
 * taken. */
#define VW__NODE_NO_SLOT UINT16_MAX
uint16_t vw__node_take(vw__tape *tape, uint64_t elements, vw__dtype dtype);
void vw__node_let_go(vw__tape *tape, uint16_t slot);

/* The derivative is computed; the engine then sums gradients to the shape of their argument. A node
 * in a checkpoint lets go of what it saved here: only the derivative held what was made again. */
void vw__node_return(vw__tape *tape);
void vw__node_give(vw__tape *tape, size_t edge, uint16_t slot);
void vw__node_pass(vw__tape *tape, size_t edge, size_t output); /* the incoming one, uncopied */
/* The `saved`-th of what was saved, by a node outside of checkpoints. */
void vw__node_give_saved(vw__tape *tape, size_t edge, size_t saved);

/* Takes a slot and gives it to the edge, where that wants a gradient. */
void vw__node_take_for(vw__tape *tape, size_t edge, uint64_t elements, vw__dtype dtype);
bool vw__node_wants(const vw__tape *tape, size_t edge);

/* Ends it; `outputs`, which lie beside each other, then come from it. */
void vw__node_end(vw__tape *tape, vw__tensor *outputs, size_t output_count);

/* Returns x; the backward pass calls `call` when x's gradient is complete. */
typedef void (*vw__tape_hook_call)(void *context, size_t number);
vw__tensor vw__tape_hook(vw__tape *tape, vw__tensor x, vw__tape_hook_call call, void *context,
                         size_t number);

/* x.requires_grad_(), for a tensor without a source. Holds the same storage. */
vw__tensor vw__tape_require_gradient(vw__tape *tape, vw__tensor x);

/* Called for every tensor that an operator takes; NULL: no call. */
typedef void (*vw__tape_watch_call)(void *context, uint32_t storage);
void vw__tape_watch(vw__tape *tape, vw__tape_watch_call call, void *context);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* torch.utils.checkpoint, not reentrant: runs `forward` without what its nodes would save, and
 * again in the backward pass when the first of them is needed. `argument` is held until then. */
typedef vw__tensor (*vw__tape_forward)(vw__tape *tape, void *context, vw__tensor argument);
vw__tensor vw__tape_checkpoint(vw__tape *tape, vw__tape_forward forward, void *context,
                               vw__tensor argument);

/* Drops a tensor that a checkpointed part also reads: Python keeps it until the graph is gone.
 * `tensor` stays valid for the part that runs again. */
void vw__tape_drop_with_graph(vw__tape *tape, vw__tensor tensor);

/* The same, with a policy for each operator (create_selective_checkpoint_contexts()): the results
 * of products and attention are kept and not made again. */
vw__tensor vw__tape_checkpoint_selectively(vw__tape *tape, vw__tape_forward forward, void *context,
                                           vw__tensor argument);

/* As vw__tensor_new(), for a result that a selective checkpoint keeps. */
vw__tensor vw__tensor_new_result(vw__tape *tape, uint64_t elements, vw__dtype dtype);

/* ---- autocast -------------------------------------------------------------------------------- */

/* A region in which matrix products are made in `dtype`. Trained weights are cast once each, and
 * the casts are held until the region is left (op_shape.c). Regions do not nest. */
void vw__tape_autocast_enter(vw__tape *tape, vw__dtype dtype);
void vw__tape_autocast_leave(vw__tape *tape);

/* ---- backward -------------------------------------------------------------------------------- */

/* loss.backward(). The graph is gone afterwards. */
void vw__tape_backward(vw__tape *tape, vw__tensor loss);

/* Frees the graph without a backward pass. */
void vw__tape_drop_graph(vw__tape *tape);

/* ---- counting -------------------------------------------------------------------------------- */

typedef struct vw__tape_peak {
    uint64_t live_bytes;
    uint64_t parts[VW__TAPE_USE_COUNT];
    uint32_t place; /* of the allocation that reached it */
} vw__tape_peak;

uint64_t vw__tape_live_bytes(const vw__tape *tape);
uint64_t vw__tape_live_of(const vw__tape *tape, vw__tape_use use);
vw__tape_peak vw__tape_get_peak(const vw__tape *tape);
void vw__tape_reset_peak(vw__tape *tape); /* to what is live now */

#endif /* VW_PLAN_TAPE_H */
