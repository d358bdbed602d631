/* diagnosed_text.h - reports as the scanner of texts finds them, and their diagnoses. */
#ifndef VW_TESTS_DIAGNOSED_TEXT_H
#define VW_TESTS_DIAGNOSED_TEXT_H

#include <string.h>

#include "doctor/doctor.h"
#include "support/cmocka_here.h"
#include "support/screen_check.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define NONE VW_UNKNOWN

enum { LONGEST_SENTENCE = 200 };
enum { LONGEST_CODE_LINE = 73 }; /* 80 columns, less what a list of remedies is indented by */

static inline uint64_t gib(double value)
{
    return (uint64_t)(value * (double)GIB + 0.5);
}

/* A summary with one report that has no numbers. */
static inline vw__error_text_summary summary_of(vw__error_text_kind kind)
{
    vw__error_text_summary made = {.report_count = 1, .line_count = 12, .size_bytes = 900};
    bool is_report = kind != VW__ERROR_TEXT_NONE && kind != VW__ERROR_TEXT_NOT_OOM;
    made.report_count = is_report;
    made.host_count = is_report && vw__error_text_kind_is_host(kind);
    made.first = (vw__error_text_report){.kind = kind,
                                         .tried_bytes = NONE,
                                         .total_bytes = NONE,
                                         .free_bytes = NONE,
                                         .allocated_bytes = NONE,
                                         .reserved_bytes = NONE,
                                         .unallocated_bytes = NONE,
                                         .process_bytes = NONE,
                                         .allowed_bytes = NONE,
                                         .private_pool_bytes = NONE,
                                         .other_process_bytes = NONE,
                                         .other_bytes = NONE,
                                         .needed_bytes = NONE,
                                         .available_bytes = NONE,
                                         .device = -1,
                                         .rank = -1,
                                         .line = 7};
    return made;
}

static inline vw__error_text_summary torch_summary(uint64_t tried, uint64_t total, uint64_t free,
                                                   uint64_t allocated, uint64_t reserved)
{
    vw__error_text_summary made = summary_of(VW__ERROR_TEXT_TORCH_CUDA);
    made.first.tried_bytes = tried;
    made.first.total_bytes = total;
    made.first.free_bytes = free;
    made.first.allocated_bytes = allocated;
    made.first.reserved_bytes = reserved;
    return made;
}

static inline void check_remedy(const vw_remedy *remedy)
{
    assert_true(remedy->action[0] != '\0' && remedy->cost[0] != '\0' && remedy->how[0] != '\0');
    assert_true(remedy->saves_bytes <= remedy->saves_at_most_bytes);
    for (const char *line = remedy->how; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (length > LONGEST_CODE_LINE)
            fail_msg("a line of code of %zu columns: %s", length, line);
        line += length + (line[length] == '\n');
    }
}

/* Of a finding in parts these are all of it. */
static inline void check_finding(const vw_finding *finding)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < finding->part_count; i++) {
        sum += finding->parts[i].bytes;
        assert_true(i == 0 || finding->parts[i].bytes <= finding->parts[i - 1].bytes);
    }
    assert_true(finding->part_count == 0 || sum == finding->bytes);
    if (strstr(finding->title, "unknown amount") != NULL)
        fail_msg("%s", finding->title);
    for (size_t i = 0; i < finding->remedy_count; i++)
        check_remedy(&finding->remedies[i]);
}

static inline vw_diagnosis *diagnose_on(const vw__error_text_summary *summary, uint64_t card_bytes)
{
    vw__diagnosis_draft draft;
    vw_diagnosis *made = NULL;
    vw_doctor_options options = {.struct_size = sizeof options, .card_bytes = card_bytes};
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    assert_int_equal(vw__doctor_text(summary, &options, &draft), VW_OK);
    assert_int_equal(vw__diagnosis_finish(&draft, &made), VW_OK);
    assert_true(strlen(made->sentence) > 20 && strlen(made->sentence) <= LONGEST_SENTENCE);
    assert_true(made->reasoning_count > 0);
    if (strstr(made->sentence, "unknown amount") != NULL)
        fail_msg("%s", made->sentence);
    for (size_t i = 0; i < made->finding_count; i++)
        check_finding(&made->findings[i]);
    assert_fits_screen(made, "train.log");
    return made;
}

static inline vw_diagnosis *diagnose(const vw__error_text_summary *summary)
{
    return diagnose_on(summary, 0);
}

static inline const vw_finding *finding_of(const vw_diagnosis *diagnosis, const char *kind)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        if (strcmp(diagnosis->findings[i].kind, kind) == 0)
            return &diagnosis->findings[i];
    return NULL;
}

static inline const vw_remedy *remedy_with(const vw_finding *finding, const char *how)
{
    assert_non_null(finding);
    for (size_t i = 0; i < finding->remedy_count; i++)
        if (strstr(finding->remedies[i].how, how) != NULL)
            return &finding->remedies[i];
    return NULL;
}

static inline bool says(const vw_diagnosis *diagnosis, const char *words)
{
    for (size_t i = 0; i < diagnosis->reasoning_count; i++)
        if (strstr(diagnosis->reasoning[i], words) != NULL)
            return true;
    return false;
}

#endif /* VW_TESTS_DIAGNOSED_TEXT_H */
