/* ascii.h - classes of ASCII characters, and of words made of them.
 *
 * isdigit() and its kin ask the locale, and want an unsigned char. Bytes above 127 belong to no
 * class here. */
#ifndef VW_BASE_ASCII_H
#define VW_BASE_ASCII_H

#include <stdbool.h>
#include <string.h>

static inline bool vw__ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool vw__ascii_is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static inline bool vw__ascii_is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static inline bool vw__ascii_is_letter(char c)
{
    return vw__ascii_is_lower((char)(c | 0x20));
}

/* A byte of a name in a program: a letter, a digit or an underscore. */
static inline bool vw__ascii_is_name(char c)
{
    return vw__ascii_is_letter(c) || vw__ascii_is_digit(c) || c == '_';
}

/* A space or a tab. */
static inline bool vw__ascii_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline char vw__ascii_to_lower(char c)
{
    return vw__ascii_is_upper(c) ? (char)(c | 0x20) : c;
}

/* 0 to 15; -1 where it is not a hexadecimal digit. */
static inline int vw__ascii_hex_value(char c)
{
    if (vw__ascii_is_digit(c))
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* True if a shell reads `text` as one word, as it stands. */
static inline bool vw__ascii_is_shell_word(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=.,/:@%";
    return text[0] != '\0' && text[strspn(text, plain)] == '\0';
}

#endif /* VW_BASE_ASCII_H */
