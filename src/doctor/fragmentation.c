/* fragmentation.c - bytes that PyTorch holds and nothing uses: where they lie, what keeps
 * them there, and which setting would not have them.
 *
 * Looked at is the instant of the failure; of a run that did not fail, the one with the most
 * reserved. There is a finding where the numbers of the failure say so (numbers.c), or where
 * a run that did not fail reserved far more than it ever used at once.
 *
 * Who keeps idle bytes idle? Memory can be used for something larger, or given back, once the
 * blocks around it are gone. So every idle piece is counted with the blocks that bound it in its
 * segment, half with each, or all with the only one; pieces of segments that are wholly idle are
 * nobody's. The lines that asked for those blocks are where to look: what is small and lives long,
 * among what is large and comes and goes. We did not count a whole segment's idle bytes with each
 * block in it: an expandable segment is as large as everything, and every block would be as guilty
 * as the next. */
#include <inttypes.h>

#include "doctor/doctor.h"
#include "doctor/numbers.h"
#include "doctor/settings.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

/* A run that did not fail: so much idle, and a quarter more reserved than was ever live. */
#define MUCH_IDLE_BYTES (UINT64_C(64) << 20)
enum { MUCH_IDLE_SHARE = 4 };

/* What the layout comes to. */
typedef struct idle_memory {
    vw__layout layout;
    size_t partly_used_count, unused_count; /* segments with idle bytes */
    uint64_t partly_used_bytes;             /* idle in the first */
    uint64_t unused_bytes;                  /* in the second */
    size_t single_count;                    /* partly used ones that one block alone holds */
    uint64_t single_idle_bytes, single_used_bytes;
    size_t sparse_count; /* at most half used, and by what can be moved: weights, tables */
    uint64_t sparse_idle_bytes, sparse_used_bytes;
    uint64_t *pins; /* owned; by stack: the idle bytes around its blocks */
} idle_memory;

/* ---- what lies where ------------------------------------------------------------------------- */

static void count_segment(idle_memory *idle, const vw__layout_segment *segment)
{
    uint64_t used_bytes = segment->live_bytes + segment->pending_bytes;
    size_t used_count = 0;
    if (segment->idle_bytes == 0)
        return;
    if (used_bytes == 0) {
        idle->unused_count++;
        idle->unused_bytes += segment->idle_bytes;
        return;
    }
    idle->partly_used_count++;
    idle->partly_used_bytes += segment->idle_bytes;
    for (size_t i = 0; i < segment->block_count; i++)
        used_count += idle->layout.blocks[segment->first_block + i].state != VW__LAYOUT_IDLE;
    if (used_count == 1) {
        idle->single_count++;
        idle->single_idle_bytes += segment->idle_bytes;
        idle->single_used_bytes += used_bytes;
    }
}

/* Parts of a model, and what the program asked for outside of passes: these stay, and can be copied
 * away and back. What a pass makes is gone by then. */
static bool is_movable(const vw__doctor_facts *facts, uint32_t context)
{
    vw__category category = vw__attribution_category(&facts->attribution, context);
    return category == VW__CATEGORY_WEIGHTS || category == VW__CATEGORY_LOADED ||
           category == VW__CATEGORY_OPTIMIZER || category == VW__CATEGORY_OTHER ||
           category == VW__CATEGORY_UNKNOWN;
}

static void count_sparse(const vw__doctor_facts *facts, idle_memory *idle,
                         const vw__layout_segment *segment)
{
    uint64_t used_bytes = segment->live_bytes + segment->pending_bytes, movable_bytes = 0;
    if (used_bytes == 0 || used_bytes > segment->size_bytes / 2)
        return;
    for (size_t i = 0; i < segment->block_count; i++) {
        const vw__layout_block *block = &idle->layout.blocks[segment->first_block + i];
        if (block->state == VW__LAYOUT_LIVE && is_movable(facts, block->context))
            movable_bytes += block->size_bytes;
    }
    if (movable_bytes < used_bytes - used_bytes / 8)
        return;
    idle->sparse_count++;
    idle->sparse_idle_bytes += segment->idle_bytes;
    idle->sparse_used_bytes += used_bytes;
}

/* Counts idle bytes with the stacks of the blocks that bound them. */
static void weigh_segment(const vw__doctor_facts *facts, idle_memory *idle,
                          const vw__layout_segment *segment)
{
    if (segment->idle_bytes == segment->size_bytes && segment->context != VW__MODEL_NO_CONTEXT)
        idle->pins[facts->model->contexts[segment->context]] += segment->idle_bytes;
    for (size_t i = 0; i < segment->block_count; i++) {
        const vw__layout_block *block = &idle->layout.blocks[segment->first_block + i];
        const vw__layout_block *before = i > 0 ? block - 1 : NULL;
        const vw__layout_block *behind = i + 1 < segment->block_count ? block + 1 : NULL;
        uint64_t share_bytes =
            before != NULL && behind != NULL ? block->size_bytes / 2 : block->size_bytes;
        if (block->state != VW__LAYOUT_IDLE)
            continue;
        if (before != NULL && before->context != VW__MODEL_NO_CONTEXT)
            idle->pins[facts->model->contexts[before->context]] += share_bytes;
        if (behind != NULL && behind->context != VW__MODEL_NO_CONTEXT)
            idle->pins[facts->model->contexts[behind->context]] += share_bytes;
    }
}

