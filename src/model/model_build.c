/* model_build.c - arrays that grow, indexes that find what is there already, and the hand-over.
 *
 * Every array grows in host memory of its own (larger()) and is handed to the model as it is: at
 * the end of a large file nothing is copied, only the unused ends are given back. (realloc() of
 * something this large moves pages, not bytes, unless the program told malloc otherwise.)
 *
 *   array_bytes + index_bytes <= limit_bytes - strings' share, always */
#include "model/model_build.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "model/id_index.h"
#include "model/model_check.h"
#include "model/segment_sort.h"

/* Numbers that fit their fields, with the value for "none" kept free. */
#define MOST_RECORDS ((size_t)UINT32_MAX - 1)
#define MOST_STREAMS ((size_t)UINT16_MAX)
#define MOST_POOLS ((size_t)UINT16_MAX)

typedef struct growing_array {
    void *items; /* owned */
    size_t count;
    size_t capacity;
    size_t item_bytes;
    size_t count_limit;
    const char *what; /* for messages */
} growing_array;

typedef struct trace_run {
    size_t first_event;
    size_t event_count;
    int device;
} trace_run;

typedef enum array_name {
    FRAMES,
    FRAME_IDS,
    STACKS,
    CONTEXTS,
    NOTES,
    STREAMS,
    POOLS,
    EVENTS,
    TRACE_RUNS,
    SEGMENTS,
    BLOCKS,
    ANNOTATIONS,
    SETTINGS,
    ARRAY_COUNT
} array_name;

typedef enum index_name {
    FRAME_INDEX,
    STACK_INDEX,
    NOTE_INDEX,
    STREAM_INDEX,
    POOL_INDEX,
    INDEX_COUNT
} index_name;

struct hr__model_builder {
    hr__model *model; /* owned; its arrays are set at the end */
    growing_array arrays[ARRAY_COUNT];
    hr__id_index indexes[INDEX_COUNT];
    size_t array_limit_bytes; /* of arrays and indexes together */
    size_t held_bytes;        /* of arrays and indexes together */
    hr__model_event_bounds bounds;
    uint64_t seed;
};

/* ---- growing --------------------------------------------------------------------------------- */

static hr_status charge(hr__model_builder *builder, size_t more_bytes, const char *what)
{
    if (more_bytes > builder->array_limit_bytes - builder->held_bytes)
        return hr__fail(HR_ERR_UNSUPPORTED,
                        "the recording needs more memory than it may take: %zu bytes for %s, with "
                        "%zu of %zu in use",
                        more_bytes, what, builder->held_bytes, builder->array_limit_bytes);
    builder->held_bytes += more_bytes;
    return HR_OK;
}

/* Twofold; but an array that has become large leaps once, to where most recordings end: what is
 * not used yet is only addresses, but where realloc() cannot move pages, what is moved is bytes. */
static size_t larger(const hr__model_builder *builder, const growing_array *array, size_t capacity)
{
    enum { LARGE_BYTES = 512 << 10, LEAP_BYTES = 32 << 20 };
    size_t leap = LEAP_BYTES / array->item_bytes;
    bool is_near_limit = LEAP_BYTES > (builder->array_limit_bytes - builder->held_bytes) / 4;
    bool leaps = capacity * array->item_bytes >= LARGE_BYTES && capacity < leap / 2;
    return leaps && !is_near_limit ? leap : 2 * capacity;
}

/* Room for `more` items. */
static hr_status grow(hr__model_builder *builder, growing_array *array, size_t more)
{
    enum { FIRST_CAPACITY = 16 };
    if (more > array->count_limit - array->count)
        return hr__fail(HR_ERR_UNSUPPORTED, "the recording has more than %zu %s",
                        array->count_limit, array->what);
    size_t wanted = array->count + more;
    size_t capacity = array->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : array->capacity;
    while (capacity < wanted)
        capacity = larger(builder, array, capacity); /* no overflow: counts are below 2^33 */
    if (capacity > array->count_limit)
        capacity = array->count_limit; /* so that running into it brings us here */
    size_t more_bytes = (capacity - array->capacity) * array->item_bytes;
    HR__TRY(charge(builder, more_bytes, array->what));
    void *items = hr__host_realloc(array->items, capacity * array->item_bytes);
    if (items == NULL) {
        builder->held_bytes -= more_bytes;
        return hr__fail_host_memory(capacity * array->item_bytes, array->what);
    }
    array->items = items;
    array->capacity = capacity;
    return HR_OK;
}

