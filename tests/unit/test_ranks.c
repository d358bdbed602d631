/* test_ranks.c - the files of a job, given to ranks, merged and compared. */
#include "vramwise/ranks.h"

#include <math.h>
#include <string.h>

#include "base/host_memory.h"
#include "ranks/rank_files.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/job_folder.h"

#define MIB (UINT64_C(1) << 20)
#define OOM                                                                                        \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "   \
    "capacity of 79.15 GiB of which 1.00 GiB is free. Of the allocated memory 70.00 GiB is "       \
    "allocated by PyTorch, and 2.00 GiB is reserved by PyTorch but unallocated.\n"

static job_folder job;

static int make_job(void **state)
{
    (void)state;
    job_folder_make(&job);
    return 0;
}

static int remove_job(void **state)
{
    (void)state;
    job_folder_remove(&job);
    return 0;
}

static vw_ranks_report *examine(void)
{
    vw_ranks_report *report = NULL;
    vw_status status = vw_ranks_examine(job.path, NULL, &report);
    if (status != VW_OK)
        fail_msg("%s", vw_last_error());
    return report;
}

static const vw_rank_file *file_of(const vw_ranks_report *report, const char *path)
{
    for (size_t i = 0; i < report->file_count; i++)
        if (strcmp(report->files[i].path, path) == 0)
            return &report->files[i];
    fail_msg("%s is not in the report", path);
    return NULL;
}

/* ---- one rank -------------------------------------------------------------------------------- */

static void a_recording_gives_a_rank_its_peaks(void **state)
{
    (void)state;
    job_folder_put_snapshot(&job, "run.rank2.json", (job_snapshot){100, 20, 0, "a:b"});
    vw_ranks_report *report = examine();
    assert_int_equal(report->rank_count, 1);
    const vw_rank *rank = &report->ranks[0];
    assert_int_equal(rank->rank, 2);
    assert_int_equal(rank->basis, VW_RANK_BASIS_TRACE);
    assert_int_equal(rank->peak_live_bytes, 120 * MIB);
    assert_int_equal(rank->peak_reserved_bytes, 120 * MIB);
    assert_int_equal(rank->event_count, 10);
    assert_int_equal(rank->device, 0);
    assert_string_equal(rank->recording, "run.rank2.json");
    assert_null(rank->text);
    assert_string_equal(rank->conf, "a:b");
    assert_false(rank->ran_out);
    assert_true(rank->has_verdict);
    assert_int_equal(report->missing_count, 2);
    assert_int_equal(report->missing[1], 1);
    vw_ranks_report_free(report);
}

static void texts_of_a_rank_are_one_story(void **state)
{
    (void)state;
    char steps[4096];
    size_t size = 0;
    for (unsigned i = 1; i <= 40; i++)
        size += (size_t)snprintf(steps + size, sizeof steps - size,
                                 "{\"step\": %u, \"allocated\": %u, \"reserved\": 3000000000}\n",
                                 10 * i, 1000000000 + i * 20000000);
    job_folder_put(&job, "train.rank0.steps.jsonl", steps);
    job_folder_put(&job, "logs/rank0.err", "2026-03-01 12:00:00 ERROR " OOM);
    vw_ranks_report *report = examine();
    assert_int_equal(report->rank_count, 1);
    const vw_rank *rank = &report->ranks[0];
    assert_int_equal(rank->file_count, 2);
    assert_string_equal(rank->text, "logs/rank0.err");
    assert_true(rank->ran_out);
    assert_int_equal(rank->step_count, 400);
    assert_true(fabs(rank->growth_bytes_per_step - 2e6) < 1e5);
    assert_int_equal(rank->basis, VW_RANK_BASIS_TEXT);
    assert_int_equal(rank->tried_bytes, 2048 * MIB);
    assert_int_equal(rank->time_us, INT64_MIN);
    assert_int_equal(rank->local_time_us, INT64_C(1772366400000000));
    assert_int_equal(report->first_rank, 0);
    assert_int_equal(report->first_lead_us, VW_UNKNOWN);
    vw_ranks_report_free(report);
}

