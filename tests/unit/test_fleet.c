/* test_fleet.c - many jobs in one report: lists, states, shares, and what is the same however the
 * work was done. */
#include "vramwise/fleet.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "vramwise/analysis.h" /* vw_reading_limit_set */
#include "vramwise/report.h"
#include "base/byte_buffer.h"
#include "base/host_memory.h"
#include "fleet/fleet_part.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/job_folder.h"

#define MIB (UINT64_C(1) << 20)
#define OOM                                                                                        \
    "Traceback (most recent call last):\n  File \"%s\", line %d, in step\n    loss.backward()\n"   \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "   \
    "capacity of 79.15 GiB of which 1.00 GiB is free. Of the allocated memory 70.00 GiB is "       \
    "allocated by PyTorch, and 2.00 GiB is reserved by PyTorch but unallocated.\n"

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

static void put_log(const char *name, const char *program, int line)
{
    char text[1024];
    (void)snprintf(text, sizeof text, OOM, program, line);
    job_folder_put(&here, name, text);
}

/* Three jobs: one in which two ranks ran out, one with a rank out of line, one without fault. */
static void put_jobs(void)
{
    char name[64];
    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof name, "jobs/good/run.rank%u.json", i);
        job_folder_put_snapshot(&here, name, (job_snapshot){100, 20, 0, "a:b"});
        (void)snprintf(name, sizeof name, "jobs/odd/run.rank%u.json", i);
        job_folder_put_snapshot(&here, name, (job_snapshot){100, i == 2 ? 90 : 20, 0, NULL});
        (void)snprintf(name, sizeof name, "jobs/bad/run.rank%u.json", i);
        job_folder_put_snapshot(&here, name, (job_snapshot){100, 20, 0, NULL});
    }
    put_log("jobs/bad/rank0.log", "/home/a/train.py", 7);
    put_log("jobs/bad/rank1.log", "/home/a/train.py", 7);
}

static vw_fleet_report *examine(const char *source, const vw_fleet_options *options)
{
    vw_fleet_report *report = NULL;
    if (vw_fleet_examine(source, options, &report) != VW_OK)
        fail_msg("%s", vw_last_error());
    return report;
}

static vw_fleet_report *examine_with_state(const char *source, const char *folder)
{
    const vw_fleet_options options = {.struct_size = sizeof options, .state_folder = folder};
    return examine(source, &options);
}

static bool append_piece(void *context, const char *bytes, size_t size_bytes)
{
    vw__append_bytes(context, bytes, size_bytes);
    return true;
}

/* The JSON of a report; the caller frees it. */
static char *json_of(const vw_fleet_report *report)
{
    const vw_report_form form = {.struct_size = sizeof form, .is_json = true};
    size_t size_bytes;
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    const vw_output output = {&text, append_piece};
    assert_int_equal(vw_report_fleet(report, &form, &output), VW_OK);
    return vw__byte_buffer_detach(&text, &size_bytes);
}

static void assert_same(const vw_fleet_report *one, const vw_fleet_report *other)
{
    char *left = json_of(one), *right = json_of(other);
    assert_string_equal(left, right);
    vw__host_free(left);
    vw__host_free(right);
}

/* ---- what is found --------------------------------------------------------------------------- */

static void the_worst_job_is_first(void **state)
{
    (void)state;
    put_jobs();
    vw_fleet_report *report = examine(path_of("jobs"), NULL);
    assert_int_equal(report->job_count, 3);
    assert_string_equal(report->jobs[0].name, "bad");
    assert_int_equal(report->jobs[0].ran_out_count, 2);
    assert_int_equal(report->jobs[0].worst->rank, 0);
    assert_int_equal(report->jobs[0].failure, 0);
    assert_string_equal(report->jobs[1].name, "odd");
    assert_int_equal(report->jobs[1].out_of_line_count, 1);
    assert_int_equal(report->jobs[1].ranks->outliers[0].rank, 2);
    assert_int_equal(report->jobs[1].peak_reserved_bytes, 190 * MIB);
    assert_true(report->jobs[1].failure == SIZE_MAX);
    assert_string_equal(report->jobs[2].name, "good");
    assert_int_equal(report->ran_out_job_count, 1);
    assert_int_equal(report->ran_out_count, 2);
    assert_int_equal(report->rank_count, 12);
    assert_int_equal(report->recording_count, 12);
    assert_int_equal(report->text_count, 2);
    assert_true(report->is_something_to_see);
    vw_fleet_report_free(report);
}

