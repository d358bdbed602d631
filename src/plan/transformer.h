/* transformer.h - the one transformer that all families of that kind are: its style, its modules.
 *
 * A decoder (causal) and an encoder are the same stack of layers; an encoder-decoder has one of
 * each. Which parts a layer has, in which order they are made, when the Python code lets go of a
 * tensor: all of that is data, the style of a family (families.c). Numbers and what may differ from
 * one model of a family to the next are in vw__plan_shape. */
#ifndef VW_PLAN_TRANSFORMER_H
#define VW_PLAN_TRANSFORMER_H

#include "plan/plan_run.h"

/* The modules of a layer in the order of their making, which is that of their parameters. */
typedef enum vw__plan_part {
    VW__PLAN_NO_PART, /* ends the list */
    VW__PLAN_ATTENTION,
    VW__PLAN_NORM_1, /* of attention */
    VW__PLAN_AFTER_ATTENTION,
    VW__PLAN_CROSS, /* a decoder's attention to the encoder, with a norm of its own */
    VW__PLAN_MLP,
    VW__PLAN_NORM_2, /* of the MLP */
    VW__PLAN_AFTER_MLP,
} vw__plan_part;

/* Moments in a block, and in each of its parts (attention, MLP), in their order. */
typedef enum vw__plan_moment {
    VW__PLAN_OUTPUT_BEGINS, /* the part's last product */
    VW__PLAN_OUTPUT_ENDS,
    VW__PLAN_DROPPED, /* dropout is done */
    VW__PLAN_ADDED,   /* to the residual */
    VW__PLAN_NORMED,  /* by the next norm, behind the sum or before the next part */
    VW__PLAN_BLOCK_ENDS,
} vw__plan_moment;

/* Until when the Python code holds a tensor. */
typedef struct vw__plan_holds {
    vw__plan_moment heads;            /* queries, keys, values */
    vw__plan_moment context;          /* what a part's last product reads */
    vw__plan_moment input, mlp_input; /* what a part reads */
    vw__plan_moment undropped;        /* before dropout */
    vw__plan_moment part;             /* what is added */
    vw__plan_moment residual;         /* between two parts */
} vw__plan_holds;

/* What runs inside a part's scope ("attention", "mlp"). */
typedef enum vw__plan_scope {
    VW__PLAN_SCOPE_CORE,    /* its products */
    VW__PLAN_SCOPE_DROPOUT, /* and dropout */
    VW__PLAN_SCOPE_ALL,     /* norm and sum as well */
} vw__plan_scope;

typedef enum vw__plan_topology {
    VW__PLAN_PRE_NORM,    /* x + part(norm(x)) */
    VW__PLAN_POST_NORM,   /* norm(x + part(x)) */
    VW__PLAN_PARALLEL,    /* x + attention(norm(x)) + mlp(norm(x)) */
    VW__PLAN_NORM_BEHIND, /* x + norm(part(x)) */
} vw__plan_topology;

typedef enum vw__plan_packing {
    VW__PLAN_SEPARATE, /* a product each for queries, keys and values */
    VW__PLAN_SPLIT,    /* one product, split in three */
    VW__PLAN_SLICED,   /* one product, sliced; gate and up share one too */
    VW__PLAN_INDEXED,  /* one product: queries are a slice, keys and values copies */
} vw__plan_packing;

typedef enum vw__plan_rotary {
    VW__PLAN_NOT_ROTATED,
    VW__PLAN_ROTATED,
    VW__PLAN_ROTATED_IN_PART, /* sliced and put together, even where all of a head is rotated */
} vw__plan_rotary;

/* What of rotation is in float32, whatever the type of queries and keys; its result is theirs. */
typedef enum vw__plan_rotary_floats {
    VW__PLAN_NO_FLOATS,
    VW__PLAN_FLOAT_TABLES,
    VW__PLAN_FLOAT_COPIES, /* of queries and keys */
} vw__plan_rotary_floats;

/* Which parts have dropout behind them, where a model has it. */
typedef enum vw__plan_drops {
    VW__PLAN_DROPS_BOTH,
    VW__PLAN_DROPS_MLP,
    VW__PLAN_DROPS_ATTENTION,
} vw__plan_drops;

/* What is made as wide as the layers, where tokens are narrower. */
typedef enum vw__plan_widening {
    VW__PLAN_WIDENS_EMBEDDING, /* all of it, behind its norm; the transform narrows again (electra)
                                */
    VW__PLAN_WIDENS_TOKENS,    /* before positions are added; narrowed behind the last norm (opt) */
} vw__plan_widening;