static void of_several_recordings_that_of_the_failure_counts(void **state)
{
    (void)state;
    job_folder_put_snapshot(&job, "a.rank0.json", (job_snapshot){500, 1, 0, NULL});
    job_folder_put_snapshot(&job, "b.rank0.json", (job_snapshot){40, 2, 7000, NULL});
    job_folder_put_snapshot(&job, "c.rank0.json", (job_snapshot){600, 3, 0, NULL});
    vw_ranks_report *report = examine();
    const vw_rank *rank = &report->ranks[0];
    assert_string_equal(rank->recording, "b.rank0.json");
    assert_int_equal(rank->file_count, 3);
    assert_int_equal(rank->peak_live_bytes, 42 * MIB);
    assert_int_equal(rank->time_us, 7000);
    vw_ranks_report_free(report);
}

static void an_empty_log_is_its_rank_s(void **state)
{
    (void)state;
    job_folder_put(&job, "rank1.err", "");
    job_folder_put(&job, "run_a/attempt_0/0/stderr.log", "");
    vw_ranks_report *report = examine();
    assert_int_equal(report->rank_count, 2);
    assert_int_equal(file_of(report, "rank1.err")->rank, 1);
    assert_null(file_of(report, "rank1.err")->reason);
    assert_int_equal(report->ranks[1].verdict, VW_VERDICT_NOT_OOM);
    assert_int_equal(report->unassigned_count, 0);
    assert_false(report->is_something_to_see);
    vw_ranks_report_free(report);
}

static void a_text_that_knows_the_limit_has_the_verdict(void **state)
{
    (void)state;
    job_folder_put_snapshot(&job, "a.rank0.json", (job_snapshot){40, 2, 0, NULL});
    job_folder_put(
        &job, "rank0.log",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 "
        "has a total capacity of 79.15 GiB of which 60.00 GiB is free. 8.00 GiB allowed; "
        "Of the allocated memory 7.00 GiB is allocated by PyTorch, and 100.00 MiB is "
        "reserved by PyTorch but unallocated.\n");
    vw_ranks_report *report = examine();
    assert_int_equal(report->ranks[0].verdict, VW_VERDICT_CAPPED);
    assert_int_equal(report->ranks[0].peak_live_bytes, 42 * MIB);
    assert_true(report->ranks[0].ran_out);
    vw_ranks_report_free(report);
}

/* ---- who was first --------------------------------------------------------------------------- */

static void the_earliest_failure_is_the_first(void **state)
{
    (void)state;
    job_folder_put_snapshot(&job, "a.rank0.json", (job_snapshot){40, 2, 9000, NULL});
    job_folder_put_snapshot(&job, "a.rank1.json", (job_snapshot){40, 2, 4000, NULL});
    job_folder_put_snapshot(&job, "a.rank2.json", (job_snapshot){40, 2, 0, NULL});
    job_folder_put_snapshot(&job, "a.rank3.json", (job_snapshot){40, 2, 6500, NULL});
    vw_ranks_report *report = examine();
    assert_int_equal(report->ran_out_count, 3);
    assert_int_equal(report->first_rank, 1);
    assert_int_equal(report->first_lead_us, 2500);
    assert_null(report->first_reason);
    assert_true(report->is_something_to_see);
    vw_ranks_report_free(report);
}

static void without_a_time_of_every_rank_nobody_is_first(void **state)
{
    (void)state;
    job_folder_put_snapshot(&job, "a.rank0.json", (job_snapshot){40, 2, 9000, NULL});
    job_folder_put(&job, "rank1.log", OOM);
    vw_ranks_report *report = examine();
    assert_int_equal(report->first_rank, VW_UNKNOWN);
    assert_string_equal(report->first_reason, "nothing says when rank 1 ran out");
    vw_ranks_report_free(report);
}

static void times_of_two_kinds_are_not_compared(void **state)
{
    (void)state;
    job_folder_put_snapshot(&job, "a.rank0.json", (job_snapshot){40, 2, 9000, NULL});
    job_folder_put(&job, "rank1.log", "2026-03-01 12:00:00 " OOM);
    vw_ranks_report *report = examine();
    assert_int_equal(report->first_rank, VW_UNKNOWN);
    assert_string_equal(
        report->first_reason,
        "some ranks have times from recordings, others from logs without a time zone");
    vw_ranks_report_free(report);
    job_folder_put(&job, "rank1.log", "1970-01-01 00:00:00.008Z " OOM);
    report = examine();
    assert_int_equal(report->first_rank, 1);
    assert_int_equal(report->first_lead_us, 1000);
    vw_ranks_report_free(report);
}

