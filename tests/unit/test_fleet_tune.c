/* test_fleet_tune.c - one setting for many jobs: files, states and shares, as a report has them. */
#include "vramwise/fleet.h"

#include <fcntl.h>
#include <string.h>

#include "vramwise/report.h"
#include "base/byte_buffer.h"
#include "base/host_memory.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/job_folder.h"

#define MIB (UINT64_C(1) << 20)

static job_folder here;

static int make_folder(void **state)
{
    (void)state;
    job_folder_make(&here);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    job_folder_remove(&here);
    return 0;
}

static const char *path_of(const char *name)
{
    return job_folder_path(&here, name);
}

/* Three jobs: one of four ranks that fits into 200 MiB, one of which one rank does not, and one
 * that has no recording. */
static void put_jobs(void)
{
    char name[64];
    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof name, "jobs/good/run.rank%u.json", i);
        job_folder_put_snapshot(&here, name, (job_snapshot){100, 20, 0, ""});
        (void)snprintf(name, sizeof name, "jobs/large/run.rank%u.json", i);
        job_folder_put_snapshot(&here, name, (job_snapshot){100, i == 2 ? 150 : 20, 0, NULL});
    }
    job_folder_put(&here, "jobs/good/rank0.log", "all is well\n");
    job_folder_put(&here, "jobs/mute/rank0.log", "all is well\n");
}

static vw_status try_to_tune(const char *source, uint64_t card_mib, const vw_fleet_options *fleet,
                             vw_fleet_tuning **tuning)
{
    const vw_fleet_tune_options options = {
        .struct_size = sizeof options, .card_bytes = card_mib * MIB, .fleet = fleet};
    return vw_fleet_tune(source, &options, tuning);
}

static vw_fleet_tuning *tune(const char *source, uint64_t card_mib, const vw_fleet_options *fleet)
{
    vw_fleet_tuning *tuning = NULL;
    if (try_to_tune(source, card_mib, fleet, &tuning) != VW_OK)
        fail_msg("%s", vw_last_error());
    return tuning;
}

static vw_fleet_tuning *tune_with_state(uint64_t card_mib, const char *folder)
{
    const vw_fleet_options fleet = {.struct_size = sizeof fleet, .state_folder = folder};
    return tune(path_of("jobs"), card_mib, &fleet);
}

static bool append_piece(void *context, const char *bytes, size_t size_bytes)
{
    vw__append_bytes(context, bytes, size_bytes);
    return true;
}

/* The JSON of a report; the caller frees it. */
static char *json_of(const vw_fleet_tuning *tuning)
{
    const vw_report_form form = {.struct_size = sizeof form, .is_json = true};
    size_t size_bytes;
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    const vw_output output = {&text, append_piece};
    assert_int_equal(vw_report_fleet_tune(tuning, &form, &output), VW_OK);
    return vw__byte_buffer_detach(&text, &size_bytes);
}

/* Frees `other`. */
static void assert_same(const vw_fleet_tuning *one, vw_fleet_tuning *other)
{
    char *left = json_of(one), *right = json_of(other);
    assert_string_equal(left, right);
    vw__host_free(left);
    vw__host_free(right);
    vw_fleet_tuning_free(other);
}

/* ---- what is found --------------------------------------------------------------------------- */

static void a_job_fits_if_all_its_recordings_do(void **state)
{
    (void)state;
    put_jobs();
    vw_fleet_tuning *tuning = tune(path_of("jobs"), 200, NULL);
    assert_int_equal(tuning->job_count, 2);
    assert_int_equal(tuning->recording_count, 8);
    assert_int_equal(tuning->bare_count, 1);
    assert_int_equal(tuning->impossible_count, 1);
    assert_int_equal(tuning->stuck_count, 0);
    assert_string_equal(tuning->jobs[0].name, "large");
    assert_false(tuning->jobs[0].is_possible);
    assert_true(tuning->jobs[0].kind == SIZE_MAX);
    assert_int_equal(tuning->jobs[0].peak_live_bytes, 250 * MIB);
    assert_true(tuning->jobs[0].reserved_bytes == VW_UNKNOWN);
    assert_string_equal(tuning->jobs[1].name, "good");
    assert_true(tuning->jobs[1].fits && tuning->jobs[1].fits_recorded && tuning->jobs[1].fits_best);
    assert_int_equal(tuning->jobs[1].recording_count, 4);
    assert_int_equal(tuning->jobs[1].recorded_reserved_bytes, 120 * MIB);
    assert_int_equal(tuning->best->fit_count, 1);
    assert_int_equal(tuning->recorded.fit_count, 1);
    assert_string_equal(tuning->defaults->policy, "native");
    assert_true(tuning->is_recorded_best);
    assert_true(tuning->is_something_to_see);
    vw_fleet_tuning_free(tuning);
    tuning = tune(path_of("jobs"), 300, NULL);
    assert_int_equal(tuning->best->fit_count, 2);
    assert_false(tuning->is_something_to_see);
    vw_fleet_tuning_free(tuning);
}

