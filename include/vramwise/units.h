/* units.h - sizes and durations as people write them.
 *
 * For programs that read and print sizes as vramwise does. Independent of the locale. Safe from any
 * thread. */
#ifndef VRAMWISE_UNITS_H
#define VRAMWISE_UNITS_H

#include <stdint.h>

#include "vramwise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Room for the longest that vw_format_size() writes, its zero included. */
#define VW_SIZE_TEXT_BYTES 24

/* Reads "1000000", "512MiB", "24G", "1.5GiB": digits, perhaps a point and more digits, then a unit:
 * nothing or B for bytes; K, M, G or T, in either case, each alone or followed by i, B or iB, and
 * always a power of 1024 (GPU memory is sold that way: "80GB" is 80 GiB). A fraction needs a unit
 * above the byte; what it leaves of a byte is cut off.
 *
 * VW_ERR_INVALID_ARGUMENT  anything else, or more than 64 bits hold; `*size_bytes` is untouched */
VW_API VW_MUST_CHECK vw_status vw_parse_size(const char *text, uint64_t *size_bytes);

/* Sizes of memory below this are a number whose unit was forgotten. */
#define VW_LEAST_MEMORY_BYTES 1024

/* The same for an amount of memory that somebody typed, such as a card's: refuses 0, and less than
 * VW_LEAST_MEMORY_BYTES, as in "24" for "24GiB".
 *
 * VW_ERR_INVALID_ARGUMENT  `*size_bytes` is untouched */
VW_API VW_MUST_CHECK vw_status vw_parse_memory_size(const char *text, uint64_t *size_bytes);

/* Reads such a size, or a share of `whole_bytes` such as "5%" or "12.5%", up to "100%".
 *
 * VW_ERR_INVALID_ARGUMENT  neither, or more than 100%; `*size_bytes` is untouched */
VW_API VW_MUST_CHECK vw_status vw_parse_size_or_share(const char *text, uint64_t whole_bytes,
                                                      uint64_t *size_bytes);

/* Writes "512 B", "24.0 MiB", "935 MiB" or "15.00 GiB", and returns `text`: three digits in KiB and
 * MiB, two decimals from GiB up, and never 1024 of a unit. */
VW_API char *vw_format_size(uint64_t size_bytes, char text[VW_SIZE_TEXT_BYTES]);

/* Room for the longest that vw_format_duration() writes, its zero included. */
#define VW_DURATION_TEXT_BYTES 32

/* Writes "45 s", "2 min 10 s", "12 min", "2 h 10 min" or "3 d 4 h", and returns `text`: two units
 * at the most, the rest cut off. The second is left out where it is 0, and seconds from 10 minutes.
 */
VW_API char *vw_format_duration(uint64_t seconds, char text[VW_DURATION_TEXT_BYTES]);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_UNITS_H */
