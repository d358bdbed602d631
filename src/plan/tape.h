/* tape.h - a training step as PyTorch's autograd makes it, with sizes in place of numbers.
 *
 * What a step needs is not a formula but an order of events: which tensor is made when, who holds
 * it and when the last holder lets go. So the planner runs the step: model code (model_*.c) calls
 * operators (op_*.c) as the Python code does, each operator makes its result and, where a gradient
 * will be wanted, a *node* with the tensors its derivative needs; the tape's engine then walks the
 * nodes backwards as PyTorch's does. Every storage that comes and goes is an event, and live bytes
 * are counted as PyTorch's allocator counts them, in units of 512 bytes.
 *
 * Ownership is PyTorch's: a storage lives as long as somebody holds it. A tensor that an operator
 * returns is held once, by its caller, who lets go with vw__drop(); operators borrow their
 * arguments. Nodes hold what they saved until they have run.
 *
 * Errors stick: after the first (no host memory, sizes beyond an address space) operators do
 * nothing, and vw__tape_status() tells at the end.
 *
 * No locks: one thread at a time. */
#ifndef VW_PLAN_TAPE_H
#define VW_PLAN_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"

typedef enum vw__dtype {
    VW__FLOAT32,
    VW__BFLOAT16,
    VW__FLOAT16,
    VW__INT64,
    VW__BOOL,
    VW__BYTE,
} vw__dtype;

static inline uint64_t vw__dtype_bytes(vw__dtype dtype)
{
    static const uint8_t bytes[] = {4, 2, 2, 8, 1, 1};
    return bytes[dtype];
}

/* What a storage is for, at the time. */
typedef enum vw__use {
    VW__USE_WEIGHTS,
    VW__USE_GRADIENTS, /* kept for the optimizer */
    VW__USE_OPTIMIZER,
    VW__USE_ACTIVATIONS, /* made in a forward pass */
    VW__USE_LOSS,        /* logits, and what is made of them, in both directions */
    VW__USE_BACKWARD,    /* gradients on their way, and what computing them needs */
    VW__USE_WORKSPACE,   /* of libraries */
    VW__USE_DATA,        /* the batch */
    VW__USE_COUNT
} vw__use;

#define VW__NO_STORAGE UINT32_MAX
#define VW__NO_SOURCE UINT32_MAX

/* Where a gradient goes: a node's output, or a parameter. */
typedef struct vw__source {
    uint32_t node;   /* or the parameter; VW__NO_SOURCE: no gradient is wanted */
    uint16_t output; /* of the node */
    bool is_parameter;
} vw__source;

/* A value: a storage, or a part of one, and where it came from. */
typedef struct vw__tensor {
    uint64_t elements;
    uint32_t storage; /* VW__NO_STORAGE: none, as of None in Python */
    vw__source source;
    vw__dtype dtype;
} vw__tensor;

typedef struct vw__tape vw__tape;

/* Where a run begins something new, for who listens. A checkpoint runs again inside of a backward
 * pass, and when it has, that pass goes on. */
typedef enum vw__tape_mark {
    VW__MARK_STEP, /* a training step, or a forward pass without one, begins */
    VW__MARK_STEP_END,
    VW__MARK_BACKWARD,
    VW__MARK_BACKWARD_END,
    VW__MARK_AGAIN,
    VW__MARK_AGAIN_END,
} vw__tape_mark;

/* What a tape tells, in order. `place` is a scope (vw__tape_place()). */
typedef struct vw__tape_listener {
    void *context;
    void (*alloc)(void *context, uint32_t storage, uint64_t size_bytes, uint32_t place,
                  vw__use use);
    void (*free)(void *context, uint32_t storage);
    void (*mark)(void *context, vw__tape_mark mark); /* or NULL */
} vw__tape_listener;

VW_MUST_CHECK vw_status vw__tape_create(const vw__tape_listener *listener, vw__tape **out);
void vw__tape_destroy(vw__tape *tape); /* NULL does nothing */
vw_status vw__tape_status(const vw__tape *tape);
void vw__tape_fail(vw__tape *tape, vw_status status);   /* only the first counts */
void vw__tape_tell(vw__tape *tape, vw__tape_mark mark); /* the listener */

/* ---- where we are ---------------------------------------------------------------------------- */

