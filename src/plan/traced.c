/* traced.c - a trace's file: what it states, and its notes. */
#include "plan/traced.h"

#include <string.h>

#include "analysis/reading_limit.h"
#include "analysis/recording.h"
#include "base/arena.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"
#include "parse/byte_source.h"
#include "parse/json_read.h"

enum { VERSION = 2, MOST_DEPTH = 16, MOST_TEXT = 400 };

/* A step of a large model is some ten thousand events of 30 bytes. */
#define MOST_FILE_BYTES (UINT64_C(1) << 30)

typedef struct traced_draft {
    vw_plan_traced shown; /* first: the caller has a pointer to it */
    vw__arena arena;
    vw_recording *recording; /* owned */
    vw__traced_tally tally;  /* levels are owned */
    const char *notes[VW__TRACED_MOST_NOTES];
} traced_draft;

/* A file being read. */
typedef struct reading {
    vw__document *document; /* owned */
    vw__value root;
    const char *card_name;
    size_t limit_bytes; /* of memory: one half for the document, one for the model */
    traced_draft *draft;
} reading;

/* ---- fields ---------------------------------------------------------------------------------- */

/* A repeated name counts with its last value, as in Python. None: missing. */
static vw__value find(const vw__document *document, vw__value dict, const char *name)
{
    size_t pair_count = 0, size_bytes;
    const vw__value *pairs = vw__value_pairs(document, dict, &pair_count);
    vw__value found = vw__value_none();
    for (size_t i = 0; i < pair_count; i++)
        if (vw__value_get_kind(pairs[2 * i]) == VW__VALUE_STRING &&
            strcmp(vw__value_string(document, pairs[2 * i], &size_bytes), name) == 0)
            found = vw__document_resolve(document, pairs[2 * i + 1]);
    return found;
}

static vw_status find_list(const reading *r, const char *name, vw__value *out)
{
    *out = find(r->document, r->root, name);
    vw__value_kind kind = vw__value_get_kind(*out);
    if (kind == VW__VALUE_LIST)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE, "\"%s\" of the trace: expected a list, found %s", name,
                    kind == VW__VALUE_NONE ? "nothing" : vw__value_kind_name(kind));
}

static vw_status check_version(const reading *r)
{
    uint64_t version;
    vw__value_kind kind = vw__value_get_kind(r->root);
    if (kind != VW__VALUE_DICT)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "expected a trace of `vramwise plan --trace`, found %s",
                        vw__value_kind_name(kind));
    if (!vw__value_get_u64(r->document, find(r->document, r->root, "vramwise_trace"), &version))
        return vw__fail(VW_ERR_CORRUPT_FILE, "expected a trace of `vramwise plan --trace`, found "
                                             "an object without \"vramwise_trace\"");
    if (version != VERSION)
        return vw__fail(
            VW_ERR_UNSUPPORTED,
            "expected a trace of version %d, found version %llu: was it made by another "
            "vramwise?",
            VERSION, (unsigned long long)version);
    return VW_OK;
}

/* ---- what it states -------------------------------------------------------------------------- */

/* NULL: the text found no host memory. More notes than there is room for are left out. */
static vw_status note(traced_draft *draft, const char *text)
{
    if (text == NULL)
        return vw__fail_host_memory(MOST_TEXT, "a note of a trace");
    if (draft->shown.note_count < VW__TRACED_MOST_NOTES)
        draft->notes[draft->shown.note_count++] = text;
    return VW_OK;
}

/* {"text": "...", "times": n} */
static vw_status read_note(const reading *r, vw__value value)
{
    traced_draft *draft = r->draft;
    uint64_t times = 1;
    size_t size_bytes;
    vw__value text = vw__value_get_kind(value) == VW__VALUE_DICT ? find(r->document, value, "text")
                                                                 : vw__value_none();
    if (vw__value_get_kind(text) != VW__VALUE_STRING)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "\"notes\" of the trace: expected objects with a \"text\", found %s",
                        vw__value_kind_name(vw__value_get_kind(value)));
    (void)vw__value_get_u64(r->document, find(r->document, value, "times"), &times);
    const char *words = vw__value_string(r->document, text, &size_bytes);
    return note(draft, times > 1 ? vw__arena_format(&draft->arena, "%.*s (%llu times)", MOST_TEXT,
                                                    words, (unsigned long long)times)
                                 : vw__arena_format(&draft->arena, "%.*s", MOST_TEXT, words));
}

