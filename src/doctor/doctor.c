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
#include "base/human_units.h"
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

static hr_status refuse_unreadable(const uint8_t *bytes, size_t size_bytes)
{
    if (is_checkpoint(bytes, size_bytes))
        return hr__fail(HR_ERR_CORRUPT_FILE,
                        "this is a checkpoint (torch.save, a zip file): it holds tensors, and "
                        "neither an error nor a record of the memory; expected an error message, "
                        "a log, or a memory snapshot (_dump_snapshot)");
    for (size_t i = 0; i < sizeof unreadable_forms / sizeof *unreadable_forms; i++) {
        const file_form *form = &unreadable_forms[i];
        if (size_bytes >= form->offset_bytes + form->mark_bytes &&
            memcmp(bytes + form->offset_bytes, form->mark, form->mark_bytes) == 0)
            return hr__fail(HR_ERR_CORRUPT_FILE, "this is %s", form->what);
    }
    return HR_OK;
}

hr_status hr__doctor_look(const uint8_t *bytes, size_t size_bytes, bool *is_one)
{
    HR__TRY(refuse_unreadable(bytes, size_bytes));
    *is_one = is_recording(bytes, size_bytes);
    return HR_OK;
}

/* ---- text ------------------------------------------------------------------------------------ */

struct hr__text_scan {
    hr__error_scan *errors;   /* owned */
    hr__step_log_scan *steps; /* owned */
};

hr_status hr__text_scan_create(hr__text_scan **out)
{
    hr__text_scan *scan = hr__host_alloc_zeroed(1, sizeof *scan);
    if (scan == NULL)
        return hr__fail_host_memory(sizeof *scan, "a text");
    hr_status status = hr__error_scan_create(&scan->errors);
    if (status == HR_OK)
        status = hr__step_log_scan_create(&scan->steps);
    if (status != HR_OK) {
        hr__text_scan_destroy(scan);
        return status;
    }
    *out = scan;
    return HR_OK;
}

void hr__text_scan_destroy(hr__text_scan *scan)
{
    if (scan == NULL)
        return;
    hr__step_log_scan_destroy(scan->steps);
    hr__error_scan_destroy(scan->errors);
    hr__host_free(scan);
}

hr_status hr__text_scan_feed(hr__text_scan *scan, const char *bytes, size_t size_bytes)
{
    HR__TRY(hr__error_scan_feed(scan->errors, bytes, size_bytes));
    return hr__step_log_scan_feed(scan->steps, bytes, size_bytes);
}

static hr_status feed_text(hr__byte_source *source, hr__text_scan *scan)
{
    for (;;) {
        const uint8_t *bytes;
        size_t size_bytes;
        HR__TRY(hr__byte_source_peek(source, 1, &bytes, &size_bytes));
        if (size_bytes == 0)
            return HR_OK;
        if (size_bytes > PIECE_BYTES)
            size_bytes = PIECE_BYTES;
        HR__TRY(hr__text_scan_feed(scan, (const char *)bytes, size_bytes));
        hr__byte_source_take(source, size_bytes);
    }
}

static bool has_report(const hr__error_summary *summary)
{
    return summary->first.kind != HR__ERROR_NONE && summary->first.kind != HR__ERROR_NOT_OOM;
}

static hr_status judge_text(hr__text_scan *scan, const hr_doctor_options *options,
                            hr__diagnosis_draft *draft, hr__text_facts *facts)
{
    const hr__error_summary *summary = &facts->errors;
    const hr__step_log *log = &facts->steps;
    HR__TRY(hr__error_scan_finish(scan->errors, &facts->errors));
    HR__TRY(hr__step_log_scan_finish(scan->steps, &facts->steps));
    if (!has_report(summary) && log->point_count != 0) {
        draft->source = HR_SOURCE_STEPS;
        return hr__doctor_steps(log, options, draft, NULL);
    }
    if (!has_report(summary) && summary->is_binary)
        return hr__fail(HR_ERR_CORRUPT_FILE,
                        "this is neither text nor a memory snapshot: most of its bytes occur in no "
                        "text; expected an error message, a log, or a snapshot");
    draft->source = summary->line_count > LOG_LINES ? HR_SOURCE_LOG : HR_SOURCE_TEXT;
    HR__TRY(hr__doctor_text(summary, options, draft));
    return log->point_count != 0 ? hr__doctor_add_growth(log, options, draft) : HR_OK;
}

