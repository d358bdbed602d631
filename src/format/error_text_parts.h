/* error_text_parts.h - what the files of the error scanner share.
 *
 * error_text.c scans; error_text_tally.c counts, error_text_repeats.c knows lines that repeat;
 * error_text_letters.c squeezes the text and error_text_words.c finds words in it;
 * error_text_region.c and error_text_prefix.c clean what is around them; error_text_kinds.c and its
 * two tables say whose message it is, error_text_mentions.c that it is none; error_text_clauses.c,
 * its table and error_text_numbers.c read what the message says. */
#ifndef VW_FORMAT_ERROR_TEXT_PARTS_H
#define VW_FORMAT_ERROR_TEXT_PARTS_H

#include "format/error_text.h"
#include "format/error_text_region.h"

/* ---- kinds ----------------------------------------------------------------------------------- */

enum {
    VW__RULE_AMBIGUOUS = 1 << 0,    /* could be something else */
    VW__RULE_NEEDS_SIZE = 1 << 1,   /* no report without the size that was asked for */
    VW__RULE_CERTAIN = 1 << 2,      /* nobody writes so in advice or in code */
    VW__RULE_CAPPED = 1 << 3,       /* a limit that was set, by its words */
    VW__RULE_SUMMARY = 1 << 4,      /* numbers in someone's own words */
    VW__RULE_CHECK_KILLED = 1 << 5, /* only where the line says nothing else */
    VW__RULE_CHECK_CODE = 1 << 6,   /* only with 137 or -9 behind it, or as a code of its own */
    VW__RULE_CHECK_ERROR = 1 << 7,  /* only where it reads like an error */
    VW__RULE_PART = 1 << 8          /* of a message whose beginning is lost: with two numbers */
};

/* At a word, beside another: such a kind. The rules of a word are tried in their order. */
typedef struct vw__error_rule {
    vw__word word;
    vw__word beside;      /* VW__WORD_COUNT: nothing more is asked */
    uint16_t back, ahead; /* letters from the word's place to where `beside` may begin */
    vw__error_kind kind;
    uint16_t flags;
    const char *wording;
} vw__error_rule;

extern const vw__error_rule vw__gpu_rules[];
extern const size_t vw__gpu_rule_count;
extern const vw__error_rule vw__host_rules[]; /* asked before the others */
extern const size_t vw__host_rule_count;

/* Where a message was recognised. */
typedef struct vw__error_place {
    size_t first; /* letters before it belong to an earlier message */
    size_t at;    /* the word that gave it away */
    size_t start; /* `at`, or the word beside it where that comes first */
    size_t end;   /* behind both words */
} vw__error_place;

/* The rule that fits `word` at place->at; NULL where none does. May move place->at on to the words
 * that say more, and sets place->start and place->end. */
const vw__error_rule *vw__error_rule_find(const vw__region *region, vw__word word,
                                          vw__error_place *place);

/* Where PyTorch's message begins on a later line than the letter before `at`, at `last` at the
 * latest; SIZE_MAX where it does not. */
size_t vw__error_next_head(const vw__region *region, size_t at, size_t last);

/* The rule's kind, or the one that it means here. */
vw__error_kind vw__error_rule_kind(const vw__region *region, const vw__error_rule *rule,
                                   const vw__error_place *place);

/* Is this a mention of an error of another kind: advice, code, documentation? */
bool vw__error_is_mention(const vw__region *region, size_t first, size_t at);

/* What a report without numbers looks like. */
typedef enum vw__error_shape {
    VW__SHAPE_NOTHING, /* source code, a comment, prose, a counter at zero, or it was got over */
    VW__SHAPE_BARE,    /* the words and no more: they may be a report */
    VW__SHAPE_ERROR
} vw__error_shape;

vw__error_shape vw__error_shape_of(const vw__region *region, const vw__error_rule *rule,
                                   const vw__error_place *place);

/* Does the place stand in a comment, or inside the text of a program? */
bool vw__error_is_in_code(const vw__region *region, size_t at);

/* ---- what it says ---------------------------------------------------------------------------- */

typedef struct vw__error_number {
    size_t first, end; /* letters, the unit's included */
    uint64_t digits;   /* as if there were no point */
    unsigned decimals; /* how many of them stand behind it */
    unsigned log2;     /* of the unit; 0 where there is none */
    bool has_unit;
    bool is_exact;    /* counted in bytes */
    bool is_too_long; /* digits past 2^64 */
    uint64_t bytes;   /* VW__UNKNOWN_BYTES where it is too large */
} vw__error_number;

/* The next number at `at` or behind it, before `end`. */
bool vw__error_number_next(const vw__region *region, size_t at, size_t end,
                           vw__error_number *number);

/* Its bytes, had it the unit 2^log2. */
uint64_t vw__error_number_in(const vw__error_number *number, unsigned log2);

void vw__error_report_init(vw__error_report *report);
bool vw__error_report_has_numbers(const vw__error_report *report);

/* Reads the numbers of the message at `place` into `report`, whose kind is known. Returns the
 * letter behind the message's last part. */
size_t vw__error_read_clauses(const vw__region *region, const vw__error_rule *rule,
                              const vw__error_place *place, vw__error_report *report);

#endif /* VW_FORMAT_ERROR_TEXT_PARTS_H */
