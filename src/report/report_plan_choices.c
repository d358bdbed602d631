/* report_plan_choices.c - what makes it fit: a table, then the code for the first few. */
#include <stdio.h>
#include <string.h>

#include "report/report_plan.h"
#include "report/report_show.h"

enum { CODE_OF = 3, MOST_CODES = 16, CODE_INDENT = 4 };

static vw__text slowdown_text(double slowdown)
{
    vw__text words = {.text = ""};
    snprintf(words.text, sizeof words.text, "%.30sx", vw__ratio_text(slowdown).text);
    return words;
}

/* "checkpointing, micro-batch 2 with 4 accumulated" */
static void join_changes(vw__byte_buffer *text, const vw_plan_choice *choice)
{
    vw__byte_buffer_clear(text);
    for (size_t i = 0; i < choice->change_count; i++)
        vw__append_format(text, "%s%s", i > 0 ? ", " : "", choice->changes[i]);
    if (choice->change_count == 0)
        vw__append_text(text, "as it is");
}

static void say_table(vw__report *out, const vw_plan *plan, size_t shown)
{
    static const vw__column columns[] = {
        {"time", VW__COLUMN_NUMBER}, {"peak", VW__COLUMN_NUMBER},  {"card", VW__COLUMN_NUMBER},
        {"fits", VW__COLUMN_WORD},   {"changes", VW__COLUMN_NAME},
    };
    vw__table table;
    vw__byte_buffer changes;
    vw__byte_buffer_init(&changes);
    vw__table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < shown; i++) {
        const vw_plan_choice *choice = &plan->choices[i];
        join_changes(&changes, choice);
        vw__table_row(&table, VW__STYLE_PLAIN);
        vw__table_cell(&table, slowdown_text(choice->slowdown).text);
        vw__table_cell(&table, vw__size_text(choice->peak_allocated_bytes).text);
        vw__table_cell(&table, vw__size_text(choice->peak_device_bytes).text);
        vw__table_cell(&table, !plan->is_card_known ? "" : choice->fits ? "yes" : "no");
        vw__table_cell(&table, vw__byte_buffer_text(&changes));
    }
    out->buffer.has_failed |= changes.has_failed;
    vw__byte_buffer_deinit(&changes);
    vw__table_end(&table, out);
}

/* ---- code ------------------------------------------------------------------------------------ */

static void say_code_lines(vw__report *out, const char *code)
{
    for (const char *line = code; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        vw__append_spaces(&out->buffer, CODE_INDENT);
        vw__show(out, &out->buffer, line, length);
        vw__append_text(&out->buffer, "\n");
        line += length + (line[length] == '\n');
    }
}

typedef struct said_codes {
    const char *texts[MOST_CODES];
    size_t count;
} said_codes;

static bool is_said(said_codes *said, const char *code)
{
    for (size_t i = 0; i < said->count; i++)
        if (strcmp(said->texts[i], code) == 0)
            return true;
    if (said->count < MOST_CODES)
        said->texts[said->count++] = code;
    return false;
}

static void say_change(vw__report *out, const vw_plan_choice *choice, size_t i, said_codes *said)
{
    const char *code = choice->code != NULL ? choice->code[i] : NULL;
    const char *cost = choice->costs != NULL ? choice->costs[i] : NULL;
    if (code == NULL || is_said(said, code))
        return;
    vw__report_blank(out);
    if (cost != NULL && cost[0] != '\0')
        vw__report_say(out, VW__STYLE_BOLD, "%s: %s", choice->changes[i], cost);
    else
        vw__report_say(out, VW__STYLE_BOLD, "%s", choice->changes[i]);
    say_code_lines(out, code);
}

void vw__report_plan_choices(vw__report *out, const vw_plan *plan)
{
    said_codes said = {.count = 0};
    size_t shown = plan->choice_count;
    if (shown > out->form.most_rows)
        shown = out->form.most_rows;
    if (shown == 0)
        return;
    vw__report_blank(out);
    vw__report_say(out, VW__STYLE_BOLD,
                   plan->is_card_known ? "What makes it fit, fastest first:"
                                       : "What takes less, fastest first:");
    say_table(out, plan, shown);
    for (size_t i = 0; i < shown && i < CODE_OF; i++)
        for (size_t j = 0; j < plan->choices[i].change_count; j++)
            say_change(out, &plan->choices[i], j, &said);
}