static void what_cannot_be_replayed_is_named_and_the_rest_goes_on(void **state)
{
    (void)state;
    put_jobs();
    job_folder_put(&here, "jobs/good/broken.json", "{\"segments\": [, ");
    job_folder_put(&here, "jobs/mute/bare.json", "{\"segments\": []}");
    job_folder_put(&here, "jobs/mute/notes.md", "nothing");
    vw_fleet_tuning *tuning = tune(path_of("jobs"), 300, NULL);
    assert_int_equal(tuning->skipped_count, 2);
    assert_string_equal(tuning->skipped[0].job, "good");
    assert_string_equal(tuning->skipped[0].path, "broken.json");
    assert_non_null(strstr(tuning->skipped[0].reason, "expected a value"));
    assert_string_equal(tuning->skipped[1].path, "bare.json");
    assert_int_equal(tuning->foreign_count, 1);
    assert_int_equal(tuning->file_count, 11);
    assert_int_equal(tuning->jobs[0].skipped_count + tuning->jobs[1].skipped_count, 1);
    assert_int_equal(tuning->best->fit_count, 2);
    assert_true(tuning->is_something_to_see);
    vw_fleet_tuning_free(tuning);
}

static void a_list_names_the_kinds(void **state)
{
    (void)state;
    char list[4 * PATH_MAX];
    put_jobs();
    (void)snprintf(list, sizeof list, "path,job,kind\n%s,a,vision\n%s,b,text\n%s,c,text\n",
                   path_of("jobs/good/run.rank0.json"), path_of("jobs/large/run.rank2.json"),
                   path_of("jobs/good/run.rank1.json"));
    job_folder_put(&here, "list.csv", list);
    vw_fleet_tuning *tuning = tune(path_of("list.csv"), 200, NULL);
    assert_int_equal(tuning->kind_count, 2);
    assert_string_equal(tuning->kinds[0].name, "text");
    assert_int_equal(tuning->kinds[0].best.job_count, 2);
    assert_int_equal(tuning->kinds[0].best.fit_count, 1);
    assert_string_equal(tuning->kinds[0].job, "b");
    assert_string_equal(tuning->kinds[1].name, "vision");
    assert_int_equal(tuning->kinds_fit_count, 2);
    vw_fleet_tuning_free(tuning);
    (void)snprintf(list, sizeof list, "path,job,kind\n%s,a,vision\n%s,a,text\n",
                   path_of("jobs/good/run.rank0.json"), path_of("jobs/large/run.rank2.json"));
    job_folder_put(&here, "list.csv", list);
    assert_int_equal(try_to_tune(path_of("list.csv"), 200, NULL, &tuning), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "expected one kind"));
}

static void a_pipe_in_a_list_keeps_nobody_waiting(void **state)
{
    (void)state;
    char list[4 * PATH_MAX];
    put_jobs();
    assert_int_equal(mkfifo(path_of("pipe.pickle"), 0600), 0);
    (void)snprintf(list, sizeof list, "path,job\n%s,a\n%s,a\n", path_of("jobs/good/run.rank0.json"),
                   path_of("pipe.pickle"));
    job_folder_put(&here, "list.csv", list);
    vw_fleet_tuning *tuning = tune(path_of("list.csv"), 200, NULL);
    assert_int_equal(tuning->recording_count, 1);
    assert_int_equal(tuning->skipped_count, 1);
    assert_non_null(strstr(tuning->skipped[0].path, "pipe.pickle"));
    vw_fleet_tuning_free(tuning);
}

static void nothing_to_replay_is_refused_with_the_reason(void **state)
{
    (void)state;
    vw_fleet_tuning *tuning = NULL;
    job_folder_put(&here, "jobs/mute/rank0.log", "all is well\n");
    assert_int_equal(try_to_tune(path_of("jobs"), 200, NULL, &tuning), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "none of which is a recording"));
    job_folder_put(&here, "jobs/mute/broken.json", "{\"segments\": [, ");
    assert_int_equal(try_to_tune(path_of("jobs"), 200, NULL, &tuning), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "broken.json"));
    assert_int_equal(try_to_tune(path_of("jobs"), 0, NULL, &tuning), VW_ERR_INVALID_ARGUMENT);
    const vw_fleet_options share = {.struct_size = sizeof share, .share = 1, .shares = 2};
    assert_int_equal(try_to_tune(path_of("jobs"), 200, &share, &tuning), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_fleet_tune_merge(NULL, 0, &tuning), VW_ERR_INVALID_ARGUMENT);
    assert_null(tuning);
}

