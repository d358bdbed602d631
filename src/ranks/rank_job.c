/* rank_job.c - the files of one job: opens one after the other, has them examined.
 *
 * Two rounds over the files. The first takes recordings, and texts whose rank only their lines can
 * tell; of those the stories of all ranks named stay open. The second takes the texts that are
 * known to be one rank's, rank by rank, adds them to that rank's story and ends it: so no more
 * stories are open at once than one file has labels for. */
#include <inttypes.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "analysis/reading_limit.h"
#include "analysis/recording.h"
#include "base/byte_buffer.h"
#include "base/checked_math.h" /* vw__max_u64 */
#include "base/error.h"
#include "base/host_memory.h"
#include "parse/byte_source.h"
#include "parse/file_kind.h"
#include "ranks/rank_files.h"
#include "ranks/rank_parts.h"

/* A failure that is about one file; the others end the work. */
static bool is_of_file(vw_status status)
{
    return status != VW_OK && status != VW_ERR_HOST_MEMORY && status != VW_ERR_WRONG_STATE;
}

static vw_status tell_progress(vw__ranks_job *at)
{
    const vw_ranks_options *options = &at->work->options;
    double done = (double)at->done_count++ / (double)(at->list->files.count + 1);
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
        if (files->paths[i].name.array == NULL)
            continue;
        while (earlier > 0 &&
               !is_same_array_task(&files->paths[earlier - 1].name, &files->paths[i].name))
            earlier--;
        count += earlier == 0;
    }
    return count;
}

/* True if the folder holds several jobs: their ranks are not the same ranks. */
static bool is_of_one_of_several_jobs(const vw__ranks_job *at, size_t place)
{
    return at->list->files.paths[place].name.array != NULL && at->list->array_tasks > 1;
}

static uint64_t rank_of(const vw__ranks_job *at, size_t place)
{
    const vw__ranks_name *name = &at->list->files.paths[place].name;
    bool is_known = name->is_known && (!name->is_local || at->list->is_local_known) &&
                    !is_of_one_of_several_jobs(at, place);
    return is_known ? name->rank : VW_UNKNOWN;
}

/* Is the text one rank's for certain? torchrun's files may be of another than their folder says. */
static bool is_of_one_rank(const vw__ranks_job *at, size_t place)
{
    return at->list->files.paths[place].name.is_known &&
           !at->list->files.paths[place].name.is_local && !is_of_one_of_several_jobs(at, place);
}

static const char *why_unknown(const vw__ranks_job *at, size_t place)
{
    if (at->list->files.paths[place].name.array != NULL)
        return "the number in its name is that of a Slurm array task, which is a job, not a rank";
    return at->list->files.paths[place].name.is_local
               ? "torchrun numbers the processes of each machine, and there are several of its "
                 "runs here"
               : "nothing in its name or its lines says whose it is";
}

/* ---- one file -------------------------------------------------------------------------------- */

static vw_status refuse(vw__ranks_job *at, size_t place, vw_status status)
{
    const char *words = vw__ranks_job_list_words(at->list, place, vw_last_error());
    at->may_change |= vw__ranks_unit_may_change(status);
    at->shown[place].kind = VW_RANK_FILE_UNREADABLE;
    return vw__ranks_keep(at->work, words, &at->shown[place].reason);
}

static vw_status examine_recording(vw__ranks_job *at, size_t place, vw__byte_source *source)
{
    vw_recording *recording = NULL;
    vw__ranks_account account = vw__ranks_account_of(rank_of(at, place));
    account.order = place;
    vw_status status = vw__recording_open_source(source, at->memory.limit_bytes, &recording);
    if (status == VW_OK)
        status = vw__ranks_account_recording(at->work, recording, at->list->files.paths[place].path,
                                             &account);
    vw_recording_close(recording);
    if (at->memory.may_get_more && (status == VW_ERR_HOST_MEMORY || status == VW_ERR_UNSUPPORTED))
        return VW_ERR_HOST_MEMORY;    /* a limit is UNSUPPORTED; the message stays */
    if (status == VW_ERR_HOST_MEMORY) /* its memory is free again: the others have room */
        return refuse(at, place, status);
    VW__TRY(status);
    at->shown[place].kind = VW_RANK_FILE_RECORDING;
    at->shown[place].rank_count = account.shown.rank != VW_UNKNOWN;
    if (account.shown.rank == VW_UNKNOWN)
        at->shown[place].reason = why_unknown(at, place);
    return vw__ranks_accounts_add(&at->work->accounts, &account);
}