static void local_times_of_all_are_compared(void **state)
{
    (void)state;
    job_folder_put(&job, "rank0.log", "2026-03-01 12:00:01 " OOM);
    job_folder_put(&job, "rank1.log", "2026-03-01 12:00:00,5 " OOM);
    vw_ranks_report *report = examine();
    assert_int_equal(report->first_rank, 1);
    assert_int_equal(report->first_lead_us, 500000);
    vw_ranks_report_free(report);
}

/* ---- who differs ----------------------------------------------------------------------------- */

static void ranks_alike_are_nothing_to_see(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "a.rank%u.json", i);
        job_folder_put_snapshot(&job, name, (job_snapshot){40 + i / 3, 20, 0, "x:1"});
    }
    vw_ranks_report *report = examine();
    assert_int_equal(report->rank_count, 4);
    assert_int_equal(report->outlier_count + report->site_count + report->setting_count, 0);
    assert_int_equal(report->medians[VW_RANK_PEAK_LIVE], 60 * MIB);
    assert_int_equal(report->missing_count, 0);
    assert_false(report->is_something_to_see);
    vw_ranks_report_free(report);
}

static void the_odd_one_is_named_with_its_line_and_setting(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "a.rank%u.json", i);
        job_folder_put_snapshot(&job, name,
                                (job_snapshot){40, i == 2 ? 220 : 20, 0, i == 3 ? "x:2" : "x:1"});
    }
    vw_ranks_report *report = examine();
    assert_int_equal(report->outlier_count, 2);
    assert_int_equal(report->outliers[0].rank, 2);
    assert_int_equal(report->outliers[0].measure, VW_RANK_PEAK_LIVE);
    assert_int_equal(report->outliers[0].value, 260 * MIB);
    assert_int_equal(report->outliers[0].median, 60 * MIB);
    assert_true(report->ranks[2].is_out_of_line[VW_RANK_PEAK_RESERVED]);
    assert_false(report->ranks[1].is_out_of_line[VW_RANK_PEAK_LIVE]);
    assert_int_equal(report->site_count, 1);
    assert_int_equal(report->sites[0].rank, 2);
    assert_int_equal(report->sites[0].bytes, 220 * MIB);
    assert_int_equal(report->sites[0].median_bytes, 20 * MIB);
    assert_string_equal(report->sites[0].where->file, "train.py");
    assert_int_equal(report->sites[0].where->line, 11);
    assert_int_equal(report->setting_count, 1);
    assert_string_equal(report->settings[0].key, "PYTORCH_CUDA_ALLOC_CONF");
    assert_int_equal(report->settings[0].rank, 3);
    assert_string_equal(report->settings[0].value, "x:2");
    assert_string_equal(report->settings[0].usual, "x:1");
    assert_true(report->is_something_to_see);
    vw_ranks_report_free(report);
}

