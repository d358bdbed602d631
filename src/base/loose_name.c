/* loose_name.c - compares names by their letters, digits and dots. */
#include "base/loose_name.h"

#include <string.h>

#include "base/ascii.h"

bool vw__loose_name_is_separator(char c)
{
    return c == ' ' || c == '-' || c == '_';
}

bool vw__loose_name_part_equals(const char *a, size_t length, const char *b)
{
    size_t i = 0;
    for (;;) {
        while (i < length && vw__loose_name_is_separator(a[i]))
            i++;
        while (vw__loose_name_is_separator(*b))
            b++;
        if (i == length || *b == '\0')
            return i == length && *b == '\0';
        if (vw__ascii_to_lower(a[i++]) != vw__ascii_to_lower(*b++))
            return false;
    }
}

bool vw__loose_name_equals(const char *a, const char *b)
{
    return vw__loose_name_part_equals(a, strlen(a), b);
}
