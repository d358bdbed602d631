/* utf8.h - characters out of bytes that may be anything.
 *
 * Names of files and functions come out of recordings, and a recording may hold any bytes. Whoever
 * writes them on (JSON, a terminal) has to know where a character ends and whether it is one. */
#ifndef VW_BASE_UTF8_H
#define VW_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define VW__UTF8_INVALID UINT32_MAX

/* Reads the character at `bytes`, of which `size_bytes` remain, into `*character` and returns how
 * many bytes it takes. A byte that begins no character (a stray one, one cut short, an overlong
 * form, half of a surrogate pair, one past U+10FFFF) is VW__UTF8_INVALID and takes 1. 0 where
 * nothing remains, with `*character` untouched. */
size_t vw__utf8_next(const char *bytes, size_t size_bytes, uint32_t *character);

#endif /* VW_BASE_UTF8_H */