static void the_same_failure_is_one_in_all_jobs(void **state)
{
    (void)state;
    put_log("jobs/a/rank0.log", "/home/a/train.py", 7);
    put_log("jobs/b/rank0.log", "/home/b/train.py", 9); /* another checkout, and an edit above */
    put_log("jobs/b/rank1.log", "/home/b/train.py", 9);
    put_log("jobs/c/rank0.log", "/home/c/other.py", 7);
    vw_fleet_report *report = examine(path_of("jobs"), NULL);
    assert_int_equal(report->failure_count, 2);
    assert_int_equal(report->failures[0].job_count, 2);
    assert_int_equal(report->failures[0].rank_count, 3);
    assert_string_equal(report->failures[0].job, "a");
    assert_string_equal(report->failures[0].frames[0].file, "/home/a/train.py");
    assert_int_equal(report->failures[1].job_count, 1);
    assert_string_equal(report->failures[1].job, "c");
    assert_string_equal(report->jobs[0].name, "b");
    assert_int_equal(report->jobs[0].failure, 0);
    assert_int_equal(report->jobs[2].failure, 1);
    vw_fleet_report_free(report);
}

static void jobs_are_counted_by_day(void **state)
{
    (void)state;
    char text[VW_FLEET_DAY_BYTES];
    job_folder_put(&here, "jobs/a/rank0.log",
                   "2026-03-01 23:00:00+00:00 ERROR torch.OutOfMemoryError: CUDA out of memory. "
                   "Tried to allocate 2.00 GiB.\n");
    job_folder_put(&here, "jobs/b/rank0.log",
                   "2026-03-02 01:00:00+00:00 ERROR torch.OutOfMemoryError: CUDA out of memory. "
                   "Tried to allocate 2.00 GiB.\n");
    job_folder_put(&here, "jobs/c/rank0.log", "all is well\n");
    vw_fleet_report *report = examine(path_of("jobs"), NULL);
    assert_int_equal(report->day_count, 3);
    assert_true(report->days[0].day == INT64_MIN);
    assert_string_equal(vw_fleet_day_text(report->days[0].day, text), "");
    assert_string_equal(vw_fleet_day_text(report->days[1].day, text), "2026-03-01");
    assert_string_equal(vw_fleet_day_text(report->days[2].day, text), "2026-03-02");
    assert_int_equal(report->days[2].ran_out_job_count, 1);
    vw_fleet_report_free(report);
}

