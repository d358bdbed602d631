/* test_settings_agree.c - what the doctor, replay and the page's What-if say of one recording is
 * the same; and how often the doctor replays it. */
#include <stdio.h>
#include <string.h>

#include "analysis/replay.h"
#include "analysis/replay_line.h"
#include "vramwise/doctor.h"
#include "settings/trials.h"

#include "support/cmocka_here.h"
#include "support/stored_recordings.h"

enum { POINTS = 512, PAGE_POLICIES = 3 };

static vw_diagnosis *diagnose(const vw_recording *recording)
{
    vw_diagnosis *diagnosis = NULL;
    assert_int_equal(vw_doctor_recording(recording, NULL, &diagnosis), VW_OK);
    return diagnosis;
}

/* The result of that policy, or NULL. */
static const vw_replay_result *result_of(const vw_replay_report *report, const char *policy)
{
    for (size_t i = 0; i < report->result_count; i++)
        if (strcmp(report->results[i].policy, policy) == 0)
            return &report->results[i];
    return NULL;
}

/* The remedy on that basis that begins so, or NULL. */
static const vw_remedy *remedy_of(const vw_diagnosis *diagnosis, vw_basis basis, const char *words)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        for (size_t k = 0; k < diagnosis->findings[i].remedy_count; k++) {
            const vw_remedy *remedy = &diagnosis->findings[i].remedies[k];
            if (remedy->basis == basis && strncmp(remedy->action, words, strlen(words)) == 0)
                return remedy;
        }
    return NULL;
}

/* ---- replay and the page --------------------------------------------------------------------- */

static void check_page(const stored_recording *one)
{
    const char *policies[PAGE_POLICIES];
    vw__replay_line lines[PAGE_POLICIES];
    vw_replay_run runs[PAGE_POLICIES];
    vw_replay_report *report = NULL;
    for (size_t i = 0; i < PAGE_POLICIES; i++) {
        policies[i] = vw__setting_row_for(VW__SETTING_FOR_VIEW, i)->policy;
        runs[i] = (vw_replay_run){.policy = policies[i]};
    }
    const vw_replay_options options = {.struct_size = sizeof options,
                                       .runs = runs,
                                       .run_count = PAGE_POLICIES,
                                       .device = VW_BUSIEST_DEVICE};
    if (vw__replay_lines_make(one->recording, VW_BUSIEST_DEVICE, NULL, policies, PAGE_POLICIES,
                              POINTS, NULL, NULL, lines) != VW_OK)
        return; /* a version without expandable segments */
    assert_int_equal(vw_recording_replay(one->recording, &options, &report), VW_OK);
    for (size_t i = 0; i < PAGE_POLICIES; i++) {
        const vw_replay_result *page = &lines[i].result, *replay = &report->results[i];
        if (page->card_bytes != replay->card_bytes || page->is_complete != replay->is_complete ||
            page->oom_event != replay->oom_event ||
            page->peak_reserved_bytes != replay->peak_reserved_bytes)
            fail_msg("%s: the page and replay differ under %s", one->name, page->policy);
    }
    for (size_t i = 0; i < PAGE_POLICIES; i++)
        vw__replay_line_deinit(&lines[i]);
    vw_replay_report_free(report);
}

static void the_page_says_what_replay_says(void **state)
{
    (void)state;
    each_stored_recording(check_page);
}

/* ---- replay and trials, which the doctor makes ----------------------------------------------- */

static void check_trials(const stored_recording *one)
{
    vw__trials trials;
    vw_replay_report *report = NULL;
    assert_int_equal(vw_recording_replay(one->recording, NULL, &report), VW_OK);
    assert_int_equal(vw__trials_open(&trials, one->recording->model, NULL, VW_BUSIEST_DEVICE, NULL),
                     VW_OK);
    for (size_t i = 0; i < report->result_count; i++) {
        const vw_replay_result *replay = &report->results[i];
        const vw__setting_row *row = NULL;
        for (size_t k = 0; strcmp(replay->policy, "recorded") != 0 &&
                           (row = vw__setting_row_for(VW__SETTING_FOR_DOCTOR, k)) != NULL &&
                           strcmp(row->policy, replay->policy) != 0;
             k++)
            ;
        vw_replay_result tried;
        assert_int_equal(vw__trials_try(&trials, row, &tried), VW_OK);
        assert_string_equal(tried.policy, replay->policy);
        if (tried.card_bytes != replay->card_bytes || tried.oom_event != replay->oom_event ||
            tried.is_complete != replay->is_complete ||
            tried.peak_reserved_bytes != replay->peak_reserved_bytes)
            fail_msg("%s: trials and replay differ under %s", one->name, tried.policy);
    }
    vw__trials_close(&trials);
    vw_replay_report_free(report);
}

