/* rank_files.c - see rank_files.h. */
#include "ranks/rank_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h> /* qsort */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"

typedef struct walk {
    vw__rank_files *files;
    vw__arena *arena;
    vw__rank_limits most;
} walk;

/* The names of one folder. */
typedef struct name_list {
    const char **names; /* owned; the texts are the arena's */
    size_t count, capacity;
} name_list;

static vw_status make_room(void **list, size_t count, size_t *capacity, size_t element_bytes)
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
    VW__TRY(make_room((void **)&list->names, list->count, &list->capacity, sizeof *list->names));
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
    while ((entry = readdir(stream)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if (at->files->name_count == at->most.names) {
            at->files->has_more_names = true;
            break;
        }
        at->files->name_count++;
        VW__TRY(add_name(at, list, entry->d_name));
    }
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
    VW__TRY(
        make_room((void **)&files->paths, files->count, &files->capacity, sizeof *files->paths));
    files->paths[files->count++] = (vw__rank_path){path, vw__rank_of_path(path)};
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

vw_status vw__rank_files_find(const char *folder, vw__rank_limits most, vw__arena *arena,
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
