/* view_file.c - see view_file.h. */
#include "view_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDING ".html"
#define NAME_OF_NO_FILE "vramwise-view" ENDING
#define DRAFT_NAME ".vramwise-view.XXXXXX"

enum { HEAD_BYTES = 32768, ALL_MAY_USE = 0666 };

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_standard_input(const char *path)
{
    return strcmp(path, "-") == 0;
}

/* How much of `path` is its folder, with the slash at its end. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

static const char *last_part(const char *path)
{
    return is_standard_input(path) ? "stdin" : path + folder_length(path);
}

bool view_file_name(const char *path, const char *other_path, char name[PATH_MAX])
{
    int length;
    if (other_path != NULL)
        length = snprintf(name, PATH_MAX, "%.*s%s.vs.%s" ENDING, (int)folder_length(path), path,
                          last_part(path), last_part(other_path));
    else if (is_standard_input(path))
        length = snprintf(name, PATH_MAX, NAME_OF_NO_FILE);
    else
        length = snprintf(name, PATH_MAX, "%s" ENDING, path);
    return length > 0 && length < PATH_MAX;
}

/* ---- what is there --------------------------------------------------------------------------- */

/* A terminal may be both read from and written to; a file may not. */
static bool is_same_file(const struct stat *one, const char *path)
{
    struct stat other;
    if (path == NULL)
        return false;
    bool is_known = is_standard_input(path)
                        ? fstat(STDIN_FILENO, &other) == 0 && S_ISREG(other.st_mode)
                        : stat(path, &other) == 0;
    return is_known && one->st_dev == other.st_dev && one->st_ino == other.st_ino;
}

bool view_file_is(const char *name, const char *path)
{
    struct stat found;
    return stat(name, &found) == 0 && is_same_file(&found, path);
}

static bool is_page(const char *name)
{
    char head[HEAD_BYTES];
    FILE *file = fopen(name, "rb");
    if (file == NULL)
        return false;
    size_t length = fread(head, 1, sizeof head, file);
    fclose(file);
    return memmem(head, length, VIEW_PAGE_MARKER, strlen(VIEW_PAGE_MARKER)) != NULL;
}

/* Asked before the work is done for nothing; writing finds out what this cannot. */
static bool can_have_files(const char *name)
{
    char folder[PATH_MAX];
    size_t length = folder_length(name);
    if (length == 0)
        return access(".", W_OK | X_OK) == 0;
    int written = snprintf(folder, sizeof folder, "%.*s", (int)length, name);
    if (written < 0 || (size_t)written >= sizeof folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    return access(folder, W_OK | X_OK) == 0;
}

view_place view_file_look(const char *name, const char *path, const char *other_path)
{
    struct stat found;
    if (stat(name, &found) != 0)
        return errno == ENOENT && can_have_files(name) ? VIEW_PLACE_FREE : VIEW_PLACE_UNKNOWN;
    if (is_same_file(&found, path) || is_same_file(&found, other_path))
        return VIEW_PLACE_RECORDING;
    if (S_ISDIR(found.st_mode))
        return VIEW_PLACE_FOLDER;
    if (!S_ISREG(found.st_mode))
        return VIEW_PLACE_STREAM;
    if (!can_have_files(name))
        return VIEW_PLACE_UNKNOWN;
    return is_page(name) ? VIEW_PLACE_PAGE : VIEW_PLACE_FILE;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct page_file {
    FILE *file;
    uint64_t size_bytes;
} page_file;

static bool write_part(void *context, const char *bytes, size_t size_bytes)
{
    page_file *page = context;
    page->size_bytes += size_bytes;
    return fwrite(bytes, 1, size_bytes, page->file) == size_bytes;
}

/* Takes `descriptor` over. */
static bool write_to(const view_file_content *content, int descriptor, uint64_t *size_bytes)
{
    page_file page = {.file = fdopen(descriptor, "wb")};
    const vw_output output = {&page, write_part};
    if (page.file == NULL) {
        int reason = errno;
        close(descriptor);
        errno = reason;
        return false;
    }
    errno = 0;
    vw_status status = content->write(content->made, &output);
    int reason = status == VW_ERR_HOST_MEMORY ? ENOMEM : errno;
    if (fclose(page.file) != 0 && status == VW_OK) {
        reason = errno;
        status = VW_ERR_FILE;
    }
    *size_bytes = page.size_bytes;
    errno = reason != 0 ? reason : EIO;
    return status == VW_OK;
}

static mode_t permissions_of_new_files(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return ALL_MAY_USE & ~mask;
}

/* Makes a new file in the folder of `name`, under a name that nobody can know beforehand, for
 * those who may use `name` or could. -1: errno says why. */
static int open_draft(const char *name, char draft[PATH_MAX])
{
    int length = snprintf(draft, PATH_MAX, "%.*s" DRAFT_NAME, (int)folder_length(name), name);
    if (length < 0 || length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int descriptor = mkostemp(draft, O_CLOEXEC);
    if (descriptor >= 0 && !vw_keep_file_access(descriptor, name))
        (void)fchmod(descriptor, permissions_of_new_files()); /* else only its owner may read it */
    return descriptor;
}

static bool write_draft(const view_file_content *content, const char *name, uint64_t *size_bytes)
{
    char draft[PATH_MAX];
    int descriptor = open_draft(name, draft);
    if (descriptor < 0)
        return false;
    if (write_to(content, descriptor, size_bytes) && rename(draft, name) == 0)
        return true;
    int reason = errno;
    (void)unlink(draft);
    errno = reason;
    return false;
}

/* What would end the program waits until no draft is left behind; file_guard.h sees to a file that
 * may not grow. */
static bool write_and_rename(const view_file_content *content, const char *name,
                             uint64_t *size_bytes)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t ending, before;
    sigemptyset(&ending);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&ending, signals[i]);
    (void)sigprocmask(SIG_BLOCK, &ending, &before);
    bool is_written = write_draft(content, name, size_bytes);
    int reason = errno;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    errno = reason;
    return is_written;
}

/* The stream may have become a file since it was looked at: that is not written to. */
static bool write_stream(const view_file_content *content, const char *name, uint64_t *size_bytes)
{
    struct stat found;
    int descriptor = open(name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0)
        return false;
    if (fstat(descriptor, &found) == 0 && !S_ISREG(found.st_mode))
        return write_to(content, descriptor, size_bytes);
    close(descriptor);
    errno = EEXIST;
    return false;
}

bool view_file_put(const view_file_content *content, const char *name, view_place place,
                   bool follows_link, uint64_t *size_bytes)
{
    char target[PATH_MAX];
    if (place == VIEW_PLACE_STREAM)
        return write_stream(content, name, size_bytes);
    if (place == VIEW_PLACE_FREE || !follows_link) /* a link that leads nowhere is replaced */
        return write_and_rename(content, name, size_bytes);
    return realpath(name, target) != NULL && write_and_rename(content, target, size_bytes);
}

static vw_status write_view(const void *made, const vw_output *output)
{
    return vw_view_write_page(made, output);
}

bool view_file_write(const vw_view *view, const char *name, view_place place, bool follows_link,
                     uint64_t *size_bytes)
{
    const view_file_content content = {view, write_view};
    return view_file_put(&content, name, place, follows_link, size_bytes);
}
