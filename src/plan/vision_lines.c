/* vision_lines.c - lists of layers, written line by line. */
#include "plan/vision_lines.h"

#include "base/error.h"

vw__vision_list vw__vision_begin(vw__vision_writer *w, size_t capacity)
{
    vw__vision_list made = {.w = w, .capacity = capacity};
    made.lines =
        vw__arena_alloc_array(&w->model->arena, capacity, sizeof *made.lines, sizeof(uint64_t));
    if (made.lines == NULL) {
        made.capacity = 0;
        if (w->status == VW_OK)
            w->status = vw__fail_host_memory(capacity * sizeof *made.lines, "a model's layers");
    }
    return made;
}

vw__layers_line *vw__vision_add(vw__vision_list *into, vw__layers_kind kind)
{
    const bool has_room = into->count < into->capacity;
    vw__layers_line *line = has_room ? &into->lines[into->count] : &into->w->nowhere;
    *line = (vw__layers_line){.kind = kind,
                              .name = vw__layers_kind_names[kind],
                              .place = vw__layers_kind_names[kind],
                              .number = (int64_t)into->count,
                              .groups = 1};
    into->count += has_room;
    return line;
}

void vw__vision_add_inside(vw__vision_list *into, vw__layers_kind kind, uint64_t count,
                           const vw__vision_list *inside)
{
    vw__layers_line *line = vw__vision_add(into, kind);
    line->count = count;
    line->lines = inside->lines;
    line->line_count = inside->count;
}

vw__layers_line *vw__vision_add_conv(vw__vision_list *into, uint64_t out, uint64_t kernel,
                                     uint64_t stride)
{
    vw__layers_line *line = vw__vision_add(into, VW__LAYERS_CONV2D);
    line->out = out;
    line->window =
        (vw__op_window){.kernel = kernel, .stride = stride, .padding = kernel / 2, .dimensions = 2};
    return line;
}

void vw__vision_add_linear(vw__vision_list *into, uint64_t out)
{
    vw__layers_line *line = vw__vision_add(into, VW__LAYERS_LINEAR);
    line->out = out;
    line->has_bias = true;
}

void vw__vision_add_dropout(vw__vision_list *into)
{
    vw__vision_add(into, VW__LAYERS_DROPOUT)->has_dropout = true;
}

vw__layers_shape vw__vision_image(uint64_t channels, uint64_t side)
{
    return (vw__layers_shape){.flow = VW__LAYERS_FLOW_IMAGE,
                              .width = channels,
                              .depth = 1,
                              .height = side,
                              .across = side};
}

vw__layers_shape vw__vision_ids(uint64_t length)
{
    return (vw__layers_shape){.flow = VW__LAYERS_FLOW_IDS, .length = length};
}

static const vw__layers_shape *keep(vw__vision_writer *w, vw__layers_shape shape)
{
    vw__layers_shape *kept =
        vw__arena_alloc_array(&w->model->arena, 1, sizeof *kept, sizeof(uint64_t));
    if (kept != NULL)
        *kept = shape;
    else if (w->status == VW_OK)
        w->status = vw__fail_host_memory(sizeof *kept, "a model's layers");
    return kept;
}

vw_status vw__vision_finish(vw__vision_writer *w, const vw__vision_list *lines,
                            vw__layers_shape input)
{
    w->model->lines = lines->lines;
    w->model->line_count = lines->count;
    w->model->layers_input = keep(w, input);
    if (w->model->shape.hidden == 0)
        w->model->shape.hidden = input.width;
    return w->status;
}

vw_status vw__vision_finish_second(vw__vision_writer *w, const vw__vision_list *lines,
                                   vw__layers_shape input)
{
    w->model->second_lines = lines->lines;
    w->model->second_line_count = lines->count;
    w->model->second_input = keep(w, input);
    return w->status;
}
