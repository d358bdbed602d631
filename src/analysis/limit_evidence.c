/* limit_evidence.c - the memory limit and the card's size, as far as a trace shows them.
 *
 * A snapshot holds neither, but events are evidence. A request that took memory from the device
 * proves that the limit is at least what was held then plus what was asked for; one that failed, or
 * gave memory back before it succeeded, proves that it is less. Any limit in between reproduces the
 * trace. Where the two contradict each other it was the driver that refused: other processes came
 * and went. Then that one request is refused by the device. All are, where more was granted than
 * the card has: the limit counts whole segments, and the driver only the pages that are mapped.
 *
 * Garbage collection gives memory back inside a request as well, without any failure, from a
 * threshold that depends on the limit. It proves a weaker bound, and the limit must be searched for
 * (verify.c, replay_card.c).
 *
 * The card's size matters because an expandable segment reserves nine eighths of it. Any size will
 * do under which every reservation holds what was mapped in it and none reaches the next. */
#include "analysis/limit_evidence.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "analysis/array.h"
#include "analysis/recording.h" /* vw__recording_read_conf */
#include "analysis/regions.h"
#include "analysis/script_events.h"
#include "engine/torch/torch_rounding.h"

#define MOST_HELD_BYTES (UINT64_C(1) << 45)
#define LARGE_CARD_BYTES (UINT64_C(1) << 40)
#define LARGEST_CARD_BYTES                                                                         \
    (UINT64_C(1) << 44) /* books are kept for every page of a reservation                          \
                         */

/* A request that took memory from the device, or tried. */
typedef struct device_request {
    uint64_t held_before_bytes;
    uint64_t held_at_growth_bytes; /* when it succeeded, or failed for good */
    uint64_t first_growth_bytes;   /* what the first event of it took */
    uint64_t most_held_bytes;      /* in the course of it */
    uint64_t segment_bytes;        /* what the limit is held against */
    uint64_t device_free_bytes;    /* when it failed */
    bool has_released;             /* before it grew or failed */
    bool has_grown;
    bool has_failed_midway;    /* it mapped some pages, and then gave memory back */
    bool is_refused_by_driver; /* an oom, with less free on the device than was asked for */
} device_request;

typedef struct evidence_search {
    const vw__script *script;
    vw__torch_settings settings;
    uint64_t initial_bytes; /* held before the first event */
    uint64_t held_bytes;
    size_t next_event; /* that is not in held_bytes yet */
    vw__limit_evidence *out;
    size_t refusal_capacity;
    bool is_unlimited; /* more was granted than the card has: no limit was in force */
} evidence_search;

static void count_event(evidence_search *search, const vw__model_event *event)
{
    if (vw__script_is_growth(event->action))
        search->held_bytes = vw__add_capped_u64(search->held_bytes, event->size_bytes);
    else if (vw__script_is_release(event->action))
        search->held_bytes -= vw__min_u64(event->size_bytes, search->held_bytes);
}

/* Bytes held before the first event: those at the end, less those that were added. 0 for a trace
 * that begins at the first allocation. */
static uint64_t initially_held(const vw__script *script)
{
    const vw__model *model = script->model;
    uint64_t held_bytes = 0;
    size_t first, end;
    if (!script->is_truncated)
        return 0;
    vw__script_segments_of(model, script->trace->device, &first, &end);
    for (size_t i = first; i < end; i++)
        held_bytes += model->segments[i].total_bytes;
    for (size_t i = 0; i < script->trace->event_count; i++) {
        const vw__model_event *event = &script->trace->events[i];
        if (vw__script_is_growth(event->action))
            held_bytes -= event->size_bytes;
        else if (vw__script_is_release(event->action))
            held_bytes += event->size_bytes;
    }
    return held_bytes <= MOST_HELD_BYTES ? held_bytes : 0; /* modulo 2^64: a file may claim any */
}

static void begin_walk(evidence_search *search)
{
    search->held_bytes = search->initial_bytes;
    search->next_event = 0;
}

