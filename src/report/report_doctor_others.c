/* report_doctor_others.c - the remedies besides the first, a line each.
 *
 *     Other remedies                            saves          costs
 *     split each batch in 2 and accumulate ...  2.08-2.72 GiB  +3 % time   enough
 *
 * An action is cut where the columns beside it leave too little room: its whole text, and its code,
 * are in the whole report. */
#include "report/report_doctor.h"

#include <stdio.h>
#include <string.h>

enum {
    TABLE_GAP_COLUMNS = 2,
    LARGEST_COST_COLUMNS = 18,
    SMALLEST_ACTION_COLUMNS = 24,
};

const char *vw__report_doctor_enough(vw_enough enough)
{
    static const char *const words[] = {
        [VW_ENOUGH_UNKNOWN] = "", [VW_ENOUGH_NO] = "not enough", [VW_ENOUGH_YES] = "enough"};
    return words[enough];
}

/* ---- which ----------------------------------------------------------------------------------- */

static bool is_listed(const vw__report_doctor_others *list, const vw_remedy *remedy)
{
    for (size_t i = 0; i < list->count; i++)
        if (vw__report_doctor_is_same(list->items[i], remedy))
            return true;
    return false;
}

void vw__report_doctor_find_others(const vw_diagnosis *diagnosis, vw__report_doctor_others *out)
{
    const vw_remedy *first = vw__report_doctor_first_remedy(diagnosis);
    out->count = out->total = 0;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        if (vw__report_doctor_is_warning(finding))
            continue;
        for (size_t k = 0; k < finding->remedy_count; k++) {
            const vw_remedy *remedy = &finding->remedies[k];
            if (vw__report_doctor_is_same(remedy, first) || is_listed(out, remedy))
                continue;
            out->total++;
            if (out->count < VW__REPORT_DOCTOR_MOST_OTHERS)
                out->items[out->count++] = remedy;
        }
    }
}

static unsigned rank_of(const vw_remedy *remedy)
{
    return remedy->enough == VW_ENOUGH_YES ? 0 : remedy->enough == VW_ENOUGH_UNKNOWN ? 1 : 2;
}

/* Good advice for the next run at best: it has no place on a screen about this one. */
static bool saves_nothing(const vw_remedy *remedy)
{
    return remedy->saves_bytes == 0 && remedy->saves_at_most_bytes == 0;
}

void vw__report_doctor_choose_others(const vw__report_doctor_others *all, size_t most,
                                     vw__report_doctor_others *out)
{
    bool is_chosen[VW__REPORT_DOCTOR_MOST_OTHERS] = {false};
    size_t chosen = 0;
    for (unsigned rank = 0; rank <= 2; rank++)
        for (size_t i = 0; i < all->count && chosen < most; i++)
            if (rank_of(all->items[i]) == rank && !saves_nothing(all->items[i])) {
                is_chosen[i] = true;
                chosen++;
            }
    out->count = 0;
    for (size_t i = 0; i < all->count; i++)
        if (is_chosen[i])
            out->items[out->count++] = all->items[i];
    out->total = out->count;
}

/* ---- in few letters -------------------------------------------------------------------------- */

/* "2.08-2.72 GiB", "763 MiB-1.77 GiB", "up to 1.77 GiB", "763 MiB or more"; "" if unknown. */
static vw__report_text short_savings(const vw_remedy *remedy)
{
    const uint64_t least_bytes = remedy->saves_bytes, most_bytes = remedy->saves_at_most_bytes;
    const vw__report_text least = vw__report_size(least_bytes), most = vw__report_size(most_bytes);
    const char *least_unit = strchr(least.text, ' '), *most_unit = strchr(most.text, ' ');
    vw__report_text result = {""};
    if (least_bytes == VW_UNKNOWN && most_bytes == VW_UNKNOWN)
        return result;
    if (least_bytes == most_bytes)
        return least;
    if (most_bytes == VW_UNKNOWN)
        snprintf(result.text, sizeof result.text, "%.24s or more", least.text);
    else if (least_bytes == VW_UNKNOWN || least_bytes == 0)
        snprintf(result.text, sizeof result.text, "up to %.24s", most.text);
    else if (least_unit != NULL && most_unit != NULL && strcmp(least_unit, most_unit) == 0)
        snprintf(result.text, sizeof result.text, "%.*s-%.24s", (int)(least_unit - least.text),
                 least.text, most.text);
    else
        snprintf(result.text, sizeof result.text, "%.24s-%.24s", least.text, most.text);
    return result;
}

/* Bytes of the first clause of a cost, which is its time (remedy.h). */
static size_t clause_bytes(const char *cost)
{
    size_t end = strcspn(cost, ";:(");
    const char *comma = strstr(cost, ", ");
    if (comma != NULL && (size_t)(comma - cost) < end)
        end = (size_t)(comma - cost);
    while (end > 0 && cost[end - 1] == ' ')
        end--;
    return end;
}