/* A story that is complete becomes an account; NULL does nothing. */
static vw_status end_story(vw__ranks_job *at, vw__ranks_story *story, size_t place)
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
    vw__ranks_story_destroy(story);
    return status;
}

static vw_status note_lost_lines(vw__ranks_job *at, const vw__ranks_story_file *file)
{
    if (file->lost_count == 0)
        return VW_OK;
    return vw__ranks_note(at->work,
                          "%s has lines of more than %d ranks; %" PRIu64
                          " lines of the others were left out.",
                          file->path, VW__RANKS_MOST_STORIES, file->lost_count);
}

/* The folders of one machine may be another's than the first: then they count from 0 as well. */
static vw_status note_other_ranks(vw__ranks_job *at, size_t place, const vw__ranks_story_file *file)
{
    if (!at->list->files.paths[place].name.is_local || file->rank == VW_UNKNOWN ||
        file->rank_count < 2)
        return VW_OK;
    return vw__ranks_note(at->work,
                          "%s has lines of other ranks than its folder says; lines without a "
                          "label were taken for rank %" PRIu64 "'s.",
                          file->path, file->rank);
}

static vw_status examine_text(vw__ranks_job *at, size_t place, vw__byte_source *source,
                              const uint8_t *bytes, size_t size_bytes)
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
    if (at->memory.may_get_more && (status == VW_ERR_HOST_MEMORY || status == VW_ERR_UNSUPPORTED))
        return VW_ERR_HOST_MEMORY;    /* as of a recording */
    if (status == VW_ERR_UNSUPPORTED) /* the texts of others have the room */
        vw__ranks_stories_forget(&at->work->stories, shown->path);
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
static vw_status examine_source(vw__ranks_job *at, size_t place, vw__byte_source *source)
{
    const uint8_t *bytes;
    size_t size_bytes;
    bool is_recording;
    bool is_log = vw__ranks_is_log_name(at->list->files.paths[place].path);
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

vw_status vw__ranks_job_list_path(const vw__ranks_job_list *list, size_t place,
                                  vw__byte_buffer *path)
{
    vw__byte_buffer_clear(path);
    if (list->folder != NULL) {
        vw__append_text(path, list->folder);
        vw__append_text(path, "/");
    }
    vw__append_text(path, list->files.paths[place].path);
    return vw__byte_buffer_has_failed(path)
               ? vw__fail_host_memory(vw__byte_buffer_size(path), "the name of a file")
               : VW_OK;
}

vw_status vw__ranks_job_list_open(const vw__ranks_job_list *list, size_t place,
                                  vw__byte_source **out)
{
    const vw__byte_source_options found = {
        .is_found = true,
        .named_bytes = list->folder != NULL ? strlen(list->folder) - list->found_bytes : 0};
    vw__byte_buffer path;
    vw__byte_buffer_init(&path);
    vw_status status = vw__ranks_job_list_path(list, place, &path);
    if (status == VW_OK)
        status = vw__byte_source_open(vw__byte_buffer_text(&path), &found, out);
    vw__byte_buffer_deinit(&path);
    return status;
}

const char *vw__ranks_job_list_words(const vw__ranks_job_list *list, size_t place,
                                     const char *words)
{
    const char *folder = list->folder != NULL ? list->folder : "";
    const char *path = list->files.paths[place].path, *rest = words;
    size_t folder_bytes = strlen(folder), path_bytes = strlen(path);
    if (strncmp(rest, folder, folder_bytes) != 0)
        return words;
    rest += folder_bytes;
    if (folder_bytes != 0 && *rest++ != '/')
        return words;
    bool has_name =
        strncmp(rest, path, path_bytes) == 0 && strncmp(rest + path_bytes, ": ", 2) == 0;
    return has_name ? rest + path_bytes + 2 : words;
}

static vw_status open_and_examine(vw__ranks_job *at, size_t place)
{
    vw__byte_source *source = NULL;
    vw_status status = vw__ranks_job_list_open(at->list, place, &source);
    if (status == VW_OK)
        status = examine_source(at, place, source);
    vw__byte_source_close(source);
    return status;
}

vw_status vw__ranks_job_examine_file(vw__ranks_job *at, size_t place)
{
    VW__TRY(tell_progress(at));
    vw_status status = open_and_examine(at, place);
    return is_of_file(status) ? refuse(at, place, status) : status;
}

/* ---- the two rounds -------------------------------------------------------------------------- */

static bool is_for_second_round(const vw__ranks_job *at, size_t place)
{
    return is_of_one_rank(at, place) && vw__ranks_is_log_name(at->list->files.paths[place].path);
}

static vw_status first_round(vw__ranks_job *at, bool has_only_logs)
{
    for (size_t i = 0; i < at->list->files.count; i++)
        if (!is_for_second_round(at, i) &&
            (!has_only_logs || vw__ranks_is_log_name(at->list->files.paths[i].path)))
            VW__TRY(vw__ranks_job_examine_file(at, i));
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

static vw_status examine_in_order(vw__ranks_job *at, const ranked_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        VW__TRY(vw__ranks_job_examine_file(at, places[i].place));
        bool is_last = i + 1 == count || places[i + 1].rank != places[i].rank;
        if (is_last)
            VW__TRY(end_story(at, vw__ranks_stories_take(&at->work->stories, places[i].rank),
                              places[i].place));
    }
    return VW_OK;
}

static vw_status second_round(vw__ranks_job *at)
{
    size_t count = 0;
    ranked_place *places = vw__host_alloc_zeroed(at->list->files.count, sizeof *places);
    if (places == NULL)
        return vw__fail_host_memory(at->list->files.count * sizeof *places, "the texts of a job");
    for (size_t i = 0; i < at->list->files.count; i++)
        if (is_for_second_round(at, i))
            places[count++] = (ranked_place){at->list->files.paths[i].name.rank, i};
    qsort(places, count, sizeof *places, compare_places);
    vw_status status = examine_in_order(at, places, count);
    vw__host_free(places);
    return status;
}

/* Ranks that only labels have named. */
static vw_status end_stories(vw__ranks_job *at)
{
    vw__ranks_stories *stories = &at->work->stories;
    while (stories->count > 0)
        VW__TRY(end_story(at, vw__ranks_stories_take(stories, stories->stories[0]->rank), 0));
    return VW_OK;
}

static vw_status examine_rounds(vw__ranks_job *at, bool has_only_logs)
{
    VW__TRY(first_round(at, has_only_logs));
    VW__TRY(second_round(at));
    return end_stories(at);
}

vw_status vw__ranks_job_examine_logs(vw__ranks_job *at)
{
    return examine_rounds(at, true);
}

vw_status vw__ranks_job_examine_all(vw__ranks_job *at)
{
    return examine_rounds(at, false);
}

/* ---- the list -------------------------------------------------------------------------------- */

static vw_status note_left_out(vw__ranks_job *at)
{
    const vw__rank_files *files = &at->list->files;
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

static vw_status note_several_jobs(vw__ranks_job *at)
{
    if (at->list->array_tasks < 2)
        return VW_OK;
    return vw__ranks_note(at->work,
                          "There are files of %zu Slurm array tasks, each of which is a job: they "
                          "are examined one by one, and not compared. Put the files of each task "
                          "into a folder of its own to see its ranks.",
                          at->list->array_tasks);
}

void vw__ranks_job_list_judge(vw__ranks_job_list *list)
{
    list->is_local_known = has_one_run(&list->files);
    list->array_tasks = count_array_tasks(&list->files);
}

vw_status vw__ranks_job_begin(vw__ranks_job *at)
{
    const vw__rank_files *files = &at->list->files;
    at->work->stories.limit_bytes =
        vw__max_u64(VW__RANKS_LEAST_TEXTS_BYTES, vw__reading_limit_bytes(at->memory.limit_bytes));
    at->shown = vw__arena_alloc_array(at->work->arena, files->count, sizeof *at->shown,
                                      _Alignof(vw_rank_file));
    if (at->shown == NULL)
        return vw__fail_host_memory(files->count * sizeof *at->shown, "the files of a job");
    for (size_t i = 0; i < files->count; i++)
        at->shown[i] = (vw_rank_file){.path = files->paths[i].path, .rank = rank_of(at, i)};
    return VW_OK;
}

vw_status vw__ranks_job_note(vw__ranks_job *at)
{
    VW__TRY(note_left_out(at));
    return note_several_jobs(at);
}
