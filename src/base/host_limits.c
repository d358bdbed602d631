/* host_limits.c - reads /proc/meminfo, the control groups and the resource limit.
 *
 * Control groups come in two versions, sometimes both at once. /proc/self/cgroup has a line for
 * each hierarchy, `number:controllers:path`; version 2 is number 0 without controllers, and its
 * files lie in /sys/fs/cgroup, version 1's in /sys/fs/cgroup/memory. A limit holds for everything
 * below it, so each group up to the root is read. In a container the path may be the host's name
 * for a folder that does not exist there: the walk upwards then ends at the container's own group.
 *
 * What the groups already use is not subtracted: most of it is cache, which the kernel drops. */
#include "base/host_limits.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/checked_math.h" /* vw__min_u64 */
#include "base/error.h"

enum { TEXT_BYTES = 8192, PATH_BYTES = 4096 };

/* Reads the beginning of a file as text. false: it cannot be read. */
static bool read_text(const char *path, char text[TEXT_BYTES])
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t count = read(file, text, TEXT_BYTES - 1);
    (void)close(file);
    text[count > 0 ? count : 0] = '\0';
    return count > 0;
}

/* UINT64_MAX, no limit, for "max" and everything else that is not a number. */
static uint64_t number_in(const char *text)
{
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    return end != text && text[0] != '-' ? value : UINT64_MAX;
}

static uint64_t read_free_bytes(const char *root)
{
    char path[PATH_BYTES], text[TEXT_BYTES];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    const char *line = read_text(path, text) ? strstr(text, "MemAvailable:") : NULL;
    if (line == NULL)
        return UINT64_MAX;
    line += strlen("MemAvailable:");
    uint64_t kib = number_in(line + strspn(line, " \t"));
    return kib <= UINT64_MAX / 1024 ? kib * 1024 : UINT64_MAX;
}

/* The lowest limit of the group at `path` and of those above it. */
static uint64_t read_group(const char *folder, const char *path, const char *file)
{
    char group[PATH_BYTES / 2], name[PATH_BYTES], text[TEXT_BYTES];
    uint64_t bytes = UINT64_MAX;
    snprintf(group, sizeof group, "%s", path);
    for (;;) {
        int length = snprintf(name, sizeof name, "%s%s/%s", folder, group, file);
        if (length > 0 && (size_t)length < sizeof name && read_text(name, text))
            bytes = vw__min_u64(bytes, number_in(text));
        char *slash = strrchr(group, '/');
        if (slash == NULL)
            return bytes;
        *slash = '\0';
    }
}

/* Does the comma-separated list contain the word? */
static bool has_controller(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (; *list != '\0'; list += *list == ',') {
        size_t part = strcspn(list, ",");
        if (part == length && strncmp(list, word, length) == 0)
            return true;
        list += part;
    }
    return false;
}

static uint64_t read_line(const char *root, char *line)
{
    char folder[PATH_BYTES / 2];
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return UINT64_MAX;
    *controllers++ = *path++ = '\0';
    if (strcmp(line, "0") == 0 && *controllers == '\0') {
        snprintf(folder, sizeof folder, "%s/sys/fs/cgroup", root);
        return read_group(folder, path, "memory.max");
    }
    if (!has_controller(controllers, "memory"))
        return UINT64_MAX;
    snprintf(folder, sizeof folder, "%s/sys/fs/cgroup/memory", root);
    return read_group(folder, path, "memory.limit_in_bytes");
}

static uint64_t read_group_bytes(const char *root)
{
    char path[PATH_BYTES], text[TEXT_BYTES];
    uint64_t bytes = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!read_text(path, text))
        return UINT64_MAX;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        bytes = vw__min_u64(bytes, read_line(root, line));
    return bytes;
}

static uint64_t read_locked_bytes(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

void vw__host_limits_read(const char *root, vw__host_limits *out)
{
    *out = (vw__host_limits){
        .free_bytes = read_free_bytes(root),
        .group_bytes = read_group_bytes(root),
        .locked_bytes = root[0] == '\0' ? read_locked_bytes() : UINT64_MAX,
    };
}

/* ---- refusing -------------------------------------------------------------------------------- */

enum { NUMBER_BYTES = 32 };

static const char *say(uint64_t bytes, char text[NUMBER_BYTES])
{
    if (bytes == UINT64_MAX)
        snprintf(text, NUMBER_BYTES, "no limit");
    else
        snprintf(text, NUMBER_BYTES, "%" PRIu64 " bytes", bytes);
    return text;
}

vw_status vw__host_limits_check(const vw__host_limits *limits, const char *what,
                                uint64_t wanted_bytes, bool is_locking)
{
    char free_text[NUMBER_BYTES], group_text[NUMBER_BYTES], locked_text[NUMBER_BYTES];
    if (wanted_bytes <= limits->free_bytes && wanted_bytes <= limits->group_bytes &&
        (wanted_bytes <= limits->locked_bytes || !is_locking))
        return VW_OK;
    return vw__fail(VW_ERR_INVALID_ARGUMENT,
                    "%s of %" PRIu64
                    " bytes is more page-locked memory than this process can have: "
                    "free on this machine %s, limit of the control group %s, ulimit -l %s",
                    what, wanted_bytes, say(limits->free_bytes, free_text),
                    say(limits->group_bytes, group_text), say(limits->locked_bytes, locked_text));
}
