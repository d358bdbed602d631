/* doctor.c - the entry points of the doctor.
 *
 * parse/file_kind.h says whether the input is a recording or text. Three scanners read a text at
 * the same time, in one pass: one for errors, one for steps with their memory, one for the time
 * that steps waited. An error wins, since the
 * log of a run that died usually has steps as well; but where the steps grow by enough to explain
 * the error, the verdict is a leak. */
#include "doctor/doctor.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "analysis/phase.h"
#include "doctor/loader.h"
#include "parse/byte_source.h"
#include "parse/file_kind.h"
#include "parse/wait_log.h"
#include "settings/setting_variable.h"

enum {
    PIECE_BYTES = 256 << 10,
    LOG_LINES = 64, /* more are a log, not something pasted */
};

/* ---- text ------------------------------------------------------------------------------------ */

struct vw__doctor_text_scan {
    vw__error_text_scan *errors; /* owned */
    vw__step_log_scan *steps;    /* owned */
    vw__wait_log waits;
};

vw_status vw__doctor_text_scan_create(vw__doctor_text_scan **out)
{
    vw__doctor_text_scan *scan = vw__host_alloc_zeroed(1, sizeof *scan);
    if (scan == NULL)
        return vw__fail_host_memory(sizeof *scan, "a text");
    vw_status status = vw__error_text_scan_create(&scan->errors);
    if (status == VW_OK)
        vw__error_text_scan_judge(scan->errors, vw__phase_judge);
    if (status == VW_OK)
        status = vw__step_log_scan_create(&scan->steps);
    if (status != VW_OK) {
        vw__doctor_text_scan_destroy(scan);
        return status;
    }
    *out = scan;
    return VW_OK;
}

void vw__doctor_text_scan_destroy(vw__doctor_text_scan *scan)
{
    if (scan == NULL)
        return;
    vw__step_log_scan_destroy(scan->steps);
    vw__error_text_scan_destroy(scan->errors);
    vw__host_free(scan);
}

size_t vw__doctor_text_scan_held_bytes(const vw__doctor_text_scan *scan)
{
    return sizeof *scan + vw__error_text_scan_held_bytes() +
           vw__step_log_scan_held_bytes(scan->steps);
}

vw_status vw__doctor_text_scan_feed(vw__doctor_text_scan *scan, const char *bytes,
                                    size_t size_bytes)
{
    VW__TRY(vw__error_text_scan_feed(scan->errors, bytes, size_bytes));
    vw__wait_log_feed(&scan->waits, bytes, size_bytes);
    return vw__step_log_scan_feed(scan->steps, bytes, size_bytes);
}

static vw_status feed_text(vw__byte_source *source, vw__doctor_text_scan *scan)
{
    for (;;) {
        const uint8_t *bytes;
        size_t size_bytes;
        VW__TRY(vw__byte_source_peek(source, 1, &bytes, &size_bytes));
        if (size_bytes == 0)
            return VW_OK;
        if (size_bytes > PIECE_BYTES)
            size_bytes = PIECE_BYTES;
        VW__TRY(vw__doctor_text_scan_feed(scan, (const char *)bytes, size_bytes));
        vw__byte_source_take(source, size_bytes);
    }
}

static bool has_report(const vw__error_text_summary *summary)
{
    return summary->first.kind != VW__ERROR_TEXT_NONE &&
           summary->first.kind != VW__ERROR_TEXT_NOT_OOM &&
           !vw__error_text_is_retry(&summary->first);
}

static vw_status judge_lines(vw__doctor_text_scan *scan, const vw_doctor_options *options,
                             vw__diagnosis_draft *draft, vw__doctor_text_facts *facts)
{
    const vw__error_text_summary *summary = &facts->errors;
    const vw__step_log *log = &facts->steps;
    VW__TRY(vw__error_text_scan_finish(scan->errors, &facts->errors));
    VW__TRY(vw__step_log_scan_finish(scan->steps, &facts->steps));
    if (options != NULL)
        draft->settings_variable =
            vw__setting_variable(NULL, vw__setting_version(options->torch_version), false);
    if (!has_report(summary) && log->point_count != 0) {
        draft->source = VW_SOURCE_STEPS;
        return vw__doctor_steps(log, options, draft, NULL);
    }
    if (!has_report(summary) && summary->is_binary)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "this is neither text nor a memory snapshot: most of its bytes occur in no "
                        "text; expected an error message, a log, or a snapshot");
    draft->source = summary->line_count > LOG_LINES ? VW_SOURCE_LOG : VW_SOURCE_TEXT;
    VW__TRY(vw__doctor_text(summary, options, draft));
    if (log->point_count != 0)
        VW__TRY(vw__doctor_add_growth(log, options, draft));
    vw__doctor_name_place(summary, draft);
    return VW_OK;
}

