/* torch_snapshot_records.c - trace entries, segments and blocks.
 *
 * Fields came and went with PyTorch's releases (2.1 gave blocks an address, 2.2 entries a time);
 * what is missing is unknown, and what 1.13 and 2.0 kept in a block's `history` is found there. */
#include "parse/torch_snapshot_internal.h"

/* Until the segment is known: 1.x and 2.0 give blocks no address. */
#define NO_ADDRESS UINT64_MAX

/* ---- trace entries --------------------------------------------------------------------------- */

_Static_assert((int)VW__SNAPSHOT_WORD_ANNOTATE - (int)VW__SNAPSHOT_WORD_ALLOC ==
                   (int)VW__MODEL_ACTION_ANNOTATE,
               "the words of actions stand in the order of their numbers");

/* A note for an entry that has something unusual; VW__MODEL_NO_NOTE for most. */
static vw_status get_text(vw__snapshot_fold *fold, vw__snapshot_name key, vw__snapshot_name nothing,
                          uint32_t *id)
{
    *id = VW__MODEL_NO_STRING;
    if (!vw__snapshot_has_field(&fold->fields, key))
        return VW_OK;
    vw__value value = fold->fields.values[key];
    if (vw__value_get_kind(value) != VW__VALUE_STRING)
        return vw__snapshot_wrong_field(&fold->fields, key, "a string", value);
    if (vw__value_string_id(value) == nothing)
        return VW_OK;
    return vw__snapshot_fold_name(fold, value, id);
}

static vw_status get_note(vw__snapshot_fold *fold, vw__model_event *event)
{
    vw__model_note note = {.action = VW__MODEL_NO_STRING};
    VW__TRY(get_text(fold, VW__SNAPSHOT_KEY_COMPILE_CONTEXT, VW__SNAPSHOT_WORD_NOT_AVAILABLE,
                     &note.compile_context));
    VW__TRY(get_text(fold, VW__SNAPSHOT_KEY_USER_METADATA, VW__SNAPSHOT_WORD_NOTHING,
                     &note.user_metadata));
    VW__TRY(vw__snapshot_get_forward_stack(fold, &note.forward_stack));
    if (event->action == VW__MODEL_ACTION_OTHER)
        VW__TRY(vw__snapshot_fold_name(fold, fold->fields.values[VW__SNAPSHOT_KEY_ACTION],
                                       &note.action));
    if (note.action != VW__MODEL_NO_STRING || note.compile_context != VW__MODEL_NO_STRING ||
        note.user_metadata != VW__MODEL_NO_STRING || note.forward_stack != VW__MODEL_EMPTY_STACK)
        VW__TRY(vw__model_add_note(fold->builder, &note, &event->note));
    return VW_OK;
}

static vw_status get_action(const vw__snapshot_fields *fields, uint8_t *action)
{
    vw__value value = fields->values[VW__SNAPSHOT_KEY_ACTION];
    if (vw__value_get_kind(value) != VW__VALUE_STRING)
        return vw__snapshot_wrong_field(fields, VW__SNAPSHOT_KEY_ACTION, "a string", value);
    uint32_t number =
        vw__value_string_id(value) - VW__SNAPSHOT_WORD_ALLOC; /* wraps for other words */
    *action = (uint8_t)(number <= VW__MODEL_ACTION_ANNOTATE ? number : VW__MODEL_ACTION_OTHER);
    return VW_OK;
}

/* Which memory an entry is about. A number may be missing only for unknown actions and `snapshot`.
 */
