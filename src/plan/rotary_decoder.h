/* rotary_decoder.h - what GPT-NeoX and Phi have in common: a decoder of text that rotates a part of
 * each head, by tables that are made anew in each forward pass.
 *
 * The layers are the family's own. What differs between the two outside of them is in which order
 * the Python code makes and keeps things, which is told here. */
#ifndef VW_PLAN_ROTARY_DECODER_H
#define VW_PLAN_ROTARY_DECODER_H

#include <stdbool.h>
#include <stddef.h>

#include "plan/plan_run.h"

typedef struct vw__rotary_decoder {
    vw__tensor tokens;
    void *layers; /* of `layer_bytes` each */
    size_t layer_bytes;
    vw__norm_module last_norm;
    vw__linear_module head;
    bool makes_mask_first;         /* and then the tables; else behind them */
    bool keeps_embedding;          /* as long as the layers run; else what dropout made of it */
    vw__tensor cosine, sine, mask; /* during a forward pass */
} vw__rotary_decoder;

/* Makes the embedding and the layers, as run->modules; what comes behind them is the caller's to
 * make. */
vw__rotary_decoder *vw__build_rotary_decoder(vw__plan_run *run, size_t layer_bytes,
                                             void (*build_layer)(vw__plan_run *run, void *layer));

/* From ids to the loss. */
vw__tensor vw__run_rotary_decoder(vw__plan_run *run, vw__block block);

/* In a layer: queries or keys, of which a part is rotated. */
vw__tensor vw__rotate_in_decoder(vw__plan_run *run, vw__tensor x);

#endif /* VW_PLAN_ROTARY_DECODER_H */
