/* pool_summary.c - torch.cuda.memory_summary(), character for character.
 *
 * A frame of 77 columns, a heading, then one group per metric: the row "all" and, unless
 * abbreviated, one row for each half. The four columns are the four numbers of an vw_stat.
 *
 * A cell is a whole number and a unit. The unit is chosen by the "all" row of the same column, so
 * that the rows below add up by eye. The number is divided as Python's // does, rounding downwards,
 * once per unit; the "all" value is divided as a double, as Python's / does, so that the choice
 * falls alike for the largest values too.
 *
 * Differences between releases: rows for requested bytes, and KiB where there was KB, came
 * with 2.0; the oversize rows with 1.10. */
#include "pool/pool.h"

#include <inttypes.h>

#include "pool/cut_text.h"

#define RULE "---------------------------------------------------------------------------"
#define DOUBLE_RULE "==========================================================================="

/* ---- cells ----------------------------------------------------------------------------------- */

/* How a number and its unit are written. */
typedef struct scale {
    const char *const *units;
    int unit_count;
    double most;     /* values from this on take the next unit */
    int64_t divisor; /* from one unit to the next */
    int width;
} scale;

static const char *const binary_names[] = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"};
static const char *const short_names[] = {"B ", "KB", "MB", "GB", "TB", "PB"};
static const char *const count_names[] = {"  ", "K ", "M "};

static const scale sizes = {binary_names, 6, 768 * 1024, 1024, 6};
static const scale sizes_before_2_0 = {short_names, 6, 768 * 1024, 1024, 7};
static const scale counts = {count_names, 3, 750 * 1000, 1000, 7};

/* Python's //, which rounds down where C rounds towards zero. */
static int64_t floor_divide(int64_t value, int64_t divisor)
{
    return value / divisor - (value % divisor < 0);
}

static void append_cell(vw__cut_text *text, const scale *by, int64_t value, int64_t reference)
{
    double measure = (double)reference;
    int unit = 0;
    for (; unit + 1 < by->unit_count && measure >= by->most; unit++) {
        value = floor_divide(value, by->divisor);
        measure /= (double)by->divisor;
    }
    vw__cut_text_append(text, "%*" PRId64 " %s", by->width, value, by->units[unit]);
}

static void append_row(vw__cut_text *text, const char *name, const scale *by, const vw_stat *stat,
                       const vw_stat *reference)
{
    vw__cut_text_append(text, "| %-21s | ", name);
    append_cell(text, by, stat->current, reference->current);
    vw__cut_text_append(text, " | ");
    append_cell(text, by, stat->peak, reference->peak);
    vw__cut_text_append(text, " | ");
    append_cell(text, by, stat->allocated, reference->allocated);
    vw__cut_text_append(text, " | ");
    append_cell(text, by, stat->freed, reference->freed);
    vw__cut_text_append(text, " |\n");
}

/* ---- the page -------------------------------------------------------------------------------- */

static void append_heading(vw__cut_text *text, int device, const vw_pool_stats *stats)
{
    vw__cut_text_append(text, "|" DOUBLE_RULE "|\n");
    vw__cut_text_append(text, "| %16s PyTorch CUDA memory summary, device ID %-17d |\n", "",
                        device);
    vw__cut_text_append(text, "|" RULE "|\n");
    vw__cut_text_append(
        text, "|  %9s CUDA OOMs: %-12" PRId64 " | %6s cudaMalloc retries: %-8" PRId64 "  |\n", "",
        stats->num_ooms, "", stats->num_alloc_retries);
    vw__cut_text_append(text, "|" DOUBLE_RULE "|\n");
    vw__cut_text_append(
        text, "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n");
}

static void append_group(vw__cut_text *text, const char *name, const scale *by,
                         const vw_stat_group *group, bool is_abbreviated)
{
    vw__cut_text_append(text, "|" RULE "|\n");
    append_row(text, name, by, &group->all, &group->all);
    if (is_abbreviated)
        return;
    append_row(text, "      from large pool", by, &group->large_pool, &group->all);
    append_row(text, "      from small pool", by, &group->small_pool, &group->all);
}

static void append_single(vw__cut_text *text, const char *name, const vw_stat *stat)
{
    vw__cut_text_append(text, "|" RULE "|\n");
    append_row(text, name, &counts, stat, stat);
}

static void append_page(vw__cut_text *text, const vw__torch_rules *rules, int device,
                        const vw_pool_stats *stats, bool brief)
{
    const bool is_2_0 = rules->has_requested_bytes;
    const scale *bytes = is_2_0 ? &sizes : &sizes_before_2_0;
    append_heading(text, device, stats);
    append_group(text, "Allocated memory", bytes, &stats->allocated_bytes, brief);
    append_group(text, "Active memory", bytes, &stats->active_bytes, brief);
    if (is_2_0)
        append_group(text, "Requested memory", bytes, &stats->requested_bytes, brief);
    append_group(text, "GPU reserved memory", bytes, &stats->reserved_bytes, brief);
    append_group(text, "Non-releasable memory", bytes, &stats->inactive_split_bytes, brief);
    append_group(text, "Allocations", &counts, &stats->allocation, brief);
    append_group(text, "Active allocs", &counts, &stats->active, brief);
    append_group(text, "GPU reserved segments", &counts, &stats->segment, brief);
    append_group(text, "Non-releasable allocs", &counts, &stats->inactive_split, brief);
    if (rules->has_max_split) {
        append_single(text, "Oversize allocations", &stats->oversize_allocations);
        append_single(text, "Oversize GPU segments", &stats->oversize_segments);
    }
    vw__cut_text_append(text, "|" DOUBLE_RULE "|\n");
}

vw_status vw_pool_summary(const vw_pool *pool, bool is_abbreviated, char *buffer, size_t capacity,
                          size_t *needed)
{
    VW__TRY(vw__pool_enter(pool));
    if (buffer == NULL && capacity != 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no buffer for a summary of up to %zu bytes",
                        capacity);
    vw_pool_stats stats = {.struct_size = sizeof stats};
    VW__TRY(vw_pool_get_stats(pool, &stats));

    vw__cut_text text;
    vw__cut_text_init(&text, buffer, capacity);
    append_page(&text, &pool->wording, pool->device->properties.index, &stats, is_abbreviated);
    if (needed != NULL)
        *needed = text.length + 1;
    if (!vw__cut_text_fits(&text))
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "the summary takes %zu bytes, the buffer has %zu",
                        text.length + 1, capacity);
    return VW_OK;
}
