/* report_doctor_card.c - what the card held when the request failed, at a glance.
 *
 *     GPU 0, 24.00 GiB, at the failure
 *     |###########################################........................x|
 *       asked for   1.78 GiB  the request that failed
 *     # live       14.80 GiB  in use
 *     . idle        8.70 GiB  held by the allocator, in no use
 *     x outside      440 MiB  other processes, CUDA contexts, libraries
 *       free        26.0 MiB  by the driver
 *
 * A bar is drawn only of numbers that make one: live <= reserved, and reserved, free and the rest
 * add up to the card. Where a limit is nearer than the end of the card, the bar is the limit's.
 * Other numbers are listed as they were said; what a table says below a bar is what the bar shows,
 * so nothing has to be subtracted in the head.
 *
 * The heading names the moment of the numbers, because the sentence above may be about another one:
 * the reserved peak, say, while these are from the peak of live bytes. A limit that was concluded
 * from a recording is approximate, so the room below it is not shown; one that the recording states
 * is exact.
 */
#include "report/report_doctor.h"

#include <stdio.h>
#include <string.h>

enum {
    WIDEST_BAR_COLUMNS = 78, /* between its ends */
    MOST_PIECES = 6,
    NARROWEST_WITH_ROWS = 42, /* so that two words fit beside a name and its number */
    SCREEN_GAP_COLUMNS = 3,
};

/* A stretch of the bar, and its row in the table. */
typedef struct piece {
    const char *name;
    const char *meaning;
    const char *ascii, *utf8; /* one column each */
    vw__report_style style;
    uint64_t bytes;
} piece;

typedef struct bar {
    uint64_t total_bytes;
    bool is_of_limit;
    piece pieces[MOST_PIECES]; /* they add up to total_bytes */
    size_t piece_count;
} bar;

/* Which moment the numbers are of. */
typedef enum moment {
    MOMENT_NOT_SAID,
    MOMENT_FAILURE,
    MOMENT_REPLAYED_FAILURE, /* on another card than the recording's */
    MOMENT_OTHER_CARD,       /* a failure from a text, judged on a card that is large enough */
    MOMENT_PEAK,             /* of live bytes */
    MOMENT_SNAPSHOT,         /* the only one that the file has */
    MOMENT_NOW,              /* of a running job */
    MOMENT_COUNT
} moment;

/* The words for each moment: heading, request, idle memory, reserved memory. */
static const struct {
    const char *heading, *request, *idle, *reserved;
} words[MOMENT_COUNT] = {
    [MOMENT_NOT_SAID] = {"", "the request", "held by the allocator, in no use",
                         "held by the allocator"},
    [MOMENT_FAILURE] = {", at the failure", "the request that failed",
                        "held by the allocator, in no use", "held by the allocator"},
    [MOMENT_REPLAYED_FAILURE] = {", where it would fail", "the request that would fail",
                                 "held by the allocator, in no use", "held by the allocator"},
    [MOMENT_OTHER_CARD] = {", on that card", "the request", "held by the allocator, in no use",
                           "held by the allocator"},
    [MOMENT_PEAK] = {", at the peak of live memory", "the request",
                     "held by the allocator then, in no use", "held by the allocator then"},
    [MOMENT_SNAPSHOT] = {", when the snapshot was taken", "the request",
                         "held by the allocator, in no use", "held by the allocator"},
    [MOMENT_NOW] = {", now", "the request", "held by the allocator, in no use now",
                    "held by the allocator"},
};

static bool is_known(uint64_t bytes)
{
    return bytes != VW_UNKNOWN;
}

static moment moment_of(const vw_diagnosis *diagnosis)
{
    const bool has_request = is_known(diagnosis->numbers.tried_bytes);
    const bool has_error = diagnosis->error_count > 0;
    if (diagnosis->is_running)
        return MOMENT_NOW;
    switch (diagnosis->source) {
    case VW_SOURCE_RECORDING: /* what failed in it need not fail on the card that was asked about */
        if (has_request)
            return has_error ? MOMENT_FAILURE : MOMENT_REPLAYED_FAILURE;
        return diagnosis->verdict == VW_VERDICT_UNKNOWN ? MOMENT_SNAPSHOT : MOMENT_PEAK;
    case VW_SOURCE_STEPS:
        return has_request || has_error ? MOMENT_FAILURE : MOMENT_PEAK;
    default:
        if (diagnosis->verdict == VW_VERDICT_HEALTHY)
            return MOMENT_OTHER_CARD;
        return has_request || has_error ? MOMENT_FAILURE : MOMENT_NOT_SAID;
    }
}

