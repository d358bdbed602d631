/* top_rows.c - see top_rows.h. */
#include "top_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Trends that are found anew in one reading, of rows that have one: a frame with many rows would
 * take too long otherwise. Each row has its turn. */
enum { MOST_TRENDS = 64 };

static vw_status fill_row(top_row *out, const vw_machine *before, const vw_machine *now,
                          const vw_machine_row *row, top_history *history, bool is_its_turn)
{
    bool is_by_steps, is_fresh = false;
    const vw_job_outlook *outlook = top_history_outlook(history, row, &is_fresh);
    if (is_its_turn && !is_fresh)
        outlook = NULL;
    out->row = row;
    vw_status status = vw_job_figures_find_with(before, now, row, outlook, &out->figures);
    if (status != VW_OK)
        return status;
    if (outlook == NULL)
        top_history_keep_outlook(history, row, &out->figures.outlook);
    out->note_count = vw_row_notes(row, &out->figures, out->notes);
    out->trend_count = top_history_points(history, row, out->trend, TOP_TREND_POINTS, &is_by_steps);
    return VW_OK;
}

static bool make_room(top_rows *rows, size_t count)
{
    if (count <= rows->capacity)
        return true;
    top_row *items = realloc(rows->items, count * sizeof *items);
    if (items == NULL)
        return false;
    rows->items = items;
    rows->capacity = count;
    return true;
}

vw_status top_rows_fill(top_rows *rows, const vw_machine *before, const vw_machine *now,
                        top_history *history)
{
    rows->count = rows->warning_count = 0;
    rows->job_count = now->jobs->job_count;
    if (!make_room(rows, now->row_count))
        return VW_ERR_HOST_MEMORY;
    const size_t turns = 1 + now->row_count / MOST_TRENDS;
    rows->turn++;
    for (size_t i = 0; i < now->row_count; i++) {
        top_row *row = &rows->items[rows->count];
        const bool is_its_turn = (i + rows->turn) % turns == 0;
        vw_status status = fill_row(row, before, now, &now->rows[i], history, is_its_turn);
        if (status != VW_OK)
            return status;
        rows->count++;
        rows->warning_count += row->note_count > 0 && row->notes[0].is_urgent;
    }
    return VW_OK;
}

void top_rows_free(top_rows *rows)
{
    free(rows->items);
    *rows = (top_rows){0};
}

/* ---- the filter ------------------------------------------------------------------------------ */

static bool matches(const top_row *row, const char *filter)
{
    char number[32], gpu[16] = "";
    snprintf(number, sizeof number, "%ld", row->row->process);
    if (row->row->gpu != NULL)
        snprintf(gpu, sizeof gpu, "gpu%d", row->row->gpu->index);
    if (strcasestr(row->row->command, filter) != NULL || strstr(number, filter) != NULL ||
        strcasestr(gpu, filter) != NULL)
        return true;
    if (row->row->job != NULL && strcasestr(row->row->job->job, filter) != NULL)
        return true;
    for (size_t i = 0; i < row->note_count; i++)
        if (strcasestr(row->notes[i].word, filter) != NULL)
            return true;
    return false;
}

static void keep_matching(top_rows *rows, const char *filter)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++) {
        if (!matches(&rows->items[i], filter))
            continue;
        if (kept != i)
            rows->items[kept] = rows->items[i];
        kept++;
    }
    rows->count = kept;
}

/* ---- the order ------------------------------------------------------------------------------- */

static bool is_on_none(const top_row *row)
{
    return row->row->place == VW_ROW_ON_NO_GPU;
}

static int by_order(const void *left, const void *right, void *context)
{
    const top_row *one = left, *other = right;
    const top_order *order = context;
    if (is_on_none(one) != is_on_none(other))
        return is_on_none(one) ? 1 : -1;
    int result = order->compare(order->column, one, other);
    if (result != 0)
        return order->is_falling ? -result : result;
    return (one->row > other->row) - (one->row < other->row); /* as the machine has them */
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* What ranks of one job have in common; "" for a row by itself. */
static const char *job_of(const top_row *row)
{
    const vw_job *job = row->row->job;
    if (job == NULL)
        return "";
    return job->job[0] != '\0' ? job->job : job->run;
}

static bool is_same_group(const top_row *one, const top_row *other)
{
    return is_on_none(one) == is_on_none(other) && job_of(one)[0] != '\0' &&
           strcmp(job_of(one), job_of(other)) == 0;
}

static int by_job(const void *left, const void *right)
{
    const top_row *one = left, *other = right;
    int result = is_on_none(one) - is_on_none(other);
    if (result == 0)
        result = strcmp(job_of(one), job_of(other));
    return result != 0 ? result : (one->place > other->place) - (one->place < other->place);
}

static int rank_of(const top_row *row)
{
    return row->row->job != NULL ? row->row->job->rank : -1;
}

static int by_group(const void *left, const void *right)
{
    const top_row *one = left, *other = right;
    if (one->group_place != other->group_place)
        return one->group_place < other->group_place ? -1 : 1;
    if (rank_of(one) != rank_of(other))
        return rank_of(one) < rank_of(other) ? -1 : 1;
    return (one->place > other->place) - (one->place < other->place);
}

/* Rows of a job follow each other once they are sorted by it: so each pass is over neighbours. */
static void make_tree(top_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        rows->items[i].place = i;
    qsort(rows->items, rows->count, sizeof *rows->items, by_job);
    for (size_t i = 0; i < rows->count; i++) {
        top_row *row = &rows->items[i];
        const bool is_new = i == 0 || !is_same_group(row, row - 1);
        row->group_place = is_new ? row->place : (row - 1)->group_place;
    }
    qsort(rows->items, rows->count, sizeof *rows->items, by_group);
}

/* Which rows begin and end a job, and how many it has; without a tree each is by itself. */
static void mark_groups(top_rows *rows, bool is_tree)
{
    for (size_t begin = 0, end; begin < rows->count; begin = end) {
        end = begin + 1;
        while (is_tree && end < rows->count &&
               is_same_group(&rows->items[begin], &rows->items[end]))
            end++;
        for (size_t i = begin; i < end; i++) {
            rows->items[i].group_count = end - begin;
            rows->items[i].is_first_of_group = i == begin;
            rows->items[i].is_last_of_group = i + 1 == end;
        }
    }
}

void top_rows_arrange(top_rows *rows, const char *filter, const top_order *order)
{
    top_order wanted = *order;
    if (filter[0] != '\0')
        keep_matching(rows, filter);
    if (rows->count > 1)
        qsort_r(rows->items, rows->count, sizeof *rows->items, by_order, &wanted);
    if (order->is_tree && rows->count > 1)
        make_tree(rows);
    mark_groups(rows, order->is_tree);
    rows->on_gpu_count = 0;
    while (rows->on_gpu_count < rows->count && !is_on_none(&rows->items[rows->on_gpu_count]))
        rows->on_gpu_count++;
}

top_key top_row_key(const top_row *row)
{
    return (top_key){
        .process = row->row->process,
        .device = row->row->device != NULL ? row->row->device->index : -1,
        .gpu = row->row->gpu != NULL ? row->row->gpu->index : -1,
    };
}

size_t top_rows_find(const top_rows *rows, const top_key *key)
{
    for (size_t i = 0; i < rows->count; i++) {
        top_key other = top_row_key(&rows->items[i]);
        if (other.process == key->process && other.device == key->device && other.gpu == key->gpu)
            return i;
    }
    return rows->count;
}
