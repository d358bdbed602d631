/* analysis_consumer.c - the smallest program that reads a recording with an installed headroom.
 *
 * Links both libraries: what one of them says went wrong must be readable through the other. */
#include <stdio.h>
#include <string.h>

#include <headroom/analysis.h>
#include <headroom/doctor.h>
#include <headroom/report.h>

static bool write_out(void *context, const char *bytes, size_t size_bytes)
{
    (void)context;
    return fwrite(bytes, 1, size_bytes, stdout) == size_bytes;
}

int main(void)
{
    static const char snapshot[] = "{\"segments\": [], \"device_traces\": [[]]}";
    static const char text[] = "no snapshot at all";
    const hr_report_form form = {.struct_size = sizeof form, .is_json = true};
    const hr_output output = {NULL, write_out};
    hr_recording *recording = NULL;
    hr_recording_stats *stats = NULL;
    int faults = 0;

    if (hr_recording_open_memory(text, strlen(text), NULL, &recording) != HR_ERR_CORRUPT_FILE ||
        hr_last_error()[0] == '\0')
        faults++;
    printf("%s\n", hr_last_error());
    if (hr_recording_open_memory(snapshot, strlen(snapshot), NULL, &recording) != HR_OK ||
        hr_recording_stats_make(recording, NULL, &stats) != HR_OK ||
        hr_report_stats(stats, &form, &output) != HR_OK) {
        printf("%s\n", hr_last_error());
        faults++;
    }
    hr_recording_stats_free(stats);
    hr_recording_close(recording);

    static const char error[] =
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; 9.10 GiB "
        "already allocated; 512.00 MiB free; 14.30 GiB reserved in total by PyTorch)";
    hr_diagnosis *diagnosis = NULL;
    if (hr_doctor_text(error, strlen(error), NULL, &diagnosis) != HR_OK ||
        diagnosis->verdict != HR_VERDICT_FRAGMENTATION)
        faults++;
    hr_diagnosis_free(diagnosis);
    return faults;
}
