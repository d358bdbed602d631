/* layers_attention.h - the layers of a description that attend: among all tokens, among those of a
 * window, or from one that is learned. (layers_attention.c) */
#ifndef VW_PLAN_LAYERS_ATTENTION_H
#define VW_PLAN_LAYERS_ATTENTION_H

#include "plan/layers.h"
#include "plan/plan_run.h"

enum { VW__LAYERS_ATTENTION_PARTS = 4 };

typedef struct vw__layers_attention {
    vw__module_linear parts[VW__LAYERS_ATTENTION_PARTS];
    vw__tensor table; /* biases of a window's distances; the token that is learned */
} vw__layers_attention;

/* Of a line whose kind attends, and what comes in. */
vw__layers_attention *vw__layers_make_attention(vw__plan_run *run, const vw__layers_line *line,
                                                const vw__layers_shape *in);
vw__tensor vw__layers_apply_attention(vw__plan_run *run, const vw__layers_line *line,
                                      const vw__layers_shape *in,
                                      const vw__layers_attention *module, vw__tensor x);

#endif /* VW_PLAN_LAYERS_ATTENTION_H */