static void trials_say_what_replay_says(void **state)
{
    (void)state;
    each_stored_recording(check_trials);
}

/* Where garbage was collected the limit is nearer to the real one, 11 GiB, than what was served. */
static void a_limit_that_collections_show_is_used_by_all(void **state)
{
    (void)state;
    stored_recording one;
    vw__trials trials;
    open_stored("oom_varlen.gc6.pickle.xz", &one);
    assert_int_equal(vw__trials_open(&trials, one.recording->model, NULL, VW_BUSIEST_DEVICE, NULL),
                     VW_OK);
    assert_true(trials.card.shown_bytes > UINT64_C(11) * 1023 << 20);
    assert_true(trials.card.shown_bytes < UINT64_C(11) * 1025 << 20);
    vw__trials_close(&trials);
    vw_recording_close(one.recording);
}

/* ---- replay and the doctor ------------------------------------------------------------------- */

/* A remedy that is enough completes in replay; one that does not complete there is not offered, or
 * offered as not enough. */
static void check_remedy(const stored_recording *one, const vw_diagnosis *diagnosis,
                         const vw_replay_result *result, const char *words)
{
    const vw_remedy *remedy =
        result != NULL ? remedy_of(diagnosis, VW_BASIS_REPLAYED, words) : NULL;
    if (remedy == NULL || remedy->enough == VW_ENOUGH_UNKNOWN)
        return;
    if ((remedy->enough == VW_ENOUGH_YES) != result->is_complete)
        fail_msg("%s: the doctor and replay differ about \"%s\"", one->name, remedy->action);
}

/* What was replayed is called enough only if it is. */
static void check_words(const stored_recording *one, const vw_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        for (size_t k = 0; k < diagnosis->findings[i].remedy_count; k++) {
            const vw_remedy *remedy = &diagnosis->findings[i].remedies[k];
            if (remedy->basis == VW_BASIS_REPLAYED && remedy->enough != VW_ENOUGH_YES &&
                strstr(remedy->action, "enough") != NULL)
                fail_msg("%s: \"%s\" is not known to be", one->name, remedy->action);
        }
}

static void check_doctor(const stored_recording *one)
{
    vw_replay_report *report = NULL;
    assert_int_equal(vw_recording_replay(one->recording, NULL, &report), VW_OK);
    vw_diagnosis *diagnosis = diagnose(one->recording);
    check_words(one, diagnosis);
    if (report->recorded_oom_event != VW_UNKNOWN) {
        check_remedy(one, diagnosis, result_of(report, "expandable"),
                     "set expandable_segments:True");
        check_remedy(one, diagnosis, result_of(report, "vramwise"), "run it with vramwise's");
    }
    vw_diagnosis_free(diagnosis);
    vw_replay_report_free(report);
}

static void the_doctor_says_what_replay_says(void **state)
{
    (void)state;
    each_stored_recording(check_doctor);
}

static void a_setting_that_replay_sees_fail_is_not_offered(void **state)
{
    (void)state;
    stored_recording one;
    vw_replay_report *report = NULL;
    open_stored("oom_fragmented.native.pickle.xz", &one);
    assert_int_equal(vw_recording_replay(one.recording, NULL, &report), VW_OK);
    vw_diagnosis *diagnosis = diagnose(one.recording);
    const vw_replay_result *expandable = result_of(report, "expandable");
    assert_non_null(expandable);
    assert_false(expandable->is_complete);
    assert_null(remedy_of(diagnosis, VW_BASIS_REPLAYED, "set expandable_segments:True"));
    const vw_remedy *engine = remedy_of(diagnosis, VW_BASIS_REPLAYED, "run it with vramwise's");
    assert_non_null(engine);
    assert_int_equal(engine->enough, VW_ENOUGH_YES);
    const vw_remedy *raise = remedy_of(diagnosis, VW_BASIS_MEASURED, "raise the limit");
    assert_non_null(raise); /* 131 GiB were free beside it */
    assert_int_equal(raise->enough, VW_ENOUGH_YES);
    vw_diagnosis_free(diagnosis);
    vw_replay_report_free(report);
    vw_recording_close(one.recording);
}

/* ---- one list -------------------------------------------------------------------------------- */

static bool is_row(const char *policy, const char *conf)
{
    size_t count = 0;
    const vw__setting_row *rows = vw__setting_rows(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].policy, policy) == 0 && strcmp(vw__setting_conf(&rows[i]), conf) == 0)
            return true;
    return false;
}

/* Every option of a string by itself; a memory fraction is what garbage collection needs. */
static bool is_made_of_rows(const char *conf)
{
    char text[256], *rest = text, *option;
    (void)snprintf(text, sizeof text, "%s", conf);
    while ((option = strsep(&rest, ",")) != NULL)
        if (!is_row("conf", option) && !is_row("expandable", option) &&
            strncmp(option, "per_process_memory_fraction:", 28) != 0)
            return false;
    return true;
}

