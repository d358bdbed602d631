/* test_metrics_text.c - jobs as Prometheus reads them: families, units, labels, what is left out.
 */
#include "vramwise/watch.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_capture.h"

enum { STEPS = 40 };

static report_capture captured;
static vw_job_step steps[STEPS];
static vw_job_device devices[2];
static vw_job jobs[3];
static vw_jobs all;

/* Two jobs, the first with two devices; nothing else is known of them. */
static int make_jobs(void **state)
{
    (void)state;
    memset(devices, 0, sizeof devices);
    memset(jobs, 0, sizeof jobs);
    for (size_t i = 0; i < 2; i++) {
        devices[i].index = (int)i;
        for (size_t j = 0; j < VW_LIVE_FIELD_COUNT; j++)
            devices[i].values[j] = VW_LIVE_UNKNOWN;
    }
    for (size_t i = 0; i < 3; i++)
        jobs[i] = (vw_job){.process = 11 * (long)(i + 1),
                           .rank = -1,
                           .local_rank = -1,
                           .path = "/dev/shm/vramwise-live-0-11-abc"};
    jobs[0].devices = devices;
    jobs[0].device_count = 2;
    all = (vw_jobs){.read_ns = 5000000000, .jobs = jobs, .job_count = 2};
    return 0;
}

static const char *text_of(const char *run)
{
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_jobs_metrics(&all, run, &output), VW_OK);
    return captured.text;
}

static void assert_has(const char *line)
{
    char whole[256];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (strstr(captured.text, whole) == NULL)
        fail_msg("there is no line '%s' in\n%s", line, captured.text);
}

static void assert_has_no(const char *text)
{
    if (strstr(captured.text, text) != NULL)
        fail_msg("there is '%s' in\n%s", text, captured.text);
}

