/* model_build.c - growing arrays, indexes that find existing records, and the finished model.
 *
 * Every array has its own host memory (larger()), which the model takes over: at the end of a large
 * file nothing is copied, only the unused ends are given back. (realloc() of something this large
 * moves pages, not bytes, unless the program configured malloc otherwise.)
 *
 *   array_bytes + index_bytes <= limit_bytes - strings' share, always */
#include "model/model_build.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/secret_hash.h"
#include "model/id_index.h"
#include "model/model_check.h"

/* The limits of the fields, without the value for "none". */
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

struct vw__model_builder {
    vw__model *model; /* owned; its arrays are set at the end */
    growing_array arrays[ARRAY_COUNT];
    vw__id_index indexes[INDEX_COUNT];
    size_t array_limit_bytes; /* of arrays and indexes together */
    size_t held_bytes;        /* of arrays and indexes together */
    bool has_hit_memory_limit;
    vw__model_event_bounds bounds;
    vw__secret_hash secret;
};

/* ---- growing --------------------------------------------------------------------------------- */

static vw_status charge(vw__model_builder *builder, size_t more_bytes, const char *what)
{
    if (more_bytes > builder->array_limit_bytes - builder->held_bytes) {
        builder->has_hit_memory_limit = true;
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "the recording needs more memory than it may take: %zu bytes for %s, with "
                        "%zu of %zu in use",
                        more_bytes, what, builder->held_bytes, builder->array_limit_bytes);
    }
    builder->held_bytes += more_bytes;
    return VW_OK;
}

/* Doubles; but an array that has become large leaps once, to where most recordings end: unused
 * memory is only addresses, while growing copies bytes if realloc() cannot move pages. */
static size_t larger(const vw__model_builder *builder, const growing_array *array, size_t capacity)
{
    enum { LARGE_BYTES = 512 << 10, LEAP_BYTES = 32 << 20 };
    size_t leap = LEAP_BYTES / array->item_bytes;
    bool is_near_limit = LEAP_BYTES > (builder->array_limit_bytes - builder->held_bytes) / 4;
    bool leaps = capacity * array->item_bytes >= LARGE_BYTES && capacity < leap / 2;
    return leaps && !is_near_limit ? leap : 2 * capacity;
}

/* Room for `more` items. */
static vw_status grow(vw__model_builder *builder, growing_array *array, size_t more)
{
    enum { FIRST_CAPACITY = 16 };
    if (more > array->count_limit - array->count)
        return vw__fail(VW_ERR_UNSUPPORTED, "the recording has more than %zu %s",
                        array->count_limit, array->what);
    size_t wanted = array->count + more;
    size_t capacity = array->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : array->capacity;
    while (capacity < wanted)
        capacity = larger(builder, array, capacity); /* no overflow: counts are below 2^33 */
    if (capacity > array->count_limit)
        capacity = array->count_limit; /* so that running into it brings us here */
    size_t more_bytes = (capacity - array->capacity) * array->item_bytes;
    VW__TRY(charge(builder, more_bytes, array->what));
    void *items = vw__host_realloc(array->items, capacity * array->item_bytes);
    if (items == NULL) {
        builder->held_bytes -= more_bytes;
        return vw__fail_host_memory(capacity * array->item_bytes, array->what);
    }
    array->items = items;
    array->capacity = capacity;
    return VW_OK;
}

/* The place for the next `more` items; the caller fills them and raises the count. */
static inline vw_status reserve(vw__model_builder *builder, growing_array *array, size_t more)
{
    if (__builtin_expect(more > array->capacity - array->count, 0))
        return grow(builder, array, more);
    return VW_OK;
}

static vw_status append(vw__model_builder *builder, array_name name, const void *item,
                        size_t *index)
{
    growing_array *array = &builder->arrays[name];
    VW__TRY(reserve(builder, array, 1));
    memcpy((char *)array->items + array->count * array->item_bytes, item, array->item_bytes);
    *index = array->count++;
    return VW_OK;
}

