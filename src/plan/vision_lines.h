/* vision_lines.h - writes the layers of a model that has no description of its own.
 *
 * Lists grow up to their capacity, in the model's arena. A failure sticks: what is written then has
 * no meaning, and vw__vision_finish() returns the first. For vision*.c and config_types_image.c. */
#ifndef VW_PLAN_VISION_LINES_H
#define VW_PLAN_VISION_LINES_H

#include "plan/layers.h"

typedef struct vw__vision_writer {
    vw_plan_model *model;
    vw_status status;        /* the first failure */
    vw__layers_line nowhere; /* may be written to where there was no memory; has no meaning */
} vw__vision_writer;

typedef struct vw__vision_list {
    vw__vision_writer *w;
    vw__layers_line *lines;
    size_t count, capacity;
} vw__vision_list;

vw__vision_list vw__vision_begin(vw__vision_writer *w, size_t capacity);

/* A line without numbers, for the caller to fill; valid until the next one. */
vw__layers_line *vw__vision_add(vw__vision_list *into, vw__layers_kind kind);
/* One with layers inside, which are complete. */
void vw__vision_add_inside(vw__vision_list *into, vw__layers_kind kind, uint64_t count,
                           const vw__vision_list *inside);
/* Without a bias, padded so that a stride of 1 keeps the size. */
vw__layers_line *vw__vision_add_conv(vw__vision_list *into, uint64_t out, uint64_t kernel,
                                     uint64_t stride);
void vw__vision_add_linear(vw__vision_list *into, uint64_t out);
void vw__vision_add_dropout(vw__vision_list *into);

/* What a list reads: pixels, or ids. */
vw__layers_shape vw__vision_image(uint64_t channels, uint64_t side);
vw__layers_shape vw__vision_ids(uint64_t length);

/* The list becomes the model's; the other one that of a second tower. */
VW_MUST_CHECK vw_status vw__vision_finish(vw__vision_writer *w, const vw__vision_list *lines,
                                          vw__layers_shape input);
VW_MUST_CHECK vw_status vw__vision_finish_second(vw__vision_writer *w, const vw__vision_list *lines,
                                                 vw__layers_shape input);

#endif /* VW_PLAN_VISION_LINES_H */