static vw_status get_place(const vw__snapshot_fields *fields, vw__model_event *event)
{
    if (event->action < VW_ACTION_SNAPSHOT || event->action == VW_ACTION_OOM) {
        VW__TRY(vw__snapshot_need_field(fields, VW__SNAPSHOT_KEY_SIZE));
        if (event->action != VW_ACTION_OOM)
            VW__TRY(vw__snapshot_need_field(fields, VW__SNAPSHOT_KEY_ADDR));
    }
    VW__TRY(vw__snapshot_get_address(fields, VW__SNAPSHOT_KEY_ADDR, &event->address));
    if (event->action == VW_ACTION_OOM)
        VW__TRY(vw__snapshot_get_address(fields, VW__SNAPSHOT_KEY_DEVICE_FREE, &event->address));
    return vw__snapshot_get_size(fields, VW__SNAPSHOT_KEY_SIZE, &event->size_bytes);
}

vw_status vw__snapshot_fold_entry(vw__snapshot_fold *fold, vw__value *folded)
{
    vw__snapshot_fields *fields = &fold->fields;
    vw__model_event event = {.time_us = VW__MODEL_UNKNOWN_TIME,
                             .note = VW__MODEL_NO_NOTE,
                             .pool = VW__MODEL_UNKNOWN_POOL};
    size_t index;
    fields->record = "trace entry";
    fields->number = vw__model_builder_event_count(fold->builder);
    VW__TRY(get_action(fields, &event.action));
    VW__TRY(get_place(fields, &event));
    VW__TRY(vw__snapshot_get_signed(fields, VW__SNAPSHOT_KEY_TIME_US, &event.time_us));
    VW__TRY(vw__snapshot_get_stream(fold, &event.stream));
    VW__TRY(vw__snapshot_get_pool(fold, VW__SNAPSHOT_KEY_POOL_ID, &event.pool));
    VW__TRY(vw__snapshot_get_context(fold, &event.context));
    VW__TRY(get_note(fold, &event));
    VW__TRY(vw__model_add_event(fold->builder, &event, &index));
    fold->entry_keys |= fields->present;
    fold->has_contexts = fold->has_contexts || event.context != VW__MODEL_NO_CONTEXT;
    *folded =
        vw__value_folded(VW__SNAPSHOT_FOLDED_ENTRY, (uint32_t)index); /* the builder's limit */
    return VW_OK;
}

/* ---- usual trace entries ---------------------------------------------------------------------
 *
 * Hundreds of thousands of dicts with the same keys in the same order, integers that are not
 * negative, a context seen before, and nothing to note. */

#define NEEDED_KEYS                                                                                \
    (VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_ACTION) | VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_ADDR) | \
     VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_SIZE) | VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_STREAM) | \
     VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_TIME_US))
#define POSSIBLE_KEYS                                                                              \
    (NEEDED_KEYS | VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_FRAMES) |                                 \
     VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_POOL_ID) |                                              \
     VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_COMPILE_CONTEXT) |                                      \
     VW__SNAPSHOT_KEY_BIT(VW__SNAPSHOT_KEY_USER_METADATA))

void vw__snapshot_learn_usual_entry(vw__snapshot_fold *fold, const vw__value *pairs,
                                    size_t pair_count)
{
    vw__snapshot_usual_entry *usual = &fold->usual;
    uint64_t present = fold->fields.present;
    if ((present & NEEDED_KEYS) != NEEDED_KEYS || (present & ~POSSIBLE_KEYS) != 0 ||
        pair_count > VW__SNAPSHOT_USUAL_PAIRS ||
        (size_t)__builtin_popcountll(present) != pair_count)
        return; /* with something else, something unknown, a None, or a key twice */
    usual->pair_count = pair_count;
    usual->present = present;
    for (size_t i = 0; i < pair_count; i++) {
        usual->keys[i] = pairs[2 * i];
        usual->places[vw__value_string_id(pairs[2 * i])] = (uint8_t)(2 * i + 1);
    }
}

static bool has_usual_keys(const vw__snapshot_usual_entry *usual, const vw__value *pairs,
                           size_t pair_count)
{
    uint64_t difference = 0;
    if (pair_count != usual->pair_count || pair_count == 0)
        return false;
    for (size_t i = 0; i < pair_count; i++)
        difference |= pairs[2 * i] ^ usual->keys[i];
    return difference == 0;
}