static vw_status look_at(const vw__doctor_facts *facts, uint32_t instant, idle_memory *idle)
{
    size_t stack_count = facts->model->stack_count;
    VW__TRY(vw__layout_at(facts->model, facts->trace, instant, &idle->layout));
    idle->pins = vw__host_alloc_zeroed(stack_count, sizeof *idle->pins);
    if (idle->pins == NULL)
        return vw__fail_host_memory(stack_count * sizeof *idle->pins, "idle bytes by stack");
    for (size_t i = 0; i < idle->layout.segment_count; i++) {
        count_segment(idle, &idle->layout.segments[i]);
        count_sparse(facts, idle, &idle->layout.segments[i]);
        weigh_segment(facts, idle, &idle->layout.segments[i]);
    }
    return VW_OK;
}

static void forget(idle_memory *idle)
{
    vw__layout_deinit(&idle->layout);
    vw__host_free(idle->pins);
}

/* ---- the finding ----------------------------------------------------------------------------- */

/* Idle memory that other streams strand is a finding of its own. */
static bool is_much_idle(const vw__doctor_facts *facts, const vw__doctor_result *result,
                         const idle_memory *idle)
{
    uint64_t reserved_bytes = idle->layout.reserved_bytes, live_bytes = facts->peak_bytes;
    uint64_t idle_bytes = idle->layout.idle_bytes;
    if (result->is_stranded && result->stranded_bytes >= idle_bytes / 2)
        return false;
    return idle_bytes >= MUCH_IDLE_BYTES && reserved_bytes > live_bytes &&
           reserved_bytes - live_bytes >= live_bytes / MUCH_IDLE_SHARE;
}

static vw__diagnosis_finding *add_finding(const vw__doctor_facts *facts, vw__doctor_result *result,
                                          const idle_memory *idle)
{
    const vw__layout *layout = &idle->layout;
    const vw_memory_numbers *numbers = &facts->failure.numbers;
    uint64_t idle_bytes = layout->idle_bytes;
    vw__diagnosis_name(result->draft, "peak", facts->peak_bytes);
    if (!facts->failure.has_happened)
        return is_much_idle(facts, result, idle)
                   ? vw__diagnosis_add(result->draft, "fragmentation", idle_bytes,
                                       "At the peak of reserved memory, %s of %s were idle; at "
                                       "most $peak were ever live.",
                                       VW__DOCTOR_SIZE(idle_bytes),
                                       VW__DOCTOR_SIZE(layout->reserved_bytes))
                   : NULL;
    vw__numbers_verdict judged = vw__numbers_judge(numbers, NULL);
    vw__diagnosis_name(result->draft, "idle", judged.idle_bytes);
    if (judged.verdict == VW_VERDICT_FRAGMENTATION)
        return vw__diagnosis_add(
            result->draft, "fragmentation", judged.idle_bytes,
            "$idle were idle when $tried were refused, but in pieces: the largest is %s.",
            VW__DOCTOR_SIZE(layout->largest_idle_bytes));
    if (judged.is_small_fragmentation)
        return vw__diagnosis_add(result->draft, "fragmentation", judged.idle_bytes,
                                 "$tried would have fit in the $idle that were idle, had they been "
                                 "in one piece; %s would have remained.",
                                 VW__DOCTOR_SIZE(judged.idle_bytes - numbers->tried_bytes));
    return NULL;
}

static void add_evidence(vw__doctor_result *result, const idle_memory *idle,
                         vw__diagnosis_finding *finding)
{
    const vw__layout *layout = &idle->layout;
    if (idle->partly_used_count != 0)
        vw__diagnosis_evidence(
            finding, "%zu of %s are partly used, with %s idle; the largest idle piece is %s.",
            idle->partly_used_count,
            vw__diagnosis_count(result->draft, layout->segment_count, "segment"),
            VW__DOCTOR_SIZE(idle->partly_used_bytes), VW__DOCTOR_SIZE(layout->largest_idle_bytes));
    if (idle->single_count > 1)
        vw__diagnosis_evidence(
            finding,
            "%s (%s idle) cannot be released: each still holds one live block (%s in total).",
            vw__diagnosis_count(result->draft, idle->single_count, "segment"),
            VW__DOCTOR_SIZE(idle->single_idle_bytes), VW__DOCTOR_SIZE(idle->single_used_bytes));
    if (idle->unused_count != 0)
        vw__diagnosis_evidence(finding, "Entirely idle, kept for reuse: %s (%s).",
                               vw__diagnosis_count(result->draft, idle->unused_count, "segment"),
                               VW__DOCTOR_SIZE(idle->unused_bytes));
    if (finding->where_count != 0)
        vw__diagnosis_evidence(finding,
                               "The lines are those whose blocks surround most of the idle "
                               "bytes, or that took segments which are now entirely idle.");
    /* PyTorch counts what a block has beyond its request as allocated, the layout as idle. */
    uint64_t told = idle->partly_used_bytes + idle->unused_bytes;
    uint64_t beyond = finding->bytes < told ? told - finding->bytes : 0;
    uint64_t partly = idle->partly_used_bytes > beyond ? idle->partly_used_bytes - beyond : 0;
    vw__diagnosis_part(finding, "idle in segments partly used", partly);
    if (idle->unused_bytes != 0)
        vw__diagnosis_part(finding, "idle in segments not used", idle->unused_bytes);
    if (layout->pending_bytes != 0)
        vw__diagnosis_part(finding, "waiting for other streams", layout->pending_bytes);
}

