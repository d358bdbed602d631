/* fleet_tune.c - the doors of fleet.h for tuning many jobs: the records of all files become the
 * lines of jobs, and those the report. */
#include <string.h>

#include "base/checked_math.h" /* vw__max_u64 */
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "fleet/fleet_listing.h"
#include "fleet/fleet_tune_parts.h"
#include "fleet/fleet_work.h"

static vw__fleet_tune_result *make_result(void)
{
    vw__fleet_tune_result *result = vw__host_alloc_zeroed(1, sizeof *result);
    if (result == NULL)
        return NULL;
    vw__arena_init(&result->arena, VW__ARENA_NO_LIMIT);
    result->row_count = vw__tune_grid_rows(result->rows);
    return result;
}

static vw_status keep_text(vw__fleet_tune_result *result, const char *text, const char **out)
{
    *out = vw__arena_copy(&result->arena, text, strlen(text));
    return *out != NULL ? VW_OK : vw__fail_host_memory(strlen(text), "the name of a job");
}

/* ---- the line of a job ----------------------------------------------------------------------- */

/* What the records of all jobs add up to. */
typedef struct joining {
    vw__fleet_tune_result *result;
    vw_fleet_skipped *skipped; /* the arena's */
    vw__fleet_tune_card card;
    bool has_old_variable;
} joining;

/* A job completes if all its recordings do, and is as large as the largest. */
static void add_cell(vw__tune_grid_cell *sum, const vw__tune_grid_cell *cell, bool is_first)
{
    sum->is_refused |= cell->is_refused;
    sum->is_complete = cell->is_complete && (is_first || sum->is_complete);
    sum->is_slow |= cell->is_slow;
    sum->peak_reserved_bytes = vw__max_u64(sum->peak_reserved_bytes, cell->peak_reserved_bytes);
    sum->retries += cell->retries;
    sum->driver_calls += cell->driver_calls;
    sum->driver_ns += cell->driver_ns;
}

static vw_status add_recording(joining *at, vw__fleet_tune_line *line,
                               const vw__fleet_tune_record *record)
{
    vw_fleet_tuned_job *job = &line->shown;
    bool is_first = job->recording_count++ == 0;
    if (is_first)
        VW__TRY(keep_text(at->result, record->recorded_conf, &job->recorded_conf));
    else if (job->recorded_conf != NULL && strcmp(job->recorded_conf, record->recorded_conf) != 0)
        job->recorded_conf = NULL;
    job->is_possible = record->is_possible && (is_first || job->is_possible);
    job->peak_live_bytes = vw__max_u64(job->peak_live_bytes, record->peak_live_bytes);
    line->recorded_own_bytes =
        vw__max_u64(line->recorded_own_bytes,
                    vw__tune_conf_bytes(record->recorded_conf, record->card.card_bytes));
    add_cell(&line->recorded, &record->recorded, is_first);
    for (size_t i = 0; i < at->result->row_count; i++)
        add_cell(&line->cells[i], &record->cells[i], is_first);
    at->has_old_variable |= !record->is_new_variable;
    at->result->shown.recording_count++;
    return VW_OK;
}

static vw_status add_skipped(joining *at, const char *job, const char *path, const char *reason)
{
    vw_fleet_skipped *skipped = &at->skipped[at->result->shown.skipped_count++];
    skipped->job = job;
    VW__TRY(keep_text(at->result, path, &skipped->path));
    return keep_text(at->result, reason, &skipped->reason);
}

static vw_status add_record(joining *at, vw__fleet_tune_line *line, const char *path,
                            const vw__fleet_tune_record *record)
{
    vw_fleet_tuning *shown = &at->result->shown;
    at->card = record->card;
    shown->file_count += record->kind != VW__FLEET_TUNE_NOTHING;
    switch (record->kind) {
    case VW__FLEET_TUNE_RECORDING:
        return add_recording(at, line, record);
    case VW__FLEET_TUNE_UNREADABLE:
        line->shown.skipped_count++;
        return add_skipped(at, line->shown.name, path, record->reason);
    case VW__FLEET_TUNE_FOREIGN:
        shown->foreign_count++;
        break;
    case VW__FLEET_TUNE_NOTHING:
    case VW__FLEET_TUNE_KINDS:
        break;
    }
    return VW_OK;
}

