/* vision.h - torchvision's models that are rows of layers: EfficientNet, MobileNet, VGG, DenseNet.
 *
 * A line of zoo.def has the numbers of one model; vision.c writes them out as the layers that
 * torchvision's Python code makes of them, and model_layers.c runs those. */
#ifndef VW_PLAN_VISION_H
#define VW_PLAN_VISION_H

#include "vramwise/status.h"
#include "plan/plan_model.h"

typedef enum vw__vision_kind {
    VW__VISION_EFFICIENTNET, /* widths and depths are multiples of the smallest one's */
    VW__VISION_EFFICIENTNET_V2_S,
    VW__VISION_EFFICIENTNET_V2_M,
    VW__VISION_EFFICIENTNET_V2_L,
    VW__VISION_MOBILENET_V2,
    VW__VISION_MOBILENET_V3_LARGE,
    VW__VISION_MOBILENET_V3_SMALL,
    VW__VISION_VGG,
    VW__VISION_DENSENET,
} vw__vision_kind;

struct vw__vision {
    const vw__plan_family *family;
    vw__vision_kind kind;
    uint64_t image;        /* pixels of a side, as it was trained */
    uint64_t width, depth; /* of EfficientNet, in tenths */
    uint64_t counts[5];    /* of VGG: convolutions before each pool; of DenseNet: rounds */
    uint64_t stem, growth; /* of DenseNet: channels */
    bool has_norm;         /* of VGG */
};

/* Writes the layers of model->vision into the model's arena; without one it does nothing. */
VW_MUST_CHECK vw_status vw__vision_describe(vw_plan_model *model);

#endif /* VW_PLAN_VISION_H */
