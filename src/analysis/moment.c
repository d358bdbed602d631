/* moment.c - adding blocks up by stack.
 *
 * Equal stacks have one id in the model, so a table by stack is all it takes: one sum for each
 * stack that occurs, and one more for blocks without any. Frames are written out only for usages
 * that are handed out, since a stack may have a hundred; and once for all moments that share them.
 *
 * The order is fixed for equal bytes too (more blocks first, then the stack's number), so that two
 * runs over one file print the same. */
#include "analysis/moment.h"

#include <stdlib.h> /* qsort */

#include "base/checked_math.h" /* vw__add_u64 */
#include "base/error.h"
#include "base/host_memory.h"

/* The blocks of one stack. */
typedef struct stack_sum {
    uint64_t bytes, block_count, largest_bytes;
    uint32_t stack; /* model->stacks, or their count: no stack was captured */
} stack_sum;

typedef struct gathering {
    const vw__attribution *attribution;
    const vw__model *model;
    stack_sum *sums; /* owned; by stack, and one more; compacted and sorted before use */
    size_t sum_count;
    uint64_t bytes, block_count;
} gathering;

static vw_status begin_gathering(gathering *all, const vw__attribution *attribution)
{
    const vw__model *model = attribution->model;
    all->attribution = attribution;
    all->model = model;
    all->sum_count = model->stack_count + 1;
    all->sums = vw__host_alloc_zeroed(all->sum_count, sizeof *all->sums);
    if (all->sums == NULL)
        return vw__fail_host_memory(all->sum_count * sizeof *all->sums, "live bytes by stack");
    for (size_t i = 0; i < all->sum_count; i++)
        all->sums[i].stack = (uint32_t)i;
    return VW_OK;
}

static vw_status gather(gathering *all, uint32_t context, uint64_t size_bytes)
{
    const vw__model *model = all->model;
    size_t place = context != VW__MODEL_NO_CONTEXT ? model->contexts[context] : model->stack_count;
    stack_sum *sum = &all->sums[place];
    if (!vw__add_u64(all->bytes, size_bytes, &all->bytes))
        return vw__fail(VW_ERR_CORRUPT_FILE, "the live blocks are larger than any device");
    sum->bytes += size_bytes; /* no more than the sum of all */
    sum->block_count++;
    if (size_bytes > sum->largest_bytes)
        sum->largest_bytes = size_bytes;
    all->block_count++;
    return VW_OK;
}

static int compare_u64(uint64_t one, uint64_t other)
{
    return (one > other) - (one < other);
}

/* Most bytes first. */
static int compare_sums(const void *left, const void *right)
{
    const stack_sum *one = left, *other = right;
    int order = compare_u64(other->bytes, one->bytes);
    if (order == 0)
        order = compare_u64(other->block_count, one->block_count);
    return order != 0 ? order : compare_u64(one->stack, other->stack);
}

static void sort_sums(gathering *all)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->sum_count; i++)
        if (all->sums[i].block_count != 0)
            all->sums[kept++] = all->sums[i];
    all->sum_count = kept;
    qsort(all->sums, kept, sizeof *all->sums, compare_sums);
}

static vw__category category_of(const gathering *all, const stack_sum *sum)
{
    if (sum->stack == all->model->stack_count)
        return VW__CATEGORY_UNKNOWN;
    return (vw__category)all->attribution->stack_categories[sum->stack];
}

/* ---- what is handed out ---------------------------------------------------------------------- */

typedef struct vw__written_stack {
    const vw_frame *frames; /* the arena's; NULL: not written yet */
    const vw_frame *where;
} written_stack;

vw_status vw__moment_share_stacks(vw__attribution *attribution, vw__arena *arena)
{
    const size_t count = attribution->model->stack_count;
    written_stack *stacks =
        vw__arena_alloc_array(arena, count, sizeof *stacks, _Alignof(written_stack));
    if (stacks == NULL)
        return vw__fail_host_memory(count * sizeof *stacks, "the stacks of moments");
    for (size_t i = 0; i < count; i++)
        stacks[i] = (written_stack){.frames = NULL};
    attribution->written_stacks = stacks;
    return VW_OK;
}

