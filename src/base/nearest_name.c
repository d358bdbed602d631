/* nearest_name.c - the distance between two words, row by row (Wagner and Fischer). */
#include "base/nearest_name.h"

#include <stdint.h>
#include <string.h>

#include "base/ascii.h"

static size_t least_of(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return c < least ? c : least;
}

size_t vw__nearest_name_distance(const char *a, const char *b)
{
    size_t row[VW__NEAREST_NAME_LONGEST + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > VW__NEAREST_NAME_LONGEST || b_length > VW__NEAREST_NAME_LONGEST)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0]; /* of the row above, one to the left */
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t above = row[j];
            row[j] =
                least_of(above + 1, row[j - 1] + 1,
                         diagonal + (vw__ascii_to_lower(a[i - 1]) != vw__ascii_to_lower(b[j - 1])));
            diagonal = above;
        }
    }
    return row[b_length];
}

const char *vw__nearest_name(const char *word, const char *const *names, size_t name_count)
{
    const char *nearest = NULL;
    size_t nearest_distance = SIZE_MAX;
    for (size_t i = 0; i < name_count; i++) {
        size_t distance = vw__nearest_name_distance(word, names[i]);
        if (distance < nearest_distance) {
            nearest_distance = distance;
            nearest = names[i];
        }
    }
    if (nearest == NULL || word[0] == '\0' || nearest_distance * 2 > strlen(nearest))
        return NULL;
    return nearest;
}
