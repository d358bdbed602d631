/* test_doctor_process.c - what the doctor says of processes that publish nothing. */
#include "vramwise/process.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/made_up_machine.h"
#include "support/screen_check.h"

#define GIB (UINT64_C(1) << 30)

enum { PROCESS = 4711, OTHERS = 10 };

/* A process on GPU 0 of two with 24 GiB, with nobody beside it. */
typedef struct made {
    vw_process process;
    vw_machine machine;
    vw_gpu gpus[2];
    vw_machine_row rows[1 + OTHERS];
} made;

static void make(made *out)
{
    memset(out, 0, sizeof *out);
    out->process = (vw_process){
        .process = PROCESS,
        .command = "python3 train.py",
        .is_typable = true,
        .executable = "/usr/bin/python3.11",
        .age_seconds = 7200,
        .resident_bytes = 3 * GIB,
        .machine_total_bytes = 64 * GIB,
        .machine_available_bytes = 32 * GIB,
        .thread_count = 40,
        .running_count = 1,
        .child_count = 4,
        .is_environment_known = true,
        .variables = {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}},
        .variable_count = 1,
        .are_libraries_known = true,
        .frameworks = {"PyTorch"},
        .framework_count = 1,
        .python_major = 3,
        .python_minor = 11,
    };
    for (int i = 0; i < 2; i++) {
        out->gpus[i] = made_up_gpu(i, "NVIDIA A10");
        out->gpus[i].total_bytes = 24 * GIB;
        out->gpus[i].used_bytes = i == 0 ? 4 * GIB : 0;
        out->gpus[i].free_bytes = out->gpus[i].total_bytes - out->gpus[i].used_bytes;
    }
    out->rows[0] = (vw_machine_row){.process = PROCESS,
                                    .gpu = &out->gpus[0],
                                    .command = "python3 train.py",
                                    .process_bytes = 4 * GIB};
    out->machine =
        (vw_machine){.gpus = out->gpus, .gpu_count = 2, .rows = out->rows, .row_count = 1};
}

static void take(made *out, uint64_t used_bytes)
{
    out->gpus[0].used_bytes = used_bytes;
    out->gpus[0].free_bytes = out->gpus[0].total_bytes - used_bytes;
}

static vw_diagnosis *diagnose_on(const made *one, uint64_t card_bytes)
{
    const vw_doctor_options options = {.struct_size = sizeof options, .card_bytes = card_bytes};
    vw_diagnosis *found = NULL;
    assert_int_equal(vw_doctor_process(&one->process, &one->machine, &options, &found), VW_OK);
    assert_true(found->is_running);
    assert_int_equal(found->source, VW_SOURCE_PROCESS);
    assert_true(found->reasoning_count > 0);
    assert_string_equal(found->findings[0].kind, vw_verdict_name(found->verdict));
    assert_fits_screen(found, "process 4711");
    return found;
}

static vw_diagnosis *diagnose(const made *one)
{
    return diagnose_on(one, 0);
}

static const vw_finding *finding_of(const vw_diagnosis *diagnosis, const char *kind)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        if (strcmp(diagnosis->findings[i].kind, kind) == 0)
            return &diagnosis->findings[i];
    return NULL;
}

static bool has_evidence(const vw_diagnosis *diagnosis, const char *kind, const char *words)
{
    const vw_finding *finding = finding_of(diagnosis, kind);
    assert_non_null(finding);
    for (size_t i = 0; i < finding->evidence_count; i++)
        if (strstr(finding->evidence[i], words) != NULL)
            return true;
    return false;
}

static bool has_remedy(const vw_diagnosis *diagnosis, const char *kind, const char *how)
{
    const vw_finding *finding = finding_of(diagnosis, kind);
    for (size_t i = 0; finding != NULL && i < finding->remedy_count; i++)
        if (strstr(finding->remedies[i].how, how) != NULL)
            return true;
    return false;
}

