/* test_one_category.c - what memory was for has one number per word, wherever it is asked.
 *
 * The doctor's account of the peak and that of `stats` name their parts by one list of categories
 * (analysis/attribution.h). On every stored recording the two must agree at the same moment: at the
 * peak of a run that did not fail, and at the failure of one that did. */
#include "vramwise/doctor.h"

#include <string.h>

#include "analysis/attribution.h"
#include "analysis/moment.h"
#include "analysis/recording.h"
#include "analysis/timeline.h"
#include "support/cmocka_here.h"
#include "support/stored_recordings.h"

static const vw_finding *peak_of(const vw_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        if (strcmp(diagnosis->findings[i].kind, "peak") == 0)
            return &diagnosis->findings[i];
    return NULL;
}

static uint64_t bytes_of(const vw_finding *finding, const char *name)
{
    for (size_t i = 0; i < finding->part_count; i++)
        if (strcmp(finding->parts[i].name, name) == 0)
            return finding->parts[i].bytes;
    return 0;
}

/* Every category of the moment is a part of the finding, with the same bytes, and there are no
 * others. */
static void assert_same(const char *file, const vw_finding *finding, const vw_moment *moment)
{
    if (finding->part_count != moment->category_count)
        fail_msg("%s: %zu parts, %zu categories", file, finding->part_count,
                 moment->category_count);
    for (size_t i = 0; i < moment->category_count; i++) {
        const vw_usage *category = &moment->categories[i];
        if (bytes_of(finding, category->category) != category->bytes)
            fail_msg("%s: %s is %llu in the doctor, %llu in stats", file, category->category,
                     (unsigned long long)bytes_of(finding, category->category),
                     (unsigned long long)category->bytes);
    }
}

/* false: the recording did not fail. */
static bool moment_of_failure(const vw_recording *recording, const vw__model_trace *trace,
                              vw__arena *arena, vw_moment *out)
{
    vw__timeline timeline;
    vw__attribution attribution;
    uint32_t event = 0;
    while (event < trace->event_count && trace->events[event].action != VW_ACTION_OOM)
        event++;
    if (event == trace->event_count)
        return false;
    assert_int_equal(vw__timeline_make(recording->model, trace, &timeline), VW_OK);
    assert_int_equal(vw__attribution_init(&attribution, recording->model), VW_OK);
    assert_int_equal(vw__moment_of_instant(&timeline, event, &attribution, 0, arena, out), VW_OK);
    vw__attribution_deinit(&attribution);
    vw__timeline_deinit(&timeline);
    return true;
}

/* 1 where the two could be compared. */
static size_t compare(const char *file, const vw_recording *recording)
{
    const vw_stats_options options = {.struct_size = sizeof options, .without_summary = true};
    vw_recording_stats *stats = NULL;
    vw_diagnosis *diagnosis = NULL;
    const vw__model_trace *trace;
    vw__arena arena;
    vw_moment moment;
    size_t compared = 0;
    if (vw__recording_trace(recording->model, VW_BUSIEST_DEVICE, &trace) != VW_OK)
        return 0;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    assert_int_equal(vw_doctor_recording(recording, NULL, &diagnosis), VW_OK);
    assert_int_equal(vw_recording_stats_make(recording, &options, &stats), VW_OK);
    const vw_finding *finding = peak_of(diagnosis);
    if (moment_of_failure(recording, trace, &arena, &moment)) {
        assert_non_null(finding);
        assert_same(file, finding, &moment);
        compared = 1;
    } else {
        for (size_t i = 0; i < stats->device_count && finding != NULL; i++)
            if (stats->devices[i].device == trace->device &&
                stats->devices[i].peak.live_bytes == finding->bytes) {
                assert_same(file, finding, &stats->devices[i].peak);
                compared = 1;
            }
    }
    vw_recording_stats_free(stats);
    vw_diagnosis_free(diagnosis);
    vw__arena_deinit(&arena);
    return compared;
}

static size_t compared_count, recording_count;

static void compare_stored(const stored_recording *one)
{
    recording_count++;
    compared_count += compare(one->name, one->recording);
}

static void the_doctor_and_stats_name_the_same_bytes_by_one_word(void **state)
{
    (void)state;
    compared_count = recording_count = 0;
    each_stored_recording(compare_stored);
    assert_true(recording_count > 20);
    assert_true(compared_count * 10 >= recording_count * 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_doctor_and_stats_name_the_same_bytes_by_one_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