/* Scopes nest: "layer 7", "attention", "q_proj". `number` < 0: none. `name` must outlive the tape.
 */
void vw__enter(vw__tape *tape, const char *name, int64_t number);
void vw__leave(vw__tape *tape);

typedef struct vw__place {
    uint32_t parent; /* UINT32_MAX: the outermost */
    const char *name;
    int64_t number;
} vw__place;

size_t vw__tape_place_count(const vw__tape *tape);
vw__place vw__tape_place(const vw__tape *tape, uint32_t place);

/* What is made from now on is for that; the former answer comes back. In backward it is that of the
 * node's forward, but for activations, whose gradients are BACKWARD. */
vw__use vw__tape_set_use(vw__tape *tape, vw__use use);

/* torch.no_grad() and its opposite; the former answer comes back. */
bool vw__tape_set_grad(vw__tape *tape, bool is_on);

/* ---- storages -------------------------------------------------------------------------------- */

/* A new tensor that needs no gradient, in a storage of its own. */
vw__tensor vw__tensor_new(vw__tape *tape, uint64_t elements, vw__dtype dtype);

/* Another holder of the same; lets go. vw__drop() leaves no tensor in `*tensor`. */
vw__tensor vw__hold(vw__tape *tape, vw__tensor tensor);
void vw__drop(vw__tape *tape, vw__tensor *tensor);

/* x = y: lets go of what was there. */
void vw__rebind(vw__tape *tape, vw__tensor *tensor, vw__tensor value);

vw__tensor vw__no_tensor(void);

static inline bool vw__is_tensor(vw__tensor tensor)
{
    return tensor.storage != VW__NO_STORAGE;
}

static inline bool vw__wants_gradient(vw__tensor tensor)
{
    return tensor.source.node != VW__NO_SOURCE;
}

/* The tensor stays, its memory goes (untyped_storage().resize_(0)), and comes again: weights that
 * are kept somewhere else until they are needed. Twice the same is once. */
void vw__set_aside(vw__tape *tape, vw__tensor tensor);
void vw__bring_back(vw__tape *tape, vw__tensor tensor);
bool vw__is_aside(const vw__tape *tape, vw__tensor tensor);

/* a * b; the tape fails where that is too much. */
uint64_t vw__times(vw__tape *tape, uint64_t a, uint64_t b);

/* ---- parameters ------------------------------------------------------------------------------ */

/* A leaf. Its number is tensor.source.node where it trains; a frozen one has no source. */
vw__tensor vw__parameter(vw__tape *tape, uint64_t elements, vw__dtype dtype, bool is_trained);
/* The same, set aside from the beginning. */
vw__tensor vw__parameter_aside(vw__tape *tape, uint64_t elements, vw__dtype dtype, bool is_trained);
size_t vw__tape_parameter_count(const vw__tape *tape); /* trained ones */
uint64_t vw__tape_parameter_elements(const vw__tape *tape, size_t parameter);
vw__dtype vw__tape_parameter_dtype(const vw__tape *tape, size_t parameter);
bool vw__tape_has_gradient(const vw__tape *tape, size_t parameter);

/* Its two last dimensions; 0 and 0 of a vector. */
typedef struct vw__matrix {
    uint64_t rows, width;
} vw__matrix;
void vw__tape_set_matrix(vw__tape *tape, vw__tensor parameter, uint64_t rows, uint64_t width);
vw__matrix vw__tape_parameter_matrix(const vw__tape *tape, size_t parameter);

/* p.grad = None, of one parameter; the gradient is handed over. */
vw__tensor vw__tape_take_gradient(vw__tape *tape, vw__tensor parameter);

/* As if an earlier batch had left a gradient with every parameter. */
void vw__tape_make_gradients(vw__tape *tape);

/* optimizer.zero_grad(set_to_none=True) */
void vw__tape_drop_gradients(vw__tape *tape);

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Begins the node of an operator with these arguments (tensors without storage are passed over) if
 * gradients are on and one of them wants one. Its edges are the arguments, by their place. False:
 * there is no node, and the calls below, up to vw__node_end(), do nothing. Nodes do not nest. */
bool vw__node_begin(vw__tape *tape, const vw__tensor *arguments, size_t argument_count);

/* The derivative needs it. Same storage twice is held once. */
void vw__node_save(vw__tape *tape, vw__tensor tensor);

