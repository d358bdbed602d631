/* view.h - a recording, or two, or the ranks of a job, as a page that shows them.
 *
 * The page is one HTML file with its programs and its data inside: no network, no server. Its parts
 * are also to be had by themselves, for a server of one's own: the page without data, which then
 * fetches `data` beside itself, and the data (docs/design/008-the-viewer.md has its format).
 *
 * Link with -lheadroom-analysis. Reading order: hr_view_make(), hr_view_write_page(). */
#ifndef HEADROOM_VIEW_H
#define HEADROOM_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "headroom/analysis.h"
#include "headroom/ranks.h"
#include "headroom/report.h" /* hr_output */
#include "headroom/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_view hr_view; /* opaque */

typedef struct hr_view_options {
    size_t struct_size;        /* sizeof(hr_view_options) */
    const char *file;          /* what the recording is called in the page; NULL = not named */
    const char *other_file;    /* the second */
    const char *torch_version; /* whose rules replays follow; NULL as in hr_replay_options */
    bool without_what_if;      /* no replays: quicker, and the page has no lines of them */
    hr_progress progress;      /* or NULL */
    void *progress_context;
} hr_view_options;

/* Prepares everything the page shows. `other` may be NULL; with it the page compares the two, and
 * `recording` is the one before. Neither is needed afterwards. `options` may be NULL. What cannot
 * be shown of a recording (no trace, no replay) is said in the page, and is no failure.
 *
 * HR_ERR_WRONG_STATE   stopped by the caller's progress function
 * HR_ERR_CORRUPT_FILE  sizes that add up to more than an address space
 * HR_ERR_UNSUPPORTED   2^32 - 2 events or more, or names that take gigabytes
 * HR_ERR_INVALID_ARGUMENT  an unknown version of PyTorch
 * HR_ERR_HOST_MEMORY */
HR_API HR_MUST_CHECK hr_status hr_view_make(const hr_recording *recording,
                                            const hr_recording *other,
                                            const hr_view_options *options, hr_view **out);

/* The same for the ranks of a job. `folder` is what it is called in the page; NULL = not named. */
HR_API HR_MUST_CHECK hr_status hr_view_make_ranks(const hr_ranks_report *report, const char *folder,
                                                  hr_view **out);
HR_API void hr_view_free(hr_view *view); /* NULL does nothing */

/* The whole page, data included; `view` NULL: the page without data. HR_ERR_FILE if `output` ended
 * it. */
HR_API HR_MUST_CHECK hr_status hr_view_write_page(const hr_view *view, const hr_output *output);

/* The data alone: bytes that are the view's, and stay until it is freed. */
HR_API const void *hr_view_data(const hr_view *view, size_t *size_bytes);

#ifdef __cplusplus
}
#endif
#endif /* HEADROOM_VIEW_H */
