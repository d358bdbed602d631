/* error_text_clause_table.h - the phrases around the numbers of a message.
 *
 * A number is known by what stands before and behind it. One table for all programs: their phrases
 * do not contradict each other, and a message that was cut, elided or put together by hand still
 * says what it says. */
#ifndef HR_FORMAT_ERROR_TEXT_CLAUSE_TABLE_H
#define HR_FORMAT_ERROR_TEXT_CLAUSE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which number of a report it is. */
typedef enum hr__error_said {
    HR__SAID_TRIED,
    HR__SAID_TOTAL,
    HR__SAID_FREE,
    HR__SAID_ALLOCATED,
    HR__SAID_RESERVED,
    HR__SAID_UNALLOCATED,
    HR__SAID_PROCESS,
    HR__SAID_OTHER_PROCESS,
    HR__SAID_ALLOWED,
    HR__SAID_PRIVATE_POOL,
    HR__SAID_OTHER,
    HR__SAID_NEEDED,
    HR__SAID_AVAILABLE,
    HR__SAID_NONE /* a number that is known, and not kept */
} hr__error_said;

typedef struct hr__error_clause {
    const char *before, *behind; /* squeezed; "" = anything */
    uint8_t before_bytes, behind_bytes;
    uint8_t said;    /* hr__error_said */
    bool needs_unit; /* else a bare number means bytes */
} hr__error_clause;

/* Tried in their order: the first that fits counts. */
extern const hr__error_clause hr__error_clauses[];
extern const size_t hr__error_clause_count;

/* People retell messages in their own words ("22 GiB reserved against 12 GiB allocated"). Those
 * words are common ones. */
extern const hr__error_clause hr__loose_error_clauses[];
extern const size_t hr__loose_error_clause_count;

#endif /* HR_FORMAT_ERROR_TEXT_CLAUSE_TABLE_H */
