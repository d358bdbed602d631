/* error_text_clause_table.h - the phrases around the numbers of a message.
 *
 * A number is known by what stands before and behind it. One table for all programs: their phrases
 * do not contradict each other, and a message that was cut, elided or put together by hand still
 * says what it says. */
#ifndef VW_FORMAT_ERROR_TEXT_CLAUSE_TABLE_H
#define VW_FORMAT_ERROR_TEXT_CLAUSE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which number of a report it is. */
typedef enum vw__error_said {
    VW__SAID_TRIED,
    VW__SAID_TOTAL,
    VW__SAID_FREE,
    VW__SAID_ALLOCATED,
    VW__SAID_RESERVED,
    VW__SAID_UNALLOCATED,
    VW__SAID_PROCESS,
    VW__SAID_OTHER_PROCESS,
    VW__SAID_ALLOWED,
    VW__SAID_PRIVATE_POOL,
    VW__SAID_OTHER,
    VW__SAID_NEEDED,
    VW__SAID_AVAILABLE,
    VW__SAID_NONE /* a number that is known, and not kept */
} vw__error_said;

typedef struct vw__error_clause {
    const char *before, *behind; /* squeezed; "" = anything */
    uint8_t before_bytes, behind_bytes;
    uint8_t said;    /* vw__error_said */
    bool needs_unit; /* else a bare number means bytes */
} vw__error_clause;

/* Tried in their order: the first that fits counts. */
extern const vw__error_clause vw__error_clauses[];
extern const size_t vw__error_clause_count;

/* People retell messages in their own words ("22 GiB reserved against 12 GiB allocated"). Those
 * words are common ones. */
extern const vw__error_clause vw__loose_error_clauses[];
extern const size_t vw__loose_error_clause_count;

#endif /* VW_FORMAT_ERROR_TEXT_CLAUSE_TABLE_H */