static void days_have_the_dates_of_the_calendar(void **state)
{
    (void)state;
    char text[VW_FLEET_DAY_BYTES];
    assert_string_equal(vw_fleet_day_text(0, text), "1970-01-01");
    assert_string_equal(vw_fleet_day_text(-1, text), "1969-12-31");
    assert_string_equal(vw_fleet_day_text(11016, text), "2000-02-29");
    assert_string_equal(vw_fleet_day_text(11017, text), "2000-03-01");
    assert_string_equal(vw_fleet_day_text(47540, text), "2100-02-28");
    assert_string_equal(vw_fleet_day_text(47541, text), "2100-03-01");
    assert_string_equal(vw_fleet_day_text(INT64_MAX, text), "");
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void a_list_takes_the_job_from_the_folder(void **state)
{
    (void)state;
    char list[4 * PATH_MAX];
    put_jobs();
    (void)snprintf(list, sizeof list, "%s\n%s\n%s\r\n\n", path_of("jobs/good/run.rank0.json"),
                   path_of("jobs/good/run.rank1.json"), path_of("jobs/odd/run.rank2.json"));
    job_folder_put(&here, "list.txt", list);
    vw_fleet_report *report = examine(path_of("list.txt"), NULL);
    assert_int_equal(report->job_count, 2);
    assert_string_equal(report->jobs[0].name, path_of("jobs/good"));
    assert_int_equal(report->jobs[0].rank_count, 2);
    assert_int_equal(report->jobs[1].rank_count, 1);
    vw_fleet_report_free(report);
}

static void a_table_names_the_job(void **state)
{
    (void)state;
    char list[4 * PATH_MAX];
    put_jobs();
    (void)snprintf(list, sizeof list,
                   "user,job,path\nme,\"one, \"\"the first\"\"\",%s\nme,two,%s\nme,two,%s\n",
                   path_of("jobs/good/run.rank0.json"), path_of("jobs/odd/run.rank2.json"),
                   path_of("jobs/odd/run.rank2.json"));
    job_folder_put(&here, "list.csv", list);
    vw_fleet_report *report = examine(path_of("list.csv"), NULL);
    assert_int_equal(report->job_count, 2);
    assert_string_equal(report->jobs[0].name, "one, \"the first\"");
    assert_string_equal(report->jobs[1].name, "two");
    assert_int_equal(report->jobs[1].ranks->file_count, 1); /* listed twice, counted once */
    vw_fleet_report_free(report);
}

static void a_table_of_a_spreadsheet_may_begin_with_a_byte_order_mark(void **state)
{
    (void)state;
    char list[2 * PATH_MAX];
    put_jobs();
    (void)snprintf(list, sizeof list, "\xEF\xBB\xBFpath,job\r\n%s,one\r\n",
                   path_of("jobs/good/run.rank0.json"));
    job_folder_put(&here, "list.csv", list);
    vw_fleet_report *report = examine(path_of("list.csv"), NULL);
    assert_int_equal(report->job_count, 1);
    assert_string_equal(report->jobs[0].name, "one");
    assert_int_equal(report->recording_count, 1);
    vw_fleet_report_free(report);
}

static void refused(const char *name, const char *content, const char *words)
{
    vw_fleet_report *report = NULL;
    job_folder_put(&here, name, content);
    assert_int_not_equal(vw_fleet_examine(path_of(name), NULL, &report), VW_OK);
    if (strstr(vw_last_error(), words) == NULL)
        fail_msg("expected '%s' in '%s'", words, vw_last_error());
    assert_null(report);
}

static void a_list_may_name_the_folders_of_jobs(void **state)
{
    (void)state;
    char list[4 * PATH_MAX];
    put_jobs();
    (void)snprintf(list, sizeof list, "path\tjob\n%s\tx\n%s\tx\n", path_of("jobs/bad"),
                   path_of("jobs/bad"));
    job_folder_put(&here, "list.tsv", list);
    vw_fleet_report *report = examine(path_of("list.tsv"), NULL);
    assert_int_equal(report->job_count, 1); /* listed twice, counted once */
    assert_string_equal(report->jobs[0].name, "x");
    assert_int_equal(report->jobs[0].ran_out_count, 2);
    assert_int_equal(report->jobs[0].rank_count, 4);
    vw_fleet_report_free(report);
    (void)snprintf(list, sizeof list, "path\tjob\n%s\tx\n%s\tx\n", path_of("jobs/bad"),
                   path_of("jobs/good"));
    refused("folders.tsv", list, "job x: expected one folder or a list of files");
}

static void lists_that_are_wrong_are_refused_with_the_line(void **state)
{
    (void)state;
    refused("empty", "", "found no line");
    refused("header", "path,job\n", "found no line");
    refused("short", "job,path\na,/x\nb\n", "line 3: expected a path in column 2");
    refused("nameless", "path,job\n/x,\n", "line 2: expected a job in column 2");
    refused("missing", "/does/not/exist.pickle\n", "none of which can be read");
    vw_fleet_report *report = NULL;
    assert_int_equal(vw_fleet_examine(path_of("nothing"), NULL, &report), VW_ERR_FILE);
    assert_int_equal(mkdir(path_of("hollow"), 0700), 0);
    assert_int_equal(vw_fleet_examine(path_of("hollow"), NULL, &report), VW_ERR_FILE);
}

/* A hole reads as zero bytes, and takes no room on the disk. */
static void a_list_ends_at_its_first_zero_byte(void **state)
{
    (void)state;
    vw_fleet_report *report = NULL;
    job_folder_put(&here, "hole", "/a\n/b\n/c");
    assert_int_equal(truncate(path_of("hole"), (off_t)1 << 30), 0);
    assert_int_equal(vw_fleet_examine(path_of("hole"), NULL, &report), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "line 3: expected a path, found a zero byte"));
    job_folder_put(&here, "recording", "\x80\x04\x95");
    assert_int_equal(truncate(path_of("recording"), (off_t)1 << 30), 0);
    assert_int_equal(vw_fleet_examine(path_of("recording"), NULL, &report), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "expected a list of files, found a recording"));
}

static void files_beside_the_jobs_are_said(void **state)
{
    (void)state;
    put_jobs();
    job_folder_put(&here, "jobs/report.txt", "out of memory");
    vw_fleet_report *report = examine(path_of("jobs"), NULL);
    assert_int_equal(report->job_count, 3);
    assert_int_equal(report->note_count, 1);
    assert_non_null(strstr(report->notes[0], "left out: 1"));
    vw_fleet_report_free(report);
}

