/* fuzz_rank_record.c - any bytes as the records of a job.
 *
 * The first byte says where the rest is cut into two records. They make a report or are refused;
 * all memory comes back, and texts of the report end. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "ranks/rank_units.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

static void check_rank(const vw_rank *rank)
{
    must(strlen(rank->sentence) < SIZE_MAX && rank->verdict <= VW_VERDICT_UNKNOWN);
    for (size_t i = 0; i < rank->failed_frame_count; i++)
        must(strlen(rank->failed_frames[i].file) < SIZE_MAX);
}

static void check_report(const vw_ranks_report *report)
{
    for (size_t i = 0; i < report->rank_count; i++)
        check_rank(&report->ranks[i]);
    for (size_t i = 0; i < report->unassigned_count; i++)
        check_rank(&report->unassigned[i]);
    for (size_t i = 1; i < report->file_count; i++)
        must(strcmp(report->files[i - 1].path, report->files[i].path) <= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vw_ranks_report *report = NULL;
    uint64_t left_bytes = UINT64_MAX;
    if (size == 0)
        return 0;
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    size_t left = size - 1, first = data[0] < 255 ? left * data[0] / 255 : left;
    const vw__ranks_record records[] = {{data + 1, first}, {data + 1 + first, left - first}};
    size_t count = data[0] < 255 ? 2 : 1;
    if (vw__ranks_units_join(records, count, &left_bytes, &report) == VW_OK) {
        check_report(report);
        vw_ranks_report_free(report);
    }
    must(vw__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