static void a_whole_card_has_less_for_pytorch(void **state)
{
    (void)state;
    vw_fleet_tuning *tuning = NULL;
    put_jobs();
    const vw_fleet_tune_options options = {.struct_size = sizeof options,
                                           .card_bytes = 300 * MIB,
                                           .context_bytes = 100 * MIB,
                                           .is_whole_card = true};
    assert_int_equal(vw_fleet_tune(path_of("jobs"), &options, &tuning), VW_OK);
    assert_int_equal(tuning->card_bytes, 200 * MIB);
    assert_int_equal(tuning->impossible_count, 1);
    assert_non_null(strstr(tuning->notes[0], "CUDA's context"));
    vw_fleet_tuning_free(tuning);
}

/* ---- states and shares ----------------------------------------------------------------------- */

static void a_state_is_of_one_card(void **state)
{
    (void)state;
    put_jobs();
    vw_fleet_tuning *plain = tune(path_of("jobs"), 200, NULL);
    vw_fleet_tuning *first = tune_with_state(200, path_of("state"));
    assert_int_equal(first->unit_count, 9); /* eight recordings, and the job without one */
    assert_int_equal(first->examined_count, 9);
    assert_same(plain, first);
    vw_fleet_tuning *second = tune_with_state(200, path_of("state"));
    assert_int_equal(second->examined_count, 0);
    assert_same(plain, second);
    vw_fleet_tuning *other = tune_with_state(300, path_of("state"));
    assert_int_equal(other->examined_count, 9);
    assert_int_equal(other->best->fit_count, 2);
    vw_fleet_tuning_free(other);
    vw_fleet_tuning_free(plain);
    const char *const states[] = {path_of("state"), path_of("other")};
    vw_fleet_tuning_free(tune_with_state(200, states[1]));
    assert_int_equal(vw_fleet_tune_merge(states, 2, &other), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "with another --card or --torch"));
}

static void a_state_does_not_keep_what_failed_for_lack_of_memory(void **state)
{
    (void)state;
    vw_fleet_tuning *tuning = NULL;
    put_jobs();
    const vw_fleet_options little = {
        .struct_size = sizeof little, .state_folder = path_of("state"), .memory_bytes = 1024};
    assert_int_equal(try_to_tune(path_of("jobs"), 200, &little, &tuning), VW_ERR_FILE);
    tuning = tune_with_state(200, path_of("state"));
    assert_int_equal(tuning->recording_count, 8);
    assert_int_equal(tuning->skipped_count, 0);
    vw_fleet_tuning_free(tuning);
}

static void do_share(unsigned share, unsigned shares, const char *folder)
{
    const vw_fleet_options fleet = {.struct_size = sizeof fleet,
                                    .state_folder = folder,
                                    .share = share,
                                    .shares = shares,
                                    .thread_count = share};
    vw_fleet_tuning *tuning = tune(path_of("jobs"), 200, &fleet);
    assert_int_equal(tuning->setting_count, 0);
    assert_int_equal(tuning->share_count, 3);
    vw_fleet_tuning_free(tuning);
}

static void shares_merged_in_any_order_are_the_whole(void **state)
{
    (void)state;
    const char *const states[] = {path_of("s3"), path_of("s1"), path_of("s2"), path_of("s1again")};
    vw_fleet_tuning *merged = NULL;
    put_jobs();
    vw_fleet_tuning *plain = tune(path_of("jobs"), 200, NULL);
    do_share(3, 3, states[0]);
    do_share(1, 3, states[1]);
    assert_int_equal(vw_fleet_tune_merge(states, 2, &merged), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "have no result"));
    do_share(2, 3, states[2]);
    do_share(1, 3, states[3]); /* as after a worker that was thought dead */
    for (size_t count = 3; count <= 4; count++) {
        assert_int_equal(vw_fleet_tune_merge(states, count, &merged), VW_OK);
        assert_int_equal(merged->unit_count, 9);
        assert_same(plain, merged);
    }
    vw_fleet_tuning_free(plain);
}