/* PyTorch's recordings do not state the limit: it lies between what was served and what was
 * refused. Those of vramwise state both the limit and the size of the card. */
static bool is_limit_estimated(const vw_diagnosis *diagnosis)
{
    return diagnosis->source == VW_SOURCE_RECORDING && !is_known(diagnosis->numbers.total_bytes);
}

static const char *limit_meaning(const vw_diagnosis *diagnosis)
{
    return is_limit_estimated(diagnosis) ? "about, concluded from what was served and what was not"
                                         : "set for this process";
}

static void add_piece(bar *card, piece next)
{
    card->pieces[card->piece_count++] = next;
}

static const piece live = {"live", "in use", "#", "\xE2\x96\x88", VW__REPORT_STYLE_GREEN, 0};
static const piece idle = {"idle", NULL, ".", "\xE2\x96\x91", VW__REPORT_STYLE_RED,
                           0}; /* see words[] */
static const piece context = {
    "context", "this process, outside the allocator", "o", "\xE2\x96\x92", VW__REPORT_STYLE_YELLOW,
    0};
static const piece others = {"others",       "other processes",       "x",
                             "\xE2\x96\x93", VW__REPORT_STYLE_YELLOW, 0};
static const piece outside = {"outside",
                              "other processes, CUDA contexts, libraries",
                              "x",
                              "\xE2\x96\x93",
                              VW__REPORT_STYLE_YELLOW,
                              0};
static const piece left = {"free", "by the driver", " ", " ", VW__REPORT_STYLE_PLAIN, 0};
static const piece below = {"left", "below the limit", " ", " ", VW__REPORT_STYLE_PLAIN, 0};

static void add_sized(bar *card, piece next, uint64_t bytes)
{
    next.bytes = bytes;
    add_piece(card, next);
}

/* A limit that leaves less than the driver has free. */
static bool is_limit_in_the_way(const vw_memory_numbers *numbers)
{
    if (!is_known(numbers->allowed_bytes) || numbers->reserved_bytes > numbers->allowed_bytes)
        return false;
    const uint64_t left_bytes = numbers->allowed_bytes - numbers->reserved_bytes;
    return numbers->allowed_bytes <= numbers->total_bytes && /* an unknown card is larger */
           left_bytes < numbers->free_bytes;
}

/* Memory that is neither the allocator's nor free; in two pieces if the process's total is known.
 */
static void add_outside(bar *card, const vw_memory_numbers *numbers, uint64_t outside_bytes)
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

/* Returns false if the numbers do not add up to a bar. */
static bool make_bar(const vw_memory_numbers *numbers, bar *card)
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

/* Each piece ends at the column nearest to the sum so far, so rounding never changes the length of
 * the bar. */
static void draw_bar(vw__report *report, const bar *card)
{
    const unsigned width = report->form.width_columns - 2 < WIDEST_BAR_COLUMNS
                               ? report->form.width_columns - 2
                               : WIDEST_BAR_COLUMNS;
    unsigned column = 0;
    uint64_t end_bytes = 0;
    const char *side = report->form.has_utf8 ? "\xE2\x94\x82" : "|";
    vw__append_text(&report->buffer, side);
    for (size_t i = 0; i < card->piece_count; i++) {
        const piece *next = &card->pieces[i];
        end_bytes += next->bytes;
        const unsigned end =
            (unsigned)((double)end_bytes / (double)card->total_bytes * width + 0.5);
        if (column == end)
            continue;
        if (next->style != VW__REPORT_STYLE_PLAIN)
            vw__append_text(&report->buffer, vw__report_style_code(report, next->style));
        for (; column < end; column++)
            vw__append_text(&report->buffer, report->form.has_utf8 ? next->utf8 : next->ascii);
        if (next->style != VW__REPORT_STYLE_PLAIN)
            vw__append_text(&report->buffer, vw__report_style_code(report, VW__REPORT_STYLE_PLAIN));
    }
    vw__append_text(&report->buffer, side);
    vw__append_text(&report->buffer, "\n");
}

