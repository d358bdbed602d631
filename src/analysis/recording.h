/* recording.h - an opened recording, as the files of this folder see it. */
#ifndef VW_ANALYSIS_RECORDING_H
#define VW_ANALYSIS_RECORDING_H

#include "vramwise/analysis.h"
#include "base/byte_buffer.h"
#include "parse/byte_source.h"
#include "parse/torch_snapshot_read.h"
#include "engine/torch/torch_settings.h"
#include "model/memory_model.h"

struct vw_recording {
    vw__model *model; /* owned */
    vw__snapshot_encoding encoding;
    vw__byte_source_packing compression;
    uint64_t file_bytes;
    uint64_t uncompressed_bytes;
};

/* Carries a caller's progress function through the byte source, which counts bytes. */
typedef struct vw__recording_progress {
    vw_progress progress; /* or NULL */
    void *context;
} vw__recording_progress;

/* Options of a source that reports its progress to `bridge`, which must outlive it. */
vw__byte_source_options vw__recording_progress_options(vw__recording_progress *bridge);

/* Reads a recording from an open source, which stays the caller's. Errors as of
 * vw_recording_open(). */
VW_MUST_CHECK vw_status vw__recording_open_source(vw__byte_source *source,
                                                  uint64_t memory_limit_bytes, vw_recording **out);

/* The version of PyTorch whose rules to follow: `wanted` ("2.4"), or, where that is NULL, the
 * newest that the file's fields allow, and 2.11 if they allow that. VW_ERR_INVALID_ARGUMENT for a
 * version before the oldest we know, or after the newest. Text is static. */
VW_MUST_CHECK vw_status vw__recording_version(const vw__model *model, const char *wanted,
                                              const char **out);

/* The oldest and the newest version whose snapshots have just these fields. */
void vw__recording_version_range(const vw__model *model, const char **oldest, const char **newest);

/* The option string that is recorded, or NULL. */
const char *vw__recording_conf_text(const vw__model *model);

/* Appends the option string that the recording was made with: the recorded one; if the file has
 * only values (2.3 and later), a string with these values; if it has nothing, the defaults, and
 * expandable segments if pages were mapped. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__recording_conf(const vw__model *model, vw__byte_buffer *out);

/* Reads an option string by the rules of a version ("2.4"). Freed with vw__torch_settings_deinit().
 * VW_ERR_BAD_SETTING, VW_ERR_TOO_LARGE, VW_ERR_INVALID_ARGUMENT (version), VW_ERR_HOST_MEMORY:
 * nothing to free. */
VW_MUST_CHECK vw_status vw__recording_read_conf(const char *torch_version, const char *conf,
                                                vw__torch_settings *out);

/* The settings of the recording, by the rules of `wanted_version` or of vw__recording_version(). If
 * that version cannot use them, the defaults: no PyTorch ever ran with them. Freed with
 * vw__torch_settings_deinit(). VW_ERR_INVALID_ARGUMENT (version), VW_ERR_HOST_MEMORY: nothing to
 * free. */
VW_MUST_CHECK vw_status vw__recording_settings(const vw__model *model, const char *wanted_version,
                                               vw__torch_settings *out);

/* The state of the launch gate when a snapshot of PyTorch's was taken under our allocator: "waits",
 * "armed", "refused: " and why. NULL elsewhere. */
const char *vw__recording_launch_gate(const vw__model *model);

/* Returns whether our own recorder made it in a program without Python, where `python train.py`
 * would be the wrong advice. */
bool vw__recording_is_of_a_pool(const vw__model *model);

/* The trace to work on: of `device`, or the one with the most events for VW_BUSIEST_DEVICE; never
 * the host's. VW_ERR_CORRUPT_FILE if the recording has no trace with an event in it (what to do
 * about it in vw_last_error()), VW_ERR_INVALID_ARGUMENT for a device that is not there. */
VW_MUST_CHECK vw_status vw__recording_trace(const vw__model *model, int device,
                                            const vw__model_trace **out);

/* As vw_recording_stats_make(), for who needs no usages: those of its moments are empty. */
VW_MUST_CHECK vw_status vw__recording_totals_make(const vw_recording *recording,
                                                  const char *torch_version,
                                                  vw_recording_stats **out);

#endif /* VW_ANALYSIS_RECORDING_H */
