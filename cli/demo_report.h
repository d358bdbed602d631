/* demo_report.h - the two runs of the demo, told to people and to programs. */
#ifndef VRAMWISE_CLI_DEMO_REPORT_H
#define VRAMWISE_CLI_DEMO_REPORT_H

#include <stdbool.h>

#include "vramwise/vramwise.h"

#include "demo_workload.h"
#include "memory_style.h"
#include "segment_map.h"
#include "terminal.h"

/* What there is to tell: the run that failed, and how the other stood at the same request. */
typedef struct demo_story {
    const demo_run *native;
    const demo_run *expandable;
    const segment_map *native_map;
    const segment_map *expandable_map;
} demo_story;

/* How memory is drawn on this output. */
memory_style demo_report_style(const terminal *output);

/* Writes the story to standard output, fitted to `output`. With `has_summary` also what
 * torch.cuda.memory_summary() would print at the failure. */
VW_MUST_CHECK vw_status demo_report_print(const demo_story *story, const terminal *output,
                                          bool has_summary);

/* Writes one JSON object to standard output. */
void demo_report_print_json(const demo_story *story);

#endif /* VRAMWISE_CLI_DEMO_REPORT_H */
