/* view_growth.c - adding blocks up by stack at the ends of steps.
 *
 * The doctor says which stacks leak. These are shown, and all that hold more at the last sample
 * than at the first. Whole rows are added up only for the stacks that are chosen. */
#include "view/view_growth.h"

#include <stdlib.h> /* qsort */

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "trend/trend.h" /* VW__TREND_FEWEST_POINTS */

/* One stack, what it holds at the first and the last sample, and the doctor's answer. */
typedef struct stack_growth {
    uint64_t first_bytes, last_bytes;
    uint64_t bytes_per_step; /* 0: it does not leak */
    uint32_t stack;
} stack_growth;

typedef struct growth_work {
    const vw__view_blocks *blocks;
    const vw__view_leaks *leaks;
    size_t stack_count; /* the one behind them is for blocks without a stack */
    stack_growth *sums; /* owned; by stack; then only those shown, in order */
    uint32_t *row_of;   /* owned; by stack: place among the chosen, or VW__VIEW_NONE */
    vw__view_growth *out;
} growth_work;

static void choose_samples(const vw__steps *steps, vw__view_growth *out)
{
    size_t count = (size_t)vw__min_u64(steps->end_count, VW__VIEW_MOST_SAMPLES);
    for (size_t i = 0; i < count; i++) {
        size_t step = (i + 1) * steps->end_count / count - 1;
        out->steps[i] = (uint32_t)step;
        out->instants[i] = steps->ends[step];
    }
    out->sample_count = count;
}

static bool is_live(const vw__view_block *block, uint32_t instant)
{
    return block->begin <= instant && instant < block->end; /* VW__VIEW_NONE is above all */
}

static size_t row_number(const growth_work *work, uint32_t stack)
{
    return stack != VW__VIEW_NONE ? stack : work->stack_count;
}

static void add_up_ends(growth_work *work)
{
    const vw__view_growth *out = work->out;
    const vw__diagnosis_found_growth *found = &work->leaks->growth;
    uint32_t first = out->instants[0], last = out->instants[out->sample_count - 1];
    for (size_t i = 0; i <= work->stack_count; i++)
        work->sums[i].stack = i < work->stack_count ? (uint32_t)i : VW__VIEW_NONE;
    for (size_t i = 0; i < work->blocks->count; i++) {
        const vw__view_block *block = &work->blocks->blocks[i];
        stack_growth *sum = &work->sums[row_number(work, block->stack)];
        if (is_live(block, first)) /* the timeline has checked all sums */
            sum->first_bytes += block->size_bytes;
        if (is_live(block, last))
            sum->last_bytes += block->size_bytes;
    }
    for (size_t i = 0; i < found->stack_count; i++) {
        uint32_t stack = found->stacks[i].stack;
        stack =
            work->leaks->number_of[stack != VW__DIAGNOSIS_NO_STACK ? stack : VW__MODEL_EMPTY_STACK];
        work->sums[row_number(work, stack)].bytes_per_step += found->stacks[i].bytes_per_step;
    }
}

static uint64_t grown_bytes(const stack_growth *sum)
{
    return sum->last_bytes > sum->first_bytes ? sum->last_bytes - sum->first_bytes : 0;
}

/* Those that leak first, the fastest first; then by what they hold more. */
static int by_growth(const void *one, const void *other)
{
    const stack_growth *a = one, *b = other;
    uint64_t a_bytes = grown_bytes(a), b_bytes = grown_bytes(b);
    if (a->bytes_per_step != b->bytes_per_step)
        return a->bytes_per_step > b->bytes_per_step ? -1 : 1;
    if (a_bytes != b_bytes)
        return a_bytes > b_bytes ? -1 : 1;
    return (a->stack > b->stack) - (a->stack < b->stack);
}

static size_t choose_stacks(growth_work *work)
{
    size_t kept = 0;
    for (size_t i = 0; i <= work->stack_count; i++)
        if (work->sums[i].bytes_per_step != 0 || grown_bytes(&work->sums[i]) != 0)
            work->sums[kept++] = work->sums[i];
    qsort(work->sums, kept, sizeof *work->sums, by_growth);
    return (size_t)vw__min_u64(kept, VW__VIEW_MOST_GROWING);
}

