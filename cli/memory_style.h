/* memory_style.h - how memory looks when it is drawn: one character per kind, and its colour.
 *
 * The characters tell the kinds apart on their own; colour is added where there is some. What draws
 * takes this as data and asks no terminal, so that it can be tested without one. */
#ifndef VRAMWISE_CLI_MEMORY_STYLE_H
#define VRAMWISE_CLI_MEMORY_STYLE_H

#include <stdio.h>

typedef enum memory_kind {
    MEMORY_NONE,   /* not reserved */
    MEMORY_LIVE,   /* handed out */
    MEMORY_PARTLY, /* some of it */
    MEMORY_IDLE,   /* reserved, not handed out */
    MEMORY_FAILED, /* where a request was refused */
    MEMORY_KINDS
} memory_kind;

typedef struct memory_style {
    const char *glyphs[MEMORY_KINDS]; /* one column each */
    const char *codes[MEMORY_KINDS];  /* what switches to the kind's colour; "" for none */
    const char *plain_code;           /* and back */
    const char *side;                 /* the lines of a chart: one column each */
    const char *corner;
    const char *base;
    unsigned width_columns;
} memory_style;

/* Draws one character. `*last` is the kind drawn before on this line: colour changes only where it
 * must. A line begins and ends with MEMORY_NONE. */
static inline void memory_style_draw(const memory_style *style, memory_kind kind, memory_kind *last,
                                     FILE *to)
{
    if (kind != *last)
        fprintf(to, "%s%s", style->plain_code, style->codes[kind]);
    *last = kind;
    fputs(style->glyphs[kind], to);
}

static inline void memory_style_end(const memory_style *style, memory_kind *last, FILE *to)
{
    if (*last != MEMORY_NONE)
        fputs(style->plain_code, to);
    *last = MEMORY_NONE;
}

#endif /* VRAMWISE_CLI_MEMORY_STYLE_H */
