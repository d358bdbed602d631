/* report_capture.h - a report as a string, and checks of its layout. */
#ifndef VW_TESTS_REPORT_CAPTURE_H
#define VW_TESTS_REPORT_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "vramwise/report.h"

/* Large enough for every report of a test. */
typedef struct report_capture {
    char text[64 * 1024];
    size_t size_bytes;
} report_capture;

static inline bool report_capture_write(void *context, const char *bytes, size_t size_bytes)
{
    report_capture *capture = context;
    if (size_bytes >= sizeof capture->text - capture->size_bytes)
        return false;
    memcpy(capture->text + capture->size_bytes, bytes, size_bytes);
    capture->size_bytes += size_bytes;
    capture->text[capture->size_bytes] = '\0';
    return true;
}

/* An output that fills `capture`, emptied before. */
static inline vw_output report_capture_begin(report_capture *capture)
{
    capture->size_bytes = 0;
    capture->text[0] = '\0';
    return (vw_output){capture, report_capture_write};
}

/* The longest line, in bytes: reports of these tests are ASCII and without colour. */
static inline size_t report_capture_width(const report_capture *capture)
{
    size_t widest = 0;
    for (const char *line = capture->text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (length > widest)
            widest = length;
        line += length + (line[length] == '\n');
    }
    return widest;
}

/* Is there a line that ends with a space? */
static inline bool report_capture_has_loose_ends(const report_capture *capture)
{
    return strstr(capture->text, " \n") != NULL;
}

static inline bool report_capture_has(const report_capture *capture, const char *text)
{
    return strstr(capture->text, text) != NULL;
}

static inline bool report_capture_begins_with(const report_capture *capture, const char *text)
{
    return strncmp(capture->text, text, strlen(text)) == 0;
}

#endif /* VW_TESTS_REPORT_CAPTURE_H */
