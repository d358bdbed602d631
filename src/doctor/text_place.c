/* text_place.c - the line of the program that failed, by the traceback.
 *
 * The line that can be changed is the innermost of the user's own. Where all frames are a library's
 * (a server that was started by its own command), it is the innermost of all. */
#include "doctor/doctor.h"
#include "doctor/text_parts.h"

static const vw__traceback_frame *frame_of(const vw__traceback *traceback)
{
    return traceback->users.file[0] != '\0' ? &traceback->users : &traceback->innermost;
}

/* "train.py:88 main" */
static const char *place_text(vw__diagnosis_draft *draft, const vw__traceback_frame *frame)
{
    const char *place = frame->line != 0
                            ? vw__diagnosis_text(draft, "%s:%u", frame->file, (unsigned)frame->line)
                            : vw__diagnosis_text(draft, "%s", frame->file);
    return frame->function[0] != '\0' ? vw__diagnosis_text(draft, "%s %s", place, frame->function)
                                      : place;
}

vw__phase vw__text_phase(const vw__error_text_report *report)
{
    const vw__traceback *traceback = &report->traceback;
    return traceback->frame_count != 0 ? vw__phase_of(traceback->mark, traceback->marks)
                                       : VW__PHASE_OTHER;
}

void vw__text_say_place(const vw__text_case *given)
{
    const vw__traceback *traceback = &given->report->traceback;
    vw__diagnosis_draft *draft = given->draft;
    const char *phase = vw__phase_words(given->phase);
    if (traceback->frame_count == 0)
        return;
    const vw__traceback_frame *frame = frame_of(traceback);
    vw__diagnosis_reason(draft, "It failed at %s%s%s%s%s.", place_text(draft, frame),
                         phase[0] != '\0' ? ", in " : "", phase, frame->code[0] != '\0' ? ": " : "",
                         frame->code);
}

/* The finding that the verdict names, else the first. */
static vw__diagnosis_finding *finding_of_verdict(vw__diagnosis_draft *draft)
{
    vw__diagnosis_finding *finding = vw__diagnosis_find(draft, vw_verdict_name(draft->verdict));
    return finding != NULL || draft->finding_count == 0 ? finding : draft->findings[0];
}

void vw__doctor_name_place(const vw__error_text_summary *summary, vw__diagnosis_draft *draft)
{
    const vw__traceback *traceback = &summary->first.traceback;
    if (traceback->frame_count == 0)
        return;
    const vw__traceback_frame *frame = frame_of(traceback), *inner = &traceback->innermost;
    vw__diagnosis_failed_at(draft, frame->file, frame->line, frame->function, frame->code,
                            vw__phase_name(vw__text_phase(&summary->first)));
    vw__diagnosis_finding *finding = finding_of_verdict(draft);
    if (finding == NULL)
        return;
    vw__diagnosis_where(finding, "%s", place_text(draft, frame));
    if (frame != inner)
        vw__diagnosis_where(finding, "%s", place_text(draft, inner));
}
