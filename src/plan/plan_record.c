/* plan_record.c - the planned steps, played through PyTorch's rules and written down.
 *
 * The requests of the tape go to the real pool, on a simulated device without an end; what the pool
 * tells its listener are the events, and what it holds at last are the segments and blocks. So a
 * planned recording is a recording: addresses, splits and cached blocks are as the allocator has
 * them, and `vramwise verify` finds it exact.
 *
 * Nothing in it depends on the clock or the machine. Times are made up, EVENT_US from one event to
 * the next, and an annotation says so; others mark the steps, as torch.profiler does. */
#include "plan/plan_record.h"

#include <stdio.h> /* snprintf */
#include <string.h>

#include "vramwise/device.h"
#include "vramwise/vramwise.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "model/model_build.h"
#include "model/model_torch.h"
#include "plan/plan_events.h"
#include "plan/plan_stacks.h"

enum { STEPS = 3, VERSION = 211, EVENT_US = 100 };
#define VERSION_TEXT "2.11"
#define DEVICE_BYTES (UINT64_C(1) << 45)
#define MADE_UP "planned by vramwise: nothing was measured, times are made up"

typedef struct recording {
    const vw__plan_events *events;
    vw__model_builder *builder;
    vw__plan_stacks stacks;
    vw_device *device;
    vw_pool *pool;
    vw_device_ptr *addresses; /* by slot */
    vw_status status;         /* of the first failure in a callback */
    size_t block_count;       /* while the end is walked */
} recording;

/* ---- events ---------------------------------------------------------------------------------- */

/* A tag is a context, and one. */
static uint32_t context_of(uint64_t tag)
{
    return tag == 0 ? VW__NO_CONTEXT : (uint32_t)(tag - 1);
}

static int64_t next_time_us(const recording *r)
{
    return EVENT_US * (int64_t)vw__model_builder_event_count(r->builder);
}

static vw_status add_event(recording *r, const vw_memory_event *event)
{
    size_t index;
    vw__model_event made = {
        .address = event->address,
        .size_bytes = event->size_bytes,
        .time_us = next_time_us(r),
        .context = context_of(event->tag),
        .note = VW__NO_NOTE,
        .pool = VW__UNKNOWN_POOL,
        .action = (uint8_t)event->action,
    };
    VW__TRY(vw__model_add_stream(r->builder, event->stream, &made.stream));
    return vw__model_add_event(r->builder, &made, &index);
}

static void notice(void *context, const vw_memory_event *event)
{
    recording *r = context;
    if (r->status == VW_OK)
        r->status = add_event(r, event);
}

/* ---- playing --------------------------------------------------------------------------------- */

static vw_status play_alloc(recording *r, size_t op)
{
    const vw__script_op *request = &r->events->script.ops[op];
    uint32_t stack, context;
    VW__TRY(vw__plan_stack_of(&r->stacks, &r->events->origins[op], &stack));
    VW__TRY(vw__model_begin_context(r->builder, stack, &context));
    const vw_alloc_request order = {.struct_size = sizeof order,
                                    .size_bytes = request->size_bytes,
                                    .tag = (uint64_t)context + 1};
    return vw_alloc_with(r->pool, &order, &r->addresses[request->slot]);
}

static vw_status play(recording *r, size_t begin, size_t end)
{
    const vw__script_op *ops = r->events->script.ops;
    for (size_t i = begin; i < end; i++) {
        VW__TRY(ops[i].kind == VW__SCRIPT_ALLOC ? play_alloc(r, i)
                                                : vw_free(r->pool, r->addresses[ops[i].slot]));
        VW__TRY(r->status);
    }
    return VW_OK;
}

static vw_status annotate(recording *r, const char *name, int64_t time_us, bool is_start)
{
    vw__model_annotation annotation = {.time_us = time_us, .is_start = is_start};
    VW__TRY(vw__model_add_string(r->builder, name, strlen(name), &annotation.name));
    return vw__model_add_annotation(r->builder, &annotation);
}

static vw_status play_step(recording *r, size_t number, bool is_training)
{
    const vw__plan_step *step = &r->events->steps[number];
    char name[40];
    (void)snprintf(name, sizeof name, "ProfilerStep#%zu", number);
    if (is_training)
        VW__TRY(annotate(r, name, next_time_us(r), true));
    VW__TRY(play(r, step->begin, step->end));
    return is_training ? annotate(r, name, next_time_us(r) - EVENT_US, false) : VW_OK;
}

static vw_status play_all(recording *r, bool is_training)
{
    const vw__plan_events *events = r->events;
    size_t next = 0;
    VW__TRY(annotate(r, MADE_UP, 0, true));
    for (size_t i = 0; i < events->step_count; i++) {
        VW__TRY(play(r, next, events->steps[i].begin));
        VW__TRY(play_step(r, i, is_training));
        next = events->steps[i].end;
    }
    VW__TRY(play(r, next, events->script.op_count));
    return annotate(r, MADE_UP, next_time_us(r) - EVENT_US, false);
}

