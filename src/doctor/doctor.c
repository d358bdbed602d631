/* doctor.c - what was I given? and the door to the doctor.
 *
 * People hand over whatever they have, and often by a pipe, where nothing can be read twice. So the
 * first bytes decide: a pickle, or JSON with the fields of a snapshot near its beginning, is a
 * recording, and what is wrong with it then is an error to report. So is an archive, or anything
 * else that can be read once it has been unpacked. Everything else is text, in which two scanners
 * look at the same time, in one pass: for errors, and for steps with their memory. An error wins,
 * since a log of a run that died usually has steps in it as well; but where those grow by enough to
 * explain it, what the error came of is a leak. */
#include "doctor/doctor.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "format/byte_source.h"

enum {
    PIECE_BYTES = 256 << 10,
    PICKLE_MARK = 0x80,
    NEWEST_PICKLE_PROTOCOL = 5,
    LOG_LINES = 64, /* more are a log, not something pasted */
};

/* ---- what it is ------------------------------------------------------------------------------ */

static bool contains(const uint8_t *bytes, size_t size_bytes, const char *word)
{
    return memmem(bytes, size_bytes, word, strlen(word)) != NULL;
}

/* A pickle of the first protocols is text; a dict or a list begins so. */
static bool is_old_pickle(const uint8_t *bytes, size_t size_bytes)
{
    static const char *const beginnings[] = {"(dp", "(lp", "}q", "]q"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        size_t length = strlen(beginnings[i]);
        if (size_bytes > length && memcmp(bytes, beginnings[i], length) == 0 &&
            (bytes[0] != '(' || (bytes[length] >= '0' && bytes[length] <= '9')))
            return true;
    }
    return false;
}

static bool is_snapshot_json(const uint8_t *bytes, size_t size_bytes)
{
    size_t first = 0;
    while (first < size_bytes && strchr(" \t\r\n", bytes[first]) != NULL && bytes[first] != '\0')
        first++;
    if (first == size_bytes || (bytes[first] != '{' && bytes[first] != '['))
        return false;
    bool has_segment =
        contains(bytes, size_bytes, "\"total_size\"") && contains(bytes, size_bytes, "\"blocks\"");
    bool has_event =
        contains(bytes, size_bytes, "\"action\"") && contains(bytes, size_bytes, "\"addr\"");
    return contains(bytes, size_bytes, "\"device_traces\"") || has_segment || has_event ||
           contains(bytes, size_bytes, "\"segments\"");
}

static bool is_recording(const uint8_t *bytes, size_t size_bytes)
{
    if (size_bytes >= 2 && bytes[0] == PICKLE_MARK && bytes[1] <= NEWEST_PICKLE_PROTOCOL)
        return true;
    return is_old_pickle(bytes, size_bytes) || is_snapshot_json(bytes, size_bytes);
}

typedef struct file_form {
    size_t offset_bytes;
    const char *mark;
    size_t mark_bytes;
    const char *what;
} file_form;

#define MARK(text) text, sizeof(text) - 1

/* What people hand over that no reader of ours takes apart. */
static const file_form unreadable_forms[] = {
    {0, MARK("PK\x03\x04"), "a zip file: unpack it first"},
    {0, MARK("PK\x05\x06"), "a zip file, and empty"},
    {4, MARK("1AY&SY"), "compressed with bzip2: unpack it first (bunzip2)"},
    {0, MARK("7z\xBC\xAF\x27\x1C"), "a 7z archive: unpack it first"},
    {0, MARK("Rar!\x1A\x07"), "a rar archive: unpack it first"},
    {0, MARK("\x04\x22\x4D\x18"), "compressed with lz4: unpack it first (unlz4)"},
    {0, MARK("\x1F\x9D"), "compressed with compress: unpack it first (uncompress)"},
    {0, MARK("\x1F\x8B\x08"), "compressed twice (gzip inside): unpack it once first"},
    {0,
     MARK("\xFD"
          "7zXZ"),
     "compressed twice (xz inside): unpack it once first"},
    {0, MARK("\x28\xB5\x2F\xFD"), "compressed twice (zstd inside): unpack it once first"},
    {0, MARK("\x89PNG\r\n"), "an image: copy the text of the error instead"},
    {0, MARK("\xFF\xD8\xFF"), "an image: copy the text of the error instead"},
    {0, MARK("%PDF-"), "a PDF: copy the text of the error instead"},
};