static vw_status reserve_index(vw__model_builder *builder, index_name name, const char *what)
{
    vw__id_index *index = &builder->indexes[name];
    size_t wanted_bytes = vw__id_index_wanted_bytes(index);
    if (wanted_bytes == 0)
        return VW_OK;
    size_t old_bytes = index->capacity * sizeof *index->slots;
    VW__TRY(charge(builder, wanted_bytes, what)); /* both are there for a moment */
    if (!vw__id_index_reserve(index)) {
        builder->held_bytes -= wanted_bytes;
        return vw__fail_host_memory(wanted_bytes, what);
    }
    builder->held_bytes -= old_bytes;
    return VW_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static const growing_array empty_arrays[ARRAY_COUNT] = {
    [FRAMES] = {NULL, 0, 0, sizeof(vw__model_frame), MOST_RECORDS, "frames"},
    [FRAME_IDS] = {NULL, 0, 0, sizeof(uint32_t), MOST_RECORDS, "frames of stacks"},
    [STACKS] = {NULL, 0, 0, sizeof(vw__model_stack), MOST_RECORDS, "stacks"},
    [CONTEXTS] = {NULL, 0, 0, sizeof(uint32_t), MOST_RECORDS, "captured stacks"},
    [NOTES] = {NULL, 0, 0, sizeof(vw__model_note), MOST_RECORDS, "notes"},
    [STREAMS] = {NULL, 0, 0, sizeof(vw_stream), MOST_STREAMS, "streams"},
    [POOLS] = {NULL, 0, 0, sizeof(vw_private_id), MOST_POOLS, "private pools"},
    [EVENTS] = {NULL, 0, 0, sizeof(vw__model_event), MOST_RECORDS, "events"},
    [TRACE_RUNS] = {NULL, 0, 0, sizeof(trace_run), 1 << 16, "traces"},
    [SEGMENTS] = {NULL, 0, 0, sizeof(vw__model_segment), MOST_RECORDS, "segments"},
    [BLOCKS] = {NULL, 0, 0, sizeof(vw__model_block), MOST_RECORDS, "blocks"},
    [ANNOTATIONS] = {NULL, 0, 0, sizeof(vw__model_annotation), MOST_RECORDS, "annotations"},
    [SETTINGS] = {NULL, 0, 0, sizeof(vw__model_setting), 1 << 16, "settings"},
};

/* Adds what every model has: the empty stack, the default pool, the default stream. */
static vw_status add_fixed_entries(vw__model_builder *builder)
{
    uint32_t stack;
    uint16_t id;
    VW__TRY(vw__model_add_stack(builder, NULL, 0, &stack));
    VW__TRY(vw__model_add_pool(builder, (vw_private_id){0, 0}, &id));
    return vw__model_add_stream(builder, 0, &id);
}

vw_status vw__model_builder_create(size_t limit_bytes, vw__model_builder **out)
{
    vw_status status = VW_ERR_HOST_MEMORY;
    vw__model_builder *builder = vw__host_alloc_zeroed(1, sizeof *builder);
    if (builder == NULL)
        return vw__fail_host_memory(sizeof *builder, "reading a recording");
    vw__model *model = builder->model = vw__host_alloc_zeroed(1, sizeof *model);
    if (model != NULL)
        model->slow_play_ns = vw__host_alloc_zeroed(1, sizeof *model->slow_play_ns);
    if (model == NULL || model->slow_play_ns == NULL) {
        status = vw__fail_host_memory(sizeof *model, "a recording");
        goto failed;
    }
    memcpy(builder->arrays, empty_arrays, sizeof empty_arrays);
    size_t string_limit_bytes = limit_bytes / 4;
    builder->array_limit_bytes = limit_bytes - string_limit_bytes;
    builder->secret = vw__secret_hash_of_process();
    vw__arena_init(&model->arena, string_limit_bytes);
    vw__string_table_init(&model->strings, &model->arena, UINT32_MAX, string_limit_bytes);
    model->settings.conf = VW__MODEL_NO_STRING;
    model->settings.engine = VW__MODEL_NO_STRING;
    model->settings.max_split_size = -1;
    status = add_fixed_entries(builder);
    if (status != VW_OK)
        goto failed;
    *out = builder;
    return VW_OK;
failed:
    vw__model_builder_destroy(builder);
    return status;
}

/* Frees the builder and what only it needs, but not the model. */
static void free_scaffold(vw__model_builder *builder)
{
    for (size_t i = 0; i < INDEX_COUNT; i++)
        vw__id_index_deinit(&builder->indexes[i]);
    vw__host_free(builder->arrays[TRACE_RUNS].items);
    vw__host_free(builder);
}

void vw__model_builder_destroy(vw__model_builder *builder)
{
    if (builder == NULL)
        return;
    for (size_t i = 0; i < ARRAY_COUNT; i++)
        if (i != TRACE_RUNS)
            vw__host_free(builder->arrays[i].items);
    if (builder->model != NULL) {
        vw__arena_deinit(&builder->model->arena);
        vw__host_free(builder->model->slow_play_ns);
    }
    vw__host_free(builder->model);
    free_scaffold(builder);
}

/* ---- what is stored once --------------------------------------------------------------------- */

vw_status vw__model_add_string(vw__model_builder *builder, const void *bytes, size_t size_bytes,
                               uint32_t *id)
{
    vw__string_table *strings = &builder->model->strings;
    if (vw__string_table_add(strings, bytes, size_bytes, id))
        return VW_OK;
    if (strings->has_hit_limit) {
        builder->has_hit_memory_limit = true;
        return vw__fail(VW_ERR_UNSUPPORTED, "the recording has more than %zu bytes of strings",
                        strings->bytes_limit);
    }
    return vw__fail_host_memory(size_bytes, "a string");
}

/* Finds an item of a table of fixed-size records that equals `item` byte for byte, or adds it. */
static vw_status intern(vw__model_builder *builder, array_name name, index_name index,
                        uint32_t hash, const void *item, uint32_t *id)
{
    growing_array *array = &builder->arrays[name];
    uint32_t candidate;
    for (size_t cursor = 0;
         vw__id_index_next(&builder->indexes[index], hash, &cursor, &candidate);) {
        if (memcmp((char *)array->items + candidate * array->item_bytes, item, array->item_bytes) ==
            0) {
            *id = candidate;
            return VW_OK;
        }
    }
    size_t place;
    VW__TRY(reserve_index(builder, index, array->what));
    VW__TRY(append(builder, name, item, &place));
    vw__id_index_insert(&builder->indexes[index], hash, (uint32_t)place);
    *id = (uint32_t)place;
    return VW_OK;
}

static uint64_t hash_add(const vw__model_builder *builder, uint64_t state, uint64_t word)
{
    return vw__secret_hash_add(&builder->secret, state, word);
}

static uint64_t hash_of(const vw__model_builder *builder, uint64_t word)
{
    return hash_add(builder, builder->secret.start, word);
}

vw_status vw__model_add_frame(vw__model_builder *builder, const vw__model_frame *frame,
                              uint32_t *id)
{
    uint64_t state = hash_of(builder, frame->name);
    state = hash_add(builder, state, (uint64_t)frame->filename << 32 | frame->line);
    return intern(builder, FRAMES, FRAME_INDEX, vw__id_index_hash(state), frame, id);
}

vw_status vw__model_add_note(vw__model_builder *builder, const vw__model_note *note, uint32_t *id)
{
    uint64_t state = hash_of(builder, (uint64_t)note->action << 32 | note->compile_context);
    state = hash_add(builder, state, (uint64_t)note->user_metadata << 32 | note->forward_stack);
    return intern(builder, NOTES, NOTE_INDEX, vw__id_index_hash(state), note, id);
}

vw_status vw__model_add_stream(vw__model_builder *builder, vw_stream stream, uint16_t *id)
{
    uint32_t place;
    uint32_t hash = vw__id_index_hash(hash_of(builder, stream));
    VW__TRY(intern(builder, STREAMS, STREAM_INDEX, hash, &stream, &place));
    *id = (uint16_t)place; /* MOST_STREAMS */
    return VW_OK;
}

vw_status vw__model_add_pool(vw__model_builder *builder, vw_private_id pool, uint16_t *id)
{
    uint32_t place;
    uint64_t state = hash_add(builder, hash_of(builder, pool.first), pool.second);
    VW__TRY(intern(builder, POOLS, POOL_INDEX, vw__id_index_hash(state), &pool, &place));
    *id = (uint16_t)place; /* MOST_POOLS */
    return VW_OK;
}

/* Two independent sums: the processor can compute them in parallel. */
static uint32_t hash_of_stack(const vw__model_builder *builder, const uint32_t *frame_ids,
                              size_t frame_count)
{
    uint64_t even = hash_of(builder, frame_count), odd = ~even;
    size_t i = 0;
    for (; i + 4 <= frame_count; i += 4) {
        uint64_t words[2];
        memcpy(words, frame_ids + i, sizeof words);
        even = hash_add(builder, even, words[0]);
        odd = hash_add(builder, odd, words[1]);
    }
    for (; i < frame_count; i++)
        even = hash_add(builder, even, frame_ids[i]);
    return vw__id_index_hash(hash_add(builder, even, odd));
}

vw_status vw__model_add_stack(vw__model_builder *builder, const uint32_t *frame_ids,
                              size_t frame_count, uint32_t *id)
{
    uint32_t hash = hash_of_stack(builder, frame_ids, frame_count), candidate;
    growing_array *all_ids = &builder->arrays[FRAME_IDS];
    for (size_t cursor = 0;
         vw__id_index_next(&builder->indexes[STACK_INDEX], hash, &cursor, &candidate);) {
        vw__model_stack stack = ((const vw__model_stack *)builder->arrays[STACKS].items)[candidate];
        if (stack.count == frame_count &&
            (frame_count == 0 || memcmp((const uint32_t *)all_ids->items + stack.first, frame_ids,
                                        frame_count * sizeof *frame_ids) == 0)) {
            *id = candidate;
            return VW_OK;
        }
    }
    size_t place;
    VW__TRY(reserve_index(builder, STACK_INDEX, "stacks"));
    VW__TRY(reserve(builder, all_ids, frame_count));
    vw__model_stack stack = {(uint32_t)all_ids->count, (uint32_t)frame_count}; /* MOST_RECORDS */
    VW__TRY(append(builder, STACKS, &stack, &place));
    if (frame_count != 0)
        memcpy((uint32_t *)all_ids->items + all_ids->count, frame_ids,
               frame_count * sizeof *frame_ids);
    all_ids->count += frame_count;
    vw__id_index_insert(&builder->indexes[STACK_INDEX], hash, (uint32_t)place);
    *id = (uint32_t)place;
    return VW_OK;
}

/* ---- what is stored each time ---------------------------------------------------------------- */

vw_status vw__model_begin_context(vw__model_builder *builder, uint32_t stack, uint32_t *id)
{
    size_t place;
    VW__TRY(append(builder, CONTEXTS, &stack, &place));
    *id = (uint32_t)place; /* MOST_RECORDS */
    return VW_OK;
}

vw_status vw__model_add_event(vw__model_builder *builder, const vw__model_event *event,
                              size_t *index)
{
    growing_array *array = &builder->arrays[EVENTS];
    VW__TRY(reserve(builder, array, 1));
    ((vw__model_event *)array->items)[array->count] = *event;
    *index = array->count++;
    vw__model_event_bounds_add(&builder->bounds, event);
    return VW_OK;
}

vw_status vw__model_add_trace(vw__model_builder *builder, int device, size_t first_event,
                              size_t event_count)
{
    size_t there_are = builder->arrays[EVENTS].count, place;
    if (first_event > there_are || event_count > there_are - first_event)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "a trace of events %zu to %zu, but there are %zu",
                        first_event, first_event + event_count, there_are);
    const trace_run run = {first_event, event_count, device};
    return append(builder, TRACE_RUNS, &run, &place);
}