/* "GPU 0, 24.00 GiB, at the failure" */
static void say_which(vw__report *report, const vw_diagnosis *diagnosis, const bar *card)
{
    const vw_memory_numbers *numbers = &diagnosis->numbers;
    const char *about = is_limit_estimated(diagnosis) ? "about " : "";
    char which[32], size[80] = "";
    if (numbers->device >= 0)
        snprintf(which, sizeof which, "GPU %d", numbers->device);
    else
        snprintf(which, sizeof which, "%s",
                 diagnosis->verdict == VW_VERDICT_HOST ? "Host memory" : "The GPU");
    if (card != NULL && card->is_of_limit && is_known(numbers->total_bytes))
        snprintf(size, sizeof size, ", limited to %s%.20s of %.20s", about,
                 vw__report_size(card->total_bytes).text,
                 vw__report_size(numbers->total_bytes).text);
    else if (card != NULL && card->is_of_limit)
        snprintf(size, sizeof size, ", limited to %s%.20s", about,
                 vw__report_size(card->total_bytes).text);
    else if (card != NULL)
        snprintf(size, sizeof size, ", %.20s", vw__report_size(card->total_bytes).text);
    vw__report_prose(report, 0, VW__REPORT_STYLE_BOLD, "", "%s%s%s", which, size,
                     words[moment_of(diagnosis)].heading);
}

static const vw__report_column number_columns[] = {
    {"", VW__REPORT_COLUMN_WORD},
    {"", VW__REPORT_COLUMN_NUMBER},
    {"", VW__REPORT_COLUMN_NAME},
};

/* The numbers below the heading: rows, or in a narrow window sentences, or on a screen, where
 * lines are few, one behind the other without their meaning. */
typedef struct listing {
    vw__report *report;
    vw__report_table table;
    bool is_on_screen;
    size_t column; /* on a screen: where the line at hand ends */
} listing;

static void begin_listing(listing *rows, vw__report *report)
{
    rows->report = report;
    rows->is_on_screen = report->form.most_lines != 0;
    rows->column = 0;
    vw__report_table_init(&rows->table, number_columns,
                          sizeof number_columns / sizeof number_columns[0]);
}

static void end_listing(listing *rows)
{
    if (rows->column > 0)
        vw__report_blank(rows->report);
    vw__report_table_end(&rows->table, rows->report);
}

/* "# live 14.80 GiB   ", behind what is there. */
static void add_on_screen(listing *rows, vw__report_style style, const char *marked, uint64_t bytes)
{
    vw__byte_buffer *buffer = &rows->report->buffer;
    const vw__report_text size = vw__report_size(bytes);
    marked += strspn(marked, " ");
    const size_t columns = vw__report_columns_of(marked, strlen(marked)) + 1 + strlen(size.text);
    if (rows->column > 0 &&
        rows->column + SCREEN_GAP_COLUMNS + columns > rows->report->form.width_columns) {
        vw__report_blank(rows->report);
        rows->column = 0;
    }
    if (rows->column > 0) {
        vw__report_append_spaces(buffer, SCREEN_GAP_COLUMNS);
        rows->column += SCREEN_GAP_COLUMNS;
    }
    if (style != VW__REPORT_STYLE_PLAIN)
        vw__append_text(buffer, vw__report_style_code(rows->report, style));
    vw__append_format(buffer, "%s %s", marked, size.text);
    if (style != VW__REPORT_STYLE_PLAIN)
        vw__append_text(buffer, vw__report_style_code(rows->report, VW__REPORT_STYLE_PLAIN));
    rows->column += columns;
}

static void add_row(listing *rows, vw__report_style style, const char *mark, const char *name,
                    uint64_t bytes, const char *meaning)
{
    char marked[32];
    if (!is_known(bytes))
        return;
    snprintf(marked, sizeof marked, "%s%s%s", mark, mark[0] != '\0' ? " " : "", name);
    if (rows->is_on_screen) {
        add_on_screen(rows, style, marked, bytes);
        return;
    }
    if (rows->report->form.width_columns < NARROWEST_WITH_ROWS) {
        vw__report_prose(rows->report, 0, style, "", "%s %s: %s", marked,
                         vw__report_size(bytes).text, meaning);
        return;
    }
    vw__report_table_row(&rows->table, style);
    vw__report_table_cell(&rows->table, marked);
    vw__report_table_cell(&rows->table, vw__report_size(bytes).text);
    vw__report_table_cell(&rows->table, meaning);
}

