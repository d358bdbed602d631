/* fleet_list.c - reads a folder of jobs, and lists and tables of files. */
#include "fleet/fleet_list.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h> /* PATH_MAX */
#include <stdio.h>
#include <stdlib.h> /* qsort */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "fleet/fleet_part.h" /* vw__fleet_part_is_in */
#include "parse/file_kind.h"
#include "ranks/rank_files.h"

enum {
    MOST_FILES = 1 << 20,        /* of one job */
    MOST_LIST_BYTES = 256 << 20, /* of a list */
};

void vw__fleet_list_init(vw__fleet_list *list)
{
    *list = (vw__fleet_list){.jobs = NULL};
    vw__arena_init(&list->arena, VW__ARENA_NO_LIMIT);
}

void vw__fleet_list_deinit(vw__fleet_list *list)
{
    for (size_t i = 0; i < list->job_count; i++)
        vw__rank_files_deinit(&list->jobs[i].list.files);
    vw__host_free(list->jobs);
    vw__host_free(list->units);
    vw__arena_deinit(&list->arena);
    *list = (vw__fleet_list){.jobs = NULL};
}

static vw_status keep(vw__fleet_list *list, const char *bytes, size_t size_bytes, const char **out)
{
    *out = vw__arena_copy(&list->arena, bytes, size_bytes);
    return *out != NULL ? VW_OK : vw__fail_host_memory(size_bytes, "a name in a list");
}

/* `name` and `folder` are the arena's. */
static vw_status add_job(vw__fleet_list *list, const char *name, const char *folder,
                         vw__fleet_list_job **out)
{
    VW__TRY(vw__ranks_make_room((void **)&list->jobs, list->job_count, &list->job_capacity,
                                sizeof *list->jobs));
    *out = &list->jobs[list->job_count++];
    **out = (vw__fleet_list_job){.name = name, .kind = "", .list = {.folder = folder}};
    return VW_OK;
}

static vw_status find_files(vw__fleet_list *list, vw__fleet_list_job *job)
{
    const vw__rank_files_limits most = {MOST_FILES, VW__RANK_FILES_MOST_NAMES};
    vw_status status = vw__rank_files_find(job->list.folder, most, &list->arena, &job->list.files);
    if (status != VW_ERR_FILE)
        return status;
    list->closed_count++; /* the job has no files, and the others are read */
    return VW_OK;
}

/* ---- a folder of jobs ------------------------------------------------------------------------ */

static vw_status join_path(vw__fleet_list *list, const char *folder, const char *name,
                           const char **out)
{
    size_t folder_bytes = strlen(folder);
    bool has_slash = folder_bytes > 0 && folder[folder_bytes - 1] == '/';
    *out = vw__arena_format(&list->arena, "%s%s%s", folder, has_slash ? "" : "/", name);
    return *out != NULL ? VW_OK : vw__fail_host_memory(folder_bytes, "the folder of a job");
}

/* By the rule for links to files (parse/byte_source.h): the user's, root's, or the owner's of what
 * it leads to. */
static bool is_planted(const struct stat *name, const struct stat *found)
{
    return S_ISLNK(name->st_mode) && name->st_uid != geteuid() && name->st_uid != 0 &&
           name->st_uid != found->st_uid;
}

static vw_status add_folder(vw__fleet_list *list, const char *source, const char *name)
{
    const char *path, *kept;
    struct stat named, found;
    vw__fleet_list_job *job;
    VW__TRY(join_path(list, source, name, &path));
    if (lstat(path, &named) != 0 || stat(path, &found) != 0 || !S_ISDIR(found.st_mode)) {
        list->beside_count++;
        return VW_OK;
    }
    if (is_planted(&named, &found)) {
        list->closed_count++;
        return VW_OK;
    }
    if (vw__fleet_part_is_in(path)) /* --state may put one among the jobs */
        return VW_OK;
    VW__TRY(keep(list, name, strlen(name), &kept));
    VW__TRY(add_job(list, kept, path, &job));
    job->list.found_bytes = strlen(name);
    return find_files(list, job);
}

static vw_status read_folder(vw__fleet_list *list, const char *source)
{
    DIR *stream = opendir(source);
    const struct dirent *entry;
    vw_status status = VW_OK;
    if (stream == NULL)
        return vw__fail(VW_ERR_FILE, "%s", strerror(errno));
    while (status == VW_OK && (errno = 0, entry = readdir(stream)) != NULL)
        if (entry->d_name[0] != '.')
            status = add_folder(list, source, entry->d_name);
    if (status == VW_OK && errno != 0)
        status = vw__fail(VW_ERR_FILE, "%s", strerror(errno));
    closedir(stream);
    if (status == VW_OK && list->job_count == 0)
        return vw__fail(VW_ERR_FILE,
                        "expected a folder of jobs, each a folder, found no folder in it; a list "
                        "with columns path and job says whose a file is");
    return status;
}

