/* view.c - the doors of view.h. */
#include "vramwise/view.h"

#include "analysis/recording.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "view/view_columns.h"
#include "view/view_page.h"
#include "view/view_reports.h"
#include "view/view_run.h"

struct vw_view {
    char *bytes; /* owned; the container */
    size_t size_bytes;
};

typedef struct view_work {
    const vw_recording *recordings[2]; /* the second may be NULL */
    const vw_view_options *options;
    vw__view_progress progress;
    vw__view_columns columns;
    vw__byte_buffer body; /* of the header */
} view_work;

static vw_status write_runs(view_work *work, vw__json *json)
{
    const vw_view_options *options = work->options;
    size_t count = work->recordings[1] != NULL ? 2 : 1;
    vw__json_begin_array(json, "runs");
    for (size_t i = 0; i < count; i++) {
        const vw__view_run_order order = {.recording = work->recordings[i],
                                          .number = i,
                                          .file = i == 0 ? options->file : options->other_file,
                                          .torch_version = options->torch_version,
                                          .without_what_if = options->without_what_if,
                                          .share = 1.0 / (double)count,
                                          .progress = &work->progress,
                                          .columns = &work->columns,
                                          .json = json};
        VW__TRY(vw__view_run_write(&order));
    }
    vw__json_end_array(json);
    return VW_OK;
}

static vw_status make_view(view_work *work, vw_view *view)
{
    vw__json json;
    vw__json_init(&json, &work->body);
    VW__TRY(write_runs(work, &json));
    VW__TRY(vw__view_report_diff(work->recordings[0], work->recordings[1], work->options->file,
                                 work->options->other_file, &json));
    VW__TRY(vw__view_columns_finish(&work->columns, &work->body, &view->bytes, &view->size_bytes));
    work->progress.base = 1;
    work->progress.share = 0;
    return vw__view_progress_next(&work->progress, 0);
}

static vw_status check_options(const vw_recording *recording, const vw_recording *other,
                               const vw_view_options *options)
{
    const char *version;
    VW__TRY(vw__recording_version(recording->model, options->torch_version, &version));
    return other != NULL ? vw__recording_version(other->model, options->torch_version, &version)
                         : VW_OK;
}

vw_status vw_view_make(const vw_recording *recording, const vw_recording *other,
                       const vw_view_options *options, vw_view **out)
{
    vw_view_options used = {.struct_size = sizeof used};
    if (recording == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a recording and a place for its view");
    VW__TRY(VW__STRUCT_IN(vw_view_options, options, &used));
    VW__TRY(check_options(recording, other, &used));

    view_work work = {
        .recordings = {recording, other},
        .options = &used,
        .progress = {.progress = used.progress, .context = used.progress_context},
    };
    vw_view *view = vw__host_alloc_zeroed(1, sizeof *view);
    if (view == NULL)
        return vw__fail_host_memory(sizeof *view, "a view");
    vw__view_columns_init(&work.columns);
    vw__byte_buffer_init(&work.body);
    vw_status status = make_view(&work, view);
    vw__byte_buffer_deinit(&work.body);
    vw__view_columns_deinit(&work.columns);
    if (status != VW_OK) {
        vw_view_free(view);
        return status;
    }
    *out = view;
    return VW_OK;
}

/* A page of ranks has no columns: all it shows is in the header. */
static vw_status make_ranks_view(const vw_ranks_report *report, const char *folder,
                                 vw__view_columns *columns, vw__byte_buffer *body, vw_view *view)
{
    vw__json json;
    vw__json_init(&json, body);
    vw__json_begin_array(&json, "runs");
    vw__json_end_array(&json);
    vw__json_null(&json, "diff");
    vw__json_null(&json, "diff_reason");
    VW__TRY(vw__view_report_ranks(report, folder, &json));
    return vw__view_columns_finish(columns, body, &view->bytes, &view->size_bytes);
}

vw_status vw_view_make_ranks(const vw_ranks_report *report, const char *folder, vw_view **out)
{
    vw__view_columns columns;
    vw__byte_buffer body;
    if (report == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a report on ranks and a place for its view");
    vw_view *view = vw__host_alloc_zeroed(1, sizeof *view);
    if (view == NULL)
        return vw__fail_host_memory(sizeof *view, "a view");
    vw__view_columns_init(&columns);
    vw__byte_buffer_init(&body);
    vw_status status = make_ranks_view(report, folder, &columns, &body, view);
    vw__byte_buffer_deinit(&body);
    vw__view_columns_deinit(&columns);
    if (status != VW_OK) {
        vw_view_free(view);
        return status;
    }
    *out = view;
    return VW_OK;
}

void vw_view_free(vw_view *view)
{
    if (view == NULL)
        return;
    vw__host_free(view->bytes);
    vw__host_free(view);
}

const void *vw_view_data(const vw_view *view, size_t *size_bytes)
{
    *size_bytes = view->size_bytes;
    return view->bytes;
}

vw_status vw_view_write_page(const vw_view *view, const vw_output *output)
{
    if (output == NULL || output->write == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected an output for the page");
    return vw__view_page_write(view != NULL ? view->bytes : NULL,
                               view != NULL ? view->size_bytes : 0, output);
}
