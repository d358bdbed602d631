/* ranks.c - the door of ranks.h: finds the files, opens one after the other, has them examined.
 *
 * Two rounds over the files. The first takes recordings, and texts whose rank only their lines can
 * tell; of those the stories of all ranks named stay open. The second takes the texts that are
 * known to be one rank's, rank by rank, adds them to that rank's story and ends it: so no more
 * stories are open at once than one file has labels for. */
#include "vramwise/ranks.h"

#include <inttypes.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "analysis/recording.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "parse/byte_source.h"
#include "parse/file_kind.h"
#include "ranks/rank_files.h"
#include "ranks/rank_parts.h"

/* What vw_ranks_report_free() gets back. */
typedef struct ranks_result {
    vw_ranks_report shown; /* first: the caller holds a pointer to it */
    vw__arena arena;
} ranks_result;

typedef struct job {
    vw__ranks_work *work;
    const char *folder;
    vw__rank_files files;
    vw_rank_file *shown; /* the arena's: one for each of files */
    bool is_local_known; /* torchrun's numbers are ranks: there is one run of it */
    size_t array_tasks;  /* of Slurm's arrays: so many jobs the files are of, where there are any */
    size_t done_count;
} job;

/* A failure that is about one file; the others end the work. */
static bool is_of_file(vw_status status)
{
    return status != VW_OK && status != VW_ERR_HOST_MEMORY && status != VW_ERR_WRONG_STATE;
}

static vw_status tell_progress(job *at)
{
    const vw_ranks_options *options = at->work->options;
    double done = (double)at->done_count++ / (double)(at->files.count + 1);
    if (options->progress != NULL && !options->progress(options->progress_context, done))
        return vw__fail(VW_ERR_WRONG_STATE, "stopped by the caller");
    return VW_OK;
}

/* ---- whose it is ----------------------------------------------------------------------------- */

/* torchrun makes a folder for each run on each machine, and counts the processes of a machine. */
static bool has_one_run(const vw__rank_files *files)
{
    const vw__ranks_path *first = NULL;
    for (size_t i = 0; i < files->count; i++) {
        const vw__ranks_path *path = &files->paths[i];
        if (!path->name.is_local)
            continue;
        if (first == NULL)
            first = path;
        else if (first->name.run_bytes != path->name.run_bytes ||
                 memcmp(first->path, path->path, path->name.run_bytes) != 0)
            return false;
    }
    return true;
}

static bool is_same_array_task(const vw__ranks_name *one, const vw__ranks_name *other)
{
    return one->array != NULL && other->array != NULL && one->array_bytes == other->array_bytes &&
           memcmp(one->array, other->array, one->array_bytes) == 0;
}

/* A task may have several files: it counts with the first. */
static size_t count_array_tasks(const vw__rank_files *files)
{
    size_t count = 0;
    for (size_t i = 0; i < files->count; i++) {
        size_t earlier = i;
        while (earlier > 0 &&
               !is_same_array_task(&files->paths[earlier - 1].name, &files->paths[i].name))
            earlier--;
        count += files->paths[i].name.array != NULL && earlier == 0;
    }
    return count;
}

/* True if the folder holds several jobs: their ranks are not the same ranks. */
static bool is_of_one_of_several_jobs(const job *at, size_t place)
{
    return at->files.paths[place].name.array != NULL && at->array_tasks > 1;
}

static uint64_t rank_of(const job *at, size_t place)
{
    const vw__ranks_name *name = &at->files.paths[place].name;
    bool is_known = name->is_known && (!name->is_local || at->is_local_known) &&
                    !is_of_one_of_several_jobs(at, place);
    return is_known ? name->rank : VW_UNKNOWN;
}

/* Is the text one rank's for certain? torchrun's files may be of another than their folder says. */
static bool is_of_one_rank(const job *at, size_t place)
{
    return at->files.paths[place].name.is_known && !at->files.paths[place].name.is_local &&
           !is_of_one_of_several_jobs(at, place);
}

static const char *why_unknown(const job *at, size_t place)
{
    if (at->files.paths[place].name.array != NULL)
        return "the number in its name is of a task of a Slurm array, which is a job and no rank";
    return at->files.paths[place].name.is_local
               ? "torchrun numbers the processes of each machine, and there are several of its "
                 "runs here"
               : "nothing in its name or its lines says whose it is";
}

/* ---- one file -------------------------------------------------------------------------------- */

/* Words for a failure to open or read begin with the whole name, which the report shows already. */
static const char *without_name(const job *at, size_t place, const char *words)
{
    size_t folder_bytes = strlen(at->folder), path_bytes = strlen(at->files.paths[place].path);
    if (strncmp(words, at->folder, folder_bytes) == 0 && words[folder_bytes] == '/' &&
        strncmp(words + folder_bytes + 1, at->files.paths[place].path, path_bytes) == 0 &&
        strncmp(words + folder_bytes + 1 + path_bytes, ": ", 2) == 0)
        words += folder_bytes + 1 + path_bytes + 2;
    return words;
}

