/* utf8.h - decodes UTF-8 from untrusted bytes.
 *
 * Names of files and functions come from recordings, which may hold any bytes. Writers of JSON or
 * of text for a terminal must know where characters end, and whether they are valid. */
#ifndef VW_BASE_UTF8_H
#define VW_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VW__UTF8_INVALID UINT32_MAX

/* Reads the character at `bytes`, of which `size_bytes` remain, into `*character` and returns its
 * length in bytes. A byte that begins no valid character (stray, cut short, overlong, half of a
 * surrogate pair, past U+10FFFF) is VW__UTF8_INVALID, with length 1. Returns 0 if nothing remains;
 * `*character` is then untouched. */
size_t vw__utf8_next(const char *bytes, size_t size_bytes, uint32_t *character);

/* Does the character steer what shows it, or hide in it? Controls (C0, DEL, C1), characters without
 * width, ends of lines and paragraphs, turns of direction, and tags, which spell ASCII that nobody
 * sees. Text from outside is never printed with one. VW__UTF8_INVALID does not count. */
bool vw__utf8_is_steering(uint32_t character);

#endif /* VW_BASE_UTF8_H */