static vw_status judge_text(vw__doctor_text_scan *scan, const vw_doctor_options *options,
                            vw__diagnosis_draft *draft, vw__doctor_text_facts *facts)
{
    VW__TRY(judge_lines(scan, options, draft, facts));
    vw__loader_add_waiting(draft, vw__wait_log_share(&scan->waits), VW_UNKNOWN, VW_UNKNOWN);
    return VW_OK;
}

static vw_status diagnose_text(vw__byte_source *source, const vw_doctor_options *options,
                               vw__diagnosis_draft *draft)
{
    vw__doctor_text_scan *scan = NULL;
    vw__doctor_text_facts facts;
    VW__TRY(vw__doctor_text_scan_create(&scan));
    vw_status status = feed_text(source, scan);
    if (status == VW_OK)
        status = judge_text(scan, options, draft, &facts);
    vw__doctor_text_scan_destroy(scan);
    return status;
}

/* ---- the doors ------------------------------------------------------------------------------- */

static vw_status diagnose_recording(vw__byte_source *source, const vw_doctor_options *options,
                                    vw__diagnosis_draft *draft)
{
    vw_recording *recording = NULL;
    VW__TRY(vw__recording_open_source(source, 0, &recording));
    draft->source = VW_SOURCE_RECORDING;
    vw_status status = vw__doctor_recording(recording, options, draft);
    vw_recording_close(recording);
    return status;
}

static vw_status diagnose(vw__byte_source *source, bool may_be_recording,
                          const vw_doctor_options *options, vw__diagnosis_draft *draft)
{
    const uint8_t *bytes;
    size_t size_bytes;
    bool is_recording;
    VW__TRY(vw__byte_source_peek(source, VW__FILE_KIND_BYTES, &bytes, &size_bytes));
    VW__TRY(vw__file_kind_detect(bytes, size_bytes, &is_recording));
    if (may_be_recording && is_recording)
        return diagnose_recording(source, options, draft);
    return diagnose_text(source, options, draft);
}

vw_status vw__doctor_read_options(const vw_doctor_options *given, vw_doctor_options *out)
{
    *out = (vw_doctor_options){.struct_size = sizeof *out};
    VW__TRY(VW__STRUCT_IN(vw_doctor_options, given, out));
    /* A text has little use for it, but what nobody knows is a mistake all the same. */
    const char *version;
    return out->torch_version != NULL ? vw__recording_version(NULL, out->torch_version, &version)
                                      : VW_OK;
}

vw_status vw__doctor_settle(vw_status status, vw__diagnosis_draft *draft, vw_diagnosis **out)
{
    if (status != VW_OK) {
        vw__diagnosis_deinit(draft);
        return status;
    }
    return vw__diagnosis_finish(draft, out);
}

vw_status vw_doctor_file(const char *path, const vw_doctor_options *options, vw_diagnosis **out)
{
    if (path == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a path and a place for the diagnosis");
    vw_doctor_options used;
    VW__TRY(vw__doctor_read_options(options, &used));
    vw__recording_progress bridge = {used.progress, used.progress_context};
    vw__byte_source_options source_options = vw__recording_progress_options(&bridge);
    vw__byte_source *source = NULL;
    VW__TRY(vw__byte_source_open(path, &source_options, &source));

    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    vw_status status = diagnose(source, true, &used, &draft);
    vw__byte_source_close(source);
    return vw__doctor_settle(status, &draft, out);
}

vw_status vw_doctor_text(const char *text, size_t size_bytes, const vw_doctor_options *options,
                         vw_diagnosis **out)
{
    if ((text == NULL && size_bytes != 0) || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a text and a place for the diagnosis");
    vw_doctor_options used;
    VW__TRY(vw__doctor_read_options(options, &used));
    vw__byte_source *source = NULL;
    VW__TRY(vw__byte_source_open_memory(text != NULL ? text : "", size_bytes, NULL, &source));

    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    vw_status status = diagnose(source, false, &used, &draft);
    vw__byte_source_close(source);
    return vw__doctor_settle(status, &draft, out);
}

vw_status vw__doctor_text_scan_diagnose(vw__doctor_text_scan *scan,
                                        const vw_doctor_options *options,
                                        vw__doctor_text_facts *facts, vw_diagnosis **out)
{
    vw_doctor_options used;
    VW__TRY(vw__doctor_read_options(options, &used));
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    return vw__doctor_settle(judge_text(scan, &used, &draft, facts), &draft, out);
}

vw_status vw_doctor_recording(const vw_recording *recording, const vw_doctor_options *options,
                              vw_diagnosis **out)
{
    if (recording == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a recording and a place for the diagnosis");
    vw_doctor_options used;
    VW__TRY(vw__doctor_read_options(options, &used));
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_RECORDING);
    return vw__doctor_settle(vw__doctor_recording(recording, &used, &draft), &draft, out);
}
