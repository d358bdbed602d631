/* error_text_tally.h - which reports there were, and how many different ones.
 *
 * Messages repeat: tracebacks, loggers and every rank print them again. A report counts once for
 * the same kind, rank, device and numbers; one without numbers only where none of its kind and rank
 * was seen. What was seen is kept as hashes in a table of fixed size: past some thousands of
 * different reports one may count twice. */
#ifndef VW_FORMAT_ERROR_TEXT_TALLY_H
#define VW_FORMAT_ERROR_TEXT_TALLY_H

#include "format/error_text.h"

enum { VW__TALLY_SLOTS = 1 << 13, VW__TALLY_MOST_RANKS = 1 << 16 };

/* All zero is not yet a tally. */
typedef struct vw__error_tally {
    vw__error_report certain, ambiguous, warning, other; /* the first of each; NONE = none */
    bool other_is_vague; /* it says little more than that there was an error */
    uint64_t certain_count, ambiguous_count, certain_host_count, ambiguous_host_count;
    uint64_t rank_count;
    uint64_t seen[VW__TALLY_SLOTS]; /* 0 = empty */
    uint64_t ranks[VW__TALLY_MOST_RANKS / 64];
} vw__error_tally;

void vw__tally_init(vw__error_tally *tally);

/* The report of the tally that this one is to become, NULL where it is a later one. Where that is
 * taken already, this one says in full what it says without numbers: notebooks print the name of an
 * error above its traceback. */
vw__error_report *vw__tally_place(vw__error_tally *tally, const vw__error_report *report);

/* The same for an error that is not about memory. */
vw__error_report *vw__tally_place_other(vw__error_tally *tally, bool is_vague);

/* Counts it. `is_part`: it belongs to one that was counted. */
void vw__tally_count(vw__error_tally *tally, const vw__error_report *report, bool is_part);

/* Counts a certain report that was not read, by what its line says (never 0). Lines that were read
 * are remembered first. */
void vw__tally_remember(vw__error_tally *tally, uint64_t line_hash);
void vw__tally_count_again(vw__error_tally *tally, uint64_t line_hash, int rank, bool is_host);

/* `first` and the counts; the rest is left alone. */
void vw__tally_finish(const vw__error_tally *tally, vw__error_summary *summary);

#endif /* VW_FORMAT_ERROR_TEXT_TALLY_H */
