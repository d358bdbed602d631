/* memory_line.c - see memory_line.h. */
#include "memory_line.h"

enum { HEIGHTS = MEMORY_LINE_HEIGHTS };

/* From nothing to the top. */
static const char *const blocks[HEIGHTS + 1] = {
    " ", "\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588",
};
static const char *const letters[HEIGHTS + 1] = {" ", "_", ".", "-", ":", "=", "+", "*", "#"};

const char *memory_line_letter(size_t height, bool has_utf8)
{
    return (has_utf8 ? blocks : letters)[height < HEIGHTS ? height : HEIGHTS];
}

static size_t height_of(uint64_t bytes, uint64_t top_bytes)
{
    if (bytes == 0)
        return 0;
    if (bytes >= top_bytes)
        return HEIGHTS;
    return 1 + (size_t)((double)bytes / (double)top_bytes * HEIGHTS);
}

void memory_line_draw(const uint64_t *points, size_t point_count, uint64_t top_bytes, bool has_utf8,
                      FILE *to)
{
    for (size_t i = 0; i < point_count; i++)
        fputs(memory_line_letter(height_of(points[i], top_bytes), has_utf8), to);
}