static void a_file_that_cannot_be_read_is_in_its_job(void **state)
{
    (void)state;
    put_jobs();
    job_folder_put(&here, "jobs/good/run.rank4.json", "{\"segments\": [, ");
    vw_fleet_report *report = examine(path_of("jobs"), NULL);
    assert_int_equal(report->unreadable_count, 1);
    assert_int_equal(report->job_count, 3);
    vw_fleet_report_free(report);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void a_file_larger_than_the_budget_is_unreadable_with_the_reason(void **state)
{
    (void)state;
    put_jobs();
    const vw_fleet_options options = {.struct_size = sizeof options, .memory_bytes = 1024};
    vw_fleet_report *report = examine(path_of("jobs"), &options);
    assert_int_equal(report->unreadable_count, 12);
    assert_int_equal(report->text_count, 2);
    const vw_rank_file *file = &report->jobs[0].ranks->files[report->jobs[0].ranks->file_count - 1];
    if (strstr(file->reason, "more memory than it may take") == NULL)
        fail_msg("%s: %s", file->path, file->reason);
    vw_fleet_report_free(report);
}

static void a_log_of_many_ranks_takes_no_more_than_the_budget(void **state)
{
    (void)state;
    enum { RANKS = 256 }; /* 160 MiB of them */
    static char text[RANKS * 32];
    size_t size = 0;
    for (int i = 0; i < RANKS; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "[rank%d]: step 1\n", i);
    job_folder_put(&here, "jobs/many/train.log", text);
    put_log("jobs/many/rank900.log", "/home/a/train.py", 7);
    vw_fleet_options options = {.struct_size = sizeof options};
    vw_fleet_report *report = examine(path_of("jobs"), &options); /* tried again with more */
    assert_int_equal(report->unreadable_count, 0);
    assert_int_equal(report->jobs[0].ranks->rank_count, RANKS + 1);
    vw_fleet_report_free(report);
    options.memory_bytes = UINT64_C(64) << 20;
    report = examine(path_of("jobs"), &options);
    assert_int_equal(report->unreadable_count, 1);
    const vw_ranks_report *ranks = report->jobs[0].ranks;
    assert_int_equal(ranks->rank_count, 1); /* the other file has the room */
    for (size_t i = 0; i < ranks->file_count; i++)
        if (ranks->files[i].kind == VW_RANK_FILE_UNREADABLE)
            assert_non_null(strstr(ranks->files[i].reason, "ranks printed takes more than the 64"));
    vw_fleet_report_free(report);
}

/* ---- states and shares ----------------------------------------------------------------------- */

static void a_state_saves_reading_again_and_changes_nothing(void **state)
{
    (void)state;
    put_jobs();
    vw_fleet_report *plain = examine(path_of("jobs"), NULL);
    vw_fleet_report *first = examine_with_state(path_of("jobs"), path_of("state"));
    vw_fleet_report *second = examine_with_state(path_of("jobs"), path_of("state"));
    assert_int_equal(first->examined_count, first->unit_count);
    assert_int_equal(first->unit_count, 15); /* twelve recordings, and the texts of three jobs */
    assert_int_equal(second->examined_count, 0);
    assert_same(plain, first);
    assert_same(plain, second);
    vw_fleet_report_free(plain);
    vw_fleet_report_free(first);
    vw_fleet_report_free(second);
}

static void a_state_among_the_jobs_is_not_a_job(void **state)
{
    (void)state;
    put_jobs();
    job_folder_put(&here, "jobs/good/report.part", "the job's own"); /* which is a job still */
    vw_fleet_report *first = examine_with_state(path_of("jobs"), path_of("jobs/state"));
    vw_fleet_report *second = examine_with_state(path_of("jobs"), path_of("jobs/state"));
    assert_int_equal(second->job_count, 3);
    assert_int_equal(second->examined_count, 0);
    assert_same(first, second);
    vw_fleet_report_free(first);
    vw_fleet_report_free(second);
}

static void only_what_has_changed_is_read_again(void **state)
{
    (void)state;
    put_jobs();
    vw_fleet_report_free(examine_with_state(path_of("jobs"), path_of("state")));
    job_folder_put_snapshot(&here, "jobs/good/run.rank0.json", (job_snapshot){1000, 2, 0, "a:b"});
    job_folder_put_snapshot(&here, "jobs/good/run.rank4.json", (job_snapshot){100, 20, 0, "a:b"});
    assert_int_equal(unlink(path_of("jobs/odd/run.rank2.json")), 0);
    vw_fleet_report *report = examine_with_state(path_of("jobs"), path_of("state"));
    vw_fleet_report *plain = examine(path_of("jobs"), NULL);
    assert_int_equal(report->examined_count, 4); /* two files; the names of two jobs' files */
    assert_same(plain, report);
    vw_fleet_report_free(report);
    vw_fleet_report_free(plain);
}

/* What failed for lack of memory is tried again: the message says to allow more. */
static void a_state_does_not_keep_what_failed_for_lack_of_memory(void **state)
{
    (void)state;
    put_jobs();
    job_folder_put(&here, "jobs/good/run.rank4.json", "{\"segments\": [, ");
    const vw_fleet_options little = {
        .struct_size = sizeof little, .state_folder = path_of("state"), .memory_bytes = 1024};
    vw_fleet_report *first = examine(path_of("jobs"), &little);
    vw_fleet_report *second = examine_with_state(path_of("jobs"), path_of("state"));
    vw_fleet_report *third = examine_with_state(path_of("jobs"), path_of("state"));
    assert_int_equal(first->unreadable_count, 13);
    assert_int_equal(second->unreadable_count, 1);
    assert_int_equal(third->unreadable_count, 1);
    assert_int_equal(third->examined_count, 0); /* a damaged file stays damaged */
    assert_same(second, third);
    vw_fleet_report_free(first);
    vw_fleet_report_free(second);
    vw_fleet_report_free(third);
}

/* Cuts the last bytes off, as a process does that is killed while it writes. */
static void a_state_that_ends_in_the_middle_of_a_record_goes_on(void **state)
{
    (void)state;
    struct stat found;
    put_jobs();
    vw_fleet_report *plain = examine(path_of("jobs"), NULL);
    vw_fleet_report_free(examine_with_state(path_of("jobs"), path_of("state")));
    const char *part = path_of("state/report.part");
    assert_int_equal(stat(part, &found), 0);
    assert_int_equal(truncate(part, found.st_size - 5), 0);
    vw_fleet_report *report = examine_with_state(path_of("jobs"), path_of("state"));
    assert_int_equal(report->examined_count, 1);
    assert_same(plain, report);
    vw_fleet_report_free(report);
    vw_fleet_report_free(plain);
}

/* A state with a record of so many nameless files for each of `count` units, of one job or many. */
static void put_state(uint64_t count, uint32_t file_count, bool has_many_jobs)
{
    enum { FILE_BYTES = 25 };
    vw__fleet_parts parts;
    vw__byte_buffer units, record;
    vw__fleet_parts_init(&parts, &vw__fleet_part_of_report);
    vw__byte_buffer_init(&units);
    vw__byte_buffer_init(&record);
    vw__append_u32_le(&record, file_count);
    for (size_t i = 0; i < FILE_BYTES * (size_t)file_count; i++)
        vw__append_u8(&record, 0);
    vw__append_bytes(&record, "\0\0\0\0\0\0\0\0", 8); /* no accounts, no notes */
    assert_int_equal(vw__fleet_parts_open_state(&parts, path_of("large")), VW_OK);
    for (uint64_t i = 0; i < count; i++) {
        const char name[] = {(char)('a' + i), '\0'}, *job = has_many_jobs ? name : "job";
        vw__fleet_parts_put_listed(&units, &(vw__fleet_part_listed){job, "", name});
        assert_int_equal(vw__fleet_parts_write_unit(&parts, job, name, 1, &record), VW_OK);
    }
    assert_int_equal(
        vw__fleet_parts_write_list(&parts, &(vw__fleet_part_list){.unit_count = count}, &units),
        VW_OK);
    vw__byte_buffer_deinit(&record);
    vw__byte_buffer_deinit(&units);
    vw__fleet_parts_deinit(&parts);
}

static void assert_merged_above(uint64_t enough_bytes, const char *refusal)
{
    const char *const states[] = {path_of("large")};
    vw_fleet_report *merged = NULL;
    vw_reading_limit_set(100 << 20);
    assert_int_equal(vw_fleet_merge(states, 1, &merged), VW_ERR_UNSUPPORTED);
    if (strstr(vw_last_error(), refusal) == NULL)
        fail_msg("%s", vw_last_error());
    vw_reading_limit_set(enough_bytes);
    assert_int_equal(vw_fleet_merge(states, 1, &merged), VW_OK);
    vw_reading_limit_set(0);
    vw_fleet_report_free(merged);
}

static void records_of_a_job_are_counted_together(void **state)
{
    (void)state;
    put_state(4, (8 << 20) / 25, false);
    assert_merged_above(400 << 20,
                        "job job: records of 32.0 MiB in a state take more than 100 MiB");
}

static void reports_of_all_jobs_are_counted_together(void **state)
{
    (void)state;
    put_state(16, (4 << 20) / 25, true);
    assert_merged_above(800 << 20, "that are left of the memory for reading; --max-memory");
}

/* A file of a few blocks may claim a record of half a GiB. */
static void a_record_larger_than_reading_may_take_is_refused(void **state)
{
    (void)state;
    put_jobs();
    const char *folder = path_of("state"), *part = path_of("state/report.part");
    const vw_fleet_options options = {.struct_size = sizeof options, .state_folder = folder};
    vw_fleet_report *report = NULL;
    job_folder_put(&here, "state/report.part", "vramwise part 2\n");
    assert_int_equal(truncate(part, 128 << 20), 0);
    int file = open(part, O_WRONLY);
    assert_int_equal(pwrite(file, "\0\0\0\4", 4, 16), 4); /* 64 MiB */
    close(file);
    vw_reading_limit_set(200 << 20);
    assert_int_equal(vw_fleet_examine(path_of("jobs"), &options, &report), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "records of 64.0 MiB in a state take more than "
                                            "200 MiB of memory; --max-memory allows more"));
    vw_reading_limit_set(0);
    vw_fleet_report_free(examine_with_state(path_of("jobs"), folder)); /* which is cut short */
}

