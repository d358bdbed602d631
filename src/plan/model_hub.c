/* model_hub.c - finds snapshots in the cache that huggingface_hub keeps.
 *
 *   models--ORGANISATION--NAME/refs/main                     names a commit
 *   models--ORGANISATION--NAME/snapshots/COMMIT/config.json
 *
 * Nothing is fetched. */
#include "plan/model_hub.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/error.h"

/* ---- names ----------------------------------------------------------------------------------- */

/* Of one part: letters, digits, and ._- inside. */
static bool is_part(const char *part, size_t length)
{
    if (length == 0 || length > 96 || part[0] == '.' || part[length - 1] == '.')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!vw__ascii_is_name(part[i]) && part[i] != '.' && part[i] != '-')
            return false;
    return true;
}

bool vw__model_hub_is_name(const char *name)
{
    const char *slash = strchr(name, '/');
    if (slash == NULL)
        return is_part(name, strlen(name));
    return is_part(name, (size_t)(slash - name)) && is_part(slash + 1, strlen(slash + 1));
}

/* ---- the cache ------------------------------------------------------------------------------- */

void vw__model_hub_append_cache(vw__byte_buffer *out)
{
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"HF_HUB_CACHE", ""},
        {"HUGGINGFACE_HUB_CACHE", ""},
        {"HF_HOME", "/hub"},
        {"XDG_CACHE_HOME", "/huggingface/hub"},
        {"HOME", "/.cache/huggingface/hub"},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *folder = secure_getenv(places[i].variable);
        if (folder == NULL || folder[0] == '\0')
            continue;
        vw__append_format(out, "%s%s", folder, places[i].below);
        return;
    }
}

/* "CACHE/models--ORGANISATION--NAME" */
static void append_model(const char *name, vw__byte_buffer *out)
{
    const char *slash = strchr(name, '/');
    vw__model_hub_append_cache(out);
    vw__append_text(out, "/models--");
    if (slash != NULL) {
        vw__append_bytes(out, name, (size_t)(slash - name));
        vw__append_text(out, "--");
        name = slash + 1;
    }
    vw__append_text(out, name);
}

/* ---- snapshots ------------------------------------------------------------------------------- */

enum { LONGEST_COMMIT = 64 };

/* False if the snapshot has no config.json, and then nothing is appended. */
static bool append_config(const char *model, const char *commit, vw__byte_buffer *out,
                          struct stat *found)
{
    vw__byte_buffer path;
    vw__byte_buffer_init(&path);
    vw__append_format(&path, "%s/snapshots/%s/config.json", model, commit);
    const char *text = vw__byte_buffer_text(&path);
    const bool is_there = stat(text, found) == 0 && S_ISREG(found->st_mode);
    if (vw__byte_buffer_has_failed(&path))
        out->has_failed = true;
    else if (is_there)
        vw__append_text(out, text);
    vw__byte_buffer_deinit(&path);
    return is_there;
}

/* The commit that refs/main has; false: none. */
static bool read_main(const char *model, char commit[LONGEST_COMMIT + 1])
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/refs/main", model) >= (int)sizeof path)
        return false;
    /* A cache may be shared: whoever put a pipe there is not waited for. */
    struct stat found;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool is_file =
        descriptor >= 0 && fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode);
    FILE *file = is_file ? fdopen(descriptor, "r") : NULL;
    if (file == NULL) {
        if (descriptor >= 0)
            close(descriptor);
        return false;
    }
    const bool is_read = fscanf(file, "%64s", commit) == 1;
    fclose(file);
    return is_read && is_part(commit, strlen(commit));
}

static void append_newest(const char *model, vw__byte_buffer *out)
{
    char path[4096];
    struct stat found, newest = {.st_mtime = 0};
    if (snprintf(path, sizeof path, "%s/snapshots", model) >= (int)sizeof path)
        return;
    DIR *folder = opendir(path);
    if (folder == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        vw__byte_buffer made;
        vw__byte_buffer_init(&made);
        if (is_part(entry->d_name, strlen(entry->d_name)) &&
            append_config(model, entry->d_name, &made, &found) &&
            (vw__byte_buffer_size(out) == 0 || found.st_mtime > newest.st_mtime)) {
            newest = found;
            vw__byte_buffer_clear(out);
            vw__append_text(out, vw__byte_buffer_text(&made));
        }
        out->has_failed |= vw__byte_buffer_has_failed(&made);
        vw__byte_buffer_deinit(&made);
    }
    closedir(folder);
}

vw_status vw__model_hub_find(const char *name, vw__byte_buffer *out)
{
    char commit[LONGEST_COMMIT + 1];
    struct stat found;
    vw__byte_buffer model;
    if (!vw__model_hub_is_name(name))
        return VW_OK;
    vw__byte_buffer_init(&model);
    append_model(name, &model);
    const char *folder = vw__byte_buffer_text(&model);
    if (!read_main(folder, commit) || !append_config(folder, commit, out, &found))
        append_newest(folder, out);
    const bool has_failed = vw__byte_buffer_has_failed(&model) || vw__byte_buffer_has_failed(out);
    vw__byte_buffer_deinit(&model);
    return has_failed ? vw__fail_host_memory(strlen(name), "a path in the hub's cache") : VW_OK;
}