/* The time that a remedy costs, in few letters: "about 30 % more time per step: ..." is
 * "+30 % time". */
static vw__report_text short_cost(const vw_remedy *remedy)
{
    static const char about[] = "about ", more[] = " more ";
    const char *cost = vw__report_doctor_text(remedy->cost);
    vw__report_text clause, result;
    snprintf(clause.text, sizeof clause.text, "%.*s", (int)clause_bytes(cost), cost);
    const char *middle = strstr(clause.text, more);
    if (strncmp(clause.text, about, sizeof about - 1) != 0 || middle == NULL)
        return clause;
    const char *figure = clause.text + sizeof about - 1, *what = middle + sizeof more - 1;
    const bool is_time = strncmp(what, "time", strlen("time")) == 0;
    snprintf(result.text, sizeof result.text, "+%.*s %.24s", (int)(middle - figure), figure,
             is_time ? "time" : what);
    return result;
}

static size_t wider(size_t columns, const char *text)
{
    const size_t own_columns = vw__report_columns_of(text, strlen(text));
    return own_columns > columns ? own_columns : columns;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const vw__report_column other_columns[] = {
    {"Other remedies", VW__REPORT_COLUMN_WORD},
    {"saves", VW__REPORT_COLUMN_WORD},
    {"costs", VW__REPORT_COLUMN_WORD},
    {"", VW__REPORT_COLUMN_WORD}, /* enough, or not */
};
enum { OTHER_COLUMN_COUNT = sizeof other_columns / sizeof other_columns[0] };

typedef struct room {
    size_t action_columns; /* 0: too narrow for columns */
    size_t cost_columns;
} room;

/* A long cost takes the columns that no action needs; where each needs more, the cost is cut. */
static room room_for(const vw__report_doctor_others *list, size_t width_columns)
{
    size_t columns[OTHER_COLUMN_COUNT] = {0}, taken_columns = 0;
    for (size_t i = 0; i < list->count; i++) {
        columns[0] = wider(columns[0], vw__report_doctor_text(list->items[i]->action));
        columns[1] = wider(columns[1], short_savings(list->items[i]).text);
        columns[2] = wider(columns[2], short_cost(list->items[i]).text);
        columns[3] = wider(columns[3], vw__report_doctor_enough(list->items[i]->enough));
    }
    const size_t least_cost_columns =
        columns[2] < LARGEST_COST_COLUMNS ? columns[2] : LARGEST_COST_COLUMNS;
    for (size_t i = 1; i < OTHER_COLUMN_COUNT; i++)
        if (columns[i] > 0)
            taken_columns += TABLE_GAP_COLUMNS + wider(i == 2 ? least_cost_columns : columns[i],
                                                       other_columns[i].title);
    if (width_columns <= taken_columns + SMALLEST_ACTION_COLUMNS)
        return (room){0, least_cost_columns};
    const size_t left_columns = width_columns - taken_columns;
    const size_t named_columns = wider(columns[0], other_columns[0].title);
    const size_t spare_columns = left_columns > named_columns ? left_columns - named_columns : 0;
    return (room){left_columns - spare_columns, least_cost_columns + spare_columns};
}

static void add_cut_cell(vw__report *part, vw__report_table *table, const char *text,
                         size_t room_columns)
{
    vw__byte_buffer cell;
    vw__byte_buffer_init(&cell);
    vw__report_append_cut(part, &cell, text, room_columns);
    vw__report_table_cell(table, vw__byte_buffer_text(&cell));
    if (cell.has_failed)
        part->buffer.has_failed = true;
    vw__byte_buffer_deinit(&cell);
}

/* In a window too narrow for columns the action stands alone. */
static void add_other(vw__report *part, vw__report_table *table, const vw_remedy *remedy,
                      room given)
{
    const bool has_columns = given.action_columns > 0;
    vw__report_table_row(table, VW__REPORT_STYLE_PLAIN);
    add_cut_cell(part, table, vw__report_doctor_text(remedy->action),
                 has_columns ? given.action_columns : part->form.width_columns);
    vw__report_table_cell(table, has_columns ? short_savings(remedy).text : "");
    add_cut_cell(part, table, has_columns ? short_cost(remedy).text : "", given.cost_columns);
    vw__report_table_cell(table, has_columns ? vw__report_doctor_enough(remedy->enough) : "");
}

void vw__report_doctor_say_others(vw__report *report, const vw__report_doctor_others *list)
{
    vw__report_table table;
    if (list->count == 0)
        return;
    const room given = room_for(list, report->form.width_columns);
    vw__report_blank(report);
    vw__report_table_init(&table, other_columns, OTHER_COLUMN_COUNT);
    for (size_t i = 0; i < list->count; i++)
        add_other(report, &table, list->items[i], given);
    vw__report_table_end(&table, report);
}
