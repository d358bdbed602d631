/* report_top_notes.c - what is worth saying of a job while it runs, in a word and in a sentence.
 *
 * The table of `vramwise top` has room for a word, its details and the text for sentences: both are
 * made here, so that they cannot disagree. */
#include "vramwise/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/checked_math.h"
#include "report/report_text.h"

#define MUCH_IDLE_SHARE 0.4
#define MUCH_IDLE_BYTES (UINT64_C(1) << 30)

typedef struct note_list {
    vw_row_note *notes;
    size_t count;
} note_list;

__attribute__((format(printf, 2, 3))) static void say_word(vw_row_note *note, const char *format,
                                                           ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(note->word, sizeof note->word, format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void say_text(vw_row_note *note, const char *format,
                                                           ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(note->text, sizeof note->text, format, args);
    va_end(args);
}

static vw_row_note *add(note_list *list, vw_row_note_kind kind, bool is_urgent)
{
    vw_row_note *note = &list->notes[list->count++];
    *note = (vw_row_note){.kind = kind, .is_urgent = is_urgent};
    return note;
}

static bool is_known_and_not_0(uint64_t value)
{
    return value != VW_LIVE_UNKNOWN && value > 0;
}

static void note_state(note_list *list, const vw_job *job)
{
    if (job->state == VW_JOB_OTHER_VERSION) {
        vw_row_note *note = add(list, VW_NOTE_OTHER_VERSION, false);
        say_word(note, "other version");
        say_text(note, "its page has version %" PRIu64 ", which this vramwise cannot read",
                 job->page_version);
    }
    if (job->state == VW_JOB_BUSY) {
        vw_row_note *note = add(list, VW_NOTE_BUSY, false);
        say_word(note, "busy");
        say_text(note, "its page is in the middle of a change: the process is stopped, or slow");
    }
}

/* ", in about 7 min"; "" where no pace is known. */
static vw__report_text pace_text(double seconds)
{
    vw__report_text text = {""};
    if (!(seconds >= 0 && seconds < 1e9))
        return text;
    const char *unit = seconds < 120 ? "s" : seconds < 7200 ? "min" : "h";
    double count = seconds < 120 ? seconds : seconds < 7200 ? seconds / 60 : seconds / 3600;
    snprintf(text.text, sizeof text.text, ", in about %" PRIu64 " %s", (uint64_t)(count + 0.5),
             unit);
    return text;
}

static void note_leak(note_list *list, const vw_job_figures *figures)
{
    const vw_job_outlook *outlook = &figures->outlook;
    if (!outlook->is_leak)
        return;
    vw_row_note *note = add(list, VW_NOTE_LEAK, true);
    vw__report_text pace = vw__report_size(vw__narrow_double(outlook->bytes_per_step));
    if (outlook->full_at_step == VW_LIVE_UNKNOWN) {
        say_word(note, "leak %.16s", pace.text);
        say_text(note, "leak: %s more live each step", pace.text);
        return;
    }
    uint64_t left = outlook->full_at_step - outlook->last_step;
    say_word(note, "leak: %.11s left", vw__report_count(left).text);
    say_text(note, "leak: %s more live each step; full at step %s%s", pace.text,
             vw__report_count(outlook->full_at_step).text,
             pace_text((double)left / figures->steps_per_second).text);
}

static void note_limits(note_list *list, const uint64_t *values, const vw_job_figures *figures)
{
    if (is_known_and_not_0(values[VW_LIVE_OUT_OF_MEMORY])) {
        vw_row_note *note = add(list, VW_NOTE_OUT_OF_MEMORY, true);
        vw__report_text times = vw__report_counted(values[VW_LIVE_OUT_OF_MEMORY], "time");
        say_word(note, "oom %.16s", times.text);
        say_text(note, "ran out of memory %s", times.text);
    }
    if (figures->retries_per_second > 0) {
        vw_row_note *note = add(list, VW_NOTE_RETRIES, true);
        say_word(note, "retrying");
        say_text(note, "gives its cache back %s times a second to find memory: at its limit",
                 vw__report_ratio(figures->retries_per_second).text);
    }
}

static void note_silence(note_list *list, const vw_job_figures *figures)
{
    if (!figures->is_silent)
        return;
    uint64_t seconds = figures->silent_ns / 1000000000;
    vw_row_note *note = add(list, VW_NOTE_SILENT, false);
    say_word(note, "silent %.11s s", vw__report_count(seconds).text);
    say_text(note, "silent: nothing new on its page for %s s", vw__report_count(seconds).text);
}

/* What there is to do about it, as far as the page tells. */
static vw__report_text loader_text(const uint64_t *values)
{
    vw__report_text text = {""};
    char workers[40] = "";
    const char *pins = "";
    if (values[VW_LIVE_LOADER_WORKERS] != VW_LIVE_UNKNOWN)
        snprintf(workers, sizeof workers, "; %.32s",
                 values[VW_LIVE_LOADER_WORKERS] == 0
                     ? "no loader workers"
                     : vw__report_counted(values[VW_LIVE_LOADER_WORKERS], "loader worker").text);
    if (values[VW_LIVE_LOADER_PINS] != VW_LIVE_UNKNOWN)
        pins = values[VW_LIVE_LOADER_PINS] != 0 ? ", pinned" : ", not pinned";
    snprintf(text.text, sizeof text.text, "%s%s", workers, pins);
    return text;
}

static void note_input(note_list *list, const uint64_t *values, const vw_job_figures *figures)
{
    if (!figures->is_input_bound)
        return;
    vw_row_note *note = add(list, VW_NOTE_INPUT_BOUND, false);
    say_word(note, "input-bound");
    say_text(note, "input-bound: %s of a step is waiting%s",
             vw__report_share(figures->input_wait_share).text, loader_text(values).text);
}

static void note_memory(note_list *list, const uint64_t *values, const vw_job_figures *figures)
{
    if (is_known_and_not_0(values[VW_LIVE_PARKED_BYTES])) {
        vw_row_note *note = add(list, VW_NOTE_PARKED, false);
        vw__report_text size = vw__report_size(values[VW_LIVE_PARKED_BYTES]);
        say_word(note, "parked %.14s", size.text);
        say_text(note, "%s are off the GPU until it is woken", size.text);
    }
    if (is_known_and_not_0(values[VW_LIVE_SPILLED_BYTES])) {
        vw_row_note *note = add(list, VW_NOTE_SPILLED, false);
        vw__report_text size = vw__report_size(values[VW_LIVE_SPILLED_BYTES]);
        say_word(note, "spilled %.14s", size.text);
        say_text(note, "%s of its data are in host memory", size.text);
    }
    if (figures->idle_share > MUCH_IDLE_SHARE && figures->idle_bytes > MUCH_IDLE_BYTES &&
        figures->idle_bytes != VW_LIVE_UNKNOWN) {
        vw_row_note *note = add(list, VW_NOTE_IDLE, false);
        say_word(note, "idle %.16s", vw__report_share(figures->idle_share).text);
        say_text(note, "%s of what it reserves is idle; largest free block: %s",
                 vw__report_share(figures->idle_share).text,
                 vw__report_size(values[VW_LIVE_LARGEST_FREE_BYTES]).text);
    }
}

size_t vw_row_notes(const vw_machine_row *row, const vw_job_figures *figures,
                    vw_row_note notes[VW_NOTE_KIND_COUNT])
{
    note_list list = {.notes = notes};
    if (row->job != NULL)
        note_state(&list, row->job);
    if (row->device == NULL)
        return list.count;
    const uint64_t *values = row->device->values;
    note_leak(&list, figures);
    note_limits(&list, values, figures);
    note_silence(&list, figures);
    note_input(&list, values, figures);
    note_memory(&list, values, figures);
    return list.count;
}
