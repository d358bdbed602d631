/* vision_transformers.h - transformers' image models, written out as layers.
 *
 * The numbers are in model->shape, or in the shapes that are given, as config.json has them. What
 * is read there beside those is a structure here. */
#ifndef VW_PLAN_VISION_TRANSFORMERS_H
#define VW_PLAN_VISION_TRANSFORMERS_H

#include "vramwise/status.h"
#include "plan/plan_model.h"

enum { VW__VISION_MOST_STAGES = 8 };

typedef struct vw__vision_dinov2 {
    bool has_mask_token, has_drop_path;
} vw__vision_dinov2;

/* Two towers, whose outputs are compared. */
typedef struct vw__vision_pair {
    vw__plan_shape image, text;
    uint64_t projection; /* the width in which they are compared */
    bool is_siglip;
} vw__vision_pair;

/* ConvNeXt and Swin: stages of narrowing images. */
typedef struct vw__vision_stages {
    uint64_t count;
    uint64_t widths[VW__VISION_MOST_STAGES]; /* of ConvNeXt */
    uint64_t depths[VW__VISION_MOST_STAGES];
    uint64_t heads[VW__VISION_MOST_STAGES]; /* of Swin */
    uint64_t window;
    double mlp_ratio;
    bool has_drop_path, has_scale, has_positions;
} vw__vision_stages;

VW_MUST_CHECK vw_status vw__vision_describe_deit(vw_plan_model *model);
VW_MUST_CHECK vw_status vw__vision_describe_dinov2(vw_plan_model *model,
                                                   const vw__vision_dinov2 *options);
VW_MUST_CHECK vw_status vw__vision_describe_pair(vw_plan_model *model, const vw__vision_pair *pair);
VW_MUST_CHECK vw_status vw__vision_describe_convnext(vw_plan_model *model,
                                                     const vw__vision_stages *stages);
VW_MUST_CHECK vw_status vw__vision_describe_swin(vw_plan_model *model,
                                                 const vw__vision_stages *stages);

#endif /* VW_PLAN_VISION_TRANSFORMERS_H */
