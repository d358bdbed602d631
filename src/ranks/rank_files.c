/* rank_files.c - see rank_files.h. */
#include "ranks/rank_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h> /* qsort */
#include <string.h>
#include <strings.h> /* strncasecmp */
#include <sys/stat.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"

enum { MOST_DIGITS = 6 };

typedef struct span {
    const char *text;
    size_t size_bytes;
} span;

static bool ends_with(span name, const char *ending)
{
    size_t length = strlen(ending);
    return name.size_bytes >= length &&
           strncasecmp(name.text + name.size_bytes - length, ending, length) == 0;
}

static bool begins_with(span name, const char *beginning)
{
    size_t length = strlen(beginning);
    return name.size_bytes >= length && strncasecmp(name.text, beginning, length) == 0;
}

static bool is_word(span name, const char *word)
{
    return name.size_bytes == strlen(word) && begins_with(name, word);
}

/* Reads the digits at `at`. False: there are no digits, or too many. */
static bool read_number(span name, size_t at, size_t *end, uint64_t *number)
{
    uint64_t value = 0;
    size_t here = at;
    while (here < name.size_bytes && vw__ascii_is_digit(name.text[here]) &&
           here - at <= MOST_DIGITS)
        value = value * 10 + (uint64_t)(name.text[here++] - '0');
    if (here == at || here - at > MOST_DIGITS)
        return false;
    *end = here;
    *number = value;
    return true;
}

/* "lora_rank16" is a setting of the run. */
static bool is_of_adapter(span name, size_t at)
{
    static const char word[] = "lora";
    size_t length = sizeof word - 1;
    return at > length && strncasecmp(name.text + at - length - 1, word, length) == 0;
}

/* `word` at `at`, a number behind it, and one sign between them at most. */
static bool read_word(span name, size_t at, const char *word, bool needs_sign_before,
                      uint64_t *rank)
{
    size_t end, length = strlen(word);
    if (strncasecmp(name.text + at, word, length) != 0 || is_of_adapter(name, at))
        return false;
    char before = at > 0 ? name.text[at - 1] : '.';
    if (needs_sign_before ? at == 0 || strchr("_.-", before) == NULL
                          : vw__ascii_is_letter(before) || vw__ascii_is_digit(before))
        return false;
    at += length;
    if (!needs_sign_before && strchr("_-.=", name.text[at]) != NULL)
        at++;
    return read_number(name, at, &end, rank) &&
           (end == name.size_bytes || !vw__ascii_is_letter(name.text[end]));
}

/* The last one in the name: what adds a rank to a name puts it behind. */
static bool find_word(span name, const char *word, bool needs_sign_before, uint64_t *rank)
{
    size_t length = strlen(word);
    for (size_t at = name.size_bytes; at-- > 0;)
        if (at + length < name.size_bytes && read_word(name, at, word, needs_sign_before, rank))
            return true;
    return false;
}

/* slurm-JOB-RANK.out, slurm-JOB_TASK.out, slurm-JOB_TASK-RANK.out: TASK is that of an array. */
static bool find_slurm(span name, vw__ranks_name *out)
{
    size_t job = strlen("slurm-"), at = job, end;
    uint64_t task;
    if (!begins_with(name, "slurm-"))
        return false;
    while (at < name.size_bytes && vw__ascii_is_digit(name.text[at]))
        at++;
    if (at == job || at == name.size_bytes)
        return false;
    if (name.text[at] == '_' && read_number(name, at + 1, &end, &task) && end < name.size_bytes &&
        !vw__ascii_is_letter(name.text[end])) {
        out->array = name.text + job;
        out->array_bytes = end - job;
        at = end;
    }
    return name.text[at] == '-' && read_number(name, at + 1, &end, &out->rank) &&
           end < name.size_bytes && name.text[end] == '.';
}

/* An array's task is noted also where the rank is found in another way. */
static bool find_in_name(span name, vw__ranks_name *out)
{
    uint64_t rank;
    bool is_slurm = find_slurm(name, out);
    if (!find_word(name, "rank", false, &rank) &&
        (is_slurm ||
         (!find_word(name, "task", false, &rank) && !find_word(name, "r", true, &rank))))
        return is_slurm;
    out->rank = rank;
    return true;
}

