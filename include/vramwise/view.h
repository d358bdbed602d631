/* view.h - one recording, two of them, or the ranks of a job as an HTML page.
 *
 * The page is one file with its scripts and its data inside: no network, no server. For your own
 * server the parts are also available alone: the page without data, which then fetches `data` next
 * to itself, and the data (docs/design/008-the-viewer.md has its format).
 *
 * Link with -lvramwise-analysis. Reading order: vw_view_make(), vw_view_write_page(). */
#ifndef VRAMWISE_VIEW_H
#define VRAMWISE_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/analysis.h"
#include "vramwise/ranks.h"
#include "vramwise/report.h" /* vw_output */
#include "vramwise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vw_view vw_view; /* opaque */

typedef struct vw_view_options {
    size_t struct_size;        /* sizeof(vw_view_options) */
    const char *file;          /* name of the recording in the page; NULL = none */
    const char *other_file;    /* the second */
    const char *torch_version; /* whose rules replays follow; NULL as in vw_replay_options */
    bool without_what_if;      /* no replays: quicker, and the page does not show them */
    vw_progress progress;      /* or NULL */
    void *progress_context;
} vw_view_options;

/* Prepares everything the page shows. `other` may be NULL; with it the page compares the two, and
 * `recording` is the earlier one. Neither is needed afterwards. `options` may be NULL. If something
 * cannot be shown (no trace, no replay), the page says so; that is not a failure.
 *
 * VW_ERR_WRONG_STATE       stopped by the caller's progress function
 * VW_ERR_CORRUPT_FILE      the sizes add up to more than an address space
 * VW_ERR_UNSUPPORTED       2^32 - 2 events or more, or names that take gigabytes
 * VW_ERR_INVALID_ARGUMENT  an unknown version of PyTorch
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_view_make(const vw_recording *recording,
                                            const vw_recording *other,
                                            const vw_view_options *options, vw_view **out);

/* The same for the ranks of a job. `folder` is its name in the page; NULL = none. */
VW_API VW_MUST_CHECK vw_status vw_view_make_ranks(const vw_ranks_report *report, const char *folder,
                                                  vw_view **out);
VW_API void vw_view_free(vw_view *view); /* NULL does nothing */

/* Writes the whole page, data included; `view` NULL: the page without data. VW_ERR_FILE if `output`
 * stopped it. */
VW_API VW_MUST_CHECK vw_status vw_view_write_page(const vw_view *view, const vw_output *output);

/* The data alone: valid until the view is freed. */
VW_API const void *vw_view_data(const vw_view *view, size_t *size_bytes);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_VIEW_H */
