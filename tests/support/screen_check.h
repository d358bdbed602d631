/* screen_check.h - the doctor's answer fits a screen: 24 lines of 80 columns. */
#ifndef VW_TESTS_SCREEN_CHECK_H
#define VW_TESTS_SCREEN_CHECK_H

#include "support/cmocka_here.h"
#include "support/report_capture.h"

enum { SCREEN_LINES = 24, SCREEN_COLUMNS = 80 };

/* As a window of `columns` shows an ASCII text: it breaks what is wider. */
static inline size_t screen_lines_of(const char *text, size_t columns)
{
    size_t lines = 0;
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        lines += length > columns ? (length + columns - 1) / columns : 1;
        text += length + (text[length] == '\n');
    }
    return lines;
}

/* The answer has a verdict, no blank line at its ends, and no line too many. */
static inline void assert_fits_screen(const vw_diagnosis *diagnosis, const char *file)
{
    static report_capture capture;
    const vw_report_form form = {.file = file, .most_lines = SCREEN_LINES, .rest = "--all"};
    const vw_output output = report_capture_begin(&capture);
    assert_int_equal(vw_report_doctor(diagnosis, &form, &output), VW_OK);
    const size_t lines = screen_lines_of(capture.text, SCREEN_COLUMNS);
    const bool has_blank_end = capture.size_bytes < 2 || capture.text[0] == '\n' ||
                               strcmp(capture.text + capture.size_bytes - 2, "\n\n") == 0;
    if (lines > SCREEN_LINES || has_blank_end || !report_capture_has(&capture, "\nVerdict: "))
        fail_msg("%zu lines on a screen of %d:\n%s", lines, (int)SCREEN_LINES, capture.text);
}

#endif /* VW_TESTS_SCREEN_CHECK_H */
