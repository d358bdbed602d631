/* rotary_decoder.h - what GPT-NeoX and Phi have in common: a decoder of text that rotates a part of
 * each head, by tables that are made anew in each forward pass.
 *
 * The layers are the family's own. What differs between the two outside of them is in which order
 * the Python code makes and keeps things, which is told here. */
#ifndef HR_PLAN_ROTARY_DECODER_H
#define HR_PLAN_ROTARY_DECODER_H

#include <stdbool.h>
#include <stddef.h>

#include "plan/plan_run.h"

typedef struct hr__rotary_decoder {
    hr__tensor tokens;
    void *layers; /* of `layer_bytes` each */
    size_t layer_bytes;
    hr__norm_module last_norm;
    hr__linear_module head;
    bool makes_mask_first;         /* and then the tables; else behind them */
    bool keeps_embedding;          /* as long as the layers run; else what dropout made of it */
    hr__tensor cosine, sine, mask; /* during a forward pass */
} hr__rotary_decoder;

/* Makes the embedding and the layers, as run->modules; what comes behind them is the caller's to
 * make. */
hr__rotary_decoder *hr__build_rotary_decoder(hr__plan_run *run, size_t layer_bytes,
                                             void (*build_layer)(hr__plan_run *run, void *layer));

/* From ids to the loss. */
hr__tensor hr__run_rotary_decoder(hr__plan_run *run, hr__block block);

/* In a layer: queries or keys, of which a part is rotated. */
hr__tensor hr__rotate_in_decoder(hr__plan_run *run, hr__tensor x);

#endif /* HR_PLAN_ROTARY_DECODER_H */