static void tune_and_replay_try_what_the_table_has(void **state)
{
    (void)state;
    stored_recording one;
    vw_tune_report *tuned = NULL;
    vw_replay_report *replayed = NULL;
    const vw_tune_options options = {.struct_size = sizeof options,
                                     .card_bytes = UINT64_C(8) << 30,
                                     .device = VW_BUSIEST_DEVICE};
    open_stored("train_eval_phases.native.pickle.xz", &one);
    assert_int_equal(vw_recording_tune(one.recording, &options, &tuned), VW_OK);
    assert_true(tuned->tried_count > 10);
    for (size_t i = 0; i < tuned->tried_count; i++) {
        const vw_replay_result *tried = &tuned->tried[i];
        assert_true(strcmp(tried->policy, "recorded") == 0 || is_row(tried->policy, tried->conf) ||
                    (strcmp(tried->policy, "conf") == 0 && is_made_of_rows(tried->conf)));
    }
    assert_int_equal(vw_recording_replay(one.recording, NULL, &replayed), VW_OK);
    for (size_t i = 0; i < replayed->result_count; i++)
        assert_true(strcmp(replayed->results[i].policy, "recorded") == 0 ||
                    is_row(replayed->results[i].policy, replayed->results[i].conf));
    vw_replay_report_free(replayed);
    vw_tune_report_free(tuned);
    vw_recording_close(one.recording);
}

/* "set expandable_segments:True", with what follows it. */
static void check_options(const stored_recording *one)
{
    static const char begin[] = "set ";
    vw_diagnosis *diagnosis = diagnose(one->recording);
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        for (size_t k = 0; k < diagnosis->findings[i].remedy_count; k++) {
            const vw_remedy *remedy = &diagnosis->findings[i].remedies[k];
            char option[128];
            if (remedy->basis != VW_BASIS_REPLAYED ||
                strncmp(remedy->action, begin, strlen(begin)) != 0)
                continue;
            (void)snprintf(option, sizeof option, "%s", remedy->action + strlen(begin));
            char *words = strstr(option, ": ");
            if (words != NULL)
                *words = '\0';
            if (!is_made_of_rows(option))
                fail_msg("%s: \"%s\" is in no row", one->name, option);
        }
    vw_diagnosis_free(diagnosis);
}

static void the_doctor_offers_what_the_table_has(void **state)
{
    (void)state;
    each_stored_recording(check_options);
}

/* ---- how often ------------------------------------------------------------------------------- */

typedef struct replay_budget {
    const char *folder, *name;
    uint64_t most; /* about a third of what it took when every cause replayed by itself */
} replay_budget;

static void the_doctor_replays_a_recording_that_failed_a_few_times(void **state)
{
    static const replay_budget budgets[] = {
        {STORED_RECORDINGS "/doctor", "fragmented_interleaved", 9},
        {STORED_RECORDINGS "/doctor", "fragmented_loading", 9},
        {STORED_RECORDINGS "/doctor", "fragmented_statistics", 9},
        {STORED_RECORDINGS "/doctor", "oom_capped", 9},
        {STORED_RECORDINGS "/doctor", "oom_genuine", 7},
        {STORED_RECORDINGS "/doctor", "oom_stranded_in_a_pool", 12},
        {STORED_RECORDINGS "/doctor", "oom_survived", 9},
        {STORED_RECORDINGS "/doctor", "oom_too_large", 9},
        {STORED_RECORDINGS, "oom_varlen.gc6", 16}, /* with finding the limit, and streams */
    };
    (void)state;
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        char name[128];
        stored_recording one;
        (void)snprintf(name, sizeof name, "%s%s", budgets[i].name, STORED_ENDING);
        open_recording_in(budgets[i].folder, name, &one);
        uint64_t before = vw__replay_play_count();
        vw_diagnosis_free(diagnose(one.recording));
        uint64_t count = vw__replay_play_count() - before;
        if (count == 0 || count > budgets[i].most)
            fail_msg("%s: replayed %llu times, at most %llu are expected", name,
                     (unsigned long long)count, (unsigned long long)budgets[i].most);
        vw_recording_close(one.recording);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_says_what_replay_says),
        cmocka_unit_test(trials_say_what_replay_says),
        cmocka_unit_test(a_limit_that_collections_show_is_used_by_all),
        cmocka_unit_test(the_doctor_says_what_replay_says),
        cmocka_unit_test(a_setting_that_replay_sees_fail_is_not_offered),
        cmocka_unit_test(tune_and_replay_try_what_the_table_has),
        cmocka_unit_test(the_doctor_offers_what_the_table_has),
        cmocka_unit_test(the_doctor_replays_a_recording_that_failed_a_few_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
