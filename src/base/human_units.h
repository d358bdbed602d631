/* human_units.h - sizes, durations and shares as people read them: the one rule for all that
 * vramwise says.
 *
 * PyTorch's own sentences keep PyTorch's digits (pool/oom_text.c); so does the summary of a pool.
 * The page follows the same rule (viewer/src/look/units.ts): tests/data/numbers has the cases that
 * both must pass. Everything here is free of the locale: a German desktop gets "1.50 GiB" too. */
#ifndef VW_BASE_HUMAN_UNITS_H
#define VW_BASE_HUMAN_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#define VW__SIZE_TEXT_BYTES 24
#define VW__DURATION_TEXT_BYTES 32
#define VW__SHARE_TEXT_BYTES 24

/* Writes `size_bytes` into `text` and returns it:
 *
 *   bytes             "512 B"
 *   KiB, MiB          three digits: "1.50 KiB", "24.0 MiB", "935 MiB"
 *   GiB and above     two decimals: "15.00 GiB", "139.80 GiB", "1.50 TiB"
 *
 * A unit begins at 1 of it, after rounding: never 1024 of the one below. In GiB the digits are
 * those of PyTorch's messages, so that a number quoted from one can be found in it again, and that
 * the last hundreds of MiB of a large card can be told apart. */
char *vw__format_size(uint64_t size_bytes, char text[VW__SIZE_TEXT_BYTES]);

/* "12.3 ms", "45.0 s": three digits below a minute; then as vw_format_duration(): "2 min 10 s". */
char *vw__format_duration(uint64_t duration_ns, char text[VW__DURATION_TEXT_BYTES]);

/* "0.8 %", "45 %", "-1.2 %" of 0.008, 0.45, -0.012: one decimal below 10 %. What is less than half
 * of the last digit, and not 0, is "<0.1 %"; what is no number "?". */
char *vw__format_share(double share, char text[VW__SHARE_TEXT_BYTES]);

/* Reads "1000000", "512MiB", "24G", "1.5GiB": digits, perhaps a point and more digits, then a unit:
 * nothing or B for bytes; K, M, G or T, in either case, each alone or followed by i, B or iB, and
 * always a power of 1024 (GPU memory is sold that way, "80GB" being 80 GiB). A fraction needs a
 * unit above the byte, and what it leaves of a byte is cut off. The arithmetic is exact.
 *
 * false, with `*size_bytes` untouched: NULL or empty text, a sign, spaces, anything behind the
 * unit, or a size that does not fit 64 bits. */
bool vw__parse_size(const char *text, uint64_t *size_bytes);

#endif /* VW_BASE_HUMAN_UNITS_H */
