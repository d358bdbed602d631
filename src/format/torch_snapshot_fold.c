/* torch_snapshot_fold.c - which kind of dict, and the parts that several kinds share. */
#include "format/torch_snapshot_fold.h"

#include <string.h>

/* ---- life ------------------------------------------------------------------------------------ */

void hr__snapshot_fold_init(hr__snapshot_fold *fold, hr__model_builder *builder)
{
    *fold = (hr__snapshot_fold){
        .builder = builder,
        .segments.item_bytes = sizeof(hr__model_segment),
        .annotations.item_bytes = sizeof(hr__model_annotation),
        .pasts.item_bytes = sizeof(hr__past),
        .frame_ids.item_bytes = sizeof(uint32_t),
        .last_stream_id = 0, /* stream 0 is the builder's first */
    };
}

void hr__snapshot_fold_deinit(hr__snapshot_fold *fold)
{
    hr__folded_list *lists[] = {&fold->segments, &fold->annotations, &fold->pasts,
                                &fold->frame_ids};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (lists[i]->items != NULL)
            hr__document_free_memory(fold->document, lists[i]->items,
                                     lists[i]->capacity * lists[i]->item_bytes);
        lists[i]->items = NULL;
        lists[i]->count = lists[i]->capacity = 0;
    }
}

static hr_status grow_list(hr__snapshot_fold *fold, hr__folded_list *list)
{
    size_t capacity = list->capacity != 0 ? 2 * list->capacity : 64;
    if (list->count >= UINT32_MAX - 1)
        return hr__fail(HR_ERR_UNSUPPORTED, "more than %u records of one kind", UINT32_MAX - 1);
    HR__TRY(hr__document_resize_memory(
        fold->document, list->items, list->capacity * list->item_bytes, capacity * list->item_bytes,
        "records of a snapshot", &list->items));
    list->capacity = capacity;
    return HR_OK;
}

