/* layers_parts.h - a description that runs: its lines with their parameters. For layers_build.c,
 * layers_run.c and model_layers.c. */
#ifndef VW_PLAN_LAYERS_PARTS_H
#define VW_PLAN_LAYERS_PARTS_H

#include "plan/layers.h"
#include "plan/layers_attention.h"
#include "plan/plan_run.h"

/* Four neighbours side by side, a norm, and a product that halves them. */
typedef struct vw__layers_merging {
    vw__module_norm norm;
    vw__module_linear reduction;
} vw__layers_merging;

typedef struct vw__layers_module vw__layers_module;

/* Layers one after the other. */
typedef struct vw__layers_row {
    vw__layers_module *modules;
    size_t count;
} vw__layers_row;

/* A line with the parameters of its kind. */
struct vw__layers_module {
    const vw__layers_line *line;
    vw__layers_shape in, out;
    union {
        vw__layers_attention *attention;
        vw__module_linear linear;
        vw__module_conv conv;
        vw__module_batch_norm batch_norm;
        vw__module_norm norm;
        vw__module_rnn rnn;
        vw__layers_merging *merging;
        vw__tensor table;
        vw__layers_row *rounds; /* of a repeat; of what is combined: layers and shortcut */
    };
};

enum { VW__LAYERS_MOST_HELD = 16 };

/* A row of layers, from what comes in. */
typedef struct vw__layers_tower {
    vw__layers_row row;
    vw__layers_shape input;
} vw__layers_tower;

typedef struct vw__layers_modules {
    vw__layers_tower first, second;        /* the second of a model that has two */
    vw__tensor scale;                      /* of what they are compared by */
    vw__tensor held[VW__LAYERS_MOST_HELD]; /* by variables of functions that run now */
    size_t held_count;
} vw__layers_modules;

enum { VW__LAYERS_INSIDE, VW__LAYERS_SHORTCUT, VW__LAYERS_COMBINED_ROWS };

/* layers_build.c: the parameters of `count` lines. `*shape` becomes that of what comes out. The
 * shapes were checked when the description was read; only the tape can fail. */
vw__layers_row vw__layers_build_row(vw__plan_run *run, const vw__layers_line *lines, size_t count,
                                    vw__layers_shape *shape);

/* layers_run.c: input = module(input) for each; borrows `x`. Rounds of an outermost repeat are
 * blocks. */
vw__tensor vw__layers_run_row(vw__plan_run *run, const vw__layers_row *row, vw__tensor x,
                              bool is_outermost);
/* A function ends: so many are held by those around it. */
void vw__layers_drop_held(vw__plan_run *run, size_t count);

#endif /* VW_PLAN_LAYERS_PARTS_H */
