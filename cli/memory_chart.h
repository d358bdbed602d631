/* memory_chart.h - live and reserved memory over a run, as columns; several runs side by side. */
#ifndef VRAMWISE_CLI_MEMORY_CHART_H
#define VRAMWISE_CLI_MEMORY_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "memory_style.h"

/* One moment, or the most of a stretch of time. */
typedef struct memory_chart_point {
    uint64_t live_bytes;
    uint64_t reserved_bytes; /* >= live_bytes */
} memory_chart_point;

typedef struct memory_chart {
    const char *title; /* above it; cut to fit */
    const memory_chart_point *points;
    size_t point_count;
    size_t span;     /* how many points the width stands for: >= point_count, and not 0 */
    bool has_failed; /* marks the end of the last point */
} memory_chart;

/* Draws the charts, each as high as `top_bytes`: side by side where that leaves them wide enough,
 * otherwise one below the other. */
void memory_chart_draw(const memory_chart *charts, size_t chart_count, uint64_t top_bytes,
                       const memory_style *style, FILE *to);

#endif /* VRAMWISE_CLI_MEMORY_CHART_H */