static hr_status diagnose_text(hr__byte_source *source, const hr_doctor_options *options,
                               hr__diagnosis_draft *draft)
{
    hr__text_scan *scan = NULL;
    hr__text_facts facts;
    HR__TRY(hr__text_scan_create(&scan));
    hr_status status = feed_text(source, scan);
    if (status == HR_OK)
        status = judge_text(scan, options, draft, &facts);
    hr__text_scan_destroy(scan);
    return status;
}

/* ---- the doors ------------------------------------------------------------------------------- */

static hr_status diagnose_recording(hr__byte_source *source, const hr_doctor_options *options,
                                    hr__diagnosis_draft *draft)
{
    hr_recording *recording = NULL;
    HR__TRY(hr__recording_open_source(source, 0, &recording));
    draft->source = HR_SOURCE_RECORDING;
    hr_status status = hr__doctor_recording(recording, options, draft);
    hr_recording_close(recording);
    return status;
}

static hr_status diagnose(hr__byte_source *source, bool may_be_recording,
                          const hr_doctor_options *options, hr__diagnosis_draft *draft)
{
    const uint8_t *bytes;
    size_t size_bytes;
    bool is_one;
    HR__TRY(hr__byte_source_peek(source, HR__DOCTOR_LOOK_BYTES, &bytes, &size_bytes));
    HR__TRY(hr__doctor_look(bytes, size_bytes, &is_one));
    if (may_be_recording && is_one)
        return diagnose_recording(source, options, draft);
    return diagnose_text(source, options, draft);
}

hr_status hr__doctor_check_options(const hr_doctor_options **options)
{
    static const hr_doctor_options defaults = {.struct_size = sizeof defaults};
    if (*options == NULL)
        *options = &defaults;
    if ((*options)->struct_size < sizeof defaults)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected options with a struct_size of %zu or more, found %zu",
                        sizeof defaults, (*options)->struct_size);
    /* A text has no use for it, but what nobody knows is a mistake all the same. */
    const char *version;
    return (*options)->torch_version != NULL
               ? hr__recording_version(NULL, (*options)->torch_version, &version)
               : HR_OK;
}

hr_status hr__doctor_settle(hr_status status, hr__diagnosis_draft *draft, hr_diagnosis **out)
{
    if (status != HR_OK) {
        hr__diagnosis_deinit(draft);
        return status;
    }
    return hr__diagnosis_finish(draft, out);
}

hr_status hr_doctor_file(const char *path, const hr_doctor_options *options, hr_diagnosis **out)
{
    if (path == NULL || out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected a path and a place for the diagnosis");
    HR__TRY(hr__doctor_check_options(&options));
    hr__progress_bridge bridge = {options->progress, options->progress_context};
    hr__byte_source_options source_options = hr__progress_options(&bridge);
    hr__byte_source *source = NULL;
    HR__TRY(hr__byte_source_open(path, &source_options, &source));

    hr__diagnosis_draft draft;
    hr__diagnosis_init(&draft, HR_SOURCE_TEXT);
    hr_status status = diagnose(source, true, options, &draft);
    hr__byte_source_close(source);
    return hr__doctor_settle(status, &draft, out);
}

hr_status hr_doctor_text(const char *text, size_t size_bytes, const hr_doctor_options *options,
                         hr_diagnosis **out)
{
    if ((text == NULL && size_bytes != 0) || out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected a text and a place for the diagnosis");
    HR__TRY(hr__doctor_check_options(&options));
    hr__byte_source *source = NULL;
    HR__TRY(hr__byte_source_open_memory(text != NULL ? text : "", size_bytes, NULL, &source));

    hr__diagnosis_draft draft;
    hr__diagnosis_init(&draft, HR_SOURCE_TEXT);
    hr_status status = diagnose(source, false, options, &draft);
    hr__byte_source_close(source);
    return hr__doctor_settle(status, &draft, out);
}

hr_status hr__text_scan_diagnose(hr__text_scan *scan, const hr_doctor_options *options,
                                 hr__text_facts *facts, hr_diagnosis **out)
{
    HR__TRY(hr__doctor_check_options(&options));
    hr__diagnosis_draft draft;
    hr__diagnosis_init(&draft, HR_SOURCE_TEXT);
    return hr__doctor_settle(judge_text(scan, options, &draft, facts), &draft, out);
}

hr_status hr_doctor_recording(const hr_recording *recording, const hr_doctor_options *options,
                              hr_diagnosis **out)
{
    if (recording == NULL || out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected a recording and a place for the diagnosis");
    HR__TRY(hr__doctor_check_options(&options));
    hr__diagnosis_draft draft;
    hr__diagnosis_init(&draft, HR_SOURCE_RECORDING);
    return hr__doctor_settle(hr__doctor_recording(recording, options, &draft), &draft, out);
}