static vw_status read_notes(const reading *r)
{
    vw__value notes, item;
    uint64_t cursor = 0;
    VW__TRY(find_list(r, "notes", &notes));
    while (r->draft->shown.note_count < VW__TRACED_MOST_NOTES &&
           vw__value_next_item(r->document, notes, &cursor, &item))
        VW__TRY(read_note(r, vw__document_resolve(r->document, item)));
    return VW_OK;
}

/* [batch, length] */
static vw_status read_size(const reading *r, size_t step, vw__value value,
                           vw_plan_traced_size *size)
{
    uint64_t cursor = 0, *const numbers[] = {&size->batch, &size->sequence};
    vw__value item;
    size_t count = 0;
    bool is_sound = vw__value_get_kind(value) == VW__VALUE_LIST;
    while (is_sound && vw__value_next_item(r->document, value, &cursor, &item)) {
        is_sound = count < 2 && vw__value_get_u64(r->document, item, numbers[count]);
        count++;
    }
    if (is_sound && count == 2 && size->batch > 0)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "step %zu of the trace: expected [batch, length] with a batch of 1 or more, "
                    "found %s",
                    step, is_sound ? "other numbers" : "other fields");
}

/* "sizes" may be missing. */
static vw_status read_sizes(const reading *r)
{
    vw__value sizes = find(r->document, r->root, "sizes"), item;
    uint64_t cursor = 0;
    traced_draft *draft = r->draft;
    if (vw__value_get_kind(sizes) == VW__VALUE_NONE)
        return VW_OK;
    VW__TRY(find_list(r, "sizes", &sizes));
    size_t count = vw__value_item_count(r->document, sizes);
    vw_plan_traced_size *made =
        vw__arena_alloc_array(&draft->arena, count, sizeof *made, sizeof(uint64_t));
    if (made == NULL)
        return vw__fail_host_memory(count * sizeof *made, "the sizes of traced steps");
    for (size_t i = 0; vw__value_next_item(r->document, sizes, &cursor, &item); i++)
        VW__TRY(read_size(r, i, vw__document_resolve(r->document, item), &made[i]));
    draft->shown.sizes = made;
    draft->shown.size_count = count;
    return VW_OK;
}

static vw_status read_torch_version(const reading *r)
{
    vw__value version = find(r->document, r->root, "torch");
    size_t size_bytes;
    if (vw__value_get_kind(version) != VW__VALUE_STRING)
        return VW_OK;
    const char *text = vw__value_string(r->document, version, &size_bytes);
    r->draft->shown.torch_version = vw__arena_format(&r->draft->arena, "%.*s", MOST_TEXT, text);
    return r->draft->shown.torch_version != NULL
               ? VW_OK
               : vw__fail_host_memory(MOST_TEXT, "the version of a trace");
}

static vw_status note_left_out(traced_draft *draft)
{
    const vw__traced_tally *tally = &draft->tally;
    if (tally->left_out == 0)
        return VW_OK;
    return note(draft, vw__arena_format(
                           &draft->arena,
                           "memory that kernels take by themselves was left out for %zu operators "
                           "of a kind that is not known (%.40s): a newer vramwise may know it",
                           tally->left_out, tally->left_out_kind));
}

/* ---- the whole ------------------------------------------------------------------------------- */

static vw_status read_all(reading *r)
{
    traced_draft *draft = r->draft;
    vw__traced_lists lists = {.document = r->document, .memory_limit_bytes = r->limit_bytes / 2};
    vw__model *model;
    VW__TRY(check_version(r));
    VW__TRY(read_torch_version(r));
    VW__TRY(read_notes(r));
    VW__TRY(find_list(r, "frames", &lists.frames));
    VW__TRY(find_list(r, "stacks", &lists.stacks));
    VW__TRY(find_list(r, "events", &lists.events));
    VW__TRY(vw__traced_play(&lists, r->card_name, &model, &draft->tally));
    VW__TRY(vw__playback_open(model, &draft->recording));
    draft->shown.recording = draft->recording;
    VW__TRY(read_sizes(r));
    VW__TRY(note_left_out(draft));
    draft->shown.notes = draft->notes;
    return VW_OK;
}

