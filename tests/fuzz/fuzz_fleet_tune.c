/* fuzz_fleet_tune.c - any bytes as the records of a tuning, each of which is a job.
 *
 * The first two bytes are the size of the first of two records; what tells one grid of settings
 * from another is put in front of each. Settings are chosen for them, or they are refused; all
 * memory comes back, and the figures agree with each other. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_buffer.h"
#include "base/host_memory.h"
#include "fleet/fleet_tune_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_JOBS = 2 };

static void must(bool claim)
{
    if (!claim)
        abort();
}

static bool read_record(const uint8_t *data, size_t size, size_t row_count, vw__byte_buffer *bytes,
                        vw__fleet_tune_record *record)
{
    vw__append_u64_le(bytes, vw__fleet_tune_rows_hash());
    vw__append_bytes(bytes, data, size);
    const vw__ranks_record whole = {vw__byte_buffer_text(bytes), vw__byte_buffer_size(bytes)};
    return !vw__byte_buffer_has_failed(bytes) &&
           vw__fleet_tune_record_read(&whole, row_count, record) == VW_OK;
}

static void check_setting(const vw_fleet_setting *setting)
{
    must(setting->fit_count <= setting->job_count && setting->gained_count <= setting->fit_count &&
         setting->retry_count <= setting->fit_count &&
         setting->fit_count + setting->lost_count <= setting->job_count);
}

static void check(const vw_fleet_tuning *tuning)
{
    size_t job_count = 0;
    for (size_t i = 0; i < tuning->setting_count; i++)
        check_setting(&tuning->settings[i]);
    for (size_t i = 0; i < tuning->kind_count; i++) {
        check_setting(&tuning->kinds[i].best);
        job_count += tuning->kinds[i].best.job_count;
    }
    must(job_count <= tuning->job_count && tuning->kinds_fit_count <= job_count);
    for (size_t i = 0; i < tuning->job_count; i++)
        must(tuning->jobs[i].kind == SIZE_MAX || tuning->jobs[i].kind < tuning->kind_count);
}

static void add_line(vw__fleet_tune_result *result, vw__fleet_tune_record *record)
{
    must(strlen(record->recorded_conf) < SIZE_MAX && strlen(record->reason) < SIZE_MAX);
    if (record->kind != VW__FLEET_TUNE_RECORDING)
        return;
    result->shown.card_bytes = record->card.card_bytes;
    result->lines[result->line_count++] = (vw__fleet_tune_line){
        .shown = {.name = "job", .is_possible = record->is_possible, .kind = SIZE_MAX},
        .kind_name = record->recorded_conf,
        .recorded = record->recorded,
        .cells = record->cells};
}

static void choose(vw__fleet_tune_result *result)
{
    vw__arena_init(&result->arena, VW__ARENA_NO_LIMIT);
    if (result->line_count > 0 && vw__fleet_tune_choose(result) == VW_OK)
        check(&result->shown);
    vw__arena_deinit(&result->arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static vw__fleet_tune_record records[MOST_JOBS];
    vw__fleet_tune_line lines[MOST_JOBS];
    vw__fleet_tune_result result = {.lines = lines};
    vw__byte_buffer bytes[MOST_JOBS];
    if (size < 2)
        return 0;
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    size_t left = size - 2, first = (size_t)data[0] | (size_t)data[1] << 8;
    first = first < left ? first : left;
    const uint8_t *begins[] = {data + 2, data + 2 + first};
    const size_t sizes[] = {first, left - first};
    result.row_count = vw__tune_grid_rows(result.rows);
    for (size_t i = 0; i < MOST_JOBS; i++) {
        vw__byte_buffer_init(&bytes[i]);
        if (read_record(begins[i], sizes[i], result.row_count, &bytes[i], &records[i]))
            add_line(&result, &records[i]);
    }
    choose(&result);
    for (size_t i = 0; i < MOST_JOBS; i++)
        vw__byte_buffer_deinit(&bytes[i]);
    must(vw__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
