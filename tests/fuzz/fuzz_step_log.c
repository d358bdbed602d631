/* fuzz_step_log.c - any bytes as a step log, and the verdict from it.
 *
 * The scan must end within its memory, find the same in one piece and in pieces, give figures that
 * are finite, and the doctor must have a sentence for whatever was found. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"
#include "base/host_memory.h"
#include "parse/step_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_HELD_BYTES = 20 << 20 };

static void must(bool claim)
{
    if (!claim)
        abort();
}

static vw__step_log_scan *scan_in_pieces(const uint8_t *data, size_t size, size_t piece_bytes,
                                         vw__step_log *out)
{
    vw__step_log_scan *scan;
    must(vw__step_log_scan_create(&scan) == VW_OK);
    for (size_t at = 0; at < size; at += piece_bytes) {
        size_t rest = size - at;
        must(vw__step_log_scan_feed(scan, (const char *)data + at,
                                    rest < piece_bytes ? rest : piece_bytes) == VW_OK);
    }
    must(vw__step_log_scan_finish(scan, out) == VW_OK);
    return scan;
}

static void check_points(const vw__step_log *log)
{
    must(log->point_count <= VW__STEP_LOG_MOST);
    must(log->form != NULL && log->step_name != NULL);
    must(memchr(log->memory_name, '\0', sizeof log->memory_name) != NULL);
    for (size_t i = 0; i < log->point_count; i++)
        must(log->points[i].step >= 0 && log->points[i].step <= 1e18 &&
             log->points[i].allocated_bytes <= UINT64_C(1) << 60);
    for (size_t i = 0; i < log->other_count; i++) {
        must(log->others[i].point_count >= 3 && log->others[i].other_count == 0);
        check_points(&log->others[i]);
    }
}

static void diagnose(const vw__step_log *log)
{
    static vw__diagnosis_draft draft;
    vw_doctor_options options = {.struct_size = sizeof options,
                                 .card_bytes = log->line_count % 2 << 34};
    vw_diagnosis *made;
    vw__diagnosis_init(&draft, VW_SOURCE_STEPS);
    must(vw__doctor_steps(log, &options, &draft, NULL) == VW_OK);
    must(vw__diagnosis_finish(&draft, &made) == VW_OK);
    must(made->sentence[0] != '\0');
    must(made->verdict == VW_VERDICT_LEAK || made->verdict == VW_VERDICT_HEALTHY ||
         made->verdict == VW_VERDICT_UNKNOWN);
    vw_diagnosis_free(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    vw__step_log whole, pieces;
    vw__step_log_scan *one = scan_in_pieces(data, size, size != 0 ? size : 1, &whole);
    must(vw__host_memory_get_use().in_use_bytes - before_bytes < MOST_HELD_BYTES);
    vw__step_log_scan *other = scan_in_pieces(data, size, size % 97 + 1, &pieces);
    check_points(&whole);
    must(whole.point_count == pieces.point_count && whole.line_count == pieces.line_count &&
         whole.other_count == pieces.other_count);
    must(whole.point_count == 0 ||
         memcmp(whole.points, pieces.points, whole.point_count * sizeof *whole.points) == 0);
    diagnose(&whole);
    vw__step_log_scan_destroy(one);
    vw__step_log_scan_destroy(other);
    must(vw__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
