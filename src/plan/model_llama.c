/* model_llama.c - Llama, Mistral, Qwen2, Qwen3, Gemma and Phi-3: decoders of one kind, after
 * transformers' modeling_llama.py and those made after it. What differs is in the shape. */
#include "plan/config_families.h"
#include "plan/model_llama.h"

void hr__llama_build(hr__plan_run *run)
{
    const hr__transformer *shape = &run->model->shape;
    hr__llama_modules *modules = hr__run_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->tokens = hr__make_table(run, shape->vocabulary, shape->hidden);
    modules->layers = hr__run_alloc(run, shape->layers, sizeof *modules->layers);
    for (uint64_t i = 0; i < shape->layers && hr__tape_status(run->tape) == HR_OK; i++)
        hr__llama_build_layer(run, &modules->layers[i], i);
    modules->last_norm = hr__make_norm(run, "norm", shape->hidden, false);
    modules->head = shape->is_tied
                        ? hr__tied_head(run, modules->tokens, shape->hidden, shape->vocabulary)
                        : hr__make_linear(run, "lm_head", shape->hidden, shape->vocabulary, false,
                                          HR__LINEAR_HEAD);
}

/* What every layer is given. */
static void make_tables(hr__plan_run *run, hr__llama_modules *modules)
{
    const hr__transformer *shape = &run->model->shape;
    uint64_t length = run->settings->sequence;
    uint64_t width = shape->rotary_width > 0 ? shape->rotary_width : shape->head_width;
    modules->cosine = hr__tensor_new(run->tape, hr__times(run->tape, length, width), run->dtype);
    modules->sine = hr__tensor_new(run->tape, hr__times(run->tape, length, width), run->dtype);
    bool has_full = false, has_window = false;
    for (uint64_t i = 0; i < shape->layers; i++) {
        has_window |= hr__has_window(shape, i);
        has_full |= !hr__has_window(shape, i);
    }
    modules->mask = has_full ? hr__make_causal_mask(run, length) : hr__no_tensor();
    modules->window_mask =
        has_window ? hr__make_window_mask(run, length, shape->window) : hr__no_tensor();
}

static void drop_tables(hr__tape *tape, const hr__llama_modules *modules)
{
    hr__drop_with_graph(tape, modules->window_mask);
    hr__drop_with_graph(tape, modules->mask);
    hr__drop_with_graph(tape, modules->sine);
    hr__drop_with_graph(tape, modules->cosine);
}

hr__tensor hr__llama_forward(hr__plan_run *run)
{
    const hr__transformer *shape = &run->model->shape;
    hr__llama_modules *modules = run->modules;
    const hr_plan_settings *settings = run->settings;
    uint64_t rows = hr__times(run->tape, settings->batch, settings->sequence);
    hr__tape *tape = run->tape;
    hr__tensor ids = hr__make_ids(run, settings->batch, settings->sequence);
    hr__tensor tokens = hr__embedding(tape, ids, modules->tokens, shape->hidden);
    if (shape->has_scaled_embedding)
        hr__rebind(tape, &tokens, hr__mul_scalar(tape, tokens));
    make_tables(run, modules);
    hr__tensor x = hr__hold(tape, tokens);
    x = hr__run_blocks(run, hr__llama_block, modules->layers, sizeof *modules->layers,
                       shape->layers, x);
    hr__rebind(tape, &x, hr__apply_rms_norm(run, x, &modules->last_norm));
    drop_tables(tape, modules);
    hr__drop(tape, &tokens);
    hr__tensor result = hr__apply_head(run, x, &modules->head, rows, true);
    hr__drop(tape, &ids);
    return result;
}

const hr__family hr__family_llama = {
    .name = "llama",
    .model_types = (const char *const[]){"llama", "mistral", "qwen2", "qwen3", NULL},
    .usual_length = hr__usual_positions,
    .read = hr__read_llama,
    .build = hr__llama_build,
    .forward = hr__llama_forward,
    .generate = hr__generate,
};

const hr__family hr__family_gemma = {
    .name = "gemma",
    .model_types = (const char *const[]){"gemma", "gemma2", "gemma3_text", NULL},
    .usual_length = hr__usual_positions,
    .read = hr__read_gemma,
    .build = hr__llama_build,
    .forward = hr__llama_forward,
    .generate = hr__generate,
};

const hr__family hr__family_phi3 = {
    .name = "phi3",
    .model_types = (const char *const[]){"phi3", NULL},
    .usual_length = hr__usual_positions,
    .read = hr__read_phi3,
    .build = hr__llama_build,
    .forward = hr__llama_forward,
    .generate = hr__generate,
};
