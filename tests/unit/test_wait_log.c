/* test_wait_log.c - the time that steps waited for input, in the words of several loops. */
#include "parse/wait_log.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"

/* The share after `count` times that line, fed in pieces. */
static double share_of(const char *line, int count, size_t piece_bytes)
{
    vw__wait_log log = {0};
    size_t length = strlen(line);
    for (int i = 0; i < count; i++)
        for (size_t at = 0; at < length; at += piece_bytes)
            vw__wait_log_feed(&log, line + at,
                              length - at < piece_bytes ? length - at : piece_bytes);
    return vw__wait_log_share(&log);
}

static void both_times_are_read_in_every_form(void **state)
{
    static const struct {
        const char *line;
        double share;
    } forms[] = {
        /* open-mmlab/mmocr 508, salesforce/LAVIS 84, pytorch/examples, timm, JSON */
        {"Epoch [1][50/2000] lr: 1e-4, time: 0.500, data_time: 0.400, memory: 9312\n", 0.8},
        {"Train: [ 10/500]  eta: 0:01:53  time: 0.0500  data: 0.0300  max mem: 19823\n", 0.6},
        {"Epoch: [0][ 10/5005]\tTime  0.400 ( 0.500)\tData  0.100 ( 0.300)\tLoss 6.9\n", 0.25},
        {"Train: 0 [50/100] Loss: 6.9 Time: 0.200s, 640/s (0.2s) LR: 1e-5 Data: 0.150 (0.1)\n",
         0.75},
        {"{\"iter\": 3, \"time\": 0.8, \"data_time\": 0.4, \"loss\": 2.0}\n", 0.5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (size_t piece = 1; piece < 200; piece += 33) {
            double share = share_of(forms[i].line, 20, piece);
            if (share < forms[i].share - 1e-9 || share > forms[i].share + 1e-9)
                fail_msg("%s: %f in pieces of %zu", forms[i].line, share, piece);
        }
}

static void other_lines_say_nothing(void **state)
{
    static const char *const lines[] = {
        "time: 0.5 loss: 2.0\n",
        "loaded data: 3 files in time: none\n",
        "data: 0.9 time: 0.5\n", /* longer than the step: another time */
        "metadata: 0.4 runtime: 0.5\n",
        "data_time: x time: 0.5\n",
        "time: 0 data: 0\n",
        "\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_true(share_of(lines[i], 50, 1000) == 0);
}

static void few_steps_are_not_enough(void **state)
{
    (void)state;
    assert_true(share_of("time: 0.5 data_time: 0.4\n", 9, 1000) == 0);
    assert_true(share_of("time: 0.5 data_time: 0.4\n", 10, 1000) > 0.7);
}

static void a_line_without_an_end_takes_no_more_memory(void **state)
{
    static char text[8 << 10];
    vw__wait_log log = {0};
    (void)state;
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 64; i++)
        vw__wait_log_feed(&log, text, sizeof text);
    assert_int_equal(log.line_bytes, VW__WAIT_LOG_LINE_BYTES);
    vw__wait_log_feed(&log, "\n", 1);
    assert_int_equal(log.line_bytes, 0);
    assert_int_equal(log.step_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_times_are_read_in_every_form),
        cmocka_unit_test(other_lines_say_nothing),
        cmocka_unit_test(few_steps_are_not_enough),
        cmocka_unit_test(a_line_without_an_end_takes_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
