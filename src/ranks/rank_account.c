/* rank_account.c - what one recording, or the texts of a rank, came to. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "ranks/rank_parts.h"

enum { NOTE_BYTES = 400, MOST_NOTES = 64 };

vw__account vw__account_of(uint64_t rank)
{
    return (vw__account){
        .last_time_us = INT64_MIN,
        .shown = {.rank = rank,
                  .device = -1,
                  .peak_live_bytes = VW_UNKNOWN,
                  .peak_reserved_bytes = VW_UNKNOWN,
                  .event_count = VW_UNKNOWN,
                  .step_count = VW_UNKNOWN,
                  .growth_bytes_per_step = NAN,
                  .tried_bytes = VW_UNKNOWN,
                  .time_us = INT64_MIN,
                  .local_time_us = INT64_MIN,
                  .verdict = VW_VERDICT_UNKNOWN,
                  .sentence = "",
                  .card_bytes = VW_UNKNOWN},
    };
}

vw_status vw__accounts_add(vw__accounts *accounts, const vw__account *account)
{
    if (accounts->count == accounts->capacity) {
        size_t wanted = accounts->capacity == 0 ? 16 : accounts->capacity * 2;
        vw__account *larger = vw__host_realloc(accounts->accounts, wanted * sizeof *larger);
        if (larger == NULL) {
            vw_diagnosis_free(account->diagnosis);
            return vw__fail_host_memory(wanted * sizeof *larger, "the ranks of a job");
        }
        accounts->accounts = larger;
        accounts->capacity = wanted;
    }
    accounts->accounts[accounts->count++] = *account;
    return VW_OK;
}

void vw__accounts_deinit(vw__accounts *accounts)
{
    for (size_t i = 0; i < accounts->count; i++)
        vw_diagnosis_free(accounts->accounts[i].diagnosis);
    vw__host_free(accounts->accounts);
    *accounts = (vw__accounts){.accounts = NULL};
}

vw_status vw__ranks_keep(vw__ranks_work *work, const char *text, const char **out)
{
    const char *copy = NULL;
    if (text != NULL) {
        copy = vw__arena_copy(work->arena, text, strlen(text));
        if (copy == NULL)
            return vw__fail_host_memory(strlen(text), "a text of the report");
    }
    *out = copy;
    return VW_OK;
}

vw_status vw__ranks_note(vw__ranks_work *work, const char *format, ...)
{
    vw_ranks_report *report = work->report;
    const char **notes = (const char **)report->notes;
    char text[NOTE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (notes == NULL) {
        notes =
            vw__arena_alloc_array(work->arena, MOST_NOTES, sizeof *notes, _Alignof(const char *));
        if (notes == NULL)
            return vw__fail_host_memory(MOST_NOTES * sizeof *notes, "notes");
        report->notes = notes;
    }
    if (report->note_count == MOST_NOTES)
        return VW_OK;
    VW__TRY(vw__ranks_keep(work, text, &notes[report->note_count]));
    report->note_count++;
    return VW_OK;
}

vw_status vw__account_take_diagnosis(vw__ranks_work *work, vw__account *account,
                                     vw_diagnosis *diagnosis)
{
    vw_rank *rank = &account->shown;
    const vw_memory_numbers *numbers = &diagnosis->numbers;
    const vw__found_growth *growth = vw__diagnosis_growth(diagnosis);
    account->diagnosis = diagnosis;
    rank->has_verdict = true;
    rank->verdict = diagnosis->verdict;
    rank->confidence = diagnosis->confidence;
    rank->is_problem = vw_diagnosis_is_problem(diagnosis);
    rank->ran_out |= diagnosis->error_count > 0;
    rank->card_bytes = numbers->total_bytes;
    if (growth->is_known)
        rank->growth_bytes_per_step = growth->bytes_per_step;
    if (rank->tried_bytes == VW_UNKNOWN)
        rank->tried_bytes = numbers->tried_bytes;
    if (rank->basis == VW_RANK_BASIS_NONE &&
        (numbers->allocated_bytes != VW_UNKNOWN || numbers->reserved_bytes != VW_UNKNOWN)) {
        rank->basis = VW_RANK_BASIS_TEXT;
        rank->peak_live_bytes = numbers->allocated_bytes;
        rank->peak_reserved_bytes = numbers->reserved_bytes;
    }
    return vw__ranks_keep(work, diagnosis->sentence, &rank->sentence);
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Logs leave steps out: the last number says how many there were, if it is one of steps. */
static uint64_t steps_in(const vw__step_log *log)
{
    double last = log->points[log->point_count - 1].step;
    bool is_numbered = strcmp(log->step_name, "step") == 0 && last >= 1 && last < 1e15;
    return is_numbered ? (uint64_t)last : log->found_count;
}

static void note_time(const vw__story *story, const vw__text_facts *facts, vw_rank *rank)
{
    vw__log_time time = vw__story_time_of(story, &facts->errors.first);
    if (rank->ran_out && time.has_zone)
        rank->time_us = time.time_us;
    else if (rank->ran_out)
        rank->local_time_us = time.time_us;
}

vw_status vw__account_story(vw__ranks_work *work, vw__story *story, vw__account *account,
                            bool *has_something)
{
    vw_rank *rank = &account->shown;
    vw__text_facts facts;
    vw_diagnosis *diagnosis;
    rank->text = story->first_path;
    rank->file_count = story->file_count;
    VW__TRY(vw__text_scan_diagnose(story->scan, &work->doctor, &facts, &diagnosis));
    VW__TRY(vw__account_take_diagnosis(work, account, diagnosis));
    note_time(story, &facts, rank);
    if (facts.steps.point_count != 0)
        rank->step_count = steps_in(&facts.steps);
    *has_something = rank->ran_out || facts.steps.point_count != 0;
    return VW_OK;
}
