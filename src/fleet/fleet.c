/* fleet.c - the doors of fleet.h for a report on many jobs. */
#include "vramwise/fleet.h"

#include <stdio.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "fleet/fleet_join.h"
#include "fleet/fleet_work.h"

static vw__fleet_result *make_result(void)
{
    vw__fleet_result *result = vw__host_alloc_zeroed(1, sizeof *result);
    if (result != NULL)
        vw__arena_init(&result->arena, VW__ARENA_NO_LIMIT);
    return result;
}

static vw_status refuse_all(const vw_fleet_report *report)
{
    for (size_t i = 0; i < report->job_count; i++) {
        const vw_ranks_report *ranks = report->jobs[i].ranks;
        for (size_t k = 0; k < ranks->file_count; k++)
            if (ranks->files[k].kind == VW_RANK_FILE_UNREADABLE)
                return vw__fail(
                    VW_ERR_FILE,
                    "expected the recordings and logs of jobs, found %zu files, none of "
                    "which can be read; %s: %s",
                    report->file_count, ranks->files[k].path, ranks->files[k].reason);
    }
    return vw__fail(VW_ERR_FILE,
                    "expected the recordings and logs of jobs, found %zu files, none of which is a "
                    "recording or named like a log",
                    report->file_count);
}

static vw_status join_all(vw__fleet_parts *parts, vw__fleet_result *result)
{
    VW__TRY(vw__fleet_join(parts, result));
    return result->shown.recording_count + result->shown.text_count == 0
               ? refuse_all(&result->shown)
               : VW_OK;
}

static vw_status examine_unit(const void *context, const vw__ranks_job_list *list, size_t unit,
                              const vw__fleet_means *means, vw__byte_buffer *record,
                              bool *may_change)
{
    return vw__ranks_unit_examine(list, unit, context, means->memory, record, may_change);
}

static vw_status examine(vw__fleet_work *work, const vw__fleet_task *task, const char *source,
                         vw__fleet_result *result)
{
    VW__TRY(vw__fleet_work_do(work, task, source));
    result->shown.unit_count = work->list.unit_count;
    result->shown.share_count = work->share_count;
    result->shown.examined_count = work->wanted_count;
    return work->options.shares > 1 ? VW_OK : join_all(&work->parts, result);
}

vw_status vw_fleet_examine(const char *source, const vw_fleet_options *options,
                           vw_fleet_report **out)
{
    vw_fleet_options used;
    vw__fleet_work work;
    if (source == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a folder and a place for the report");
    VW__TRY(vw__fleet_work_options(options, &used));
    vw__fleet_result *result = make_result();
    if (result == NULL)
        return vw__fail_host_memory(sizeof *result, "a report on jobs");
    const vw_ranks_options of_unit = {.struct_size = sizeof of_unit,
                                      .torch_version = used.torch_version};
    const vw__fleet_task task = {.form = &vw__fleet_part_of_report,
                                 .has_texts = true,
                                 .settings = vw__fleet_work_settings(&used),
                                 .examiner = {examine_unit, &of_unit}};
    vw__fleet_work_init(&work, &used, &task);
    vw_status status = examine(&work, &task, source, result);
    vw__fleet_work_deinit(&work);
    if (status != VW_OK) {
        vw_fleet_report_free(&result->shown);
        return status;
    }
    *out = &result->shown;
    return VW_OK;
}

vw_status vw_fleet_merge(const char *const *states, size_t state_count, vw_fleet_report **out)
{
    vw__fleet_parts parts;
    if (states == NULL || state_count == 0 || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected states and a place for the report");
    vw__fleet_result *result = make_result();
    if (result == NULL)
        return vw__fail_host_memory(sizeof *result, "a report on jobs");
    vw__fleet_parts_init(&parts, &vw__fleet_part_of_report);
    vw_status status = vw__fleet_work_merge(&parts, states, state_count);
    if (status == VW_OK)
        status = join_all(&parts, result);
    result->shown.unit_count = result->shown.share_count = (size_t)parts.list.unit_count;
    vw__fleet_parts_deinit(&parts);
    if (status != VW_OK) {
        vw_fleet_report_free(&result->shown);
        return status;
    }
    *out = &result->shown;
    return VW_OK;
}

void vw_fleet_report_free(vw_fleet_report *report)
{
    vw__fleet_result *result = (vw__fleet_result *)report;
    if (result == NULL)
        return;
    for (size_t i = 0; i < result->ranks_count; i++)
        vw_ranks_report_free(result->ranks[i]);
    vw__host_free(result->ranks);
    vw__arena_deinit(&result->arena);
    vw__host_free(result);
}

/* ---- days ------------------------------------------------------------------------------------ */

/* The date of a day since 1970, by the calendar of today: years begin in March, so that the odd day
 * is at their end, and eras of 400 years are alike. */
const char *vw_fleet_day_text(int64_t day, char text[VW_FLEET_DAY_BYTES])
{
    enum { ERA_DAYS = 146097, ERA_YEARS = 400, MARCH_0_TO_1970 = 719468 };
    text[0] = '\0';
    if (day < -MARCH_0_TO_1970 || day > INT64_C(1000000)) /* year 0 to year 4707 */
        return text;
    int64_t days = day + MARCH_0_TO_1970, era = days / ERA_DAYS, of_era = days % ERA_DAYS;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153, of_month = of_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    year += era * ERA_YEARS + (month <= 2);
    (void)snprintf(text, VW_FLEET_DAY_BYTES, "%04d-%02u-%02u", (int)(year % 10000),
                   (unsigned)(month % 100), (unsigned)(of_month % 100));
    return text;
}