const vw__model_event *vw__model_builder_event(const vw__model_builder *builder, size_t index)
{
    VW_ASSERT(index < builder->arrays[EVENTS].count);
    return (const vw__model_event *)builder->arrays[EVENTS].items + index;
}

size_t vw__model_builder_event_count(const vw__model_builder *builder)
{
    return builder->arrays[EVENTS].count;
}

vw_status vw__model_add_block(vw__model_builder *builder, const vw__model_block *block,
                              size_t *index)
{
    return append(builder, BLOCKS, block, index);
}

bool vw__model_builder_has_hit_memory_limit(const vw__model_builder *builder)
{
    return builder->has_hit_memory_limit;
}

vw__model_block *vw__model_builder_block(vw__model_builder *builder, size_t index)
{
    VW_ASSERT(index < builder->arrays[BLOCKS].count);
    return (vw__model_block *)builder->arrays[BLOCKS].items + index;
}

vw_status vw__model_add_segment(vw__model_builder *builder, const vw__model_segment *segment)
{
    size_t place;
    return append(builder, SEGMENTS, segment, &place);
}

vw_status vw__model_add_annotation(vw__model_builder *builder,
                                   const vw__model_annotation *annotation)
{
    size_t place;
    return append(builder, ANNOTATIONS, annotation, &place);
}

