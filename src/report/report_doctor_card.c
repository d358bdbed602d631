/* report_doctor_card.c - what the card held when the request failed, at a glance.
 *
 *     GPU 0, 24.0 GiB, at the failure
 *     |###########################################........................x|
 *       asked for  1.78 GiB  the request that failed
 *     # live       14.8 GiB  in use
 *     . idle       8.70 GiB  held by the allocator, in no use
 *     x outside     440 MiB  other processes, CUDA contexts, libraries
 *       free       26.0 MiB  by the driver
 *
 * A bar is drawn only of numbers that make one: live <= reserved, and reserved, free and the rest
 * add up to the card. Where a limit is nearer than the end of the card, the bar is the limit's.
 * Other numbers are listed as they were said; what a table says below a bar is what the bar shows,
 * so nothing has to be subtracted in the head. */
#include "report/report_doctor.h"

#include <stdio.h>

#include "report/report_show.h" /* hr__style_code */

enum {
    WIDEST_BAR_COLUMNS = 78, /* between its ends */
    MOST_PIECES = 6,
};

/* A stretch of the bar, and its row in the table. */
typedef struct piece {
    const char *name;
    const char *meaning;
    const char *ascii, *utf8; /* one column each */
    hr__style style;
    uint64_t bytes;
} piece;

typedef struct bar {
    uint64_t total_bytes;
    bool is_of_limit;
    piece pieces[MOST_PIECES]; /* they add up to total_bytes */
    size_t piece_count;
} bar;

static bool is_known(uint64_t bytes)
{
    return bytes != HR_UNKNOWN;
}

static void add_piece(bar *card, piece next)
{
    card->pieces[card->piece_count++] = next;
}

static const piece live = {"live", "in use", "#", "\xE2\x96\x88", HR__STYLE_GREEN, 0};
static const piece idle = {
    "idle", "held by the allocator, in no use", ".", "\xE2\x96\x91", HR__STYLE_RED, 0};
static const piece context = {
    "context", "this process, outside the allocator", "o", "\xE2\x96\x92", HR__STYLE_YELLOW, 0};
static const piece others = {"others", "other processes", "x", "\xE2\x96\x93", HR__STYLE_YELLOW, 0};
static const piece outside = {
    "outside", "other processes, CUDA contexts, libraries", "x", "\xE2\x96\x93", HR__STYLE_YELLOW,
    0};
static const piece left = {"free", "by the driver", " ", " ", HR__STYLE_PLAIN, 0};
static const piece below = {"left", "below the limit", " ", " ", HR__STYLE_PLAIN, 0};

static void add_sized(bar *card, piece next, uint64_t bytes)
{
    next.bytes = bytes;
    add_piece(card, next);
}

/* A limit that leaves less than the driver has free. */
static bool is_limit_in_the_way(const hr_memory_numbers *numbers)
{
    if (!is_known(numbers->allowed_bytes) || numbers->reserved_bytes > numbers->allowed_bytes)
        return false;
    const uint64_t left_bytes = numbers->allowed_bytes - numbers->reserved_bytes;
    return numbers->allowed_bytes <= numbers->total_bytes && /* an unknown card is larger */
           left_bytes < numbers->free_bytes;
}

/* What is neither the allocator's nor free: in two pieces where it is said what the process has. */
static void add_outside(bar *card, const hr_memory_numbers *numbers, uint64_t outside_bytes)
{
    const uint64_t process_bytes = numbers->process_bytes;
    if (is_known(process_bytes) && process_bytes >= numbers->reserved_bytes &&
        process_bytes - numbers->reserved_bytes <= outside_bytes) {
        const uint64_t context_bytes = process_bytes - numbers->reserved_bytes;
        add_sized(card, context, context_bytes);
        add_sized(card, others, outside_bytes - context_bytes);
    } else {
        add_sized(card, outside, outside_bytes);
    }
}