static vw_status write_stack(const gathering *all, vw__model_stack stack, vw__arena *arena,
                             written_stack *out)
{
    const vw__model *model = all->model;
    vw_frame *frames =
        vw__arena_alloc_array(arena, stack.count, sizeof *frames, _Alignof(vw_frame));
    if (frames == NULL)
        return vw__fail_host_memory(stack.count * sizeof *frames, "a stack");
    for (uint32_t i = 0; i < stack.count; i++) {
        const vw__model_frame *frame = &model->frames[model->frame_ids[stack.first + i]];
        frames[i].function = vw__model_string(model, frame->name);
        frames[i].file = vw__model_string(model, frame->filename);
        frames[i].line = frame->line;
    }
    size_t where = vw__attribution_where(all->attribution, stack);
    out->frames = frames;
    out->where = where != VW__ATTRIBUTION_NO_FRAME ? &frames[where] : NULL;
    return VW_OK;
}

static vw_status write_frames(const gathering *all, uint32_t stack_id, vw__arena *arena,
                              vw_usage *usage)
{
    const vw__model_stack stack = all->model->stacks[stack_id];
    written_stack *shared = all->attribution->written_stacks;
    written_stack own = {.frames = NULL}, *written = shared != NULL ? &shared[stack_id] : &own;
    if (written->frames == NULL)
        VW__TRY(write_stack(all, stack, arena, written));
    usage->frames = written->frames;
    usage->frame_count = stack.count;
    usage->where = written->where;
    return VW_OK;
}

static vw_status write_usages(const gathering *all, size_t most_usages, vw__arena *arena,
                              vw_moment *moment)
{
    size_t count = all->sum_count;
    if (most_usages == VW__MOMENT_NO_USAGES)
        return VW_OK;
    if (most_usages != 0 && count > most_usages)
        count = most_usages;
    vw_usage *usages = vw__arena_alloc_array(arena, count, sizeof *usages, _Alignof(vw_usage));
    if (usages == NULL)
        return vw__fail_host_memory(count * sizeof *usages, "live bytes by stack");
    for (size_t i = 0; i < count; i++) {
        const stack_sum *sum = &all->sums[i];
        usages[i].bytes = sum->bytes;
        usages[i].block_count = sum->block_count;
        usages[i].largest_bytes = sum->largest_bytes;
        usages[i].category = vw__category_name(category_of(all, sum));
        usages[i].has_stack = sum->stack != all->model->stack_count;
        if (usages[i].has_stack)
            VW__TRY(write_frames(all, sum->stack, arena, &usages[i]));
    }
    moment->usages = usages;
    moment->usage_count = count;
    return VW_OK;
}

static vw_status write_categories(const gathering *all, vw__arena *arena, vw_moment *moment)
{
    stack_sum sums[VW__CATEGORY_COUNT] = {0};
    for (size_t i = 0; i < all->sum_count; i++) {
        const stack_sum *sum = &all->sums[i];
        stack_sum *total = &sums[category_of(all, sum)];
        total->bytes += sum->bytes;
        total->block_count += sum->block_count;
        if (sum->largest_bytes > total->largest_bytes)
            total->largest_bytes = sum->largest_bytes;
    }
    for (uint32_t i = 0; i < VW__CATEGORY_COUNT; i++)
        sums[i].stack = i; /* here: the category, to be found again after sorting */
    qsort(sums, VW__CATEGORY_COUNT, sizeof *sums, compare_sums);

    size_t count = 0;
    while (count < VW__CATEGORY_COUNT && sums[count].block_count != 0)
        count++;
    vw_usage *usages = vw__arena_alloc_array(arena, count, sizeof *usages, _Alignof(vw_usage));
    if (usages == NULL)
        return vw__fail_host_memory(count * sizeof *usages, "live bytes by category");
    for (size_t i = 0; i < count; i++) {
        usages[i].category = vw__category_name((vw__category)sums[i].stack);
        usages[i].has_stack = sums[i].stack != VW__CATEGORY_UNKNOWN;
        usages[i].bytes = sums[i].bytes;
        usages[i].block_count = sums[i].block_count;
        usages[i].largest_bytes = sums[i].largest_bytes;
    }
    moment->categories = usages;
    moment->category_count = count;
    return VW_OK;
}