vw_status vw__model_add_setting(vw__model_builder *builder, const char *key, const char *value)
{
    vw__model_setting setting;
    size_t place;
    VW__TRY(vw__model_add_string(builder, key, strlen(key), &setting.key));
    VW__TRY(vw__model_add_string(builder, value, strlen(value), &setting.value));
    return append(builder, SETTINGS, &setting, &place);
}

vw__model_settings *vw__model_builder_settings(vw__model_builder *builder)
{
    return &builder->model->settings;
}

vw__model_features *vw__model_builder_features(vw__model_builder *builder)
{
    return &builder->model->features;
}

void vw__model_ignore_field(vw__model_builder *builder, const char *name, size_t size_bytes)
{
    vw__model *model = builder->model;
    model->ignored_field_count++;
    if (model->first_ignored_field == NULL) /* no memory, no name: it is only for people */
        model->first_ignored_field = vw__arena_copy(&model->arena, name, size_bytes);
}

/* ---- sorting segments ------------------------------------------------------------------------ */

/* Segments are sorted by device, the host's last, then by address: by a heap sort, in place, since
 * qsort() allocates. Files nearly always have them in order already, which one pass shows. */
static bool comes_before(const vw__model_segment *a, const vw__model_segment *b)
{
    if (a->device != b->device)
        return (unsigned)a->device < (unsigned)b->device; /* the host is -1: last */
    return a->address < b->address;
}

