/* memory_chart.c - columns of live memory with the idle on top.
 *
 * A column stands for one point or a few, always the same number, and shows the most of each of
 * them; so a peak is never lost between two columns. */
#include "memory_chart.h"

#define ROW_COUNT 12
#define LABEL_COLUMNS 7     /* "24 GiB " */
#define GAP_COLUMNS 3       /* between two charts */
#define SMALLEST_COLUMNS 24 /* narrower than that, charts go below each other */

typedef struct chart_layout {
    size_t points_per_column;
    size_t column_count;
} chart_layout;

/* How the longest of the charts fits into `width_columns`. */
static chart_layout fit(const memory_chart *charts, size_t chart_count, unsigned width_columns)
{
    size_t span = 1;
    for (size_t i = 0; i < chart_count; i++)
        if (charts[i].span > span)
            span = charts[i].span;
    size_t width = width_columns > 0 ? width_columns : 1;
    size_t points_per_column = (span + width - 1) / width;
    return (chart_layout){points_per_column, (span + points_per_column - 1) / points_per_column};
}

/* The most of the points in one column; zeroes where there are none. */
static memory_chart_point column_of(const memory_chart *chart, const chart_layout *layout,
                                    size_t column)
{
    memory_chart_point most = {0, 0};
    size_t first = column * layout->points_per_column;
    for (size_t i = first; i < first + layout->points_per_column && i < chart->point_count; i++) {
        if (chart->points[i].live_bytes > most.live_bytes)
            most.live_bytes = chart->points[i].live_bytes;
        if (chart->points[i].reserved_bytes > most.reserved_bytes)
            most.reserved_bytes = chart->points[i].reserved_bytes;
    }
    return most;
}

static memory_kind kind_at(const memory_chart *chart, const chart_layout *layout, size_t column,
                           unsigned row, uint64_t top_bytes)
{
    const uint64_t middle_bytes = top_bytes / (2 * ROW_COUNT) * (2 * row + 1);
    const memory_chart_point most = column_of(chart, layout, column);
    if (chart->has_failed && row == ROW_COUNT - 1 &&
        (chart->point_count - 1) / layout->points_per_column == column)
        return MEMORY_FAILED;
    if (most.live_bytes >= middle_bytes)
        return MEMORY_LIVE;
    return most.reserved_bytes >= middle_bytes ? MEMORY_IDLE : MEMORY_NONE;
}

/* One line of one chart; blanks at its end are left out where nothing follows. */
static void draw_chart_row(const memory_chart *chart, const chart_layout *layout, unsigned row,
                           bool is_last, uint64_t top_bytes, const memory_style *style, FILE *to)
{
    size_t column_count = layout->column_count;
    memory_kind last = MEMORY_NONE;
    while (is_last && column_count > 0 &&
           kind_at(chart, layout, column_count - 1, row, top_bytes) == MEMORY_NONE)
        column_count--;
    fputs(style->side, to);
    for (size_t column = 0; column < column_count; column++)
        memory_style_draw(style, kind_at(chart, layout, column, row, top_bytes), &last, to);
    memory_style_end(style, &last, to);
}

/* "24 GiB " at the top, "12 GiB " half way, "0 " at the base. */
static void draw_label(unsigned row, uint64_t top_bytes, FILE *to)
{
    const double top_gib = (double)top_bytes / (double)(UINT64_C(1) << 30);
    if (row == ROW_COUNT - 1)
        fprintf(to, "%2.0f GiB ", top_gib);
    else if (row == ROW_COUNT / 2 - 1)
        fprintf(to, "%2.0f GiB ", top_gib / 2);
    else
        fprintf(to, "%*s", LABEL_COLUMNS, "");
}

static void draw_gap(size_t chart, FILE *to)
{
    if (chart > 0)
        fprintf(to, "%*s", GAP_COLUMNS, "");
}

/* All of them in one band. */
static void draw_band(const memory_chart *charts, size_t chart_count, const chart_layout *layout,
                      uint64_t top_bytes, const memory_style *style, FILE *to)
{
    const int title_columns = (int)layout->column_count;
    fprintf(to, "%*s", LABEL_COLUMNS, "");
    for (size_t i = 0; i < chart_count; i++) {
        draw_gap(i, to);
        if (i + 1 < chart_count)
            fprintf(to, " %-*.*s", title_columns, title_columns, charts[i].title);
        else
            fprintf(to, " %.*s", title_columns, charts[i].title);
    }
    fputc('\n', to);
    for (unsigned row = ROW_COUNT; row-- > 0;) {
        draw_label(row, top_bytes, to);
        for (size_t i = 0; i < chart_count; i++) {
            draw_gap(i, to);
            draw_chart_row(&charts[i], layout, row, i + 1 == chart_count, top_bytes, style, to);
        }
        fputc('\n', to);
    }
    fprintf(to, "%*s", LABEL_COLUMNS, "");
    for (size_t i = 0; i < chart_count; i++) {
        draw_gap(i, to);
        fputs(style->corner, to);
        for (size_t column = 0; column < layout->column_count; column++)
            fputs(style->base, to);
    }
    fputc('\n', to);
}

void memory_chart_draw(const memory_chart *charts, size_t chart_count, uint64_t top_bytes,
                       const memory_style *style, FILE *to)
{
    const unsigned width = style->width_columns;
    const unsigned fixed = LABEL_COLUMNS + 1; /* of one chart alone */
    const unsigned beside = LABEL_COLUMNS + (unsigned)chart_count * (GAP_COLUMNS + 1) - GAP_COLUMNS;
    if (chart_count == 0)
        return;
    if (width >= beside + (unsigned)chart_count * SMALLEST_COLUMNS) {
        chart_layout layout = fit(charts, chart_count, (width - beside) / (unsigned)chart_count);
        draw_band(charts, chart_count, &layout, top_bytes, style, to);
        return;
    }
    chart_layout layout = fit(charts, chart_count, width > fixed ? width - fixed : 1);
    for (size_t i = 0; i < chart_count; i++)
        draw_band(&charts[i], 1, &layout, top_bytes, style, to);
}