static vw_status refuse(job *at, size_t place)
{
    const char *words = without_name(at, place, vw_last_error());
    at->shown[place].kind = VW_RANK_FILE_UNREADABLE;
    return vw__ranks_keep(at->work, words, &at->shown[place].reason);
}

static vw_status examine_recording(job *at, size_t place, vw__byte_source *source)
{
    vw_recording *recording = NULL;
    vw__ranks_account account = vw__ranks_account_of(rank_of(at, place));
    account.order = place;
    vw_status status = vw__recording_open_source(source, 0, &recording);
    if (status == VW_OK)
        status =
            vw__ranks_account_recording(at->work, recording, at->files.paths[place].path, &account);
    vw_recording_close(recording);
    if (status != VW_OK)
        vw_diagnosis_free(account.diagnosis);
    if (status == VW_ERR_HOST_MEMORY) /* it has none of it any more: there is room for the others */
        return refuse(at, place);
    VW__TRY(status);
    at->shown[place].kind = VW_RANK_FILE_RECORDING;
    at->shown[place].rank_count = account.shown.rank != VW_UNKNOWN;
    if (account.shown.rank == VW_UNKNOWN)
        at->shown[place].reason = why_unknown(at, place);
    return vw__ranks_accounts_add(&at->work->accounts, &account);
}

/* A story that is complete becomes an account; NULL does nothing. */
static vw_status end_story(job *at, vw__ranks_story *story, size_t place)
{
    if (story == NULL)
        return VW_OK;
    vw__ranks_account account = vw__ranks_account_of(story->rank);
    bool has_something = false;
    account.order = place;
    vw_status status = vw__ranks_account_story(at->work, story, &account, &has_something);
    if (is_of_file(status)) {
        account.shown.has_verdict = false;
        status = vw__ranks_note(at->work, "%s: %s", story->first_path, vw_last_error());
    }
    bool is_kept = status == VW_OK && (story->rank != VW_UNKNOWN || has_something);
    if (is_kept)
        status = vw__ranks_accounts_add(&at->work->accounts, &account);
    else
        vw_diagnosis_free(account.diagnosis);
    vw__ranks_story_destroy(story);
    return status;
}

static vw_status note_lost_lines(job *at, const vw__ranks_story_file *file)
{
    if (file->lost_count == 0)
        return VW_OK;
    return vw__ranks_note(at->work,
                          "%s has lines of more than %d ranks; %" PRIu64
                          " lines of the others were left out.",
                          file->path, VW__RANKS_MOST_STORIES, file->lost_count);
}

/* The folders of one machine may be another's than the first: then they count from 0 as well. */
static vw_status note_other_ranks(job *at, size_t place, const vw__ranks_story_file *file)
{
    if (!at->files.paths[place].name.is_local || file->rank == VW_UNKNOWN || file->rank_count < 2)
        return VW_OK;
    return vw__ranks_note(at->work,
                          "%s has lines of other ranks than its folder says; those that name none "
                          "were taken for rank %" PRIu64 "'s.",
                          file->path, file->rank);
}

static vw_status examine_text(job *at, size_t place, vw__byte_source *source, const uint8_t *bytes,
                              size_t size_bytes)
{
    vw_rank_file *shown = &at->shown[place];
    vw__ranks_story_file file = {.path = shown->path,
                                 .rank = rank_of(at, place),
                                 .has_labels = !is_of_one_rank(at, place) &&
                                               !is_of_one_of_several_jobs(at, place),
                                 .last_rank = VW_UNKNOWN};
    if (memchr(bytes, '\0', size_bytes) != NULL)
        return vw__fail(VW_ERR_CORRUPT_FILE, "expected a text, found bytes that no text has");
    file.has_bare_labels =
        file.has_labels && vw__ranks_has_bare_labels((const char *)bytes, size_bytes);
    vw_status status = vw__ranks_stories_read(&at->work->stories, source, &file);
    shown->kind = VW_RANK_FILE_TEXT;
    shown->rank_count = file.rank_count;
    shown->rank = file.rank_count == 1 ? file.last_rank : VW_UNKNOWN;
    if (file.rank_count == 0)
        shown->reason = why_unknown(at, place);
    vw__ranks_story *nobodys = vw__ranks_stories_take(&at->work->stories, VW_UNKNOWN);
    if (status != VW_OK) {
        vw__ranks_story_destroy(nobodys);
        return status;
    }
    VW__TRY(end_story(at, nobodys, place));
    VW__TRY(note_other_ranks(at, place, &file));
    return note_lost_lines(at, &file);
}

