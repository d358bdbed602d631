/* trace_replay.c - see trace_replay.h.
 *
 * The recorded events are cut into operations: a free; a request, which ends with its alloc or oom
 * and before that may complete frees, give memory back and take some; an empty_cache(). Before each
 * operation the device is told what to answer; afterwards what the pool told its listener is held
 * against the recorded events. */
#include "support/trace_replay.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HUGE_CAPACITY_BYTES (UINT64_C(1) << 50)
#define SMALL_PAGE_BYTES (UINT64_C(2) << 20)
#define FIRST_USER_STREAM (UINT64_C(1) << 62) /* no pointer, so no recorded stream */
#define EVENTS_BETWEEN_CHECKS 20000

enum { MOST_REGIONS = 64, MOST_SEEN = 1 << 16, MOST_PENDING = 1 << 12 };

/* The reservation of an expandable segment. */
typedef struct region {
    uint64_t address;
    uint64_t mapped_bytes;
} region;

/* A freed block that its user stream holds up. */
typedef struct pending_free {
    hr_device_ptr address;
    hr_stream user;
} pending_free;

typedef struct replay {
    const hr_test_trace *trace;
    hr_device *device;
    hr_pool *pool;
    hr_memory_event *seen; /* what the pool told since the operation began */
    size_t seen_count;
    region regions[MOST_REGIONS];
    size_t region_count;
    pending_free *pending;
    size_t pending_count;
    hr_stream last_user;
    hr_private_id scope;
    size_t at; /* the event being replayed */
    size_t segments_walked;
    size_t blocks_walked;
    size_t stats_walked;
    char last_key[96];   /* of a statistic */
    char complaint[512]; /* the first difference; "" = none yet */
} replay;

