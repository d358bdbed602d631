/* rotary_decoder.c - see rotary_decoder.h. */
#include "plan/rotary_decoder.h"

static uint64_t rotary_width(const hr__transformer *shape)
{
    return shape->rotary_width > 0 ? shape->rotary_width : shape->head_width;
}

hr__rotary_decoder *hr__build_rotary_decoder(hr__plan_run *run, size_t layer_bytes,
                                             void (*build_layer)(hr__plan_run *run, void *layer))
{
    const hr__transformer *shape = &run->model->shape;
    hr__rotary_decoder *decoder = hr__run_alloc(run, 1, sizeof *decoder);
    run->modules = decoder;
    decoder->tokens = hr__make_table(run, shape->vocabulary, shape->hidden);
    decoder->layers = hr__run_alloc(run, shape->layers, layer_bytes);
    decoder->layer_bytes = layer_bytes;
    for (uint64_t i = 0; i < shape->layers && hr__tape_status(run->tape) == HR_OK; i++)
        build_layer(run, (char *)decoder->layers + i * layer_bytes);
    return decoder;
}

hr__tensor hr__rotate_in_decoder(hr__plan_run *run, hr__tensor x)
{
    const hr__transformer *shape = &run->model->shape;
    const hr__rotary_decoder *decoder = run->modules;
    return hr__rotate_part(run->tape, x, decoder->cosine, decoder->sine, rotary_width(shape),
                           shape->head_width);
}

/* ---- a forward pass -------------------------------------------------------------------------- */

static void make_tables(hr__plan_run *run, hr__rotary_decoder *decoder)
{
    uint64_t length = run->settings->sequence;
    uint64_t elements = hr__times(run->tape, length, rotary_width(&run->model->shape));
    if (decoder->makes_mask_first)
        decoder->mask = hr__make_causal_mask(run, length);
    decoder->cosine = hr__tensor_new(run->tape, elements, run->dtype);
    decoder->sine = hr__tensor_new(run->tape, elements, run->dtype);
    if (!decoder->makes_mask_first)
        decoder->mask = hr__make_causal_mask(run, length);
}

/* What was made first goes last. */
static void drop_tables(hr__plan_run *run, const hr__rotary_decoder *decoder)
{
    if (!decoder->makes_mask_first)
        hr__drop_with_graph(run->tape, decoder->mask);
    hr__drop_with_graph(run->tape, decoder->sine);
    hr__drop_with_graph(run->tape, decoder->cosine);
    if (decoder->makes_mask_first)
        hr__drop_with_graph(run->tape, decoder->mask);
}

hr__tensor hr__run_rotary_decoder(hr__plan_run *run, hr__block block)
{
    const hr__transformer *shape = &run->model->shape;
    hr__rotary_decoder *decoder = run->modules;
    const hr_plan_settings *settings = run->settings;
    hr__tape *tape = run->tape;
    uint64_t rows = hr__times(tape, settings->batch, settings->sequence);
    hr__tensor ids = hr__make_ids(run, settings->batch, settings->sequence);
    hr__tensor kept = hr__embedding(tape, ids, decoder->tokens, shape->hidden);
    make_tables(run, decoder);
    hr__tensor x = hr__apply_dropout(run, kept, shape->has_embedding_dropout);
    if (!decoder->keeps_embedding)
        hr__rebind(tape, &kept, hr__hold(tape, x));
    x = hr__run_blocks(run, block, decoder->layers, decoder->layer_bytes, shape->layers, x);
    hr__rebind(tape, &x, hr__apply_layer_norm(run, x, &decoder->last_norm));
    drop_tables(run, decoder);
    hr__drop(tape, &kept);
    hr__tensor result = hr__apply_head(run, x, &decoder->head, rows, true);
    hr__drop(tape, &ids);
    return result;
}
