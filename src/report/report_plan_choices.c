/* report_plan_choices.c - what makes it fit: a table, then the code for the first few. */
#include <stdio.h>
#include <string.h>

#include "report/report_plan.h"
#include "report/report_show.h"

enum { CODE_OF = 3, MOST_CODES = 16, CODE_INDENT = 4 };

static hr__text slowdown_text(double slowdown)
{
    hr__text words = {.text = ""};
    snprintf(words.text, sizeof words.text, "%.30sx", hr__ratio_text(slowdown).text);
    return words;
}

/* "checkpointing, micro-batch 2 with 4 accumulated" */
static void join_changes(hr__byte_buffer *text, const hr_plan_choice *choice)
{
    hr__byte_buffer_clear(text);
    for (size_t i = 0; i < choice->change_count; i++)
        hr__append_format(text, "%s%s", i > 0 ? ", " : "", choice->changes[i]);
    if (choice->change_count == 0)
        hr__append_text(text, "as it is");
}

static void say_table(hr__report *out, const hr_plan *plan, size_t shown)
{
    static const hr__column columns[] = {
        {"time", HR__COLUMN_NUMBER}, {"peak", HR__COLUMN_NUMBER},  {"card", HR__COLUMN_NUMBER},
        {"fits", HR__COLUMN_WORD},   {"changes", HR__COLUMN_NAME},
    };
    hr__table table;
    hr__byte_buffer changes;
    hr__byte_buffer_init(&changes);
    hr__table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < shown; i++) {
        const hr_plan_choice *choice = &plan->choices[i];
        join_changes(&changes, choice);
        hr__table_row(&table, HR__STYLE_PLAIN);
        hr__table_cell(&table, slowdown_text(choice->slowdown).text);
        hr__table_cell(&table, hr__size_text(choice->peak_allocated_bytes).text);
        hr__table_cell(&table, hr__size_text(choice->peak_device_bytes).text);
        hr__table_cell(&table, !plan->is_card_known ? "" : choice->fits ? "yes" : "no");
        hr__table_cell(&table, hr__byte_buffer_text(&changes));
    }
    out->buffer.has_failed |= changes.has_failed;
    hr__byte_buffer_deinit(&changes);
    hr__table_end(&table, out);
}

/* ---- code ------------------------------------------------------------------------------------ */

static void say_code_lines(hr__report *out, const char *code)
{
    for (const char *line = code; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        hr__append_spaces(&out->buffer, CODE_INDENT);
        hr__show(out, &out->buffer, line, length);
        hr__append_text(&out->buffer, "\n");
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

static void say_change(hr__report *out, const hr_plan_choice *choice, size_t i, said_codes *said)
{
    const char *code = choice->code != NULL ? choice->code[i] : NULL;
    const char *cost = choice->costs != NULL ? choice->costs[i] : NULL;
    if (code == NULL || is_said(said, code))
        return;
    hr__report_blank(out);
    if (cost != NULL && cost[0] != '\0')
        hr__report_say(out, HR__STYLE_BOLD, "%s: %s", choice->changes[i], cost);
    else
        hr__report_say(out, HR__STYLE_BOLD, "%s", choice->changes[i]);
    say_code_lines(out, code);
}

void hr__report_plan_choices(hr__report *out, const hr_plan *plan)
{
    said_codes said = {.count = 0};
    size_t shown = plan->choice_count;
    if (shown > out->form.most_rows)
        shown = out->form.most_rows;
    if (shown == 0)
        return;
    hr__report_blank(out);
    hr__report_say(out, HR__STYLE_BOLD,
                   plan->is_card_known ? "What makes it fit, fastest first:"
                                       : "What takes less, fastest first:");
    say_table(out, plan, shown);
    for (size_t i = 0; i < shown && i < CODE_OF; i++)
        for (size_t j = 0; j < plan->choices[i].change_count; j++)
            say_change(out, &plan->choices[i], j, &said);
}
