/* view_stacks.c - from the model's tables of stacks, frames and strings to smaller ones, which have
 * only what the page refers to. */
#include "view/view_stacks.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "export/json_write.h"

/* Numbers given out in the order in which they are asked for. */
typedef struct numbering {
    uint32_t *number_of; /* owned; by the model's: ours, or VW__VIEW_NONE */
    uint32_t *chosen;    /* owned; the model's, by ours */
    size_t count;
} numbering;

/* Both of a numbering, for `room` of the model's. */
static vw_status make_tables(size_t room, uint32_t **number_of, uint32_t **chosen)
{
    *number_of = vw__host_alloc_zeroed(room + 1, sizeof **number_of);
    *chosen = vw__host_alloc_zeroed(room + 1, sizeof **chosen);
    if (*number_of == NULL || *chosen == NULL)
        return vw__fail_host_memory((room + 1) * sizeof **chosen, "the stacks of a view");
    memset(*number_of, 0xff, (room + 1) * sizeof **number_of);
    return VW_OK;
}

static void numbering_deinit(numbering *numbers)
{
    vw__host_free(numbers->number_of);
    vw__host_free(numbers->chosen);
}

static uint32_t number(numbering *numbers, uint32_t of_model)
{
    if (numbers->number_of[of_model] == VW__VIEW_NONE) {
        numbers->number_of[of_model] = (uint32_t)numbers->count;
        numbers->chosen[numbers->count++] = of_model;
    }
    return numbers->number_of[of_model];
}

vw_status vw__view_stacks_init(vw__view_stacks *stacks, const vw__attribution *attribution)
{
    *stacks = (vw__view_stacks){.attribution = attribution};
    return make_tables(attribution->model->stack_count, &stacks->number_of, &stacks->stacks);
}

void vw__view_stacks_deinit(vw__view_stacks *stacks)
{
    vw__host_free(stacks->number_of);
    vw__host_free(stacks->stacks);
    *stacks = (vw__view_stacks){.attribution = NULL};
}