/* Detects the file type and dispatches. */
static vw_status examine_source(job *at, size_t place, vw__byte_source *source)
{
    const uint8_t *bytes;
    size_t size_bytes;
    bool is_recording;
    bool is_log = vw__ranks_is_log_name(at->files.paths[place].path);
    VW__TRY(vw__byte_source_peek(source, VW__FILE_KIND_BYTES, &bytes, &size_bytes));
    vw_status status = vw__file_kind_detect(bytes, size_bytes, &is_recording);
    if (status == VW_OK && is_recording)
        return examine_recording(at, place, source);
    if (!is_log) {
        at->shown[place].kind = VW_RANK_FILE_FOREIGN;
        at->shown[place].reason =
            size_bytes == 0 ? "empty" : "not a recording, and not named like a log";
        return VW_OK;
    }
    return status == VW_OK ? examine_text(at, place, source, bytes, size_bytes) : status;
}

static vw_status open_and_examine(job *at, size_t place)
{
    vw__byte_source *source = NULL;
    vw__byte_buffer path;
    vw__byte_buffer_init(&path);
    vw__append_text(&path, at->folder);
    vw__append_text(&path, "/");
    vw__append_text(&path, at->files.paths[place].path);
    vw_status status = vw__byte_buffer_has_failed(&path)
                           ? vw__fail_host_memory(vw__byte_buffer_size(&path), "the name of a file")
                           : vw__byte_source_open(vw__byte_buffer_text(&path), NULL, &source);
    vw__byte_buffer_deinit(&path);
    if (status == VW_OK)
        status = examine_source(at, place, source);
    vw__byte_source_close(source);
    return status;
}

static vw_status examine_file(job *at, size_t place)
{
    VW__TRY(tell_progress(at));
    vw_status status = open_and_examine(at, place);
    return is_of_file(status) ? refuse(at, place) : status;
}

/* ---- the two rounds -------------------------------------------------------------------------- */

static bool is_for_second_round(const job *at, size_t place)
{
    return is_of_one_rank(at, place) && vw__ranks_is_log_name(at->files.paths[place].path);
}

static vw_status first_round(job *at)
{
    for (size_t i = 0; i < at->files.count; i++)
        if (!is_for_second_round(at, i))
            VW__TRY(examine_file(at, i));
    return VW_OK;
}

typedef struct ranked_place {
    uint64_t rank;
    size_t place;
} ranked_place;

static int compare_places(const void *left, const void *right)
{
    const ranked_place *one = left, *other = right;
    if (one->rank != other->rank)
        return one->rank < other->rank ? -1 : 1;
    return (one->place > other->place) - (one->place < other->place);
}

static vw_status examine_in_order(job *at, const ranked_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        VW__TRY(examine_file(at, places[i].place));
        bool is_last = i + 1 == count || places[i + 1].rank != places[i].rank;
        if (is_last)
            VW__TRY(end_story(at, vw__ranks_stories_take(&at->work->stories, places[i].rank),
                              places[i].place));
    }
    return VW_OK;
}

static vw_status second_round(job *at)
{
    size_t count = 0;
    ranked_place *places = vw__host_alloc_zeroed(at->files.count, sizeof *places);
    if (places == NULL)
        return vw__fail_host_memory(at->files.count * sizeof *places, "the texts of a job");
    for (size_t i = 0; i < at->files.count; i++)
        if (is_for_second_round(at, i))
            places[count++] = (ranked_place){at->files.paths[i].name.rank, i};
    qsort(places, count, sizeof *places, compare_places);
    vw_status status = examine_in_order(at, places, count);
    vw__host_free(places);
    return status;
}

