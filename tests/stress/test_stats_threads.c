/* test_stats_threads.c - statistics whose summary is replayed on a second thread.
 *
 * A trace has to be long for that, so these are thousands of events. What comes out must be the
 * same as from one thread, and a failure on the second one must reach the caller with its words.
 * Worth the most under the thread sanitizer. */
#include "vramwise/analysis.h"

#include <pthread.h>
#include <string.h>

#include "analysis/recording.h"
#include "analysis/stats_summary.h"
#include "base/host_memory.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)
#define IMPOSSIBLE_STACK_BYTES ((size_t)1 << 46)

enum { ROUNDS = 6000, CALLERS = 4, DEVICE = 3 };

/* One block, made and freed again and again; where the segment is missing, so is the beginning. */
static vw__model *long_trace(bool has_beginning)
{
    small_model small;
    small_model_begin(&small);
    uint32_t c = small_model_context(&small, "f train.py 1");
    if (has_beginning)
        small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 2 * MIB, c);
    for (int i = 0; i < ROUNDS; i++) {
        small_model_alloc(&small, A, 1000, c);
        small_model_free(&small, A, 1000, c);
    }
    small_model_end_trace(&small, DEVICE);
    small_model_segment(&small, DEVICE, A, 2 * MIB, 0, VW__MODEL_NO_CONTEXT);
    small_model_set_features(&small);
    return small_model_finish(&small);
}

static vw_status make_stats(vw__model *model, vw_recording_stats **stats)
{
    const vw_recording recording = {.model = model, .encoding = VW__SNAPSHOT_ENCODING_PICKLE};
    return vw_recording_stats_make(&recording, NULL, stats);
}

static vw__stats_summary_job *begin_job(vw__stats_summary_job *job, const vw__model *model)
{
    vw__stats_summary_job_begin(job, model, vw__model_trace_of(model, DEVICE), "2.11");
    return job;
}

/* Threads get stacks that no machine has room for: none can be made. */
static void refuse_threads(bool is_refused, pthread_attr_t *usual)
{
    pthread_attr_t attributes;
    if (!is_refused) {
        assert_int_equal(pthread_setattr_default_np(usual), 0);
        return;
    }
    assert_int_equal(pthread_getattr_default_np(usual), 0);
    assert_int_equal(pthread_getattr_default_np(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, IMPOSSIBLE_STACK_BYTES), 0);
    assert_int_equal(pthread_setattr_default_np(&attributes), 0);
    assert_int_equal(pthread_attr_destroy(&attributes), 0);
}

static void a_machine_that_refuses_a_thread_gives_the_same_summary(void **state)
{
    (void)state;
    vw__model *model = long_trace(true);
    vw_recording_stats *with = NULL, *without = NULL;
    vw__stats_summary_job job;
    pthread_attr_t usual;
    assert_true(begin_job(&job, model)->is_running);
    vw__stats_summary_job_deinit(&job);
    assert_int_equal(make_stats(model, &with), VW_OK);

    refuse_threads(true, &usual);
    bool is_running = begin_job(&job, model)->is_running;
    vw__stats_summary_job_deinit(&job);
    vw_status status = make_stats(model, &without);
    refuse_threads(false, &usual);
    assert_int_equal(pthread_attr_destroy(&usual), 0);

    assert_false(is_running);
    assert_int_equal(status, VW_OK);
    assert_non_null(with->devices[0].summary);
    assert_non_null(strstr(with->devices[0].summary, "device ID 3"));
    assert_string_equal(with->devices[0].summary, without->devices[0].summary);
    assert_null(with->devices[0].summary_reason);
    vw_recording_stats_free(with);
    vw_recording_stats_free(without);
    vw__model_destroy(model);
}

static void *make_stats_as_caller(void *model)
{
    vw_recording_stats *stats = NULL;
    return make_stats(model, &stats) == VW_OK ? stats : NULL;
}

static void callers_at_the_same_time_get_the_same_summary(void **state)
{
    (void)state;
    vw__model *model = long_trace(true);
    pthread_t callers[CALLERS];
    vw_recording_stats *stats[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, make_stats_as_caller, model), 0);
    for (int i = 0; i < CALLERS; i++) {
        void *result;
        assert_int_equal(pthread_join(callers[i], &result), 0);
        assert_non_null(result);
        stats[i] = result;
    }
    for (int i = 0; i < CALLERS; i++) {
        assert_non_null(stats[i]->devices[0].summary);
        assert_string_equal(stats[i]->devices[0].summary, stats[0]->devices[0].summary);
    }
    for (int i = 0; i < CALLERS; i++)
        vw_recording_stats_free(stats[i]);
    vw__model_destroy(model);
}

static void a_long_trace_that_is_cut_has_no_summary(void **state)
{
    (void)state;
    vw__model *model = long_trace(false);
    vw_recording_stats *stats = NULL;
    assert_int_equal(make_stats(model, &stats), VW_OK);
    assert_null(stats->devices[0].summary);
    assert_non_null(strstr(stats->devices[0].summary_reason, "first allocation"));
    vw_recording_stats_free(stats);
    vw__model_destroy(model);
}

static void a_failure_on_the_other_thread_keeps_its_words(void **state)
{
    (void)state;
    vw__model *model = long_trace(true);
    vw__stats_summary_job job;
    vw__arena arena;
    const char *summary = NULL, *reason = NULL;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    vw__host_memory_fail_at(1); /* nobody else asks for any */
    assert_true(begin_job(&job, model)->is_running);
    assert_int_equal(vw__stats_summary_job_finish(&job, &arena, &summary, &reason),
                     VW_ERR_HOST_MEMORY);
    assert_string_equal(vw_last_error(), job.failure);
    assert_non_null(strstr(vw_last_error(), "out of host memory"));
    vw__stats_summary_job_deinit(&job);
    vw__arena_deinit(&arena);
    vw__model_destroy(model);
}

static void a_job_that_nobody_finishes_is_waited_for_and_leaves_nothing(void **state)
{
    (void)state;
    vw__model *model = long_trace(true);
    vw__stats_summary_job job;
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    vw__stats_summary_job_deinit(begin_job(&job, model));
    assert_false(job.is_running);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, before_bytes);
    vw__model_destroy(model);
}

static bool has_stats_or_words(void *model)
{
    vw_recording_stats *stats = NULL;
    vw_status status = make_stats(model, &stats);
    if (status != VW_OK) {
        assert_int_equal(status, VW_ERR_HOST_MEMORY);
        assert_non_null(strstr(vw_last_error(), "out of host memory"));
        return false;
    }
    vw_recording_stats_free(stats);
    return true;
}

static void every_lack_of_host_memory_is_reported_whichever_thread_it_strikes(void **state)
{
    (void)state;
    vw__model *model = long_trace(true);
    vw_test_sweep_host_memory(has_stats_or_words, model);
    vw__model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_that_refuses_a_thread_gives_the_same_summary),
        cmocka_unit_test(callers_at_the_same_time_get_the_same_summary),
        cmocka_unit_test(a_long_trace_that_is_cut_has_no_summary),
        cmocka_unit_test(a_failure_on_the_other_thread_keeps_its_words),
        cmocka_unit_test(a_job_that_nobody_finishes_is_waited_for_and_leaves_nothing),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_whichever_thread_it_strikes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
