/* user_ranges.h - the numbers of users that one user may take on.
 *
 * /etc/subuid gives each user a range of numbers for containers of their own. Whoever has one can
 * own files as tens of thousands of users: where a user has a share, a range has one share. Ranges
 * that come from a directory service are unknown here. */
#ifndef VW_WATCH_USER_RANGES_H
#define VW_WATCH_USER_RANGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { VW__USER_RANGES_MOST = 4096 }; /* later ones are left out */

typedef struct vw__user_ranges_item {
    uint32_t first, count;
} vw__user_ranges_item;

typedef struct vw__user_ranges {
    vw__user_ranges_item items[VW__USER_RANGES_MOST];
    size_t count;
} vw__user_ranges;

/* Reads "name:first:count" lines; `path` is "/etc/subuid". Other lines are passed over. */
void vw__user_ranges_read(const char *path, vw__user_ranges *out);

/* The first number of the range that `user` is in, or `user` itself. */
uid_t vw__user_ranges_first(const vw__user_ranges *ranges, uid_t user);

#endif /* VW_WATCH_USER_RANGES_H */