static bool is_sorted(const vw__model_segment *segments, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (comes_before(&segments[i], &segments[i - 1]))
            return false;
    return true;
}

/* Lets the segment at `root` sink until both of its children come before it. */
static void sink(vw__model_segment *heap, size_t root, size_t count)
{
    vw__model_segment sinking = heap[root];
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count)
            break;
        if (child + 1 < count && comes_before(&heap[child], &heap[child + 1]))
            child++;
        if (!comes_before(&sinking, &heap[child]))
            break;
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = sinking;
}

static void sort_segments(vw__model_segment *segments, size_t count)
{
    if (is_sorted(segments, count))
        return;
    for (size_t i = count / 2; i-- > 0;)
        sink(segments, i, count);
    for (size_t last = count - 1; last > 0; last--) {
        vw__model_segment largest = segments[0];
        segments[0] = segments[last];
        segments[last] = largest;
        sink(segments, 0, last);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void lend_arrays(vw__model_builder *builder)
{
    const growing_array *arrays = builder->arrays;
    vw__model *model = builder->model;
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

static void lend_traces(vw__model_builder *builder, vw__model_trace *traces)
{
    const trace_run *runs = builder->arrays[TRACE_RUNS].items;
    vw__model *model = builder->model;
    for (size_t i = 0; i < builder->arrays[TRACE_RUNS].count; i++)
        traces[i] = (vw__model_trace){
            .events =
                runs[i].event_count != 0 ? model->events + runs[i].first_event : model->events,
            .event_count = runs[i].event_count,
            .device = runs[i].device,
        };
    model->traces = traces;
    model->trace_count = builder->arrays[TRACE_RUNS].count;
}

/* Gives the unused ends back, if realloc() can. */
static void shrink(growing_array *array)
{
    if (array->count == array->capacity || array->items == NULL)
        return;
    void *items = vw__host_realloc(array->items, array->count * array->item_bytes);
    if (items != NULL)
        array->items = items;
}

vw_status vw__model_finish(vw__model_builder *builder, vw__model **out)
{
    size_t trace_count = builder->arrays[TRACE_RUNS].count;
    vw__model_trace *traces = vw__host_alloc_zeroed(trace_count, sizeof *traces);
    if (traces == NULL)
        return vw__fail_host_memory(trace_count * sizeof *traces, "traces");
    sort_segments(builder->arrays[SEGMENTS].items, builder->arrays[SEGMENTS].count);
    sort_runs(&builder->arrays[TRACE_RUNS]);
    lend_arrays(builder);
    lend_traces(builder, traces);
    vw_status status = vw__model_check(builder->model, &builder->bounds);
    if (status != VW_OK) {
        vw__host_free(traces);
        return status;
    }
    for (size_t i = 0; i < ARRAY_COUNT; i++)
        shrink(&builder->arrays[i]);
    lend_arrays(builder);
    lend_traces(builder, traces);
    *out = builder->model;
    free_scaffold(builder);
    return VW_OK;
}
