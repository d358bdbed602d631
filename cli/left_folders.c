/* left_folders.c - see left_folders.h. */
#include "left_folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h> /* flock */
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LEAST_AGE_SECONDS = 60, MADE_LETTERS = 6 };

/* Mode and owner that mkdtemp() gives. */
static bool is_private(const struct stat *about)
{
    return about->st_uid == geteuid() && (about->st_mode & 0777) == 0700;
}

int left_folders_hold(const char *path)
{
    struct stat about;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return -1;
    if (fstat(folder, &about) != 0 || !is_private(&about)) {
        close(folder);
        return -1;
    }
    (void)flock(folder, LOCK_SH | LOCK_NB);
    return folder;
}

static void empty(DIR *listing)
{
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(listing), entry->d_name, 0);
}

void left_folders_end(int held, const char *path)
{
    DIR *listing = held >= 0 ? fdopendir(held) : NULL;
    if (listing != NULL) {
        empty(listing);
        closedir(listing);
    } else if (held >= 0) {
        close(held);
    }
    (void)rmdir(path);
}

static bool is_left_behind(int folder)
{
    struct stat about;
    return fstat(folder, &about) == 0 && is_private(&about) &&
           about.st_mtime + LEAST_AGE_SECONDS < time(NULL) && flock(folder, LOCK_EX | LOCK_NB) == 0;
}

static bool is_one_of(const char *name, const char *const *patterns)
{
    while (*patterns != NULL && fnmatch(*patterns, name, FNM_NOESCAPE) != 0)
        patterns++;
    return *patterns != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A folder that somebody else calls so has files that we would not make. */
static bool has_only(DIR *listing, const char *const *files)
{
    const struct dirent *entry;
    errno = 0;
    while ((entry = readdir(listing)) != NULL && is_one_of(entry->d_name, files))
        errno = 0;
    bool has_seen_all = entry == NULL && errno == 0;
    rewinddir(listing);
    return has_seen_all;
}

static void remove_if_left(int parent, const char *name, const char *const *files)
{
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return;
    DIR *listing = is_left_behind(folder) ? fdopendir(folder) : NULL;
    if (listing == NULL) {
        close(folder);
        return;
    }
    bool is_ours = has_only(listing, files);
    if (is_ours)
        empty(listing);
    closedir(listing);
    if (is_ours)
        (void)unlinkat(parent, name, AT_REMOVEDIR);
}

/* As mkdtemp() makes one. */
static bool is_made_name(const char *name, const char *beginning)
{
    static const char *const letters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const size_t length = strlen(beginning);
    return strncmp(name, beginning, length) == 0 && strlen(name + length) == MADE_LETTERS &&
           strspn(name + length, letters) == MADE_LETTERS;
}

/* Can nobody else give a folder of this user's another name? */
static bool keeps_names(int parent)
{
    struct stat about;
    return fstat(parent, &about) == 0 && (about.st_uid == geteuid() || about.st_uid == 0) &&
           ((about.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (about.st_mode & S_ISVTX) != 0);
}

void left_folders_remove(const char *parent, const char *beginning, const char *const *files)
{
    DIR *listing = opendir(parent);
    if (listing == NULL)
        return;
    if (!keeps_names(dirfd(listing))) {
        closedir(listing);
        return;
    }
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing))
        if (is_made_name(entry->d_name, beginning))
            remove_if_left(dirfd(listing), entry->d_name, files);
    closedir(listing);
}
