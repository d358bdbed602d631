/* view_reports.c - see view_reports.h. */
#include "view/view_reports.h"

#include <stdint.h>

#include "base/byte_buffer.h"
#include "base/error.h"

static bool gather(void *context, const char *bytes, size_t size_bytes)
{
    vw__append_bytes(context, bytes, size_bytes);
    return true;
}

/* A report that was gathered, without the end of its line. */
static vw_status put(vw_status status, vw__byte_buffer *gathered, const char *key, vw__json *json)
{
    size_t size_bytes = vw__byte_buffer_size(gathered);
    const char *bytes = vw__byte_buffer_text(gathered);
    if (status == VW_OK && vw__byte_buffer_has_failed(gathered))
        status = vw__fail_host_memory(gathered->capacity_bytes, "a report");
    while (size_bytes > 0 && bytes[size_bytes - 1] == '\n')
        size_bytes--;
    if (status == VW_OK)
        vw__json_ready(json, key, bytes, size_bytes);
    vw__byte_buffer_deinit(gathered);
    return status;
}

static vw_report_form form_of(const char *file, const char *other_file)
{
    return (vw_report_form){.struct_size = sizeof(vw_report_form),
                            .is_json = true,
                            .most_rows = SIZE_MAX,
                            .file = file,
                            .other_file = other_file};
}

/* A failure that only means that there is nothing to show: null, and why. */
static vw_status put_reason(vw_status status, const char *key, const char *reason_key,
                            vw__json *json)
{
    if (status == VW_ERR_HOST_MEMORY)
        return status;
    vw__json_null(json, key);
    vw__json_text(json, reason_key, vw_last_error());
    return VW_OK;
}

vw_status vw__view_report_stats(const vw_recording_stats *stats, const char *file, vw__json *json)
{
    vw__byte_buffer gathered;
    const vw_report_form form = form_of(file, NULL);
    const vw_output output = {&gathered, gather};
    vw__byte_buffer_init(&gathered);
    return put(vw_report_stats(stats, &form, &output), &gathered, "stats", json);
}

vw_status vw__view_report_doctor(const vw_recording *recording, const char *file,
                                 const char *torch_version, vw__json *json, vw_diagnosis **out)
{
    vw__byte_buffer gathered;
    const vw_report_form form = form_of(file, NULL);
    const vw_output output = {&gathered, gather};
    const vw_doctor_options options = {.struct_size = sizeof options,
                                       .torch_version = torch_version};
    *out = NULL;
    vw_status status = vw_doctor_recording(recording, &options, out);
    if (status != VW_OK)
        return put_reason(status, "doctor", "doctor_reason", json);
    vw__byte_buffer_init(&gathered);
    status = put(vw_report_doctor(*out, &form, &output), &gathered, "doctor", json);
    vw__json_null(json, "doctor_reason");
    return status;
}

vw_status vw__view_report_diff(const vw_recording *before, const vw_recording *after,
                               const char *file, const char *other_file, vw__json *json)
{
    vw__byte_buffer gathered;
    const vw_report_form form = form_of(file, other_file);
    const vw_output output = {&gathered, gather};
    vw_diff_report *report = NULL;
    if (after == NULL) {
        vw__json_null(json, "diff");
        vw__json_null(json, "diff_reason");
        return VW_OK;
    }
    vw_status status = vw_recordings_diff(before, after, &report);
    if (status != VW_OK)
        return put_reason(status, "diff", "diff_reason", json);
    vw__byte_buffer_init(&gathered);
    status = put(vw_report_diff(report, &form, &output), &gathered, "diff", json);
    vw__json_null(json, "diff_reason");
    vw_diff_report_free(report);
    return status;
}

vw_status vw__view_report_ranks(const vw_ranks_report *report, const char *folder, vw__json *json)
{
    vw__byte_buffer gathered;
    const vw_report_form form = form_of(folder, NULL);
    const vw_output output = {&gathered, gather};
    vw__byte_buffer_init(&gathered);
    return put(vw_report_ranks(report, &form, &output), &gathered, "ranks", json);
}