/* Where the next `more` items go; the caller fills them and raises the count. */
static inline hr_status reserve(hr__model_builder *builder, growing_array *array, size_t more)
{
    if (__builtin_expect(more > array->capacity - array->count, 0))
        return grow(builder, array, more);
    return HR_OK;
}

static hr_status append(hr__model_builder *builder, array_name name, const void *item,
                        size_t *index)
{
    growing_array *array = &builder->arrays[name];
    HR__TRY(reserve(builder, array, 1));
    memcpy((char *)array->items + array->count * array->item_bytes, item, array->item_bytes);
    *index = array->count++;
    return HR_OK;
}

static hr_status reserve_index(hr__model_builder *builder, index_name name, const char *what)
{
    hr__id_index *index = &builder->indexes[name];
    size_t wanted_bytes = hr__id_index_wanted_bytes(index);
    if (wanted_bytes == 0)
        return HR_OK;
    size_t old_bytes = index->capacity * sizeof *index->slots;
    HR__TRY(charge(builder, wanted_bytes, what)); /* both are there for a moment */
    if (!hr__id_index_reserve(index)) {
        builder->held_bytes -= wanted_bytes;
        return hr__fail_host_memory(wanted_bytes, what);
    }
    builder->held_bytes -= old_bytes;
    return HR_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static const growing_array empty_arrays[ARRAY_COUNT] = {
    [FRAMES] = {NULL, 0, 0, sizeof(hr__model_frame), MOST_RECORDS, "frames"},
    [FRAME_IDS] = {NULL, 0, 0, sizeof(uint32_t), MOST_RECORDS, "frames of stacks"},
    [STACKS] = {NULL, 0, 0, sizeof(hr__model_stack), MOST_RECORDS, "stacks"},
    [CONTEXTS] = {NULL, 0, 0, sizeof(uint32_t), MOST_RECORDS, "captured stacks"},
    [NOTES] = {NULL, 0, 0, sizeof(hr__model_note), MOST_RECORDS, "notes"},
    [STREAMS] = {NULL, 0, 0, sizeof(hr_stream), MOST_STREAMS, "streams"},
    [POOLS] = {NULL, 0, 0, sizeof(hr_private_id), MOST_POOLS, "private pools"},
    [EVENTS] = {NULL, 0, 0, sizeof(hr__model_event), MOST_RECORDS, "events"},
    [TRACE_RUNS] = {NULL, 0, 0, sizeof(trace_run), 1 << 16, "traces"},
    [SEGMENTS] = {NULL, 0, 0, sizeof(hr__model_segment), MOST_RECORDS, "segments"},
    [BLOCKS] = {NULL, 0, 0, sizeof(hr__model_block), MOST_RECORDS, "blocks"},
    [ANNOTATIONS] = {NULL, 0, 0, sizeof(hr__model_annotation), MOST_RECORDS, "annotations"},
    [SETTINGS] = {NULL, 0, 0, sizeof(hr__model_setting), 1 << 16, "settings"},
};

/* What every model has: the empty stack, the default pool, the default stream. */
static hr_status add_fixed_entries(hr__model_builder *builder)
{
    uint32_t stack;
    uint16_t id;
    HR__TRY(hr__model_add_stack(builder, NULL, 0, &stack));
    HR__TRY(hr__model_add_pool(builder, (hr_private_id){0, 0}, &id));
    return hr__model_add_stream(builder, 0, &id);
}

hr_status hr__model_builder_create(size_t limit_bytes, hr__model_builder **out)
{
    hr_status status = HR_ERR_HOST_MEMORY;
    hr__model_builder *builder = hr__host_alloc_zeroed(1, sizeof *builder);
    if (builder == NULL)
        return hr__fail_host_memory(sizeof *builder, "reading a recording");
    hr__model *model = builder->model = hr__host_alloc_zeroed(1, sizeof *model);
    if (model == NULL) {
        status = hr__fail_host_memory(sizeof *model, "a recording");
        goto failed;
    }
    memcpy(builder->arrays, empty_arrays, sizeof empty_arrays);
    size_t string_limit_bytes = limit_bytes / 4;
    builder->array_limit_bytes = limit_bytes - string_limit_bytes;
    builder->seed =
        hr__id_hash_add((uint64_t)(uintptr_t)builder, (uint64_t)hr__clock_monotonic_ns());
    hr__arena_init(&model->arena, string_limit_bytes);
    hr__string_table_init(&model->strings, &model->arena, UINT32_MAX, string_limit_bytes);
    model->settings.conf = HR__NO_STRING;
    model->settings.max_split_size = -1;
    status = add_fixed_entries(builder);
    if (status != HR_OK)
        goto failed;
    *out = builder;
    return HR_OK;
failed:
    hr__model_builder_destroy(builder);
    return status;
}

/* The builder itself and what only it needs; not the model's. */
static void free_scaffold(hr__model_builder *builder)
{
    for (size_t i = 0; i < INDEX_COUNT; i++)
        hr__id_index_deinit(&builder->indexes[i]);
    hr__host_free(builder->arrays[TRACE_RUNS].items);
    hr__host_free(builder);
}

void hr__model_builder_destroy(hr__model_builder *builder)
{
    if (builder == NULL)
        return;
    for (size_t i = 0; i < ARRAY_COUNT; i++)
        if (i != TRACE_RUNS)
            hr__host_free(builder->arrays[i].items);
    if (builder->model != NULL)
        hr__arena_deinit(&builder->model->arena);
    hr__host_free(builder->model);
    free_scaffold(builder);
}

/* ---- what is stored once --------------------------------------------------------------------- */

hr_status hr__model_add_string(hr__model_builder *builder, const void *bytes, size_t size_bytes,
                               uint32_t *id)
{
    hr__string_table *strings = &builder->model->strings;
    if (hr__string_table_add(strings, bytes, size_bytes, id))
        return HR_OK;
    if (strings->has_hit_limit)
        return hr__fail(HR_ERR_UNSUPPORTED, "the recording has more than %zu bytes of strings",
                        strings->bytes_limit);
    return hr__fail_host_memory(size_bytes, "a string");
}

/* Finds an item of a table of fixed-size records that equals `item` byte for byte, or adds it. */
static hr_status intern(hr__model_builder *builder, array_name name, index_name index,
                        uint32_t hash, const void *item, uint32_t *id)
{
    growing_array *array = &builder->arrays[name];
    uint32_t candidate;
    for (size_t cursor = 0;
         hr__id_index_next(&builder->indexes[index], hash, &cursor, &candidate);) {
        if (memcmp((char *)array->items + candidate * array->item_bytes, item, array->item_bytes) ==
            0) {
            *id = candidate;
            return HR_OK;
        }
    }
    size_t place;
    HR__TRY(reserve_index(builder, index, array->what));
    HR__TRY(append(builder, name, item, &place));
    hr__id_index_insert(&builder->indexes[index], hash, (uint32_t)place);
    *id = (uint32_t)place;
    return HR_OK;
}

hr_status hr__model_add_frame(hr__model_builder *builder, const hr__model_frame *frame,
                              uint32_t *id)
{
    uint64_t state = hr__id_hash_add(builder->seed, frame->name);
    state = hr__id_hash_add(state, (uint64_t)frame->filename << 32 | frame->line);
    return intern(builder, FRAMES, FRAME_INDEX, hr__id_hash_end(state), frame, id);
}

hr_status hr__model_add_note(hr__model_builder *builder, const hr__model_note *note, uint32_t *id)
{
    uint64_t state =
        hr__id_hash_add(builder->seed, (uint64_t)note->action << 32 | note->compile_context);
    state = hr__id_hash_add(state, (uint64_t)note->user_metadata << 32 | note->forward_stack);
    return intern(builder, NOTES, NOTE_INDEX, hr__id_hash_end(state), note, id);
}

hr_status hr__model_add_stream(hr__model_builder *builder, hr_stream stream, uint16_t *id)
{
    uint32_t place;
    uint32_t hash = hr__id_hash_end(hr__id_hash_add(builder->seed, stream));
    HR__TRY(intern(builder, STREAMS, STREAM_INDEX, hash, &stream, &place));
    *id = (uint16_t)place; /* MOST_STREAMS */
    return HR_OK;
}

hr_status hr__model_add_pool(hr__model_builder *builder, hr_private_id pool, uint16_t *id)
{
    uint32_t place;
    uint64_t state = hr__id_hash_add(hr__id_hash_add(builder->seed, pool.first), pool.second);
    HR__TRY(intern(builder, POOLS, POOL_INDEX, hr__id_hash_end(state), &pool, &place));
    *id = (uint16_t)place; /* MOST_POOLS */
    return HR_OK;
}

/* Two sums side by side: each waits for its own last step only. */
static uint32_t hash_of_stack(const hr__model_builder *builder, const uint32_t *frame_ids,
                              size_t frame_count)
{
    uint64_t even = hr__id_hash_add(builder->seed, frame_count), odd = ~even;
    size_t i = 0;
    for (; i + 4 <= frame_count; i += 4) {
        uint64_t words[2];
        memcpy(words, frame_ids + i, sizeof words);
        even = hr__id_hash_add(even, words[0]);
        odd = hr__id_hash_add(odd, words[1]);
    }
    for (; i < frame_count; i++)
        even = hr__id_hash_add(even, frame_ids[i]);
    return hr__id_hash_end(hr__id_hash_add(even, odd));
}

hr_status hr__model_add_stack(hr__model_builder *builder, const uint32_t *frame_ids,
                              size_t frame_count, uint32_t *id)
{
    uint32_t hash = hash_of_stack(builder, frame_ids, frame_count), candidate;
    growing_array *all_ids = &builder->arrays[FRAME_IDS];
    for (size_t cursor = 0;
         hr__id_index_next(&builder->indexes[STACK_INDEX], hash, &cursor, &candidate);) {
        hr__model_stack stack = ((const hr__model_stack *)builder->arrays[STACKS].items)[candidate];
        if (stack.count == frame_count &&
            (frame_count == 0 || memcmp((const uint32_t *)all_ids->items + stack.first, frame_ids,
                                        frame_count * sizeof *frame_ids) == 0)) {
            *id = candidate;
            return HR_OK;
        }
    }
    size_t place;
    HR__TRY(reserve_index(builder, STACK_INDEX, "stacks"));
    HR__TRY(reserve(builder, all_ids, frame_count));
    hr__model_stack stack = {(uint32_t)all_ids->count, (uint32_t)frame_count}; /* MOST_RECORDS */
    HR__TRY(append(builder, STACKS, &stack, &place));
    if (frame_count != 0)
        memcpy((uint32_t *)all_ids->items + all_ids->count, frame_ids,
               frame_count * sizeof *frame_ids);
    all_ids->count += frame_count;
    hr__id_index_insert(&builder->indexes[STACK_INDEX], hash, (uint32_t)place);
    *id = (uint32_t)place;
    return HR_OK;
}

/* ---- what is stored each time ---------------------------------------------------------------- */

hr_status hr__model_begin_context(hr__model_builder *builder, uint32_t stack, uint32_t *id)
{
    size_t place;
    HR__TRY(append(builder, CONTEXTS, &stack, &place));
    *id = (uint32_t)place; /* MOST_RECORDS */
    return HR_OK;
}

hr_status hr__model_add_event(hr__model_builder *builder, const hr__model_event *event,
                              size_t *index)
{
    growing_array *array = &builder->arrays[EVENTS];
    HR__TRY(reserve(builder, array, 1));
    ((hr__model_event *)array->items)[array->count] = *event;
    *index = array->count++;
    hr__model_event_bounds_add(&builder->bounds, event);
    return HR_OK;
}

hr_status hr__model_add_trace(hr__model_builder *builder, int device, size_t first_event,
                              size_t event_count)
{
    size_t there_are = builder->arrays[EVENTS].count, place;
    if (first_event > there_are || event_count > there_are - first_event)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "a trace of events %zu to %zu, but there are %zu",
                        first_event, first_event + event_count, there_are);
    const trace_run run = {first_event, event_count, device};
    return append(builder, TRACE_RUNS, &run, &place);
}