/* What the derivative does, in order. A slot is a storage of the derivative's own, let go at its
 * end unless given to an edge (which may be done for several). Slots for edges that want no
 * gradient are VW__NO_SLOT: taking none. */
#define VW__NO_SLOT UINT16_MAX
uint16_t vw__node_take(vw__tape *tape, uint64_t elements, vw__dtype dtype);
void vw__node_let_go(vw__tape *tape, uint16_t slot);

/* The derivative has been computed; what it takes from here on is the engine's, which sums
 * gradients to the shape of their argument. A node in a checkpoint has let go of what it saved by
 * then: nobody but the derivative held what was made again. */
void vw__node_return(vw__tape *tape);
void vw__node_give(vw__tape *tape, size_t edge, uint16_t slot);
void vw__node_pass(vw__tape *tape, size_t edge, size_t output); /* the incoming one, uncopied */

/* Takes a slot and gives it to the edge, where that wants a gradient. */
void vw__node_take_for(vw__tape *tape, size_t edge, uint64_t elements, vw__dtype dtype);
bool vw__node_wants(const vw__tape *tape, size_t edge);

/* Ends it; `outputs`, which lie beside each other, then come from it. */
void vw__node_end(vw__tape *tape, vw__tensor *outputs, size_t output_count);

/* x, as it is; in the backward pass `call` is called when x's gradient has come. */
typedef void (*vw__hook_call)(void *context, size_t number);
vw__tensor vw__hook(vw__tape *tape, vw__tensor x, vw__hook_call call, void *context, size_t number);

/* x.requires_grad_(), of a tensor that nothing with a gradient was made of. Holds the same. */
vw__tensor vw__require_gradient(vw__tape *tape, vw__tensor x);

/* Is told every tensor that an operator takes; NULL: nobody is. */
typedef void (*vw__watch_call)(void *context, uint32_t storage);
void vw__tape_watch(vw__tape *tape, vw__watch_call call, void *context);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* torch.utils.checkpoint, not reentrant: runs `forward` without what its nodes would save, and
 * again in the backward pass when the first of them is needed. `argument` is held until then. */
typedef vw__tensor (*vw__forward)(vw__tape *tape, void *context, vw__tensor argument);
vw__tensor vw__checkpoint(vw__tape *tape, vw__forward forward, void *context, vw__tensor argument);

/* Lets go of it as Python does of what was also given to a checkpointed part: when the graph is
 * gone. `tensor` stays what it is: the part will be given it again. */
void vw__drop_with_graph(vw__tape *tape, vw__tensor tensor);

/* The same, with a policy for each operator (create_selective_checkpoint_contexts()): the results
 * of products and attention are kept and not made again. */
vw__tensor vw__checkpoint_selectively(vw__tape *tape, vw__forward forward, void *context,
                                      vw__tensor argument);

/* As vw__tensor_new(), for a result that such a policy keeps. */
vw__tensor vw__result_new(vw__tape *tape, uint64_t elements, vw__dtype dtype);

/* ---- autocast -------------------------------------------------------------------------------- */

/* A region in which matrix products are made in `dtype`. Trained weights are cast once each, and
 * what was cast is held until the region is left (op_cast.c). Regions do not nest. */
void vw__autocast_enter(vw__tape *tape, vw__dtype dtype);
void vw__autocast_leave(vw__tape *tape);

/* ---- backward -------------------------------------------------------------------------------- */

/* loss.backward(). The graph is gone afterwards. */
void vw__backward(vw__tape *tape, vw__tensor loss);

/* The last holder of the graph lets go of it without a backward pass. */
void vw__tape_drop_graph(vw__tape *tape);

/* ---- counting -------------------------------------------------------------------------------- */

typedef struct vw__tape_peak {
    uint64_t live_bytes;
    uint64_t parts[VW__USE_COUNT];
    uint32_t place; /* of the request that made it so */
} vw__tape_peak;

uint64_t vw__tape_live_bytes(const vw__tape *tape);
uint64_t vw__tape_live_of(const vw__tape *tape, vw__use use);
vw__tape_peak vw__tape_get_peak(const vw__tape *tape);
void vw__tape_reset_peak(vw__tape *tape); /* to what is live now */

#endif /* VW_PLAN_TAPE_H */