static void two_ranks_are_held_against_each_other(void **state)
{
    (void)state;
    job_folder_put_snapshot(&job, "a.rank0.json", (job_snapshot){40, 20, 0, NULL});
    job_folder_put_snapshot(&job, "a.rank1.json", (job_snapshot){40, 90, 0, NULL});
    vw_ranks_report *report = examine();
    assert_int_equal(report->outlier_count, 0);
    assert_int_equal(report->site_count, 1);
    assert_int_equal(report->sites[0].rank, 1);
    assert_int_equal(report->sites[0].median_bytes, 20 * MIB);
    vw_ranks_report_free(report);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void torchrun_s_folders_are_ranks_of_one_machine(void **state)
{
    (void)state;
    job_folder_put(&job, "run_a/attempt_0/0/stderr.log", "fine\n");
    job_folder_put(&job, "run_a/attempt_0/1/stderr.log", OOM);
    vw_ranks_report *report = examine();
    assert_int_equal(report->rank_count, 2);
    assert_true(report->ranks[1].ran_out);
    vw_ranks_report_free(report);

    job_folder_put(&job, "run_b/attempt_0/1/stderr.log", "[rank9]: " OOM);
    report = examine();
    assert_int_equal(report->rank_count, 1);
    assert_int_equal(report->ranks[0].rank, 9);
    assert_int_equal(report->unassigned_count, 1); /* the error of run_a's second process */
    assert_int_equal(file_of(report, "run_a/attempt_0/1/stderr.log")->rank_count, 0);
    assert_non_null(strstr(file_of(report, "run_a/attempt_0/1/stderr.log")->reason, "torchrun"));
    vw_ranks_report_free(report);
}

static void a_folder_of_torchrun_with_another_rank_in_it_is_said(void **state)
{
    (void)state;
    job_folder_put(&job, "run_a/attempt_0/1/stderr.log", "[rank9]: " OOM);
    vw_ranks_report *report = examine();
    assert_int_equal(report->rank_count, 2);
    assert_true(report->ranks[1].ran_out);
    assert_int_equal(report->ranks[1].rank, 9);
    assert_int_equal(report->note_count, 1);
    assert_non_null(strstr(report->notes[0], "were taken for rank 1's"));
    vw_ranks_report_free(report);
}

static void what_cannot_be_read_is_named_and_the_rest_goes_on(void **state)
{
    (void)state;
    job_folder_put_snapshot(&job, "a.rank0.json", (job_snapshot){40, 20, 0, NULL});
    job_folder_put(&job, "b.rank1.pickle", "\x80\x04 this is no pickle");
    job_folder_put(&job, "train.py", "import torch\n");
    job_folder_put(&job, "notes.txt", "nothing about anything\n");
    job_folder_put_snapshot(&job, "loose.json", (job_snapshot){40, 20, 0, NULL});
    job_folder_put(&job, ".hidden.rank5.log", OOM);
    vw_ranks_report *report = examine();
    assert_int_equal(report->rank_count, 1);
    assert_int_equal(report->file_count, 5);
    assert_int_equal(report->unreadable_count, 1);
    assert_int_equal(report->foreign_count, 1);
    assert_int_equal(file_of(report, "b.rank1.pickle")->kind, VW_RANK_FILE_UNREADABLE);
    assert_int_equal(file_of(report, "train.py")->kind, VW_RANK_FILE_FOREIGN);
    assert_int_equal(report->unassigned_count, 1);
    assert_string_equal(report->unassigned[0].recording, "loose.json");
    assert_false(report->is_something_to_see);
    vw_ranks_report_free(report);
}

/* Also the highest is one; what is no file of the job's does not make the job larger. */
static void ranks_whose_files_cannot_be_read_are_not_said_to_have_none(void **state)
{
    (void)state;
    job_folder_put_snapshot(&job, "a.rank0.json", (job_snapshot){40, 20, 0, NULL});
    job_folder_put(&job, "a.rank1.pickle", "\x80\x04 this is no pickle");
    job_folder_put(&job, "a.rank2.pickle", "");
    job_folder_put(&job, "a.rank4.pickle", "\x80\x04 this is no pickle");
    job_folder_put(&job, "layer_r80.bin", "weights");
    vw_ranks_report *report = examine();
    assert_int_equal(report->rank_count, 1);
    assert_int_equal(report->missing_count, 1);
    assert_int_equal(report->missing[0], 3);
    assert_int_equal(report->unread_count, 3);
    assert_int_equal(report->unread[0], 1);
    assert_int_equal(report->unread[1], 2);
    assert_int_equal(report->unread[2], 4);
    assert_int_equal(file_of(report, "a.rank4.pickle")->rank, 4);
    vw_ranks_report_free(report);
}

static void where_no_file_has_a_rank_none_is_missing(void **state)
{
    (void)state;
    job_folder_put_snapshot(&job, "loose.json", (job_snapshot){40, 20, 0, NULL});
    job_folder_put(&job, "odd.pickle", "\x80\x04 this is no pickle");
    vw_ranks_report *report = examine();
    assert_int_equal(report->unassigned_count, 1);
    assert_int_equal(report->missing_count + report->unread_count, 0);
    vw_ranks_report_free(report);
}

static void a_pipe_and_links_in_circles_do_no_harm(void **state)
{
    (void)state;
    job_folder_put_snapshot(&job, "deep/a.rank0.json", (job_snapshot){40, 20, 0, NULL});
    assert_int_equal(mkfifo(job_folder_path(&job, "rank1.log"), 0600), 0);
    assert_int_equal(symlink("..", job_folder_path(&job, "deep/up")), 0);
    assert_int_equal(symlink("circle", job_folder_path(&job, "circle")), 0);
    assert_int_equal(symlink("deep/a.rank0.json", job_folder_path(&job, "link.rank3.json")), 0);
    vw_ranks_report *report = examine();
    assert_int_equal(report->rank_count, 2);
    assert_int_equal(report->ranks[1].rank, 3);
    assert_int_equal(report->note_count, 2);
    vw_ranks_report_free(report);
}

static void more_files_than_wanted_are_said(void **state)
{
    (void)state;
    const vw_ranks_options options = {.struct_size = sizeof options, .most_files = 3};
    vw_ranks_report *report = NULL;
    for (unsigned i = 0; i < 5; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "rank%u.log", i);
        job_folder_put(&job, name, "fine\n");
    }
    assert_int_equal(vw_ranks_examine(job.path, &options, &report), VW_OK);
    assert_int_equal(report->file_count, 3);
    assert_int_equal(report->rank_count, 3);
    assert_non_null(strstr(report->notes[0], "the first 3, by name"));
    vw_ranks_report_free(report);
}