/* The value of a key that may be missing. */
static vw__value usual_value(const vw__snapshot_usual_entry *usual, const vw__value *pairs,
                             vw__snapshot_name key, vw__value missing)
{
    return (usual->present & VW__SNAPSHOT_KEY_BIT(key)) != 0 ? pairs[usual->places[key]] : missing;
}

vw_status vw__snapshot_fold_usual_entry(vw__snapshot_fold *fold, const vw__value *pairs,
                                        size_t pair_count, vw__value *folded)
{
    const vw__snapshot_usual_entry *usual = &fold->usual;
    if (!has_usual_keys(usual, pairs, pair_count))
        return VW_OK;
    const vw__value zero = vw__value_make(VW__VALUE_INTEGER, 0);
    const vw__value not_available =
        vw__value_make(VW__VALUE_STRING, VW__SNAPSHOT_WORD_NOT_AVAILABLE);
    const vw__value nothing = vw__value_make(VW__VALUE_STRING, VW__SNAPSHOT_WORD_NOTHING);
    const vw__value first_action = vw__value_make(VW__VALUE_STRING, VW__SNAPSHOT_WORD_ALLOC);
    const vw__value no_context =
        vw__value_folded(VW__SNAPSHOT_FOLDED_CONTEXT, VW__MODEL_NO_CONTEXT);
    const vw__value no_pool = vw__value_folded(VW__SNAPSHOT_FOLDED_POOL, VW__MODEL_UNKNOWN_POOL);
    vw__value action = pairs[usual->places[VW__SNAPSHOT_KEY_ACTION]] - first_action;
    vw__value address = pairs[usual->places[VW__SNAPSHOT_KEY_ADDR]] ^ zero;
    vw__value size = pairs[usual->places[VW__SNAPSHOT_KEY_SIZE]] ^ zero;
    vw__value stream = pairs[usual->places[VW__SNAPSHOT_KEY_STREAM]] ^ zero;
    vw__value time = pairs[usual->places[VW__SNAPSHOT_KEY_TIME_US]] ^ zero;
    vw__value context = usual_value(usual, pairs, VW__SNAPSHOT_KEY_FRAMES, no_context) ^ no_context;
    vw__value pool = usual_value(usual, pairs, VW__SNAPSHOT_KEY_POOL_ID, no_pool) ^ no_pool;
    vw__value compile_context =
        usual_value(usual, pairs, VW__SNAPSHOT_KEY_COMPILE_CONTEXT, not_available) ^ not_available;
    vw__value metadata =
        usual_value(usual, pairs, VW__SNAPSHOT_KEY_USER_METADATA, nothing) ^ nothing;
    if ((address | size | stream | time) >= (uint64_t)VW__VALUE_INTEGER_INLINE_LIMIT ||
        (context | pool) > UINT32_MAX || (compile_context | metadata) != 0 ||
        action > VW__MODEL_ACTION_ANNOTATE)
        return VW_OK;
    vw__model_event event = {
        .address = address,
        .size_bytes = size,
        .time_us = (int64_t)time,
        .context = (uint32_t)(context ^ no_context),
        .note = VW__MODEL_NO_NOTE,
        .pool = (uint16_t)(pool ^ no_pool),
        .action = (uint8_t)action,
    };
    size_t index;
    VW__TRY(vw__snapshot_fold_stream(fold, stream, &event.stream));
    VW__TRY(vw__model_add_event(fold->builder, &event, &index));
    fold->entry_keys |= usual->present;
    fold->has_contexts |= event.context != VW__MODEL_NO_CONTEXT;
    *folded =
        vw__value_folded(VW__SNAPSHOT_FOLDED_ENTRY, (uint32_t)index); /* the builder's limit */
    return VW_OK;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

vw_status vw__snapshot_fold_past(vw__snapshot_fold *fold, vw__value *folded)
{
    vw__snapshot_past past = {VW__MODEL_UNKNOWN_BYTES, VW__MODEL_NO_CONTEXT};
    uint32_t place;
    fold->fields.record = "entry of a history";
    fold->fields.number = fold->pasts.count;
    VW__TRY(vw__snapshot_get_size(&fold->fields, VW__SNAPSHOT_KEY_REAL_SIZE, &past.real_bytes));
    VW__TRY(vw__snapshot_get_context(fold, &past.context));
    VW__TRY(vw__snapshot_folded_list_add(fold, &fold->pasts, &past, &place));
    *folded = vw__value_folded(VW__SNAPSHOT_FOLDED_PAST, place);
    return VW_OK;
}

static vw_status get_state(const vw__snapshot_fields *fields, uint8_t *state)
{
    vw__value value = fields->values[VW__SNAPSHOT_KEY_STATE];
    vw__snapshot_name word = VW__SNAPSHOT_NAME_COUNT;
    if (vw__value_get_kind(value) == VW__VALUE_STRING &&
        vw__value_string_id(value) < VW__SNAPSHOT_NAME_COUNT)
        word = (vw__snapshot_name)vw__value_string_id(value);
    if (word == VW__SNAPSHOT_WORD_ACTIVE_ALLOCATED)
        *state = VW_BLOCK_LIVE;
    else if (word == VW__SNAPSHOT_WORD_ACTIVE_PENDING_FREE ||
             word == VW__SNAPSHOT_WORD_ACTIVE_AWAITING_FREE)
        *state = VW_BLOCK_PENDING_FREE;
    else if (word == VW__SNAPSHOT_WORD_INACTIVE)
        *state = VW_BLOCK_FREE;
    else
        return vw__snapshot_wrong_field(fields, VW__SNAPSHOT_KEY_STATE,
                                        "active_allocated, active_pending_free or inactive", value);
    return VW_OK;
}

/* The latest entry of a block's history, which comes first. */
static vw_status get_past(vw__snapshot_fold *fold, vw__snapshot_past *past)
{
    vw__value value = fold->fields.values[VW__SNAPSHOT_KEY_HISTORY], first;
    uint64_t cursor = 0;
    if (!vw__snapshot_has_field(&fold->fields, VW__SNAPSHOT_KEY_HISTORY))
        return VW_OK;
    if (vw__value_get_kind(value) != VW__VALUE_LIST)
        return vw__snapshot_wrong_field(&fold->fields, VW__SNAPSHOT_KEY_HISTORY, "a list", value);
    if (!vw__value_next_item(fold->document, value, &cursor, &first))
        return VW_OK;
    if (vw__value_get_kind(first) != VW__VALUE_FOLDED ||
        vw__value_folded_kind(first) != VW__SNAPSHOT_FOLDED_PAST)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "block %zu: history: item 0: expected a dict with real_size, found %s",
                        fold->fields.number, vw__snapshot_value_name(first));
    *past = ((const vw__snapshot_past *)fold->pasts.items)[vw__value_folded_id(first)];
    return VW_OK;
}

