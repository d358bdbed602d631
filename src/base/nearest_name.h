/* nearest_name.h - what was meant by a word that is not known. */
#ifndef VW_BASE_NEAREST_NAME_H
#define VW_BASE_NEAREST_NAME_H

#include <stddef.h>

/* Words longer than this are nobody's typing mistake. */
#define VW__NEAREST_LONGEST_WORD 31

/* How many letters must be changed, added or dropped to make one of the other; SIZE_MAX where one
 * is too long. Capitals count as small letters. */
size_t vw__edit_distance(const char *a, const char *b);

/* The name nearest to `word`, or NULL if none is near enough: half the letters wrong is another
 * word. */
const char *vw__nearest_name(const char *word, const char *const *names, size_t name_count);

#endif /* VW_BASE_NEAREST_NAME_H */
