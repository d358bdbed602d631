/* torch_snapshot_records.c - trace entries, segments and blocks.
 *
 * Fields came and went with PyTorch's releases (2.1 gave blocks an address, 2.2 entries a time);
 * what is missing is unknown, and what 1.13 and 2.0 kept in a block's `history` is found there. */
#include "format/torch_snapshot_fold.h"

/* Until the segment is known: 1.x and 2.0 give blocks no address. */
#define NO_ADDRESS UINT64_MAX

/* ---- trace entries --------------------------------------------------------------------------- */

_Static_assert((int)HR__WORD_ANNOTATE - (int)HR__WORD_ALLOC == (int)HR__ACTION_ANNOTATE,
               "the words of actions stand in the order of their numbers");

/* A note for an entry that has something unusual; HR__NO_NOTE for most. */
static hr_status get_text(hr__snapshot_fold *fold, hr__snapshot_name key, hr__snapshot_name nothing,
                          uint32_t *id)
{
    *id = HR__NO_STRING;
    if (!hr__has_field(&fold->fields, key))
        return HR_OK;
    hr__value value = fold->fields.values[key];
    if (hr__value_get_kind(value) != HR__VALUE_STRING)
        return hr__wrong_field(&fold->fields, key, "a string", value);
    if (hr__value_string_id(value) == nothing)
        return HR_OK;
    return hr__fold_string(fold, value, id);
}

static hr_status get_note(hr__snapshot_fold *fold, hr__model_event *event)
{
    hr__model_note note = {.action = HR__NO_STRING};
    HR__TRY(get_text(fold, HR__KEY_COMPILE_CONTEXT, HR__WORD_NOT_AVAILABLE, &note.compile_context));
    HR__TRY(get_text(fold, HR__KEY_USER_METADATA, HR__WORD_NOTHING, &note.user_metadata));
    HR__TRY(hr__get_forward_stack(fold, &note.forward_stack));
    if (event->action == HR__ACTION_OTHER)
        HR__TRY(hr__fold_string(fold, fold->fields.values[HR__KEY_ACTION], &note.action));
    if (note.action != HR__NO_STRING || note.compile_context != HR__NO_STRING ||
        note.user_metadata != HR__NO_STRING || note.forward_stack != HR__EMPTY_STACK)
        HR__TRY(hr__model_add_note(fold->builder, &note, &event->note));
    return HR_OK;
}

static hr_status get_action(const hr__snapshot_fields *fields, uint8_t *action)
{
    hr__value value = fields->values[HR__KEY_ACTION];
    if (hr__value_get_kind(value) != HR__VALUE_STRING)
        return hr__wrong_field(fields, HR__KEY_ACTION, "a string", value);
    uint32_t number = hr__value_string_id(value) - HR__WORD_ALLOC; /* wraps for other words */
    *action = (uint8_t)(number <= HR__ACTION_ANNOTATE ? number : HR__ACTION_OTHER);
    return HR_OK;
}

/* Which memory an entry is about. Only of actions that we do not know, and of `snapshot`, may a
 * number be missing. */
static hr_status get_place(const hr__snapshot_fields *fields, hr__model_event *event)
{
    if (event->action < HR_ACTION_SNAPSHOT || event->action == HR_ACTION_OOM) {
        HR__TRY(hr__need_field(fields, HR__KEY_SIZE));
        if (event->action != HR_ACTION_OOM)
            HR__TRY(hr__need_field(fields, HR__KEY_ADDR));
    }
    HR__TRY(hr__get_address(fields, HR__KEY_ADDR, &event->address));
    if (event->action == HR_ACTION_OOM)
        HR__TRY(hr__get_address(fields, HR__KEY_DEVICE_FREE, &event->address));
    return hr__get_size(fields, HR__KEY_SIZE, &event->size_bytes);
}