static void the_facts_are_told_and_what_would_tell_more(void **state)
{
    made one;
    (void)state;
    make(&one);
    vw_diagnosis *found = diagnose(&one);
    assert_int_equal(found->verdict, VW_VERDICT_UNKNOWN);
    assert_non_null(strstr(found->sentence, "GPU 0 has 20.00 GiB of 24.00 GiB free"));
    assert_non_null(
        strstr(found->sentence, "4.00 GiB are held by process 4711 (python3 train.py)"));
    assert_int_equal(found->numbers.process_bytes, 4 * GIB);
    assert_int_equal(found->numbers.total_bytes, 24 * GIB);
    assert_int_equal(found->numbers.allocated_bytes, VW_UNKNOWN);
    assert_true(has_evidence(found, "process", "Runs for 2"));
    assert_true(has_evidence(found, "process", "Loaded: PyTorch."));
    assert_true(has_evidence(found, "process", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
    assert_true(has_evidence(found, "process", "3.00 GiB; the machine has 32.00 GiB of 64.00 GiB"));
    assert_true(has_evidence(found, "process",
                             "40 threads (1 at work, 0 waiting for a disk); 4 "
                             "child processes."));
    assert_true(has_remedy(found, "unknown", "vramwise.torch.publish()"));
    assert_true(has_remedy(found, "unknown", "vramwise run python3 train.py"));
    vw_diagnosis_free(found);
}

/* Pasted without its quotes, it would be another command. */
static void a_command_that_needs_quotes_is_not_offered_to_be_typed(void **state)
{
    made one;
    (void)state;
    make(&one);
    snprintf(one.process.command, sizeof one.process.command, "python3 -c import time; f()");
    one.process.is_typable = false;
    vw_diagnosis *found = diagnose(&one);
    assert_true(has_remedy(found, "unknown", "vramwise run COMMAND"));
    assert_false(has_remedy(found, "unknown", "import time"));
    vw_diagnosis_free(found);
}

static void a_process_without_a_gpu_library_is_said_to_be_one(void **state)
{
    made one;
    (void)state;
    make(&one);
    one.process.framework_count = 0;
    vw_diagnosis *found = diagnose(&one); /* the driver lists it: it holds memory all the same */
    assert_null(strstr(found->sentence, "loaded no GPU library"));
    vw_diagnosis_free(found);
    one.rows[0].process = 1;
    found = diagnose(&one);
    assert_non_null(strstr(found->sentence, "process 4711 (python3 train.py) has loaded no GPU"));
    assert_non_null(strstr(found->sentence, "child processes are not part of it"));
    assert_string_equal(found->findings[0].remedies[0].how, "vramwise top --once");
    vw_diagnosis_free(found);
    one.process.child_count = 0;
    found = diagnose(&one);
    assert_null(strstr(found->sentence, "child processes"));
    vw_diagnosis_free(found);
}

/* The first remedy only where it works. */
static void entering_is_offered_where_python_lets_itself_be_entered(void **state)
{
    made one;
    (void)state;
    for (int way = 0; way < 6; way++) {
        make(&one);
        one.process.python_minor = way == 1 ? 13 : 14;
        one.process.is_debugging_off = way == 2;
        one.process.is_elsewhere = way == 3;
        one.process.framework_count = way == 4 ? 0 : 1;
        one.process.python_major = way == 5 ? 0 : 3;
        vw_diagnosis *found = diagnose(&one);
        assert_int_equal(has_remedy(found, "unknown", "vramwise doctor --pid 4711 --attach"),
                         way == 0);
        vw_diagnosis_free(found);
    }
}

static void others_that_fill_the_card_are_named_the_largest_first(void **state)
{
    made one;
    (void)state;
    make(&one);
    take(&one, 23 * GIB);
    for (int i = 0; i < OTHERS; i++) {
        one.rows[1 + i] = (vw_machine_row){
            .process = 100 + i, .gpu = &one.gpus[0], .process_bytes = (uint64_t)(i + 1) * GIB / 4};
        snprintf(one.rows[1 + i].command, sizeof one.rows[1 + i].command, "other %d", i);
    }
    one.machine.row_count = 1 + OTHERS;
    vw_diagnosis *found = diagnose(&one);
    assert_int_equal(found->verdict, VW_VERDICT_OUTSIDE);
    assert_non_null(strstr(found->sentence, "Others hold 19.00 GiB of GPU 0's 24.00 GiB"));
    const vw_finding *outside = finding_of(found, "outside");
    assert_int_equal(outside->evidence_count, 8);
    assert_string_equal(outside->evidence[0], "Process 109 (other 9): 2.50 GiB.");
    assert_string_equal(outside->evidence[7], "Process 102 (other 2): 768 MiB.");
    assert_true(has_remedy(found, "outside", "CUDA_VISIBLE_DEVICES=1"));
    vw_diagnosis_free(found);
    one.machine.gpu_count = 1; /* nowhere to go */
    found = diagnose(&one);
    assert_false(has_remedy(found, "outside", "CUDA_VISIBLE_DEVICES"));
    vw_diagnosis_free(found);
}

static void a_card_that_the_process_itself_fills_is_told_as_full(void **state)
{
    made one;
    (void)state;
    make(&one);
    take(&one, 23 * GIB);
    one.rows[0].process_bytes = 22 * GIB;
    vw_diagnosis *found = diagnose(&one);
    assert_int_equal(found->verdict, VW_VERDICT_UNKNOWN);
    assert_non_null(strstr(found->sentence, "Nearly full"));
    vw_diagnosis_free(found);
}

static void a_machine_without_memory_left_is_the_verdict(void **state)
{
    made one;
    (void)state;
    make(&one);
    one.process.machine_available_bytes = GIB;
    vw_diagnosis *found = diagnose(&one);
    assert_int_equal(found->verdict, VW_VERDICT_HOST);
    assert_non_null(strstr(found->sentence, "1.00 GiB of 64.00 GiB"));
    vw_diagnosis_free(found);
}

static void a_smaller_card_is_judged_by_what_is_held_now(void **state)
{
    made one;
    (void)state;
    make(&one);
    take(&one, 10 * GIB);
    vw_diagnosis *found = diagnose_on(&one, 8 * GIB);
    assert_int_equal(found->verdict, VW_VERDICT_GENUINE);
    assert_int_equal(found->findings[0].bytes, 2 * GIB);
    assert_int_equal(found->numbers.total_bytes, 8 * GIB);
    vw_diagnosis_free(found);
    found = diagnose_on(&one, 16 * GIB);
    assert_int_equal(found->verdict, VW_VERDICT_UNKNOWN);
    assert_int_equal(found->numbers.free_bytes, 6 * GIB);
    vw_diagnosis_free(found);
}

/* Of several GPUs the one on which it holds most. */
static void the_gpu_that_is_judged_is_the_one_with_most_of_it(void **state)
{
    made one;
    (void)state;
    make(&one);
    one.rows[1] =
        (vw_machine_row){.process = PROCESS, .gpu = &one.gpus[1], .process_bytes = 5 * GIB};
    one.machine.row_count = 2;
    vw_diagnosis *found = diagnose(&one);
    assert_int_equal(found->numbers.device, 1);
    assert_int_equal(found->reasoning_count, 3); /* both are in the reasons */
    vw_diagnosis_free(found);
}

static void what_nobody_tells_is_said_to_be_unknown(void **state)
{
    made one;
    (void)state;
    make(&one);
    one.rows[0].process = 1;
    vw_diagnosis *found = diagnose(&one);
    assert_non_null(strstr(found->sentence, "No GPU of this machine shows memory of process 4711"));
    vw_diagnosis_free(found);
    one.machine.gpu_count = one.machine.row_count = 0;
    one.machine.gpu_trouble = "NVML could not be loaded";
    one.process = (vw_process){.process = PROCESS,
                               .age_seconds = VW_UNKNOWN,
                               .resident_bytes = VW_UNKNOWN,
                               .machine_total_bytes = VW_UNKNOWN,
                               .machine_available_bytes = VW_UNKNOWN,
                               .thread_count = VW_UNKNOWN,
                               .child_count = VW_UNKNOWN};
    found = diagnose(&one);
    assert_non_null(strstr(found->sentence, "process 4711 holds on a GPU is unknown"));
    assert_true(has_evidence(found, "process", "environment is closed"));
    assert_true(has_remedy(found, "unknown", "vramwise run COMMAND"));
    vw_diagnosis_free(found);
    make(&one);
    one.gpus[0].free_bytes = VW_UNKNOWN;
    found = diagnose(&one);
    assert_non_null(strstr(found->sentence, "does not say how full it is"));
    vw_diagnosis_free(found);
}

static bool is_diagnosed(void *context)
{
    const made *one = context;
    vw_diagnosis *found = NULL;
    const bool is_done = vw_doctor_process(&one->process, &one->machine, NULL, &found) == VW_OK;
    vw_diagnosis_free(is_done ? found : NULL);
    return is_done;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    made one;
    (void)state;
    make(&one);
    take(&one, 23 * GIB);
    vw_test_sweep_host_memory(is_diagnosed, &one);
}

static void missing_arguments_are_refused(void **state)
{
    made one;
    vw_diagnosis *found = NULL;
    (void)state;
    make(&one);
    assert_int_equal(vw_doctor_process(NULL, &one.machine, NULL, &found), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_doctor_process(&one.process, NULL, NULL, &found), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_doctor_process(&one.process, &one.machine, NULL, NULL),
                     VW_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_facts_are_told_and_what_would_tell_more),
        cmocka_unit_test(a_command_that_needs_quotes_is_not_offered_to_be_typed),
        cmocka_unit_test(a_process_without_a_gpu_library_is_said_to_be_one),
        cmocka_unit_test(entering_is_offered_where_python_lets_itself_be_entered),
        cmocka_unit_test(others_that_fill_the_card_are_named_the_largest_first),
        cmocka_unit_test(a_card_that_the_process_itself_fills_is_told_as_full),
        cmocka_unit_test(a_machine_without_memory_left_is_the_verdict),
        cmocka_unit_test(a_smaller_card_is_judged_by_what_is_held_now),
        cmocka_unit_test(the_gpu_that_is_judged_is_the_one_with_most_of_it),
        cmocka_unit_test(what_nobody_tells_is_said_to_be_unknown),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
        cmocka_unit_test(missing_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