/* How often `text` is there. */
static size_t count_of(const char *text)
{
    size_t count = 0;
    for (const char *at = captured.text; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static void every_field_is_a_family_with_help_and_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        devices[1].values[i] = 3;
    text_of(NULL);
    assert_int_equal(count_of(",device=\"1\"} 3\n") + count_of(",device=\"1\"} 0.000000003\n"),
                     VW_LIVE_FIELD_COUNT);
    assert_int_equal(count_of("# HELP "), count_of("# TYPE "));
    assert_has("# HELP vramwise_live_bytes Bytes handed out to the program.");
    assert_has("# TYPE vramwise_live_bytes gauge");
    assert_has("# TYPE vramwise_retries_total counter");
    assert_has("vramwise_retries_total{pid=\"11\",device=\"1\"} 3");
}

static void the_lines_of_a_family_stand_together(void **state)
{
    (void)state;
    devices[0].values[VW_LIVE_LIVE_BYTES] = 1;
    devices[1].values[VW_LIVE_LIVE_BYTES] = 2;
    text_of(NULL);
    assert_has("# TYPE vramwise_live_bytes gauge\n"
               "vramwise_live_bytes{pid=\"11\",device=\"0\"} 1\n"
               "vramwise_live_bytes{pid=\"11\",device=\"1\"} 2\n"
               "# HELP vramwise_reserved_bytes Bytes held from the device by the allocator.");
    assert_int_equal(count_of("# TYPE vramwise_live_bytes "), 1);
}

static void nanoseconds_are_told_as_seconds_to_the_last_digit(void **state)
{
    (void)state;
    devices[0].values[VW_LIVE_STEP_NS] = UINT64_C(12345678901234567890);
    devices[1].values[VW_LIVE_STEP_NS] = 7;
    devices[0].values[VW_LIVE_DRIVER_NS] = 0;
    text_of(NULL);
    assert_has("vramwise_step_seconds_total{pid=\"11\",device=\"0\"} 12345678901.234567890");
    assert_has("vramwise_step_seconds_total{pid=\"11\",device=\"1\"} 0.000000007");
    assert_has("vramwise_driver_seconds_total{pid=\"11\",device=\"0\"} 0.000000000");
    assert_has_no("nanoseconds");
}

static void what_is_not_known_is_left_out(void **state)
{
    (void)state;
    devices[0].values[VW_LIVE_LIVE_BYTES] = 0;
    text_of(NULL);
    assert_has("vramwise_live_bytes{pid=\"11\",device=\"0\"} 0");
    assert_int_equal(count_of("vramwise_live_bytes{"), 1);
    assert_has_no("vramwise_room_bytes{");
    assert_has_no("vramwise_leak_bytes_per_step{");
    assert_has_no("vramwise_steps_until_full{");
    assert_has_no("vramwise_page_age_seconds{");
    assert_has_no("vramwise_device_info{");
    assert_has_no("rank=");
    assert_has_no("world_size=");
    assert_has_no("18446744073709551615");
}

static void who_a_job_is_stands_in_labels(void **state)
{
    (void)state;
    jobs[0].rank = 0;
    jobs[0].local_rank = 2;
    jobs[0].world_size = 8;
    jobs[0].started_us = 1700000000000001;
    strcpy(jobs[0].program, "train.py");
    strcpy(jobs[0].job, "77");
    strcpy(jobs[0].allocator, "vramwise:tight");
    strcpy(jobs[0].vramwise_version, "1.2.3");
    strcpy(devices[0].name, "NVIDIA H200");
    text_of(NULL);
    assert_has("vramwise_info{pid=\"11\",rank=\"0\",job_id=\"77\",program=\"train.py\","
               "allocator=\"vramwise:tight\",version=\"1.2.3\",local_rank=\"2\","
               "world_size=\"8\"} 1");
    assert_has("vramwise_info{pid=\"22\"} 1");
    assert_has("vramwise_device_info{pid=\"11\",rank=\"0\",job_id=\"77\",program=\"train.py\","
               "allocator=\"vramwise:tight\",device=\"0\",device_name=\"NVIDIA H200\"} 1");
    assert_has("vramwise_start_time_seconds{pid=\"11\",rank=\"0\",job_id=\"77\","
               "program=\"train.py\",allocator=\"vramwise:tight\"} 1700000000.000001");
}

static void assert_program(const char *program, const char *label)
{
    char line[256];
    snprintf(jobs[1].program, sizeof jobs[1].program, "%s", program);
    text_of(NULL);
    snprintf(line, sizeof line, "vramwise_info{pid=\"22\",program=\"%s\"} 1", label);
    assert_has(line);
}

static void texts_are_escaped_whatever_they_hold(void **state)
{
    (void)state;
    assert_program("a\"b\\c\nd", "a\\\"b\\\\c\\nd");
    assert_program("x\"} 1\nvramwise_up 0\n", "x\\\"} 1\\nvramwise_up 0\\n");
    assert_program("\x1b[2J\r\t\x7f", "\xEF\xBF\xBD[2J\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    assert_program("\xc2\x9b", "\xEF\xBF\xBD");
    assert_program("\xff\xc3(\xe2\x82", "\xEF\xBF\xBD\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD");
    assert_program("\xe2\x82\xac", "\xe2\x82\xac");
}

static void jobs_are_counted_by_state_and_only_those_that_run_are_told(void **state)
{
    (void)state;
    all.job_count = 3;
    all.stale_count = 4;
    all.refused_count = 5;
    jobs[0].state = VW_JOB_BUSY;
    jobs[1].state = VW_JOB_OTHER_VERSION;
    text_of(NULL);
    assert_has("vramwise_jobs{state=\"running\"} 1");
    assert_has("vramwise_jobs{state=\"other_version\"} 1");
    assert_has("vramwise_jobs{state=\"busy\"} 1");
    assert_has("vramwise_stale_pages 4");
    assert_has("vramwise_refused_pages 5");
    assert_has("vramwise_info{pid=\"33\"} 1");
    assert_has_no("pid=\"11\"");
    assert_has_no("pid=\"22\"");
}

static void of_one_run_only_its_own_are_told(void **state)
{
    (void)state;
    char longer[100], other[100];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    strcpy(other, longer);
    other[sizeof other - 2] = 'y';
    all.stale_count = 4;
    strcpy(jobs[0].run, "/run/one");
    strcpy(jobs[1].run, longer + strlen(longer) - (sizeof jobs[1].run - 1));
    text_of("/run/one");
    assert_has("vramwise_jobs{state=\"running\"} 1");
    assert_has("vramwise_info{pid=\"11\"} 1");
    assert_has_no("pid=\"22\"");
    assert_has_no("vramwise_stale_pages");
    text_of(longer); /* a page keeps the end */
    assert_has("vramwise_info{pid=\"22\"} 1");
    assert_has_no("pid=\"11\"");
    text_of(other); /* of the same place, as two runs of one job are */
    assert_has("vramwise_jobs{state=\"running\"} 0");
    text_of("/run/on");
    assert_has("vramwise_jobs{state=\"running\"} 0");
    assert_false(vw_job_is_of_run(&jobs[2], "")); /* it is of none */
    assert_false(vw_job_is_of_run(&jobs[0], NULL));
}

static void no_two_lines_have_the_same_labels(void **state)
{
    (void)state;
    devices[0].values[VW_LIVE_STEPS] = devices[1].values[VW_LIVE_STEPS] = 1;
    devices[1].index = 0; /* of a damaged page */
    jobs[1].process = 11;
    jobs[1].path = "/dev/shm/vramwise-live-0-11-def";
    jobs[1].devices = devices;
    jobs[1].device_count = 1;
    text_of(NULL);
    assert_has("vramwise_steps_total{pid=\"11\",device=\"0\"} 1\n"
               "vramwise_steps_total{pid=\"11\",page=\"def\",device=\"0\"} 1");
    assert_int_equal(count_of("vramwise_steps_total{"), 2);
    assert_has("vramwise_info{pid=\"11\",page=\"def\"} 1");
}

static void a_page_is_as_old_as_its_last_change(void **state)
{
    (void)state;
    devices[0].updated_ns = 3500000000;
    devices[1].updated_ns = 5000000001; /* while it was read */
    text_of(NULL);
    assert_has("vramwise_page_age_seconds{pid=\"11\",device=\"0\"} 1.500000000");
    assert_has("vramwise_page_age_seconds{pid=\"11\",device=\"1\"} 0.000000000");
}

/* Growing by `growth_bytes` with each step, with room for 1000 more bytes. */
static void give_steps(uint64_t growth_bytes)
{
    for (uint64_t i = 0; i < STEPS; i++)
        steps[i] = (vw_job_step){.step = i + 1, .live_bytes = 1000000 + i * growth_bytes};
    devices[0].steps = steps;
    devices[0].step_count = STEPS;
    devices[0].values[VW_LIVE_LIVE_BYTES] = 1000000;
    devices[0].values[VW_LIVE_RESERVED_BYTES] = 1000400;
    devices[0].values[VW_LIVE_DEVICE_FREE_BYTES] = 600;
}

static void a_leak_is_told_with_the_steps_that_are_left(void **state)
{
    (void)state;
    give_steps(100);
    text_of(NULL);
    assert_has("vramwise_room_bytes{pid=\"11\",device=\"0\"} 1000");
    assert_has("vramwise_leak_bytes_per_step{pid=\"11\",device=\"0\"} 100");
    assert_has("vramwise_steps_until_full{pid=\"11\",device=\"0\"} 11");
}

static void without_a_leak_it_is_zero_and_never_full(void **state)
{
    (void)state;
    give_steps(0);
    text_of(NULL);
    assert_has("vramwise_leak_bytes_per_step{pid=\"11\",device=\"0\"} 0");
    assert_has_no("vramwise_steps_until_full{");
}

static bool write_metrics(void *context)
{
    (void)context;
    const vw_output output = report_capture_begin(&captured);
    vw_status status = vw_jobs_metrics(&all, NULL, &output);
    assert_true(status == VW_OK || status == VW_ERR_HOST_MEMORY);
    assert_true(status == VW_OK || captured.size_bytes == 0); /* whole, or nothing */
    return status == VW_OK;
}

static void without_host_memory_nothing_is_written(void **state)
{
    (void)state;
    give_steps(100);
    vw_test_sweep_host_memory(write_metrics, NULL);
}

static bool take_nothing(void *context, const char *bytes, size_t size_bytes)
{
    (void)context, (void)bytes, (void)size_bytes;
    return false;
}

static void an_output_that_takes_nothing_is_an_error(void **state)
{
    (void)state;
    const vw_output output = {NULL, take_nothing}, taken = report_capture_begin(&captured);
    assert_int_equal(vw_jobs_metrics(&all, NULL, &output), VW_ERR_FILE);
    assert_int_equal(vw_jobs_metrics(&all, NULL, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_jobs_metrics(NULL, NULL, &taken), VW_ERR_INVALID_ARGUMENT);
}

static void of_all_users_the_owner_and_the_container_are_told(void **state)
{
    (void)state;
    static const vw_job_container container = {
        .id = "5eed", .pod_uid = "77-88", .pod = "train\n0", .pod_namespace = "research"};
    static const vw_job_container no_pod = {.id = "cafe"};
    devices[0].values[VW_LIVE_LIVE_BYTES] = 5;
    jobs[0].user = 1000;
    jobs[0].container = &container;
    jobs[1] = jobs[0];
    jobs[1].user = 1001; /* who says that it is the same process, in a name that ends alike */
    jobs[1].path = "/run/vramwise/vramwise-live-x-abc";
    jobs[1].container = &no_pod;
    all.is_shared = true;
    text_of(NULL);
    assert_has("vramwise_live_bytes{pid=\"11\",page=\"vramwise-live-0-11-abc\",uid=\"1000\","
               "namespace=\"research\",pod=\"train\\n0\",pod_uid=\"77-88\",container_id=\"5eed\","
               "device=\"0\"} 5");
    assert_has("vramwise_live_bytes{pid=\"11\",page=\"vramwise-live-x-abc\",uid=\"1001\","
               "container_id=\"cafe\",device=\"0\"} 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_field_is_a_family_with_help_and_type, make_jobs),
        cmocka_unit_test_setup(the_lines_of_a_family_stand_together, make_jobs),
        cmocka_unit_test_setup(nanoseconds_are_told_as_seconds_to_the_last_digit, make_jobs),
        cmocka_unit_test_setup(what_is_not_known_is_left_out, make_jobs),
        cmocka_unit_test_setup(who_a_job_is_stands_in_labels, make_jobs),
        cmocka_unit_test_setup(texts_are_escaped_whatever_they_hold, make_jobs),
        cmocka_unit_test_setup(jobs_are_counted_by_state_and_only_those_that_run_are_told,
                               make_jobs),
        cmocka_unit_test_setup(of_one_run_only_its_own_are_told, make_jobs),
        cmocka_unit_test_setup(no_two_lines_have_the_same_labels, make_jobs),
        cmocka_unit_test_setup(a_page_is_as_old_as_its_last_change, make_jobs),
        cmocka_unit_test_setup(a_leak_is_told_with_the_steps_that_are_left, make_jobs),
        cmocka_unit_test_setup(without_a_leak_it_is_zero_and_never_full, make_jobs),
        cmocka_unit_test_setup(without_host_memory_nothing_is_written, make_jobs),
        cmocka_unit_test_setup(an_output_that_takes_nothing_is_an_error, make_jobs),
        cmocka_unit_test_setup(of_all_users_the_owner_and_the_container_are_told, make_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