hr_status hr__fold_entry(hr__snapshot_fold *fold, hr__value *folded)
{
    hr__snapshot_fields *fields = &fold->fields;
    hr__model_event event = {
        .time_us = HR__UNKNOWN_TIME, .note = HR__NO_NOTE, .pool = HR__UNKNOWN_POOL};
    size_t index;
    fields->record = "trace entry";
    fields->number = hr__model_builder_event_count(fold->builder);
    HR__TRY(get_action(fields, &event.action));
    HR__TRY(get_place(fields, &event));
    HR__TRY(hr__get_signed(fields, HR__KEY_TIME_US, &event.time_us));
    HR__TRY(hr__get_stream(fold, &event.stream));
    HR__TRY(hr__get_pool(fold, HR__KEY_POOL_ID, &event.pool));
    HR__TRY(hr__get_context(fold, &event.context));
    HR__TRY(get_note(fold, &event));
    HR__TRY(hr__model_add_event(fold->builder, &event, &index));
    fold->entry_keys |= fields->present;
    fold->has_contexts = fold->has_contexts || event.context != HR__NO_CONTEXT;
    *folded = hr__value_folded(HR__FOLDED_ENTRY, (uint32_t)index); /* the builder's limit */
    return HR_OK;
}

/* ---- usual trace entries ---------------------------------------------------------------------
 *
 * Hundreds of thousands of dicts with the same keys in the same order, integers that are not
 * negative, a context seen before, and nothing to note. */

#define NEEDED_KEYS                                                                                \
    (HR__KEY_BIT(HR__KEY_ACTION) | HR__KEY_BIT(HR__KEY_ADDR) | HR__KEY_BIT(HR__KEY_SIZE) |         \
     HR__KEY_BIT(HR__KEY_STREAM) | HR__KEY_BIT(HR__KEY_TIME_US))
#define POSSIBLE_KEYS                                                                              \
    (NEEDED_KEYS | HR__KEY_BIT(HR__KEY_FRAMES) | HR__KEY_BIT(HR__KEY_POOL_ID) |                    \
     HR__KEY_BIT(HR__KEY_COMPILE_CONTEXT) | HR__KEY_BIT(HR__KEY_USER_METADATA))

void hr__learn_usual_entry(hr__snapshot_fold *fold, const hr__value *pairs, size_t pair_count)
{
    hr__usual_entry *usual = &fold->usual;
    uint64_t present = fold->fields.present;
    if ((present & NEEDED_KEYS) != NEEDED_KEYS || (present & ~POSSIBLE_KEYS) != 0 ||
        pair_count > HR__USUAL_PAIRS || (size_t)__builtin_popcountll(present) != pair_count)
        return; /* with something else, something unknown, a None, or a key twice */
    usual->pair_count = pair_count;
    usual->present = present;
    for (size_t i = 0; i < pair_count; i++) {
        usual->keys[i] = pairs[2 * i];
        usual->places[hr__value_string_id(pairs[2 * i])] = (uint8_t)(2 * i + 1);
    }
}

static bool has_usual_keys(const hr__usual_entry *usual, const hr__value *pairs, size_t pair_count)
{
    uint64_t difference = 0;
    if (pair_count != usual->pair_count || pair_count == 0)
        return false;
    for (size_t i = 0; i < pair_count; i++)
        difference |= pairs[2 * i] ^ usual->keys[i];
    return difference == 0;
}

/* The value of a key that may be missing. */
static hr__value usual_value(const hr__usual_entry *usual, const hr__value *pairs,
                             hr__snapshot_name key, hr__value missing)
{
    return (usual->present & HR__KEY_BIT(key)) != 0 ? pairs[usual->places[key]] : missing;
}

