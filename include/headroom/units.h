/* units.h - sizes as people write them.
 *
 * Programs that take a size on their command line and show one in a message should read and write
 * them as headroom does. Neither asks the locale. Safe from any thread. */
#ifndef HEADROOM_UNITS_H
#define HEADROOM_UNITS_H

#include <stdint.h>

#include "headroom/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Room for the longest that hr_format_size() writes, its zero included. */
#define HR_SIZE_TEXT_BYTES 24

/* Reads "1000000", "512MiB", "24G", "1.5GiB": digits, perhaps a point and more digits, then a unit:
 * nothing or B for bytes; K, M, G or T, in either case, each alone or followed by i, B or iB, and
 * always a power of 1024. A fraction needs a unit above the byte.
 *
 * HR_ERR_INVALID_ARGUMENT  anything else, or more than 64 bits hold; `*size_bytes` is untouched */
HR_API HR_MUST_CHECK hr_status hr_parse_size(const char *text, uint64_t *size_bytes);

/* Writes "1024 bytes", "512.00 MiB" or "1.50 GiB", as PyTorch does, and returns `text`. */
HR_API char *hr_format_size(uint64_t size_bytes, char text[HR_SIZE_TEXT_BYTES]);

/* Room for the longest that hr_format_duration() writes, its zero included. */
#define HR_DURATION_TEXT_BYTES 32

/* Writes "45 s", "12 min", "2 h 10 min" or "3 d 4 h": two units at the most, the rest cut off; and
 * returns `text`. */
HR_API char *hr_format_duration(uint64_t seconds, char text[HR_DURATION_TEXT_BYTES]);

#ifdef __cplusplus
}
#endif
#endif /* HEADROOM_UNITS_H */
