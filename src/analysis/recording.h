/* recording.h - an opened recording, as the files of this folder see it. */
#ifndef HR_ANALYSIS_RECORDING_H
#define HR_ANALYSIS_RECORDING_H

#include "headroom/analysis.h"
#include "base/byte_buffer.h"
#include "format/byte_source.h"
#include "format/torch_snapshot_read.h"
#include "model/memory_model.h"

struct hr_recording {
    hr__model *model; /* owned */
    hr__snapshot_encoding encoding;
    hr__compression compression;
    uint64_t file_bytes;
    uint64_t uncompressed_bytes;
};

/* Carries a caller's progress function through the byte source, which counts bytes. */
typedef struct hr__progress_bridge {
    hr_progress progress; /* or NULL */
    void *context;
} hr__progress_bridge;

/* For a source that tells `bridge`, which must outlive it. */
hr__byte_source_options hr__progress_options(hr__progress_bridge *bridge);

/* Reads a recording from an open source, which stays the caller's. Errors as of
 * hr_recording_open(). */
HR_MUST_CHECK hr_status hr__recording_open_source(hr__byte_source *source,
                                                  uint64_t memory_limit_bytes, hr_recording **out);

/* The version of PyTorch whose rules to follow: `wanted` ("2.4"), or, where that is NULL, the
 * newest that the file's fields allow, and 2.11 if they allow that. HR_ERR_INVALID_ARGUMENT for a
 * version before the oldest we know, or after the newest. Text is static. */
HR_MUST_CHECK hr_status hr__recording_version(const hr__model *model, const char *wanted,
                                              const char **out);

/* The oldest and the newest version whose snapshots have just these fields. */
void hr__recording_version_range(const hr__model *model, const char **oldest, const char **newest);

/* Appends the option string that the recording was made with: as it is recorded; where the file has
 * only values (2.3 and later), a string that says them; where it has none, the defaults, and
 * expandable segments if pages were mapped. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__recording_conf(const hr__model *model, hr__byte_buffer *out);

/* The trace to work on: of `device`, or the one with the most events for HR_BUSIEST_DEVICE; never
 * the host's. HR_ERR_CORRUPT_FILE if the recording has no trace with an event in it (what to do
 * about it in hr_last_error()), HR_ERR_INVALID_ARGUMENT for a device that is not there. */
HR_MUST_CHECK hr_status hr__recording_trace(const hr__model *model, int device,
                                            const hr__model_trace **out);

#endif /* HR_ANALYSIS_RECORDING_H */