/* The part of `path` before its last slash; empty without one. */
static span folder_of(span path)
{
    while (path.size_bytes > 0 && path.text[path.size_bytes - 1] != '/')
        path.size_bytes--;
    if (path.size_bytes > 0)
        path.size_bytes--;
    return path;
}

static span last_part(span path)
{
    span folder = folder_of(path);
    size_t skipped = folder.size_bytes > 0 || (path.size_bytes > 0 && path.text[0] == '/')
                         ? folder.size_bytes + 1
                         : 0;
    return (span){path.text + skipped, path.size_bytes - skipped};
}

/* <run>/attempt_K/RANK/NAME */
static bool find_torchrun(span path, vw__ranks_name *out)
{
    span folder = folder_of(path), attempt = folder_of(folder);
    span number = last_part(folder);
    size_t end;
    if (!begins_with(last_part(attempt), "attempt_") || !read_number(number, 0, &end, &out->rank) ||
        end != number.size_bytes)
        return false;
    out->is_known = out->is_local = true;
    out->run_bytes = folder_of(attempt).size_bytes;
    return true;
}

vw__ranks_name vw__ranks_of_path(const char *path)
{
    vw__ranks_name found = {.is_known = false};
    span whole = {path, strlen(path)};
    if (find_in_name(last_part(whole), &found)) {
        found.is_known = true;
        return found;
    }
    if (find_torchrun(whole, &found))
        return found;
    for (span folder = folder_of(whole); folder.size_bytes > 0; folder = folder_of(folder))
        if (last_part(folder).size_bytes > strlen("rank") &&
            read_word(last_part(folder), 0, "rank", false, &found.rank)) {
            found.is_known = true;
            return found;
        }
    return found;
}

bool vw__ranks_is_log_name(const char *path)
{
    static const char *const compressed[] = {".gz", ".xz", ".zst"};
    static const char *const endings[] = {".log", ".out", ".err",    ".txt",   ".jsonl",
                                          ".csv", ".tsv", ".stdout", ".stderr"};
    static const char *const words[] = {"stdout", "stderr", "error.json"};
    span name = last_part((span){path, strlen(path)});
    for (size_t i = 0; i < sizeof compressed / sizeof *compressed; i++)
        if (ends_with(name, compressed[i])) {
            name.size_bytes -= strlen(compressed[i]);
            break;
        }
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(name, endings[i]))
            return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_word(name, words[i]))
            return true;
    return false;
}

bool vw__ranks_is_failure_name(const char *path)
{
    return begins_with(last_part((span){path, strlen(path)}), "vramwise-oom-");
}

typedef struct walk {
    vw__rank_files *files;
    vw__arena *arena;
    vw__rank_files_limits most;
} walk;

/* The names of one folder. */
typedef struct name_list {
    const char **names; /* owned; the texts are the arena's */
    size_t count, capacity;
} name_list;

vw_status vw__ranks_make_room(void **list, size_t count, size_t *capacity, size_t element_bytes)
{
    if (count < *capacity)
        return VW_OK;
    size_t wanted = *capacity < 16 ? 16 : *capacity * 2;
    void *larger = vw__host_realloc(*list, wanted * element_bytes);
    if (larger == NULL)
        return vw__fail_host_memory(wanted * element_bytes, "the files of a job");
    *list = larger;
    *capacity = wanted;
    return VW_OK;
}