/* false: they make none. */
static bool make_bar(const hr_memory_numbers *numbers, bar *card)
{
    const uint64_t reserved_bytes = numbers->reserved_bytes;
    *card = (bar){.total_bytes = numbers->total_bytes};
    if (!is_known(numbers->allocated_bytes) || !is_known(reserved_bytes) ||
        numbers->allocated_bytes > reserved_bytes)
        return false;
    add_sized(card, live, numbers->allocated_bytes);
    add_sized(card, idle, reserved_bytes - numbers->allocated_bytes);
    if (is_limit_in_the_way(numbers)) {
        card->is_of_limit = true;
        card->total_bytes = numbers->allowed_bytes;
        add_sized(card, below, numbers->allowed_bytes - reserved_bytes);
        return card->total_bytes > 0;
    }
    if (!is_known(numbers->total_bytes) || !is_known(numbers->free_bytes) ||
        reserved_bytes > numbers->total_bytes ||
        numbers->free_bytes > numbers->total_bytes - reserved_bytes)
        return false;
    add_outside(card, numbers, numbers->total_bytes - reserved_bytes - numbers->free_bytes);
    add_sized(card, left, numbers->free_bytes);
    return card->total_bytes > 0;
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* Each piece ends where the sum so far does, to the nearest column: so the bar is as long as the
 * card whatever is rounded. */
static void draw_bar(hr__report *report, const bar *card)
{
    const unsigned width = report->form.width_columns - 2 < WIDEST_BAR_COLUMNS
                               ? report->form.width_columns - 2
                               : WIDEST_BAR_COLUMNS;
    unsigned column = 0;
    uint64_t end_bytes = 0;
    const char *side = report->form.has_utf8 ? "\xE2\x94\x82" : "|";
    hr__append_text(&report->buffer, side);
    for (size_t i = 0; i < card->piece_count; i++) {
        const piece *next = &card->pieces[i];
        end_bytes += next->bytes;
        const unsigned end =
            (unsigned)((double)end_bytes / (double)card->total_bytes * width + 0.5);
        if (column == end)
            continue;
        if (next->style != HR__STYLE_PLAIN)
            hr__append_text(&report->buffer, hr__style_code(report, next->style));
        for (; column < end; column++)
            hr__append_text(&report->buffer, report->form.has_utf8 ? next->utf8 : next->ascii);
        if (next->style != HR__STYLE_PLAIN)
            hr__append_text(&report->buffer, hr__style_code(report, HR__STYLE_PLAIN));
    }
    hr__append_text(&report->buffer, side);
    hr__append_text(&report->buffer, "\n");
}

/* "GPU 0, 24.0 GiB, at the failure" */
static void say_which(hr__report *report, const hr_diagnosis *diagnosis, const bar *card)
{
    const hr_memory_numbers *numbers = &diagnosis->numbers;
    char which[32], when[32] = "", size[64] = "";
    if (numbers->device >= 0)
        snprintf(which, sizeof which, "GPU %d", numbers->device);
    else
        snprintf(which, sizeof which, "%s",
                 diagnosis->verdict == HR_VERDICT_HOST ? "Host memory" : "The GPU");
    if (is_known(numbers->tried_bytes) || diagnosis->error_count > 0)
        snprintf(when, sizeof when, ", at the failure");
    else if (diagnosis->source == HR_SOURCE_RECORDING || diagnosis->source == HR_SOURCE_STEPS)
        snprintf(when, sizeof when, ", at the peak");
    if (card != NULL && card->is_of_limit && is_known(numbers->total_bytes))
        snprintf(size, sizeof size, ", limited to %.20s of %.20s",
                 hr__size_text(card->total_bytes).text, hr__size_text(numbers->total_bytes).text);
    else if (card != NULL)
        snprintf(size, sizeof size, card->is_of_limit ? ", limited to %.20s" : ", %.20s",
                 hr__size_text(card->total_bytes).text);
    hr__report_say(report, HR__STYLE_BOLD, "%s%s%s", which, size, when);
}

static void add_row(hr__table *table, hr__style style, const char *mark, const char *name,
                    uint64_t bytes, const char *meaning)
{
    char marked[32];
    if (!is_known(bytes))
        return;
    snprintf(marked, sizeof marked, "%s%s%s", mark, mark[0] != '\0' ? " " : "", name);
    hr__table_row(table, style);
    hr__table_cell(table, marked);
    hr__table_cell(table, hr__size_text(bytes).text);
    hr__table_cell(table, meaning);
}

static const hr__column number_columns[] = {
    {"", HR__COLUMN_WORD},
    {"", HR__COLUMN_NUMBER},
    {"", HR__COLUMN_NAME},
};

static void say_bar(hr__report *report, const hr_diagnosis *diagnosis, const bar *card)
{
    const hr_memory_numbers *numbers = &diagnosis->numbers;
    hr__table table;
    say_which(report, diagnosis, card);
    draw_bar(report, card);
    hr__table_init(&table, number_columns, sizeof number_columns / sizeof number_columns[0]);
    add_row(&table, HR__STYLE_BOLD, " ", "asked for", numbers->tried_bytes,
            "the request that failed");
    for (size_t i = 0; i < card->piece_count; i++) {
        const piece *next = &card->pieces[i];
        add_row(&table, next->style, report->form.has_utf8 ? next->utf8 : next->ascii, next->name,
                next->bytes, next->meaning);
    }
    if (card->is_of_limit)
        add_row(&table, HR__STYLE_PLAIN, " ", "free", numbers->free_bytes, left.meaning);
    else
        add_row(&table, HR__STYLE_PLAIN, " ", "limit", numbers->allowed_bytes,
                "set for this process");
    hr__table_end(&table, report);
}

/* As they were said, but for what is idle. */
static void say_list(hr__report *report, const hr_diagnosis *diagnosis)
{
    const hr_memory_numbers *numbers = &diagnosis->numbers;
    uint64_t idle_bytes = HR_UNKNOWN;
    hr__table table;
    if (is_known(numbers->reserved_bytes) && numbers->allocated_bytes <= numbers->reserved_bytes)
        idle_bytes = numbers->reserved_bytes - numbers->allocated_bytes;
    say_which(report, diagnosis, NULL);
    hr__table_init(&table, number_columns, sizeof number_columns / sizeof number_columns[0]);
    add_row(&table, HR__STYLE_BOLD, "", "asked for", numbers->tried_bytes,
            "the request that failed");
    add_row(&table, HR__STYLE_PLAIN, "", "live", numbers->allocated_bytes, live.meaning);
    add_row(&table, HR__STYLE_PLAIN, "", "idle", idle_bytes, idle.meaning);
    add_row(&table, HR__STYLE_PLAIN, "", "reserved", numbers->reserved_bytes,
            "held by the allocator");
    add_row(&table, HR__STYLE_PLAIN, "", "process", numbers->process_bytes,
            "all that the process holds");
    add_row(&table, HR__STYLE_PLAIN, "", "free", numbers->free_bytes, left.meaning);
    add_row(&table, HR__STYLE_PLAIN, "", "limit", numbers->allowed_bytes, "set for this process");
    add_row(&table, HR__STYLE_PLAIN, "", "total", numbers->total_bytes,
            diagnosis->verdict == HR_VERDICT_HOST ? "the machine" : "the card");
    hr__table_end(&table, report);
}

static bool is_any_known(const hr_memory_numbers *numbers)
{
    return is_known(numbers->tried_bytes) || is_known(numbers->total_bytes) ||
           is_known(numbers->free_bytes) || is_known(numbers->allocated_bytes) ||
           is_known(numbers->reserved_bytes) || is_known(numbers->process_bytes) ||
           is_known(numbers->allowed_bytes);
}

void hr__doctor_card(hr__report *report, const hr_diagnosis *diagnosis)
{
    bar card;
    if (!is_any_known(&diagnosis->numbers))
        return;
    hr__report_blank(report);
    if (make_bar(&diagnosis->numbers, &card))
        say_bar(report, diagnosis, &card);
    else
        say_list(report, diagnosis);
}