/* ---- a list of files ------------------------------------------------------------------------- */

enum { MOST_COLUMNS = 64 };

typedef struct span {
    const char *first;
    size_t size_bytes;
} span;

typedef struct table {
    vw__fleet_list *list;
    size_t line;            /* from 1 */
    char separator;         /* '\0': a line is a path */
    size_t path, job, kind; /* columns; MOST_COLUMNS: not there */
} table;

/* Takes the next field off a line. Quotes may enclose one, and are doubled in it: they are taken
 * out in place. */
static span take_field(char **next, char *end, char separator)
{
    char *first = *next, *at = first, *to = first;
    bool is_quoted = at < end && *at == '"';
    for (at += is_quoted; at < end; at++) {
        if (is_quoted && *at == '"') {
            if (at + 1 < end && at[1] == '"')
                at++;
            else {
                is_quoted = false;
                continue;
            }
        } else if (!is_quoted && *at == separator)
            break;
        *to++ = *at;
    }
    *next = at < end ? at + 1 : NULL;
    return (span){first, (size_t)(to - first)};
}

static size_t split(char *line, char *end, char separator, span fields[MOST_COLUMNS])
{
    size_t count = 0;
    char *next = line;
    if (separator == '\0') {
        fields[0] = (span){line, (size_t)(end - line)};
        return 1;
    }
    while (next != NULL && count < MOST_COLUMNS)
        fields[count++] = take_field(&next, end, separator);
    return count;
}

static size_t column_of(const span *fields, size_t count, const char *name)
{
    size_t i = 0;
    while (i < count && (fields[i].size_bytes != strlen(name) ||
                         memcmp(fields[i].first, name, fields[i].size_bytes) != 0))
        i++;
    return i < count ? i : MOST_COLUMNS;
}

/* Does the first line name columns? A path that is called "path" would be a strange one. */
static bool read_header(table *at, char *line, char *end)
{
    static const char separators[] = {',', '\t'};
    for (size_t i = 0; i < sizeof separators; i++) {
        span fields[MOST_COLUMNS];
        char copy[1024];
        size_t size_bytes = (size_t)(end - line);
        if (size_bytes >= sizeof copy)
            return false;
        memcpy(copy, line, size_bytes);
        size_t count = split(copy, copy + size_bytes, separators[i], fields);
        size_t path = column_of(fields, count, "path");
        if (path == MOST_COLUMNS)
            continue;
        at->separator = separators[i];
        at->path = path;
        at->job = column_of(fields, count, "job");
        at->kind = column_of(fields, count, "kind");
        return true;
    }
    return false;
}

/* The folder of a path is its job; "." for a path without one. */
static span folder_of(span path)
{
    size_t size_bytes = path.size_bytes;
    while (size_bytes > 0 && path.first[size_bytes - 1] != '/')
        size_bytes--;
    while (size_bytes > 1 && path.first[size_bytes - 1] == '/')
        size_bytes--;
    return size_bytes > 0 ? (span){path.first, size_bytes} : (span){".", 1};
}

/* A file becomes a job with one file: jobs of one name are joined later. */
static vw_status add_entry(vw__fleet_list *list, span path, span job_name, span kind)
{
    const char *kept_path, *name;
    struct stat found;
    vw__fleet_list_job *job;
    VW__TRY(keep(list, path.first, path.size_bytes, &kept_path));
    bool is_folder = stat(kept_path, &found) == 0 && S_ISDIR(found.st_mode);
    if (job_name.size_bytes == 0)
        job_name = is_folder ? path : folder_of(path);
    VW__TRY(keep(list, job_name.first, job_name.size_bytes, &name));
    VW__TRY(add_job(list, name, is_folder ? kept_path : NULL, &job));
    VW__TRY(keep(list, kind.first, kind.size_bytes, &job->kind));
    if (is_folder)
        return find_files(list, job);
    vw__rank_files *files = &job->list.files;
    VW__TRY(vw__ranks_make_room((void **)&files->paths, 0, &files->capacity, sizeof *files->paths));
    files->paths[files->count++] = (vw__ranks_path){kept_path, vw__ranks_of_path(kept_path)};
    return VW_OK;
}

