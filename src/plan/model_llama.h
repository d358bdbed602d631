/* model_llama.h - a decoder of Llama's kind, from inside; for model_llama*.c and model_mixtral.c.
 */
#ifndef HR_PLAN_MODEL_LLAMA_H
#define HR_PLAN_MODEL_LLAMA_H

#include "plan/plan_run.h"

/* Mixtral's: all experts' weights in two tensors, and a router. */
typedef struct hr__experts {
    hr__linear_module router;
    hr__tensor gate_up, down;
} hr__experts;

/* What a model does not have is zeros. */
typedef struct hr__llama_layer {
    hr__norm_module norm_1, norm_2, query_norm, key_norm;
    hr__norm_module after_attention, after_mlp; /* gemma2, gemma3 */
    hr__linear_module query, key, value, output;
    hr__linear_module packed_qkv, packed_gate_up; /* phi3 */
    hr__linear_module gate, up, down;
    hr__experts experts;
    bool has_window;
} hr__llama_layer;

typedef struct hr__llama_modules {
    hr__tensor tokens;
    hr__llama_layer *layers;
    hr__norm_module last_norm;
    hr__linear_module head;
    hr__tensor cosine, sine, mask, window_mask; /* during a forward pass */
} hr__llama_modules;

/* model_llama_layer.c */
bool hr__has_window(const hr__transformer *shape, uint64_t layer);
void hr__llama_build_layer(hr__plan_run *run, hr__llama_layer *layer, uint64_t number);
hr__tensor hr__llama_block(hr__plan_run *run, const void *layer, hr__tensor x);

/* model_mixtral.c: the MLP's place in a layer. */
hr__experts hr__make_experts(hr__plan_run *run);
hr__tensor hr__apply_experts(hr__plan_run *run, const hr__experts *experts, hr__tensor x);

/* model_llama.c: of every family of the kind. */
void hr__llama_build(hr__plan_run *run);
hr__tensor hr__llama_forward(hr__plan_run *run);

#endif /* HR_PLAN_MODEL_LLAMA_H */