/* Ranks that only labels have named. */
static vw_status end_stories(job *at)
{
    vw__ranks_stories *stories = &at->work->stories;
    while (stories->count > 0)
        VW__TRY(end_story(at, vw__ranks_stories_take(stories, stories->stories[0]->rank), 0));
    return VW_OK;
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

static vw_status refuse_folder(const vw_ranks_report *report)
{
    if (report->file_count == 0)
        return vw__fail(VW_ERR_FILE, "expected the recordings and logs of a job, found no file");
    for (size_t i = 0; i < report->file_count; i++)
        if (report->files[i].kind == VW_RANK_FILE_UNREADABLE)
            return vw__fail(VW_ERR_FILE,
                            "expected the recordings and logs of a job, and of %zu files none "
                            "could be read; %s: %s",
                            report->file_count, report->files[i].path, report->files[i].reason);
    return vw__fail(VW_ERR_FILE,
                    "expected the recordings and logs of a job, found %zu files, none of which is "
                    "a recording or named like a log; the first is %s",
                    report->file_count, report->files[0].path);
}

static vw_status note_left_out(job *at)
{
    const vw__rank_files *files = &at->files;
    if (files->has_more_files)
        VW__TRY(vw__ranks_note(at->work,
                               "There are more files than are looked at: the first %zu, by name. A "
                               "folder further down has fewer.",
                               files->count));
    if (files->has_more_names)
        VW__TRY(vw__ranks_note(at->work,
                               "There are more names than are looked at: %d of them were, in no "
                               "order. A folder further down has fewer.",
                               VW__RANK_FILES_MOST_NAMES));
    if (files->has_deeper)
        VW__TRY(vw__ranks_note(at->work, "Folders more than %d deep were left out.",
                               VW__RANK_FILES_DEEPEST));
    if (files->link_count > 0)
        VW__TRY(
            vw__ranks_note(at->work, "Links to folders are not followed: %zu.", files->link_count));
    if (files->other_count > 0)
        VW__TRY(vw__ranks_note(
            at->work, "Left out because they are not files (pipes, sockets, broken links): %zu.",
            files->other_count));
    return VW_OK;
}

static vw_status note_several_jobs(job *at)
{
    if (at->array_tasks < 2)
        return VW_OK;
    return vw__ranks_note(at->work,
                          "There are files of %zu tasks of Slurm arrays, each of which is a job: "
                          "they are examined one by one, and not compared. Put the files of each "
                          "task into a folder of its own to see its ranks.",
                          at->array_tasks);
}

static vw_status list_files(job *at)
{
    at->shown = vw__arena_alloc_array(at->work->arena, at->files.count, sizeof *at->shown,
                                      _Alignof(vw_rank_file));
    if (at->shown == NULL)
        return vw__fail_host_memory(at->files.count * sizeof *at->shown, "the files of a job");
    at->is_local_known = has_one_run(&at->files);
    at->array_tasks = count_array_tasks(&at->files);
    for (size_t i = 0; i < at->files.count; i++)
        at->shown[i] = (vw_rank_file){.path = at->files.paths[i].path, .rank = rank_of(at, i)};
    at->work->report->files = at->shown;
    at->work->report->file_count = at->files.count;
    return VW_OK;
}

static vw_status examine_job(job *at)
{
    vw__ranks_work *work = at->work;
    const vw__ranks_account **mains;
    VW__TRY(list_files(at));
    VW__TRY(note_left_out(at));
    VW__TRY(note_several_jobs(at));
    VW__TRY(first_round(at));
    VW__TRY(second_round(at));
    VW__TRY(end_stories(at));
    count_files(work->report);
    if (work->report->recording_count + work->report->text_count == 0)
        return refuse_folder(work->report);
    VW__TRY(vw__ranks_merge(work, &mains));
    vw_status status = vw__ranks_compare(work, mains);
    vw__host_free(mains);
    return status;
}

static vw_status examine_folder(vw__ranks_work *work, const char *folder)
{
    job at = {.work = work, .folder = folder};
    const vw__rank_files_limits most = {
        .files =
            work->options->most_files != 0 ? work->options->most_files : VW_RANKS_DEFAULT_FILES,
        .names = VW__RANK_FILES_MOST_NAMES,
    };
    VW__TRY(vw__rank_files_find(folder, most, work->arena, &at.files));
    vw_status status = examine_job(&at);
    vw__rank_files_deinit(&at.files);
    return status;
}

vw_status vw_ranks_examine(const char *folder, const vw_ranks_options *options,
                           vw_ranks_report **out)
{
    vw_ranks_options used = {.struct_size = sizeof used};
    const char *version;
    if (folder == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a folder and a place for the report");
    VW__TRY(VW__STRUCT_IN(vw_ranks_options, options, &used));
    if (used.torch_version != NULL)
        VW__TRY(vw__recording_version(NULL, used.torch_version, &version));
    ranks_result *result = vw__host_alloc_zeroed(1, sizeof *result);
    if (result == NULL)
        return vw__fail_host_memory(sizeof *result, "a report on ranks");
    vw__arena_init(&result->arena, VW__ARENA_NO_LIMIT);
    vw__ranks_work work = {
        .arena = &result->arena,
        .options = &used,
        .doctor = {.struct_size = sizeof work.doctor, .torch_version = used.torch_version},
        .report = &result->shown,
    };
    vw__arena_init(&work.key_arena, VW__ARENA_NO_LIMIT);
    vw__string_table_init(&work.sites.keys, &work.key_arena, VW__STRING_TABLE_LARGEST_COUNT,
                          SIZE_MAX);
    vw_status status = examine_folder(&work, folder);
    vw__ranks_stories_deinit(&work.stories);
    vw__ranks_accounts_deinit(&work.accounts);
    vw__host_free(work.sites.sites);
    vw__arena_deinit(&work.key_arena);
    if (status != VW_OK) {
        vw_ranks_report_free(&result->shown);
        return status;
    }
    *out = &result->shown;
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
