/* left_folders.h - private folders in a temporary one, and what becomes of those whose program was
 * killed before it could remove them.
 *
 * A program holds its folder while it lives, by a lock that ends with it. Whoever makes the next
 * folder of that kind removes the user's own that nobody holds, once they are a minute old: a
 * younger one may be one that is being made. Links are not followed. */
#ifndef VRAMWISE_CLI_LEFT_FOLDERS_H
#define VRAMWISE_CLI_LEFT_FOLDERS_H

/* Returns a descriptor for left_folders_end(); closed in children. -1: none, which means that the
 * folder may be removed in a minute. Where a file system has no locks, no folder is ever taken for
 * one that was left. */
int left_folders_hold(const char *path);

/* Removes the folder that is held, and the files in it. What has its name by now is no matter:
 * where others can write to the folder above, they can put a link there, or another folder. */
void left_folders_end(int held, const char *path);

/* Removes folders in `parent` whose names are `beginning` and six letters of mkdtemp(), and in
 * which there is nothing but files that match `files`, patterns of fnmatch() with a NULL at the
 * end. None where others could have given such a name to another folder of the user's. */
void left_folders_remove(const char *parent, const char *beginning, const char *const *files);

#endif /* VRAMWISE_CLI_LEFT_FOLDERS_H */
