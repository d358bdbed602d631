/* segment_map.c - two walks over a pool, then characters.
 *
 * The first walk finds the segments to show and with them the scale; the second fills their cells.
 * Where the pool changes in between (it does not in one thread), a segment that is gone simply
 * shows no live cells.
 *
 * A bar is as long as its segment: all bars of a map have one scale, and a bar longer than the line
 * goes on in the next. Two maps with the same scale can be compared by eye. */
#include "segment_map.h"

#include <string.h>

#include "vramwise/units.h" /* vw_format_size */

/* A line: "  1.94 GiB  1.86 GiB idle  ####....", without the second part where it is narrow. */
#define SIZE_COLUMNS 11
#define IDLE_COLUMNS 16
#define GAP_COLUMNS 2
#define SMALLEST_WIDTH_FOR_IDLE 60
#define SHORTEST_BAR_CELLS 4 /* a shorter one says nothing */

static unsigned label_columns(unsigned width_columns)
{
    unsigned columns = SIZE_COLUMNS + GAP_COLUMNS;
    return width_columns >= SMALLEST_WIDTH_FOR_IDLE ? columns + IDLE_COLUMNS : columns;
}

static unsigned bar_columns(unsigned width_columns)
{
    unsigned label = label_columns(width_columns);
    return width_columns > label + 1 ? width_columns - label : 1;
}

/* ---- taking ---------------------------------------------------------------------------------- */

static uint64_t idle_bytes(const segment_map_row *row)
{
    return row->total_bytes - row->live_bytes;
}

/* Puts the segment among the rows, if it has more idle bytes than the last of them. */
static bool choose_segment(void *context, const vw_segment_info *segment)
{
    segment_map *map = context;
    const uint64_t idle = segment->total_bytes - segment->active_bytes;
    map->segment_count++;
    map->total_bytes += segment->total_bytes;
    map->live_bytes += segment->active_bytes;

    size_t place = map->row_count;
    while (place > 0 && idle_bytes(&map->rows[place - 1]) < idle)
        place--;
    if (place == SEGMENT_MAP_MOST_ROWS)
        return true;
    if (map->row_count < SEGMENT_MAP_MOST_ROWS)
        map->row_count++;
    /* Only the head of each row is filled yet: the cells come with the second walk. */
    for (size_t i = map->row_count - 1; i > place; i--) {
        map->rows[i].address = map->rows[i - 1].address;
        map->rows[i].total_bytes = map->rows[i - 1].total_bytes;
        map->rows[i].live_bytes = map->rows[i - 1].live_bytes;
    }
    map->rows[place].address = segment->address;
    map->rows[place].total_bytes = segment->total_bytes;
    map->rows[place].live_bytes = segment->active_bytes;
    return true;
}

static uint64_t cell_count(const segment_map *map, const segment_map_row *row)
{
    uint64_t count = (row->total_bytes + map->bytes_per_cell - 1) / map->bytes_per_cell;
    return count < SEGMENT_MAP_MOST_CELLS ? count : SEGMENT_MAP_MOST_CELLS;
}

/* Adds a live block to every cell it reaches into. */
static void fill_cells(const segment_map *map, segment_map_row *row, const vw_block_info *block)
{
    uint64_t at = block->address - row->address;
    const uint64_t end = at + block->size_bytes;
    while (at < end) {
        uint64_t cell = at / map->bytes_per_cell;
        uint64_t cell_end = (cell + 1) * map->bytes_per_cell;
        if (cell >= SEGMENT_MAP_MOST_CELLS)
            return;
        row->cells[cell] += (end < cell_end ? end : cell_end) - at;
        at = cell_end;
    }
}

static bool look_at_block(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    segment_map *map = context;
    if (block->state == VW_BLOCK_FREE) {
        map->idle_piece_count++;
        if (block->size_bytes > map->largest_idle_bytes)
            map->largest_idle_bytes = block->size_bytes;
        return true;
    }
    for (size_t i = 0; i < map->row_count; i++)
        if (map->rows[i].address == segment->address)
            fill_cells(map, &map->rows[i], block);
    return true;
}

