/* rotary_decoder.c - see rotary_decoder.h. */
#include "plan/rotary_decoder.h"

static uint64_t rotary_width(const vw__transformer *shape)
{
    return shape->rotary_width > 0 ? shape->rotary_width : shape->head_width;
}

vw__rotary_decoder *vw__build_rotary_decoder(vw__plan_run *run, size_t layer_bytes,
                                             void (*build_layer)(vw__plan_run *run, void *layer))
{
    const vw__transformer *shape = &run->model->shape;
    vw__rotary_decoder *decoder = vw__run_alloc(run, 1, sizeof *decoder);
    run->modules = decoder;
    decoder->tokens = vw__make_table(run, shape->vocabulary, shape->hidden);
    decoder->layers = vw__run_alloc(run, shape->layers, layer_bytes);
    decoder->layer_bytes = layer_bytes;
    for (uint64_t i = 0; i < shape->layers && vw__tape_status(run->tape) == VW_OK; i++)
        build_layer(run, (char *)decoder->layers + i * layer_bytes);
    return decoder;
}

vw__tensor vw__rotate_in_decoder(vw__plan_run *run, vw__tensor x)
{
    const vw__transformer *shape = &run->model->shape;
    const vw__rotary_decoder *decoder = run->modules;
    return vw__rotate_part(run->tape, x, decoder->cosine, decoder->sine, rotary_width(shape),
                           shape->head_width);
}

/* ---- a forward pass -------------------------------------------------------------------------- */

static void make_tables(vw__plan_run *run, vw__rotary_decoder *decoder)
{
    uint64_t length = run->settings->sequence;
    uint64_t elements = vw__times(run->tape, length, rotary_width(&run->model->shape));
    if (decoder->makes_mask_first)
        decoder->mask = vw__make_causal_mask(run, length);
    decoder->cosine = vw__tensor_new(run->tape, elements, run->dtype);
    decoder->sine = vw__tensor_new(run->tape, elements, run->dtype);
    if (!decoder->makes_mask_first)
        decoder->mask = vw__make_causal_mask(run, length);
}

/* What was made first goes last. */
static void drop_tables(vw__plan_run *run, const vw__rotary_decoder *decoder)
{
    if (!decoder->makes_mask_first)
        vw__drop_with_graph(run->tape, decoder->mask);
    vw__drop_with_graph(run->tape, decoder->sine);
    vw__drop_with_graph(run->tape, decoder->cosine);
    if (decoder->makes_mask_first)
        vw__drop_with_graph(run->tape, decoder->mask);
}

vw__tensor vw__run_rotary_decoder(vw__plan_run *run, vw__block block)
{
    const vw__transformer *shape = &run->model->shape;
    vw__rotary_decoder *decoder = run->modules;
    const vw_plan_settings *settings = run->settings;
    vw__tape *tape = run->tape;
    uint64_t rows = vw__times(tape, settings->batch, settings->sequence);
    vw__tensor ids = vw__make_ids(run, settings->batch, settings->sequence);
    vw__tensor kept = vw__embedding(tape, ids, decoder->tokens, shape->hidden);
    make_tables(run, decoder);
    vw__tensor x = vw__apply_dropout(run, kept, shape->has_embedding_dropout);
    if (!decoder->keeps_embedding)
        vw__rebind(tape, &kept, vw__hold(tape, x));
    x = vw__run_blocks(run, block, decoder->layers, decoder->layer_bytes, shape->layers, x);
    vw__rebind(tape, &x, vw__apply_layer_norm(run, x, &decoder->last_norm));
    drop_tables(run, decoder);
    vw__drop(tape, &kept);
    vw__tensor result = vw__apply_head(run, x, &decoder->head, rows, true);
    vw__drop(tape, &ids);
    return result;
}
