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
 * returns is held once, by its caller, who lets go with hr__drop(); operators borrow their
 * arguments. Nodes hold what they saved until they have run.
 *
 * Errors stick: after the first (no host memory, sizes beyond an address space) operators do
 * nothing, and hr__tape_status() tells at the end.
 *
 * No locks: one thread at a time. */
#ifndef HR_PLAN_TAPE_H
#define HR_PLAN_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"

typedef enum hr__dtype {
    HR__FLOAT32,
    HR__BFLOAT16,
    HR__FLOAT16,
    HR__INT64,
    HR__BOOL,
    HR__BYTE,
} hr__dtype;

static inline uint64_t hr__dtype_bytes(hr__dtype dtype)
{
    static const uint8_t bytes[] = {4, 2, 2, 8, 1, 1};
    return bytes[dtype];
}

/* What a storage is for, at the time. */
typedef enum hr__use {
    HR__USE_WEIGHTS,
    HR__USE_GRADIENTS, /* kept for the optimizer */
    HR__USE_OPTIMIZER,
    HR__USE_ACTIVATIONS, /* made in a forward pass */
    HR__USE_LOSS,        /* logits, and what is made of them, in both directions */
    HR__USE_BACKWARD,    /* gradients on their way, and what computing them needs */
    HR__USE_WORKSPACE,   /* of libraries */
    HR__USE_DATA,        /* the batch */
    HR__USE_COUNT
} hr__use;

#define HR__NO_STORAGE UINT32_MAX
#define HR__NO_SOURCE UINT32_MAX

/* Where a gradient goes: a node's output, or a parameter. */
typedef struct hr__source {
    uint32_t node;   /* or the parameter; HR__NO_SOURCE: no gradient is wanted */
    uint16_t output; /* of the node */
    bool is_parameter;
} hr__source;

/* A value: a storage, or a part of one, and where it came from. */
typedef struct hr__tensor {
    uint64_t elements;
    uint32_t storage; /* HR__NO_STORAGE: none, as of None in Python */
    hr__source source;
    hr__dtype dtype;
} hr__tensor;

typedef struct hr__tape hr__tape;

/* Where a run begins something new, for who listens. A checkpoint runs again inside of a backward
 * pass, and when it has, that pass goes on. */
typedef enum hr__tape_mark {
    HR__MARK_STEP, /* a training step, or a forward pass without one, begins */
    HR__MARK_STEP_END,
    HR__MARK_BACKWARD,
    HR__MARK_BACKWARD_END,
    HR__MARK_AGAIN,
    HR__MARK_AGAIN_END,
} hr__tape_mark;

/* What a tape tells, in order. `place` is a scope (hr__tape_place()). */
typedef struct hr__tape_listener {
    void *context;
    void (*alloc)(void *context, uint32_t storage, uint64_t size_bytes, uint32_t place,
                  hr__use use);
    void (*free)(void *context, uint32_t storage);
    void (*mark)(void *context, hr__tape_mark mark); /* or NULL */
} hr__tape_listener;

HR_MUST_CHECK hr_status hr__tape_create(const hr__tape_listener *listener, hr__tape **out);
void hr__tape_destroy(hr__tape *tape); /* NULL does nothing */
hr_status hr__tape_status(const hr__tape *tape);
void hr__tape_fail(hr__tape *tape, hr_status status);   /* only the first counts */
void hr__tape_tell(hr__tape *tape, hr__tape_mark mark); /* the listener */

/* ---- where we are ---------------------------------------------------------------------------- */

/* Scopes nest: "layer 7", "attention", "q_proj". `number` < 0: none. `name` must outlive the tape.
 */
void hr__enter(hr__tape *tape, const char *name, int64_t number);
void hr__leave(hr__tape *tape);

typedef struct hr__place {
    uint32_t parent; /* UINT32_MAX: the outermost */
    const char *name;
    int64_t number;
} hr__place;

size_t hr__tape_place_count(const hr__tape *tape);
hr__place hr__tape_place(const hr__tape *tape, uint32_t place);

/* What is made from now on is for that; the former answer comes back. In backward it is that of the
 * node's forward, but for activations, whose gradients are BACKWARD. */
