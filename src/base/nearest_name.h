/* nearest_name.h - suggests a known name for a mistyped one. */
#ifndef VW_BASE_NEAREST_NAME_H
#define VW_BASE_NEAREST_NAME_H

#include <stddef.h>

/* Longer words get no suggestion. */
#define VW__NEAREST_NAME_LONGEST 31

/* How many letters must be changed, added or dropped to turn one word into the other; SIZE_MAX if
 * one is too long. Ignores case. */
size_t vw__nearest_name_distance(const char *a, const char *b);

/* The name nearest to `word`, or NULL if more than half of its letters would have to change. */
const char *vw__nearest_name(const char *word, const char *const *names, size_t name_count);

#endif /* VW_BASE_NEAREST_NAME_H */