hr_status hr__folded_list_add(hr__snapshot_fold *fold, hr__folded_list *list, const void *item,
                              uint32_t *place)
{
    if (list->count == list->capacity)
        HR__TRY(grow_list(fold, list));
    memcpy((char *)list->items + list->count * list->item_bytes, item, list->item_bytes);
    *place = (uint32_t)list->count++;
    return HR_OK;
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *hr__folded_kind_name(unsigned kind)
{
    switch (kind) {
    case HR__FOLDED_ENTRY:
        return "a trace entry";
    case HR__FOLDED_FRAME:
        return "a frame";
    case HR__FOLDED_CONTEXT:
        return "a list of frames";
    case HR__FOLDED_FORWARD_STACK:
        return "a list of forward frames";
    case HR__FOLDED_SEGMENT:
        return "a segment";
    case HR__FOLDED_BLOCK:
        return "a block";
    case HR__FOLDED_USED_BLOCKS:
        return "the blocks of another segment";
    case HR__FOLDED_PAST:
        return "an entry of a block's history";
    case HR__FOLDED_ANNOTATION:
        return "an annotation";
    case HR__FOLDED_POOL:
        return "a pair of integers";
    default:
        return "a record";
    }
}

const char *hr__snapshot_value_name(hr__value value)
{
    hr__value_kind kind = hr__value_get_kind(value);
    return kind == HR__VALUE_FOLDED ? hr__folded_kind_name(hr__value_folded_kind(value))
                                    : hr__value_kind_name(kind);
}

hr_status hr__fold_string(hr__snapshot_fold *fold, hr__value value, uint32_t *id)
{
    size_t size_bytes = 0;
    const char *bytes = hr__value_string(fold->document, value, &size_bytes);
    return hr__model_add_string(fold->builder, bytes, size_bytes, id);
}

static hr_status get_string(hr__snapshot_fold *fold, hr__snapshot_name key, uint32_t *id)
{
    const hr__snapshot_fields *fields = &fold->fields;
    if (!hr__has_field(fields, key))
        return HR_OK;
    if (hr__value_get_kind(fields->values[key]) != HR__VALUE_STRING)
        return hr__wrong_field(fields, key, "a string", fields->values[key]);
    return hr__fold_string(fold, fields->values[key], id);
}

/* ---- streams and pools ----------------------------------------------------------------------- */

hr_status hr__fold_stream(hr__snapshot_fold *fold, uint64_t handle, uint16_t *stream)
{
    if (handle != fold->last_stream) {
        HR__TRY(hr__model_add_stream(fold->builder, handle, &fold->last_stream_id));
        fold->last_stream = handle;
    }
    *stream = fold->last_stream_id;
    return HR_OK;
}

hr_status hr__get_stream(hr__snapshot_fold *fold, uint16_t *stream)
{
    uint64_t handle = 0;
    HR__TRY(hr__get_address(&fold->fields, HR__KEY_STREAM, &handle));
    return hr__fold_stream(fold, handle, stream);
}

hr_status hr__get_pool(hr__snapshot_fold *fold, hr__snapshot_name key, uint16_t *pool)
{
    const hr__snapshot_fields *fields = &fold->fields;
    if (!hr__has_field(fields, key))
        return HR_OK;
    hr__value value = fields->values[key], item;
    hr__value_kind kind = hr__value_get_kind(value);
    uint64_t halves[2], cursor = 0;
    size_t count = 0;
    if (kind == HR__VALUE_FOLDED && hr__value_folded_kind(value) == HR__FOLDED_POOL) {
        *pool = (uint16_t)hr__value_folded_id(value);
        return HR_OK;
    }
    if (kind == HR__VALUE_TUPLE || kind == HR__VALUE_LIST) {
        while (count <= 2 && hr__value_next_item(fold->document, value, &cursor, &item)) {
            if (count < 2 && !hr__value_get_u64(fold->document, item, &halves[count]))
                break;
            count++;
        }
    }
    if (count != 2)
        return hr__wrong_field(fields, key, "two integers that are not negative", value);
    HR__TRY(hr__model_add_pool(fold->builder, (hr_private_id){halves[0], halves[1]}, pool));
    hr__document_fold_list(fold->document, value, hr__value_folded(HR__FOLDED_POOL, *pool));
    return HR_OK;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static hr_status wrong_frame(hr__snapshot_fold *fold, hr__snapshot_name key, size_t number,
                             const char *expected, hr__value found)
{
    return hr__fail(HR_ERR_CORRUPT_FILE, "%s %zu: %s: item %zu: expected %s, found %s",
                    fold->fields.record, fold->fields.number, hr__snapshot_names[key], number,
                    expected, hr__snapshot_value_name(found));
}

static hr_status reserve_frame_ids(hr__snapshot_fold *fold, size_t more)
{
    while (more > fold->frame_ids.capacity - fold->frame_ids.count)
        HR__TRY(grow_list(fold, &fold->frame_ids));
    return HR_OK;
}

/* Which of `items` is no frame: there is one. */
static hr_status find_wrong_frame(hr__snapshot_fold *fold, const hr__value *items)
{
    size_t i = 0;
    while (hr__value_get_kind(items[i]) == HR__VALUE_FOLDED &&
           hr__value_folded_kind(items[i]) == HR__FOLDED_FRAME)
        i++;
    return wrong_frame(fold, HR__KEY_FRAMES, fold->frame_ids.count + i,
                       "a frame (a dict with filename and line)",
                       hr__document_resolve(fold->document, items[i]));
}

/* Adds the frames to `fold->frame_ids`; none, if not all items are frames. */
static hr_status add_frames(hr__snapshot_fold *fold, const hr__value *items, size_t item_count,
                            bool *are_frames)
{
    const hr__value a_frame = hr__value_folded(HR__FOLDED_FRAME, 0);
    HR__TRY(reserve_frame_ids(fold, item_count));
    uint32_t *to = (uint32_t *)fold->frame_ids.items + fold->frame_ids.count;
    uint64_t difference = 0; /* looked at once, at the end: this loop sees every frame */
    for (size_t i = 0; i < item_count; i++) {
        difference |= items[i] ^ a_frame;
        to[i] = hr__value_folded_id(items[i]);
    }
    *are_frames = difference >> 32 == 0;
    if (*are_frames)
        fold->frame_ids.count += item_count;
    return HR_OK;
}

/* The frames of a list, into `fold->frame_ids`. */
static hr_status gather_frames(hr__snapshot_fold *fold, hr__value list)
{
    const hr__value *items;
    size_t item_count;
    fold->frame_ids.count = 0;
    for (uint64_t cursor = 0;
         hr__value_next_items(fold->document, list, &cursor, &items, &item_count);) {
        bool are_frames;
        HR__TRY(add_frames(fold, items, item_count, &are_frames));
        if (!are_frames)
            return find_wrong_frame(fold, items);
    }
    return HR_OK;
}

/* A capture of the stack in `fold->frame_ids`. */
static hr_status begin_context(hr__snapshot_fold *fold, uint32_t *context)
{
    uint32_t stack;
    HR__TRY(
        hr__model_add_stack(fold->builder, fold->frame_ids.items, fold->frame_ids.count, &stack));
    return hr__model_begin_context(fold->builder, stack, context);
}

hr_status hr__snapshot_fold_list(void *context, hr__document *document, const hr__value *items,
                                 size_t item_count, hr__value *folded)
{
    hr__snapshot_fold *fold = context;
    const hr__value a_frame = hr__value_folded(HR__FOLDED_FRAME, 0);
    bool are_frames;
    uint32_t id;
    fold->document = document;
    if ((items[0] ^ a_frame) >> 32 != 0) /* most lists that are none show it at once */
        return HR_OK;
    fold->frame_ids.count = 0;
    HR__TRY(add_frames(fold, items, item_count, &are_frames));
    if (!are_frames)
        return HR_OK;
    HR__TRY(begin_context(fold, &id));
    *folded = hr__value_folded(HR__FOLDED_CONTEXT, id);
    return HR_OK;
}

hr_status hr__get_context(hr__snapshot_fold *fold, uint32_t *context)
{
    if (!hr__has_field(&fold->fields, HR__KEY_FRAMES)) {
        *context = HR__NO_CONTEXT;
        return HR_OK;
    }
    hr__value value = fold->fields.values[HR__KEY_FRAMES];
    if (hr__value_get_kind(value) == HR__VALUE_FOLDED &&
        hr__value_folded_kind(value) == HR__FOLDED_CONTEXT) {
        *context = hr__value_folded_id(value);
        return HR_OK;
    }
    if (hr__value_get_kind(value) != HR__VALUE_LIST)
        return hr__fail(HR_ERR_CORRUPT_FILE, "%s %zu: frames: expected a list of frames, found %s",
                        fold->fields.record, fold->fields.number, hr__snapshot_value_name(value));
    uint32_t id;
    HR__TRY(gather_frames(fold, value));
    HR__TRY(begin_context(fold, &id));
    hr__document_fold_list(fold->document, value, hr__value_folded(HR__FOLDED_CONTEXT, id));
    *context = id;
    return HR_OK;
}

/* A frame that is but a name. */
static hr_status add_forward_frame(hr__snapshot_fold *fold, hr__value name, uint32_t *id)
{
    hr__model_frame frame = {.filename = HR__NO_STRING, .line = 0};
    HR__TRY(hr__fold_string(fold, name, &frame.name));
    return hr__model_add_frame(fold->builder, &frame, id);
}

hr_status hr__get_forward_stack(hr__snapshot_fold *fold, uint32_t *stack)
{
    *stack = HR__EMPTY_STACK;
    if (!hr__has_field(&fold->fields, HR__KEY_FORWARD_FRAMES))
        return HR_OK;
    hr__value item,
        value = hr__document_resolve(fold->document, fold->fields.values[HR__KEY_FORWARD_FRAMES]);
    if (hr__value_get_kind(value) == HR__VALUE_FOLDED &&
        hr__value_folded_kind(value) == HR__FOLDED_FORWARD_STACK) {
        *stack = hr__value_folded_id(value);
        return HR_OK;
    }
    if (hr__value_get_kind(value) != HR__VALUE_LIST)
        return hr__fail(HR_ERR_CORRUPT_FILE,
                        "%s %zu: forward_frames: expected a list of strings, found %s",
                        fold->fields.record, fold->fields.number, hr__snapshot_value_name(value));
    fold->frame_ids.count = 0;
    for (uint64_t cursor = 0; hr__value_next_item(fold->document, value, &cursor, &item);) {
        if (hr__value_get_kind(item) != HR__VALUE_STRING)
            return wrong_frame(fold, HR__KEY_FORWARD_FRAMES, fold->frame_ids.count, "a string",
                               item);
        uint32_t frame, place;
        HR__TRY(add_forward_frame(fold, item, &frame));
        HR__TRY(hr__folded_list_add(fold, &fold->frame_ids, &frame, &place));
    }
    HR__TRY(
        hr__model_add_stack(fold->builder, fold->frame_ids.items, fold->frame_ids.count, stack));
    hr__document_fold_list(fold->document, value,
                           hr__value_folded(HR__FOLDED_FORWARD_STACK, *stack));
    return HR_OK;
}

static hr_status fold_frame(hr__snapshot_fold *fold, hr__value *folded)
{
    hr__model_frame frame = {HR__NO_STRING, HR__NO_STRING, 0};
    int64_t line = 0;
    uint32_t id;
    fold->fields.record = "frame";
    fold->fields.number = fold->frame_count++;
    HR__TRY(get_string(fold, HR__KEY_NAME, &frame.name));
    HR__TRY(get_string(fold, HR__KEY_FILENAME, &frame.filename));
    HR__TRY(hr__get_signed(&fold->fields, HR__KEY_LINE, &line));
    if (line > UINT32_MAX)
        return hr__wrong_field(&fold->fields, HR__KEY_LINE, "the number of a line",
                               fold->fields.values[HR__KEY_LINE]);
    frame.line = line > 0 ? (uint32_t)line : 0; /* Python has -1 where it does not know */
    HR__TRY(hr__model_add_frame(fold->builder, &frame, &id));
    *folded = hr__value_folded(HR__FOLDED_FRAME, id);
    return HR_OK;
}

/* ---- annotations ----------------------------------------------------------------------------- */

static hr_status get_move(const hr__snapshot_fields *fields, hr__model_move *move)
{
    HR__TRY(hr__get_count(fields, HR__KEY_MOVED_BYTES, &move->moved_bytes));
    HR__TRY(hr__get_count(fields, HR__KEY_MOVED_HANDLES, &move->moved_handles));
    HR__TRY(hr__get_count(fields, HR__KEY_SPILLED_BYTES, &move->spilled_bytes));
    return hr__get_count(fields, HR__KEY_WAIT_US, &move->wait_us);
}

static hr_status fold_annotation(hr__snapshot_fold *fold, hr__value *folded)
{
    const hr__snapshot_fields *fields = &fold->fields;
    hr__model_annotation annotation = {.time_us = HR__UNKNOWN_TIME, .name = HR__NO_STRING};
    uint32_t place;
    fold->fields.record = "annotation";
    fold->fields.number = fold->annotations.count;
    HR__TRY(get_string(fold, HR__KEY_NAME, &annotation.name));
    HR__TRY(hr__get_signed(fields, HR__KEY_TIME_US, &annotation.time_us));
    HR__TRY(hr__get_device(fields, &annotation.device));
    hr__value stage = fields->values[HR__KEY_STAGE];
    uint32_t word = hr__value_string_id(stage);
    if (hr__value_get_kind(stage) != HR__VALUE_STRING ||
        (word != HR__WORD_START && word != HR__WORD_END))
        return hr__wrong_field(fields, HR__KEY_STAGE, "START or END", stage);
    annotation.is_start = word == HR__WORD_START;
    HR__TRY(get_move(fields, &annotation.move));
    HR__TRY(hr__folded_list_add(fold, &fold->annotations, &annotation, &place));
    *folded = hr__value_folded(HR__FOLDED_ANNOTATION, place);
    return HR_OK;
}

/* ---- which kind ------------------------------------------------------------------------------ */

void hr__snapshot_ignore_unknown(hr__snapshot_fold *fold, const hr__value *pairs, size_t pair_count)
{
    for (size_t i = 0; i < pair_count; i++) {
        hr__value key = pairs[2 * i];
        if (hr__value_get_kind(key) == HR__VALUE_STRING) {
            size_t size_bytes = 0;
            if (hr__value_string_id(key) < HR__KEY_COUNT)
                continue;
            const char *name = hr__value_string(fold->document, key, &size_bytes);
            hr__model_ignore_field(fold->builder, name, size_bytes);
        } else {
            const char *kind = hr__value_kind_name(hr__value_get_kind(key));
            hr__model_ignore_field(fold->builder, kind, strlen(kind));
        }
    }
}

static bool has_all(const hr__snapshot_fields *fields, uint64_t keys)
{
    return (fields->present & keys) == keys;
}

hr_status hr__snapshot_fold_dict(void *context, hr__document *document, const hr__value *pairs,
                                 size_t pair_count, hr__value *folded)
{
    hr__snapshot_fold *fold = context;
    hr__snapshot_fields *fields = &fold->fields;
    fold->document = document;
    HR__TRY(hr__fold_usual_entry(fold, pairs, pair_count, folded));
    if (hr__value_get_kind(*folded) == HR__VALUE_FOLDED)
        return HR_OK;
    fields->document = document;
    hr__collect_fields(fields, pairs, pair_count);
    hr_status status;
    if (hr__has_field(fields, HR__KEY_ACTION)) {
        status = hr__fold_entry(fold, folded);
        hr__learn_usual_entry(fold, pairs, pair_count);
    } else if (hr__has_field(fields, HR__KEY_FILENAME) ||
               has_all(fields, HR__KEY_BIT(HR__KEY_NAME) | HR__KEY_BIT(HR__KEY_LINE)))
        status = fold_frame(fold, folded);
    else if (hr__has_field(fields, HR__KEY_TOTAL_SIZE))
        status = hr__fold_segment(fold, folded);
    else if (has_all(fields, HR__KEY_BIT(HR__KEY_STATE) | HR__KEY_BIT(HR__KEY_SIZE)))
        status = hr__fold_block(fold, folded);
    else if (hr__has_field(fields, HR__KEY_STAGE))
        status = fold_annotation(fold, folded);
    else if (hr__has_field(fields, HR__KEY_REAL_SIZE))
        status = hr__fold_past(fold, folded);
    else
        return HR_OK; /* the outermost dict, the settings, or nothing that we know */
    if (__builtin_expect(fields->unknown_count != 0, 0) && status == HR_OK)
        hr__snapshot_ignore_unknown(fold, pairs, pair_count);
    return status;
}