/* Those that were seen are taken, in whatever order the folder gave them. */
static void of_too_many_names_those_that_were_seen_are_taken(void **state)
{
    (void)state;
    vw__arena arena;
    vw__rank_files files;
    job_folder_put(&job, "rank0.log", "fine\n");
    job_folder_put(&job, "rank1.log", "fine\n");
    job_folder_put(&job, "rank2.log", "fine\n");
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    assert_int_equal(vw__rank_files_find(job.path, (vw__rank_files_limits){.files = 10, .names = 2},
                                         &arena, &files),
                     VW_OK);
    assert_int_equal(files.count, 2);
    assert_true(files.has_more_names);
    vw__rank_files_deinit(&files);
    vw__arena_deinit(&arena);
}

static void folders_too_deep_are_said(void **state)
{
    (void)state;
    job_folder_put(&job, "1/2/3/4/5/6/7/8/rank0.log", "fine\n");
    job_folder_put(&job, "1/2/3/4/5/6/7/8/9/rank1.log", "fine\n");
    vw_ranks_report *report = examine();
    assert_int_equal(report->rank_count, 1);
    assert_non_null(strstr(report->notes[0], "more than 8 deep"));
    vw_ranks_report_free(report);
}

static void nothing_to_read_is_a_failure_with_words(void **state)
{
    (void)state;
    vw_ranks_report *report = NULL;
    assert_int_equal(vw_ranks_examine(job.path, NULL, &report), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "found no file"));
    job_folder_put(&job, "train.py", "import torch\n");
    assert_int_equal(vw_ranks_examine(job.path, NULL, &report), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "the first is train.py"));
    job_folder_put(&job, "b.rank1.pickle", "\x80\x04 this is no pickle");
    assert_int_equal(vw_ranks_examine(job.path, NULL, &report), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "b.rank1.pickle: "));
    assert_int_equal(vw_ranks_examine(job_folder_path(&job, "train.py"), NULL, &report),
                     VW_ERR_FILE);
    assert_string_equal(vw_last_error(), "expected a folder, found a file");
    assert_int_equal(vw_ranks_examine("/nowhere/at/all", NULL, &report), VW_ERR_FILE);
    assert_null(report);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    vw_ranks_report *report = NULL;
    const vw_ranks_options old = {.struct_size = 1};
    const vw_ranks_options version = {.struct_size = sizeof version, .torch_version = "0.3"};
    assert_int_equal(vw_ranks_examine(NULL, NULL, &report), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_ranks_examine(job.path, &old, &report), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_ranks_examine(job.path, &version, &report), VW_ERR_INVALID_ARGUMENT);
    vw_ranks_report_free(NULL);
}

static bool stop_at_once(void *context, double done)
{
    (void)context;
    (void)done;
    return false;
}

static void the_caller_can_stop_it(void **state)
{
    (void)state;
    vw_ranks_report *report = NULL;
    const vw_ranks_options options = {.struct_size = sizeof options, .progress = stop_at_once};
    job_folder_put(&job, "rank0.log", "fine\n");
    assert_int_equal(vw_ranks_examine(job.path, &options, &report), VW_ERR_WRONG_STATE);
    assert_null(report);
}

typedef struct held_between {
    uint64_t before_bytes, most_bytes;
    unsigned call_count;
} held_between;