/* Every byte of a state changed, one after the other: the report is right, or the state refused. */
static void a_damaged_state_never_changes_the_report(void **state)
{
    (void)state;
    job_folder_put_snapshot(&here, "jobs/a/run.rank0.json", (job_snapshot){100, 20, 0, "a:b"});
    put_log("jobs/a/rank1.log", "train.py", 3);
    vw_fleet_report *plain = examine(path_of("jobs"), NULL);
    vw_fleet_report_free(examine_with_state(path_of("jobs"), path_of("state")));
    const char *part = path_of("state/report.part"), *source = path_of("jobs"),
               *folder = path_of("state");
    struct stat found;
    assert_int_equal(stat(part, &found), 0);
    for (off_t i = 0; i < found.st_size; i += 3) {
        const vw_fleet_options options = {.struct_size = sizeof options, .state_folder = folder};
        vw_fleet_report *report = NULL;
        char byte;
        int file = open(part, O_RDWR);
        assert_int_equal(pread(file, &byte, 1, i), 1);
        byte ^= 0x41;
        assert_int_equal(pwrite(file, &byte, 1, i), 1);
        close(file);
        if (vw_fleet_examine(source, &options, &report) == VW_OK) {
            assert_same(plain, report);
            vw_fleet_report_free(report);
        } else {
            assert_int_equal(unlink(part), 0);
            vw_fleet_report_free(examine_with_state(source, folder));
        }
        assert_int_equal(stat(part, &found), 0);
    }
    vw_fleet_report_free(plain);
}