/* What the embedding's function holds while the layers run. */
typedef enum vw__plan_embedding_holds {
    VW__PLAN_HOLDS_NOTHING,
    VW__PLAN_HOLDS_ROWS,   /* what it looked up */
    VW__PLAN_HOLDS_RESULT, /* what it made of that */
} vw__plan_embedding_holds;

struct vw__plan_style {
    /* Names of modules as in Python; NULL: there is no such module. */
    const char *query, *key, *value, *packed, *output;
    const char *gate, *inner, *ungated_inner, *outer, *packed_gate;
    const char *norm_1, *norm_2, *norm_2_of_outer, *after_attention, *after_mlp, *last_norm;
    const char *embedding_norm, *transform, *head_norm, *head;
    const char *widen, *narrow; /* of tokens that are narrower than the layers */
    uint8_t order[8];           /* vw__plan_part */

    vw__module_norm_kind norm;
    vw__plan_topology topology;
    vw__plan_scope scope;
    vw__plan_holds holds;
    vw__plan_packing packing;
    vw__plan_rotary rotary;
    vw__plan_rotary_floats rotary_floats;
    vw__plan_widening widening;
    vw__plan_drops drops;
    vw__plan_embedding_holds embedding_holds;

    bool is_causal;
    bool has_query_bias, has_output_bias, has_mlp_bias, has_head_bias; /* in every model */
    bool rotates_in_turn;        /* lets go of queries before it rotates keys */
    bool is_query_joined;        /* by cat(), which leaves heads before tokens */
    bool makes_own_tables;       /* for rotation, in each layer once more */
    bool rotates_windows_only;   /* layers that see all of the text do not rotate */
    bool is_key_unbiased;        /* although queries and values have one */
    bool has_fixed_positions;    /* their table is not trained */
    bool has_buffered_positions; /* nor are they parameters */
    bool copies_bias;            /* the learned one, for every sample */
    bool has_mask_always;        /* even where SDPA would need none */
    bool keeps_key_heads;        /* they are not repeated before attention */
    bool adds_in_place;          /* attention to the MLP, in parallel */
    bool has_layer_mask;         /* a buffer of bools for all positions, in each layer */
    bool is_query_scaled;        /* by itself, behind its product */
    bool has_whole_query_norm;   /* over all heads at once, not by head */
    bool is_part_scaled;         /* before it is added */
    bool is_transform_unbiased;  /* of the head */
    bool begins_without_norm;    /* the first layer: what it reads has one */
    bool is_embedding_masked;    /* times 1 or 0 for each token */
    bool keeps_all_hidden;       /* what every layer made, until the last has run */
    bool is_tied_head_scaled;    /* its argument: times hidden ** -0.5 */
    bool has_last_dropout;       /* behind the last norm */
    bool is_clamped;             /* in float16, behind every part */
    bool has_embedding_scope;    /* "embedding" */
    bool is_embedding_scaled;    /* times hidden ** 0.5 */
    bool has_positions;          /* a table of them */
    bool makes_tables_first;     /* for rotation and masks: before the embedding's dropout */
    bool makes_mask_first;       /* and then the tables for rotation */
};

/* ---- modules ----------------------------------------------------------------------------------
 * Modules that a model does not have are zeros. */

typedef struct vw__plan_layer_stack vw__plan_layer_stack;

typedef struct vw__plan_attention_module {
    vw__module_linear query, key, value, packed, output;
    vw__module_norm query_norm, key_norm;
    vw__module_linear distance_query, distance_key;
} vw__plan_attention_module;

/* All experts' weights in two tensors, and a router; beside them one that every token goes to, and
 * what it counts. */
typedef struct vw__plan_experts {
    vw__module_linear router;
    vw__tensor gate_up, down;
    vw__module_linear shared_gate, shared_inner, shared_outer, share;
} vw__plan_experts;

typedef struct vw__plan_layer {
    vw__plan_layer_stack *stack;
    vw__plan_attention_module self, cross;
    vw__module_linear gate, inner, outer, packed_gate;
    vw__plan_experts experts;
    vw__module_norm norm_1, norm_2, cross_norm, after_attention, after_mlp;
    bool has_window, is_rotated, has_norm_1;
} vw__plan_layer;

