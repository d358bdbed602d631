/* test_error_text_logs.c - long texts: what counts, what is the first, and where it is found. */
#include "parse/error_text.h"

#include <stdlib.h>

#include "unit/error_text_samples.h"

/* A text that is written piece by piece, of a few megabytes at most. */
typedef struct long_text {
    char *bytes;
    size_t size_bytes;
} long_text;

enum { MOST_BYTES = 8 << 20 };

static void begin(long_text *text)
{
    text->bytes = malloc(MOST_BYTES);
    assert_non_null(text->bytes);
    text->size_bytes = 0;
}

__attribute__((format(printf, 2, 3))) static void add(long_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length =
        vsnprintf(text->bytes + text->size_bytes, MOST_BYTES - text->size_bytes, format, arguments);
    va_end(arguments);
    assert_true(length >= 0 && text->size_bytes + (size_t)length < MOST_BYTES);
    text->size_bytes += (size_t)length;
}

static void add_report(long_text *text, const char *prefix, int tried_mib, int device)
{
    add(text,
        "%sRuntimeError: CUDA out of memory. Tried to allocate %d.00 MiB (GPU %d; 8.00 GiB total "
        "capacity; 6.00 GiB already allocated; 12.00 MiB free; 7.00 GiB reserved in total by "
        "PyTorch)\n",
        prefix, tried_mib, device);
}

static void add_ordinary_lines(long_text *text, int count)
{
    for (int i = 0; i < count; i++)
        add(text, "2026-01-31 10:00:%02d,%03d INFO step %d loss 0.%04d memory 3.%d GiB\n", i % 60,
            i % 1000, i, i % 9999, i % 10);
}

static vw__error_text_summary end(long_text *text)
{
    vw__error_text_summary summary = scan_bytes(text->bytes, text->size_bytes, 65536);
    assert_int_equal(summary.size_bytes, text->size_bytes);
    free(text->bytes);
    return summary;
}

static void the_first_is_the_cause_and_the_others_count(void **state)
{
    (void)state;
    long_text text;
    begin(&text);
    add_ordinary_lines(&text, 1000);
    add_report(&text, "", 20, 0);
    add_ordinary_lines(&text, 20000);
    add_report(&text, "", 40, 0);
    add(&text, "RuntimeError: [enforce fail at CPUAllocator.cpp:68] . DefaultCPUAllocator: can't "
               "allocate memory: you tried to allocate 1024 bytes.\n");
    vw__error_text_summary summary = end(&text);
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_CUDA);
    assert_int_equal(summary.first.tried_bytes, 20 * MIB);
    assert_int_equal(summary.first.line, 1001);
    assert_int_equal(summary.report_count, 3);
    assert_int_equal(summary.host_count, 1);
    assert_int_equal(summary.rank_count, 0);
    assert_int_equal(summary.line_count, 21003);
}

static void the_same_message_printed_again_counts_once(void **state)
{
    (void)state;
    long_text text;
    begin(&text);
    add(&text, "OutOfMemoryError                          Traceback (most recent call last)\n");
    add(&text, "    raise RuntimeError(\"CUDA out of memory\")\n");
    add_report(&text, "", 20, 0);
    add(&text, "\nDuring handling of the above exception, another exception occurred:\n\n");
    add_report(&text, "2026-01-31 10:00:00,123 - trainer - ERROR - failed: ", 20, 0);
    add_ordinary_lines(&text, 5000);
    add_report(&text, "> ", 20, 0);
    add(&text, "CUDA out of memory, giving up\n");
    vw__error_text_summary summary = end(&text);
    assert_int_equal(summary.report_count, 1);
    assert_int_equal(summary.first.tried_bytes, 20 * MIB);
    assert_int_equal(summary.first.line, 3); /* the message, not its name and its source above it */
}

static void every_rank_counts_for_itself(void **state)
{
    (void)state;
    static const char *const prefixes[] = {
        "[rank%d]: ", "[1,%d]<stderr>:", "rank%d: ", "[default%d]:", "%d: "};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        long_text text;
        char prefix[64];
        begin(&text);
        for (int round = 0; round < 2; round++)
            for (int rank = 3; rank < 7; rank++) {
                snprintf(prefix, sizeof prefix, prefixes[i], rank);
                add_report(&text, prefix, 20, 0);
            }
        vw__error_text_summary summary = end(&text);
        assert_int_equal(summary.report_count, 4);
        assert_int_equal(summary.rank_count, 4);
        assert_int_equal(summary.first.rank, 3);
        assert_int_equal(summary.first.device, 0);
    }
}

static void a_kill_after_an_error_is_its_consequence(void **state)
{
    (void)state;
    long_text text;
    begin(&text);
    add(&text, "worker 1: exit code 137\n");
    add_report(&text, "", 20, 0);
    add(&text, "Killed\n");
    vw__error_text_summary summary = end(&text);
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_CUDA);
    assert_int_equal(summary.report_count, 1);
    assert_int_equal(summary.host_count, 0);
}

static void a_message_may_lie_across_the_end_of_any_buffer(void **state)
{
    (void)state;
    char *bytes = malloc(400 << 10);
    assert_non_null(bytes);
    for (size_t before = (128 << 10) - 12000; before < (128 << 10) + 3000; before += 37) {
        long_text text = {bytes, before};
        memset(bytes, 'x', before);
        for (size_t i = 99; i < before; i += 100)
            bytes[i] = '\n';
        bytes[before - 1] = '\n';
        add_report(&text, "[rank5]: ", 20, 3);
        size_t message_bytes = text.size_bytes - before;
        memset(bytes + text.size_bytes, '\n', 30000);
        vw__error_text_summary summary = scan_bytes(bytes, text.size_bytes + 30000, 4096);
        assert_int_equal(summary.report_count, 1);
        assert_int_equal(summary.first.tried_bytes, 20 * MIB);
        assert_int_equal(summary.first.reserved_bytes, 7 * GIB);
        assert_int_equal(summary.first.rank, 5);
        assert_int_equal(summary.first.line, (before + 99) / 100 + 1);
        assert_int_equal(strlen(summary.first.excerpt), message_bytes - strlen("[rank5]: \n"));
    }
    free(bytes);
}