static void a_state_in_use_is_left_alone(void **state)
{
    (void)state;
    put_jobs();
    const char *folder = path_of("state");
    const vw_fleet_options options = {.struct_size = sizeof options, .state_folder = folder};
    vw_fleet_report_free(examine_with_state(path_of("jobs"), folder));
    int file = open(path_of("state/report.part"), O_RDWR);
    assert_int_equal(flock(file, LOCK_EX), 0);
    vw_fleet_report *report = NULL;
    assert_int_equal(vw_fleet_examine(path_of("jobs"), &options, &report), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "another process is using it"));
    close(file);
}

static void a_file_that_is_no_state_is_not_overwritten(void **state)
{
    (void)state;
    put_jobs();
    const char *folder = path_of("state");
    const vw_fleet_options options = {.struct_size = sizeof options, .state_folder = folder};
    vw_fleet_report *report = NULL;
    job_folder_put(&here, "state/report.part", "somebody's own words");
    assert_int_equal(vw_fleet_examine(path_of("jobs"), &options, &report), VW_ERR_CORRUPT_FILE);
    struct stat found;
    assert_int_equal(stat(path_of("state/report.part"), &found), 0);
    assert_int_equal(found.st_size, strlen("somebody's own words"));
}

static void do_share(unsigned share, unsigned shares, const char *folder)
{
    const vw_fleet_options options = {.struct_size = sizeof options,
                                      .state_folder = folder,
                                      .share = share,
                                      .shares = shares,
                                      .thread_count = share};
    vw_fleet_report *report = examine(path_of("jobs"), &options);
    assert_int_equal(report->job_count, 0);
    assert_int_equal(report->unit_count, 15);
    assert_in_range(report->share_count, 3, 4);
    vw_fleet_report_free(report);
}