struct vw__plan_layer_stack {
    vw__plan_layer *layers;
    uint64_t count;
    const char *name;     /* of its scope; NULL: none */
    vw__tensor positions; /* a table */
    vw__tensor buckets;   /* the learned biases (t5) */
    vw__tensor distance_rows;
    vw__module_norm embedding_norm, last_norm, distance_norm;
    bool is_causal, has_cross;
    vw__tensor *outputs;    /* of each layer, where they are kept; NULL: they are not */
    uint64_t queries, keys; /* tokens that are read now, and all that they see */
    /* During a forward pass; zeros: the mask of attention to the encoder. */
    vw__tensor cosine, sine, mask, window_mask, bias, zeros, distances;
};

typedef struct vw__plan_transformer {
    vw__tensor tokens, types, class_token;
    vw__module_conv patches, sounds[2];
    vw__module_norm head_norm;
    vw__module_linear widen, narrow;
    vw__plan_layer_stack main, decoder; /* decoder: of an encoder-decoder */
    vw__module_linear transform, head;  /* transform: a dense layer before the head, or a pooler */
    vw__tensor ids, encoded; /* of an encoder-decoder: what the encoder reads and makes */
    vw__tensor *known;       /* in generation: keys and values of that, of each decoder's layer */
    size_t next_known;       /* in this forward pass */
} vw__plan_transformer;

/* The stack reads sound: an encoder, where the model has one that does. */
static inline bool vw__plan_hears(const vw__plan_run *run, const vw__plan_layer_stack *stack)
{
    return run->model->shape.embedding.sounds > 0 && !stack->has_cross;
}

/* transformer_build.c: the parameters, as run->modules. */
void vw__plan_transformer_build(vw__plan_run *run);
bool vw__plan_has_window(const vw__plan_attention *attention, uint64_t layer);

/* Elements of a token; of what is added up before the first layer. */
static inline uint64_t vw__plan_token_width(const vw_plan_model *model)
{
    const uint64_t width = model->shape.embedding.width;
    return width > 0 ? width : model->shape.hidden;
}

static inline uint64_t vw__plan_embedding_width(const vw_plan_model *model)
{
    return model->family->style->widening == VW__PLAN_WIDENS_TOKENS ? model->shape.hidden
                                                                    : vw__plan_token_width(model);
}

static inline vw__plan_topology vw__plan_topology_of(const vw_plan_model *model)
{
    return model->shape.norm.is_post ? VW__PLAN_POST_NORM : model->family->style->topology;
}

static inline bool vw__plan_has_last_norm(const vw_plan_model *model)
{
    return model->family->style->last_norm != NULL && !model->shape.norm.is_post;
}

/* Attention and MLP read what the same norm made. */
static inline bool vw__plan_shares_norm(const vw_plan_model *model)
{
    const vw__plan_style *style = model->family->style;
    return style->topology == VW__PLAN_PARALLEL && !model->shape.is_sequential &&
           (style->norm_2 == NULL || model->shape.norm.is_shared);
}

/* transformer_head.c: what is behind the layers, as run->head says. `x` is taken over; `rows`
 * tokens were read. */
void vw__plan_transformer_make_head(vw__plan_run *run);
vw__tensor vw__plan_transformer_apply_head(vw__plan_run *run, vw__tensor x, uint64_t rows,
                                           bool is_shifted);

/* transformer_block.c: one layer, a vw__module_block. */
vw__tensor vw__plan_transformer_block(vw__plan_run *run, const void *layer, vw__tensor x);
/* act(gate(x)) * inner(x) */
vw__tensor vw__plan_apply_gate(vw__plan_run *run, vw__tensor x, const vw__module_linear *gate,
                               const vw__module_linear *inner);

/* transformer_distance.c: attention that also reads how far tokens are apart; its parameters, and
 * what all layers are given. */
void vw__plan_make_distances(vw__plan_run *run, vw__plan_layer_stack *stack);
void vw__plan_make_distance_modules(vw__plan_run *run, vw__plan_attention_module *module);
void vw__plan_make_distance_tables(vw__plan_run *run, vw__plan_layer_stack *stack);
vw__tensor vw__plan_attend_by_distance(vw__plan_run *run, const vw__plan_layer *layer,
                                       vw__tensor x);

/* transformer_experts.c: in place of a layer's MLP. */
vw__plan_experts vw__plan_make_experts(vw__plan_run *run);
vw__tensor vw__plan_apply_experts(vw__plan_run *run, const vw__plan_experts *experts, vw__tensor x);

/* transformer.c */
vw__tensor vw__plan_transformer_forward(vw__plan_run *run);
vw__tensor vw__plan_encoder_decoder_forward(vw__plan_run *run);
void vw__plan_encoder_decoder_generate(vw__plan_run *run);

#endif /* VW_PLAN_TRANSFORMER_H */