static void a_report_behind_a_megabyte_progress_bar_is_found(void **state)
{
    (void)state;
    long_text text;
    begin(&text);
    for (int i = 0; i < 50000; i++)
        add(&text, "\r%3d%%|%.*s| %d/50000 [00:10<00:10, 3.14it/s]", i / 500, i / 1000,
            "##################################################", i);
    add_report(&text, "\r", 20, 0);
    vw__error_text_summary summary = end(&text);
    assert_int_equal(summary.report_count, 1);
    assert_int_equal(summary.first.line, 1);
    assert_int_equal(summary.first.tried_bytes, 20 * MIB);
    assert_non_null(strstr(summary.first.excerpt, "RuntimeError: CUDA out of memory. Tried"));
    assert_null(strstr(summary.first.excerpt, "it/s")); /* the bar's own line */
}

static void thousands_of_different_errors_are_counted(void **state)
{
    (void)state;
    long_text text;
    begin(&text);
    for (int i = 0; i < 5000; i++)
        add_report(&text, "", 2 + i, i % 8);
    vw__error_text_summary summary = end(&text);
    assert_int_equal(summary.report_count, 5000);
    assert_int_equal(summary.first.tried_bytes, 2 * MIB);
}

static void binary_files_are_called_binary(void **state)
{
    (void)state;
    long_text text;
    begin(&text);
    uint32_t noise = 1;
    for (size_t i = 0; i < 300000; i++) {
        noise = noise * 1664525 + 1013904223;
        text.bytes[text.size_bytes++] = (char)(noise >> 24);
    }
    vw__error_text_summary summary = end(&text);
    assert_true(summary.is_binary);
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_NONE);
    summary = scan_bytes("a\0\0\0b\0\0\0c\0\0\0", 12, 12);
    assert_true(summary.is_binary);
    summary = scan_text("plain text\twith \033[31mcolours\033[0m and \xe6\x98\xbe\xe5\xad\x98\r\n");
    assert_false(summary.is_binary);
    assert_int_equal(summary.line_count, 1);
    summary = scan_text("");
    assert_false(summary.is_binary);
    assert_int_equal(summary.line_count, 0);
}

static void expandable_segments_are_seen_wherever_they_are_named(void **state)
{
    (void)state;
    long_text text;
    begin(&text);
    add(&text, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n");
    add_ordinary_lines(&text, 10000);
    add_report(&text, "", 20, 0);
    assert_true(end(&text).first.says_expandable);
    begin(&text);
    add(&text, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False\n");
    add_report(&text, "", 20, 0);
    assert_false(end(&text).first.says_expandable);
}

static void lines_that_repeat_but_for_their_digits_still_count(void **state)
{
    (void)state;
    enum { REPORTS = 5000 };
    long_text text;
    begin(&text);
    for (int i = 0; i < REPORTS; i++)
        add_report(&text, "", i + 1, 0);
    vw__error_text_summary summary = end(&text);
    assert_in_range(summary.report_count, REPORTS - REPORTS / 20, REPORTS + REPORTS / 20);
    assert_int_equal(summary.first.tried_bytes, MIB);
    begin(&text); /* the same one, at another step each time */
    for (int i = 0; i < REPORTS; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "step %d: ", i);
        add_report(&text, prefix, 20, 0);
    }
    assert_int_equal(end(&text).report_count, 1);
    begin(&text); /* and what comes behind thousands of vain readings is found */
    for (int i = 0; i < REPORTS; i++)
        add(&text, "step %d: illegal memory access, trying to allocate %d MiB\n", i, i);
    add_report(&text, "", 20, 0);
    summary = end(&text);
    assert_int_equal(summary.report_count, 1);
    assert_int_equal(summary.first.tried_bytes, 20 * MIB);
}

static void a_job_killed_behind_a_gpu_error_is_another_report(void **state)
{
    (void)state;
    long_text text;
    begin(&text);
    add_report(&text, "", 20, 0);
    add(&text, "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.batch.\n");
    vw__error_text_summary summary = end(&text);
    assert_int_equal(summary.report_count, 2);
    assert_int_equal(summary.host_count, 1);
    assert_int_equal(summary.first.tried_bytes, 20 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_the_cause_and_the_others_count),
        cmocka_unit_test(the_same_message_printed_again_counts_once),
        cmocka_unit_test(every_rank_counts_for_itself),
        cmocka_unit_test(a_kill_after_an_error_is_its_consequence),
        cmocka_unit_test(a_message_may_lie_across_the_end_of_any_buffer),
        cmocka_unit_test(a_report_behind_a_megabyte_progress_bar_is_found),
        cmocka_unit_test(thousands_of_different_errors_are_counted),
        cmocka_unit_test(binary_files_are_called_binary),
        cmocka_unit_test(expandable_segments_are_seen_wherever_they_are_named),
        cmocka_unit_test(lines_that_repeat_but_for_their_digits_still_count),
        cmocka_unit_test(a_job_killed_behind_a_gpu_error_is_another_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