static void shares_merged_in_any_order_are_the_whole(void **state)
{
    (void)state;
    const char *const states[] = {path_of("s4"), path_of("s2"), path_of("s1"), path_of("s3"),
                                  path_of("s2again")};
    vw_fleet_report *merged = NULL;
    put_jobs();
    vw_fleet_report *plain = examine(path_of("jobs"), NULL);
    for (unsigned i = 1; i <= 4; i++)
        do_share(i, 4, states[i == 1 ? 2 : i == 2 ? 1 : i == 3 ? 3 : 0]);
    assert_int_equal(vw_fleet_merge(states, 3, &merged), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "have no result"));
    assert_int_equal(vw_fleet_merge(states, 4, &merged), VW_OK);
    assert_same(plain, merged);
    vw_fleet_report_free(merged);
    do_share(2, 4, states[4]); /* as after a worker that was thought dead */
    assert_int_equal(vw_fleet_merge(states, 5, &merged), VW_OK);
    assert_same(plain, merged);
    vw_fleet_report_free(merged);
    vw_fleet_report_free(plain);
}

static void what_one_share_could_not_read_another_may_have_read(void **state)
{
    (void)state;
    vw_fleet_report *merged = NULL;
    put_jobs();
    vw_fleet_report *plain = examine(path_of("jobs"), NULL);
    const vw_fleet_options little = {
        .struct_size = sizeof little, .state_folder = path_of("little"), .memory_bytes = 1024};
    vw_fleet_report_free(examine(path_of("jobs"), &little));
    vw_fleet_report_free(examine_with_state(path_of("jobs"), path_of("much")));
    const char *const orders[][2] = {{path_of("little"), path_of("much")},
                                     {path_of("much"), path_of("little")}};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(vw_fleet_merge(orders[i], 2, &merged), VW_OK);
        assert_same(plain, merged);
        vw_fleet_report_free(merged);
    }
    vw_fleet_report_free(plain);
}

static void states_of_different_lists_are_not_merged(void **state)
{
    (void)state;
    const char *const states[] = {path_of("s1"), path_of("s2")};
    vw_fleet_report *report = NULL;
    put_jobs();
    do_share(1, 4, states[0]);
    job_folder_put_snapshot(&here, "jobs/new/run.rank0.json", (job_snapshot){1, 2, 0, NULL});
    vw_fleet_report_free(examine_with_state(path_of("jobs"), states[1]));
    assert_int_equal(vw_fleet_merge(states, 2, &report), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "another list of files"));
    const vw_fleet_options other = {
        .struct_size = sizeof other, .state_folder = states[0], .torch_version = "2.4"};
    vw_fleet_report_free(examine(path_of("jobs"), &other));
    assert_int_equal(vw_fleet_merge(states, 2, &report), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "--torch"));
    const char *const nothing[] = {path_of("jobs")};
    assert_int_equal(vw_fleet_merge(nothing, 1, &report), VW_ERR_FILE);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    vw_fleet_report *report = NULL;
    put_jobs();
    const vw_fleet_options wrong[] = {
        {.struct_size = sizeof *wrong, .share = 1, .shares = 2},
        {.struct_size = sizeof *wrong, .share = 3, .shares = 2, .state_folder = path_of("s")},
        {.struct_size = sizeof *wrong, .share = 0, .shares = 2, .state_folder = path_of("s")},
        {.struct_size = sizeof *wrong, .torch_version = "0.1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(vw_fleet_examine(path_of("jobs"), &wrong[i], &report),
                         VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_fleet_merge(NULL, 0, &report), VW_ERR_INVALID_ARGUMENT);
}

static bool stop(void *context, double done)
{
    (void)context;
    (void)done;
    return false;
}

