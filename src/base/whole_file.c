/* whole_file.c - writes to a temporary name, then renames. */
#include "base/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* rename, snprintf */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_access.h"
#include "base/host_memory.h"
#include "base/signal_guard.h"
#include "vramwise/output.h" /* vw_keep_file_access */

bool vw__file_output_write(void *open_file, const void *bytes, size_t size_bytes)
{
    vw__file_output *file = open_file;
    const char *next = bytes;
    while (size_bytes != 0) {
        ssize_t written = vw__signal_guard_write(file->descriptor, next, size_bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            file->error = written < 0 ? errno : EIO;
            return false;
        }
        next += written;
        size_bytes -= (size_t)written;
    }
    return true;
}

/* /dev/stdout and its like, whoever made the link: in some containers that is nobody we know. */
static bool leads_to_own_stream(const char *path)
{
    static const char streams[] = "/proc/self/fd/";
    char target[sizeof streams + 1];
    const ssize_t length = readlink(path, target, sizeof target);
    return length == (ssize_t)sizeof streams && memcmp(target, streams, sizeof streams - 1) == 0 &&
           target[sizeof streams - 1] >= '0' && target[sizeof streams - 1] <= '2';
}

/* Whether a pipe or a device is there, or a link to one that may be followed. Another link is
 * replaced, as one to a file is. */
static bool is_special(const char *path)
{
    struct stat name, facts;
    return lstat(path, &name) == 0 && stat(path, &facts) == 0 && !S_ISREG(facts.st_mode) &&
           (vw__file_access_may_lead(&name, &facts) || leads_to_own_stream(path));
}

/* Refuses what has replaced the pipe since is_special(). */
static vw_status open_special(const char *path, int *descriptor)
{
    struct stat name, facts;
    bool is_found = lstat(path, &name) == 0;
    *descriptor = is_found ? open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY) : -1;
    if (*descriptor < 0)
        return vw__fail(VW_ERR_FILE, "cannot open %s: %s", path, strerror(errno));
    if (fstat(*descriptor, &facts) == 0 && !S_ISREG(facts.st_mode) &&
        (vw__file_access_may_lead(&name, &facts) || leads_to_own_stream(path)))
        return VW_OK;
    close(*descriptor);
    return vw__fail(VW_ERR_FILE, "%s is no longer a pipe or a device", path);
}

enum {
    MOST_SUFFIX_BYTES = 40,
    MOST_NAMES_TRIED = 100,
    ALL_MAY_USE = 0666, /* as far as the umask lets them */
    OWNER_MAY_USE = 0600,
};

/* Makes a file in the folder of `path`, and stores its name. Those may use it who may use the file
 * that it replaces, or a new file; never anybody else, not even for a moment. */
static vw_status open_beside(const char *path, char *name, size_t name_bytes, int *descriptor)
{
    const bool replaces = vw__file_access_is_own(path);
    for (int i = 0; i < MOST_NAMES_TRIED; i++) {
        snprintf(name, name_bytes, "%s.%ld-%d.part", path, (long)getpid(), i);
        *descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                           replaces ? OWNER_MAY_USE : ALL_MAY_USE);
        if (*descriptor >= 0 && replaces)
            (void)vw_keep_file_access(*descriptor, path); /* else its owner may use it */
        if (*descriptor >= 0)
            return VW_OK;
        if (errno != EEXIST)
            break;
    }
    return vw__fail(VW_ERR_FILE, "cannot make %s: %s", name, strerror(errno));
}

/* close() may report that an earlier write did not reach the disk. */
static vw_status close_and_move(int descriptor, const char *name, const char *path)
{
    if (close(descriptor) != 0)
        return vw__fail(VW_ERR_FILE, "cannot write %s: %s", path, strerror(errno));
    if (name[0] != '\0' && rename(name, path) != 0)
        return vw__fail(VW_ERR_FILE, "cannot make %s: %s", path, strerror(errno));
    return VW_OK;
}

vw_status vw__whole_file_write(const char *path, vw__file_content content, void *context)
{
    size_t name_bytes = strlen(path) + MOST_SUFFIX_BYTES;
    char *name = vw__host_alloc(name_bytes); /* of the file being written; "": `path` itself */
    if (name == NULL)
        return vw__fail_host_memory(name_bytes, "a file's name");
    name[0] = '\0';
    int descriptor;
    vw_status status = is_special(path) ? open_special(path, &descriptor)
                                        : open_beside(path, name, name_bytes, &descriptor);
    if (status == VW_OK) {
        status = content(context, descriptor);
        if (status == VW_OK)
            status = close_and_move(descriptor, name, path);
        else
            close(descriptor);
        if (status != VW_OK && name[0] != '\0')
            unlink(name);
    }
    vw__host_free(name);
    return status;
}