const hr__model_event *hr__model_builder_event(const hr__model_builder *builder, size_t index)
{
    HR_ASSERT(index < builder->arrays[EVENTS].count);
    return (const hr__model_event *)builder->arrays[EVENTS].items + index;
}

size_t hr__model_builder_event_count(const hr__model_builder *builder)
{
    return builder->arrays[EVENTS].count;
}

hr_status hr__model_add_block(hr__model_builder *builder, const hr__model_block *block,
                              size_t *index)
{
    return append(builder, BLOCKS, block, index);
}

hr__model_block *hr__model_builder_block(hr__model_builder *builder, size_t index)
{
    HR_ASSERT(index < builder->arrays[BLOCKS].count);
    return (hr__model_block *)builder->arrays[BLOCKS].items + index;
}

hr_status hr__model_add_segment(hr__model_builder *builder, const hr__model_segment *segment)
{
    size_t place;
    return append(builder, SEGMENTS, segment, &place);
}

hr_status hr__model_add_annotation(hr__model_builder *builder,
                                   const hr__model_annotation *annotation)
{
    size_t place;
    return append(builder, ANNOTATIONS, annotation, &place);
}

hr_status hr__model_add_setting(hr__model_builder *builder, const char *key, const char *value)
{
    hr__model_setting setting;
    size_t place;
    HR__TRY(hr__model_add_string(builder, key, strlen(key), &setting.key));
    HR__TRY(hr__model_add_string(builder, value, strlen(value), &setting.value));
    return append(builder, SETTINGS, &setting, &place);
}

