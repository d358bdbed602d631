/* report_plan_bar.c - the peak as one bar.
 *
 * Without colour each part has its own letter, so that a bar in a log shows the same as one on a
 * terminal. */
#include <string.h>

#include "analysis/attribution.h" /* VW__CATEGORY_NAME_WEIGHTS */
#include "base/checked_math.h"    /* vw__max_u64, vw__min_u64 */
#include "report/report_plan.h"

enum { INDENT = 2, WIDEST_BAR = 98, NAME_COLUMNS = 13, SIZE_COLUMNS = 10, SHARE_COLUMNS = 8 };

#define PAGED "paged state" /* unified memory, beside PyTorch's */

typedef struct bar_look {
    const char *name;
    const char *letter;
    const char *colour;
} bar_look;

static const bar_look looks[] = {
    {VW__CATEGORY_NAME_WEIGHTS, "W", "\033[34m"},
    {VW__CATEGORY_NAME_GRADIENTS, "G", "\033[36m"},
    {VW__CATEGORY_NAME_OPTIMIZER, "O", "\033[35m"},
    {VW__CATEGORY_NAME_ACTIVATIONS, "A", "\033[33m"},
    {VW__CATEGORY_NAME_LOSS, "L", "\033[31m"},
    {VW__CATEGORY_NAME_BACKWARD, "B", "\033[91m"},
    {VW__CATEGORY_NAME_WORKSPACE, "K", "\033[90m"},
    {VW__CATEGORY_NAME_DATA, "D", "\033[32m"},
    {VW__CATEGORY_NAME_ROUNDING, "U", "\033[90m"},
    {"context", "C", "\033[37m"},
    {PAGED, "P", "\033[95m"},
    {"reserve", "R", "\033[94m"},
};

static bar_look look_of(const char *name)
{
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++)
        if (strcmp(looks[i].name, name) == 0)
            return looks[i];
    return (bar_look){name, "#", "\033[39m"};
}

static bool has_blocks(const vw__report *out)
{
    return out->form.has_colour && out->form.has_utf8;
}

static const char *glyph_of(const vw__report *out, const bar_look *look)
{
    return has_blocks(out) ? "\xE2\x96\x88" : look->letter; /* a full block */
}

/* `count` times the part's glyph, in its colour. */
static void draw(vw__report *out, const char *name, uint64_t count)
{
    const bar_look look = look_of(name);
    if (count > 0 && out->form.has_colour)
        vw__append_text(&out->buffer, look.colour);
    for (uint64_t i = 0; i < count; i++)
        vw__append_text(&out->buffer, glyph_of(out, &look));
    if (count > 0 && out->form.has_colour)
        vw__append_text(&out->buffer, "\033[0m");
}

/* ---- the bar --------------------------------------------------------------------------------- */

typedef struct bar_scale {
    uint64_t top_bytes; /* the whole bar */
    uint64_t columns;
} bar_scale;

static bar_scale scale_of(const vw__report *out, const vw_plan *plan)
{
    uint64_t columns = out->form.width_columns - INDENT;
    return (bar_scale){.top_bytes = vw__max_u64(
                           1, vw__max_u64(plan->peak_device_bytes, plan->settings.card_bytes)),
                       .columns = vw__min_u64(columns, WIDEST_BAR)};
}

/* The column at which `bytes` end. */
static uint64_t column_of(const bar_scale *scale, uint64_t bytes)
{
    double share = (double)bytes / (double)scale->top_bytes;
    return vw__min_u64(scale->columns, (uint64_t)(share * (double)scale->columns + 0.5));
}

static void draw_up_to(vw__report *out, const bar_scale *scale, const char *name, uint64_t bytes,
                       uint64_t *drawn)
{
    uint64_t column = column_of(scale, bytes);
    if (column > *drawn)
        draw(out, name, column - *drawn);
    *drawn = vw__max_u64(*drawn, column);
}