static vw_status add_records(joining *at, const vw__fleet_listing *listing,
                             const vw__fleet_listed_job *job, const vw__ranks_record *records,
                             vw__fleet_tune_line *line)
{
    for (size_t i = 0; i < job->count; i++) {
        vw__fleet_tune_record record;
        VW__TRY(vw__fleet_tune_record_read(&records[i], at->result->row_count, &record));
        VW__TRY(add_record(at, line, listing->units[job->first + i].path, &record));
    }
    return VW_OK;
}

static vw_status join_job(joining *at, const vw__fleet_parts *parts,
                          const vw__fleet_listing *listing, const vw__fleet_listed_job *job,
                          vw__fleet_tune_line *line)
{
    vw__tune_grid_cell *cells = vw__arena_alloc_array(&at->result->arena, at->result->row_count,
                                                      sizeof *cells, _Alignof(vw__tune_grid_cell));
    vw__ranks_record *records = vw__host_alloc_zeroed(job->count, sizeof *records);
    if (cells == NULL || records == NULL) {
        vw__host_free(records);
        return vw__fail_host_memory(job->count * sizeof *records, "the records of a job");
    }
    vw__byte_buffer bytes;
    vw__byte_buffer_init(&bytes);
    *line = (vw__fleet_tune_line){.cells = cells, .shown = {.kind = SIZE_MAX}};
    vw_status status = keep_text(at->result, job->name, &line->shown.name);
    if (status == VW_OK)
        status = keep_text(at->result, job->kind, &line->kind_name);
    if (status == VW_OK)
        status = vw__fleet_listing_load(listing, parts, job, &bytes, records);
    if (status == VW_OK)
        status = add_records(at, listing, job, records, line);
    vw__byte_buffer_deinit(&bytes);
    vw__host_free(records);
    return status;
}

/* ---- the report ------------------------------------------------------------------------------ */

static vw_status add_notes(joining *at, const vw__fleet_part_list *list)
{
    vw_fleet_tuning *shown = &at->result->shown;
    vw__notes notes;
    vw__notes_init(&notes, &at->result->arena);
    vw__tune_note_context(&notes, at->card.card_bytes, at->card.context_bytes,
                          at->card.is_whole_card);
    if (shown->bare_count > 0)
        vw__notes_add(&notes, "Jobs without a recording that can be replayed are left out: %zu.",
                      shown->bare_count);
    vw__fleet_listing_note(list, &notes);
    return vw__notes_finish(&notes, &shown->notes, &shown->note_count);
}

static vw_status refuse_all(const vw_fleet_tuning *shown)
{
    if (shown->skipped_count > 0)
        return vw__fail(VW_ERR_FILE,
                        "expected recordings of jobs, found %zu files, none of which can be "
                        "replayed; %s: %s",
                        shown->file_count, shown->skipped[0].path, shown->skipped[0].reason);
    return vw__fail(VW_ERR_FILE,
                    "expected recordings of jobs, found %zu files, none of which is a "
                    "recording",
                    shown->file_count);
}

static vw_status join_jobs(joining *at, const vw__fleet_parts *parts,
                           const vw__fleet_listing *listing)
{
    vw__fleet_tune_result *result = at->result;
    result->lines = vw__host_alloc_zeroed(listing->job_count, sizeof *result->lines);
    at->skipped = vw__arena_alloc_array(&result->arena, listing->unit_count, sizeof *at->skipped,
                                        _Alignof(vw_fleet_skipped));
    if (result->lines == NULL || at->skipped == NULL)
        return vw__fail_host_memory(listing->job_count * sizeof *result->lines, "the jobs");
    result->shown.skipped = at->skipped;
    for (size_t i = 0; i < listing->job_count; i++) {
        vw__fleet_tune_line *line = &result->lines[result->line_count];
        VW__TRY(join_job(at, parts, listing, &listing->jobs[i], line));
        if (line->shown.recording_count > 0)
            result->line_count++;
        else
            result->shown.bare_count++;
    }
    return VW_OK;
}

static vw_status join(vw__fleet_parts *parts, const vw__fleet_listing *listing,
                      vw__fleet_tune_result *result)
{
    joining at = {.result = result};
    vw_fleet_tuning *shown = &result->shown;
    VW__TRY(join_jobs(&at, parts, listing));
    if (result->line_count == 0)
        return refuse_all(shown);
    shown->card_bytes = at.card.card_bytes;
    shown->variable = at.has_old_variable ? "PYTORCH_CUDA_ALLOC_CONF" : "PYTORCH_ALLOC_CONF";
    VW__TRY(vw__fleet_tune_choose(result));
    return add_notes(&at, &parts->list);
}