static void a_report_and_a_tuning_can_have_one_folder_and_are_not_mixed_up(void **state)
{
    (void)state;
    put_jobs();
    vw_fleet_tuning_free(tune_with_state(200, path_of("state")));
    const vw_fleet_options fleet = {.struct_size = sizeof fleet, .state_folder = path_of("state")};
    vw_fleet_report *report = NULL;
    assert_int_equal(vw_fleet_examine(path_of("jobs"), &fleet, &report), VW_OK);
    vw_fleet_report_free(report);
    vw_fleet_tuning *tuning = tune_with_state(200, path_of("state"));
    assert_int_equal(tuning->examined_count, 0);
    vw_fleet_tuning_free(tuning);
    const char *const parts[] = {path_of("state/report.part"), path_of("state/tune.part")};
    assert_int_equal(vw_fleet_tune_merge(parts, 1, &tuning), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "vramwise tune --state"));
    assert_int_equal(vw_fleet_merge(parts + 1, 1, &report), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "vramwise report --state"));
}

/* Where the checksum does not notice, since it was made again, the record is refused. */
static void a_damaged_state_never_changes_what_is_found(void **state)
{
    (void)state;
    job_folder_put_snapshot(&here, "jobs/a/run.rank0.json", (job_snapshot){100, 20, 0, "a:b"});
    vw_fleet_tuning *plain = tune(path_of("jobs"), 200, NULL);
    const char *part = path_of("state/tune.part"), *source = path_of("jobs"),
               *folder = path_of("state");
    const vw_fleet_options fleet = {.struct_size = sizeof fleet, .state_folder = folder};
    vw_fleet_tuning_free(tune(source, 200, &fleet));
    struct stat found;
    assert_int_equal(stat(part, &found), 0);
    for (off_t i = 0; i < found.st_size; i += 7) {
        vw_fleet_tuning *tuning = NULL;
        char byte;
        int file = open(part, O_RDWR);
        assert_int_equal(pread(file, &byte, 1, i), 1);
        byte ^= 0x41;
        assert_int_equal(pwrite(file, &byte, 1, i), 1);
        close(file);
        if (try_to_tune(source, 200, &fleet, &tuning) == VW_OK) {
            assert_same(plain, tuning);
        } else {
            assert_int_equal(unlink(part), 0);
            vw_fleet_tuning_free(tune(source, 200, &fleet));
        }
        assert_int_equal(stat(part, &found), 0);
    }
    vw_fleet_tuning_free(plain);
}

/* ---- failures of the host -------------------------------------------------------------------- */

static const char *sweep_source, *sweep_states[2];

/* One thread, so that the n-th allocation is always the same. */
static bool tunes_and_merges(void *context)
{
    vw_fleet_tuning *tuning = NULL;
    bool is_done = true;
    (void)context;
    for (unsigned i = 1; is_done && i <= 2; i++) {
        const vw_fleet_options fleet = {.struct_size = sizeof fleet,
                                        .state_folder = sweep_states[i - 1],
                                        .share = i,
                                        .shares = 2,
                                        .thread_count = 1};
        is_done = try_to_tune(sweep_source, 200, &fleet, &tuning) == VW_OK;
        if (is_done)
            vw_fleet_tuning_free(tuning);
    }
    is_done = is_done && vw_fleet_tune_merge(sweep_states, 2, &tuning) == VW_OK;
    if (is_done) {
        assert_int_equal(tuning->job_count, 1);
        vw_fleet_tuning_free(tuning);
    }
    for (size_t i = 0; i < 2; i++) {
        char part[PATH_MAX];
        (void)snprintf(part, sizeof part, "%s/tune.part", sweep_states[i]);
        (void)unlink(part);
    }
    return is_done;
}

static void running_out_of_host_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    job_folder_put_snapshot(&here, "jobs/a/run.rank0.json", (job_snapshot){100, 20, 0, "a:b"});
    job_folder_put(&here, "jobs/b/rank1.log", "all is well\n");
    sweep_source = path_of("jobs");
    sweep_states[0] = path_of("s1");
    sweep_states[1] = path_of("s2");
    vw_test_sweep_host_memory(tunes_and_merges, NULL);
}

int main(void)
{
#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(a_job_fits_if_all_its_recordings_do),
        IN_A_FOLDER(what_cannot_be_replayed_is_named_and_the_rest_goes_on),
        IN_A_FOLDER(a_list_names_the_kinds),
        IN_A_FOLDER(a_pipe_in_a_list_keeps_nobody_waiting),
        IN_A_FOLDER(nothing_to_replay_is_refused_with_the_reason),
        IN_A_FOLDER(a_whole_card_has_less_for_pytorch),
        IN_A_FOLDER(a_state_is_of_one_card),
        IN_A_FOLDER(a_state_does_not_keep_what_failed_for_lack_of_memory),
        IN_A_FOLDER(shares_merged_in_any_order_are_the_whole),
        IN_A_FOLDER(a_report_and_a_tuning_can_have_one_folder_and_are_not_mixed_up),
        IN_A_FOLDER(a_damaged_state_never_changes_what_is_found),
        IN_A_FOLDER(running_out_of_host_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
