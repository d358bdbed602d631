/* ranks.c - the door of ranks.h: the files of a folder become a report. */
#include "vramwise/ranks.h"

#include "analysis/recording.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "ranks/rank_files.h"
#include "ranks/rank_parts.h"

/* What vw_ranks_report_free() gets back. */
typedef struct ranks_result {
    vw_ranks_report shown; /* first: the caller holds a pointer to it */
    vw__arena arena;
} ranks_result;

static vw_status refuse_folder(const vw_ranks_report *report)
{
    if (report->file_count == 0)
        return vw__fail(VW_ERR_FILE, "expected the recordings and logs of a job, found no file");
    for (size_t i = 0; i < report->file_count; i++)
        if (report->files[i].kind == VW_RANK_FILE_UNREADABLE)
            return vw__fail(VW_ERR_FILE,
                            "expected the recordings and logs of a job, found %zu files, none of "
                            "which can be read; %s: %s",
                            report->file_count, report->files[i].path, report->files[i].reason);
    return vw__fail(VW_ERR_FILE,
                    "expected the recordings and logs of a job, found %zu files, none of which is "
                    "a recording or named like a log; the first is %s",
                    report->file_count, report->files[0].path);
}

vw_status vw__ranks_work_begin(vw__ranks_work *work, const vw_ranks_options *options)
{
    const char *version;
    *work = (vw__ranks_work){.options = {.struct_size = sizeof work->options}};
    VW__TRY(VW__STRUCT_IN(vw_ranks_options, options, &work->options));
    if (work->options.torch_version != NULL)
        VW__TRY(vw__recording_version(NULL, work->options.torch_version, &version));
    ranks_result *result = vw__host_alloc_zeroed(1, sizeof *result);
    if (result == NULL)
        return vw__fail_host_memory(sizeof *result, "a report on ranks");
    vw__arena_init(&result->arena, VW__ARENA_NO_LIMIT);
    work->arena = &result->arena;
    work->report = &result->shown;
    work->doctor = (vw_doctor_options){.struct_size = sizeof work->doctor,
                                       .torch_version = work->options.torch_version};
    vw__arena_init(&work->scratch, VW__ARENA_NO_LIMIT);
    vw__string_table_init(&work->sites.keys, &work->scratch, VW__STRING_TABLE_LARGEST_COUNT,
                          SIZE_MAX);
    return VW_OK;
}

void vw__ranks_work_end(vw__ranks_work *work)
{
    vw__ranks_stories_deinit(&work->stories);
    vw__ranks_accounts_deinit(&work->accounts);
    vw__host_free(work->sites.sites);
    vw__arena_deinit(&work->scratch);
}

/* ---- the report ------------------------------------------------------------------------------ */

static void count_files(vw_ranks_report *report)
{
    for (size_t i = 0; i < report->file_count; i++) {
        vw_rank_file_kind kind = report->files[i].kind;
        report->recording_count += kind == VW_RANK_FILE_RECORDING;
        report->text_count += kind == VW_RANK_FILE_TEXT;
        report->unreadable_count += kind == VW_RANK_FILE_UNREADABLE;
        report->foreign_count += kind == VW_RANK_FILE_FOREIGN;
    }
}

vw_status vw__ranks_conclude(vw__ranks_work *work, const vw_rank_file *files, size_t file_count)
{
    const vw__ranks_account **mains;
    work->report->files = files;
    work->report->file_count = file_count;
    count_files(work->report);
    VW__TRY(vw__ranks_merge(work, &mains));
    vw_status status = vw__ranks_compare(work, mains);
    vw__host_free(mains);
    return status;
}

static vw_status examine_files(vw__ranks_work *work, vw__ranks_job_list *list)
{
    vw__ranks_job at = {.work = work, .list = list};
    vw__ranks_job_list_judge(list);
    VW__TRY(vw__ranks_job_begin(&at));
    VW__TRY(vw__ranks_job_note(&at));
    VW__TRY(vw__ranks_job_examine_all(&at));
    VW__TRY(vw__ranks_conclude(work, at.shown, list->files.count));
    return work->report->recording_count + work->report->text_count == 0
               ? refuse_folder(work->report)
               : VW_OK;
}

static vw_status examine_folder(vw__ranks_work *work, const char *folder)
{
    vw__ranks_job_list list = {.folder = folder};
    const vw__rank_files_limits most = {
        .files = work->options.most_files != 0 ? work->options.most_files : VW_RANKS_DEFAULT_FILES,
        .names = VW__RANK_FILES_MOST_NAMES,
    };
    VW__TRY(vw__rank_files_find(folder, most, work->arena, &list.files));
    vw_status status = examine_files(work, &list);
    vw__rank_files_deinit(&list.files);
    return status;
}

vw_status vw_ranks_examine(const char *folder, const vw_ranks_options *options,
                           vw_ranks_report **out)
{
    vw__ranks_work work;
    if (folder == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a folder and a place for the report");
    VW__TRY(vw__ranks_work_begin(&work, options));
    vw_status status = examine_folder(&work, folder);
    vw__ranks_work_end(&work);
    if (status != VW_OK) {
        vw_ranks_report_free(work.report);
        return status;
    }
    *out = work.report;
    return VW_OK;
}

void vw_ranks_report_free(vw_ranks_report *report)
{
    ranks_result *result = (ranks_result *)report;
    if (result == NULL)
        return;
    vw__arena_deinit(&result->arena);
    vw__host_free(result);
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *vw_rank_measure_name(vw_rank_measure measure)
{
    static const char *const names[] = {"peak_live_bytes", "peak_reserved_bytes", "events"};
    return (size_t)measure < VW_RANK_MEASURES ? names[measure] : "unknown";
}

const char *vw_rank_basis_name(vw_rank_basis basis)
{
    static const char *const names[] = {NULL, "trace", "end", "text"};
    return (size_t)basis < sizeof names / sizeof *names ? names[basis] : NULL;
}

const char *vw_rank_file_kind_name(vw_rank_file_kind kind)
{
    static const char *const names[] = {"recording", "text", "unreadable", "foreign"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "foreign";
}