/* torch.save() writes a zip file, too. */
static bool is_checkpoint(const uint8_t *bytes, size_t size_bytes)
{
    return size_bytes > 4 && memcmp(bytes, "PK\x03\x04", 4) == 0 &&
           contains(bytes, size_bytes, "/data.pkl");
}

static vw_status refuse_unreadable(const uint8_t *bytes, size_t size_bytes)
{
    if (is_checkpoint(bytes, size_bytes))
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "this is a checkpoint (torch.save, a zip file): it holds tensors, and "
                        "neither an error nor a record of the memory; expected an error message, "
                        "a log, or a memory snapshot (_dump_snapshot)");
    for (size_t i = 0; i < sizeof unreadable_forms / sizeof *unreadable_forms; i++) {
        const file_form *form = &unreadable_forms[i];
        if (size_bytes >= form->offset_bytes + form->mark_bytes &&
            memcmp(bytes + form->offset_bytes, form->mark, form->mark_bytes) == 0)
            return vw__fail(VW_ERR_CORRUPT_FILE, "this is %s", form->what);
    }
    return VW_OK;
}

vw_status vw__doctor_look(const uint8_t *bytes, size_t size_bytes, bool *is_one)
{
    VW__TRY(refuse_unreadable(bytes, size_bytes));
    *is_one = is_recording(bytes, size_bytes);
    return VW_OK;
}

/* ---- text ------------------------------------------------------------------------------------ */

struct vw__text_scan {
    vw__error_scan *errors;   /* owned */
    vw__step_log_scan *steps; /* owned */
};

vw_status vw__text_scan_create(vw__text_scan **out)
{
    vw__text_scan *scan = vw__host_alloc_zeroed(1, sizeof *scan);
    if (scan == NULL)
        return vw__fail_host_memory(sizeof *scan, "a text");
    vw_status status = vw__error_scan_create(&scan->errors);
    if (status == VW_OK)
        status = vw__step_log_scan_create(&scan->steps);
    if (status != VW_OK) {
        vw__text_scan_destroy(scan);
        return status;
    }
    *out = scan;
    return VW_OK;
}

void vw__text_scan_destroy(vw__text_scan *scan)
{
    if (scan == NULL)
        return;
    vw__step_log_scan_destroy(scan->steps);
    vw__error_scan_destroy(scan->errors);
    vw__host_free(scan);
}

vw_status vw__text_scan_feed(vw__text_scan *scan, const char *bytes, size_t size_bytes)
{
    VW__TRY(vw__error_scan_feed(scan->errors, bytes, size_bytes));
    return vw__step_log_scan_feed(scan->steps, bytes, size_bytes);
}

static vw_status feed_text(vw__byte_source *source, vw__text_scan *scan)
{
    for (;;) {
        const uint8_t *bytes;
        size_t size_bytes;
        VW__TRY(vw__byte_source_peek(source, 1, &bytes, &size_bytes));
        if (size_bytes == 0)
            return VW_OK;
        if (size_bytes > PIECE_BYTES)
            size_bytes = PIECE_BYTES;
        VW__TRY(vw__text_scan_feed(scan, (const char *)bytes, size_bytes));
        vw__byte_source_take(source, size_bytes);
    }
}

static bool has_report(const vw__error_summary *summary)
{
    return summary->first.kind != VW__ERROR_NONE && summary->first.kind != VW__ERROR_NOT_OOM;
}

