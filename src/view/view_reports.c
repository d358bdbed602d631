/* view_reports.c - see view_reports.h. */
#include "view/view_reports.h"

#include <stdint.h>

#include "base/byte_buffer.h"
#include "base/error.h"

static bool gather(void *context, const char *bytes, size_t size_bytes)
{
    hr__append_bytes(context, bytes, size_bytes);
    return true;
}

/* A report that was gathered, without the end of its line. */
static hr_status put(hr_status status, hr__byte_buffer *gathered, const char *key, hr__json *json)
{
    size_t size_bytes = hr__byte_buffer_size(gathered);
    const char *bytes = hr__byte_buffer_text(gathered);
    if (status == HR_OK && hr__byte_buffer_has_failed(gathered))
        status = hr__fail_host_memory(gathered->capacity_bytes, "a report");
    while (size_bytes > 0 && bytes[size_bytes - 1] == '\n')
        size_bytes--;
    if (status == HR_OK)
        hr__json_ready(json, key, bytes, size_bytes);
    hr__byte_buffer_deinit(gathered);
    return status;
}

static hr_report_form form_of(const char *file, const char *other_file)
{
    return (hr_report_form){.struct_size = sizeof(hr_report_form),
                            .is_json = true,
                            .most_rows = SIZE_MAX,
                            .file = file,
                            .other_file = other_file};
}

/* A failure that only means that there is nothing to show: null, and why. */
static hr_status put_reason(hr_status status, const char *key, const char *reason_key,
                            hr__json *json)
{
    if (status == HR_ERR_HOST_MEMORY)
        return status;
    hr__json_null(json, key);
    hr__json_text(json, reason_key, hr_last_error());
    return HR_OK;
}

hr_status hr__view_report_stats(const hr_recording_stats *stats, const char *file, hr__json *json)
{
    hr__byte_buffer gathered;
    const hr_report_form form = form_of(file, NULL);
    const hr_output output = {&gathered, gather};
    hr__byte_buffer_init(&gathered);
    return put(hr_report_stats(stats, &form, &output), &gathered, "stats", json);
}

hr_status hr__view_report_doctor(const hr_recording *recording, const char *file,
                                 const char *torch_version, hr__json *json,
                                 hr_memory_numbers *numbers)
{
    hr__byte_buffer gathered;
    const hr_report_form form = form_of(file, NULL);
    const hr_output output = {&gathered, gather};
    const hr_doctor_options options = {.struct_size = sizeof options,
                                       .torch_version = torch_version};
    hr_diagnosis *diagnosis = NULL;
    *numbers = (hr_memory_numbers){HR_UNKNOWN, HR_UNKNOWN, HR_UNKNOWN, HR_UNKNOWN,
                                   HR_UNKNOWN, HR_UNKNOWN, HR_UNKNOWN, -1};
    hr_status status = hr_doctor_recording(recording, &options, &diagnosis);
    if (status != HR_OK)
        return put_reason(status, "doctor", "doctor_reason", json);
    *numbers = diagnosis->numbers;
    hr__byte_buffer_init(&gathered);
    status = put(hr_report_doctor(diagnosis, &form, &output), &gathered, "doctor", json);
    hr__json_null(json, "doctor_reason");
    hr_diagnosis_free(diagnosis);
    return status;
}

hr_status hr__view_report_diff(const hr_recording *before, const hr_recording *after,
                               const char *file, const char *other_file, hr__json *json)
{
    hr__byte_buffer gathered;
    const hr_report_form form = form_of(file, other_file);
    const hr_output output = {&gathered, gather};
    hr_diff_report *report = NULL;
    if (after == NULL) {
        hr__json_null(json, "diff");
        hr__json_null(json, "diff_reason");
        return HR_OK;
    }
    hr_status status = hr_recordings_diff(before, after, &report);
    if (status != HR_OK)
        return put_reason(status, "diff", "diff_reason", json);
    hr__byte_buffer_init(&gathered);
    status = put(hr_report_diff(report, &form, &output), &gathered, "diff", json);
    hr__json_null(json, "diff_reason");
    hr_diff_report_free(report);
    return status;
}

hr_status hr__view_report_ranks(const hr_ranks_report *report, const char *folder, hr__json *json)
{
    hr__byte_buffer gathered;
    const hr_report_form form = form_of(folder, NULL);
    const hr_output output = {&gathered, gather};
    hr__byte_buffer_init(&gathered);
    return put(hr_report_ranks(report, &form, &output), &gathered, "ranks", json);
}
