/* left_folders.c - see left_folders.h. */
#include "left_folders.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h> /* flock */
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LEAST_AGE_SECONDS = 60 };

int left_folders_hold(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0)
        (void)flock(folder, LOCK_SH | LOCK_NB);
    return folder;
}

void left_folders_empty(DIR *listing)
{
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(listing), entry->d_name, 0);
}

static bool is_left_behind(int folder)
{
    struct stat about;
    return fstat(folder, &about) == 0 && about.st_uid == geteuid() &&
           (about.st_mode & 0777) == 0700 && about.st_mtime + LEAST_AGE_SECONDS < time(NULL) &&
           flock(folder, LOCK_EX | LOCK_NB) == 0;
}

static void remove_if_left(int parent, const char *name)
{
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return;
    DIR *listing = is_left_behind(folder) ? fdopendir(folder) : NULL;
    if (listing == NULL) {
        close(folder);
        return;
    }
    left_folders_empty(listing);
    closedir(listing);
    (void)unlinkat(parent, name, AT_REMOVEDIR);
}

void left_folders_remove(const char *parent, const char *beginning)
{
    DIR *listing = opendir(parent);
    if (listing == NULL)
        return;
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing))
        if (strncmp(entry->d_name, beginning, strlen(beginning)) == 0)
            remove_if_left(dirfd(listing), entry->d_name);
    closedir(listing);
}
