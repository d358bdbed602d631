/* ordered_list.h - records by rising key, where any of them may come and go.
 *
 * A file may hold a few dozen segments at once or hundreds of thousands, and take and give them
 * back in any order. So the records lie in leaves of a few hundred, and a change moves what is
 * behind it in one leaf only. With few records there is one leaf, and this is a sorted array.
 *
 * A record is any struct whose first member is its key, a uint64_t. Records may be changed where
 * they lie, their keys too, as long as the order stays.
 *
 * A place is between two records, or at an end. It is good until the next change by anyone else;
 * and so are pointers at records. No locks: one thread at a time. */
#ifndef VW_ANALYSIS_ORDERED_LIST_H
#define VW_ANALYSIS_ORDERED_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"

typedef struct vw__ordered_list_leaf {
    unsigned char *records; /* owned; room for VW__ORDERED_LIST_LEAF */
    size_t count;           /* not 0 */
} vw__ordered_list_leaf;

typedef struct vw__ordered_list {
    vw__ordered_list_leaf *leaves; /* owned; by key */
    size_t leaf_count, leaf_capacity;
    size_t count; /* records */
    size_t record_bytes;
    const char *what; /* they are, for the text of an error */
} vw__ordered_list;

typedef struct vw__ordered_list_place {
    size_t leaf, index; /* index is 0 only in front of the first record of all */
} vw__ordered_list_place;

enum { VW__ORDERED_LIST_LEAF = 256 };

/* Takes no memory yet. */
void vw__ordered_list_init(vw__ordered_list *list, size_t record_bytes, const char *what);
void vw__ordered_list_deinit(vw__ordered_list *list); /* leaves it as it was after init */

/* In front of all records; and behind those whose key is at most `key`. */
static inline vw__ordered_list_place vw__ordered_list_begin(void)
{
    return (vw__ordered_list_place){0, 0};
}
vw__ordered_list_place vw__ordered_list_up_to(const vw__ordered_list *list, uint64_t key);

/* The records on both sides of a place; NULL where there is none. */
void *vw__ordered_list_before(const vw__ordered_list *list, vw__ordered_list_place place);
void *vw__ordered_list_behind(const vw__ordered_list *list, vw__ordered_list_place place);

/* One record further, and back. There must be one. */
vw__ordered_list_place vw__ordered_list_next(const vw__ordered_list *list,
                                             vw__ordered_list_place place);
vw__ordered_list_place vw__ordered_list_previous(const vw__ordered_list *list,
                                                 vw__ordered_list_place place);

/* Puts a copy of `record` at a place, which is then behind it. VW_ERR_HOST_MEMORY: nothing changed.
 */
VW_MUST_CHECK vw_status vw__ordered_list_insert(vw__ordered_list *list,
                                                vw__ordered_list_place *place, const void *record);

/* Removes the record before a place, or the one behind it, which there must be. The place stays
 * between the others. */
void vw__ordered_list_remove_before(vw__ordered_list *list, vw__ordered_list_place *place);
void vw__ordered_list_remove_behind(vw__ordered_list *list, vw__ordered_list_place *place);

#endif /* VW_ANALYSIS_ORDERED_LIST_H */