/* Follows the events of an operation, and those before it that belong to no operation. */
static device_request read_request(evidence_search *search, const vw__script_op *op)
{
    const vw__model_event *events = search->script->trace->events;
    while (search->next_event < op->first_event)
        count_event(search, &events[search->next_event++]);
    device_request request = {.held_before_bytes = search->held_bytes,
                              .most_held_bytes = search->held_bytes};
    uint64_t rounded_bytes = op->size_bytes < VW__TORCH_MOST_REQUESTED_BYTES
                                 ? vw__torch_round_size(&search->settings, op->size_bytes)
                                 : 0;
    request.segment_bytes = vw__torch_segment_size(&search->settings, rounded_bytes);
    for (; search->next_event < op->end_event; search->next_event++) {
        const vw__model_event *event = &events[search->next_event];
        if (vw__script_is_release(event->action)) {
            request.has_released = request.has_released || !request.has_grown;
            request.has_failed_midway = request.has_failed_midway || request.has_grown;
        } else if (vw__script_is_growth(event->action) && !request.has_grown) {
            request.held_at_growth_bytes = search->held_bytes;
            request.first_growth_bytes = event->size_bytes;
            request.has_grown = true;
        }
        count_event(search, event);
        request.most_held_bytes = vw__max_u64(request.most_held_bytes, search->held_bytes);
    }
    if (op->kind == VW__SCRIPT_OOM) {
        request.held_at_growth_bytes = search->held_bytes;
        request.device_free_bytes = events[op->end_event - 1].address;
        request.is_refused_by_driver =
            request.device_free_bytes <
            (search->settings.is_expandable ? rounded_bytes : request.segment_bytes);
    }
    return request;
}

static bool is_request(const vw__script_op *op)
{
    return op->kind == VW__SCRIPT_ALLOC || op->kind == VW__SCRIPT_OOM;
}

static void note_granted(vw__limit_evidence *out, const device_request *request)
{
    uint64_t held_bytes = request->held_at_growth_bytes;
    uint64_t grown_bytes = vw__max_u64(request->segment_bytes, request->first_growth_bytes);
    out->at_least_bytes =
        vw__max_u64(out->at_least_bytes, vw__add_capped_u64(held_bytes, request->segment_bytes));
    out->most_held_bytes =
        vw__max_u64(out->most_held_bytes, vw__add_capped_u64(held_bytes, grown_bytes));
}

static void note_oom(vw__limit_evidence *out, const device_request *request)
{
    if (out->has_oom)
        return;
    out->has_oom = true;
    out->is_oom_by_driver = request->is_refused_by_driver;
    out->oom_held_bytes = request->held_at_growth_bytes;
    out->oom_tried_bytes = request->segment_bytes;
    out->oom_device_bytes = request->device_free_bytes;
}

/* Finds the most that was granted, and the first request that failed. */
static void find_least(evidence_search *search)
{
    begin_walk(search);
    for (size_t i = 0; i < search->script->op_count; i++) {
        const vw__script_op *op = &search->script->ops[i];
        if (op->first_event >= op->end_event)
            continue;
        device_request request = read_request(search, op);
        if (op->kind == VW__SCRIPT_OOM)
            note_oom(search->out, &request);
        else if (op->kind == VW__SCRIPT_ALLOC && request.has_grown)
            note_granted(search->out, &request);
    }
}

/* A refusal by the driver is repeated on a card that has room for the most that was held in the
 * course of the request, and no more: whatever failed on the real one, which had that room, fails
 * there as well, and the end of it fits. */
static vw_status add_refusal(evidence_search *search, size_t op, uint64_t capacity_bytes)
{
    vw__limit_evidence *out = search->out;
    VW__TRY(vw__array_make_room(&out->refusals, &search->refusal_capacity, out->refusal_count,
                                sizeof *out->refusals, "requests that were refused"));
    out->refusals[out->refusal_count++] = (vw__limit_refusal){op, capacity_bytes};
    return VW_OK;
}

/* The bound below which a request that gave memory back first proves the limit to be. */
static uint64_t refused_bytes(const evidence_search *search, const device_request *request)
{
    uint64_t refused = vw__add_capped_u64(request->held_before_bytes, request->segment_bytes);
    double threshold = search->settings.garbage_collection_threshold;
    if (threshold <= 0.0)
        return refused;
    /* Or it collected garbage: more was held than the threshold of the limit, cut to bytes. */
    double collected = ((double)request->held_before_bytes + 1.0) / threshold + 1.0;
    return vw__max_u64(refused, collected < 0x1p62 ? (uint64_t)collected : UINT64_MAX);
}

static vw_status find_least_refused(evidence_search *search)
{
    vw__limit_evidence *out = search->out;
    bool collects = search->settings.garbage_collection_threshold > 0.0;
    begin_walk(search);
    for (size_t i = 0; i < search->script->op_count; i++) {
        const vw__script_op *op = &search->script->ops[i];
        if (op->first_event >= op->end_event)
            continue;
        device_request request = read_request(search, op);
        if (!is_request(op) || request.is_refused_by_driver)
            continue;
        if (op->kind == VW__SCRIPT_OOM) {
            uint64_t refused =
                vw__add_capped_u64(request.held_at_growth_bytes, request.segment_bytes);
            if (refused > out->at_least_bytes && !search->is_unlimited)
                out->below_bytes = vw__min_u64(out->below_bytes, refused);
            out->needs_search = out->needs_search || collects;
        } else if (request.has_failed_midway) {
            VW__TRY(add_refusal(search, i, request.most_held_bytes));
        } else if (request.has_released && request.has_grown) {
            uint64_t refused = refused_bytes(search, &request);
            out->needs_search = out->needs_search || collects;
            if (refused > out->at_least_bytes && !search->is_unlimited)
                out->below_bytes = vw__min_u64(out->below_bytes, refused);
            else
                VW__TRY(add_refusal(search, i, request.most_held_bytes));
        }
    }
    return VW_OK;
}

