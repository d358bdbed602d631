/* rank_units.c - one unit of a job becomes a record, and all records of a job its report. */
#include "ranks/rank_units.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "base/checked_math.h" /* vw__min_u64 */
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"
#include "ranks/rank_parts.h"

/* Moves the files that are named like logs to the front; the others are units of their own. */
static size_t keep_logs(vw_rank_file *files, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (vw__ranks_is_log_name(files[i].path))
            files[kept++] = files[i];
    return kept;
}

static vw_status examine_texts(vw__ranks_job *at, vw__byte_buffer *record)
{
    VW__TRY(vw__ranks_job_note(at));
    VW__TRY(vw__ranks_job_examine_logs(at));
    vw__ranks_record_write(at->work, at->shown, keep_logs(at->shown, at->list->files.count),
                           record);
    return VW_OK;
}

static vw_status examine_file(vw__ranks_job *at, size_t place, vw__byte_buffer *record)
{
    VW__TRY(vw__ranks_job_examine_file(at, place));
    vw__ranks_record_write(at->work, &at->shown[place], 1, record);
    return VW_OK;
}

static vw_status check_record(const vw__byte_buffer *record)
{
    return vw__byte_buffer_has_failed(record)
               ? vw__fail_host_memory(vw__byte_buffer_size(record), "the record of a file")
               : VW_OK;
}

bool vw__ranks_unit_may_change(vw_status status)
{
    return status == VW_ERR_HOST_MEMORY || status == VW_ERR_UNSUPPORTED || status == VW_ERR_FILE;
}

static vw_status examine_unit(vw__ranks_job *at, size_t unit, vw__byte_buffer *record)
{
    VW__TRY(vw__ranks_job_begin(at));
    VW__TRY(unit == VW__RANKS_UNIT_TEXTS ? examine_texts(at, record)
                                         : examine_file(at, unit, record));
    return check_record(record);
}

vw_status vw__ranks_unit_examine(const vw__ranks_job_list *list, size_t unit,
                                 const vw_ranks_options *options, vw__ranks_unit_memory memory,
                                 vw__byte_buffer *record, bool *may_change)
{
    vw__ranks_work work;
    VW__TRY(vw__ranks_work_begin(&work, options));
    vw__ranks_job at = {.work = &work, .list = list, .memory = memory};
    vw_status status = examine_unit(&at, unit, record);
    *may_change = at.may_change;
    vw__ranks_work_end(&work);
    vw_ranks_report_free(work.report);
    return status;
}

/* ---- joining --------------------------------------------------------------------------------- */

static int compare_files(const void *left, const void *right)
{
    return strcmp(((const vw_rank_file *)left)->path, ((const vw_rank_file *)right)->path);
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static size_t place_of(const vw_rank_file *files, size_t count, const char *path)
{
    const vw_rank_file wanted = {.path = path != NULL ? path : ""};
    const vw_rank_file *found = bsearch(&wanted, files, count, sizeof wanted, compare_files);
    return found != NULL ? (size_t)(found - files) : 0;
}

/* Everything in an order that does not depend on the records'. */
static vw_status conclude(vw__ranks_work *work, const vw__ranks_record_files *found)
{
    vw_rank_file *files =
        vw__arena_alloc_array(work->arena, found->count, sizeof *files, _Alignof(vw_rank_file));
    if (files == NULL)
        return vw__fail_host_memory(found->count * sizeof *files, "the files of a job");
    if (found->count > 0) {
        memcpy(files, found->files, found->count * sizeof *files);
        qsort(files, found->count, sizeof *files, compare_files);
    }
    for (size_t i = 0; i < work->accounts.count; i++) {
        vw__ranks_account *account = &work->accounts.accounts[i];
        account->order =
            place_of(files, found->count,
                     account->is_recording ? account->shown.recording : account->shown.text);
    }
    if (work->report->note_count > 0)
        qsort((void *)work->report->notes, work->report->note_count, sizeof *work->report->notes,
              compare_texts);
    return vw__ranks_conclude(work, files, found->count);
}

static vw_status join(vw__ranks_work *work, const vw__ranks_record *records, size_t count,
                      vw__ranks_record_files *files)
{
    for (size_t i = 0; i < count; i++)
        VW__TRY(vw__ranks_record_read(work, records[i].bytes, records[i].size_bytes, files));
    return conclude(work, files);
}

static vw_status fail_for_limit(uint64_t left_bytes)
{
    char left[VW__HUMAN_SIZE_BYTES];
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "its report takes more than the %s that are left of the memory for reading; "
                    "--max-memory allows more",
                    vw__human_size(left_bytes, left));
}

vw_status vw__ranks_units_join(const vw__ranks_record *records, size_t count, uint64_t *left_bytes,
                               vw_ranks_report **out)
{
    vw__ranks_record_files files = {.files = NULL};
    vw__ranks_work work;
    VW__TRY(vw__ranks_work_begin(&work, NULL));
    work.arena->limit_bytes = (size_t)vw__min_u64(*left_bytes, VW__ARENA_NO_LIMIT);
    vw_status status = join(&work, records, count, &files);
    if (work.arena->has_hit_limit)
        status = fail_for_limit(*left_bytes);
    vw__host_free(files.files);
    vw__ranks_work_end(&work);
    if (status != VW_OK) {
        vw_ranks_report_free(work.report);
        return status;
    }
    *left_bytes -= work.arena->held_bytes;
    *out = work.report;
    return VW_OK;
}
