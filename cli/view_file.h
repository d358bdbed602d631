/* view_file.h - where a page goes, and putting it there.
 *
 * A page without a name of the user's own goes beside the recording. Nothing that is not a page of
 * ours is overwritten there; what -o names is the user's word. Either is written under another name
 * first, so that a page is whole or not there. */
#ifndef VRAMWISE_CLI_VIEW_FILE_H
#define VRAMWISE_CLI_VIEW_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "vramwise/view.h"

/* In the first bytes of every page. */
#define VIEW_PAGE_MARKER "<meta name=\"generator\" content=\"vramwise"

/* The name of the page for `path`, or for `path` and `other_path` (NULL: one recording), either of
 * which may be "-", standard input. false: too long a name. */
bool view_file_name(const char *path, const char *other_path, char name[PATH_MAX]);

/* What a page's place is. */
typedef enum view_place {
    VIEW_PLACE_FREE,      /* nothing is there */
    VIEW_PLACE_PAGE,      /* a page of ours */
    VIEW_PLACE_FILE,      /* another file */
    VIEW_PLACE_STREAM,    /* a pipe or a device: written as it is */
    VIEW_PLACE_RECORDING, /* one of the recordings */
    VIEW_PLACE_FOLDER,
    VIEW_PLACE_UNKNOWN, /* errno says why */
} view_place;

/* Whether both are one file, which writing to `name` would replace. `path` may be "-", and NULL,
 * which is no file. */
bool view_file_is(const char *name, const char *path);

/* `path` and `other_path` may be NULL. */
view_place view_file_look(const char *name, const char *path, const char *other_path);

/* What a page is made of, and how it is written. */
typedef struct view_file_content {
    const void *made;
    vw_status (*write)(const void *made, const vw_output *output);
} view_file_content;

/* Writes a page to `name`, which is one of the first four. If `name` is a symbolic
 * link, the page goes where it leads with `follows_link`, and replaces the link without. Links may
 * be followed only if the user has chosen the name: anybody who can write to the folder can have
 * put a link there. false: errno says why, and what was there before still is, unless it is a
 * stream. */
bool view_file_put(const view_file_content *content, const char *name, view_place place,
                   bool follows_link, uint64_t *size_bytes);

/* The same for the page of `view`. */
bool view_file_write(const vw_view *view, const char *name, view_place place, bool follows_link,
                     uint64_t *size_bytes);

#endif /* VRAMWISE_CLI_VIEW_FILE_H */
