/* text_log.c - lines that PyTorch logs about memory, which are not errors themselves.
 *
 * PyTorch 2.13 and later log every request that the driver refuses, also one that is served after
 * the cache was given back. PyTorch 2.15 logs a line with the tag [ExpandableSegmentVA] before it
 * fails for want of addresses: the error that follows has the words of one about memory. */
#include "doctor/text_parts.h"

#include <inttypes.h>

void vw__text_conclude_retried(const vw__text_case *given)
{
    const vw_memory_numbers *said = &given->said;
    vw__diagnosis_draft *draft = given->draft;
    const char *tried = vw__doctor_knows(said->tried_bytes)
                            ? vw__diagnosis_size(draft, said->tried_bytes)
                            : "a request";
    bool has_card = VW__DOCTOR_KNOWS_ALL(said->free_bytes, said->total_bytes);
    vw__diagnosis_reason(
        draft, "PyTorch's log, line %" PRIu64 ": the driver did not give it %s%s%s%s%s.",
        given->report->line, tried, has_card ? ", with " : "",
        has_card ? VW__DOCTOR_SIZE(said->free_bytes) : "", has_card ? " free of " : "",
        has_card ? VW__DOCTOR_SIZE(said->total_bytes) : "");
    vw__diagnosis_reason(draft, "PyTorch logs this each time, gives its cache back and asks again. "
                                "No out-of-memory error is in the text, so it got the memory, or "
                                "the text ends too early.");
    vw__diagnosis_reason(draft, "The card is nearly full, and every such retry waits for the GPU: "
                                "many of them make a run slow.");
    vw__diagnosis_conclude(draft, VW_VERDICT_NOT_OOM,
                           vw__text_confidence(given, VW_CONFIDENCE_MEDIUM),
                           "Not out of memory: the driver refused %s at first, and PyTorch tried "
                           "again; no error follows.",
                           tried);
}

void vw__text_judge_addresses(const vw__text_case *given)
{
    vw__diagnosis_draft *draft = given->draft;
    const char *variable = draft->settings_variable;
    vw__diagnosis_reason(draft, "Right before it PyTorch's log says, with the tag "
                                "[ExpandableSegmentVA], that no addresses could be reserved for "
                                "another expandable segment.");
    vw__diagnosis_conclude(draft, VW_VERDICT_REFUSED,
                           vw__text_confidence(given, VW_CONFIDENCE_HIGH),
                           "Refused: the process ran out of addresses for expandable segments; the "
                           "card's memory was not what was short.");
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        draft, "refused", VW_UNKNOWN, "No addresses were left for another expandable segment.");
    vw__diagnosis_evidence(finding,
                           "A segment reserves addresses for nine eighths of the card, one for "
                           "each stream, pool and imported tensor; a process has 128 TiB of them.");
    vw__diagnosis_advice(
        finding, "reserve fewer addresses for each segment",
        "PyTorch 2.15; no single tensor can be larger than what is reserved",
        vw__diagnosis_text(draft,
                           "export %s=\\\n"
                           "expandable_segments:True,expandable_segments_reserve:0.5",
                           variable));
    vw__diagnosis_advice(
        finding, "without expandable segments", "more fragmentation",
        vw__diagnosis_text(draft, "export %s=expandable_segments:False", variable));
    vw__diagnosis_advice(finding, "see whether the addresses of the process are limited", "none",
                         "ulimit -v");
}
