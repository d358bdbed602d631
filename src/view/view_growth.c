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
    const hr__view_blocks *blocks;
    size_t stack_count; /* the one behind them is for blocks without a stack */
    stack_growth *sums; /* owned; by stack; then only those that grow, most first */
    uint32_t *row_of;   /* owned; by stack: place among the chosen, or HR__VIEW_NONE */
    hr__view_growth *out;
} growth_work;

static void choose_samples(const hr__steps *steps, hr__view_growth *out)
{
    size_t count = (size_t)hr__min_u64(steps->end_count, HR__VIEW_MOST_SAMPLES);
    for (size_t i = 0; i < count; i++) {
        size_t step = (i + 1) * steps->end_count / count - 1;
        out->steps[i] = (uint32_t)step;
        out->instants[i] = steps->ends[step];
    }
    out->sample_count = count;
}

static bool is_live(const hr__view_block *block, uint32_t instant)
{
    return block->begin <= instant && instant < block->end; /* HR__VIEW_NONE is above all */
}

static size_t row_number(const growth_work *work, const hr__view_block *block)
{
    return block->stack != HR__VIEW_NONE ? block->stack : work->stack_count;
}

static void add_up_quarters(growth_work *work)
{
    const hr__view_growth *out = work->out;
    uint32_t instants[QUARTERS];
    for (size_t q = 0; q < QUARTERS; q++)
        instants[q] = out->instants[(q + 1) * out->sample_count / QUARTERS - 1];
    for (size_t i = 0; i <= work->stack_count; i++)
        work->sums[i].stack = i < work->stack_count ? (uint32_t)i : HR__VIEW_NONE;
    for (size_t i = 0; i < work->blocks->count; i++) {
        const hr__view_block *block = &work->blocks->blocks[i];
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
    return (size_t)hr__min_u64(kept, HR__VIEW_MOST_GROWING);
}

/* The first sample at or after `instant`. */
static size_t sample_from(const hr__view_growth *out, uint32_t instant)
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
    hr__view_growth *out = work->out;
    for (size_t i = 0; i <= work->stack_count; i++)
        work->row_of[i] = HR__VIEW_NONE;
    for (size_t i = 0; i < out->stack_count; i++) {
        uint32_t stack = work->sums[i].stack;
        out->stacks[i] = stack;
        work->row_of[stack != HR__VIEW_NONE ? stack : work->stack_count] = (uint32_t)i;
    }
    for (size_t i = 0; i < work->blocks->count; i++) {
        const hr__view_block *block = &work->blocks->blocks[i];
        uint32_t row = work->row_of[row_number(work, block)];
        if (row == HR__VIEW_NONE)
            continue;
        size_t end = sample_from(out, block->end);
        for (size_t s = sample_from(out, block->begin); s < end; s++)
            out->bytes[row * out->sample_count + s] += block->size_bytes;
    }
}

static hr_status find_growth(growth_work *work)
{
    hr__view_growth *out = work->out;
    size_t room = work->stack_count + 1;
    work->sums = hr__host_alloc_zeroed(room, sizeof *work->sums);
    work->row_of = hr__host_alloc_zeroed(room, sizeof *work->row_of);
    if (work->sums == NULL || work->row_of == NULL)
        return hr__fail_host_memory(room * sizeof *work->sums, "the growth of a view");
    add_up_quarters(work);
    out->stack_count = choose_stacks(work);
    out->stacks = hr__host_alloc_zeroed(out->stack_count, sizeof *out->stacks);
    out->bytes = hr__host_alloc_zeroed(out->stack_count * out->sample_count, sizeof *out->bytes);
    if (out->stacks == NULL || out->bytes == NULL)
        return hr__fail_host_memory(out->stack_count * out->sample_count * sizeof *out->bytes,
                                    "the growth of a view");
    fill_rows(work);
    return HR_OK;
}

hr_status hr__view_growth_make(const hr__view_blocks *blocks, size_t stack_count,
                               const hr__steps *steps, hr__view_growth *out)
{
    growth_work work = {.blocks = blocks, .stack_count = stack_count, .out = out};
    *out = (hr__view_growth){.stacks = NULL};
    if (steps->end_count < HR__VIEW_FEWEST_STEPS) {
        out->reason = steps->end_count == 0
                          ? "no steps were found"
                          : "fewer than four steps were found: too few to tell growth from work";
        return HR_OK;
    }
    choose_samples(steps, out);
    hr_status status = find_growth(&work);
    hr__host_free(work.sums);
    hr__host_free(work.row_of);
    return status;
}

void hr__view_growth_deinit(hr__view_growth *growth)
{
    hr__host_free(growth->stacks);
    hr__host_free(growth->bytes);
    *growth = (hr__view_growth){.stacks = NULL};
}

hr_status hr__view_growth_write(const hr__view_growth *growth, hr__view_columns *columns)
{
    size_t samples = growth->sample_count, stacks = growth->stack_count;
    const uint32_t *steps = growth->steps, *instants = growth->instants;
    HR__TRY(hr__view_columns_add(columns, "growth.step", HR__VIEW_ARRAY(steps, samples)));
    HR__TRY(hr__view_columns_add(columns, "growth.instant", HR__VIEW_ARRAY(instants, samples)));
    HR__TRY(hr__view_columns_add(columns, "growth.stack", HR__VIEW_ARRAY(growth->stacks, stacks)));
    return hr__view_columns_add(columns, "growth.bytes",
                                HR__VIEW_ARRAY(growth->bytes, stacks * samples));
}