vw_status vw__snapshot_fold_block(vw__snapshot_fold *fold, vw__value *folded)
{
    vw__snapshot_fields *fields = &fold->fields;
    vw__model_block block = {.address = NO_ADDRESS, .requested_bytes = VW__MODEL_UNKNOWN_BYTES};
    vw__snapshot_past past = {VW__MODEL_UNKNOWN_BYTES, VW__MODEL_NO_CONTEXT};
    size_t index;
    fields->record = "block";
    fields->number = fold->block_count++;
    VW__TRY(vw__snapshot_get_address(fields, VW__SNAPSHOT_KEY_ADDRESS, &block.address));
    VW__TRY(vw__snapshot_get_size(fields, VW__SNAPSHOT_KEY_SIZE, &block.size_bytes));
    VW__TRY(vw__snapshot_get_size(fields, VW__SNAPSHOT_KEY_REQUESTED_SIZE, &block.requested_bytes));
    VW__TRY(get_state(fields, &block.state));
    VW__TRY(vw__snapshot_get_context(fold, &block.context));
    VW__TRY(get_past(fold, &past));
    if (block.requested_bytes == VW__MODEL_UNKNOWN_BYTES)
        block.requested_bytes = past.real_bytes;
    if (block.context == VW__MODEL_NO_CONTEXT)
        block.context = past.context;
    VW__TRY(vw__model_add_block(fold->builder, &block, &index));
    fold->block_keys |= fields->present;
    *folded =
        vw__value_folded(VW__SNAPSHOT_FOLDED_BLOCK, (uint32_t)index); /* the builder's limit */
    return VW_OK;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* The blocks of a list as one run: where they lie already, as they nearly always do, else as
 * copies behind all others. A run that has its segment is copied too, so each block belongs to one
 * segment, and a file that uses a long list a thousand times over pays for it in memory, which is
 * limited. */
static vw_status gather_blocks(vw__snapshot_fold *fold, vw__value list, vw__model_segment *segment)
{
    vw__value item;
    bool is_run = true;
    for (uint64_t cursor = 0; vw__value_next_item(fold->document, list, &cursor, &item);) {
        if (vw__value_get_kind(item) != VW__VALUE_FOLDED ||
            vw__value_folded_kind(item) != VW__SNAPSHOT_FOLDED_BLOCK)
            return vw__fail(
                VW_ERR_CORRUPT_FILE,
                "segment %zu: blocks: item %zu: expected a block (a dict with size and state), "
                "found %s",
                fold->fields.number, segment->block_count, vw__snapshot_value_name(item));
        size_t index = vw__value_folded_id(item);
        if (segment->block_count == 0)
            segment->first_block = index;
        is_run = is_run && index >= fold->first_free_block &&
                 index == segment->first_block + segment->block_count;
        segment->block_count++;
    }
    size_t count = 0;
    for (uint64_t cursor = 0; !is_run && vw__value_next_item(fold->document, list, &cursor, &item);
         count++) {
        vw__model_block copy = *vw__model_builder_block(fold->builder, vw__value_folded_id(item));
        size_t index;
        VW__TRY(vw__model_add_block(fold->builder, &copy, &index));
        if (count == 0)
            segment->first_block = index;
    }
    return VW_OK;
}

/* Addresses that the file does not give, and sums that it does not. */
static void complete_blocks(vw__snapshot_fold *fold, vw__model_segment *segment)
{
    uint64_t next_address = segment->address;
    for (size_t i = 0; i < segment->block_count; i++) {
        vw__model_block *block = vw__model_builder_block(fold->builder, segment->first_block + i);
        if (block->address == NO_ADDRESS)
            block->address = next_address;
        next_address = block->address + block->size_bytes; /* may wrap: model_check.h will see */
        if (!vw__snapshot_has_field(&fold->fields, VW__SNAPSHOT_KEY_ALLOCATED_SIZE) &&
            block->state == VW_BLOCK_LIVE)
            segment->allocated_bytes += block->size_bytes;
        if (!vw__snapshot_has_field(&fold->fields, VW__SNAPSHOT_KEY_ACTIVE_SIZE) &&
            block->state != VW_BLOCK_FREE)
            segment->active_bytes += block->size_bytes;
    }
}

static vw_status get_blocks(vw__snapshot_fold *fold, vw__model_segment *segment)
{
    vw__value list = fold->fields.values[VW__SNAPSHOT_KEY_BLOCKS];
    if (!vw__snapshot_has_field(&fold->fields, VW__SNAPSHOT_KEY_BLOCKS)) {
        VW__TRY(vw__snapshot_need_field(&fold->fields, VW__SNAPSHOT_KEY_ALLOCATED_SIZE));
        return vw__snapshot_need_field(&fold->fields, VW__SNAPSHOT_KEY_ACTIVE_SIZE);
    }
    if (vw__value_get_kind(list) != VW__VALUE_LIST)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "segment %zu: blocks: expected a list of blocks, found %s",
                        fold->fields.number, vw__snapshot_value_name(list));
    VW__TRY(gather_blocks(fold, list, segment));
    if (segment->block_count == 0)
        return VW_OK;
    complete_blocks(fold, segment);
    size_t end = segment->first_block + segment->block_count;
    fold->first_free_block = end > fold->first_free_block ? end : fold->first_free_block;
    vw__document_fold_list(fold->document, list,
                           vw__value_folded(VW__SNAPSHOT_FOLDED_USED_BLOCKS, 0));
    return VW_OK;
}