static vw_status add_name(walk *at, name_list *list, const char *name)
{
    VW__TRY(vw__ranks_make_room((void **)&list->names, list->count, &list->capacity,
                                sizeof *list->names));
    char *copy = vw__arena_copy(at->arena, name, strlen(name));
    if (copy == NULL)
        return vw__fail_host_memory(strlen(name), "the name of a file");
    list->names[list->count++] = copy;
    return VW_OK;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static vw_status read_names(walk *at, DIR *stream, name_list *list)
{
    const struct dirent *entry;
    while ((errno = 0, entry = readdir(stream)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if (at->files->name_count == at->most.names) {
            at->files->has_more_names = true;
            break;
        }
        at->files->name_count++;
        VW__TRY(add_name(at, list, entry->d_name));
    }
    if (entry == NULL && errno != 0)
        return vw__fail(VW_ERR_FILE, "%s", strerror(errno));
    if (list->count > 0)
        qsort(list->names, list->count, sizeof *list->names, compare_names);
    return VW_OK;
}

static vw_status add_file(walk *at, const char *path)
{
    vw__rank_files *files = at->files;
    if (files->count == at->most.files) {
        files->has_more_files = true;
        return VW_OK;
    }
    VW__TRY(vw__ranks_make_room((void **)&files->paths, files->count, &files->capacity,
                                sizeof *files->paths));
    files->paths[files->count++] = (vw__ranks_path){path, vw__ranks_of_path(path)};
    return VW_OK;
}

static const char *join(walk *at, const char *folder, const char *name)
{
    vw__byte_buffer path;
    vw__byte_buffer_init(&path);
    if (folder[0] != '\0') {
        vw__append_text(&path, folder);
        vw__append_text(&path, "/");
    }
    vw__append_text(&path, name);
    char *copy =
        vw__byte_buffer_has_failed(&path)
            ? NULL
            : vw__arena_copy(at->arena, vw__byte_buffer_text(&path), vw__byte_buffer_size(&path));
    vw__byte_buffer_deinit(&path);
    return copy;
}

static vw_status walk_folder(walk *at, int folder, const char *path, unsigned depth);

/* A folder in a folder. What cannot be opened is counted, and the walk goes on. */
static vw_status enter(walk *at, int above, const char *name, const char *path, unsigned depth)
{
    if (depth == VW__RANK_FILES_DEEPEST) {
        at->files->has_deeper = true;
        return VW_OK;
    }
    int folder = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        at->files->other_count++;
        return VW_OK;
    }
    return walk_folder(at, folder, path, depth + 1);
}

static vw_status take(walk *at, int folder, const char *folder_path, const char *name,
                      unsigned depth)
{
    struct stat found;
    if (fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
        at->files->other_count++;
        return VW_OK;
    }
    bool is_link = S_ISLNK(found.st_mode);
    if (is_link && fstatat(folder, name, &found, 0) != 0) {
        at->files->other_count++; /* it leads nowhere, or round in a circle */
        return VW_OK;
    }
    if (is_link && S_ISDIR(found.st_mode)) {
        at->files->link_count++;
        return VW_OK;
    }
    if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) {
        at->files->other_count++;
        return VW_OK;
    }
    const char *path = join(at, folder_path, name);
    if (path == NULL)
        return vw__fail_host_memory(strlen(folder_path) + strlen(name), "the name of a file");
    return S_ISDIR(found.st_mode) ? enter(at, folder, name, path, depth) : add_file(at, path);
}

/* Closes `folder`. */
static vw_status walk_folder(walk *at, int folder, const char *path, unsigned depth)
{
    name_list list = {NULL, 0, 0};
    DIR *stream = fdopendir(folder);
    if (stream == NULL) {
        int reason = errno;
        close(folder);
        return vw__fail(VW_ERR_FILE, "%s: %s", path, strerror(reason));
    }
    vw_status status = read_names(at, stream, &list);
    for (size_t i = 0; status == VW_OK && i < list.count && !at->files->has_more_files; i++)
        status = take(at, folder, path, list.names[i], depth);
    vw__host_free(list.names);
    closedir(stream);
    return status;
}

vw_status vw__rank_files_find(const char *folder, vw__rank_files_limits most, vw__arena *arena,
                              vw__rank_files *out)
{
    vw__rank_files files = {.paths = NULL};
    walk at = {&files, arena, most};
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return errno == ENOTDIR ? vw__fail(VW_ERR_FILE, "expected a folder, found a file")
                                : vw__fail(VW_ERR_FILE, "%s", strerror(errno));
    vw_status status = walk_folder(&at, descriptor, "", 0);
    if (status != VW_OK) {
        vw__rank_files_deinit(&files);
        return status;
    }
    *out = files;
    return VW_OK;
}

void vw__rank_files_deinit(vw__rank_files *files)
{
    vw__host_free(files->paths);
    *files = (vw__rank_files){.paths = NULL};
}
