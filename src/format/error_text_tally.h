/* error_text_tally.h - which reports there were, and how many different ones.
 *
 * Messages repeat: tracebacks, loggers and every rank print them again. A report counts once for
 * the same kind, rank, device and numbers; one without numbers only where none of its kind and rank
 * was seen. What was seen is kept as hashes in a table of fixed size: past some thousands of
 * different reports one may count twice. */
#ifndef HR_FORMAT_ERROR_TEXT_TALLY_H
#define HR_FORMAT_ERROR_TEXT_TALLY_H

#include "format/error_text.h"

enum { HR__TALLY_SLOTS = 1 << 13, HR__TALLY_MOST_RANKS = 1 << 16 };

/* All zero is not yet a tally. */
typedef struct hr__error_tally {
    hr__error_report certain, ambiguous, warning, other; /* the first of each; NONE = none */
    bool other_is_vague; /* it says little more than that there was an error */
    uint64_t certain_count, ambiguous_count, certain_host_count, ambiguous_host_count;
    uint64_t rank_count;
    uint64_t seen[HR__TALLY_SLOTS]; /* 0 = empty */
    uint64_t ranks[HR__TALLY_MOST_RANKS / 64];
} hr__error_tally;

void hr__tally_init(hr__error_tally *tally);

/* The report of the tally that this one is to become, NULL where it is a later one. Where that is
 * taken already, this one says in full what it says without numbers: notebooks print the name of an
 * error above its traceback. */
hr__error_report *hr__tally_place(hr__error_tally *tally, const hr__error_report *report);

/* The same for an error that is not about memory. */
hr__error_report *hr__tally_place_other(hr__error_tally *tally, bool is_vague);

/* Counts it. `is_part`: it belongs to one that was counted. */
void hr__tally_count(hr__error_tally *tally, const hr__error_report *report, bool is_part);

/* Counts a certain report that was not read, by what its line says (never 0). Lines that were read
 * are remembered first. */
void hr__tally_remember(hr__error_tally *tally, uint64_t line_hash);
void hr__tally_count_again(hr__error_tally *tally, uint64_t line_hash, int rank, bool is_host);

/* `first` and the counts; the rest is left alone. */
void hr__tally_finish(const hr__error_tally *tally, hr__error_summary *summary);

#endif /* HR_FORMAT_ERROR_TEXT_TALLY_H */
