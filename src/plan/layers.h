/* layers.h - a model described by its layers, in JSON (docs/reference/plan-layers.md).
 *
 *   line        one layer of the description, as read
 *   shape       the data of one sample between two layers
 *   place       the position of a line, for messages: "layers[3].layers[1]"
 *
 * A description is untrusted: numbers have limits, lists nest to a limited depth, and repeats are
 * counted before anything of their size is allocated. Shapes are inferred layer by layer, when the
 * description is read and again for the sizes of a plan. */
#ifndef VW_PLAN_LAYERS_H
#define VW_PLAN_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "plan/config_read.h"
#include "plan/op_image.h"
#include "plan/plan_model.h"

enum {
    VW__LAYERS_DEEPEST = 8,  /* lists in lists */
    VW__LAYERS_MOST = 10000, /* with everything unfolded */
};

#define VW__LAYERS_KIND_LIST(X)                                                                    \
    X(ATTENTION, "attention")                                                                      \
    X(AVG_POOL, "avg_pool")                                                                        \
    X(BATCH_NORM, "batch_norm")                                                                    \
    X(CONV2D, "conv2d")                                                                            \
    X(DROPOUT, "dropout")                                                                          \
    X(EMBEDDING, "embedding")                                                                      \
    X(FIRST_TOKEN, "first_token")                                                                  \
    X(FLATTEN, "flatten")                                                                          \
    X(GELU, "gelu")                                                                                \
    X(GROUP_NORM, "group_norm")                                                                    \
    X(LAYER_NORM, "layer_norm")                                                                    \
    X(LINEAR, "linear")                                                                            \
    X(MAX_POOL, "max_pool")                                                                        \
    X(MEAN_POOL, "mean_pool")                                                                      \
    X(POSITIONS, "positions")                                                                      \
    X(RELU, "relu")                                                                                \
    X(REPEAT, "repeat")                                                                            \
    X(RESIDUAL, "residual")                                                                        \
    X(RMS_NORM, "rms_norm")                                                                        \
    X(SIGMOID, "sigmoid")                                                                          \
    X(SILU, "silu")                                                                                \
    X(TANH, "tanh")                                                                                \
    X(TOKENS, "tokens")

#define VW__LAYERS_ENUM(upper, text) VW__LAYERS_##upper,
typedef enum vw__layers_kind {
    VW__LAYERS_KIND_LIST(VW__LAYERS_ENUM) VW__LAYERS_KIND_COUNT
} vw__layers_kind;
#undef VW__LAYERS_ENUM

extern const char *const vw__layers_kind_names[VW__LAYERS_KIND_COUNT];

/* ---- shapes (layers_shape.c) ----------------------------------------------------------------- */

typedef enum vw__layers_flow {
    VW__LAYERS_FLOW_IMAGE,    /* channels (width), height, and across */
    VW__LAYERS_FLOW_IDS,      /* length whole numbers */
    VW__LAYERS_FLOW_TOKENS,   /* length rows of width */
    VW__LAYERS_FLOW_FEATURES, /* one row of width */
} vw__layers_flow;

struct vw__layers_shape {
    vw__layers_flow flow;
    uint64_t width; /* of a row; of an image: channels */
    uint64_t length;
    uint64_t height, across;
};

/* Turns the shape that comes in into the one that goes out. VW_ERR_CORRUPT_FILE: the line cannot
 * take that shape. */
VW_MUST_CHECK vw_status vw__layers_infer_line(const vw__layers_line *line, vw__layers_shape *shape);
VW_MUST_CHECK vw_status vw__layers_infer(const vw__layers_line *lines, size_t line_count,
                                         vw__layers_shape *shape);

uint64_t vw__layers_elements(vw__tape *tape, const vw__layers_shape *shape, uint64_t batch);

typedef struct vw__layers_words {
    char text[96];
} vw__layers_words;
vw__layers_words
vw__layers_shape_words(const vw__layers_shape *shape); /* "an image of 3x224x224" */

/* ---- lines (layers_read.c) ------------------------------------------------------------------- */

struct vw__layers_line {
    vw__layers_kind kind;
    const char *name; /* its own, or its kind's */
    const char *place;
    int64_t number;   /* in its list; -1 where it has a name of its own */
    uint64_t in, out; /* widths; 0 = as it comes */
    uint64_t rows;    /* of a table */
    uint64_t groups, heads, key_heads;
    uint64_t count; /* of a repeat */
    vw__op_window window;
    bool has_bias, has_dropout, is_in_place, is_causal, is_packed;
    const vw__layers_line *lines, *shortcut; /* of residual and repeat */
    size_t line_count, shortcut_count;
};

/* Reads a description into the model, whose arena it fills. */
VW_MUST_CHECK vw_status vw__layers_read(const vw__config *config, vw_plan_model *model);

#endif /* VW_PLAN_LAYERS_H */
