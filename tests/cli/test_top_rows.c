/* test_top_rows.c - filters, orders, and a row that is found again. */
#include "cli/top_rows.h"

#include "support/cmocka_here.h"
#include "support/made_up_machine.h"

enum { ROWS = 4 };

static made_up_machine made;
static vw_machine_row machine_rows[ROWS];
static vw_gpu gpu;
static top_history history;
static top_rows rows;

/* Two processes on a GPU, of which one has a page; two jobs on none. */
static int make(void **state)
{
    static const char *const commands[ROWS] = {"Xorg", "train.py", "eval.py", "train_old.py"};
    (void)state;
    made_up_machine_make(&made, MADE_UP_SECOND_NS);
    gpu = made_up_gpu(2, "H200");
    for (int i = 0; i < ROWS; i++) {
        machine_rows[i] = made.row;
        machine_rows[i].process = 100 + i;
        machine_rows[i].place = i < 2 ? VW_ROW_ON_GPU : VW_ROW_ON_NO_GPU;
        machine_rows[i].gpu = i < 2 ? &gpu : NULL;
        snprintf(machine_rows[i].command, sizeof machine_rows[i].command, "%s", commands[i]);
    }
    machine_rows[0].job = NULL;
    machine_rows[0].device = NULL;
    made.machine.rows = machine_rows;
    made.machine.row_count = ROWS;
    return top_rows_fill(&rows, NULL, &made.machine, &history) == VW_OK ? 0 : -1;
}

static int drop(void **state)
{
    (void)state;
    top_rows_free(&rows);
    return 0;
}

static int compare_process(int column, const top_row *one, const top_row *other)
{
    assert_int_equal(column, 5);
    return (one->row->process > other->row->process) - (one->row->process < other->row->process);
}

static int compare_nothing(int column, const top_row *one, const top_row *other)
{
    (void)column, (void)one, (void)other;
    return 0;
}

static void arrange(const char *filter, bool is_falling)
{
    const top_order order = {compare_process, 5, is_falling, false};
    top_rows_arrange(&rows, filter, &order);
}

static void rows_on_a_gpu_come_first_in_either_order(void **state)
{
    static const long falling[ROWS] = {101, 100, 103, 102};
    (void)state;
    arrange("", true);
    assert_int_equal(rows.count, ROWS);
    assert_int_equal(rows.on_gpu_count, 2);
    for (size_t i = 0; i < ROWS; i++)
        assert_int_equal(rows.items[i].row->process, falling[i]);
    assert_int_equal(rows.job_count, 1);
}

static void equals_stay_in_the_machines_order(void **state)
{
    const top_order order = {compare_nothing, 0, true, false};
    (void)state;
    top_rows_arrange(&rows, "", &order);
    for (size_t i = 0; i < ROWS; i++)
        assert_int_equal(rows.items[i].row->process, 100 + (int)i);
}

static void filters_find_programs_numbers_gpus_jobs_and_notes(void **state)
{
    static const struct {
        const char *filter;
        size_t count;
    } cases[] = {{"TRAIN", 2}, {"102", 1},    {"gpu2", 2},    {"GPU3", 0},
                 {"xorg", 1},  {"slurm7", 3}, {"version", 3}, {"10", 4}};
    snprintf(made.job.job, sizeof made.job.job, "slurm7");
    made.job.state = VW_JOB_OTHER_VERSION;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        drop(state);
        assert_int_equal(top_rows_fill(&rows, NULL, &made.machine, &history), VW_OK);
        arrange(cases[i].filter, false);
        assert_int_equal(rows.count, cases[i].count);
    }
}

static void a_row_is_found_again_by_process_device_and_gpu(void **state)
{
    (void)state;
    arrange("", false);
    top_key key = top_row_key(&rows.items[1]);
    assert_int_equal(key.process, 101);
    assert_int_equal(key.device, 0);
    assert_int_equal(key.gpu, 2);
    arrange("", true);
    assert_int_equal(top_rows_find(&rows, &key), 0);
    key.gpu = 1;
    assert_int_equal(top_rows_find(&rows, &key), rows.count);
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* Six processes on a GPU: of job "a" ranks 2, 0 and 1, of job "b" ranks 1 and 0, and one of none.
 */
static void ranks_of_a_job_stand_together_where_the_first_of_them_would(void **state)
{
    static const struct {
        const char *job;
        int rank;
    } who[] = {{"a", 2}, {"", 0}, {"b", 1}, {"a", 0}, {"b", 0}, {"a", 1}};
    enum { COUNT = sizeof who / sizeof who[0] };
    static const long expected[COUNT] = {103, 105, 100, 101, 104, 102};
    static const size_t counts[COUNT] = {3, 3, 3, 1, 2, 2};
    static vw_machine_row many[COUNT];
    static vw_job jobs[COUNT];
    const top_order order = {compare_process, 5, false, true};
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        many[i] = machine_rows[1];
        many[i].process = 100 + i;
        jobs[i] = *machine_rows[1].job;
        jobs[i].rank = who[i].rank;
        snprintf(jobs[i].job, sizeof jobs[i].job, "%s", who[i].job);
        jobs[i].run[0] = '\0';
        many[i].job = &jobs[i];
    }
    made.machine.rows = many;
    made.machine.row_count = COUNT;
    assert_int_equal(top_rows_fill(&rows, NULL, &made.machine, &history), VW_OK);
    top_rows_arrange(&rows, "", &order);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(rows.items[i].row->process, expected[i]);
        assert_int_equal(rows.items[i].group_count, counts[i]);
        assert_int_equal(rows.items[i].is_first_of_group, i == 0 || i == 3 || i == 4);
        assert_int_equal(rows.items[i].is_last_of_group, i == 2 || i == 3 || i == 5);
    }
    top_rows_arrange(&rows, "", &(top_order){compare_process, 5, true, false});
    assert_int_equal(rows.items[0].row->process, 105);
    assert_int_equal(rows.items[0].group_count, 1);
}

int main(void)
{
#define OF_FOUR(test) cmocka_unit_test_setup_teardown(test, make, drop)
    const struct CMUnitTest tests[] = {
        OF_FOUR(rows_on_a_gpu_come_first_in_either_order),
        OF_FOUR(equals_stay_in_the_machines_order),
        OF_FOUR(filters_find_programs_numbers_gpus_jobs_and_notes),
        OF_FOUR(a_row_is_found_again_by_process_device_and_gpu),
        cmocka_unit_test_setup_teardown(ranks_of_a_job_stand_together_where_the_first_of_them_would,
                                        make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
