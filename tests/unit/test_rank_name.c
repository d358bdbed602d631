/* test_rank_name.c - whose file it is, by its name. */
#include "ranks/rank_files.h"

#include <string.h>

#include "support/cmocka_here.h"

static void assert_rank(const char *path, uint64_t rank)
{
    vw__ranks_name found = vw__ranks_of_path(path);
    if (!found.is_known || found.rank != rank)
        fail_msg("%s: expected rank %llu, found %s %llu", path, (unsigned long long)rank,
                 found.is_known ? "rank" : "none, not", (unsigned long long)found.rank);
}

static void assert_none(const char *path)
{
    vw__ranks_name found = vw__ranks_of_path(path);
    if (found.is_known)
        fail_msg("%s: expected no rank, found %llu", path, (unsigned long long)found.rank);
}

static void names_of_vramwise_run_have_a_rank(void **state)
{
    (void)state;
    assert_rank("vramwise-oom-train-812-rank3.pickle", 3);
    assert_rank("vramwise-oom-train-812-rank12-2.pickle", 12);
    assert_rank("run.rank3.pickle", 3);
    assert_rank("run.rank3.pid1234.pickle", 3);
    assert_rank("deep/er/run.rank0.steps.jsonl", 0);
    assert_rank("lora_rank16.rank3.pickle", 3);
    assert_rank("low_rank_16.rank3.pid7.pickle", 3);
}

static void names_people_give_have_a_rank(void **state)
{
    (void)state;
    assert_rank("snapshot_rank_7.pickle", 7);
    assert_rank("rank7_snapshot.pickle.gz", 7);
    assert_rank("Rank-07.pickle", 7);
    assert_rank("mem_rank=11.json", 11);
    assert_rank("mem_r3.pickle", 3);
    assert_rank("mem.r3.pickle", 3);
    assert_rank("log-task5.txt", 5);
    assert_rank("rank999999.pickle", 999999);
}

static void names_of_slurm_have_a_task(void **state)
{
    (void)state;
    assert_rank("slurm-4711-12.out", 12);
    assert_rank("slurm-4711-12.out.gz", 12);
    assert_none("slurm-4711.out");
    assert_none("slurm-x_3.out");
    assert_none("slurm-4711_3");
}

static void assert_array(const char *path, const char *array)
{
    vw__ranks_name found = vw__ranks_of_path(path);
    size_t length = array != NULL ? strlen(array) : 0;
    if ((found.array != NULL) != (array != NULL) || found.array_bytes != length ||
        (array != NULL && memcmp(found.array, array, length) != 0))
        fail_msg("%s: expected task %s, found %.*s", path, array != NULL ? array : "none",
                 (int)found.array_bytes, found.array != NULL ? found.array : "");
}

static void a_task_of_an_array_of_slurm_is_no_rank(void **state)
{
    (void)state;
    assert_none("slurm-4711_3.out");
    assert_array("slurm-4711_3.out", "4711_3");
    assert_array("deep/er/slurm-4711_3.out.gz", "4711_3");
    assert_rank("slurm-4711_3-12.out", 12);
    assert_array("slurm-4711_3-12.out", "4711_3");
    assert_rank("slurm-4711_3.rank7.log", 7);
    assert_array("slurm-4711_3.rank7.log", "4711_3");
    assert_rank("rank2/slurm-4711_3.out", 2);
    assert_array("slurm-4711-12.out", NULL);
    assert_array("slurm-4711.out", NULL);
    assert_array("slurm-4711_3x.out", NULL);
    assert_array("slurm-4711_3", NULL);
    assert_rank("slurm-4711-12.rank5x.out", 12);
}

static void folders_of_torchrun_have_the_rank_on_the_machine(void **state)
{
    (void)state;
    vw__ranks_name found = vw__ranks_of_path("job_x8s/attempt_0/5/stderr.log");
    assert_true(found.is_known);
    assert_true(found.is_local);
    assert_int_equal(found.rank, 5);
    assert_int_equal(found.run_bytes, 7);
    assert_rank("attempt_1/2/stdout.log", 2);
    assert_none("attempt_1/two/stdout.log");
    assert_none("5/stderr.log");
    found = vw__ranks_of_path("job_x8s/attempt_0/5/memory.rank21.pickle");
    assert_int_equal(found.rank, 21);
    assert_false(found.is_local);
}

static void a_folder_named_after_a_rank_will_do(void **state)
{
    (void)state;
    assert_rank("rank3/memory.pickle", 3);
    assert_rank("rank3/inner/memory.pickle", 3);
    assert_rank("rank3/rank4/memory.pickle", 4);
    assert_none("low_rank16/memory.pickle");
}

static void other_words_and_numbers_are_no_rank(void **state)
{
    (void)state;
    assert_none("memory.pickle");
    assert_none("frank3.pickle");
    assert_none("rank.pickle");
    assert_none("rank3b.pickle");
    assert_none("rank1234567.pickle");
    assert_none("rank99999999999999999999999.pickle");
    assert_none("checkpoint-r12b.pickle");
    assert_none("over4.pickle");
    assert_none("lora_rank16.pickle");
    assert_none("lora-rank16/run.pickle");
    assert_none("");
    assert_none("/");
}

static void logs_are_known_by_their_endings(void **state)
{
    (void)state;
    static const char *const logs[] = {"a.log",         "a.OUT",     "x/a.err",
                                       "stdout",        "a.txt.gz",  "error.json",
                                       "a.steps.jsonl", "a.csv.zst", "stderr.xz"};
    static const char *const others[] = {"a.py",     "config.json", "log",
                                         "a.pickle", "x.log/a.bin", ""};
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++)
        if (!vw__ranks_is_log_name(logs[i]))
            fail_msg("%s is called as a log is", logs[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (vw__ranks_is_log_name(others[i]))
            fail_msg("%s is not called as a log is", others[i]);
    assert_true(vw__ranks_is_failure_name("job/vramwise-oom-train-1.pickle"));
    assert_false(vw__ranks_is_failure_name("vramwise-oom-/train.pickle"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_vramwise_run_have_a_rank),
        cmocka_unit_test(names_people_give_have_a_rank),
        cmocka_unit_test(names_of_slurm_have_a_task),
        cmocka_unit_test(a_task_of_an_array_of_slurm_is_no_rank),
        cmocka_unit_test(folders_of_torchrun_have_the_rank_on_the_machine),
        cmocka_unit_test(a_folder_named_after_a_rank_will_do),
        cmocka_unit_test(other_words_and_numbers_are_no_rank),
        cmocka_unit_test(logs_are_known_by_their_endings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