static vw_status read_document(vw__byte_source *source, reading *r)
{
    const vw__document_limits limits = {.memory_bytes = r->limit_bytes - r->limit_bytes / 2,
                                        .depth = MOST_DEPTH};
    VW__TRY(vw__document_create(&limits, NULL, &r->document));
    VW__TRY(vw__document_read_json(source, r->document, &r->root));
    r->root = vw__document_resolve(r->document, r->root);
    return VW_OK;
}

/* Adds to the words for a failure what the user can do about it, if memory was the reason. */
static vw_status explain_failure(const reading *r, vw_status status)
{
    char limit[VW__HUMAN_SIZE_BYTES];
    const bool has_hit_limit =
        (r->document != NULL && vw__document_has_hit_memory_limit(r->document)) ||
        (r->draft != NULL && r->draft->tally.has_hit_limit);
    if (!has_hit_limit)
        return status;
    return vw__fail(status, "%s. Reading may take %s in all; --max-memory allows more",
                    vw_last_error(), vw__human_size(r->limit_bytes, limit));
}

/* Takes the source over. */
static vw_status open_source(vw__byte_source *source, const char *card_name, vw_plan_traced **out)
{
    reading r = {.card_name = card_name,
                 .limit_bytes = (size_t)vw__min_u64(vw__reading_limit_bytes(0), SIZE_MAX),
                 .draft = vw__host_alloc_zeroed(1, sizeof *r.draft)};
    vw_status status = VW_OK;
    if (r.draft == NULL)
        status = vw__fail_host_memory(sizeof *r.draft, "a trace");
    else
        vw__arena_init(&r.draft->arena, VW__ARENA_NO_LIMIT);
    if (status == VW_OK)
        status = read_document(source, &r);
    vw__byte_source_close(source);
    if (status == VW_OK)
        status = read_all(&r);
    if (status != VW_OK)
        status = explain_failure(&r, status);
    vw__document_destroy(r.document);
    if (status == VW_OK)
        *out = &r.draft->shown;
    else if (r.draft != NULL)
        vw_plan_traced_close(&r.draft->shown);
    return status;
}

static const vw__byte_source_options source_options = {.output_limit_bytes = MOST_FILE_BYTES};

vw_status vw_plan_traced_open(const char *path, const char *card_name, vw_plan_traced **out)
{
    vw__byte_source *source;
    if (path == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no path of a trace, or no place for it");
    VW__TRY(vw__byte_source_open(path, &source_options, &source));
    return open_source(source, card_name, out);
}

vw_status vw__traced_open_memory(const void *bytes, size_t size_bytes, const char *card_name,
                                 vw_plan_traced **out)
{
    vw__byte_source *source;
    VW__TRY(vw__byte_source_open_memory(bytes, size_bytes, &source_options, &source));
    return open_source(source, card_name, out);
}

vw_status vw_plan_traced_write(const vw_plan_traced *traced, const char *path)
{
    if (traced == NULL || path == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no trace to write, or no path for it");
    return vw__playback_write(traced->recording->model, path);
}

uint64_t vw__traced_peak(const vw_plan_traced *traced, uint32_t begin, uint32_t end)
{
    const vw__traced_tally *tally = &((const traced_draft *)traced)->tally;
    uint64_t peak_bytes = 0;
    uint32_t from = 0; /* the level's first event */
    for (size_t i = 0; i < tally->level_count && from < end; i++) {
        if (tally->levels[i].end > begin)
            peak_bytes = vw__max_u64(peak_bytes, tally->levels[i].peak_bytes);
        from = tally->levels[i].end;
    }
    return peak_bytes;
}

void vw_plan_traced_close(vw_plan_traced *traced)
{
    traced_draft *draft = (traced_draft *)traced;
    if (draft == NULL)
        return;
    vw_recording_close(draft->recording);
    vw__host_free(draft->tally.levels);
    vw__arena_deinit(&draft->arena);
    vw__host_free(draft);
}
