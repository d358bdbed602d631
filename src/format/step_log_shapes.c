/* step_log_shapes.c - the shapes of lines, and the dice.
 *
 * A shape is a hash of the line with every digit made a 0. It is made of every line that is looked
 * at, before anything else is asked of it, and so takes eight bytes at a time. The table has one
 * slot for a hash and no chains: a line whose shape was pushed out is read once more. */
#include "format/step_log_shapes.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

enum {
    SHAPE_SLOTS = 4096, /* a power of two */
    MOST_VAIN = 4096    /* lines or objects read in vain, until one in two is left out */
};

/* ---- life ------------------------------------------------------------------------------------ */

vw_status vw__step_sampler_init(vw__step_sampler *out)
{
    uint64_t *shapes = vw__host_alloc_zeroed(SHAPE_SLOTS, sizeof *shapes);
    if (shapes == NULL)
        return vw__fail_host_memory(SHAPE_SLOTS * sizeof *shapes, "the scan of a step log");
    *out = (vw__step_sampler){.sampling = 1, .shapes = shapes};
    return VW_OK;
}

void vw__step_sampler_deinit(vw__step_sampler *sampler)
{
    vw__host_free(sampler->shapes);
    sampler->shapes = NULL;
}

/* ---- sampling -------------------------------------------------------------------------------- */

void vw__step_line_was_vain(vw__step_sampler *sampler)
{
    if (++sampler->vain_count < MOST_VAIN)
        return;
    sampler->vain_count = 0;
    sampler->sampling *= sampler->sampling < UINT64_C(1) << 30 ? 2 : 1;
}

/* A generator of 64 bits is enough, and the same for every reader. */
bool vw__step_line_is_passed_over(vw__step_sampler *sampler)
{
    if (sampler->sampling == 1)
        return false;
    sampler->dice = sampler->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((sampler->dice >> 33) & (sampler->sampling - 1)) != 0;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Eight bytes with every digit made a 0. */
static uint64_t without_digits(uint64_t bytes)
{
    const uint64_t low = UINT64_C(0x0101010101010101), high = low << 7, zeros = low * '0';
    uint64_t folded = bytes ^ zeros; /* digits are below ten */
    uint64_t is_no_digit = (folded | ((folded & ~high) + low * (128 - 10))) & high;
    uint64_t digits = ((~is_no_digit & high) >> 7) * 255;
    return (bytes & ~digits) | (zeros & digits);
}

uint64_t vw__step_shape(const char *line, size_t size)
{
    uint64_t shape = size, bytes;
    for (; size != 0;) {
        size_t taken = size < sizeof bytes ? size : sizeof bytes;
        bytes = 0;
        if (taken == sizeof bytes)
            memcpy(&bytes, line, sizeof bytes);
        else
            memcpy(&bytes, line, taken);
        shape = (shape ^ without_digits(bytes)) * UINT64_C(0x9E3779B97F4A7C15);
        shape ^= shape >> 32;
        line += taken;
        size -= taken;
    }
    return shape != 0 ? shape : 1;
}

bool vw__step_shape_is_known(const vw__step_sampler *sampler, uint64_t shape)
{
    return sampler->shapes[shape % SHAPE_SLOTS] == shape;
}

void vw__step_shape_remember(vw__step_sampler *sampler, uint64_t shape)
{
    if (shape != 0)
        sampler->shapes[shape % SHAPE_SLOTS] = shape;
}