static vw_status judge_text(vw__text_scan *scan, const vw_doctor_options *options,
                            vw__diagnosis_draft *draft, vw__text_facts *facts)
{
    const vw__error_summary *summary = &facts->errors;
    const vw__step_log *log = &facts->steps;
    VW__TRY(vw__error_scan_finish(scan->errors, &facts->errors));
    VW__TRY(vw__step_log_scan_finish(scan->steps, &facts->steps));
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
    return log->point_count != 0 ? vw__doctor_add_growth(log, options, draft) : VW_OK;
}

static vw_status diagnose_text(vw__byte_source *source, const vw_doctor_options *options,
                               vw__diagnosis_draft *draft)
{
    vw__text_scan *scan = NULL;
    vw__text_facts facts;
    VW__TRY(vw__text_scan_create(&scan));
    vw_status status = feed_text(source, scan);
    if (status == VW_OK)
        status = judge_text(scan, options, draft, &facts);
    vw__text_scan_destroy(scan);
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
    bool is_one;
    VW__TRY(vw__byte_source_peek(source, VW__DOCTOR_LOOK_BYTES, &bytes, &size_bytes));
    VW__TRY(vw__doctor_look(bytes, size_bytes, &is_one));
    if (may_be_recording && is_one)
        return diagnose_recording(source, options, draft);
    return diagnose_text(source, options, draft);
}

vw_status vw__doctor_check_options(const vw_doctor_options **options)
{
    static const vw_doctor_options defaults = {.struct_size = sizeof defaults};
    if (*options == NULL)
        *options = &defaults;
    if ((*options)->struct_size < sizeof defaults)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected options with a struct_size of %zu or more, found %zu",
                        sizeof defaults, (*options)->struct_size);
    /* A text has no use for it, but what nobody knows is a mistake all the same. */
    const char *version;
    return (*options)->torch_version != NULL
               ? vw__recording_version(NULL, (*options)->torch_version, &version)
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
    VW__TRY(vw__doctor_check_options(&options));
    vw__progress_bridge bridge = {options->progress, options->progress_context};
    vw__byte_source_options source_options = vw__progress_options(&bridge);
    vw__byte_source *source = NULL;
    VW__TRY(vw__byte_source_open(path, &source_options, &source));

    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    vw_status status = diagnose(source, true, options, &draft);
    vw__byte_source_close(source);
    return vw__doctor_settle(status, &draft, out);
}

vw_status vw_doctor_text(const char *text, size_t size_bytes, const vw_doctor_options *options,
                         vw_diagnosis **out)
{
    if ((text == NULL && size_bytes != 0) || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a text and a place for the diagnosis");
    VW__TRY(vw__doctor_check_options(&options));
    vw__byte_source *source = NULL;
    VW__TRY(vw__byte_source_open_memory(text != NULL ? text : "", size_bytes, NULL, &source));

    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    vw_status status = diagnose(source, false, options, &draft);
    vw__byte_source_close(source);
    return vw__doctor_settle(status, &draft, out);
}

vw_status vw__text_scan_diagnose(vw__text_scan *scan, const vw_doctor_options *options,
                                 vw__text_facts *facts, vw_diagnosis **out)
{
    VW__TRY(vw__doctor_check_options(&options));
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_TEXT);
    return vw__doctor_settle(judge_text(scan, options, &draft, facts), &draft, out);
}

vw_status vw_doctor_recording(const vw_recording *recording, const vw_doctor_options *options,
                              vw_diagnosis **out)
{
    if (recording == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a recording and a place for the diagnosis");
    VW__TRY(vw__doctor_check_options(&options));
    vw__diagnosis_draft draft;
    vw__diagnosis_init(&draft, VW_SOURCE_RECORDING);
    return vw__doctor_settle(vw__doctor_recording(recording, options, &draft), &draft, out);
}
