/* torch_snapshot_fold.c - which kind of dict, and the fields that several kinds share. */
#include "parse/torch_snapshot_internal.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/checked_math.h"
#include "parse/torch_snapshot_read.h" /* VW__SNAPSHOT_NAME_BYTES */

/* ---- fields ---------------------------------------------------------------------------------- */

const char *const vw__snapshot_names[VW__SNAPSHOT_NAME_COUNT] = {
#define VW__KEY_TEXT(upper, text) [VW__SNAPSHOT_KEY_##upper] = text,
    VW__SNAPSHOT_KEYS(VW__KEY_TEXT)
#undef VW__KEY_TEXT
#define VW__SNAPSHOT_WORD_TEXT(upper, text) [VW__SNAPSHOT_WORD_##upper] = text,
        VW__SNAPSHOT_WORDS(VW__SNAPSHOT_WORD_TEXT)
#undef VW__SNAPSHOT_WORD_TEXT
};

static void describe_value(const vw__document *document, vw__value value, char *text,
                           size_t text_bytes)
{
    enum { MOST_SHOWN = 40 };
    if (vw__value_get_kind(value) != VW__VALUE_STRING) {
        snprintf(text, text_bytes, "%s", vw__value_kind_name(vw__value_get_kind(value)));
        return;
    }
    size_t size_bytes = 0;
    const char *bytes = vw__value_string(document, value, &size_bytes);
    char shown[MOST_SHOWN + 1];
    size_t count = size_bytes < MOST_SHOWN ? size_bytes : MOST_SHOWN;
    for (size_t i = 0; i < count; i++) /* what a terminal would act upon is not shown */
        shown[i] = bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : '?';
    shown[count] = '\0';
    snprintf(text, text_bytes, "the string \"%s\"%s", shown, size_bytes > count ? "..." : "");
}

/* "segment 3: ", or "allocator_settings: ". */
static void describe_record(const vw__snapshot_fields *fields, char *text, size_t text_bytes)
{
    if (fields->number == SIZE_MAX)
        snprintf(text, text_bytes, "%s", fields->record);
    else
        snprintf(text, text_bytes, "%s %zu", fields->record, fields->number);
}

vw_status vw__snapshot_wrong_field(const vw__snapshot_fields *fields, vw__snapshot_name key,
                                   const char *expected, vw__value found)
{
    char record[64], value[128];
    describe_record(fields, record, sizeof record);
    describe_value(fields->document, found, value, sizeof value);
    return vw__fail(VW_ERR_CORRUPT_FILE, "%s: %s: expected %s, found %s", record,
                    vw__snapshot_names[key], expected, value);
}

vw_status vw__snapshot_need_field(const vw__snapshot_fields *fields, vw__snapshot_name key)
{
    char record[64];
    if (vw__snapshot_has_field(fields, key))
        return VW_OK;
    describe_record(fields, record, sizeof record);
    return vw__fail(VW_ERR_CORRUPT_FILE, "%s: %s is missing", record, vw__snapshot_names[key]);
}

/* Digits and nothing else, since the text may hold zeros. */
static bool read_digits(const char *text, size_t size_bytes, uint64_t *out)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size_bytes; i++)
        if (!vw__ascii_is_digit(text[i]) || !vw__mul_u64(number, 10, &number) ||
            !vw__add_u64(number, (uint64_t)(text[i] - '0'), &number))
            return false;
    *out = number;
    return size_bytes != 0;
}

/* A number of an annotation, whose values PyTorch writes as text. */
static vw_status get_count(const vw__snapshot_fields *fields, vw__snapshot_name key, uint64_t *out)
{
    if (!vw__snapshot_has_field(fields, key))
        return VW_OK;
    vw__value value = fields->values[key];
    if (vw__value_get_kind(value) != VW__VALUE_STRING)
        return vw__snapshot_get_size(fields, key, out);
    size_t size_bytes = 0;
    const char *text = vw__value_string(fields->document, value, &size_bytes);
    return read_digits(text, size_bytes, out)
               ? VW_OK
               : vw__snapshot_wrong_field(fields, key, "an integer that is not negative", value);
}

vw_status vw__snapshot_get_number(const vw__snapshot_fields *fields, vw__snapshot_name key,
                                  double *out)
{
    if (!vw__snapshot_has_field(fields, key) ||
        vw__value_get_f64(fields->document, fields->values[key], out))
        return VW_OK;
    return vw__snapshot_wrong_field(fields, key, "a number", fields->values[key]);
}

