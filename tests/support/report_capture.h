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

/* Behind `text`, where `piece` ends; NULL: it is not in it. A space of `piece` stands for any
 * number of spaces and line breaks: wrapping does not count. */
static inline const char *report_capture_behind(const char *text, const char *piece,
                                                size_t piece_bytes)
{
    for (; *text != '\0'; text++) {
        const char *at = text;
        size_t i = 0;
        for (; i < piece_bytes; i++) {
            if (piece[i] == ' ' && (strspn(at, " \n") > 0 || (i > 0 && piece[i - 1] == ' ')))
                at += strspn(at, " \n");
            else if (*at == piece[i] && *at != '\0')
                at++;
            else
                break;
        }
        if (i == piece_bytes)
            return at;
    }
    return NULL;
}

/* Are all of these in the text, each behind the one before? "1.00 GiB|12|train.py:152". Numbers and
 * names are in it, and no sentences: those are for golden.h. */
static inline bool report_capture_shows(const report_capture *capture, const char *pieces)
{
    const char *at = capture->text;
    while (*pieces != '\0' && at != NULL) {
        const size_t piece_bytes = strcspn(pieces, "|");
        at = report_capture_behind(at, pieces, piece_bytes);
        pieces += piece_bytes + (pieces[piece_bytes] == '|');
    }
    return at != NULL;
}

#endif /* VW_TESTS_REPORT_CAPTURE_H */
