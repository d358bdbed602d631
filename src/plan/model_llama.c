/* model_llama.c - Llama, Mistral, Qwen2, Qwen3, Gemma and Phi-3: decoders of one kind, after
 * transformers' modeling_llama.py and those made after it. What differs is in the shape. */
#include "plan/config_families.h"
#include "plan/model_llama.h"

void vw__llama_build(vw__plan_run *run)
{
    const vw__transformer *shape = &run->model->shape;
    vw__llama_modules *modules = vw__run_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->tokens = vw__make_table(run, shape->vocabulary, shape->hidden);
    modules->layers = vw__run_alloc(run, shape->layers, sizeof *modules->layers);
    for (uint64_t i = 0; i < shape->layers && vw__tape_status(run->tape) == VW_OK; i++)
        vw__llama_build_layer(run, &modules->layers[i], i);
    modules->last_norm = vw__make_norm(run, "norm", shape->hidden, false);
    modules->head = shape->is_tied
                        ? vw__tied_head(run, modules->tokens, shape->hidden, shape->vocabulary)
                        : vw__make_linear(run, "lm_head", shape->hidden, shape->vocabulary, false,
                                          VW__LINEAR_HEAD);
}

/* What every layer is given. */
static void make_tables(vw__plan_run *run, vw__llama_modules *modules)
{
    const vw__transformer *shape = &run->model->shape;
    uint64_t length = run->settings->sequence;
    uint64_t width = shape->rotary_width > 0 ? shape->rotary_width : shape->head_width;
    modules->cosine = vw__tensor_new(run->tape, vw__times(run->tape, length, width), run->dtype);
    modules->sine = vw__tensor_new(run->tape, vw__times(run->tape, length, width), run->dtype);
    bool has_full = false, has_window = false;
    for (uint64_t i = 0; i < shape->layers; i++) {
        has_window |= vw__has_window(shape, i);
        has_full |= !vw__has_window(shape, i);
    }
    modules->mask = has_full ? vw__make_causal_mask(run, length) : vw__no_tensor();
    modules->window_mask =
        has_window ? vw__make_window_mask(run, length, shape->window) : vw__no_tensor();
}

static void drop_tables(vw__tape *tape, const vw__llama_modules *modules)
{
    vw__drop_with_graph(tape, modules->window_mask);
    vw__drop_with_graph(tape, modules->mask);
    vw__drop_with_graph(tape, modules->sine);
    vw__drop_with_graph(tape, modules->cosine);
}

vw__tensor vw__llama_forward(vw__plan_run *run)
{
    const vw__transformer *shape = &run->model->shape;
    vw__llama_modules *modules = run->modules;
    const vw_plan_settings *settings = run->settings;
    uint64_t rows = vw__times(run->tape, settings->batch, settings->sequence);
    vw__tape *tape = run->tape;
    vw__tensor ids = vw__make_ids(run, settings->batch, settings->sequence);
    vw__tensor tokens = vw__embedding(tape, ids, modules->tokens, shape->hidden);
    if (shape->has_scaled_embedding)
        vw__rebind(tape, &tokens, vw__mul_scalar(tape, tokens));
    make_tables(run, modules);
    vw__tensor x = vw__hold(tape, tokens);
    x = vw__run_blocks(run, vw__llama_block, modules->layers, sizeof *modules->layers,
                       shape->layers, x);
    vw__rebind(tape, &x, vw__apply_rms_norm(run, x, &modules->last_norm));
    drop_tables(tape, modules);
    vw__drop(tape, &tokens);
    vw__tensor result = vw__apply_head(run, x, &modules->head, rows, true);
    vw__drop(tape, &ids);
    return result;
}

const vw__family vw__family_llama = {
    .name = "llama",
    .model_types = (const char *const[]){"llama", "mistral", "qwen2", "qwen3", NULL},
    .usual_length = vw__usual_positions,
    .read = vw__read_llama,
    .build = vw__llama_build,
    .forward = vw__llama_forward,
    .generate = vw__generate,
};

const vw__family vw__family_gemma = {
    .name = "gemma",
    .model_types = (const char *const[]){"gemma", "gemma2", "gemma3_text", NULL},
    .usual_length = vw__usual_positions,
    .read = vw__read_gemma,
    .build = vw__llama_build,
    .forward = vw__llama_forward,
    .generate = vw__generate,
};

const vw__family vw__family_phi3 = {
    .name = "phi3",
    .model_types = (const char *const[]){"phi3", NULL},
    .usual_length = vw__usual_positions,
    .read = vw__read_phi3,
    .build = vw__llama_build,
    .forward = vw__llama_forward,
    .generate = vw__generate,
};