hr__use hr__tape_set_use(hr__tape *tape, hr__use use);

/* torch.no_grad() and its opposite; the former answer comes back. */
bool hr__tape_set_grad(hr__tape *tape, bool is_on);

/* ---- storages -------------------------------------------------------------------------------- */

/* A new tensor that needs no gradient, in a storage of its own. */
hr__tensor hr__tensor_new(hr__tape *tape, uint64_t elements, hr__dtype dtype);

/* Another holder of the same; lets go. hr__drop() leaves no tensor in `*tensor`. */
hr__tensor hr__hold(hr__tape *tape, hr__tensor tensor);
void hr__drop(hr__tape *tape, hr__tensor *tensor);

/* x = y: lets go of what was there. */
void hr__rebind(hr__tape *tape, hr__tensor *tensor, hr__tensor value);

hr__tensor hr__no_tensor(void);

static inline bool hr__is_tensor(hr__tensor tensor)
{
    return tensor.storage != HR__NO_STORAGE;
}

static inline bool hr__wants_gradient(hr__tensor tensor)
{
    return tensor.source.node != HR__NO_SOURCE;
}

/* The tensor stays, its memory goes (untyped_storage().resize_(0)), and comes again: weights that
 * are kept somewhere else until they are needed. Twice the same is once. */
void hr__set_aside(hr__tape *tape, hr__tensor tensor);
void hr__bring_back(hr__tape *tape, hr__tensor tensor);
bool hr__is_aside(const hr__tape *tape, hr__tensor tensor);

/* a * b; the tape fails where that is too much. */
uint64_t hr__times(hr__tape *tape, uint64_t a, uint64_t b);

/* Without a source: detach(). Holds the same storage. */
hr__tensor hr__detach(hr__tape *tape, hr__tensor tensor);

/* ---- parameters ------------------------------------------------------------------------------ */

/* A leaf. Its number is tensor.source.node where it trains; a frozen one has no source. */
hr__tensor hr__parameter(hr__tape *tape, uint64_t elements, hr__dtype dtype, bool is_trained);
/* The same, set aside from the beginning. */
hr__tensor hr__parameter_aside(hr__tape *tape, uint64_t elements, hr__dtype dtype, bool is_trained);
size_t hr__tape_parameter_count(const hr__tape *tape); /* trained ones */
uint64_t hr__tape_parameter_elements(const hr__tape *tape, size_t parameter);
hr__dtype hr__tape_parameter_dtype(const hr__tape *tape, size_t parameter);
bool hr__tape_has_gradient(const hr__tape *tape, size_t parameter);

/* Its two last dimensions; 0 and 0 of a vector. */
typedef struct hr__matrix {
    uint64_t rows, width;
} hr__matrix;
void hr__tape_set_matrix(hr__tape *tape, hr__tensor parameter, uint64_t rows, uint64_t width);
hr__matrix hr__tape_parameter_matrix(const hr__tape *tape, size_t parameter);

/* p.grad = None, of one parameter; the gradient is handed over. */
hr__tensor hr__tape_take_gradient(hr__tape *tape, hr__tensor parameter);

/* As if an earlier batch had left a gradient with every parameter. */
void hr__tape_make_gradients(hr__tape *tape);

/* optimizer.zero_grad(set_to_none=True) */
void hr__tape_drop_gradients(hr__tape *tape);

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Begins the node of an operator with these arguments (tensors without storage are passed over) if
 * gradients are on and one of them wants one. False: there is none, and the calls below are not to
 * be made. Its edges are the arguments, by their place. */
bool hr__node_begin(hr__tape *tape, const hr__tensor *arguments, size_t argument_count);

/* The derivative needs it. Same storage twice is held once. */
void hr__node_save(hr__tape *tape, hr__tensor tensor);

/* What the derivative does, in order. A slot is a storage of the derivative's own, let go at its
 * end unless given to an edge (which may be done for several). Slots for edges that want no
 * gradient are HR__NO_SLOT: taking none. */