static void the_caller_can_stop_it_and_keeps_what_was_done(void **state)
{
    (void)state;
    vw_fleet_report *report = NULL;
    put_jobs();
    const vw_fleet_options options = {.struct_size = sizeof options,
                                      .state_folder = path_of("state"),
                                      .progress = stop,
                                      .thread_count = 1};
    assert_int_equal(vw_fleet_examine(path_of("jobs"), &options, &report), VW_ERR_WRONG_STATE);
    report = examine_with_state(path_of("jobs"), path_of("state"));
    assert_int_equal(report->job_count, 3);
    vw_fleet_report_free(report);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void names_on_the_page_are_texts(void **state)
{
    (void)state;
    put_log("jobs/<script>alert(1)<\\script>/rank0.log", "/home/<b>&\"/train.py", 7);
    vw_fleet_report *report = examine(path_of("jobs"), NULL);
    vw__byte_buffer page;
    vw__byte_buffer_init(&page);
    const vw_output output = {&page, append_piece};
    assert_int_equal(vw_report_fleet_page(report, &output), VW_OK);
    assert_null(strstr(vw__byte_buffer_text(&page), "<script"));
    assert_null(strstr(vw__byte_buffer_text(&page), "<b>"));
    assert_non_null(strstr(vw__byte_buffer_text(&page), "&lt;script&gt;alert"));
    assert_non_null(strstr(vw__byte_buffer_text(&page), "&lt;b&gt;&amp;&quot;"));
    vw__byte_buffer_deinit(&page);
    vw_fleet_report_free(report);
}

/* ---- failures of the host -------------------------------------------------------------------- */

static const char *sweep_source, *sweep_states[2];

/* One thread, so that the n-th allocation is always the same. */
static bool examines_and_merges(void *context)
{
    vw_fleet_report *report = NULL;
    bool is_done = true;
    (void)context;
    for (unsigned i = 1; is_done && i <= 2; i++) {
        const vw_fleet_options options = {.struct_size = sizeof options,
                                          .state_folder = sweep_states[i - 1],
                                          .share = i,
                                          .shares = 2,
                                          .thread_count = 1};
        is_done = vw_fleet_examine(sweep_source, &options, &report) == VW_OK;
        if (is_done)
            vw_fleet_report_free(report);
    }
    is_done = is_done && vw_fleet_merge(sweep_states, 2, &report) == VW_OK;
    if (is_done) {
        assert_int_equal(report->job_count, 1);
        vw_fleet_report_free(report);
    }
    for (size_t i = 0; i < 2; i++) {
        char part[PATH_MAX];
        (void)snprintf(part, sizeof part, "%s/report.part", sweep_states[i]);
        (void)unlink(part);
    }
    return is_done;
}

static void running_out_of_host_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    job_folder_put_snapshot(&here, "jobs/a/run.rank0.json", (job_snapshot){100, 20, 0, "a:b"});
    put_log("jobs/a/rank1.log", "train.py", 3);
    sweep_source = path_of("jobs");
    sweep_states[0] = path_of("s1");
    sweep_states[1] = path_of("s2");
    vw_test_sweep_host_memory(examines_and_merges, NULL);
}

int main(void)
{
#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(the_worst_job_is_first),
        IN_A_FOLDER(the_same_failure_is_one_in_all_jobs),
        IN_A_FOLDER(jobs_are_counted_by_day),
        cmocka_unit_test(days_have_the_dates_of_the_calendar),
        IN_A_FOLDER(a_list_takes_the_job_from_the_folder),
        IN_A_FOLDER(a_table_names_the_job),
        IN_A_FOLDER(a_table_of_a_spreadsheet_may_begin_with_a_byte_order_mark),
        IN_A_FOLDER(a_list_may_name_the_folders_of_jobs),
        IN_A_FOLDER(lists_that_are_wrong_are_refused_with_the_line),
        IN_A_FOLDER(a_list_ends_at_its_first_zero_byte),
        IN_A_FOLDER(files_beside_the_jobs_are_said),
        IN_A_FOLDER(a_file_that_cannot_be_read_is_in_its_job),
        IN_A_FOLDER(a_file_larger_than_the_budget_is_unreadable_with_the_reason),
        IN_A_FOLDER(a_log_of_many_ranks_takes_no_more_than_the_budget),
        IN_A_FOLDER(a_state_saves_reading_again_and_changes_nothing),
        IN_A_FOLDER(a_state_among_the_jobs_is_not_a_job),
        IN_A_FOLDER(only_what_has_changed_is_read_again),
        IN_A_FOLDER(a_state_does_not_keep_what_failed_for_lack_of_memory),
        IN_A_FOLDER(a_state_that_ends_in_the_middle_of_a_record_goes_on),
        IN_A_FOLDER(a_record_larger_than_reading_may_take_is_refused),
        IN_A_FOLDER(records_of_a_job_are_counted_together),
        IN_A_FOLDER(reports_of_all_jobs_are_counted_together),
        IN_A_FOLDER(a_damaged_state_never_changes_the_report),
        IN_A_FOLDER(a_state_in_use_is_left_alone),
        IN_A_FOLDER(a_file_that_is_no_state_is_not_overwritten),
        IN_A_FOLDER(shares_merged_in_any_order_are_the_whole),
        IN_A_FOLDER(what_one_share_could_not_read_another_may_have_read),
        IN_A_FOLDER(states_of_different_lists_are_not_merged),
        IN_A_FOLDER(wrong_options_are_refused),
        IN_A_FOLDER(the_caller_can_stop_it_and_keeps_what_was_done),
        IN_A_FOLDER(names_on_the_page_are_texts),
        IN_A_FOLDER(running_out_of_host_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
