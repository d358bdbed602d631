/* verify_end.c - compares the end: segments and blocks, statistics, the summary. */
#include "analysis/verify_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"
#include "analysis/script_events.h" /* vw__script_segments_of */

enum { LINE_SHOWN_BYTES = 90, SUMMARY_BYTES = 8192 };

typedef struct end_walk {
    const vw__model *model;
    const vw__model_segment *recorded; /* the next one to be met */
    const vw__model_segment *end;
    const vw__model_block *block; /* the next one of the present segment */
    const vw__model_block *block_end;
    bool is_segment_same; /* so far */
    vw__verify_trial_result *result;
} end_walk;

/* ---- segments and blocks --------------------------------------------------------------------- */

static void say_got(vw__verify_difference *difference, const char *what, uint64_t address,
                    uint64_t size_bytes)
{
    char size[VW__HUMAN_SIZE_BYTES];
    if (!difference->is_found)
        (void)snprintf(difference->got, sizeof difference->got, "%s %#" PRIx64 " of %s", what,
                       address, vw__human_size(size_bytes, size));
}

static bool is_known_and_other(uint64_t recorded_bytes, uint64_t found_bytes)
{
    return recorded_bytes != VW__MODEL_UNKNOWN_BYTES && recorded_bytes != found_bytes;
}

/* The first thing in which two segments differ, or NULL. */
static const char *segment_difference(const vw__model *model, const vw__model_segment *recorded,
                                      const vw_segment_info *found)
{
    if (recorded->total_bytes != found->total_bytes)
        return "The segment has another size.";
    if (model->streams[recorded->stream] != found->stream)
        return "The segment is on another stream.";
    if (recorded->pool != VW__MODEL_UNKNOWN_POOL &&
        (model->pools[recorded->pool].first != found->private_id.first ||
         model->pools[recorded->pool].second != found->private_id.second))
        return "The segment belongs to another private pool.";
    if (recorded->is_large != found->is_large)
        return "The segment is of the other kind: large, small.";
    if (recorded->pool != VW__MODEL_UNKNOWN_POOL && recorded->is_expandable != found->is_expandable)
        return "One is expandable and the other is not.";
    if (recorded->allocated_bytes != found->allocated_bytes)
        return "Other bytes of the segment are allocated.";
    if (recorded->active_bytes != found->active_bytes)
        return "Other bytes of the segment are active.";
    if (is_known_and_other(recorded->requested_bytes, found->requested_bytes))
        return "Other bytes of the segment were requested.";
    if (recorded->block_count != found->block_count)
        return "The segment is in another number of blocks.";
    return NULL;
}

/* Counts the last segment as matched if all its blocks were the same. */
static void finish_segment(end_walk *walk)
{
    if (walk->is_segment_same && walk->block == walk->block_end)
        walk->result->end_segments_matched++;
    walk->is_segment_same = false;
}

static bool meet_segment(void *context, const vw_segment_info *found)
{
    end_walk *walk = context;
    vw__verify_difference *difference = &walk->result->difference;
    char size[VW__HUMAN_SIZE_BYTES];
    finish_segment(walk);
    if (walk->recorded == walk->end) {
        say_got(difference, "segment", found->address, found->total_bytes);
        vw__verify_note_difference(
            difference, VW_UNKNOWN,
            "The replay holds a segment at the end that the recording does not.",
            "no further segment");
        return false;
    }
    const vw__model_segment *recorded = walk->recorded++;
    const char *what = recorded->address != found->address
                           ? "The segments at the end are not the same."
                           : segment_difference(walk->model, recorded, found);
    if (what != NULL) {
        say_got(difference, "segment", found->address, found->total_bytes);
        vw__verify_note_difference(difference, VW_UNKNOWN, what, "segment %#" PRIx64 " of %s",
                                   recorded->address, vw__human_size(recorded->total_bytes, size));
        return false;
    }
    walk->block = walk->model->blocks + recorded->first_block;
    walk->block_end = walk->block + recorded->block_count;
    walk->is_segment_same = true;
    return true;
}

/* A free block keeps the requested size of the block that was freed last, which is unknown if one
 * wait freed several. */
static bool is_requested_same(const end_walk *walk, const vw__model_block *recorded,
                              const vw_block_info *found)
{
    return !is_known_and_other(recorded->requested_bytes, found->requested_bytes) ||
           (found->state == VW_BLOCK_FREE && walk->result->has_unordered_frees);
}

static bool meet_block(void *context, const vw_segment_info *segment, const vw_block_info *found)
{
    static const char *const states[] = {"live", "pending free", "free"};
    end_walk *walk = context;
    vw__verify_difference *difference = &walk->result->difference;
    const vw__model_block *recorded = walk->block++;
    (void)segment; /* has as many blocks as the recorded one */
    if (recorded->address == found->address && recorded->size_bytes == found->size_bytes &&
        recorded->state == (uint8_t)found->state && is_requested_same(walk, recorded, found))
        return true;
    walk->is_segment_same = false;
    (void)snprintf(difference->got, sizeof difference->got,
                   "%s block %#" PRIx64 " of %" PRIu64 " bytes, requested %" PRIu64,
                   states[found->state], found->address, found->size_bytes, found->requested_bytes);
    vw__verify_note_difference(
        difference, VW_UNKNOWN, "A block at the end is not the same.",
        "%s block %#" PRIx64 " of %" PRIu64 " bytes, requested %" PRId64,
        recorded->state <= VW_BLOCK_FREE ? states[recorded->state] : "unknown", recorded->address,
        recorded->size_bytes, (int64_t)recorded->requested_bytes);
    return false;
}

