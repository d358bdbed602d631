/* diagnosis.c - see diagnosis.h. */
#include "doctor/diagnosis.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "settings/setting_variable.h"

enum { MOST_TEXT_BYTES = 2048 }; /* a longer one is cut */

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef struct diagnosis {
    vw_diagnosis shown; /* first: a pointer to one is a pointer to the other */
    vw__arena arena;
    vw__diagnosis_found_growth growth;
    vw_failed_at failed_at;
} diagnosis;

void vw__diagnosis_init(vw__diagnosis_draft *draft, vw_doctor_source source)
{
    *draft = (vw__diagnosis_draft){
        .verdict = VW_VERDICT_UNKNOWN,
        .source = source,
        .numbers = {VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN,
                    VW_UNKNOWN, -1},
        .settings_variable = vw__setting_variable(NULL, 0, false),
    };
    vw__arena_init(&draft->arena, VW__ARENA_NO_LIMIT);
    draft->spare.draft = draft;
}

void vw__diagnosis_deinit(vw__diagnosis_draft *draft)
{
    vw__arena_deinit(&draft->arena);
}

void vw__diagnosis_replace(vw__diagnosis_draft *draft, const vw__diagnosis_draft *other)
{
    vw__diagnosis_deinit(draft);
    *draft = *other;
    draft->spare.draft = draft;
    for (size_t i = 0; i < draft->finding_count; i++)
        draft->findings[i]->draft = draft;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static const char *keep(vw__diagnosis_draft *draft, const char *text)
{
    const char *kept = vw__arena_copy(&draft->arena, text, strlen(text));
    if (kept == NULL)
        draft->has_failed = true;
    return kept != NULL ? kept : "";
}

static void put_word(vw__diagnosis_draft *draft, vw__doctor_word word)
{
    size_t place = 0;
    while (place < draft->word_count && strcmp(draft->words[place].name, word.name) != 0)
        place++;
    if (place == VW__DIAGNOSIS_MOST_WORDS)
        return;
    draft->words[place] = word;
    draft->word_count += place == draft->word_count;
}

void vw__diagnosis_name(vw__diagnosis_draft *draft, const char *name, uint64_t bytes)
{
    put_word(draft, (vw__doctor_word){name, NULL, bytes});
}

void vw__diagnosis_name_text(vw__diagnosis_draft *draft, const char *name, const char *text)
{
    put_word(draft, (vw__doctor_word){name, text, VW_UNKNOWN});
}

void vw__diagnosis_name_numbers(vw__diagnosis_draft *draft, const vw_memory_numbers *numbers)
{
    vw__diagnosis_name(draft, "tried", numbers->tried_bytes);
    vw__diagnosis_name(draft, "total", numbers->total_bytes);
    vw__diagnosis_name(draft, "free", numbers->free_bytes);
    vw__diagnosis_name(draft, "in_use", numbers->allocated_bytes);
    vw__diagnosis_name(draft, "reserved", numbers->reserved_bytes);
    vw__diagnosis_name(draft, "allowed", numbers->allowed_bytes);
}

/* The word behind a "$", or NULL. */
static const vw__doctor_word *word_at(const vw__diagnosis_draft *draft, const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz_");
    for (size_t i = 0; i < draft->word_count; i++)
        if (strlen(draft->words[i].name) == length &&
            memcmp(draft->words[i].name, name, length) == 0)
            return &draft->words[i];
    return NULL;
}

typedef struct filled_text {
    char bytes[MOST_TEXT_BYTES];
    size_t length;
} filled_text;

/* `is_format`: a "%" of the word must not become a conversion. */
static void append_word(filled_text *out, const char *word, bool is_format)
{
    for (; *word != '\0' && out->length + 2 < sizeof out->bytes; word++) {
        if (*word == '%' && is_format)
            out->bytes[out->length++] = '%';
        out->bytes[out->length++] = *word;
    }
}

/* Puts words in the place of their names. */
static void fill(const vw__diagnosis_draft *draft, const char *sentence, bool is_format,
                 filled_text *out)
{
    *out = (filled_text){.length = 0};
    while (*sentence != '\0' && out->length + 1 < sizeof out->bytes) {
        const vw__doctor_word *word = *sentence == '$' ? word_at(draft, sentence + 1) : NULL;
        if (word == NULL) {
            out->bytes[out->length++] = *sentence++;
            continue;
        }
        append_word(out, word->text != NULL ? word->text : VW__DOCTOR_SIZE(word->bytes), is_format);
        sentence += 1 + strlen(word->name);
    }
    out->bytes[out->length] = '\0';
}

__attribute__((format(printf, 2, 0))) static const char *
keep_format(vw__diagnosis_draft *draft, const char *format, va_list arguments)
{
    char text[MOST_TEXT_BYTES];
    filled_text filled;
    fill(draft, format, true, &filled);
    (void)vw__c_locale_vsnprintf(text, sizeof text, filled.bytes, arguments);
    return keep(draft, text);
}

const char *vw__diagnosis_fill(vw__diagnosis_draft *draft, const char *sentence)
{
    filled_text filled;
    fill(draft, sentence, false, &filled);
    return keep(draft, filled.bytes);
}

const char *vw__diagnosis_text(vw__diagnosis_draft *draft, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = keep_format(draft, format, arguments);
    va_end(arguments);
    return text;
}

vw__doctor_size_text vw__doctor_size(uint64_t bytes)
{
    vw__doctor_size_text size = {.text = "an unknown amount"};
    if (bytes != VW_UNKNOWN)
        vw__human_size(bytes, size.text);
    return size;
}

const char *vw__diagnosis_size(vw__diagnosis_draft *draft, uint64_t bytes)
{
    return keep(draft, VW__DOCTOR_SIZE(bytes));
}

const char *vw__diagnosis_duration(vw__diagnosis_draft *draft, uint64_t duration_ns)
{
    char text[VW__HUMAN_DURATION_BYTES];
    return keep(draft, vw__human_duration(duration_ns, text));
}

const char *vw__diagnosis_share(vw__diagnosis_draft *draft, double share)
{
    char text[VW__HUMAN_SHARE_BYTES];
    return keep(draft, vw__human_share(share, text));
}

const char *vw__diagnosis_count(vw__diagnosis_draft *draft, uint64_t count, const char *noun)
{
    return vw__diagnosis_text(draft, "%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
}

/* ---- the verdict ----------------------------------------------------------------------------- */

void vw__diagnosis_conclude(vw__diagnosis_draft *draft, vw_verdict verdict,
                            vw_confidence confidence, const char *sentence, ...)
{
    va_list arguments;
    va_start(arguments, sentence);
    draft->sentence = keep_format(draft, sentence, arguments);
    va_end(arguments);
    draft->verdict = verdict;
    draft->confidence = confidence;
}

void vw__diagnosis_reason(vw__diagnosis_draft *draft, const char *sentence, ...)
{
    if (draft->reason_count == VW__DIAGNOSIS_MOST_REASONS)
        return;
    va_list arguments;
    va_start(arguments, sentence);
    draft->reasons[draft->reason_count++] = keep_format(draft, sentence, arguments);
    va_end(arguments);
}

/* ---- findings -------------------------------------------------------------------------------- */

vw__diagnosis_finding *vw__diagnosis_add(vw__diagnosis_draft *draft, const char *kind,
                                         uint64_t bytes, const char *title, ...)
{
    vw__diagnosis_finding *finding = NULL;
    if (draft->finding_count < VW__DIAGNOSIS_MOST_FINDINGS) {
        finding = vw__arena_alloc_array(&draft->arena, 1, sizeof *finding,
                                        _Alignof(vw__diagnosis_finding));
        draft->has_failed = draft->has_failed || finding == NULL;
        if (finding != NULL)
            draft->findings[draft->finding_count++] = finding;
    }
    if (finding == NULL)
        finding = &draft->spare;

    va_list arguments;
    va_start(arguments, title);
    *finding = (vw__diagnosis_finding){
        .kind = kind, .title = keep_format(draft, title, arguments), .bytes = bytes};
    va_end(arguments);
    finding->draft = draft;
    return finding;
}

vw__diagnosis_finding *vw__diagnosis_find(vw__diagnosis_draft *draft, const char *kind)
{
    for (size_t i = 0; i < draft->finding_count; i++)
        if (strcmp(draft->findings[i]->kind, kind) == 0)
            return draft->findings[i];
    return NULL;
}

void vw__diagnosis_where(vw__diagnosis_finding *finding, const char *place, ...)
{
    char text[MOST_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, place);
    (void)vw__c_locale_vsnprintf(text, sizeof text, place, arguments);
    va_end(arguments);
    for (size_t i = 0; i < finding->where_count; i++)
        if (strcmp(finding->where[i], text) == 0)
            return;
    if (finding->where_count < VW__DIAGNOSIS_MOST_WHERE && text[0] != '\0')
        finding->where[finding->where_count++] = keep(finding->draft, text);
}

void vw__diagnosis_evidence(vw__diagnosis_finding *finding, const char *sentence, ...)
{
    if (finding->evidence_count == VW__DIAGNOSIS_MOST_EVIDENCE)
        return;
    va_list arguments;
    va_start(arguments, sentence);
    finding->evidence[finding->evidence_count++] = keep_format(finding->draft, sentence, arguments);
    va_end(arguments);
}

void vw__diagnosis_part(vw__diagnosis_finding *finding, const char *name, uint64_t bytes)
{
    if (finding->part_count < VW__DIAGNOSIS_MOST_PARTS)
        finding->parts[finding->part_count++] = (vw_part){keep(finding->draft, name), bytes};
}

void vw__diagnosis_remedy(vw__diagnosis_finding *finding, const char *action,
                          vw__diagnosis_savings savings, vw_basis basis, const char *cost,
                          const char *how)
{
    if (finding->remedy_count == VW__DIAGNOSIS_MOST_REMEDIES)
        return;
    finding->remedies[finding->remedy_count++] = (vw_remedy){
        .action = keep(finding->draft, action),
        .saves_bytes = savings.at_least_bytes,
        .saves_at_most_bytes = savings.at_most_bytes,
        .basis = basis,
        .cost = keep(finding->draft, cost),
        .how = keep(finding->draft, how),
    };
}

void vw__diagnosis_advice(vw__diagnosis_finding *finding, const char *action, const char *cost,
                          const char *how)
{
    vw__diagnosis_remedy(finding, action, VW__DIAGNOSIS_SAVES_UNKNOWN, VW_BASIS_RULE, cost, how);
}

void vw__diagnosis_advise(vw__diagnosis_finding *finding, const vw__doctor_advice *rows,
                          size_t count)
{
    for (size_t i = 0; i < count; i++)
        vw__diagnosis_advice(finding, rows[i].action,
                             rows[i].cost != NULL ? rows[i].cost
                                                  : vw__remedy_of(VW__REMEDY_INFERENCE_MODE)->cost,
                             rows[i].how);
}

static const char *words_in(vw__diagnosis_draft *draft, const char *text,
                            const vw__remedy_words *words)
{
    vw__remedy_words used = words != NULL ? *words : (vw__remedy_words){0};
    if (used.settings == NULL)
        used.settings = draft->settings_variable;
    const char *made = vw__remedy_text(&draft->arena, text, &used);
    draft->has_failed = draft->has_failed || made == NULL;
    return made != NULL ? made : "";
}

const char *vw__diagnosis_code(vw__diagnosis_draft *draft, vw__remedy_id id,
                               const vw__remedy_words *words)
{
    return words_in(draft, vw__remedy_of(id)->code, words);
}

void vw__diagnosis_known_remedy(vw__diagnosis_finding *finding, vw__remedy_id id,
                                const vw__remedy_words *words, vw__diagnosis_savings savings,
                                vw_basis basis)
{
    const vw__remedy *known = vw__remedy_of(id);
    vw__diagnosis_remedy(finding, words_in(finding->draft, known->action, words), savings, basis,
                         known->cost, vw__diagnosis_code(finding->draft, id, words));
}

void vw__diagnosis_enough(vw__diagnosis_finding *finding, vw_enough enough)
{
    if (finding->remedy_count != 0)
        finding->remedies[finding->remedy_count - 1].enough = enough;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* A copy of an array in the arena; NULL for none. */
static const void *keep_array(vw__diagnosis_draft *draft, const void *array, size_t count,
                              size_t element_bytes)
{
    if (count == 0)
        return NULL;
    void *kept = vw__arena_alloc_array(&draft->arena, count, element_bytes, _Alignof(max_align_t));
    if (kept == NULL)
        draft->has_failed = true;
    else
        memcpy(kept, array, count * element_bytes);
    return kept;
}

static vw_finding finished_finding(vw__diagnosis_draft *draft, const vw__diagnosis_finding *from)
{
    return (vw_finding){
        .kind = from->kind,
        .title = from->title,
        .bytes = from->bytes,
        .where = keep_array(draft, from->where, from->where_count, sizeof *from->where),
        .where_count = from->where_count,
        .evidence = keep_array(draft, from->evidence, from->evidence_count, sizeof *from->evidence),
        .evidence_count = from->evidence_count,
        .parts = keep_array(draft, from->parts, from->part_count, sizeof *from->parts),
        .part_count = from->part_count,
        .remedies = keep_array(draft, from->remedies, from->remedy_count, sizeof *from->remedies),
        .remedy_count = from->remedy_count,
    };
}

/* 0: the verdict's own, 1: what else there is, 2: warnings. */
static int rank_of(const vw__diagnosis_draft *draft, const vw__diagnosis_finding *finding)
{
    if (strcmp(finding->kind, vw_verdict_name(draft->verdict)) == 0)
        return 0;
    return strcmp(finding->kind, "warning") == 0 ? 2 : 1;
}

static const vw_finding *finished_findings(vw__diagnosis_draft *draft)
{
    vw_finding finished[VW__DIAGNOSIS_MOST_FINDINGS];
    size_t count = 0;
    for (int rank = 0; rank <= 2; rank++)
        for (size_t i = 0; i < draft->finding_count; i++)
            if (rank_of(draft, draft->findings[i]) == rank)
                finished[count++] = finished_finding(draft, draft->findings[i]);
    return keep_array(draft, finished, count, sizeof *finished);
}

static const char *text_or_null(vw__diagnosis_draft *draft, const char *text)
{
    return text != NULL && text[0] != '\0' ? vw__diagnosis_text(draft, "%s", text) : NULL;
}

void vw__diagnosis_failed_at(vw__diagnosis_draft *draft, const char *file, uint32_t line,
                             const char *function, const char *code, const char *phase)
{
    draft->failed_at = (vw_failed_at){
        .file = vw__diagnosis_text(draft, "%s", file),
        .line = line != 0 && line <= INT32_MAX ? (int)line : -1,
        .function = text_or_null(draft, function),
        .code = text_or_null(draft, code),
        .phase = phase,
    };
}

vw_status vw__diagnosis_finish(vw__diagnosis_draft *draft, vw_diagnosis **out)
{
    diagnosis *made = vw__host_alloc_zeroed(1, sizeof *made);
    const vw_finding *findings = finished_findings(draft);
    const void *reasons =
        keep_array(draft, draft->reasons, draft->reason_count, sizeof *draft->reasons);
    if (made == NULL || draft->has_failed) {
        vw__host_free(made);
        vw__diagnosis_deinit(draft);
        return vw__fail_host_memory(sizeof *made, "a diagnosis");
    }
    made->shown = (vw_diagnosis){
        .verdict = draft->verdict,
        .confidence = draft->confidence,
        .source = draft->source,
        .sentence = draft->sentence != NULL ? draft->sentence : "",
        .error_count = draft->error_count,
        .reasoning = reasons,
        .reasoning_count = draft->reason_count,
        .numbers = draft->numbers,
        .findings = findings,
        .finding_count = draft->finding_count,
        .is_running = draft->is_running,
        .failed_at = draft->failed_at.file != NULL ? &made->failed_at : NULL,
    };
    made->failed_at = draft->failed_at;
    made->growth = draft->growth;
    made->arena = draft->arena;
    vw__arena_init(&draft->arena, VW__ARENA_NO_LIMIT);
    *out = &made->shown;
    return VW_OK;
}

void vw_diagnosis_free(vw_diagnosis *shown)
{
    if (shown == NULL)
        return;
    diagnosis *made = (diagnosis *)shown;
    vw__arena_deinit(&made->arena);
    vw__host_free(made);
}

const vw__diagnosis_found_growth *vw__diagnosis_growth(const vw_diagnosis *shown)
{
    return &((const diagnosis *)shown)->growth;
}

/* ---- questions ------------------------------------------------------------------------------- */

bool vw_diagnosis_is_problem(const vw_diagnosis *shown)
{
    if (shown->verdict != VW_VERDICT_HEALTHY && shown->verdict != VW_VERDICT_NOT_OOM)
        return true;
    for (size_t i = 0; i < shown->finding_count; i++)
        if (strcmp(shown->findings[i].kind, "peak") != 0)
            return true;
    return false;
}

/* What has grown over the whole run is the cause of a limit being reached, too. A recording without
 * a history shows no cause at all. */
bool vw__diagnosis_verdict_sees_more(vw_verdict story, vw_verdict recording)
{
    switch (recording) {
    case VW_VERDICT_UNKNOWN:
        return story != VW_VERDICT_UNKNOWN && story != VW_VERDICT_NOT_OOM &&
               story != VW_VERDICT_HEALTHY;
    case VW_VERDICT_CAPPED:
    case VW_VERDICT_OUTSIDE:
        return story == VW_VERDICT_LEAK;
    case VW_VERDICT_GENUINE:
    case VW_VERDICT_REFUSED: /* as a limit looks to those who do not know of it */
    case VW_VERDICT_HEALTHY:
    case VW_VERDICT_NOT_OOM:
        return story == VW_VERDICT_LEAK || story == VW_VERDICT_OUTSIDE ||
               story == VW_VERDICT_CAPPED || story == VW_VERDICT_TOO_LARGE;
    default:
        return false;
    }
}

bool vw_diagnosis_sees_more(const vw_diagnosis *story, const vw_diagnosis *recording)
{
    return vw__diagnosis_verdict_sees_more(story->verdict, recording->verdict);
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *vw_verdict_name(vw_verdict verdict)
{
    static const char *const names[] = {
#define VERDICT_NAME(upper, text) text,
        VW_VERDICT_LIST(VERDICT_NAME)
#undef VERDICT_NAME
    };
    return (size_t)verdict < COUNT_OF(names) ? names[verdict] : "unknown";
}

const char *vw_confidence_name(vw_confidence confidence)
{
    static const char *const names[] = {"low", "medium", "high"};
    return (size_t)confidence < COUNT_OF(names) ? names[confidence] : "low";
}

const char *vw_basis_name(vw_basis basis)
{
    static const char *const names[] = {"replayed", "measured", "computed", "rule"};
    return (size_t)basis < COUNT_OF(names) ? names[basis] : "rule";
}

const char *vw_doctor_source_name(vw_doctor_source source)
{
    static const char *const names[] = {"text", "log", "recording", "steps", "process"};
    return (size_t)source < COUNT_OF(names) ? names[source] : "text";
}