static vw_status read_line(table *at, char *line, char *end)
{
    span fields[MOST_COLUMNS], job = {"", 0}, kind = {"", 0};
    at->line++;
    if (end > line && end[-1] == '\r')
        end--;
    if (at->line == 1 && read_header(at, line, end))
        return VW_OK;
    if (end == line)
        return VW_OK;
    size_t count = split(line, end, at->separator, fields);
    if (at->path >= count || fields[at->path].size_bytes == 0)
        return vw__fail(VW_ERR_CORRUPT_FILE, "line %zu: expected a path in column %zu, found none",
                        at->line, at->path + 1);
    if (fields[at->path].size_bytes >= PATH_MAX)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "expected a list of files, found a line %zu of %zu bytes", at->line,
                        fields[at->path].size_bytes);
    if (at->job < count)
        job = fields[at->job];
    if (at->job != MOST_COLUMNS && job.size_bytes == 0)
        return vw__fail(VW_ERR_CORRUPT_FILE, "line %zu: expected a job in column %zu, found none",
                        at->line, at->job + 1);
    if (at->kind < count)
        kind = fields[at->kind];
    return add_entry(at->list, fields[at->path], job, kind);
}

static vw_status read_lines(vw__fleet_list *list, char *bytes, size_t size_bytes)
{
    static const char mark[] = {'\xEF', '\xBB', '\xBF'}; /* of UTF-8, as spreadsheets write it */
    table at = {.list = list, .job = MOST_COLUMNS, .kind = MOST_COLUMNS};
    char *end = size_bytes > 0 ? bytes + size_bytes : bytes; /* NULL where it is empty */
    if (size_bytes >= sizeof mark && memcmp(bytes, mark, sizeof mark) == 0)
        bytes += sizeof mark;
    for (char *line = bytes; line < end;) {
        char *line_end = memchr(line, '\n', (size_t)(end - line));
        line_end = line_end != NULL ? line_end : end;
        VW__TRY(read_line(&at, line, line_end));
        line = line_end + 1;
    }
    return list->job_count > 0 ? VW_OK
                               : vw__fail(VW_ERR_FILE, "expected a list of files, found no line");
}

/* Reads to the end, or a bit further than the first zero byte: no list has one, and a hole is made
 * of them, of any size. */
static vw_status read_all(FILE *stream, vw__byte_buffer *text)
{
    char piece[1 << 16];
    size_t size_bytes;
    while ((size_bytes = fread(piece, 1, sizeof piece, stream)) > 0) {
        vw__append_bytes(text, piece, size_bytes);
        if (vw__byte_buffer_size(text) > MOST_LIST_BYTES)
            return vw__fail(VW_ERR_FILE, "expected a list of at most %d bytes", MOST_LIST_BYTES);
        if (memchr(piece, '\0', size_bytes) != NULL)
            break;
    }
    if (ferror(stream))
        return vw__fail(VW_ERR_FILE, "%s", strerror(errno));
    return vw__byte_buffer_has_failed(text)
               ? vw__fail_host_memory(vw__byte_buffer_size(text), "a list of files")
               : VW_OK;
}

static vw_status check_zero_bytes(const char *bytes, size_t size_bytes)
{
    const char *zero = size_bytes > 0 ? memchr(bytes, '\0', size_bytes) : NULL;
    size_t line = 1;
    if (zero == NULL)
        return VW_OK;
    for (const char *at = bytes; at < zero; at++)
        line += *at == '\n';
    return vw__fail(VW_ERR_CORRUPT_FILE, "line %zu: expected a path, found a zero byte", line);
}

static vw_status read_text(vw__fleet_list *list, vw__byte_buffer *text)
{
    bool is_recording = false;
    VW__TRY(vw__file_kind_detect((const uint8_t *)vw__byte_buffer_text(text),
                                 vw__byte_buffer_size(text), &is_recording));
    if (is_recording)
        return vw__fail(VW_ERR_FILE, "expected a list of files, found a recording");
    VW__TRY(check_zero_bytes(text->bytes, vw__byte_buffer_size(text)));
    return read_lines(list, text->bytes, vw__byte_buffer_size(text));
}

static vw_status read_list(vw__fleet_list *list, const char *source)
{
    bool is_standard_input = strcmp(source, "-") == 0;
    FILE *stream = is_standard_input ? stdin : fopen(source, "re");
    vw__byte_buffer text;
    if (stream == NULL)
        return vw__fail(VW_ERR_FILE, "%s", strerror(errno));
    vw__byte_buffer_init(&text);
    vw_status status = read_all(stream, &text);
    if (!is_standard_input)
        fclose(stream);
    if (status == VW_OK)
        status = read_text(list, &text);
    vw__byte_buffer_deinit(&text);
    return status;
}

/* ---- order ----------------------------------------------------------------------------------- */

static int compare_jobs(const void *left, const void *right)
{
    return strcmp(((const vw__fleet_list_job *)left)->name,
                  ((const vw__fleet_list_job *)right)->name);
}

