/* human_units.h - sizes as people write them.
 *
 * Writing follows PyTorch's format_size() to the letter, because our messages stand beside
 * PyTorch's and our reader of its messages is tested against our own. Reading is for options and
 * command lines. Both are free of the locale: a German desktop gets "1.50 GiB" too. */
#ifndef VW_BASE_HUMAN_UNITS_H
#define VW_BASE_HUMAN_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* The longest is "17179869184.00 GiB". */
#define VW__SIZE_TEXT_BYTES 24

/* Writes `size_bytes` into `text` and returns it:
 *
 *   up to 1024        "1024 bytes"
 *   up to 1024^2      "1024.00 KiB"
 *   up to 1024^3      "1024.00 MiB"
 *   above             "1.00 GiB", "81920.00 GiB"
 *
 * Each limit still belongs to the smaller unit. Two decimals, rounded as printf's "%.2f". */
char *vw__format_size(uint64_t size_bytes, char text[VW__SIZE_TEXT_BYTES]);

/* Reads "1000000", "512MiB", "24G", "1.5GiB": digits, perhaps a point and more digits, then a unit:
 * nothing or B for bytes; K, M, G or T, in either case, each alone or followed by i, B or iB, and
 * always a power of 1024 (GPU memory is sold that way, "80GB" being 80 GiB). A fraction needs a
 * unit above the byte, and what it leaves of a byte is cut off. The arithmetic is exact.
 *
 * false, with `*size_bytes` untouched: NULL or empty text, a sign, spaces, anything behind the
 * unit, or a size that does not fit 64 bits. */
bool vw__parse_size(const char *text, uint64_t *size_bytes);

#endif /* VW_BASE_HUMAN_UNITS_H */