hr__model_settings *hr__model_builder_settings(hr__model_builder *builder)
{
    return &builder->model->settings;
}

hr__model_features *hr__model_builder_features(hr__model_builder *builder)
{
    return &builder->model->features;
}

void hr__model_ignore_field(hr__model_builder *builder, const char *name, size_t size_bytes)
{
    hr__model *model = builder->model;
    model->ignored_field_count++;
    if (model->first_ignored_field == NULL) /* no memory, no name: it is only for people */
        model->first_ignored_field = hr__arena_copy(&model->arena, name, size_bytes);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void lend_arrays(hr__model_builder *builder)
{
    const growing_array *arrays = builder->arrays;
    hr__model *model = builder->model;
#define LEND(name, field)                                                                          \
    model->field##s = arrays[name].items;                                                          \
    model->field##_count = arrays[name].count
    LEND(FRAMES, frame);
    LEND(FRAME_IDS, frame_id);
    LEND(STACKS, stack);
    LEND(CONTEXTS, context);
    LEND(NOTES, note);
    LEND(STREAMS, stream);
    LEND(POOLS, pool);
    LEND(EVENTS, event);
    LEND(SEGMENTS, segment);
    LEND(BLOCKS, block);
    LEND(ANNOTATIONS, annotation);
#undef LEND
    model->settings.entries = arrays[SETTINGS].items;
    model->settings.entry_count = arrays[SETTINGS].count;
}

/* By rising device, the host's last. There are few. */
static void sort_runs(growing_array *array)
{
    trace_run *runs = array->items;
    for (size_t i = 1; i < array->count; i++) {
        trace_run run = runs[i];
        size_t to = i;
        for (; to > 0 && (unsigned)runs[to - 1].device > (unsigned)run.device; to--)
            runs[to] = runs[to - 1];
        runs[to] = run;
    }
}

static void lend_traces(hr__model_builder *builder, hr__model_trace *traces)
{
    const trace_run *runs = builder->arrays[TRACE_RUNS].items;
    hr__model *model = builder->model;
    for (size_t i = 0; i < builder->arrays[TRACE_RUNS].count; i++)
        traces[i] = (hr__model_trace){
            .events =
                runs[i].event_count != 0 ? model->events + runs[i].first_event : model->events,
            .event_count = runs[i].event_count,
            .device = runs[i].device,
        };
    model->traces = traces;
    model->trace_count = builder->arrays[TRACE_RUNS].count;
}

/* Gives the unused ends back. A host that cannot do even that leaves them where they are. */
static void shrink(growing_array *array)
{
    if (array->count == array->capacity || array->items == NULL)
        return;
    void *items = hr__host_realloc(array->items, array->count * array->item_bytes);
    if (items != NULL)
        array->items = items;
}

hr_status hr__model_finish(hr__model_builder *builder, hr__model **out)
{
    size_t trace_count = builder->arrays[TRACE_RUNS].count;
    hr__model_trace *traces = hr__host_alloc_zeroed(trace_count, sizeof *traces);
    if (traces == NULL)
        return hr__fail_host_memory(trace_count * sizeof *traces, "traces");
    hr__segment_sort(builder->arrays[SEGMENTS].items, builder->arrays[SEGMENTS].count);
    sort_runs(&builder->arrays[TRACE_RUNS]);
    lend_arrays(builder);
    lend_traces(builder, traces);
    hr_status status = hr__model_check_bounded(builder->model, &builder->bounds);
    if (status != HR_OK) {
        hr__host_free(traces);
        return status;
    }
    for (size_t i = 0; i < ARRAY_COUNT; i++)
        shrink(&builder->arrays[i]);
    lend_arrays(builder);
    lend_traces(builder, traces);
    *out = builder->model;
    free_scaffold(builder);
    return HR_OK;
}