static vw_status get_segment_type(const vw__snapshot_fields *fields, bool *is_large)
{
    vw__value value = fields->values[VW__SNAPSHOT_KEY_SEGMENT_TYPE];
    if (!vw__snapshot_has_field(fields, VW__SNAPSHOT_KEY_SEGMENT_TYPE))
        return VW_OK;
    uint32_t word = vw__value_string_id(value);
    if (vw__value_get_kind(value) != VW__VALUE_STRING ||
        (word != VW__SNAPSHOT_WORD_LARGE && word != VW__SNAPSHOT_WORD_SMALL))
        return vw__snapshot_wrong_field(fields, VW__SNAPSHOT_KEY_SEGMENT_TYPE, "large or small",
                                        value);
    *is_large = word == VW__SNAPSHOT_WORD_LARGE;
    return VW_OK;
}

vw_status vw__snapshot_fold_segment(vw__snapshot_fold *fold, vw__value *folded)
{
    vw__snapshot_fields *fields = &fold->fields;
    vw__model_segment segment = {.requested_bytes = VW__MODEL_UNKNOWN_BYTES,
                                 .pool = VW__MODEL_UNKNOWN_POOL};
    uint32_t place;
    fields->record = "segment";
    fields->number = fold->segments.count;
    VW__TRY(vw__snapshot_need_field(fields, VW__SNAPSHOT_KEY_ADDRESS));
    VW__TRY(vw__snapshot_get_address(fields, VW__SNAPSHOT_KEY_ADDRESS, &segment.address));
    VW__TRY(vw__snapshot_get_size(fields, VW__SNAPSHOT_KEY_TOTAL_SIZE, &segment.total_bytes));
    VW__TRY(
        vw__snapshot_get_size(fields, VW__SNAPSHOT_KEY_ALLOCATED_SIZE, &segment.allocated_bytes));
    VW__TRY(vw__snapshot_get_size(fields, VW__SNAPSHOT_KEY_ACTIVE_SIZE, &segment.active_bytes));
    VW__TRY(
        vw__snapshot_get_size(fields, VW__SNAPSHOT_KEY_REQUESTED_SIZE, &segment.requested_bytes));
    VW__TRY(vw__snapshot_get_device(fields,
                                    &segment.device)); /* the first, where the file does not say */
    VW__TRY(vw__snapshot_get_stream(fold, &segment.stream));
    VW__TRY(vw__snapshot_get_pool(fold, VW__SNAPSHOT_KEY_SEGMENT_POOL_ID, &segment.pool));
    VW__TRY(get_segment_type(fields, &segment.is_large));
    VW__TRY(
        vw__snapshot_get_boolean(fields, VW__SNAPSHOT_KEY_IS_EXPANDABLE, &segment.is_expandable));
    VW__TRY(vw__snapshot_get_context(fold, &segment.context));
    VW__TRY(get_blocks(fold, &segment));
    const vw__snapshot_segment folded_segment = {.segment = segment};
    VW__TRY(vw__snapshot_folded_list_add(fold, &fold->segments, &folded_segment, &place));
    *folded = vw__value_folded(VW__SNAPSHOT_FOLDED_SEGMENT, place);
    return VW_OK;
}