#define HR__NO_SLOT UINT16_MAX
uint16_t hr__node_take(hr__tape *tape, uint64_t elements, hr__dtype dtype);
void hr__node_let_go(hr__tape *tape, uint16_t slot);

/* The derivative has been computed; what it takes from here on is the engine's, which sums
 * gradients to the shape of their argument. A node in a checkpoint has let go of what it saved by
 * then: nobody but the derivative held what was made again. */
void hr__node_return(hr__tape *tape);
void hr__node_give(hr__tape *tape, size_t edge, uint16_t slot);
void hr__node_pass(hr__tape *tape, size_t edge, size_t output); /* the incoming one, uncopied */

/* Takes a slot and gives it to the edge, where that wants a gradient. */
void hr__node_take_for(hr__tape *tape, size_t edge, uint64_t elements, hr__dtype dtype);
bool hr__node_wants(const hr__tape *tape, size_t edge);

/* Ends it; `outputs` then come from it. */
void hr__node_end(hr__tape *tape, hr__tensor *const *outputs, size_t output_count);

/* The same for outputs that lie beside each other. */
void hr__node_end_all(hr__tape *tape, hr__tensor *outputs, size_t output_count);

/* x, as it is; in the backward pass `call` is called when x's gradient has come. */
typedef void (*hr__hook_call)(void *context, size_t number);
hr__tensor hr__hook(hr__tape *tape, hr__tensor x, hr__hook_call call, void *context, size_t number);

/* x.requires_grad_(), of a tensor that nothing with a gradient was made of. Holds the same. */
hr__tensor hr__require_gradient(hr__tape *tape, hr__tensor x);

/* Is told every tensor that an operator takes; NULL: nobody is. */
typedef void (*hr__watch_call)(void *context, uint32_t storage);
void hr__tape_watch(hr__tape *tape, hr__watch_call call, void *context);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* torch.utils.checkpoint, not reentrant: runs `forward` without what its nodes would save, and
 * again in the backward pass when the first of them is needed. `argument` is held until then. */
typedef hr__tensor (*hr__forward)(hr__tape *tape, void *context, hr__tensor argument);
hr__tensor hr__checkpoint(hr__tape *tape, hr__forward forward, void *context, hr__tensor argument);

/* Lets go of it as Python does of what was also given to a checkpointed part: when the graph is
 * gone. `tensor` stays what it is: the part will be given it again. */
void hr__drop_with_graph(hr__tape *tape, hr__tensor tensor);

/* The same, with a policy for each operator (create_selective_checkpoint_contexts()): the results
 * of products and attention are kept and not made again. */
hr__tensor hr__checkpoint_selectively(hr__tape *tape, hr__forward forward, void *context,
                                      hr__tensor argument);

/* As hr__tensor_new(), for a result that such a policy keeps. */
hr__tensor hr__result_new(hr__tape *tape, uint64_t elements, hr__dtype dtype);

/* ---- autocast -------------------------------------------------------------------------------- */

/* A region in which matrix products are made in `dtype`. Trained weights are cast once each, and
 * what was cast is held until the region is left (op_cast.c). Regions do not nest. */
void hr__autocast_enter(hr__tape *tape, hr__dtype dtype);
void hr__autocast_leave(hr__tape *tape);

/* ---- backward -------------------------------------------------------------------------------- */

/* loss.backward(). The graph is gone afterwards. */
void hr__backward(hr__tape *tape, hr__tensor loss);

/* The last holder of the graph lets go of it without a backward pass. */
void hr__tape_drop_graph(hr__tape *tape);

/* ---- counting -------------------------------------------------------------------------------- */

typedef struct hr__tape_peak {
    uint64_t live_bytes;
    uint64_t parts[HR__USE_COUNT];
    uint32_t place; /* of the request that made it so */
} hr__tape_peak;

uint64_t hr__tape_live_bytes(const hr__tape *tape);
uint64_t hr__tape_live_of(const hr__tape *tape, hr__use use);
hr__tape_peak hr__tape_get_peak(const hr__tape *tape);
void hr__tape_reset_peak(hr__tape *tape); /* to what is live now */

#endif /* HR_PLAN_TAPE_H */