static void draw_bar(vw__report *out, const vw_plan *plan)
{
    const bar_scale scale = scale_of(out, plan);
    uint64_t bytes = 0, drawn = 0;
    vw__report_append_spaces(&out->buffer, INDENT);
    for (size_t i = 0; i < plan->part_count; i++) {
        bytes += plan->parts[i].bytes;
        draw_up_to(out, &scale, plan->parts[i].name, bytes, &drawn);
    }
    bytes += plan->context_bytes;
    draw_up_to(out, &scale, "context", bytes, &drawn);
    bytes += plan->resident_bytes;
    draw_up_to(out, &scale, PAGED, bytes, &drawn);
    draw_up_to(out, &scale, "reserve", plan->peak_device_bytes, &drawn);
    for (; drawn < scale.columns; drawn++)
        vw__append_text(&out->buffer, ".");
    vw__append_text(&out->buffer, "\n");
}

/* Where the card ends, below a bar that is longer. */
static void mark_card(vw__report *out, const vw_plan *plan)
{
    const bar_scale scale = scale_of(out, plan);
    const vw__report_text size = vw__report_size(plan->settings.card_bytes);
    vw__byte_buffer line;
    if (!plan->is_card_known || plan->peak_device_bytes <= plan->settings.card_bytes)
        return;
    uint64_t column = column_of(&scale, plan->settings.card_bytes);
    vw__byte_buffer_init(&line);
    vw__append_format(&line, "the card: %s ", size.text);
    if (column < vw__byte_buffer_size(&line)) { /* no room on the left */
        vw__byte_buffer_clear(&line);
        vw__report_append_spaces(&line, (size_t)(column > 0 ? column - 1 : 0));
        vw__append_format(&line, "^ the card: %s", size.text);
    } else {
        size_t text = vw__byte_buffer_size(&line);
        vw__byte_buffer_clear(&line);
        vw__report_append_spaces(&line, (size_t)column - text);
        vw__append_format(&line, "the card: %s ^", size.text);
    }
    vw__report_append_spaces(&out->buffer, INDENT - 1);
    vw__append_format(&out->buffer, "%s\n", vw__byte_buffer_text(&line));
    vw__byte_buffer_deinit(&line);
}

/* ---- what is what ---------------------------------------------------------------------------- */

static void append_to_the_right(vw__byte_buffer *buffer, const char *text, size_t columns)
{
    size_t length = strlen(text);
    vw__report_append_spaces(buffer, length < columns ? columns - length : 1);
    vw__append_text(buffer, text);
}

static void say_part(vw__report *out, const char *name, uint64_t bytes, uint64_t whole_bytes)
{
    if (bytes == 0)
        return;
    const double share = (double)bytes / (double)vw__max_u64(1, whole_bytes);
    vw__report_append_spaces(&out->buffer, INDENT);
    draw(out, name, 1);
    vw__append_format(&out->buffer, " %-*s", NAME_COLUMNS, name);
    append_to_the_right(&out->buffer, vw__report_size(bytes).text, SIZE_COLUMNS);
    append_to_the_right(&out->buffer, vw__report_share(share).text, SHARE_COLUMNS);
    vw__append_text(&out->buffer, "\n");
}

void vw__report_plan_bar(vw__report *out, const vw_plan *plan)
{
    const uint64_t whole_bytes = plan->peak_device_bytes;
    uint64_t bytes = plan->context_bytes + plan->resident_bytes;
    draw_bar(out, plan);
    mark_card(out, plan);
    for (size_t i = 0; i < plan->part_count; i++) {
        say_part(out, plan->parts[i].name, plan->parts[i].bytes, whole_bytes);
        bytes += plan->parts[i].bytes;
    }
    say_part(out, "context", plan->context_bytes, whole_bytes);
    say_part(out, PAGED, plan->resident_bytes, whole_bytes);
    say_part(out, "reserve", whole_bytes > bytes ? whole_bytes - bytes : 0, whole_bytes);
}
