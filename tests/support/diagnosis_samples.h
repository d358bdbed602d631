/* diagnosis_samples.h - hand-made diagnoses for tests of the doctor's report. */
#ifndef VW_TESTS_DIAGNOSIS_SAMPLES_H
#define VW_TESTS_DIAGNOSIS_SAMPLES_H

#include "vramwise/doctor.h"

#define SAMPLE_GIB (UINT64_C(1) << 30)
#define SAMPLE_MIB (UINT64_C(1) << 20)
#define SAMPLE_COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const sample_reasons[] = {
    "The request was for 1.78 GiB, and the driver had 26.0 MiB free.",
    "PyTorch held 23.50 GiB, of which 14.80 GiB were live: 8.70 GiB were idle.",
    "The idle memory would serve the request 4.9 times over, but its largest piece is 1.73 GiB.",
};
static const char *const sample_where[] = {
    "train.py:152 main",
    "/home/somebody/projects/models/transformer/layers/attention_block.py:88 forward",
};
static const char *const sample_evidence[] = {
    "333 segments; 260 of them have idle memory, and a live block that keeps them from being given "
    "back.",
    "The blocks that pin most idle memory come from the two lines above.",
};
static const vw_part sample_parts[] = {
    {"pinned by train.py:152 main", 6 * SAMPLE_GIB},
    {"pinned by attention_block.py:88 forward", 2 * SAMPLE_GIB},
};
static const vw_remedy sample_remedies[] = {
    {
        .action = "let segments grow instead of taking new ones",
        .saves_bytes = 3600 * SAMPLE_MIB,
        .saves_at_most_bytes = 3600 * SAMPLE_MIB,
        .basis = VW_BASIS_REPLAYED,
        .enough = VW_ENOUGH_YES,
        .cost = "none known; needs PyTorch 2.1 or newer",
        .how = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    },
    {
        .action = "pad every batch to one of a few lengths, so that freed blocks fit again",
        .saves_bytes = 1 * SAMPLE_GIB,
        .saves_at_most_bytes = 4 * SAMPLE_GIB,
        .basis = VW_BASIS_COMPUTED,
        .cost = "time: padded tokens are computed too",
        .how = "length = -(-max(len(row) for row in rows) // 128) * 128\n"
               "batch = pad_to_length(rows, length)\n"
               "\n"
               "loss = model(batch.to(device, non_blocking=True), labels=batch.labels).loss\n",
    },
    {
        .action = "call empty_cache() between training and evaluation",
        .saves_bytes = VW_UNKNOWN,
        .saves_at_most_bytes = VW_UNKNOWN,
        .basis = VW_BASIS_RULE,
    },
};
static const char *const sample_warning_evidence[] = {
    "Replayed, it reserves 31.20 GiB where the settings of the run reserve 23.50 GiB.",
};
static const vw_part sample_peak_parts[] = {
    {"activations", 9 * SAMPLE_GIB},   {"optimizer state", 3 * SAMPLE_GIB},
    {"weights", 1536 * SAMPLE_MIB},    {"gradients", 1 * SAMPLE_GIB},
    {"temporaries", 300 * SAMPLE_MIB},
};

/* A warning first: a report must show it last. */
static const vw_finding sample_findings[] = {
    {
        .kind = "warning",
        .title = "max_split_size_mb:128, which many pages recommend, would make it worse here.",
        .bytes = VW_UNKNOWN,
        .evidence = sample_warning_evidence,
        .evidence_count = SAMPLE_COUNT(sample_warning_evidence),
    },
    {
        .kind = "fragmentation",
        .title = "8.70 GiB are reserved and idle, in 260 pieces.",
        .bytes = 8908 * SAMPLE_MIB,
        .where = sample_where,
        .where_count = SAMPLE_COUNT(sample_where),
        .evidence = sample_evidence,
        .evidence_count = SAMPLE_COUNT(sample_evidence),
        .parts = sample_parts,
        .part_count = SAMPLE_COUNT(sample_parts),
        .remedies = sample_remedies,
        .remedy_count = SAMPLE_COUNT(sample_remedies),
    },
    {
        .kind = "peak",
        .title = "At the peak 14.80 GiB were live, most of it activations.",
        .bytes = 15155 * SAMPLE_MIB,
        .parts = sample_peak_parts,
        .part_count = SAMPLE_COUNT(sample_peak_parts),
    },
};

static const vw_diagnosis sample_fragmentation = {
    .verdict = VW_VERDICT_FRAGMENTATION,
    .confidence = VW_CONFIDENCE_HIGH,
    .source = VW_SOURCE_RECORDING,
    .sentence = "Fragmentation: 1.78 GiB were refused while 8.70 GiB lay idle, in pieces of at "
                "most 1.73 GiB.",
    .error_count = 1,
    .reasoning = sample_reasons,
    .reasoning_count = SAMPLE_COUNT(sample_reasons),
    .numbers = {.tried_bytes = 1823 * SAMPLE_MIB,
                .total_bytes = 24 * SAMPLE_GIB,
                .free_bytes = 26 * SAMPLE_MIB,
                .allocated_bytes = 15155 * SAMPLE_MIB,
                .reserved_bytes = 24063 * SAMPLE_MIB,
                .process_bytes = VW_UNKNOWN,
                .allowed_bytes = VW_UNKNOWN,
                .device = 0},
    .findings = sample_findings,
    .finding_count = SAMPLE_COUNT(sample_findings),
};

#define SAMPLE_NO_NUMBERS                                                                          \
    {                                                                                              \
        VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN, -1     \
    }

#endif /* VW_TESTS_DIAGNOSIS_SAMPLES_H */
