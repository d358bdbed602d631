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
    VW__LAYERS_MOST = 10000, /* with everything unfolded, recurrent layers and directions too */
};

#define VW__LAYERS_KIND_LIST(X)                                                                    \
    X(ADAPTIVE_POOL, "adaptive_pool")                                                              \
    X(ATTENTION, "attention")                                                                      \
    X(ATTENTION_POOL, "attention_pool")                                                            \
    X(AVG_POOL, "avg_pool")                                                                        \
    X(BATCH_NORM, "batch_norm")                                                                    \
    X(CLASS_TOKEN, "class_token")                                                                  \
    X(CONCAT, "concat")                                                                            \
    X(CONV1D, "conv1d")                                                                            \
    X(CONV2D, "conv2d")                                                                            \
    X(CONV3D, "conv3d")                                                                            \
    X(CONV_TRANSPOSE1D, "conv_transpose1d")                                                        \
    X(CONV_TRANSPOSE2D, "conv_transpose2d")                                                        \
    X(CONV_TRANSPOSE3D, "conv_transpose3d")                                                        \
    X(DENSE, "dense")                                                                              \
    X(DROP_PATH, "drop_path")                                                                      \
    X(DROPOUT, "dropout")                                                                          \
    X(EMBEDDING, "embedding")                                                                      \
    X(FIRST_TOKEN, "first_token")                                                                  \
    X(FLATTEN, "flatten")                                                                          \
    X(GELU, "gelu")                                                                                \
    X(GELU_NEW, "gelu_new")                                                                        \
    X(GROUP_NORM, "group_norm")                                                                    \
    X(GRU, "gru")                                                                                  \
    X(HARDSIGMOID, "hardsigmoid")                                                                  \
    X(HARDSWISH, "hardswish")                                                                      \
    X(IMAGE, "image")                                                                              \
    X(LAYER_NORM, "layer_norm")                                                                    \
    X(LINEAR, "linear")                                                                            \
    X(LSTM, "lstm")                                                                                \
    X(MAX_POOL, "max_pool")                                                                        \
    X(MEAN_POOL, "mean_pool")                                                                      \
    X(MULTIPLY, "multiply")                                                                        \
    X(PATCH_MERGING, "patch_merging")                                                              \
    X(POSITIONS, "positions")                                                                      \
    X(QUICK_GELU, "quick_gelu")                                                                    \
    X(RELU, "relu")                                                                                \
    X(RELU6, "relu6")                                                                              \
    X(REPEAT, "repeat")                                                                            \
    X(RESIDUAL, "residual")                                                                        \
    X(RMS_NORM, "rms_norm")                                                                        \
    X(RNN, "rnn")                                                                                  \
    X(SCALE, "scale")                                                                              \
    X(SIGMOID, "sigmoid")                                                                          \
    X(SILU, "silu")                                                                                \
    X(SKIP_TOKENS, "skip_tokens")                                                                  \
    X(SWIGLU, "swiglu")                                                                            \
    X(TANH, "tanh")                                                                                \
    X(TOKENS, "tokens")                                                                            \
    X(UPSAMPLE, "upsample")                                                                        \
    X(WINDOW_ATTENTION, "window_attention")

#define VW__LAYERS_ENUM(upper, text) VW__LAYERS_##upper,
typedef enum vw__layers_kind {
    VW__LAYERS_KIND_LIST(VW__LAYERS_ENUM) VW__LAYERS_KIND_COUNT
} vw__layers_kind;
#undef VW__LAYERS_ENUM

extern const char *const vw__layers_kind_names[VW__LAYERS_KIND_COUNT];

/* ---- shapes (layers_shape.c) ----------------------------------------------------------------- */

typedef enum vw__layers_flow {
    VW__LAYERS_FLOW_SIGNAL,   /* channels (width), and across */
    VW__LAYERS_FLOW_IMAGE,    /* height too */
    VW__LAYERS_FLOW_VOLUME,   /* and depth */
    VW__LAYERS_FLOW_IDS,      /* length whole numbers */
    VW__LAYERS_FLOW_TOKENS,   /* length rows of width */
    VW__LAYERS_FLOW_FEATURES, /* one row of width */
} vw__layers_flow;

struct vw__layers_shape {
    vw__layers_flow flow;
    uint64_t width; /* of a row; of an image: channels */
    uint64_t length;
    uint64_t depth, height, across; /* 1 where there is no such side; of tokens: of the image they
                                       were, or 0 */
    bool is_channels_last;          /* so the image lies in memory */
};

/* Has channels and sides: a signal, an image or a volume. */
static inline bool vw__layers_has_sides(vw__layers_flow flow)
{
    return flow <= VW__LAYERS_FLOW_VOLUME;
}

/* Turns the shape that comes in into the one that goes out. VW_ERR_CORRUPT_FILE: the line cannot
 * take that shape. */
VW_MUST_CHECK vw_status vw__layers_infer_line(const vw__layers_line *line, vw__layers_shape *shape);
VW_MUST_CHECK vw_status vw__layers_infer(const vw__layers_line *lines, size_t line_count,
                                         vw__layers_shape *shape);

uint64_t vw__layers_elements(vw__tape *tape, const vw__layers_shape *shape, uint64_t batch);

/* ---- lines (layers_read.c) ------------------------------------------------------------------- */

struct vw__layers_line {
    vw__layers_kind kind;
    const char *name; /* its own, or its kind's */
    const char *place;
    int64_t number;   /* in its list; -1 where it has a name of its own */
    uint64_t in, out; /* widths; 0 = as it comes */
    uint64_t rows;    /* of a table */
    uint64_t groups, heads, key_heads;
    uint64_t count;  /* of a repeat, or a dense one; layers of an rnn; tokens */
    uint64_t factor; /* of upsample */
    uint64_t shift;  /* of windows */
    vw__op_window window;
    bool has_bias, has_dropout, is_in_place, is_causal, is_packed, is_bidirectional;
    bool has_output_bias; /* of attention, whatever the others have */
    bool is_direct;    /* tokens: what follows reads them as they lie; positions: not looked up */
    bool is_held;      /* what it makes, by a variable of the block's function, or of the model's */
    bool is_stretched; /* positions: to as many as there are tokens */
    const vw__layers_line *lines, *shortcut; /* of what has layers inside */
    size_t line_count, shortcut_count;
};

/* Two rows of layers, of which something is made. */
static inline bool vw__layers_is_combined(vw__layers_kind kind)
{
    return kind == VW__LAYERS_RESIDUAL || kind == VW__LAYERS_CONCAT || kind == VW__LAYERS_MULTIPLY;
}

/* Reads a description into the model, whose arena it fills. */
VW_MUST_CHECK vw_status vw__layers_read(const vw__config *config, vw_plan_model *model);

#endif /* VW_PLAN_LAYERS_H */