hr_status hr__fold_usual_entry(hr__snapshot_fold *fold, const hr__value *pairs, size_t pair_count,
                               hr__value *folded)
{
    const hr__usual_entry *usual = &fold->usual;
    if (!has_usual_keys(usual, pairs, pair_count))
        return HR_OK;
    const hr__value zero = hr__value_make(HR__VALUE_INTEGER, 0);
    const hr__value not_available = hr__value_make(HR__VALUE_STRING, HR__WORD_NOT_AVAILABLE);
    const hr__value nothing = hr__value_make(HR__VALUE_STRING, HR__WORD_NOTHING);
    const hr__value first_action = hr__value_make(HR__VALUE_STRING, HR__WORD_ALLOC);
    const hr__value no_context = hr__value_folded(HR__FOLDED_CONTEXT, HR__NO_CONTEXT);
    const hr__value no_pool = hr__value_folded(HR__FOLDED_POOL, HR__UNKNOWN_POOL);
    hr__value action = pairs[usual->places[HR__KEY_ACTION]] - first_action;
    hr__value address = pairs[usual->places[HR__KEY_ADDR]] ^ zero;
    hr__value size = pairs[usual->places[HR__KEY_SIZE]] ^ zero;
    hr__value stream = pairs[usual->places[HR__KEY_STREAM]] ^ zero;
    hr__value time = pairs[usual->places[HR__KEY_TIME_US]] ^ zero;
    hr__value context = usual_value(usual, pairs, HR__KEY_FRAMES, no_context) ^ no_context;
    hr__value pool = usual_value(usual, pairs, HR__KEY_POOL_ID, no_pool) ^ no_pool;
    hr__value compile_context =
        usual_value(usual, pairs, HR__KEY_COMPILE_CONTEXT, not_available) ^ not_available;
    hr__value metadata = usual_value(usual, pairs, HR__KEY_USER_METADATA, nothing) ^ nothing;
    if ((address | size | stream | time) >= (uint64_t)HR__INTEGER_INLINE_LIMIT ||
        (context | pool) > UINT32_MAX || (compile_context | metadata) != 0 ||
        action > HR__ACTION_ANNOTATE)
        return HR_OK;
    hr__model_event event = {
        .address = address,
        .size_bytes = size,
        .time_us = (int64_t)time,
        .context = (uint32_t)(context ^ no_context),
        .note = HR__NO_NOTE,
        .pool = (uint16_t)(pool ^ no_pool),
        .action = (uint8_t)action,
    };
    size_t index;
    HR__TRY(hr__fold_stream(fold, stream, &event.stream));
    HR__TRY(hr__model_add_event(fold->builder, &event, &index));
    fold->entry_keys |= usual->present;
    fold->has_contexts |= event.context != HR__NO_CONTEXT;
    *folded = hr__value_folded(HR__FOLDED_ENTRY, (uint32_t)index); /* the builder's limit */
    return HR_OK;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

hr_status hr__fold_past(hr__snapshot_fold *fold, hr__value *folded)
{
    hr__past past = {HR__UNKNOWN_BYTES, HR__NO_CONTEXT};
    uint32_t place;
    fold->fields.record = "entry of a history";
    fold->fields.number = fold->pasts.count;
    HR__TRY(hr__get_size(&fold->fields, HR__KEY_REAL_SIZE, &past.real_bytes));
    HR__TRY(hr__get_context(fold, &past.context));
    HR__TRY(hr__folded_list_add(fold, &fold->pasts, &past, &place));
    *folded = hr__value_folded(HR__FOLDED_PAST, place);
    return HR_OK;
}

static hr_status get_state(const hr__snapshot_fields *fields, uint8_t *state)
{
    hr__value value = fields->values[HR__KEY_STATE];
    hr__snapshot_name word = HR__SNAPSHOT_NAME_COUNT;
    if (hr__value_get_kind(value) == HR__VALUE_STRING &&
        hr__value_string_id(value) < HR__SNAPSHOT_NAME_COUNT)
        word = (hr__snapshot_name)hr__value_string_id(value);
    if (word == HR__WORD_ACTIVE_ALLOCATED)
        *state = HR_BLOCK_LIVE;
    else if (word == HR__WORD_ACTIVE_PENDING_FREE || word == HR__WORD_ACTIVE_AWAITING_FREE)
        *state = HR_BLOCK_PENDING_FREE;
    else if (word == HR__WORD_INACTIVE)
        *state = HR_BLOCK_FREE;
    else
        return hr__wrong_field(fields, HR__KEY_STATE,
                               "active_allocated, active_pending_free or inactive", value);
    return HR_OK;
}

/* The latest entry of a block's history, which comes first. */
static hr_status get_past(hr__snapshot_fold *fold, hr__past *past)
{
    hr__value value = fold->fields.values[HR__KEY_HISTORY], first;
    uint64_t cursor = 0;
    if (!hr__has_field(&fold->fields, HR__KEY_HISTORY))
        return HR_OK;
    if (hr__value_get_kind(value) != HR__VALUE_LIST)
        return hr__wrong_field(&fold->fields, HR__KEY_HISTORY, "a list", value);
    if (!hr__value_next_item(fold->document, value, &cursor, &first))
        return HR_OK;
    if (hr__value_get_kind(first) != HR__VALUE_FOLDED ||
        hr__value_folded_kind(first) != HR__FOLDED_PAST)
        return hr__fail(HR_ERR_CORRUPT_FILE,
                        "block %zu: history: item 0: expected a dict with real_size, found %s",
                        fold->fields.number, hr__snapshot_value_name(first));
    *past = ((const hr__past *)fold->pasts.items)[hr__value_folded_id(first)];
    return HR_OK;
}

hr_status hr__fold_block(hr__snapshot_fold *fold, hr__value *folded)
{
    hr__snapshot_fields *fields = &fold->fields;
    hr__model_block block = {.address = NO_ADDRESS, .requested_bytes = HR__UNKNOWN_BYTES};
    hr__past past = {HR__UNKNOWN_BYTES, HR__NO_CONTEXT};
    size_t index;
    fields->record = "block";
    fields->number = fold->block_count++;
    HR__TRY(hr__get_address(fields, HR__KEY_ADDRESS, &block.address));
    HR__TRY(hr__get_size(fields, HR__KEY_SIZE, &block.size_bytes));
    HR__TRY(hr__get_size(fields, HR__KEY_REQUESTED_SIZE, &block.requested_bytes));
    HR__TRY(get_state(fields, &block.state));
    HR__TRY(hr__get_context(fold, &block.context));
    HR__TRY(get_past(fold, &past));
    if (block.requested_bytes == HR__UNKNOWN_BYTES)
        block.requested_bytes = past.real_bytes;
    if (block.context == HR__NO_CONTEXT)
        block.context = past.context;
    HR__TRY(hr__model_add_block(fold->builder, &block, &index));
    fold->block_keys |= fields->present;
    *folded = hr__value_folded(HR__FOLDED_BLOCK, (uint32_t)index); /* the builder's limit */
    return HR_OK;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* The blocks of a list as one run: where they lie already, as they nearly always do, else as
 * copies behind all others. A run that has its segment is copied too, so each block belongs to one
 * segment, and a file that uses a long list a thousand times over pays for it in memory, which is
 * limited. */
static hr_status gather_blocks(hr__snapshot_fold *fold, hr__value list, hr__model_segment *segment)
{
    hr__value item;
    bool is_run = true;
    for (uint64_t cursor = 0; hr__value_next_item(fold->document, list, &cursor, &item);) {
        if (hr__value_get_kind(item) != HR__VALUE_FOLDED ||
            hr__value_folded_kind(item) != HR__FOLDED_BLOCK)
            return hr__fail(
                HR_ERR_CORRUPT_FILE,
                "segment %zu: blocks: item %zu: expected a block (a dict with size and state), "
                "found %s",
                fold->fields.number, segment->block_count, hr__snapshot_value_name(item));
        size_t index = hr__value_folded_id(item);
        if (segment->block_count == 0)
            segment->first_block = index;
        is_run = is_run && index >= fold->first_free_block &&
                 index == segment->first_block + segment->block_count;
        segment->block_count++;
    }
    size_t count = 0;
    for (uint64_t cursor = 0; !is_run && hr__value_next_item(fold->document, list, &cursor, &item);
         count++) {
        hr__model_block copy = *hr__model_builder_block(fold->builder, hr__value_folded_id(item));
        size_t index;
        HR__TRY(hr__model_add_block(fold->builder, &copy, &index));
        if (count == 0)
            segment->first_block = index;
    }
    return HR_OK;
}

/* Addresses that the file does not give, and sums that it does not. */
static void complete_blocks(hr__snapshot_fold *fold, hr__model_segment *segment)
{
    uint64_t next_address = segment->address;
    for (size_t i = 0; i < segment->block_count; i++) {
        hr__model_block *block = hr__model_builder_block(fold->builder, segment->first_block + i);
        if (block->address == NO_ADDRESS)
            block->address = next_address;
        next_address = block->address + block->size_bytes; /* may wrap: model_check.h will see */
        if (!hr__has_field(&fold->fields, HR__KEY_ALLOCATED_SIZE) && block->state == HR_BLOCK_LIVE)
            segment->allocated_bytes += block->size_bytes;
        if (!hr__has_field(&fold->fields, HR__KEY_ACTIVE_SIZE) && block->state != HR_BLOCK_FREE)
            segment->active_bytes += block->size_bytes;
    }
}

static hr_status get_blocks(hr__snapshot_fold *fold, hr__model_segment *segment)
{
    hr__value list = fold->fields.values[HR__KEY_BLOCKS];
    if (!hr__has_field(&fold->fields, HR__KEY_BLOCKS)) {
        HR__TRY(hr__need_field(&fold->fields, HR__KEY_ALLOCATED_SIZE));
        return hr__need_field(&fold->fields, HR__KEY_ACTIVE_SIZE);
    }
    if (hr__value_get_kind(list) != HR__VALUE_LIST)
        return hr__fail(HR_ERR_CORRUPT_FILE,
                        "segment %zu: blocks: expected a list of blocks, found %s",
                        fold->fields.number, hr__snapshot_value_name(list));
    HR__TRY(gather_blocks(fold, list, segment));
    if (segment->block_count == 0)
        return HR_OK;
    complete_blocks(fold, segment);
    size_t end = segment->first_block + segment->block_count;
    fold->first_free_block = end > fold->first_free_block ? end : fold->first_free_block;
    hr__document_fold_list(fold->document, list, hr__value_folded(HR__FOLDED_USED_BLOCKS, 0));
    return HR_OK;
}

static hr_status get_segment_type(const hr__snapshot_fields *fields, bool *is_large)
{
    hr__value value = fields->values[HR__KEY_SEGMENT_TYPE];
    if (!hr__has_field(fields, HR__KEY_SEGMENT_TYPE))
        return HR_OK;
    uint32_t word = hr__value_string_id(value);
    if (hr__value_get_kind(value) != HR__VALUE_STRING ||
        (word != HR__WORD_LARGE && word != HR__WORD_SMALL))
        return hr__wrong_field(fields, HR__KEY_SEGMENT_TYPE, "large or small", value);
    *is_large = word == HR__WORD_LARGE;
    return HR_OK;
}

hr_status hr__fold_segment(hr__snapshot_fold *fold, hr__value *folded)
{
    hr__snapshot_fields *fields = &fold->fields;
    hr__model_segment segment = {.requested_bytes = HR__UNKNOWN_BYTES, .pool = HR__UNKNOWN_POOL};
    uint32_t place;
    fields->record = "segment";
    fields->number = fold->segments.count;
    HR__TRY(hr__need_field(fields, HR__KEY_ADDRESS));
    HR__TRY(hr__get_address(fields, HR__KEY_ADDRESS, &segment.address));
    HR__TRY(hr__get_size(fields, HR__KEY_TOTAL_SIZE, &segment.total_bytes));
    HR__TRY(hr__get_size(fields, HR__KEY_ALLOCATED_SIZE, &segment.allocated_bytes));
    HR__TRY(hr__get_size(fields, HR__KEY_ACTIVE_SIZE, &segment.active_bytes));
    HR__TRY(hr__get_size(fields, HR__KEY_REQUESTED_SIZE, &segment.requested_bytes));
    HR__TRY(hr__get_device(fields, &segment.device)); /* the first, where the file does not say */
    HR__TRY(hr__get_stream(fold, &segment.stream));
    HR__TRY(hr__get_pool(fold, HR__KEY_SEGMENT_POOL_ID, &segment.pool));
    HR__TRY(get_segment_type(fields, &segment.is_large));
    HR__TRY(hr__get_boolean(fields, HR__KEY_IS_EXPANDABLE, &segment.is_expandable));
    HR__TRY(hr__get_context(fold, &segment.context));
    HR__TRY(get_blocks(fold, &segment));
    HR__TRY(hr__folded_list_add(fold, &fold->segments, &segment, &place));
    *folded = hr__value_folded(HR__FOLDED_SEGMENT, place);
    return HR_OK;
}
