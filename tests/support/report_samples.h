/* report_samples.h - hand-made results of replays, for tests of the reports of replay and tune. */
#ifndef VW_TESTS_REPORT_SAMPLES_H
#define VW_TESTS_REPORT_SAMPLES_H

#include "vramwise/analysis.h"

#define SAMPLE_GIB (UINT64_C(1) << 30)
#define SAMPLE_MIB (UINT64_C(1) << 20)

static const vw_replay_result sample_results[] = {
    {
        .policy = "recorded",
        .conf = "max_split_size_mb:128",
        .card_bytes = 24 * SAMPLE_GIB,
        .events_done = 1200,
        .peak_reserved_bytes = 23 * SAMPLE_GIB,
        .peak_live_bytes = 20 * SAMPLE_GIB,
        .peak_allocated_bytes = 20 * SAMPLE_GIB,
        .ratio = 1.15,
        .retries = 2,
        .has_oom = true,
        .oom_event = 1200,
        .oom_tried_bytes = 700 * SAMPLE_MIB,
        .oom_reserved_bytes = 23 * SAMPLE_GIB,
        .oom_allocated_bytes = 20 * SAMPLE_GIB,
        .calls = {.alloc = 100, .free = 7},
        .device_ns = 12345678,
        .longest_stall_ns = 1500,
        .smallest_card_bytes = VW_UNKNOWN,
        .first_card_bytes = VW_UNKNOWN,
        .settled_device_ns = VW_UNKNOWN,
        .settled_duration_ns = VW_UNKNOWN,
    },
    {
        .policy = "expandable",
        .conf = "expandable_segments:True",
        .card_bytes = 24 * SAMPLE_GIB,
        .is_complete = true,
        .events_done = 5000,
        .peak_reserved_bytes = 21 * SAMPLE_GIB,
        .peak_live_bytes = 20 * SAMPLE_GIB,
        .peak_allocated_bytes = 20 * SAMPLE_GIB,
        .ratio = 1.05,
        .is_past_recorded_oom = true,
        .calls = {.create = 5, .release = 4, .map = 3, .unmap = 2, .set_access = 1},
        .device_ns = 1000,
        .smallest_card_bytes = 21 * SAMPLE_GIB,
        .first_card_bytes = 20 * SAMPLE_GIB,
        .settled_device_ns = 500,
        .settled_duration_ns = 400000,
    },
};

/* A run of an engine of our own. */
static const vw_replay_result sample_vramwise = {
    .policy = "vramwise",
    .conf = "",
    .card_bytes = 24 * SAMPLE_GIB,
    .is_complete = true,
    .events_done = 5000,
    .peak_reserved_bytes = 20 * SAMPLE_GIB + SAMPLE_GIB / 5,
    .peak_live_bytes = 20 * SAMPLE_GIB,
    .peak_allocated_bytes = 20 * SAMPLE_GIB,
    .ratio = 1.01,
    .device_ns = 4000000,
    .longest_stall_ns = 2500000,
    .smallest_card_bytes = VW_UNKNOWN,
    .settled_device_ns = 3100000,
    .settled_duration_ns = 1000000000,
    .moved_bytes = 3 * SAMPLE_GIB,
    .copied_bytes = 64 * SAMPLE_MIB,
};

#endif /* VW_TESTS_REPORT_SAMPLES_H */