static int compare_paths(const void *left, const void *right)
{
    return strcmp(((const vw__ranks_path *)left)->path, ((const vw__ranks_path *)right)->path);
}

/* Adds the files of one job to another of the same name. */
static vw_status join_job(vw__fleet_list_job *to, vw__fleet_list_job *from)
{
    vw__rank_files *files = &to->list.files;
    for (size_t i = 0; i < from->list.files.count; i++) {
        VW__TRY(vw__ranks_make_room((void **)&files->paths, files->count, &files->capacity,
                                    sizeof *files->paths));
        files->paths[files->count++] = from->list.files.paths[i];
    }
    return VW_OK;
}

/* True if a folder is listed twice: it counts once, as a file does. */
static bool is_same_folder(const vw__fleet_list_job *one, const vw__fleet_list_job *other)
{
    return one->list.folder != NULL && other->list.folder != NULL &&
           strcmp(one->list.folder, other->list.folder) == 0;
}

static vw_status join_jobs(vw__fleet_list *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->job_count; i++) {
        vw__fleet_list_job *job = &list->jobs[i];
        bool is_known = kept > 0 && strcmp(list->jobs[kept - 1].name, job->name) == 0;
        if (!is_known) {
            vw__fleet_list_job moved = *job;
            job->list.files = (vw__rank_files){.paths = NULL};
            list->jobs[kept++] = moved;
            continue;
        }
        bool is_again = is_same_folder(&list->jobs[kept - 1], job);
        if (!is_again && (list->jobs[kept - 1].list.folder != NULL || job->list.folder != NULL))
            return vw__fail(VW_ERR_CORRUPT_FILE,
                            "job %s: expected one folder or a list of files, found both, or two "
                            "folders",
                            job->name);
        if (strcmp(list->jobs[kept - 1].kind, job->kind) != 0)
            return vw__fail(VW_ERR_CORRUPT_FILE, "job %s: expected one kind, found '%s' and '%s'",
                            job->name, list->jobs[kept - 1].kind, job->kind);
        if (!is_again)
            VW__TRY(join_job(&list->jobs[kept - 1], job));
        vw__rank_files_deinit(&job->list.files);
    }
    list->job_count = kept;
    return VW_OK;
}

/* A file that is listed twice counts once. */
static void order_files(vw__rank_files *files)
{
    size_t kept = 0;
    if (files->count > 0)
        qsort(files->paths, files->count, sizeof *files->paths, compare_paths);
    for (size_t i = 0; i < files->count; i++)
        if (kept == 0 || strcmp(files->paths[kept - 1].path, files->paths[i].path) != 0)
            files->paths[kept++] = files->paths[i];
    files->count = kept;
}

static vw_status add_unit(vw__fleet_list *list, size_t job, size_t place)
{
    VW__TRY(vw__ranks_make_room((void **)&list->units, list->unit_count, &list->unit_capacity,
                                sizeof *list->units));
    list->units[list->unit_count++] = (vw__fleet_list_unit){job, place};
    return VW_OK;
}

static bool has_only_logs(const vw__rank_files *files)
{
    size_t place = 0;
    while (place < files->count && vw__ranks_is_log_name(files->paths[place].path))
        place++;
    return place == files->count;
}

static vw_status make_units(vw__fleet_list *list, bool has_texts)
{
    for (size_t i = 0; i < list->job_count; i++) {
        vw__ranks_job_list *job = &list->jobs[i].list;
        order_files(&job->files);
        vw__ranks_job_list_judge(job);
        if (has_texts || has_only_logs(&job->files))
            VW__TRY(add_unit(list, i, VW__RANKS_UNIT_TEXTS));
        for (size_t k = 0; k < job->files.count; k++)
            if (!vw__ranks_is_log_name(job->files.paths[k].path))
                VW__TRY(add_unit(list, i, k));
    }
    return VW_OK;
}

vw_status vw__fleet_list_read(vw__fleet_list *list, const char *source, bool has_texts)
{
    struct stat found;
    bool is_folder = stat(source, &found) == 0 && S_ISDIR(found.st_mode);
    VW__TRY(is_folder ? read_folder(list, source) : read_list(list, source));
    qsort(list->jobs, list->job_count, sizeof *list->jobs, compare_jobs);
    VW__TRY(join_jobs(list));
    return make_units(list, has_texts);
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *vw__fleet_list_path(const vw__fleet_list *list, const vw__fleet_list_unit *unit)
{
    return unit->place == VW__RANKS_UNIT_TEXTS
               ? ""
               : list->jobs[unit->job].list.files.paths[unit->place].path;
}
