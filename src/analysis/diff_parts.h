/* diff_parts.h - how the places of two recordings are matched: shared by the files diff*.c.
 *
 * The two files share no numbers, and the program was edited in between. So places are matched by
 * what people call the same:
 *
 *   site    one line of the program, and one category, with the bytes of all its stacks. Which
 *           callers led to the line, and how torch went on from there, does not matter.
 *   name    file and function of a site, without folders and line (site_key.h).
 *
 * Names are matched first: equal names are one, and diff_names.c finds those that were renamed.
 * Then diff_sites.c pairs the sites of equal name and category, line by line. */
#ifndef VW_ANALYSIS_DIFF_PARTS_H
#define VW_ANALYSIS_DIFF_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "base/arena.h"
#include "base/byte_buffer.h"
#include "base/string_table.h"

/* The two recordings. */
enum { VW__DIFF_BEFORE, VW__DIFF_AFTER };

typedef struct vw__diff_stack {
    const vw_usage *usage;
    struct vw__diff_stack *next; /* smaller, or NULL */
} vw__diff_stack;

typedef struct vw__diff_site {
    vw__diff_stack *stacks, *last_stack; /* the largest first */
    const vw_frame *frame; /* of the largest, the one that names it; NULL without frames */
    const char *category;
    uint32_t name; /* of the first recording, after renaming: the name in the second */
    uint64_t bytes, block_count;
} vw__diff_site;

/* The stacks behind a change. */
typedef struct vw__diff_pair {
    const vw__diff_stack *stacks[2]; /* NULL: gone, or new */
} vw__diff_pair;

/* The sites of one recording at its peak. */
typedef struct vw__diff_sites {
    vw__diff_site *sites; /* by name, category, line */
    size_t count;
} vw__diff_sites;

typedef struct vw__diff_matching {
    vw__arena *arena;        /* the report's */
    vw__arena scratch;       /* owned; of everything else */
    vw__byte_buffer key;     /* owned */
    vw__string_table names;  /* of both recordings; the key of a name is its text */
    vw__diff_sites sides[2]; /* VW__DIFF_BEFORE, VW__DIFF_AFTER */
} vw__diff_matching;

/* Fills the renames of the report, and gives sites of the first recording the names of the second.
 * VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__diff_match_names(vw__diff_matching *matching, vw_diff_report *report);

/* Fills frames, where and stack_count of the changes: of the stack that changed most. Pairs and
 * changes have the same order. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__diff_show_stacks(vw__diff_matching *matching,
                                             const vw__diff_pair *pairs, vw_change *changes,
                                             size_t count);

/* Matches what was live at two moments: fills the renames of the report, and makes `*changes`, in
 * no order, in `arena`. Every byte of both moments is in a change, or in a pair of sites that hold
 * the same. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__diff_compare_sites(vw__arena *arena, const vw_moment *before,
                                               const vw_moment *after, vw_diff_report *report,
                                               vw_change **changes, size_t *change_count);

/* The number of what is in matching->key. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__diff_add_key(vw__diff_matching *matching, vw__string_table *table,
                                         uint32_t *id);

/* The order of vw__diff_sites. */
void vw__diff_sort_sites(vw__diff_sites *side);

/* Returns whether two sizes are so near that one may have become the other: within a factor of
 * two, as when a batch is doubled. */
static inline bool vw__diff_is_alike(uint64_t one_bytes, uint64_t other_bytes)
{
    uint64_t smaller = one_bytes < other_bytes ? one_bytes : other_bytes;
    uint64_t larger = one_bytes < other_bytes ? other_bytes : one_bytes;
    return larger - smaller <= smaller;
}

#endif /* VW_ANALYSIS_DIFF_PARTS_H */