static vw_status compare_memory(const vw__verify_trial *trial, vw_pool *pool,
                                vw__verify_trial_result *result)
{
    const vw__model *model = trial->script->model;
    char size[VW__HUMAN_SIZE_BYTES];
    size_t first, end;
    vw__script_segments_of(model, trial->script->trace->device, &first, &end);
    end_walk walk = {.model = model, .result = result};
    if (first != end) { /* a model without segments has no array of them */
        walk.recorded = model->segments + first;
        walk.end = model->segments + end;
    }
    const vw_walker walker = {&walk, meet_segment, meet_block};
    VW__TRY(vw_pool_walk(pool, &walker, false));
    finish_segment(&walk);
    if (!result->difference.is_found && walk.recorded != walk.end) {
        (void)snprintf(result->difference.got, sizeof result->difference.got, "no such segment");
        vw__verify_note_difference(
            &result->difference, VW_UNKNOWN,
            "The recording holds a segment at the end that the replay does not.",
            "segment %#" PRIx64 " of %s", walk.recorded->address,
            vw__human_size(walk.recorded->total_bytes, size));
    }
    return VW_OK;
}

/* ---- statistics ------------------------------------------------------------------------------ */

typedef struct stat_walk {
    const vw__expectation *expectation;
    vw__verify_trial_result *result;
    size_t met_count;
} stat_walk;

/* An empty_cache() that gives nothing back leaves no event, but waits for all streams. */
static bool is_lower_bound(const char *key)
{
    return strcmp(key, "num_sync_all_streams") == 0;
}

static void meet_stat(void *context, const char *key, int64_t value)
{
    stat_walk *walk = context;
    vw__verify_difference *difference = &walk->result->difference;
    for (size_t i = 0; i < walk->expectation->stat_count; i++) {
        const vw__expectation_stat *expected = &walk->expectation->stats[i];
        if (strcmp(expected->key, key) != 0)
            continue;
        walk->met_count++;
        if (is_lower_bound(key) ? value <= expected->value : value == expected->value) {
            walk->result->statistics_matched++;
        } else if (!difference->is_found) {
            (void)snprintf(difference->got, sizeof difference->got, "%s %" PRId64, key, value);
            vw__verify_note_difference(difference, VW_UNKNOWN,
                                       "A statistic at the end is not the same.", "%s %" PRId64,
                                       key, expected->value);
        }
    }
}

static vw_status compare_statistics(const vw__verify_trial *trial, const vw_pool *pool,
                                    vw__verify_trial_result *result)
{
    stat_walk walk = {.expectation = trial->expectation, .result = result};
    result->statistics_recorded = trial->expectation->stat_count;
    VW__TRY(vw_pool_walk_stats(pool, meet_stat, &walk));
    if (!result->difference.is_found && walk.met_count != trial->expectation->stat_count) {
        (void)snprintf(result->difference.got, sizeof result->difference.got, "%zu of them",
                       walk.met_count);
        vw__verify_note_difference(
            &result->difference, VW_UNKNOWN,
            "PyTorch of this version has not all of the statistics expected.", "%zu statistics",
            trial->expectation->stat_count);
    }
    return VW_OK;
}

static vw_status compare_summary(const vw__verify_trial *trial, const vw_pool *pool,
                                 vw__verify_trial_result *result)
{
    char found[SUMMARY_BYTES];
    const char *recorded = trial->expectation->summary;
    if (recorded == NULL)
        return VW_OK;
    VW__TRY(vw_pool_summary(pool, false, found, sizeof found, NULL));
    size_t i = 0, line;
    while (recorded[i] == found[i] && found[i] != '\0')
        i++;
    if (recorded[i] == found[i])
        return VW_OK;
    for (line = i; line > 0 && recorded[line - 1] != '\n'; line--)
        ;
    if (!result->difference.is_found)
        (void)snprintf(result->difference.got, sizeof result->difference.got, "%.*s",
                       LINE_SHOWN_BYTES, found + line);
    vw__verify_note_difference(&result->difference, VW_UNKNOWN,
                               "torch.cuda.memory_summary() at the end is not the same.", "%.*s",
                               LINE_SHOWN_BYTES, recorded + line);
    return VW_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

char *vw__verify_without_processes(const char *original)
{
    static const char before[] = " is free. ", behind[] = " memory in use. ";
    size_t size = strlen(original) + 1;
    char *text = vw__host_alloc(size);
    if (text == NULL)
        return NULL;
    memcpy(text, original, size);
    char *at = strstr(text, before);
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

vw_status vw__verify_end(const vw__verify_trial *trial, vw_pool *pool,
                         vw__verify_trial_result *result)
{
    if (trial->script->has_end_state)
        VW__TRY(compare_memory(trial, pool, result));
    if (trial->expectation == NULL)
        return VW_OK;
    VW__TRY(compare_statistics(trial, pool, result));
    return compare_summary(trial, pool, result);
}