static bool note_held(void *context, double done)
{
    held_between *held = context;
    uint64_t bytes = vw__host_memory_get_use().in_use_bytes - held->before_bytes;
    held->most_bytes = bytes > held->most_bytes ? bytes : held->most_bytes;
    held->call_count++;
    return done >= 0;
}

static void no_recording_stays_open_while_the_next_is_read(void **state)
{
    (void)state;
    const char recording[] = VW_TEST_DATA "/recordings/oom_varlen.gc6.pickle.xz";
    held_between held = {.before_bytes = vw__host_memory_get_use().in_use_bytes};
    const vw_ranks_options options = {
        .struct_size = sizeof options, .progress = note_held, .progress_context = &held};
    vw_ranks_report *report = NULL;
    vw_recording *open = NULL;
    for (unsigned i = 0; i < 4; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "run.rank%u.xz", i);
        assert_int_equal(symlink(recording, job_folder_path(&job, name)), 0);
    }
    assert_int_equal(vw_ranks_examine(job.path, &options, &report), VW_OK);
    assert_int_equal(report->recording_count, 4);
    assert_int_equal(held.call_count, 4);
    vw_ranks_report_free(report);
    assert_int_equal(vw_recording_open(recording, NULL, &open), VW_OK);
    uint64_t open_bytes = vw__host_memory_get_use().in_use_bytes - held.before_bytes;
    vw_recording_close(open);
    assert_true(held.most_bytes < open_bytes / 2);
}

static bool examines_the_job(void *context)
{
    (void)context;
    vw_ranks_report *report = NULL;
    bool is_done = vw_ranks_examine(job.path, NULL, &report) == VW_OK;
    assert_true(is_done == (report != NULL));
    vw_ranks_report_free(report);
    return is_done;
}

static void lack_of_host_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    job_folder_put_snapshot(&job, "a.rank0.json", (job_snapshot){40, 20, 0, "x:1"});
    job_folder_put_snapshot(&job, "a.rank1.json", (job_snapshot){40, 90, 5000, "x:2"});
    job_folder_put(&job, "b.rank1.pickle", "\x80\x04 this is no pickle");
    job_folder_put(&job, "slurm-1.out", "0: a\n1: " OOM "2: step\n");
    job_folder_put(&job, "rank1.err", OOM);
    vw_test_sweep_host_memory(examines_the_job, NULL);
}

int main(void)
{
#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_job, remove_job)
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(a_recording_gives_a_rank_its_peaks),
        IN_A_FOLDER(texts_of_a_rank_are_one_story),
        IN_A_FOLDER(of_several_recordings_that_of_the_failure_counts),
        IN_A_FOLDER(an_empty_log_is_its_rank_s),
        IN_A_FOLDER(a_text_that_knows_the_limit_has_the_verdict),
        IN_A_FOLDER(the_earliest_failure_is_the_first),
        IN_A_FOLDER(without_a_time_of_every_rank_nobody_is_first),
        IN_A_FOLDER(times_of_two_kinds_are_not_compared),
        IN_A_FOLDER(local_times_of_all_are_compared),
        IN_A_FOLDER(ranks_alike_are_nothing_to_see),
        IN_A_FOLDER(the_odd_one_is_named_with_its_line_and_setting),
        IN_A_FOLDER(two_ranks_are_held_against_each_other),
        IN_A_FOLDER(torchrun_s_folders_are_ranks_of_one_machine),
        IN_A_FOLDER(a_folder_of_torchrun_with_another_rank_in_it_is_said),
        IN_A_FOLDER(what_cannot_be_read_is_named_and_the_rest_goes_on),
        IN_A_FOLDER(ranks_whose_files_cannot_be_read_are_not_said_to_have_none),
        IN_A_FOLDER(where_no_file_has_a_rank_none_is_missing),
        IN_A_FOLDER(a_pipe_and_links_in_circles_do_no_harm),
        IN_A_FOLDER(more_files_than_wanted_are_said),
        IN_A_FOLDER(of_too_many_names_those_that_were_seen_are_taken),
        IN_A_FOLDER(folders_too_deep_are_said),
        IN_A_FOLDER(nothing_to_read_is_a_failure_with_words),
        IN_A_FOLDER(what_makes_no_sense_is_refused),
        IN_A_FOLDER(the_caller_can_stop_it),
        IN_A_FOLDER(no_recording_stays_open_while_the_next_is_read),
        IN_A_FOLDER(lack_of_host_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
