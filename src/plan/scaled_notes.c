/* scaled_notes.c - what a plan from a recording or a trace assumes, in words. */
#include <string.h>

#include "base/human_units.h"
#include "plan/scaled_plan.h"

/* NULL: the text found no host memory. */
static void note(vw__plan_scaled_draft *draft, const char *text)
{
    draft->has_failed = draft->has_failed || text == NULL;
    if (text != NULL && draft->shown.note_count < VW__PLAN_SCALED_MOST_NOTES)
        draft->notes[draft->shown.note_count++] = text;
}

static void note_the_step(vw__plan_scaled_draft *draft, const vw__plan_scaled_work *work)
{
    if (work->question.step == 0)
        note(draft, "the first step of a run makes the optimizer's state: its peak may be lower "
                    "than that of the next");
    if (work->run.timeline.is_truncated)
        note(draft, "the recording begins after the program did: what was alive before, and of "
                    "which it shows nothing, is not counted");
}

static void note_the_evidence(vw__plan_scaled_draft *draft, const vw__plan_scaled_work *work)
{
    const vw_plan_scaling *scaling = &draft->shown.scaling;
    bool is_longer = scaling->sequence != scaling->sequence_now;
    if (vw__plan_is_same_size(scaling) && !draft->shown.is_card_known)
        return; /* nothing grows */
    if (work->laws.compared_count == 0)
        note(draft, "all steps of the recording are of the same size: what grows is told by what "
                    "blocks are for, and was not seen to grow");
    else if (is_longer && !work->laws.has_lengths)
        note(draft, "no step of the recording is known to have another length: what grows with it "
                    "was not seen to");
}

/* Doubts the batch if no data of the step is a multiple of it. */
static void note_the_batch(vw__plan_scaled_draft *draft, const vw__plan_scaled_work *work)
{
    const vw__plan_recorded_run *run = &work->run;
    uint64_t batch = draft->shown.scaling.batch_now;
    uint32_t begin, end;
    size_t count = 0, fitting = 0;
    if (batch == 0)
        return;
    vw__plan_recorded_step_range(run, work->question.step, &begin, &end);
    for (uint32_t i = begin; i < end; i++) {
        uint32_t place = run->lifetime_of[i];
        if (place == UINT32_MAX || run->roles.roles[place] != VW__ROLE_DATA)
            continue;
        count++;
        fitting += run->trace->events[i].size_bytes % batch == 0;
    }
    if (count != 0 && fitting == 0)
        note(draft, vw__arena_format(
                        &draft->arena,
                        "nothing of the step's data is a multiple of %llu bytes: is it a batch of "
                        "%llu?",
                        (unsigned long long)batch, (unsigned long long)batch));
}

static void note_doubts(vw__plan_scaled_draft *draft)
{
    enum { LEAST_PART = 20 }; /* of the peak: less is not worth a sentence */
    const vw_plan_scaled *shown = &draft->shown;
    char size[VW__HUMAN_SIZE_BYTES], peak[VW__HUMAN_SIZE_BYTES];
    if (shown->irregular_bytes > shown->now_peak_bytes / LEAST_PART)
        note(draft,
             vw__arena_format(
                 &draft->arena,
                 "%s of the recorded peak went by no rule from step to step, and are taken to grow "
                 "with batch and length; are batch and length those of step %llu?",
                 vw__human_size(shown->irregular_bytes, size),
                 (unsigned long long)shown->scaling.step));
    if (shown->peak_if_square_bytes != VW_UNKNOWN)
        note(draft, vw__arena_format(
                        &draft->arena,
                        "%s asked for by attention may be scores, and grow with the square of the "
                        "length: the peak is then %s",
                        vw__human_size(shown->perhaps_square_bytes, size),
                        vw__human_size(shown->peak_if_square_bytes, peak)));
}

static void note_the_trace(vw__plan_scaled_draft *draft, const vw_plan_traced *traced)
{
    for (size_t i = 0; traced != NULL && i < traced->note_count; i++)
        note(draft, vw__arena_copy(&draft->arena, traced->notes[i], strlen(traced->notes[i])));
    if (traced != NULL) /* bench/results/plan_traced.md */
        note(draft, "of 213 steps that were traced and measured nine in ten were within 0.5 %, and "
                    "all between 5 % too low and 2 % too high");
}

void vw__plan_scaled_add_notes(vw__plan_scaled_draft *draft, const vw__plan_scaled_work *work)
{
    note_the_trace(draft, work->traced);
    note_the_step(draft, work);
    note_the_evidence(draft, work);
    note_the_batch(draft, work);
    note_doubts(draft);
    if (draft->shown.reserved_bytes[0] != VW_UNKNOWN)
        note(draft,
             "reserved is that of the scaled step by itself: what earlier steps leave in the "
             "cache comes on top. Whether it fits is decided by what is allocated, since "
             "PyTorch gives back what it does not use");
}
