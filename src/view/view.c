/* view.c - the doors of view.h. */
#include "headroom/view.h"

#include "analysis/recording.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "view/view_columns.h"
#include "view/view_page.h"
#include "view/view_reports.h"
#include "view/view_run.h"

struct hr_view {
    char *bytes; /* owned; the container */
    size_t size_bytes;
};

typedef struct view_work {
    const hr_recording *recordings[2]; /* the second may be NULL */
    const hr_view_options *options;
    hr__view_progress progress;
    hr__view_columns columns;
    hr__byte_buffer body; /* of the header */
} view_work;

static hr_status write_runs(view_work *work, hr__json *json)
{
    const hr_view_options *options = work->options;
    size_t count = work->recordings[1] != NULL ? 2 : 1;
    hr__json_begin_array(json, "runs");
    for (size_t i = 0; i < count; i++) {
        const hr__view_run_order order = {.recording = work->recordings[i],
                                          .number = i,
                                          .file = i == 0 ? options->file : options->other_file,
                                          .torch_version = options->torch_version,
                                          .without_what_if = options->without_what_if,
                                          .share = 1.0 / (double)count,
                                          .progress = &work->progress,
                                          .columns = &work->columns,
                                          .json = json};
        HR__TRY(hr__view_run_write(&order));
    }
    hr__json_end_array(json);
    return HR_OK;
}

static hr_status make_view(view_work *work, hr_view *view)
{
    hr__json json;
    hr__json_init(&json, &work->body);
    HR__TRY(write_runs(work, &json));
    HR__TRY(hr__view_report_diff(work->recordings[0], work->recordings[1], work->options->file,
                                 work->options->other_file, &json));
    HR__TRY(hr__view_columns_finish(&work->columns, &work->body, &view->bytes, &view->size_bytes));
    work->progress.base = 1;
    work->progress.share = 0;
    return hr__view_progress_next(&work->progress, 0);
}

static hr_status check_options(const hr_recording *recording, const hr_recording *other,
                               const hr_view_options *options)
{
    const char *version;
    if (options->struct_size < sizeof *options)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected options with a struct_size of %zu or more, found %zu",
                        sizeof *options, options->struct_size);
    HR__TRY(hr__recording_version(recording->model, options->torch_version, &version));
    return other != NULL ? hr__recording_version(other->model, options->torch_version, &version)
                         : HR_OK;
}

hr_status hr_view_make(const hr_recording *recording, const hr_recording *other,
                       const hr_view_options *options, hr_view **out)
{
    static const hr_view_options defaults = {.struct_size = sizeof defaults};
    if (recording == NULL || out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected a recording and a place for its view");
    if (options == NULL)
        options = &defaults;
    HR__TRY(check_options(recording, other, options));

    view_work work = {
        .recordings = {recording, other},
        .options = options,
        .progress = {.progress = options->progress, .context = options->progress_context},
    };
    hr_view *view = hr__host_alloc_zeroed(1, sizeof *view);
    if (view == NULL)
        return hr__fail_host_memory(sizeof *view, "a view");
    hr__view_columns_init(&work.columns);
    hr__byte_buffer_init(&work.body);
    hr_status status = make_view(&work, view);
    hr__byte_buffer_deinit(&work.body);
    hr__view_columns_deinit(&work.columns);
    if (status != HR_OK) {
        hr_view_free(view);
        return status;
    }
    *out = view;
    return HR_OK;
}

/* A page of ranks has no columns: all it shows is in the header. */
static hr_status make_ranks_view(const hr_ranks_report *report, const char *folder,
                                 hr__view_columns *columns, hr__byte_buffer *body, hr_view *view)
{
    hr__json json;
    hr__json_init(&json, body);
    hr__json_begin_array(&json, "runs");
    hr__json_end_array(&json);
    hr__json_null(&json, "diff");
    hr__json_null(&json, "diff_reason");
    HR__TRY(hr__view_report_ranks(report, folder, &json));
    return hr__view_columns_finish(columns, body, &view->bytes, &view->size_bytes);
}

hr_status hr_view_make_ranks(const hr_ranks_report *report, const char *folder, hr_view **out)
{
    hr__view_columns columns;
    hr__byte_buffer body;
    if (report == NULL || out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected a report on ranks and a place for its view");
    hr_view *view = hr__host_alloc_zeroed(1, sizeof *view);
    if (view == NULL)
        return hr__fail_host_memory(sizeof *view, "a view");
    hr__view_columns_init(&columns);
    hr__byte_buffer_init(&body);
    hr_status status = make_ranks_view(report, folder, &columns, &body, view);
    hr__byte_buffer_deinit(&body);
    hr__view_columns_deinit(&columns);
    if (status != HR_OK) {
        hr_view_free(view);
        return status;
    }
    *out = view;
    return HR_OK;
}

void hr_view_free(hr_view *view)
{
    if (view == NULL)
        return;
    hr__host_free(view->bytes);
    hr__host_free(view);
}

const void *hr_view_data(const hr_view *view, size_t *size_bytes)
{
    *size_bytes = view->size_bytes;
    return view->bytes;
}

hr_status hr_view_write_page(const hr_view *view, const hr_output *output)
{
    if (output == NULL || output->write == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected an output for the page");
    return hr__view_page_write(view != NULL ? view->bytes : NULL,
                               view != NULL ? view->size_bytes : 0, output);
}
