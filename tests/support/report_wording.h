/* report_wording.h - the report that a test makes, what it shows, and its wording for the golden
 * file. */
#ifndef VW_TESTS_REPORT_WORDING_H
#define VW_TESTS_REPORT_WORDING_H

#include "support/golden.h"
#include "support/report_capture.h"

static report_capture captured;
static golden wording;

static inline void keep_wording(const char *heading)
{
    golden_keep(&wording, heading, captured.text);
}

static inline void assert_shows(const char *pieces)
{
    if (!report_capture_shows(&captured, pieces))
        fail_msg("not there, or not in this order: '%s' in\n%s", pieces, captured.text);
}

#endif /* VW_TESTS_REPORT_WORDING_H */
