/* view_growth.c - adding blocks up by stack at the ends of steps.
 *
 * A stack grows if it holds more at the end than after the first quarter of the samples, never less
 * at the end of a quarter than at that of the one before, and more at least twice: what is made
 * once, late, is no growth. Quarters are enough to choose by; whole rows are added up only for the
 * stacks that are chosen. */
#include "view/view_growth.h"

#include <stdbool.h>
#include <stdlib.h> /* qsort */

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

enum { QUARTERS = 4, FEWEST_RISES = 2 };

/* One stack, and what it holds at the end of each quarter. */
typedef struct stack_growth {
    uint64_t bytes[QUARTERS];
    uint32_t stack;
} stack_growth;

typedef struct growth_work {
    const vw__view_blocks *blocks;
    size_t stack_count; /* the one behind them is for blocks without a stack */
    stack_growth *sums; /* owned; by stack; then only those that grow, most first */
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

static size_t row_number(const growth_work *work, const vw__view_block *block)
{
    return block->stack != VW__VIEW_NONE ? block->stack : work->stack_count;
}

static void add_up_quarters(growth_work *work)
{
    const vw__view_growth *out = work->out;
    uint32_t instants[QUARTERS];
    for (size_t q = 0; q < QUARTERS; q++)
        instants[q] = out->instants[(q + 1) * out->sample_count / QUARTERS - 1];
    for (size_t i = 0; i <= work->stack_count; i++)
        work->sums[i].stack = i < work->stack_count ? (uint32_t)i : VW__VIEW_NONE;
    for (size_t i = 0; i < work->blocks->count; i++) {
        const vw__view_block *block = &work->blocks->blocks[i];
        stack_growth *sum = &work->sums[row_number(work, block)];
        for (size_t q = 0; q < QUARTERS; q++)
            if (is_live(block, instants[q]))
                sum->bytes[q] += block->size_bytes; /* the timeline has checked all sums */
    }
}

static bool grows(const stack_growth *sum)
{
    unsigned rises = 0;
    for (size_t q = 1; q < QUARTERS; q++) {
        if (sum->bytes[q] < sum->bytes[q - 1])
            return false;
        rises += sum->bytes[q] > sum->bytes[q - 1];
    }
    return rises >= FEWEST_RISES;
}

static uint64_t grown_bytes(const stack_growth *sum)
{
    return sum->bytes[QUARTERS - 1] - sum->bytes[0];
}

static int by_growth(const void *one, const void *other)
{
    const stack_growth *a = one, *b = other;
    uint64_t a_bytes = grown_bytes(a), b_bytes = grown_bytes(b);
    if (a_bytes != b_bytes)
        return a_bytes > b_bytes ? -1 : 1;
    return (a->stack > b->stack) - (a->stack < b->stack);
}

static size_t choose_stacks(growth_work *work)
{
    size_t kept = 0;
    for (size_t i = 0; i <= work->stack_count; i++)
        if (grows(&work->sums[i]))
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
        work->row_of[stack != VW__VIEW_NONE ? stack : work->stack_count] = (uint32_t)i;
    }
    for (size_t i = 0; i < work->blocks->count; i++) {
        const vw__view_block *block = &work->blocks->blocks[i];
        uint32_t row = work->row_of[row_number(work, block)];
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
    add_up_quarters(work);
    out->stack_count = choose_stacks(work);
    out->stacks = vw__host_alloc_zeroed(out->stack_count, sizeof *out->stacks);
    out->bytes = vw__host_alloc_zeroed(out->stack_count * out->sample_count, sizeof *out->bytes);
    if (out->stacks == NULL || out->bytes == NULL)
        return vw__fail_host_memory(out->stack_count * out->sample_count * sizeof *out->bytes,
                                    "the growth of a view");
    fill_rows(work);
    return VW_OK;
}

vw_status vw__view_growth_make(const vw__view_blocks *blocks, size_t stack_count,
                               const vw__steps *steps, vw__view_growth *out)
{
    growth_work work = {.blocks = blocks, .stack_count = stack_count, .out = out};
    *out = (vw__view_growth){.stacks = NULL};
    if (steps->end_count < VW__VIEW_FEWEST_STEPS) {
        out->reason = steps->end_count == 0
                          ? "no steps were found"
                          : "fewer than four steps were found: too few to tell growth from work";
        return VW_OK;
    }
    choose_samples(steps, out);
    vw_status status = find_growth(&work);
    vw__host_free(work.sums);
    vw__host_free(work.row_of);
    return status;
}

void vw__view_growth_deinit(vw__view_growth *growth)
{
    vw__host_free(growth->stacks);
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
    return vw__view_columns_add(columns, "growth.bytes",
                                VW__VIEW_ARRAY(growth->bytes, stacks * samples));
}
