/* rank_files.h - the files of a job's folder, and whose they are.
 *
 * Folders are walked in the order of names, so that every machine sees the same list. Only files
 * are taken: a pipe in the folder would keep the reader waiting for ever. A link to a file counts
 * as the file; a link to a folder is not followed, so there is no way round in circles. Names with
 * a dot in front are left out: they are files being written, and other programs' own. How deep, how
 * many names and how many files is bounded; that something was left out is told. */
#ifndef VW_RANKS_RANK_FILES_H
#define VW_RANKS_RANK_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/status.h"
#include "base/arena.h"
#include "ranks/rank_name.h"

enum {
    VW__RANK_FILES_DEEPEST = 8,         /* folders below the one that was given */
    VW__RANK_FILES_MOST_NAMES = 1 << 16 /* that are looked at, of whatever kind */
};

typedef struct vw__rank_path {
    const char *path; /* below the folder; the arena's */
    vw__rank_name name;
} vw__rank_path;

typedef struct vw__rank_files {
    vw__rank_path *paths; /* owned */
    size_t count, capacity;
    size_t name_count;   /* seen so far */
    size_t link_count;   /* to folders: not followed */
    size_t other_count;  /* pipes, sockets, devices; what could not be looked at */
    bool has_more_files; /* than were asked for */
    bool has_more_names; /* than are looked at; those that were seen are taken */
    bool has_deeper;     /* folders below the deepest */
} vw__rank_files;

/* How many are taken, and how many names are looked at. */
typedef struct vw__rank_limits {
    size_t files, names;
} vw__rank_limits;

/* VW_ERR_FILE: the folder itself cannot be read. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__rank_files_find(const char *folder, vw__rank_limits most,
                                            vw__arena *arena, vw__rank_files *out);
void vw__rank_files_deinit(vw__rank_files *files);

#endif /* VW_RANKS_RANK_FILES_H */
