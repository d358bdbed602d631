/* step_log_shapes.h - which lines of a log need not be read.
 *
 * Reading a line closely is slow, and a log may be full of lines that have a hint of memory in them
 * and say nothing. So the *shapes* of such lines, numbers left out, are remembered, and a line of a
 * known shape is passed over. Where there is no end of new shapes, or far more points than are
 * kept, lines are *sampled*: one in two, four, eight is read, at random, so that no rhythm of the
 * log falls in step with ours. */
#ifndef VW_FORMAT_STEP_LOG_SHAPES_H
#define VW_FORMAT_STEP_LOG_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"

typedef struct vw__step_sampler {
    uint64_t sampling; /* one line in so many is read: a power of two; the owner may raise it */
    uint64_t dice;
    uint64_t vain_count; /* since the sampling last changed */
    uint64_t *shapes;    /* owned: of lines that said nothing; 0 = none */
} vw__step_sampler;

/* Every line is read, at first. VW_ERR_HOST_MEMORY: there is nothing to deinit. */
VW_MUST_CHECK vw_status vw__step_sampler_init(vw__step_sampler *out);
void vw__step_sampler_deinit(vw__step_sampler *sampler);

/* One more line or object that was read and said nothing. */
void vw__step_line_was_vain(vw__step_sampler *sampler);

/* Is the next line or object left out? Each call is another throw of the dice. */
bool vw__step_line_is_passed_over(vw__step_sampler *sampler);

/* What a line says, but for its digits; their number counts. Never 0. */
uint64_t vw__step_shape(const char *line, size_t size_bytes);

bool vw__step_shape_is_known(const vw__step_sampler *sampler, uint64_t shape);
void vw__step_shape_remember(vw__step_sampler *sampler, uint64_t shape); /* 0 does nothing */

#endif /* VW_FORMAT_STEP_LOG_SHAPES_H */