vw_status vw__snapshot_get_boolean(const vw__snapshot_fields *fields, vw__snapshot_name key,
                                   bool *out)
{
    if (!vw__snapshot_has_field(fields, key))
        return VW_OK;
    vw__value_kind kind = vw__value_get_kind(fields->values[key]);
    if (kind != VW__VALUE_TRUE && kind != VW__VALUE_FALSE)
        return vw__snapshot_wrong_field(fields, key, "True or False", fields->values[key]);
    *out = kind == VW__VALUE_TRUE;
    return VW_OK;
}

vw_status vw__snapshot_get_device(const vw__snapshot_fields *fields, int *out)
{
    int64_t number = *out;
    VW__TRY(vw__snapshot_get_signed(fields, VW__SNAPSHOT_KEY_DEVICE, &number));
    if (number < VW__MODEL_HOST_DEVICE || number > INT_MAX)
        return vw__snapshot_wrong_field(fields, VW__SNAPSHOT_KEY_DEVICE, "the number of a device",
                                        fields->values[VW__SNAPSHOT_KEY_DEVICE]);
    *out = (int)number;
    return VW_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

void vw__snapshot_fold_init(vw__snapshot_fold *fold, vw__model_builder *builder)
{
    *fold = (vw__snapshot_fold){
        .builder = builder,
        .segments.item_bytes = sizeof(vw__snapshot_segment),
        .annotations.item_bytes = sizeof(vw__model_annotation),
        .pasts.item_bytes = sizeof(vw__snapshot_past),
        .frame_ids.item_bytes = sizeof(uint32_t),
        .last_stream_id = 0, /* stream 0 is the builder's first */
    };
}

void vw__snapshot_fold_deinit(vw__snapshot_fold *fold)
{
    vw__snapshot_folded_list *lists[] = {&fold->segments, &fold->annotations, &fold->pasts,
                                         &fold->frame_ids};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (lists[i]->items != NULL)
            vw__document_free_memory(fold->document, lists[i]->items,
                                     lists[i]->capacity * lists[i]->item_bytes);
        lists[i]->items = NULL;
        lists[i]->count = lists[i]->capacity = 0;
    }
}

static vw_status grow_list(vw__snapshot_fold *fold, vw__snapshot_folded_list *list)
{
    size_t capacity = list->capacity != 0 ? 2 * list->capacity : 64;
    if (list->count >= UINT32_MAX - 1)
        return vw__fail(VW_ERR_UNSUPPORTED, "more than %u records of one kind", UINT32_MAX - 1);
    VW__TRY(vw__document_resize_memory(
        fold->document, list->items, list->capacity * list->item_bytes, capacity * list->item_bytes,
        "records of a snapshot", &list->items));
    list->capacity = capacity;
    return VW_OK;
}

