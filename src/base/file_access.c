/* file_access.c - who may use a file that replaces another.
 *
 * A mode alone does not say it. The bits of the group are about the file's group, and a new file
 * has the user's first one, or the folder's. With an access list they are the most that the list
 * may allow, and a folder can give new files a list of its own. */
#include "base/file_access.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "vramwise/output.h" /* vw_keep_file_access */

#define ACCESS_LIST "system.posix_acl_access"

enum {
    PERMISSIONS = 0777,
    OWNER_PART = 0700,
    OTHERS_PART = 0007,
    GROUP_SHIFT = 3,
    MOST_LIST_BYTES = 4096, /* 511 entries */
};

static bool is_own(const struct stat *facts)
{
    return S_ISREG(facts->st_mode) && facts->st_uid == geteuid();
}

static bool look(const char *path, struct stat *facts)
{
    return lstat(path, facts) == 0 && is_own(facts);
}

bool vw__file_access_is_own(const char *path)
{
    struct stat facts;
    return look(path, &facts);
}

bool vw__file_access_may_lead(const struct stat *name, const struct stat *facts)
{
    bool is_same = name->st_dev == facts->st_dev && name->st_ino == facts->st_ino;
    return is_same || (S_ISLNK(name->st_mode) && (name->st_uid == geteuid() || name->st_uid == 0 ||
                                                  name->st_uid == facts->st_uid));
}

static bool is_without_list(int error)
{
    return error == ENODATA || error == ENOTSUP;
}

/* Of one file, opened: others may exchange what is at a name between two looks. -1: it cannot be
 * opened, or is another by now. */
static int open_own(const char *path, struct stat *facts)
{
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int file = open(path, O_RDONLY | flags);
    if (file < 0)
        file = open(path, O_WRONLY | flags);
    if (file < 0 || (fstat(file, facts) == 0 && is_own(facts)))
        return file;
    close(file);
    return -1;
}

static bool give_group(int to, gid_t group)
{
    struct stat facts;
    return fstat(to, &facts) == 0 && (facts.st_gid == group || fchown(to, (uid_t)-1, group) == 0);
}

/* Copies the list, or takes away the one that the folder has given. */
static bool give_list(int to, const void *list, ssize_t list_bytes)
{
    if (list_bytes > 0)
        return fsetxattr(to, ACCESS_LIST, list, (size_t)list_bytes, 0) == 0;
    return fremovexattr(to, ACCESS_LIST) == 0 || is_without_list(errno);
}

/* Who was in the file's group is one of the others now, and gets what both had. */
static mode_t without_group(mode_t permissions)
{
    return permissions & (OWNER_PART | (permissions >> GROUP_SHIFT & OTHERS_PART));
}

/* Gives what fchmod() does not, and returns the permissions that are left to give. */
static mode_t give_group_and_list(int to, int from, const struct stat *facts)
{
    char list[MOST_LIST_BYTES];
    const mode_t permissions = facts->st_mode & PERMISSIONS;
    const ssize_t list_bytes = fgetxattr(from, ACCESS_LIST, list, sizeof list);
    const bool has_list = list_bytes >= 0 || !is_without_list(errno);
    const bool has_group = give_group(to, facts->st_gid);
    if (has_list && (list_bytes < 0 || !has_group))
        return permissions & OWNER_PART;
    if (!give_list(to, list, list_bytes))
        return permissions & OWNER_PART;
    return has_group ? permissions : without_group(permissions);
}

bool vw_keep_file_access(int file_descriptor, const char *path)
{
    struct stat facts;
    if (!look(path, &facts))
        return false;
    mode_t permissions = facts.st_mode & OWNER_PART;
    int from = open_own(path, &facts);
    if (from >= 0) {
        permissions = give_group_and_list(file_descriptor, from, &facts);
        close(from);
    }
    (void)fchmod(file_descriptor, permissions);
    return true;
}