double vw__limit_fraction(uint64_t limit_bytes, uint64_t total_bytes)
{
    if (limit_bytes >= total_bytes)
        return 1.0;
    return ((double)limit_bytes + 0.25) / (double)total_bytes;
}

vw_status vw__limit_evidence_find(const vw__script *script, const char *torch_version,
                                  const char *conf, uint64_t total_bytes, vw__limit_evidence *out)
{
    evidence_search search = {.script = script, .out = out};
    *out = (vw__limit_evidence){.below_bytes = UINT64_MAX};
    VW__TRY(vw__recording_read_conf(torch_version, conf, &search.settings));
    out->is_simple = search.settings.max_split_size_bytes == VW__TORCH_UNLIMITED &&
                     search.settings.garbage_collection_threshold <= 0.0;
    out->has_conf_fraction = search.settings.per_process_memory_fraction < 1.0;
    search.initial_bytes = initially_held(script);
    out->at_least_bytes = out->most_held_bytes = search.initial_bytes;
    find_least(&search);
    search.is_unlimited = out->at_least_bytes > total_bytes;
    vw_status status = find_least_refused(&search);
    vw__torch_settings_deinit(&search.settings);
    if (status != VW_OK)
        vw__limit_evidence_deinit(out);
    return status;
}

void vw__limit_evidence_deinit(vw__limit_evidence *evidence)
{
    vw__host_free(evidence->refusals);
    *evidence = (vw__limit_evidence){.below_bytes = UINT64_MAX};
}

/* ---- the card's size ------------------------------------------------------------------------- */

/* How far reservations may reach, and how far they must. */
typedef struct reservation_bounds {
    uint64_t most_bytes;
    uint64_t least_bytes;
} reservation_bounds;

/* `region` is the last that was taken. */
static void note_neighbours(const vw__regions *regions, const vw__regions_entry *region,
                            reservation_bounds *bounds)
{
    vw__ordered_list_place behind = vw__ordered_list_up_to(&regions->held, region->address);
    const vw__regions_entry *above = vw__ordered_list_behind(&regions->held, behind);
    const vw__regions_entry *below =
        vw__ordered_list_before(&regions->held, vw__ordered_list_previous(&regions->held, behind));
    if (below != NULL && below->is_expandable)
        bounds->most_bytes = vw__min_u64(bounds->most_bytes, region->address - below->address);
    if (region->is_expandable && above != NULL)
        bounds->most_bytes = vw__min_u64(bounds->most_bytes, above->address - region->address);
}

static vw_status follow_regions(const vw__script *script, vw__regions *regions,
                                reservation_bounds *bounds)
{
    for (size_t i = 0; i < script->trace->event_count; i++) {
        const vw__model_event *event = &script->trace->events[i];
        const vw__regions_entry *region;
        vw__regions_entry was;
        bool is_new, is_gone;
        if (vw__script_is_growth(event->action)) {
            VW__TRY(vw__regions_take(regions, event->address, event->size_bytes,
                                     event->action == VW_ACTION_SEGMENT_MAP, &region, &is_new));
            if (is_new)
                note_neighbours(regions, region, bounds);
            if (region->is_expandable)
                bounds->least_bytes =
                    vw__max_u64(bounds->least_bytes, region->end - region->address);
        } else if (vw__script_is_release(event->action)) {
            (void)vw__regions_give_back(regions, event->address, event->size_bytes, &was, &is_gone);
        }
    }
    return VW_OK;
}

vw_status vw__limit_guess_total(const vw__script *script, uint64_t *out)
{
    reservation_bounds bounds = {.most_bytes = UINT64_MAX};
    vw__regions regions;
    vw__regions_init(&regions);
    vw_status status = follow_regions(script, &regions, &bounds);
    vw__regions_deinit(&regions);
    if (status != VW_OK)
        return status;
    uint64_t wanted_bytes = vw__max_u64(LARGE_CARD_BYTES / 8 * 9, bounds.least_bytes);
    uint64_t reserved_bytes =
        vw__min_u64(vw__min_u64(wanted_bytes, LARGEST_CARD_BYTES), bounds.most_bytes);
    /* Reservations are rounded up to pages of at most half a GiB, mostly of 20 MiB. */
    uint64_t slack_bytes = vw__min_u64(reserved_bytes / 4, UINT64_C(32) << 20);
    *out = vw__max_u64((reserved_bytes - slack_bytes) / 9 * 8, 1);
    return VW_OK;
}