uint32_t vw__view_stacks_number(vw__view_stacks *stacks, uint32_t context)
{
    if (context == VW__MODEL_NO_CONTEXT)
        return VW__VIEW_NONE;
    numbering numbers = {stacks->number_of, stacks->stacks, stacks->stack_count};
    uint32_t found = number(&numbers, stacks->attribution->model->contexts[context]);
    stacks->stack_count = numbers.count;
    return found;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* One row for each stack, and one more. */
typedef struct stack_row {
    uint32_t first, where;
    uint8_t category;
} stack_row;

typedef struct frame_row {
    uint32_t function, file, line;
    uint8_t is_users; /* outside libraries and the interpreter */
} frame_row;

typedef struct stack_tables {
    const vw__view_stacks *stacks;
    const vw__model *model;
    numbering frames, strings;
    stack_row *stack_rows; /* owned */
    uint32_t *frame_ids;   /* owned; the stacks' frames, one stack after the other */
    size_t frame_id_count;
    frame_row *frame_rows; /* owned */
    vw__byte_buffer texts;
} stack_tables;

static vw_status fill_stacks(stack_tables *tables)
{
    const vw__view_stacks *stacks = tables->stacks;
    const vw__model *model = tables->model;
    size_t id_count = 0, at = 0;
    for (size_t i = 0; i < stacks->stack_count; i++)
        id_count += model->stacks[stacks->stacks[i]].count;
    if (id_count >= VW__VIEW_NONE)
        return vw__fail(VW_ERR_UNSUPPORTED, "stacks of %zu frames together", id_count);
    tables->stack_rows = vw__host_alloc_zeroed(stacks->stack_count + 1, sizeof(stack_row));
    tables->frame_ids = vw__host_alloc_zeroed(id_count + 1, sizeof(uint32_t));
    if (tables->stack_rows == NULL || tables->frame_ids == NULL)
        return vw__fail_host_memory((id_count + 1) * sizeof(uint32_t), "the stacks of a view");
    for (size_t i = 0; i < stacks->stack_count; i++) {
        vw__model_stack stack = model->stacks[stacks->stacks[i]];
        size_t where = vw__attribution_where(stacks->attribution, stack);
        tables->stack_rows[i] = (stack_row){
            .first = (uint32_t)at,
            .where = where != VW__ATTRIBUTION_NO_FRAME ? (uint32_t)where : VW__VIEW_NONE,
            .category = stacks->attribution->stack_categories[stacks->stacks[i]],
        };
        for (uint32_t f = 0; f < stack.count; f++)
            tables->frame_ids[at++] = number(&tables->frames, model->frame_ids[stack.first + f]);
    }
    tables->stack_rows[stacks->stack_count].first = (uint32_t)at;
    tables->frame_id_count = at;
    return VW_OK;
}

/* What has no string has an empty one, whose number in the model is behind all others. */
static uint32_t number_string(stack_tables *tables, uint32_t string)
{
    uint32_t count = vw__string_table_count(&tables->model->strings);
    return number(&tables->strings, string != VW__MODEL_NO_STRING ? string : count);
}

static const char *string_text(const stack_tables *tables, size_t index)
{
    uint32_t string = tables->strings.chosen[index];
    bool is_empty = string == vw__string_table_count(&tables->model->strings);
    return is_empty ? "" : vw__model_string(tables->model, string);
}

static vw_status fill_frames(stack_tables *tables)
{
    const vw__model *model = tables->model;
    tables->frame_rows = vw__host_alloc_zeroed(tables->frames.count + 1, sizeof(frame_row));
    if (tables->frame_rows == NULL)
        return vw__fail_host_memory(tables->frames.count * sizeof(frame_row),
                                    "the stacks of a view");
    for (size_t i = 0; i < tables->frames.count; i++) {
        uint32_t of_model = tables->frames.chosen[i];
        const vw__model_frame *frame = &model->frames[of_model];
        tables->frame_rows[i] = (frame_row){
            .function = number_string(tables, frame->name),
            .file = number_string(tables, frame->filename),
            .line = frame->line,
            .is_users = vw__attribution_is_users(tables->stacks->attribution, of_model)};
    }
    return VW_OK;
}

static vw_status fill_texts(stack_tables *tables)
{
    vw__json json;
    vw__json_init(&json, &tables->texts);
    vw__json_begin_array(&json, NULL);
    for (size_t i = 0; i < tables->strings.count; i++)
        vw__json_text(&json, NULL, string_text(tables, i));
    vw__json_end_array(&json);
    return vw__byte_buffer_has_failed(&tables->texts)
               ? vw__fail_host_memory(tables->texts.capacity_bytes, "the strings of a view")
               : VW_OK;
}

static vw_status fill_tables(stack_tables *tables)
{
    const vw__model *model = tables->model;
    size_t string_count = vw__string_table_count(&model->strings);
    VW__TRY(make_tables(model->frame_count, &tables->frames.number_of, &tables->frames.chosen));
    VW__TRY(make_tables(string_count, &tables->strings.number_of, &tables->strings.chosen));
    VW__TRY(fill_stacks(tables));
    VW__TRY(fill_frames(tables));
    return fill_texts(tables);
}

static vw_status add_columns(const stack_tables *tables, vw__view_columns *columns)
{
    const stack_row *stacks = tables->stack_rows;
    const frame_row *frames = tables->frame_rows;
    size_t stack_count = tables->stacks->stack_count, frame_count = tables->frames.count;
    const uint8_t *texts = (const uint8_t *)vw__byte_buffer_text(&tables->texts);
    size_t text_bytes = vw__byte_buffer_size(&tables->texts);
    VW__TRY(vw__view_columns_add(columns, "strings", VW__VIEW_ARRAY(texts, text_bytes)));
    VW__TRY(vw__view_columns_add(columns, "frame.function",
                                 VW__VIEW_FIELD(frames, function, frame_count)));
    VW__TRY(vw__view_columns_add(columns, "frame.file", VW__VIEW_FIELD(frames, file, frame_count)));
    VW__TRY(vw__view_columns_add(columns, "frame.line", VW__VIEW_FIELD(frames, line, frame_count)));
    VW__TRY(vw__view_columns_add(columns, "frame.users",
                                 VW__VIEW_FIELD(frames, is_users, frame_count)));
    VW__TRY(vw__view_columns_add(columns, "stack.first",
                                 VW__VIEW_FIELD(stacks, first, stack_count + 1)));
    VW__TRY(vw__view_columns_add(columns, "stack.frames",
                                 VW__VIEW_ARRAY(tables->frame_ids, tables->frame_id_count)));
    VW__TRY(vw__view_columns_add(columns, "stack.category",
                                 VW__VIEW_FIELD(stacks, category, stack_count)));
    return vw__view_columns_add(columns, "stack.where", VW__VIEW_FIELD(stacks, where, stack_count));
}

vw_status vw__view_stacks_write(vw__view_stacks *stacks, vw__view_columns *columns)
{
    stack_tables tables = {.stacks = stacks, .model = stacks->attribution->model};
    vw__byte_buffer_init(&tables.texts);
    vw_status status = fill_tables(&tables);
    if (status == VW_OK)
        status = add_columns(&tables, columns);
    stacks->frame_count = tables.frames.count;
    numbering_deinit(&tables.frames);
    numbering_deinit(&tables.strings);
    vw__host_free(tables.stack_rows);
    vw__host_free(tables.frame_ids);
    vw__host_free(tables.frame_rows);
    vw__byte_buffer_deinit(&tables.texts);
    return status;
}
