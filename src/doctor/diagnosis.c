/* diagnosis.c - see diagnosis.h. */
#include "doctor/diagnosis.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"

enum { MOST_TEXT_BYTES = 2048 }; /* a longer one is cut */

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef struct diagnosis {
    hr_diagnosis shown; /* first: a pointer to one is a pointer to the other */
    hr__arena arena;
} diagnosis;

void hr__diagnosis_init(hr__diagnosis_draft *draft, hr_doctor_source source)
{
    *draft = (hr__diagnosis_draft){
        .verdict = HR_VERDICT_UNKNOWN,
        .source = source,
        .numbers = {HR_UNKNOWN, HR_UNKNOWN, HR_UNKNOWN, HR_UNKNOWN, HR_UNKNOWN, HR_UNKNOWN,
                    HR_UNKNOWN, -1},
    };
    hr__arena_init(&draft->arena, HR__ARENA_NO_LIMIT);
    draft->spare.draft = draft;
}

void hr__diagnosis_deinit(hr__diagnosis_draft *draft)
{
    hr__arena_deinit(&draft->arena);
}

void hr__diagnosis_replace(hr__diagnosis_draft *draft, const hr__diagnosis_draft *other)
{
    hr__diagnosis_deinit(draft);
    *draft = *other;
    draft->spare.draft = draft;
    for (size_t i = 0; i < draft->finding_count; i++)
        draft->findings[i]->draft = draft;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static const char *keep(hr__diagnosis_draft *draft, const char *text)
{
    const char *kept = hr__arena_copy(&draft->arena, text, strlen(text));
    if (kept == NULL)
        draft->has_failed = true;
    return kept != NULL ? kept : "";
}

__attribute__((format(printf, 2, 0))) static const char *
keep_format(hr__diagnosis_draft *draft, const char *format, va_list arguments)
{
    char text[MOST_TEXT_BYTES];
    (void)vsnprintf(text, sizeof text, format, arguments);
    return keep(draft, text);
}

const char *hr__diagnosis_text(hr__diagnosis_draft *draft, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = keep_format(draft, format, arguments);
    va_end(arguments);
    return text;
}

const char *hr__diagnosis_size(hr__diagnosis_draft *draft, uint64_t bytes)
{
    char text[HR__SIZE_TEXT_BYTES];
    return keep(draft, hr__format_size(bytes, text));
}

const char *hr__diagnosis_count(hr__diagnosis_draft *draft, uint64_t count, const char *noun)
{
    return hr__diagnosis_text(draft, "%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
}

/* ---- the verdict ----------------------------------------------------------------------------- */

void hr__diagnosis_conclude(hr__diagnosis_draft *draft, hr_verdict verdict,
                            hr_confidence confidence, const char *sentence, ...)
{
    va_list arguments;
    va_start(arguments, sentence);
    draft->sentence = keep_format(draft, sentence, arguments);
    va_end(arguments);
    draft->verdict = verdict;
    draft->confidence = confidence;
}

void hr__diagnosis_reason(hr__diagnosis_draft *draft, const char *sentence, ...)
{
    if (draft->reason_count == HR__MOST_REASONS)
        return;
    va_list arguments;
    va_start(arguments, sentence);
    draft->reasons[draft->reason_count++] = keep_format(draft, sentence, arguments);
    va_end(arguments);
}

/* ---- findings -------------------------------------------------------------------------------- */

hr__finding_draft *hr__diagnosis_add(hr__diagnosis_draft *draft, const char *kind, uint64_t bytes,
                                     const char *title, ...)
{
    hr__finding_draft *finding = NULL;
    if (draft->finding_count < HR__MOST_FINDINGS) {
        finding =
            hr__arena_alloc_array(&draft->arena, 1, sizeof *finding, _Alignof(hr__finding_draft));
        draft->has_failed = draft->has_failed || finding == NULL;
        if (finding != NULL)
            draft->findings[draft->finding_count++] = finding;
    }
    if (finding == NULL)
        finding = &draft->spare;

    va_list arguments;
    va_start(arguments, title);
    *finding = (hr__finding_draft){
        .kind = kind, .title = keep_format(draft, title, arguments), .bytes = bytes};
    va_end(arguments);
    finding->draft = draft;
    return finding;
}

hr__finding_draft *hr__diagnosis_find(hr__diagnosis_draft *draft, const char *kind)
{
    for (size_t i = 0; i < draft->finding_count; i++)
        if (strcmp(draft->findings[i]->kind, kind) == 0)
            return draft->findings[i];
    return NULL;
}

void hr__finding_where(hr__finding_draft *finding, const char *place, ...)
{
    char text[MOST_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, place);
    (void)vsnprintf(text, sizeof text, place, arguments);
    va_end(arguments);
    for (size_t i = 0; i < finding->where_count; i++)
        if (strcmp(finding->where[i], text) == 0)
            return;
    if (finding->where_count < HR__MOST_WHERE && text[0] != '\0')
        finding->where[finding->where_count++] = keep(finding->draft, text);
}

void hr__finding_evidence(hr__finding_draft *finding, const char *sentence, ...)
{
    if (finding->evidence_count == HR__MOST_EVIDENCE)
        return;
    va_list arguments;
    va_start(arguments, sentence);
    finding->evidence[finding->evidence_count++] = keep_format(finding->draft, sentence, arguments);
    va_end(arguments);
}

void hr__finding_part(hr__finding_draft *finding, const char *name, uint64_t bytes)
{
    if (finding->part_count < HR__MOST_PARTS)
        finding->parts[finding->part_count++] = (hr_part){keep(finding->draft, name), bytes};
}

void hr__finding_remedy(hr__finding_draft *finding, const char *action, hr__savings savings,
                        hr_basis basis, const char *cost, const char *how)
{
    if (finding->remedy_count == HR__MOST_REMEDIES)
        return;
    finding->remedies[finding->remedy_count++] = (hr_remedy){
        .action = keep(finding->draft, action),
        .saves_bytes = savings.at_least_bytes,
        .saves_at_most_bytes = savings.at_most_bytes,
        .basis = basis,
        .cost = keep(finding->draft, cost),
        .how = keep(finding->draft, how),
    };
}

/* ---- the result ------------------------------------------------------------------------------ */

/* A copy of an array in the arena; NULL for none. */
static const void *keep_array(hr__diagnosis_draft *draft, const void *array, size_t count,
                              size_t element_bytes)
{
    if (count == 0)
        return NULL;
    void *kept = hr__arena_alloc_array(&draft->arena, count, element_bytes, _Alignof(max_align_t));
    if (kept == NULL)
        draft->has_failed = true;
    else
        memcpy(kept, array, count * element_bytes);
    return kept;
}

static hr_finding finished_finding(hr__diagnosis_draft *draft, const hr__finding_draft *from)
{
    return (hr_finding){
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
static int rank_of(const hr__diagnosis_draft *draft, const hr__finding_draft *finding)
{
    if (strcmp(finding->kind, hr_verdict_name(draft->verdict)) == 0)
        return 0;
    return strcmp(finding->kind, "warning") == 0 ? 2 : 1;
}

static const hr_finding *finished_findings(hr__diagnosis_draft *draft)
{
    hr_finding finished[HR__MOST_FINDINGS];
    size_t count = 0;
    for (int rank = 0; rank <= 2; rank++)
        for (size_t i = 0; i < draft->finding_count; i++)
            if (rank_of(draft, draft->findings[i]) == rank)
                finished[count++] = finished_finding(draft, draft->findings[i]);
    return keep_array(draft, finished, count, sizeof *finished);
}

hr_status hr__diagnosis_finish(hr__diagnosis_draft *draft, hr_diagnosis **out)
{
    diagnosis *made = hr__host_alloc_zeroed(1, sizeof *made);
    const hr_finding *findings = finished_findings(draft);
    const void *reasons =
        keep_array(draft, draft->reasons, draft->reason_count, sizeof *draft->reasons);
    if (made == NULL || draft->has_failed) {
        hr__host_free(made);
        hr__diagnosis_deinit(draft);
        return hr__fail_host_memory(sizeof *made, "a diagnosis");
    }
    made->shown = (hr_diagnosis){
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
    };
    made->arena = draft->arena;
    hr__arena_init(&draft->arena, HR__ARENA_NO_LIMIT);
    *out = &made->shown;
    return HR_OK;
}

void hr_diagnosis_free(hr_diagnosis *shown)
{
    if (shown == NULL)
        return;
    diagnosis *made = (diagnosis *)shown;
    hr__arena_deinit(&made->arena);
    hr__host_free(made);
}

/* ---- questions ------------------------------------------------------------------------------- */

bool hr_diagnosis_is_problem(const hr_diagnosis *shown)
{
    if (shown->verdict != HR_VERDICT_HEALTHY && shown->verdict != HR_VERDICT_NOT_OOM)
        return true;
    for (size_t i = 0; i < shown->finding_count; i++)
        if (strcmp(shown->findings[i].kind, "peak") != 0)
            return true;
    return false;
}

/* What has grown over the whole run is the cause of a limit being reached, too. A recording without
 * a history shows no cause at all. */
bool hr_diagnosis_sees_more(const hr_diagnosis *story, const hr_diagnosis *recording)
{
    switch (recording->verdict) {
    case HR_VERDICT_UNKNOWN:
        return story->verdict != HR_VERDICT_UNKNOWN && story->verdict != HR_VERDICT_NOT_OOM &&
               story->verdict != HR_VERDICT_HEALTHY;
    case HR_VERDICT_CAPPED:
    case HR_VERDICT_OUTSIDE:
        return story->verdict == HR_VERDICT_LEAK;
    case HR_VERDICT_GENUINE:
    case HR_VERDICT_REFUSED: /* as a limit looks to those who do not know of it */
    case HR_VERDICT_HEALTHY:
    case HR_VERDICT_NOT_OOM:
        return story->verdict == HR_VERDICT_LEAK || story->verdict == HR_VERDICT_OUTSIDE ||
               story->verdict == HR_VERDICT_CAPPED || story->verdict == HR_VERDICT_TOO_LARGE;
    default:
        return false;
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *hr_verdict_name(hr_verdict verdict)
{
    static const char *const names[] = {
#define VERDICT_NAME(upper, text) text,
        HR_VERDICT_LIST(VERDICT_NAME)
#undef VERDICT_NAME
    };
    return (size_t)verdict < COUNT_OF(names) ? names[verdict] : "unknown";
}

const char *hr_confidence_name(hr_confidence confidence)
{
    static const char *const names[] = {"low", "medium", "high"};
    return (size_t)confidence < COUNT_OF(names) ? names[confidence] : "low";
}

const char *hr_basis_name(hr_basis basis)
{
    static const char *const names[] = {"replayed", "measured", "computed", "rule"};
    return (size_t)basis < COUNT_OF(names) ? names[basis] : "rule";
}

const char *hr_doctor_source_name(hr_doctor_source source)
{
    static const char *const names[] = {"text", "log", "recording", "steps"};
    return (size_t)source < COUNT_OF(names) ? names[source] : "text";
}