static void say_bar(vw__report *report, const vw_diagnosis *diagnosis, const bar *card)
{
    const vw_memory_numbers *numbers = &diagnosis->numbers;
    const moment when = moment_of(diagnosis);
    listing rows;
    say_which(report, diagnosis, card);
    draw_bar(report, card);
    begin_listing(&rows, report);
    add_row(&rows, VW__REPORT_STYLE_BOLD, " ", "asked for", numbers->tried_bytes,
            words[when].request);
    for (size_t i = 0; i < card->piece_count; i++) {
        const piece *next = &card->pieces[i];
        const bool is_left = next->name == below.name;
        if (is_left && is_limit_estimated(diagnosis))
            continue;
        add_row(&rows, next->style, report->form.has_utf8 ? next->utf8 : next->ascii, next->name,
                next->bytes, next->meaning != NULL ? next->meaning : words[when].idle);
    }
    if (card->is_of_limit)
        add_row(&rows, VW__REPORT_STYLE_PLAIN, " ", "free", numbers->free_bytes, left.meaning);
    else
        add_row(&rows, VW__REPORT_STYLE_PLAIN, " ", "limit", numbers->allowed_bytes,
                limit_meaning(diagnosis));
    end_listing(&rows);
}

/* The numbers as stated, plus the idle bytes. */
static void say_list(vw__report *report, const vw_diagnosis *diagnosis)
{
    const vw_memory_numbers *numbers = &diagnosis->numbers;
    const moment when = moment_of(diagnosis);
    uint64_t idle_bytes = VW_UNKNOWN;
    listing rows;
    if (is_known(numbers->reserved_bytes) && numbers->allocated_bytes <= numbers->reserved_bytes)
        idle_bytes = numbers->reserved_bytes - numbers->allocated_bytes;
    say_which(report, diagnosis, NULL);
    begin_listing(&rows, report);
    add_row(&rows, VW__REPORT_STYLE_BOLD, "", "asked for", numbers->tried_bytes,
            words[when].request);
    add_row(&rows, VW__REPORT_STYLE_PLAIN, "", "live", numbers->allocated_bytes, live.meaning);
    add_row(&rows, VW__REPORT_STYLE_PLAIN, "", "idle", idle_bytes, words[when].idle);
    add_row(&rows, VW__REPORT_STYLE_PLAIN, "", "reserved", numbers->reserved_bytes,
            words[when].reserved);
    add_row(&rows, VW__REPORT_STYLE_PLAIN, "", "process", numbers->process_bytes,
            "all that the process holds");
    add_row(&rows, VW__REPORT_STYLE_PLAIN, "", "free", numbers->free_bytes, left.meaning);
    add_row(&rows, VW__REPORT_STYLE_PLAIN, "", "limit", numbers->allowed_bytes,
            limit_meaning(diagnosis));
    add_row(&rows, VW__REPORT_STYLE_PLAIN, "", "total", numbers->total_bytes,
            diagnosis->verdict == VW_VERDICT_HOST ? "the machine" : "the card");
    end_listing(&rows);
}

static bool is_any_known(const vw_memory_numbers *numbers)
{
    return is_known(numbers->tried_bytes) || is_known(numbers->total_bytes) ||
           is_known(numbers->free_bytes) || is_known(numbers->allocated_bytes) ||
           is_known(numbers->reserved_bytes) || is_known(numbers->process_bytes) ||
           is_known(numbers->allowed_bytes);
}

void vw__report_doctor_card(vw__report *report, const vw_diagnosis *diagnosis)
{
    bar card;
    if (!is_any_known(&diagnosis->numbers))
        return;
    vw__report_blank(report);
    if (make_bar(&diagnosis->numbers, &card))
        say_bar(report, diagnosis, &card);
    else
        say_list(report, diagnosis);
}
