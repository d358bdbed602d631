/* model_llama.h - a decoder of Llama's kind, from inside; for model_llama*.c and model_mixtral.c.
 */
#ifndef VW_PLAN_MODEL_LLAMA_H
#define VW_PLAN_MODEL_LLAMA_H

#include "plan/plan_run.h"

/* Mixtral's: all experts' weights in two tensors, and a router. */
typedef struct vw__experts {
    vw__linear_module router;
    vw__tensor gate_up, down;
} vw__experts;

/* What a model does not have is zeros. */
typedef struct vw__llama_layer {
    vw__norm_module norm_1, norm_2, query_norm, key_norm;
    vw__norm_module after_attention, after_mlp; /* gemma2, gemma3 */
    vw__linear_module query, key, value, output;
    vw__linear_module packed_qkv, packed_gate_up; /* phi3 */
    vw__linear_module gate, up, down;
    vw__experts experts;
    bool has_window;
} vw__llama_layer;

typedef struct vw__llama_modules {
    vw__tensor tokens;
    vw__llama_layer *layers;
    vw__norm_module last_norm;
    vw__linear_module head;
    vw__tensor cosine, sine, mask, window_mask; /* during a forward pass */
} vw__llama_modules;

/* model_llama_layer.c */
bool vw__has_window(const vw__transformer *shape, uint64_t layer);
void vw__llama_build_layer(vw__plan_run *run, vw__llama_layer *layer, uint64_t number);
vw__tensor vw__llama_block(vw__plan_run *run, const void *layer, vw__tensor x);

/* model_mixtral.c: the MLP's place in a layer. */
vw__experts vw__make_experts(vw__plan_run *run);
vw__tensor vw__apply_experts(vw__plan_run *run, const vw__experts *experts, vw__tensor x);

/* model_llama.c: of every family of the kind. */
void vw__llama_build(vw__plan_run *run);
vw__tensor vw__llama_forward(vw__plan_run *run);

#endif /* VW_PLAN_MODEL_LLAMA_H */
