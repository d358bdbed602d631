/* loose_name.h - names as people write them: "RTX 4090", "rtx-4090" and "rtx4090" are one. */
#ifndef VW_BASE_LOOSE_NAME_H
#define VW_BASE_LOOSE_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* Spaces, hyphens and underscores only separate. */
bool vw__loose_name_is_separator(char c);

/* Ignores case and separators. */
bool vw__loose_name_equals(const char *a, const char *b);
/* The same for the first `length` bytes of `a`. */
bool vw__loose_name_part_equals(const char *a, size_t length, const char *b);

#endif /* VW_BASE_LOOSE_NAME_H */