static vw_status write_moment(gathering *all, size_t most_usages, vw__arena *arena,
                              vw_moment *moment)
{
    sort_sums(all);
    moment->live_bytes = all->bytes;
    moment->block_count = all->block_count;
    VW__TRY(write_usages(all, most_usages, arena, moment));
    return write_categories(all, arena, moment);
}

/* ---- an instant, and the end ----------------------------------------------------------------- */

static vw_status gather_instant(gathering *all, const vw__timeline *timeline, uint32_t instant)
{
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &timeline->lifetimes[i];
        if (vw__lifetime_is_live(lifetime, instant))
            VW__TRY(gather(all, lifetime->context, lifetime->size_bytes));
    }
    return VW_OK;
}

vw_status vw__moment_of_instant(const vw__timeline *timeline, uint32_t instant,
                                const vw__attribution *attribution, size_t most_usages,
                                vw__arena *arena, vw_moment *out)
{
    gathering all = {0};
    size_t event = instant != 0 ? instant - 1 : 0;
    bool has_event = instant != 0 && event < timeline->trace->event_count;
    vw_moment moment = {
        .event = event,
        .time_us = has_event ? timeline->trace->events[event].time_us : VW__MODEL_UNKNOWN_TIME,
        .reserved_bytes = vw__timeline_reserved_at(timeline, instant),
    };
    vw_status status = begin_gathering(&all, attribution);
    if (status == VW_OK)
        status = gather_instant(&all, timeline, instant);
    if (status == VW_OK)
        status = write_moment(&all, most_usages, arena, &moment);
    vw__host_free(all.sums);
    if (status == VW_OK)
        *out = moment;
    return status;
}

static vw_status gather_end(gathering *all, int device, uint64_t *reserved_bytes)
{
    const vw__model *model = all->model;
    *reserved_bytes = 0;
    for (size_t i = 0; i < model->segment_count; i++) {
        const vw__model_segment *segment = &model->segments[i];
        if (segment->device != device)
            continue;
        if (!vw__add_u64(*reserved_bytes, segment->total_bytes, reserved_bytes))
            return vw__fail(VW_ERR_CORRUPT_FILE, "the segments are larger than any device");
        for (size_t b = 0; b < segment->block_count; b++) {
            const vw__model_block *block = &model->blocks[segment->first_block + b];
            if (block->state != VW_BLOCK_FREE)
                VW__TRY(gather(all, block->context, vw__lifetime_bytes_of_block(block)));
        }
    }
    return VW_OK;
}

vw_status vw__moment_of_end(const vw__attribution *attribution, const vw__model_trace *trace,
                            int device, size_t most_usages, vw__arena *arena, vw_moment *out)
{
    gathering all = {0};
    bool has_event = trace != NULL && trace->event_count != 0;
    vw_moment moment = {
        .event = has_event ? trace->event_count - 1 : VW_UNKNOWN,
        .time_us =
            has_event ? trace->events[trace->event_count - 1].time_us : VW__MODEL_UNKNOWN_TIME,
    };
    vw_status status = begin_gathering(&all, attribution);
    if (status == VW_OK)
        status = gather_end(&all, device, &moment.reserved_bytes);
    if (status == VW_OK)
        status = write_moment(&all, most_usages, arena, &moment);
    vw__host_free(all.sums);
    if (status == VW_OK)
        *out = moment;
    return status;
}
