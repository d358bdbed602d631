/* attribution.h - what a stack tells about the memory it asked for.
 *
 * Two things people want to know of a block: which line of *their* program asked for it, and what
 * it is for. Both are read off the stack of the request; the rules are a table in attribution.c.
 *
 * Frames are judged once each and stacks once each when the attribution is made; asking is then
 * looking up. */
#ifndef VW_ANALYSIS_ATTRIBUTION_H
#define VW_ANALYSIS_ATTRIBUTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "model/memory_model.h"

/* What memory is for, in one word: the same in every command.
 *
 * Three enumerations say it, each by what it knows: vw__category by the stack of the request,
 * vw__role (roles.h) by the stack and how long the block lived, vw__tape_use (plan/tape.h) by the
 * operator. All take their words from here, so that the activations of stats, diff, doctor, plan
 * and the page are one thing. A stack alone cannot tell an activation from a temporary of a forward
 * pass, nor a gradient from a temporary of a backward pass: it says ACTIVATIONS and BACKWARD. */
#define VW__CATEGORY_NAME_WEIGHTS "weights"         /* parameters, buffers, copies of them */
#define VW__CATEGORY_NAME_GRADIENTS "gradients"     /* kept for the optimizer */
#define VW__CATEGORY_NAME_OPTIMIZER "optimizer"     /* its state, and what its step needs */
#define VW__CATEGORY_NAME_ACTIVATIONS "activations" /* made by a forward pass */
#define VW__CATEGORY_NAME_BACKWARD "backward"       /* gradients, and what computing them needs */
#define VW__CATEGORY_NAME_TEMPORARIES "temporaries" /* gone before their own pass was */
#define VW__CATEGORY_NAME_LOSS "loss"         /* logits, and what is made of them, both ways */
#define VW__CATEGORY_NAME_KV_CACHE "kv-cache" /* keys and values of earlier tokens */
#define VW__CATEGORY_NAME_DATA "data"         /* batches on their way to the model */
#define VW__CATEGORY_NAME_LOADED "loaded"     /* read from a file by torch.load(), whatever it is */
#define VW__CATEGORY_NAME_WORKSPACE "workspace" /* of cuBLAS and cuDNN */
#define VW__CATEGORY_NAME_ROUNDING "rounding"   /* of plans: blocks that are not split */
#define VW__CATEGORY_NAME_OTHER "other"         /* there is a stack, and no rule knows it */
#define VW__CATEGORY_NAME_UNKNOWN "unknown"     /* no stack */

#define VW__CATEGORY_LIST(X)                                                                       \
    X(WEIGHTS, VW__CATEGORY_NAME_WEIGHTS)     /* parameters and buffers of modules */              \
    X(OPTIMIZER, VW__CATEGORY_NAME_OPTIMIZER) /* its state, and what its step needs */             \
    X(GRADIENTS,                                                                                   \
      VW__CATEGORY_NAME_GRADIENTS) /* only where a stack says so: most are made in BACKWARD */     \
    X(FORWARD, VW__CATEGORY_NAME_ACTIVATIONS) /* activations, and what computing them needs */     \
    X(BACKWARD,                                                                                    \
      VW__CATEGORY_NAME_BACKWARD) /* gradients, what computing them needs, and recomputation */    \
    X(KV_CACHE, VW__CATEGORY_NAME_KV_CACHE) /* keys and values of earlier tokens */                \
    X(DATA, VW__CATEGORY_NAME_DATA)         /* batches on their way to the model */                \
    X(LOADED, VW__CATEGORY_NAME_LOADED)     /* read from a file by torch.load(), whatever it is */ \
    X(WORKSPACE,                                                                                   \
      VW__CATEGORY_NAME_WORKSPACE)        /* of cuBLAS and cuDNN; shows only with C++ stacks */    \
    X(OTHER, VW__CATEGORY_NAME_OTHER)     /* there is a stack, and no rule knows it */             \
    X(UNKNOWN, VW__CATEGORY_NAME_UNKNOWN) /* no stack */

typedef enum vw__category {
#define VW__CATEGORY_ENUM(upper, text) VW__CATEGORY_##upper,
    VW__CATEGORY_LIST(VW__CATEGORY_ENUM)
#undef VW__CATEGORY_ENUM
        VW__CATEGORY_COUNT
} vw__category;

#define VW__ATTRIBUTION_NO_FRAME SIZE_MAX

struct vw__written_stack;

typedef struct vw__attribution {
    const vw__model *model;    /* borrowed */
    uint8_t *frame_kinds;      /* owned; by frame: private to attribution.c */
    uint8_t *stack_categories; /* owned; by stack: vw__category */
    bool *is_in_optimizer;     /* owned; by stack: an optimizer's frame is in it, at any depth */
    bool has_optimizer;        /* one of them is true */

    struct vw__written_stack *written_stacks; /* by stack: vw__moment_share_stacks(); or NULL */
} vw__attribution;

VW_MUST_CHECK vw_status vw__attribution_init(vw__attribution *attribution, const vw__model *model);
void vw__attribution_deinit(vw__attribution *attribution);

/* "weights", ...: static text. */
const char *vw__category_name(vw__category category);

/* `context` may be VW__MODEL_NO_CONTEXT. */
static inline vw__category vw__attribution_category(const vw__attribution *attribution,
                                                    uint32_t context)
{
    if (context == VW__MODEL_NO_CONTEXT)
        return VW__CATEGORY_UNKNOWN;
    return (vw__category)attribution->stack_categories[attribution->model->contexts[context]];
}

/* Returns whether an optimizer was at work, also if it had called a forward pass. */
static inline bool vw__attribution_is_in_optimizer(const vw__attribution *attribution,
                                                   uint32_t context)
{
    return context != VW__MODEL_NO_CONTEXT &&
           attribution->is_in_optimizer[attribution->model->contexts[context]];
}

/* Returns whether a frame (of model->frames) is the user's own: outside torch and other
 * libraries. */
bool vw__attribution_is_users(const vw__attribution *attribution, uint32_t frame);

/* The place in the stack of its innermost frame outside torch and other libraries, or
 * VW__ATTRIBUTION_NO_FRAME. */
size_t vw__attribution_where(const vw__attribution *attribution, vw__model_stack stack);

/* The place of the frame that called the outermost module of the stack: the innermost of the user's
 * frames outside all modules, such as `out = model(x)` in a loop. VW__ATTRIBUTION_NO_FRAME if there
 * is no module, or no frame of the user's around it. */
size_t vw__attribution_caller(const vw__attribution *attribution, vw__model_stack stack);

/* What one frame means by itself, wherever it is from. */
typedef struct vw__attribution_frame {
    bool is_users;
    vw__category category; /* VW__CATEGORY_OTHER: no rule knows it */
} vw__attribution_frame;

vw__attribution_frame vw__attribution_judge(const char *function, const char *file);

/* Returns whether a path contains `part`, from the beginning of a folder's or file's name. Either
 * kind of slash matches. */
bool vw__attribution_path_has(const char *file, const char *part);

#endif /* VW_ANALYSIS_ATTRIBUTION_H */