/* The first sample at or after `instant`. */
static size_t sample_from(const vw__view_growth *out, uint32_t instant)
{
    size_t low = 0, high = out->sample_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (out->instants[middle] < instant)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void fill_rows(growth_work *work)
{
    vw__view_growth *out = work->out;
    for (size_t i = 0; i <= work->stack_count; i++)
        work->row_of[i] = VW__VIEW_NONE;
    for (size_t i = 0; i < out->stack_count; i++) {
        uint32_t stack = work->sums[i].stack;
        out->stacks[i] = stack;
        out->bytes_per_step[i] = work->sums[i].bytes_per_step;
        work->row_of[row_number(work, stack)] = (uint32_t)i;
    }
    for (size_t i = 0; i < work->blocks->count; i++) {
        const vw__view_block *block = &work->blocks->blocks[i];
        uint32_t row = work->row_of[row_number(work, block->stack)];
        if (row == VW__VIEW_NONE)
            continue;
        size_t end = sample_from(out, block->end);
        for (size_t s = sample_from(out, block->begin); s < end; s++)
            out->bytes[row * out->sample_count + s] += block->size_bytes;
    }
}

static vw_status find_growth(growth_work *work)
{
    vw__view_growth *out = work->out;
    size_t room = work->stack_count + 1;
    work->sums = vw__host_alloc_zeroed(room, sizeof *work->sums);
    work->row_of = vw__host_alloc_zeroed(room, sizeof *work->row_of);
    if (work->sums == NULL || work->row_of == NULL)
        return vw__fail_host_memory(room * sizeof *work->sums, "the growth of a view");
    add_up_ends(work);
    out->stack_count = choose_stacks(work);
    out->stacks = vw__host_alloc_zeroed(out->stack_count, sizeof *out->stacks);
    out->bytes_per_step = vw__host_alloc_zeroed(out->stack_count, sizeof *out->bytes_per_step);
    out->bytes = vw__host_alloc_zeroed(out->stack_count * out->sample_count, sizeof *out->bytes);
    if (out->stacks == NULL || out->bytes_per_step == NULL || out->bytes == NULL)
        return vw__fail_host_memory(out->stack_count * out->sample_count * sizeof *out->bytes,
                                    "the growth of a view");
    fill_rows(work);
    return VW_OK;
}

vw_status vw__view_growth_make(const vw__view_blocks *blocks, size_t stack_count,
                               const vw__steps *steps, const vw__view_leaks *leaks,
                               vw__view_growth *out)
{
    growth_work work = {.blocks = blocks, .leaks = leaks, .stack_count = stack_count, .out = out};
    *out = (vw__view_growth){.stacks = NULL};
    if (steps->end_count == 0)
        out->reason = "no steps were found";
    else if (steps->end_count < VW__TREND_FEWEST_POINTS)
        out->reason = "fewer than six steps were found: too few to tell growth from work";
    else
        out->reason = leaks->reason;
    if (out->reason != NULL)
        return VW_OK;
    choose_samples(steps, out);
    vw_status status = find_growth(&work);
    vw__host_free(work.sums);
    vw__host_free(work.row_of);
    return status;
}

void vw__view_growth_deinit(vw__view_growth *growth)
{
    vw__host_free(growth->stacks);
    vw__host_free(growth->bytes_per_step);
    vw__host_free(growth->bytes);
    *growth = (vw__view_growth){.stacks = NULL};
}

vw_status vw__view_growth_write(const vw__view_growth *growth, vw__view_columns *columns)
{
    size_t samples = growth->sample_count, stacks = growth->stack_count;
    const uint32_t *steps = growth->steps, *instants = growth->instants;
    VW__TRY(vw__view_columns_add(columns, "growth.step", VW__VIEW_ARRAY(steps, samples)));
    VW__TRY(vw__view_columns_add(columns, "growth.instant", VW__VIEW_ARRAY(instants, samples)));
    VW__TRY(vw__view_columns_add(columns, "growth.stack", VW__VIEW_ARRAY(growth->stacks, stacks)));
    VW__TRY(vw__view_columns_add(columns, "growth.bytes_per_step",
                                 VW__VIEW_ARRAY(growth->bytes_per_step, stacks)));
    return vw__view_columns_add(columns, "growth.bytes",
                                VW__VIEW_ARRAY(growth->bytes, stacks * samples));
}