/* Notes the first difference. Returns false. */
static __attribute__((format(printf, 2, 3))) bool differ(replay *run, const char *format, ...)
{
    if (run->complaint[0] != '\0')
        return false;
    int used = snprintf(run->complaint, sizeof run->complaint, "event %zu: ", run->at);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(run->complaint + used, sizeof run->complaint - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}

static bool is_ok(replay *run, hr_status status, const char *what)
{
    return status == HR_OK ||
           differ(run, "%s: %s, %s", what, hr_status_name(status), hr_last_error());
}

/* ---- the events the pool tells of ------------------------------------------------------------ */

static const char *action_name(unsigned action)
{
    static const char *const names[] = {
#define NAME(upper, lower) [HR_ACTION_##upper] = #lower,
        HR_ACTION_LIST(NAME)
#undef NAME
    };
    return names[action];
}

static void listen(void *context, const hr_memory_event *event)
{
    replay *run = context;
    if (run->seen_count < MOST_SEEN)
        run->seen[run->seen_count] = *event;
    run->seen_count++;
}

/* What the pool told since the last call must be the recorded events [begin, end). */
static bool same_events(replay *run, size_t begin, size_t end)
{
    const hr_test_trace_event *recorded = run->trace->events + begin;
    size_t seen_count = run->seen_count;
    run->seen_count = 0;
    if (seen_count > MOST_SEEN)
        return differ(run, "%zu events in one operation", seen_count);
    for (size_t i = 0; i < end - begin || i < seen_count; i++) {
        const hr_memory_event *seen = &run->seen[i];
        run->at = begin + i;
        if (i >= seen_count)
            return differ(run, "expected %s %#" PRIx64 " of %" PRIu64 " bytes, found nothing",
                          action_name(recorded[i].action), recorded[i].address,
                          recorded[i].size_bytes);
        if (i >= end - begin)
            return differ(run, "expected nothing more, found %s %#" PRIx64 " of %" PRIu64 " bytes",
                          action_name(seen->action), seen->address, seen->size_bytes);
        if (seen->action != recorded[i].action || seen->address != recorded[i].address ||
            seen->size_bytes != recorded[i].size_bytes || seen->stream != recorded[i].stream)
            return differ(run,
                          "expected %s %#" PRIx64 " of %" PRIu64 " bytes on stream %#" PRIx64
                          ", found %s %#" PRIx64 " of %" PRIu64 " bytes on stream %#" PRIx64,
                          action_name(recorded[i].action), recorded[i].address,
                          recorded[i].size_bytes, recorded[i].stream, action_name(seen->action),
                          seen->address, seen->size_bytes, seen->stream);
    }
    return true;
}

/* ---- what the device must answer ------------------------------------------------------------- */

/* The reservation that holds `address`. Large segments reserve a little more, in larger pages; they
 * never come to the end of it. */
static region *find_region(replay *run, uint64_t address)
{
    uint64_t wanted_bytes = run->trace->total_bytes + run->trace->total_bytes / 8;
    uint64_t reserved_bytes =
        (wanted_bytes + SMALL_PAGE_BYTES - 1) / SMALL_PAGE_BYTES * SMALL_PAGE_BYTES;
    for (size_t i = 0; i < run->region_count; i++)
        if (address - run->regions[i].address < reserved_bytes)
            return &run->regions[i];
    return NULL;
}

static bool follow_map(replay *run, const hr_test_trace_event *event)
{
    region *found = find_region(run, event->address);
    if (found == NULL) {
        if (run->region_count == MOST_REGIONS)
            return differ(run, "more than %d reservations", MOST_REGIONS);
        found = &run->regions[run->region_count++];
        *found = (region){event->address, 0};
        hr_status status = hr_simulated_dictate_address(run->device, event->address);
        if (!is_ok(run, status, "dictating a reservation"))
            return false;
    }
    found->mapped_bytes += event->size_bytes;
    return true;
}

/* A reservation of which nothing is mapped is given up. */
static bool follow_unmap(replay *run, const hr_test_trace_event *event)
{
    region *found = find_region(run, event->address);
    if (found == NULL || found->mapped_bytes < event->size_bytes)
        return differ(run, "the recording unmaps what it never mapped");
    found->mapped_bytes -= event->size_bytes;
    if (found->mapped_bytes == 0)
        *found = run->regions[--run->region_count];
    return true;
}

/* Lets the pool look at its streams: a request that asks for an address nobody has does only that.
 */
static bool look_at_streams(replay *run)
{
    hr_device_ptr nowhere = HR_NULL;
    const hr_alloc_request request = {.struct_size = sizeof request, .size_bytes = 1, .at = 512};
    return hr_alloc_with(run->pool, &request, &nowhere) == HR_ERR_OUT_OF_MEMORY ||
           differ(run, "address 512 was served");
}

static bool complete_free(replay *run, hr_device_ptr address)
{
    for (size_t i = 0; i < run->pending_count; i++) {
        if (run->pending[i].address != address)
            continue;
        hr_stream user = run->pending[i].user;
        run->pending[i] = run->pending[--run->pending_count];
        return is_ok(run, hr_device_complete(run->device, user), "completing a stream");
    }
    return differ(run, "%#" PRIx64 " is completed and was not freed", address);
}

/* Prepares the device for the operation that the events [begin, end) are of. */
static bool prepare_device(replay *run, size_t begin, size_t end)
{
    bool has_completed = false;
    for (size_t i = begin; i < end; i++) {
        const hr_test_trace_event *event = &run->trace->events[i];
        run->at = i;
        switch (event->action) {
        case HR_ACTION_FREE_COMPLETED: /* the last one is left for the operation to find */
            if ((has_completed && !look_at_streams(run)) || !complete_free(run, event->address))
                return false;
            has_completed = true;
            break;
        case HR_ACTION_SEGMENT_ALLOC:
            if (!is_ok(run, hr_simulated_dictate_address(run->device, event->address),
                       "dictating a segment"))
                return false;
            break;
        case HR_ACTION_SEGMENT_MAP:
            if (!follow_map(run, event))
                return false;
            break;
        case HR_ACTION_SEGMENT_UNMAP:
            if (!follow_unmap(run, event))
                return false;
            break;
        default:
            break;
        }
    }
    return true;
}

/* ---- operations ------------------------------------------------------------------------------ */

static bool play_free(replay *run, size_t begin, size_t *end)
{
    const hr_test_trace_event *event = &run->trace->events[begin];
    *end = begin + (event->is_deferred ? 1 : 2);
    if (event->is_deferred) {
        hr_stream user = ++run->last_user;
        if (run->pending_count == MOST_PENDING)
            return differ(run, "more than %d frees wait", MOST_PENDING);
        if (!is_ok(run, hr_record_stream(run->pool, event->address, user), "hr_record_stream"))
            return false;
        run->pending[run->pending_count++] = (pending_free){event->address, user};
    }
    return is_ok(run, hr_free(run->pool, event->address), "hr_free") &&
           same_events(run, begin, *end);
}

/* A text without what NVML said about processes: a simulated device has only ours, and nothing of
 * other libraries. The caller frees it. */
static char *without_processes(const char *original)
{
    static const char before[] = " is free. ", behind[] = " memory in use. ";
    char *text = strdup(original);
    char *at = text != NULL ? strstr(text, before) : NULL;
    if (at == NULL)
        return text;
    at += strlen(before);
    while (strncmp(at, "Process ", 8) == 0 || strncmp(at, "Including non-PyTorch ", 22) == 0) {
        const char *end = strstr(at, behind);
        if (end == NULL)
            return text;
        end += strlen(behind);
        memmove(at, end, strlen(end) + 1);
    }
    return text;
}

static bool same_oom_text(replay *run)
{
    if (run->trace->oom_text == NULL)
        return differ(run, "the recording has no text for its oom");
    char *recorded = without_processes(run->trace->oom_text);
    char *found = without_processes(hr_last_error());
    bool is_same = recorded != NULL && found != NULL && strcmp(recorded, found) == 0;
    if (!is_same) {
        size_t i = 0;
        while (recorded != NULL && found != NULL && recorded[i] == found[i])
            i++;
        differ(run, "expected in the text \"%.80s\", found \"%.80s\"",
               recorded != NULL ? recorded + i : "", found != NULL ? found + i : "");
    }
    free(recorded);
    free(found);
    return is_same;
}

/* The free bytes that the device will report are the recorded ones, whatever the request does
 * first. */
static bool agree_on_free_bytes(replay *run, size_t begin, size_t end)
{
    const hr_test_trace_event *events = run->trace->events;
    hr_device_calls calls;
    if (!is_ok(run, hr_device_get_calls(run->device, &calls), "hr_device_get_calls"))
        return false;
    uint64_t held_bytes = calls.in_use_bytes;
    for (size_t i = begin; i < end; i++) {
        if (events[i].action == HR_ACTION_SEGMENT_ALLOC ||
            events[i].action == HR_ACTION_SEGMENT_MAP)
            held_bytes += events[i].size_bytes;
        if (events[i].action == HR_ACTION_SEGMENT_FREE ||
            events[i].action == HR_ACTION_SEGMENT_UNMAP)
            held_bytes -= events[i].size_bytes;
    }
    return is_ok(run, hr_device_set_capacity(run->device, held_bytes + events[end - 1].address),
                 "hr_device_set_capacity");
}

static bool play_oom(replay *run, size_t begin, size_t end)
{
    const hr_test_trace_event *oom = &run->trace->events[end - 1];
    hr_device_ptr address = HR_NULL;
    if (!agree_on_free_bytes(run, begin, end))
        return false;
    hr_status status = hr_alloc(run->pool, oom->size_bytes, oom->stream, &address);
    if (status != HR_ERR_OUT_OF_MEMORY)
        return differ(run, "expected to run out of memory, found %s", hr_status_name(status));
    return same_events(run, begin, end) && same_oom_text(run) &&
           is_ok(run, hr_device_set_capacity(run->device, HUGE_CAPACITY_BYTES),
                 "hr_device_set_capacity");
}

static bool play_request(replay *run, size_t begin, size_t end)
{
    const hr_test_trace_event *last = &run->trace->events[end - 1];
    if (!prepare_device(run, begin, end))
        return false;
    if (last->action == HR_ACTION_OOM)
        return play_oom(run, begin, end);
    hr_device_ptr address = HR_NULL;
    return is_ok(run, hr_alloc(run->pool, last->size_bytes, last->stream, &address), "hr_alloc") &&
           same_events(run, begin, end);
}

static bool play_trim(replay *run, size_t begin, size_t end)
{
    return prepare_device(run, begin, end) && is_ok(run, hr_pool_trim(run->pool), "hr_pool_trim") &&
           same_events(run, begin, end);
}

static bool play_snapshot(replay *run, size_t begin)
{
    const hr_walker nobody = {.context = NULL};
    return is_ok(run, hr_pool_walk(run->pool, &nobody, true), "hr_pool_walk") &&
           same_events(run, begin, begin + 1);
}

static bool play_mark(replay *run, const hr_test_trace_event *mark)
{
    const hr_private_id id = {mark->address, mark->size_bytes};
    hr_status status = HR_OK;
    if (mark->kind == HR_TEST_RELEASE) {
        while (status == HR_OK && hr_private_pool_use_count(run->pool, id) > 0)
            status = hr_private_pool_release(run->pool, id);
        return is_ok(run, status, "hr_private_pool_release");
    }
    if (mark->kind == HR_TEST_UNSPLIT) {
        const hr_private_options options = {.struct_size = sizeof options, .no_split = true};
        return is_ok(run, hr_private_pool_retain(run->pool, id, &options),
                     "hr_private_pool_retain");
    }
    if (run->scope.first != 0 || run->scope.second != 0)
        status = hr_private_pool_end(run->pool, run->scope);
    if (status == HR_OK && (id.first != 0 || id.second != 0))
        status = hr_private_pool_begin(run->pool, id, NULL, NULL);
    run->scope = id;
    return is_ok(run, status, "changing the private pool");
}

/* A request, or an empty_cache(): both may begin with frees that completed. Memory given back by an
 * empty_cache() is marked; of a request the last event is the alloc or the oom. */
static bool play_longer_operation(replay *run, size_t begin, size_t *end)
{
    const hr_test_trace_event *events = run->trace->events;
    size_t count = run->trace->event_count, i = begin;
    while (i < count && events[i].kind == HR_TEST_EVENT &&
           events[i].action == HR_ACTION_FREE_COMPLETED)
        i++;
    bool is_trim = i < count && events[i].is_from_trim;
    for (; i < count && events[i].kind == HR_TEST_EVENT; i++) {
        unsigned action = events[i].action;
        if (events[i].is_from_trim != is_trim || action == HR_ACTION_FREE_REQUESTED ||
            action == HR_ACTION_SNAPSHOT)
            break;
        if (action == HR_ACTION_ALLOC || action == HR_ACTION_OOM) {
            *end = i + 1;
            return play_request(run, begin, *end);
        }
    }
    *end = i;
    if (is_trim)
        return play_trim(run, begin, *end);
    run->at = i;
    return differ(run, "a request that began at event %zu does not end", begin);
}

static bool play_operation(replay *run, size_t begin, size_t *end)
{
    const hr_test_trace_event *event = &run->trace->events[begin];
    run->at = begin;
    *end = begin + 1;
    if (event->kind != HR_TEST_EVENT)
        return play_mark(run, event);
    if (event->action == HR_ACTION_FREE_REQUESTED)
        return play_free(run, begin, end);
    if (event->action == HR_ACTION_SNAPSHOT)
        return play_snapshot(run, begin);
    return play_longer_operation(run, begin, end);
}

static bool play_events(replay *run)
{
    size_t next_check = EVENTS_BETWEEN_CHECKS;
    for (size_t i = 0; i < run->trace->event_count;) {
        if (!play_operation(run, i, &i))
            return false;
        if (i < next_check)
            continue;
        next_check = i + EVENTS_BETWEEN_CHECKS;
        if (!is_ok(run, hr_pool_check(run->pool), "hr_pool_check"))
            return false;
    }
    return is_ok(run, hr_pool_check(run->pool), "hr_pool_check");
}

/* ---- the end state --------------------------------------------------------------------------- */

static bool same_segment(void *context, const hr_segment_info *found)
{
    replay *run = context;
    const hr_test_trace *trace = run->trace;
    if (run->segments_walked == trace->segment_count)
        return differ(run, "segment %#" PRIx64 " is too many", found->address);
    const hr_segment_info *recorded = &trace->segments[run->segments_walked++];
    if (recorded->address != found->address || recorded->total_bytes != found->total_bytes ||
        recorded->allocated_bytes != found->allocated_bytes ||
        recorded->active_bytes != found->active_bytes ||
        recorded->requested_bytes != found->requested_bytes || recorded->stream != found->stream ||
        recorded->private_id.first != found->private_id.first ||
        recorded->private_id.second != found->private_id.second ||
        recorded->block_count != found->block_count || recorded->is_large != found->is_large ||
        recorded->is_expandable != found->is_expandable)
        return differ(run,
                      "expected segment %#" PRIx64 " of %" PRIu64 " bytes (allocated %" PRIu64
                      ", active %" PRIu64 ", requested %" PRIu64 ", blocks %zu), found %#" PRIx64
                      " of %" PRIu64 " (%" PRIu64 ", %" PRIu64 ", %" PRIu64
                      ", %zu), or its stream, pool or kind differs",
                      recorded->address, recorded->total_bytes, recorded->allocated_bytes,
                      recorded->active_bytes, recorded->requested_bytes, recorded->block_count,
                      found->address, found->total_bytes, found->allocated_bytes,
                      found->active_bytes, found->requested_bytes, found->block_count);
    return true;
}

static bool same_block(void *context, const hr_segment_info *segment, const hr_block_info *found)
{
    replay *run = context;
    const hr_test_trace *trace = run->trace;
    (void)segment;
    if (run->blocks_walked == trace->block_count)
        return differ(run, "block %#" PRIx64 " is too many", found->address);
    const hr_block_info *recorded = &trace->blocks[run->blocks_walked++];
    if (recorded->address != found->address || recorded->size_bytes != found->size_bytes ||
        recorded->requested_bytes != found->requested_bytes || recorded->state != found->state)
        return differ(run,
                      "expected block %#" PRIx64 " of %" PRIu64 " bytes, requested %" PRIu64
                      ", state %d; found %#" PRIx64 ", %" PRIu64 ", %" PRIu64 ", %d",
                      recorded->address, recorded->size_bytes, recorded->requested_bytes,
                      (int)recorded->state, found->address, found->size_bytes,
                      found->requested_bytes, (int)found->state);
    return true;
}

static bool same_memory(replay *run)
{
    const hr_walker walker = {run, same_segment, same_block};
    if (!is_ok(run, hr_pool_walk(run->pool, &walker, false), "hr_pool_walk") ||
        run->complaint[0] != '\0')
        return false;
    return (run->segments_walked == run->trace->segment_count &&
            run->blocks_walked == run->trace->block_count) ||
           differ(run, "expected %zu segments and %zu blocks, found %zu and %zu",
                  run->trace->segment_count, run->trace->block_count, run->segments_walked,
                  run->blocks_walked);
}

static void same_stat(void *context, const char *key, int64_t value)
{
    replay *run = context;
    bool is_lower_bound = strcmp(key, "num_sync_all_streams") == 0;
    if (strcmp(run->last_key, key) >= 0)
        differ(run, "statistic %s comes after %s", key, run->last_key);
    (void)snprintf(run->last_key, sizeof run->last_key, "%s", key);
    for (size_t i = 0; i < run->trace->stat_count; i++) {
        const hr_test_trace_stat *recorded = &run->trace->stats[i];
        if (strcmp(recorded->key, key) != 0)
            continue;
        run->stats_walked++;
        if (is_lower_bound ? value > recorded->value : value != recorded->value)
            differ(run, "expected %s %" PRId64 ", found %" PRId64, key, recorded->value, value);
    }
}

static bool same_stats(replay *run)
{
    hr_status status = hr_pool_walk_stats(run->pool, same_stat, run);
    if (!is_ok(run, status, "hr_pool_walk_stats") || run->complaint[0] != '\0')
        return false;
    return run->stats_walked == run->trace->stat_count ||
           differ(run, "of %zu statistics the pool has %zu", run->trace->stat_count,
                  run->stats_walked);
}

static bool same_summary(replay *run)
{
    char found[8192];
    const char *recorded = run->trace->summary;
    hr_status status = hr_pool_summary(run->pool, false, found, sizeof found, NULL);
    if (!is_ok(run, status, "hr_pool_summary"))
        return false;
    size_t i = 0;
    while (recorded[i] == found[i] && found[i] != '\0')
        i++;
    size_t line = i;
    while (line > 0 && recorded[line - 1] != '\n')
        line--;
    return recorded[i] == found[i] ||
           differ(run, "expected in the summary \"%.77s\", found \"%.77s\"", recorded + line,
                  found + line);
}

/* ---- one trace ------------------------------------------------------------------------------- */

static bool make_pool(replay *run)
{
    const hr_simulated_options options = {
        .struct_size = sizeof options,
        .capacity_bytes = HUGE_CAPACITY_BYTES,
        .total_bytes = run->trace->total_bytes,
        .manual_streams = true,
    };
    const hr_pool_options pool_options = {
        .struct_size = sizeof pool_options, .conf = run->trace->conf, .torch_version = "2.11"};
    const hr_event_sink sink = {run, listen};
    return is_ok(run, hr_simulated_device_create(&options, &run->device), "the device") &&
           is_ok(run, hr_pool_create(run->device, &pool_options, &run->pool), "the pool") &&
           is_ok(run, hr_pool_set_sink(run->pool, &sink), "hr_pool_set_sink") &&
           (run->trace->fraction >= 1.0 ||
            is_ok(run, hr_pool_set_fraction(run->pool, run->trace->fraction),
                  "hr_pool_set_fraction"));
}

bool hr_test_replay(const hr_test_trace *trace, char *complaint, size_t complaint_bytes)
{
    replay *run = calloc(1, sizeof *run);
    hr_memory_event *seen = malloc(MOST_SEEN * sizeof *seen);
    pending_free *pending = malloc(MOST_PENDING * sizeof *pending);
    bool is_same = false;
    (void)snprintf(complaint, complaint_bytes, "out of memory");
    if (run != NULL && seen != NULL && pending != NULL) {
        run->trace = trace;
        run->last_user = FIRST_USER_STREAM;
        run->seen = seen;
        run->pending = pending;
        is_same = make_pool(run) && play_events(run) && same_memory(run) && same_stats(run) &&
                  same_summary(run);
        (void)snprintf(complaint, complaint_bytes, "%s", run->complaint);
        hr_pool_destroy(run->pool);
        hr_device_destroy(run->device);
    }
    free(pending);
    free(seen);
    free(run);
    return is_same;
}