/* Where a little that stays holds segments, it can be brought together. */
static void add_move(vw__doctor_result *result, const idle_memory *idle,
                     vw__diagnosis_finding *finding)
{
    if (idle->sparse_idle_bytes < MUCH_IDLE_BYTES ||
        idle->sparse_idle_bytes < idle->layout.idle_bytes / MUCH_IDLE_SHARE)
        return;
    vw__diagnosis_evidence(finding, "At most half used: %s, by %s of blocks that stay.",
                           vw__diagnosis_count(result->draft, idle->sparse_count, "segment"),
                           VW__DOCTOR_SIZE(idle->sparse_used_bytes));
    vw__diagnosis_remedy(
        finding, "move what stays to the host and back once, so that it lies together",
        vw__diagnosis_saves(idle->sparse_idle_bytes), VW_BASIS_COMPUTED, "a copy in each direction",
        "model.cpu()                 # or: kept = [t.cpu() for t in kept]\n"
        "torch.cuda.empty_cache()\n"
        "model.cuda()");
}

static void add_remedies(const vw__doctor_facts *facts, vw__doctor_result *result,
                         const idle_memory *idle, const vw__doctor_tried_settings *tried,
                         vw__diagnosis_finding *finding)
{
    bool is_move_first = idle->sparse_idle_bytes > vw__doctor_best_saving(facts, tried);
    if (is_move_first)
        add_move(result, idle, finding);
    vw__doctor_add_setting_remedies(facts, result, tried, finding);
    if (!is_move_first)
        add_move(result, idle, finding);
    if (facts->steps.end_count != 0)
        vw__diagnosis_known_remedy(finding, VW__REMEDY_REPEATING_SIZES, NULL,
                                   VW__DIAGNOSIS_SAVES_UNKNOWN, VW_BASIS_RULE);
}

/* ---- together -------------------------------------------------------------------------------- */

static vw_status write_finding(const vw__doctor_input *input, vw__doctor_facts *facts,
                               vw__doctor_result *result, idle_memory *idle)
{
    vw__doctor_tried_settings tried;
    bool has_failed = facts->failure.has_happened;
    if (has_failed && result->is_explained)
        return VW_OK;
    bool is_stranded = has_failed && result->is_stranded; /* the same bytes, told already */
    vw__diagnosis_finding *stranded = vw__diagnosis_find(result->draft, "stranded");
    vw__diagnosis_finding *finding = is_stranded ? NULL : add_finding(facts, result, idle);
    if (finding == NULL && !has_failed)
        return VW_OK;
    bool is_wanted = finding != NULL || (is_stranded && stranded != NULL);
    VW__TRY(vw__doctor_try_settings(
        input, facts, is_wanted ? VW__DOCTOR_FOR_REMEDIES : VW__DOCTOR_FOR_WARNINGS, &tried));
    if (is_stranded && stranded != NULL)
        vw__doctor_add_setting_remedies(facts, result, &tried, stranded);
    if (finding != NULL) {
        vw__doctor_add_places(facts, idle->pins, VW__DOCTOR_PLACES_APART, finding);
        add_evidence(result, idle, finding);
        add_remedies(facts, result, idle, &tried, finding);
    }
    vw__doctor_add_setting_warnings(facts, result, &tried);
    return VW_OK;
}

vw_status vw__doctor_fragmentation(const vw__doctor_input *input, vw__doctor_facts *facts,
                                   vw__doctor_result *result)
{
    idle_memory idle = {.pins = NULL};
    uint32_t instant = facts->failure.instant;
    if (!facts->failure.has_happened) {
        if (!facts->timeline.is_reserved_known)
            return VW_OK;
        instant = facts->timeline.peak_reserved_instant;
    }
    vw_status status = look_at(facts, instant, &idle);
    if (status == VW_OK)
        status = write_finding(input, facts, result, &idle);
    forget(&idle);
    return status == VW_ERR_UNSUPPORTED ? VW_OK : status; /* nobody knows how memory lay */
}