static vw_status join_all(vw__fleet_parts *parts, vw__fleet_tune_result *result)
{
    vw__fleet_listing listing = {.units = NULL};
    vw_status status = vw__fleet_listing_make(&listing, parts);
    if (status == VW_OK)
        status = join(parts, &listing, result);
    vw__fleet_listing_deinit(&listing);
    vw__host_free(result->lines); /* the report has what it needs of them */
    result->lines = NULL;
    return status;
}

/* ---- the doors ------------------------------------------------------------------------------- */

/* The records depend on the card and on the rows, too. */
static uint64_t settings_of(const vw_fleet_options *options, const vw__fleet_tune_card *card)
{
    const uint64_t facts[] = {card->card_bytes, card->context_bytes, card->is_whole_card,
                              vw__fleet_tune_rows_hash()};
    return vw__fleet_part_hash(vw__fleet_work_settings(options), facts, sizeof facts);
}

static vw_status tune(vw__fleet_work *work, const vw__fleet_task *task, const char *source,
                      vw__fleet_tune_result *result)
{
    VW__TRY(vw__fleet_work_do(work, task, source));
    result->shown.unit_count = work->list.unit_count;
    result->shown.share_count = work->share_count;
    result->shown.examined_count = work->wanted_count;
    return work->options.shares > 1 ? VW_OK : join_all(&work->parts, result);
}

static vw_status finish(vw_status status, vw__fleet_tune_result *result, vw_fleet_tuning **out)
{
    if (status == VW_OK)
        *out = &result->shown;
    else
        vw_fleet_tuning_free(&result->shown);
    return status;
}

vw_status vw_fleet_tune(const char *source, const vw_fleet_tune_options *options,
                        vw_fleet_tuning **out)
{
    vw_fleet_tune_options used = {.struct_size = sizeof used};
    vw_fleet_options fleet;
    vw__fleet_work work;
    if (source == NULL || options == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a folder, options and a place for the report");
    VW__TRY(VW__STRUCT_IN(vw_fleet_tune_options, options, &used));
    VW__TRY(vw__fleet_work_options(used.fleet, &fleet));
    vw__fleet_tune_try how = {.card = {used.card_bytes, used.context_bytes, used.is_whole_card},
                              .torch_version = fleet.torch_version};
    VW__TRY(vw__tune_card(used.context_bytes, used.is_whole_card, &how.card.card_bytes));
    vw__fleet_tune_result *result = make_result();
    if (result == NULL)
        return vw__fail_host_memory(sizeof *result, "a tuning of jobs");
    const vw__fleet_task task = {.form = &vw__fleet_part_of_tune,
                                 .settings = settings_of(&fleet, &how.card),
                                 .examiner = {vw__fleet_tune_examine, &how}};
    vw__fleet_work_init(&work, &fleet, &task);
    vw_status status = tune(&work, &task, source, result);
    vw__fleet_work_deinit(&work);
    return finish(status, result, out);
}

vw_status vw_fleet_tune_merge(const char *const *states, size_t state_count, vw_fleet_tuning **out)
{
    vw__fleet_parts parts;
    if (states == NULL || state_count == 0 || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected states and a place for the report");
    vw__fleet_tune_result *result = make_result();
    if (result == NULL)
        return vw__fail_host_memory(sizeof *result, "a tuning of jobs");
    vw__fleet_parts_init(&parts, &vw__fleet_part_of_tune);
    vw_status status = vw__fleet_work_merge(&parts, states, state_count);
    if (status == VW_OK)
        status = join_all(&parts, result);
    result->shown.unit_count = result->shown.share_count = (size_t)parts.list.unit_count;
    vw__fleet_parts_deinit(&parts);
    return finish(status, result, out);
}

void vw_fleet_tuning_free(vw_fleet_tuning *tuning)
{
    vw__fleet_tune_result *result = (vw__fleet_tune_result *)tuning;
    if (result == NULL)
        return;
    vw__host_free(result->lines);
    vw__arena_deinit(&result->arena);
    vw__host_free(result);
}