/* ---- the end --------------------------------------------------------------------------------- */

static bool add_block(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    recording *r = context;
    size_t index;
    const vw__model_block made = {
        .address = block->address,
        .size_bytes = block->size_bytes,
        .requested_bytes = block->requested_bytes,
        .context = context_of(block->tag),
        .state = (uint8_t)block->state,
    };
    (void)segment;
    r->status = vw__model_add_block(r->builder, &made, &index);
    return r->status == VW_OK;
}

static vw_status add_segment(recording *r, const vw_segment_info *segment)
{
    vw__model_segment made = {
        .address = segment->address,
        .total_bytes = segment->total_bytes,
        .allocated_bytes = segment->allocated_bytes,
        .active_bytes = segment->active_bytes,
        .requested_bytes = segment->requested_bytes,
        .first_block = r->block_count,
        .block_count = segment->block_count,
        .context = context_of(segment->tag),
        .is_large = segment->is_large,
        .is_expandable = segment->is_expandable,
    };
    r->block_count += segment->block_count;
    VW__TRY(vw__model_add_stream(r->builder, segment->stream, &made.stream));
    VW__TRY(vw__model_add_pool(r->builder, segment->private_id, &made.pool));
    return vw__model_add_segment(r->builder, &made);
}

static bool walk_segment(void *context, const vw_segment_info *segment)
{
    recording *r = context;
    r->status = add_segment(r, segment);
    return r->status == VW_OK;
}

static void add_setting(void *context, const char *key, const char *value)
{
    recording *r = context;
    if (r->status == VW_OK)
        r->status = vw__model_add_conf(r->builder, key, value);
}

static vw_status add_end(recording *r)
{
    const vw_walker walker = {r, walk_segment, add_block};
    VW__TRY(vw_pool_walk(r->pool, &walker, false));
    VW__TRY(r->status);
    VW__TRY(vw_pool_walk_conf(r->pool, add_setting, r));
    VW__TRY(r->status);
    return vw__model_add_trace(r->builder, 0, 0, vw__model_builder_event_count(r->builder));
}

/* ---- the whole ------------------------------------------------------------------------------- */

static vw_status start(recording *r, const char *program)
{
    const vw_simulated_options device = {.struct_size = sizeof device,
                                         .capacity_bytes = DEVICE_BYTES};
    const vw_pool_options pool = {
        .struct_size = sizeof pool, .conf = "", .torch_version = VERSION_TEXT, .is_unlisted = true};
    const vw_event_sink sink = {r, notice};
    size_t slot_count = r->events->script.slot_count;
    VW__TRY(vw__model_builder_create(SIZE_MAX, &r->builder));
    VW__TRY(vw__plan_stacks_init(&r->stacks, r->events, program, r->builder));
    r->addresses = vw__host_alloc_zeroed(slot_count, sizeof *r->addresses);
    if (r->addresses == NULL)
        return vw__fail_host_memory(slot_count * sizeof *r->addresses, "the blocks of a plan");
    VW__TRY(vw_simulated_device_create(&device, &r->device));
    VW__TRY(vw_pool_create(r->device, &pool, &r->pool));
    return vw_pool_set_sink(r->pool, &sink);
}

static vw_status fill(recording *r, bool is_training)
{
    vw__model_features *features = vw__model_builder_features(r->builder);
    *features = vw__model_features_of(VERSION);
    features->has_contexts = true;
    VW__TRY(play_all(r, is_training));
    return add_end(r);
}

static vw_status record(const vw__plan_events *events, bool is_training, vw__model **out)
{
    recording r = {.events = events};
    vw_status status = start(&r, is_training ? "train" : "evaluate");
    if (status == VW_OK)
        status = fill(&r, is_training);
    if (status == VW_OK)
        status = vw__model_finish(r.builder, out);
    if (status != VW_OK)
        vw__model_builder_destroy(r.builder);
    vw_pool_destroy(r.pool);
    vw_device_destroy(r.device);
    vw__host_free(r.addresses);
    vw__plan_stacks_deinit(&r.stacks);
    if (status == VW_ERR_OUT_OF_MEMORY || status == VW_ERR_TOO_LARGE)
        status = vw__fail(VW_ERR_UNSUPPORTED, "the plan needs more than a device could have");
    return status;
}

vw_status vw__plan_record_model(const vw_plan_model *model, const vw_plan_settings *settings,
                                vw__model **out)
{
    vw__plan_events events;
    VW__TRY(vw__plan_events_make(model, settings, STEPS, &events));
    vw_status status = record(&events, settings->mode == VW_PLAN_MODE_TRAIN, out);
    vw__plan_events_deinit(&events);
    return status;
}