vw_status vw__snapshot_folded_list_add(vw__snapshot_fold *fold, vw__snapshot_folded_list *list,
                                       const void *item, uint32_t *place)
{
    if (list->count == list->capacity)
        VW__TRY(grow_list(fold, list));
    memcpy((char *)list->items + list->count * list->item_bytes, item, list->item_bytes);
    *place = (uint32_t)list->count++;
    return VW_OK;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* "a trace entry", for messages. */
static const char *folded_kind_name(unsigned kind)
{
    switch (kind) {
    case VW__SNAPSHOT_FOLDED_ENTRY:
        return "a trace entry";
    case VW__SNAPSHOT_FOLDED_FRAME:
        return "a frame";
    case VW__SNAPSHOT_FOLDED_CONTEXT:
        return "a list of frames";
    case VW__SNAPSHOT_FOLDED_FORWARD_STACK:
        return "a list of forward frames";
    case VW__SNAPSHOT_FOLDED_SEGMENT:
        return "a segment";
    case VW__SNAPSHOT_FOLDED_BLOCK:
        return "a block";
    case VW__SNAPSHOT_FOLDED_USED_BLOCKS:
        return "the blocks of another segment";
    case VW__SNAPSHOT_FOLDED_USED_ENTRIES:
        return "the entries of another trace";
    case VW__SNAPSHOT_FOLDED_PAST:
        return "an entry of a block's history";
    case VW__SNAPSHOT_FOLDED_ANNOTATION:
        return "an annotation";
    case VW__SNAPSHOT_FOLDED_POOL:
        return "a pair of integers";
    default:
        return "a record";
    }
}

const char *vw__snapshot_value_name(vw__value value)
{
    vw__value_kind kind = vw__value_get_kind(value);
    return kind == VW__VALUE_FOLDED ? folded_kind_name(vw__value_folded_kind(value))
                                    : vw__value_kind_name(kind);
}

vw_status vw__snapshot_fold_string(vw__snapshot_fold *fold, vw__value value, uint32_t *id)
{
    size_t size_bytes = 0;
    const char *bytes = vw__value_string(fold->document, value, &size_bytes);
    return vw__model_add_string(fold->builder, bytes, size_bytes, id);
}

vw_status vw__snapshot_fold_name(vw__snapshot_fold *fold, vw__value value, uint32_t *id)
{
    static const char mark[] = "...";
    char cut[VW__SNAPSHOT_NAME_BYTES];
    size_t size_bytes = 0, kept_bytes = sizeof cut - (sizeof mark - 1);
    const char *bytes = vw__value_string(fold->document, value, &size_bytes);
    if (size_bytes <= sizeof cut)
        return vw__model_add_string(fold->builder, bytes, size_bytes, id);
    while (kept_bytes > 0 && ((unsigned char)bytes[kept_bytes] & 0xC0) == 0x80)
        kept_bytes--; /* a character stays whole */
    memcpy(cut, bytes, kept_bytes);
    memcpy(cut + kept_bytes, mark, sizeof mark - 1);
    return vw__model_add_string(fold->builder, cut, kept_bytes + sizeof mark - 1, id);
}

static vw_status get_name(vw__snapshot_fold *fold, vw__snapshot_name key, uint32_t *id)
{
    const vw__snapshot_fields *fields = &fold->fields;
    if (!vw__snapshot_has_field(fields, key))
        return VW_OK;
    if (vw__value_get_kind(fields->values[key]) != VW__VALUE_STRING)
        return vw__snapshot_wrong_field(fields, key, "a string", fields->values[key]);
    return vw__snapshot_fold_name(fold, fields->values[key], id);
}

/* ---- streams and pools ----------------------------------------------------------------------- */

vw_status vw__snapshot_fold_stream(vw__snapshot_fold *fold, uint64_t handle, uint16_t *stream)
{
    if (handle != fold->last_stream) {
        VW__TRY(vw__model_add_stream(fold->builder, handle, &fold->last_stream_id));
        fold->last_stream = handle;
    }
    *stream = fold->last_stream_id;
    return VW_OK;
}

vw_status vw__snapshot_get_stream(vw__snapshot_fold *fold, uint16_t *stream)
{
    uint64_t handle = 0;
    VW__TRY(vw__snapshot_get_address(&fold->fields, VW__SNAPSHOT_KEY_STREAM, &handle));
    return vw__snapshot_fold_stream(fold, handle, stream);
}

vw_status vw__snapshot_get_pool(vw__snapshot_fold *fold, vw__snapshot_name key, uint16_t *pool)
{
    const vw__snapshot_fields *fields = &fold->fields;
    if (!vw__snapshot_has_field(fields, key))
        return VW_OK;
    vw__value value = fields->values[key], item;
    vw__value_kind kind = vw__value_get_kind(value);
    uint64_t halves[2], cursor = 0;
    size_t count = 0;
    if (kind == VW__VALUE_FOLDED && vw__value_folded_kind(value) == VW__SNAPSHOT_FOLDED_POOL) {
        *pool = (uint16_t)vw__value_folded_id(value);
        return VW_OK;
    }
    if (kind == VW__VALUE_TUPLE || kind == VW__VALUE_LIST) {
        while (count <= 2 && vw__value_next_item(fold->document, value, &cursor, &item)) {
            if (count < 2 && !vw__value_get_u64(fold->document, item, &halves[count]))
                break;
            count++;
        }
    }
    if (count != 2)
        return vw__snapshot_wrong_field(fields, key, "two integers that are not negative", value);
    VW__TRY(vw__model_add_pool(fold->builder, (vw_private_id){halves[0], halves[1]}, pool));
    vw__document_fold_list(fold->document, value,
                           vw__value_folded(VW__SNAPSHOT_FOLDED_POOL, *pool));
    return VW_OK;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static vw_status wrong_frame(vw__snapshot_fold *fold, vw__snapshot_name key, size_t number,
                             const char *expected, vw__value found)
{
    return vw__fail(VW_ERR_CORRUPT_FILE, "%s %zu: %s: item %zu: expected %s, found %s",
                    fold->fields.record, fold->fields.number, vw__snapshot_names[key], number,
                    expected, vw__snapshot_value_name(found));
}

static vw_status reserve_frame_ids(vw__snapshot_fold *fold, size_t more)
{
    while (more > fold->frame_ids.capacity - fold->frame_ids.count)
        VW__TRY(grow_list(fold, &fold->frame_ids));
    return VW_OK;
}

/* The index of the item that is not a frame: there is one. */
static vw_status find_wrong_frame(vw__snapshot_fold *fold, const vw__value *items)
{
    size_t i = 0;
    while (vw__value_get_kind(items[i]) == VW__VALUE_FOLDED &&
           vw__value_folded_kind(items[i]) == VW__SNAPSHOT_FOLDED_FRAME)
        i++;
    return wrong_frame(fold, VW__SNAPSHOT_KEY_FRAMES, fold->frame_ids.count + i,
                       "a frame (a dict with filename and line)",
                       vw__document_resolve(fold->document, items[i]));
}

/* Adds the frames to `fold->frame_ids`; none, if not all items are frames. */
static vw_status add_frames(vw__snapshot_fold *fold, const vw__value *items, size_t item_count,
                            bool *are_frames)
{
    const vw__value a_frame = vw__value_folded(VW__SNAPSHOT_FOLDED_FRAME, 0);
    VW__TRY(reserve_frame_ids(fold, item_count));
    uint32_t *to = (uint32_t *)fold->frame_ids.items + fold->frame_ids.count;
    uint64_t difference = 0; /* looked at once, at the end: this loop sees every frame */
    for (size_t i = 0; i < item_count; i++) {
        difference |= items[i] ^ a_frame;
        to[i] = vw__value_folded_id(items[i]);
    }
    *are_frames = difference >> 32 == 0;
    if (*are_frames)
        fold->frame_ids.count += item_count;
    return VW_OK;
}

/* The frames of a list, into `fold->frame_ids`. */
static vw_status gather_frames(vw__snapshot_fold *fold, vw__value list)
{
    const vw__value *items;
    size_t item_count;
    fold->frame_ids.count = 0;
    for (uint64_t cursor = 0;
         vw__value_next_items(fold->document, list, &cursor, &items, &item_count);) {
        bool are_frames;
        VW__TRY(add_frames(fold, items, item_count, &are_frames));
        if (!are_frames)
            return find_wrong_frame(fold, items);
    }
    return VW_OK;
}

/* A capture of the stack in `fold->frame_ids`. */
static vw_status begin_context(vw__snapshot_fold *fold, uint32_t *context)
{
    uint32_t stack;
    VW__TRY(
        vw__model_add_stack(fold->builder, fold->frame_ids.items, fold->frame_ids.count, &stack));
    return vw__model_begin_context(fold->builder, stack, context);
}

vw_status vw__snapshot_fold_list(void *context, vw__document *document, const vw__value *items,
                                 size_t item_count, vw__value *folded)
{
    vw__snapshot_fold *fold = context;
    const vw__value a_frame = vw__value_folded(VW__SNAPSHOT_FOLDED_FRAME, 0);
    bool are_frames;
    uint32_t id;
    fold->document = document;
    if ((items[0] ^ a_frame) >> 32 != 0) /* most lists of other things end here */
        return VW_OK;
    fold->frame_ids.count = 0;
    VW__TRY(add_frames(fold, items, item_count, &are_frames));
    if (!are_frames)
        return VW_OK;
    VW__TRY(begin_context(fold, &id));
    *folded = vw__value_folded(VW__SNAPSHOT_FOLDED_CONTEXT, id);
    return VW_OK;
}

vw_status vw__snapshot_get_context(vw__snapshot_fold *fold, uint32_t *context)
{
    if (!vw__snapshot_has_field(&fold->fields, VW__SNAPSHOT_KEY_FRAMES)) {
        *context = VW__MODEL_NO_CONTEXT;
        return VW_OK;
    }
    vw__value value = fold->fields.values[VW__SNAPSHOT_KEY_FRAMES];
    if (vw__value_get_kind(value) == VW__VALUE_FOLDED &&
        vw__value_folded_kind(value) == VW__SNAPSHOT_FOLDED_CONTEXT) {
        *context = vw__value_folded_id(value);
        return VW_OK;
    }
    if (vw__value_get_kind(value) != VW__VALUE_LIST)
        return vw__fail(VW_ERR_CORRUPT_FILE, "%s %zu: frames: expected a list of frames, found %s",
                        fold->fields.record, fold->fields.number, vw__snapshot_value_name(value));
    uint32_t id;
    VW__TRY(gather_frames(fold, value));
    VW__TRY(begin_context(fold, &id));
    vw__document_fold_list(fold->document, value,
                           vw__value_folded(VW__SNAPSHOT_FOLDED_CONTEXT, id));
    *context = id;
    return VW_OK;
}

/* A frame that is but a name. */
static vw_status add_forward_frame(vw__snapshot_fold *fold, vw__value name, uint32_t *id)
{
    vw__model_frame frame = {.filename = VW__MODEL_NO_STRING, .line = 0};
    VW__TRY(vw__snapshot_fold_name(fold, name, &frame.name));
    return vw__model_add_frame(fold->builder, &frame, id);
}

vw_status vw__snapshot_get_forward_stack(vw__snapshot_fold *fold, uint32_t *stack)
{
    *stack = VW__MODEL_EMPTY_STACK;
    if (!vw__snapshot_has_field(&fold->fields, VW__SNAPSHOT_KEY_FORWARD_FRAMES))
        return VW_OK;
    vw__value item, value = vw__document_resolve(
                        fold->document, fold->fields.values[VW__SNAPSHOT_KEY_FORWARD_FRAMES]);
    if (vw__value_get_kind(value) == VW__VALUE_FOLDED &&
        vw__value_folded_kind(value) == VW__SNAPSHOT_FOLDED_FORWARD_STACK) {
        *stack = vw__value_folded_id(value);
        return VW_OK;
    }
    if (vw__value_get_kind(value) != VW__VALUE_LIST)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "%s %zu: forward_frames: expected a list of strings, found %s",
                        fold->fields.record, fold->fields.number, vw__snapshot_value_name(value));
    fold->frame_ids.count = 0;
    for (uint64_t cursor = 0; vw__value_next_item(fold->document, value, &cursor, &item);) {
        if (vw__value_get_kind(item) != VW__VALUE_STRING)
            return wrong_frame(fold, VW__SNAPSHOT_KEY_FORWARD_FRAMES, fold->frame_ids.count,
                               "a string", item);
        uint32_t frame, place;
        VW__TRY(add_forward_frame(fold, item, &frame));
        VW__TRY(vw__snapshot_folded_list_add(fold, &fold->frame_ids, &frame, &place));
    }
    VW__TRY(
        vw__model_add_stack(fold->builder, fold->frame_ids.items, fold->frame_ids.count, stack));
    vw__document_fold_list(fold->document, value,
                           vw__value_folded(VW__SNAPSHOT_FOLDED_FORWARD_STACK, *stack));
    return VW_OK;
}

static vw_status fold_frame(vw__snapshot_fold *fold, vw__value *folded)
{
    vw__model_frame frame = {VW__MODEL_NO_STRING, VW__MODEL_NO_STRING, 0};
    int64_t line = 0;
    uint32_t id;
    fold->fields.record = "frame";
    fold->fields.number = fold->frame_count++;
    VW__TRY(get_name(fold, VW__SNAPSHOT_KEY_NAME, &frame.name));
    VW__TRY(get_name(fold, VW__SNAPSHOT_KEY_FILENAME, &frame.filename));
    VW__TRY(vw__snapshot_get_signed(&fold->fields, VW__SNAPSHOT_KEY_LINE, &line));
    if (line > UINT32_MAX)
        return vw__snapshot_wrong_field(&fold->fields, VW__SNAPSHOT_KEY_LINE,
                                        "the number of a line",
                                        fold->fields.values[VW__SNAPSHOT_KEY_LINE]);
    frame.line = line > 0 ? (uint32_t)line : 0; /* Python has -1 where it does not know */
    VW__TRY(vw__model_add_frame(fold->builder, &frame, &id));
    *folded = vw__value_folded(VW__SNAPSHOT_FOLDED_FRAME, id);
    return VW_OK;
}

/* ---- annotations ----------------------------------------------------------------------------- */

static vw_status get_move(const vw__snapshot_fields *fields, vw__model_move *move)
{
    VW__TRY(get_count(fields, VW__SNAPSHOT_KEY_MOVED_BYTES, &move->moved_bytes));
    VW__TRY(get_count(fields, VW__SNAPSHOT_KEY_MOVED_HANDLES, &move->moved_handles));
    VW__TRY(get_count(fields, VW__SNAPSHOT_KEY_SPILLED_BYTES, &move->spilled_bytes));
    return get_count(fields, VW__SNAPSHOT_KEY_WAIT_US, &move->wait_us);
}

static vw_status fold_annotation(vw__snapshot_fold *fold, vw__value *folded)
{
    const vw__snapshot_fields *fields = &fold->fields;
    vw__model_annotation annotation = {.time_us = VW__MODEL_UNKNOWN_TIME,
                                       .name = VW__MODEL_NO_STRING};
    uint32_t place;
    fold->fields.record = "annotation";
    fold->fields.number = fold->annotations.count;
    VW__TRY(get_name(fold, VW__SNAPSHOT_KEY_NAME, &annotation.name));
    VW__TRY(vw__snapshot_get_signed(fields, VW__SNAPSHOT_KEY_TIME_US, &annotation.time_us));
    VW__TRY(vw__snapshot_get_device(fields, &annotation.device));
    vw__value stage = fields->values[VW__SNAPSHOT_KEY_STAGE];
    uint32_t word = vw__value_string_id(stage);
    if (vw__value_get_kind(stage) != VW__VALUE_STRING ||
        (word != VW__SNAPSHOT_WORD_START && word != VW__SNAPSHOT_WORD_END))
        return vw__snapshot_wrong_field(fields, VW__SNAPSHOT_KEY_STAGE, "START or END", stage);
    annotation.is_start = word == VW__SNAPSHOT_WORD_START;
    VW__TRY(get_move(fields, &annotation.move));
    VW__TRY(vw__snapshot_folded_list_add(fold, &fold->annotations, &annotation, &place));
    *folded = vw__value_folded(VW__SNAPSHOT_FOLDED_ANNOTATION, place);
    return VW_OK;
}

/* ---- which kind ------------------------------------------------------------------------------ */

void vw__snapshot_ignore_unknown(vw__snapshot_fold *fold, const vw__value *pairs, size_t pair_count)
{
    for (size_t i = 0; i < pair_count; i++) {
        vw__value key = pairs[2 * i];
        if (vw__value_get_kind(key) == VW__VALUE_STRING) {
            size_t size_bytes = 0;
            if (vw__value_string_id(key) < VW__SNAPSHOT_KEY_COUNT)
                continue;
            const char *name = vw__value_string(fold->document, key, &size_bytes);
            vw__model_ignore_field(fold->builder, name, size_bytes);
        } else {
            const char *kind = vw__value_kind_name(vw__value_get_kind(key));
            vw__model_ignore_field(fold->builder, kind, strlen(kind));
        }
    }
}

static bool has_all(const vw__snapshot_fields *fields, uint64_t keys)
{
    return (fields->present & keys) == keys;
}

vw_status vw__snapshot_fold_dict(void *context, vw__document *document, const vw__value *pairs,
                                 size_t pair_count, vw__value *folded)
{
    vw__snapshot_fold *fold = context;
    vw__snapshot_fields *fields = &fold->fields;
    fold->document = document;
    VW__TRY(vw__snapshot_fold_usual_entry(fold, pairs, pair_count, folded));
    if (vw__value_get_kind(*folded) == VW__VALUE_FOLDED)
        return VW_OK;
    fields->document = document;
    vw__snapshot_collect_fields(fields, pairs, pair_count);
    vw_status status;
    if (vw__snapshot_has_field(fields, VW__SNAPSHOT_KEY_ACTION)) {
        status = vw__snapshot_fold_entry(fold, folded);
        vw__snapshot_learn_usual_entry(fold, pairs, pair_count);
    } else if (vw__snapshot_has_field(fields, VW__SNAPSHOT_KEY_FILENAME) ||
               has_all(fields, VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_NAME) |
                                   VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_LINE)))
        status = fold_frame(fold, folded);
    else if (vw__snapshot_has_field(fields, VW__SNAPSHOT_KEY_TOTAL_SIZE))
        status = vw__snapshot_fold_segment(fold, folded);
    else if (has_all(fields, VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_STATE) |
                                 VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_SIZE)))
        status = vw__snapshot_fold_block(fold, folded);
    else if (vw__snapshot_has_field(fields, VW__SNAPSHOT_KEY_STAGE))
        status = fold_annotation(fold, folded);
    else if (vw__snapshot_has_field(fields, VW__SNAPSHOT_KEY_REAL_SIZE))
        status = vw__snapshot_fold_past(fold, folded);
    else
        return VW_OK; /* the outermost dict, the settings, or nothing that we know */
    if (__builtin_expect(fields->unknown_count != 0, 0) && status == VW_OK)
        vw__snapshot_ignore_unknown(fold, pairs, pair_count);
    return status;
}
