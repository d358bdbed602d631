/* stream_margin.h - how much of a device a schedule of moves may fill. */
#ifndef VW_POOL_STREAM_MARGIN_H
#define VW_POOL_STREAM_MARGIN_H

#include <stdint.h>

/* Part of the device is kept out of the reckoning: steps differ a little, and memory is handed out
 * in pieces. */
static inline uint64_t vw__stream_margin_room(uint64_t limit_bytes)
{
    return limit_bytes - limit_bytes / 16;
}

#endif