vw_status segment_map_take(segment_map *map, vw_pool *pool, uint64_t bytes_per_cell,
                           unsigned width_columns)
{
    const vw_walker chooser = {.context = map, .segment = choose_segment};
    const vw_walker filler = {.context = map, .block = look_at_block};
    uint64_t longest_bytes = 1;

    memset(map, 0, sizeof *map);
    vw_status status = vw_pool_walk(pool, &chooser, false);
    if (status != VW_OK)
        return status;
    for (size_t i = 0; i < map->row_count; i++)
        if (map->rows[i].total_bytes > longest_bytes)
            longest_bytes = map->rows[i].total_bytes;
    if (bytes_per_cell == 0)
        bytes_per_cell = longest_bytes / bar_columns(width_columns) + 1;
    /* A scale that would need more cells than there are is made coarser. */
    if (longest_bytes / SEGMENT_MAP_MOST_CELLS >= bytes_per_cell)
        bytes_per_cell = longest_bytes / SEGMENT_MAP_MOST_CELLS + 1;
    map->bytes_per_cell = bytes_per_cell;
    return vw_pool_walk(pool, &filler, false);
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* A cell is live or idle if it is so but for an eighth at most; a pin in an idle stretch must show,
 * so any live byte at all makes it partly live. */
static memory_kind kind_of_cell(const segment_map *map, const segment_map_row *row, uint64_t cell)
{
    uint64_t left = row->total_bytes - cell * map->bytes_per_cell;
    uint64_t cell_bytes = left < map->bytes_per_cell ? left : map->bytes_per_cell;
    uint64_t live_bytes = row->cells[cell];
    if (live_bytes == 0)
        return MEMORY_IDLE;
    return cell_bytes - live_bytes <= cell_bytes / 8 ? MEMORY_LIVE : MEMORY_PARTLY;
}

static void draw_row(const segment_map *map, const segment_map_row *row, const memory_style *style,
                     FILE *to)
{
    const uint64_t cells = cell_count(map, row);
    const unsigned columns = bar_columns(style->width_columns);
    memory_kind last = MEMORY_NONE;
    char total[VW_SIZE_TEXT_BYTES], idle[VW_SIZE_TEXT_BYTES];

    for (uint64_t cell = 0; cell < cells; cell++) {
        if (cell == 0 && style->width_columns >= SMALLEST_WIDTH_FOR_IDLE)
            fprintf(to, "%*s %10s idle  ", SIZE_COLUMNS, vw_format_size(row->total_bytes, total),
                    vw_format_size(idle_bytes(row), idle));
        else if (cell == 0)
            fprintf(to, "%*s  ", SIZE_COLUMNS, vw_format_size(row->total_bytes, total));
        else if (cell % columns == 0)
            fprintf(to, "%*s", (int)label_columns(style->width_columns), "");
        memory_style_draw(style, kind_of_cell(map, row, cell), &last, to);
        if (cell + 1 == cells || (cell + 1) % columns == 0) {
            memory_style_end(style, &last, to);
            fputc('\n', to);
        }
    }
}

void segment_map_draw(const segment_map *map, const memory_style *style, FILE *to)
{
    size_t rest_count = map->segment_count;
    uint64_t rest_bytes = map->total_bytes;
    uint64_t rest_live_bytes = map->live_bytes;
    char rest[VW_SIZE_TEXT_BYTES], rest_idle[VW_SIZE_TEXT_BYTES];
    for (size_t i = 0; i < map->row_count; i++) {
        if (map->rows[i].total_bytes / map->bytes_per_cell < SHORTEST_BAR_CELLS)
            continue;
        draw_row(map, &map->rows[i], style, to);
        rest_count--;
        rest_bytes -= map->rows[i].total_bytes;
        rest_live_bytes -= map->rows[i].live_bytes;
    }
    if (rest_count == 0)
        return;
    fprintf(to, "... and %zu more segment%s%s", rest_count, rest_count > 1 ? "s" : "",
            style->width_columns >= SMALLEST_WIDTH_FOR_IDLE ? " " : "\n    ");
    fprintf(to, "of %s, %s idle\n", vw_format_size(rest_bytes, rest),
            vw_format_size(rest_bytes - rest_live_bytes, rest_idle));
}
