/* memory_line.h - memory over time in one line of text. */
#ifndef VRAMWISE_CLI_MEMORY_LINE_H
#define VRAMWISE_CLI_MEMORY_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { MEMORY_LINE_HEIGHTS = 8 };

/* The letter of a height from 0, nothing, to MEMORY_LINE_HEIGHTS, all of it. Static strings. */
const char *memory_line_letter(size_t height, bool has_utf8);

/* One character for each point, in eight heights up to `top_bytes`, above which nothing shows; a
 * point that is not 0 is never lower than the lowest of them. Blocks with `has_utf8`, else ASCII.
 * No end of line. */
void memory_line_draw(const uint64_t *points, size_t point_count, uint64_t top_bytes, bool has_utf8,
                      FILE *to);

#endif /* VRAMWISE_CLI_MEMORY_LINE_H */
