/* analysis_consumer.c - the smallest program that reads a recording with an installed vramwise.
 *
 * Links both libraries: what one of them says went wrong must be readable through the other. */
#include <stdio.h>
#include <string.h>

#include <vramwise/analysis.h>
#include <vramwise/doctor.h>
#include <vramwise/report.h>

static bool write_out(void *context, const char *bytes, size_t size_bytes)
{
    (void)context;
    return fwrite(bytes, 1, size_bytes, stdout) == size_bytes;
}

int main(void)
{
    static const char snapshot[] = "{\"segments\": [], \"device_traces\": [[]]}";
    static const char text[] = "no snapshot at all";
    const vw_report_form form = {.struct_size = sizeof form, .is_json = true};
    const vw_output output = {NULL, write_out};
    vw_recording *recording = NULL;
    vw_recording_stats *stats = NULL;
    int faults = 0;

    if (vw_recording_open_memory(text, strlen(text), NULL, &recording) != VW_ERR_CORRUPT_FILE ||
        vw_last_error()[0] == '\0')
        faults++;
    printf("%s\n", vw_last_error());
    if (vw_recording_open_memory(snapshot, strlen(snapshot), NULL, &recording) != VW_OK ||
        vw_recording_stats_make(recording, NULL, &stats) != VW_OK ||
        vw_report_stats(stats, &form, &output) != VW_OK) {
        printf("%s\n", vw_last_error());
        faults++;
    }
    vw_recording_stats_free(stats);
    vw_recording_close(recording);

    static const char error[] =
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; 9.10 GiB "
        "already allocated; 512.00 MiB free; 14.30 GiB reserved in total by PyTorch)";
    vw_diagnosis *diagnosis = NULL;
    if (vw_doctor_text(error, strlen(error), NULL, &diagnosis) != VW_OK ||
        diagnosis->verdict != VW_VERDICT_FRAGMENTATION)
        faults++;
    vw_diagnosis_free(diagnosis);
    return faults;
}
