/* error_text_internal.h - what the files of the error scanner share.
 *
 * error_text.c scans. It searches the text for words (error_text_words.h), cleans the region around
 * one that was found (error_text_region.c), asks whose message it is (error_text_rules.c) or
 * whether it is only a mention of one (error_text_mentions.c), reads what the message says
 * (error_text_clauses.c, and error_text_languages.c for translations) and counts it
 * (error_text_tally.c). */
#ifndef VW_PARSE_ERROR_TEXT_INTERNAL_H
#define VW_PARSE_ERROR_TEXT_INTERNAL_H

#include "parse/error_text.h"
#include "parse/error_text_words.h"
#include "parse/line.h"

/* ---- the region around a word ---------------------------------------------------------------- */

/* Some kilobytes around a word are cleaned of what logs and terminals put in: colours, escapes of
 * JSON and HTML, and the prefixes of lines. What is left is kept twice: as text to quote, and
 * squeezed, to look for words and numbers in. Every letter knows where it came from. */
#define VW__ERROR_TEXT_REGION_BYTES 7168
#define VW__ERROR_TEXT_REGION_MOST_LINES 512

typedef struct vw__error_text_region_line {
    uint16_t at; /* in clean */
    vw__line_rank rank;
} vw__error_text_region_line;

/* One per scan; filled again for every word that was found. */
typedef struct vw__error_text_region {
    char clean[VW__ERROR_TEXT_REGION_BYTES];
    uint16_t raw_of[VW__ERROR_TEXT_REGION_BYTES]; /* clean -> raw, from where the region begins */
    size_t clean_bytes;
    char letters[VW__ERROR_TEXT_REGION_BYTES];
    uint16_t clean_of[VW__ERROR_TEXT_REGION_BYTES]; /* letters -> clean */
    size_t letter_count;
    size_t raw_bytes;
    vw__error_text_region_line lines[VW__ERROR_TEXT_REGION_MOST_LINES];
    size_t line_count;
} vw__error_text_region;

/* Cleans `size_bytes`, at most VW__ERROR_TEXT_REGION_BYTES of them. */
void vw__error_text_region_fill(vw__error_text_region *region, const char *raw, size_t size_bytes,
                                bool is_line_start);

/* The first letter that came from raw byte `raw_at` or later; letter_count where none did. */
size_t vw__error_text_region_letter_at(const vw__error_text_region *region, size_t raw_at);

/* The raw byte behind the first `letter_count` letters. */
size_t vw__error_text_region_raw_end(const vw__error_text_region *region, size_t letter_count);

/* Does the squeezed `text` begin at a letter of first .. last? `*at` (or NULL) becomes the first
 * such place. */
bool vw__error_text_region_has(const vw__error_text_region *region, const char *text, size_t first,
                               size_t last, size_t *at);

/* Whether `text` stands at letter `at`; or right before it. */
bool vw__error_text_region_continues(const vw__error_text_region *region, size_t at,
                                     const char *text);
bool vw__error_text_region_precedes(const vw__error_text_region *region, size_t at,
                                    const char *text);
bool vw__error_text_region_continues_any(const vw__error_text_region *region, size_t at,
                                         const char *const *texts, size_t count);
bool vw__error_text_region_precedes_any(const vw__error_text_region *region, size_t at,
                                        const char *const *texts, size_t count);

/* The clean text of the letters, lines joined, into `out` (cut where a character ends). */
void vw__error_text_region_quote(const vw__error_text_region *region, size_t first, size_t end,
                                 char *out, size_t out_bytes);

/* Where the line that a letter stands in begins, in the clean text. */
size_t vw__error_text_region_line_start(const vw__error_text_region *region, size_t letter);

/* The rank that printed it; -1 where it does not say. */
int vw__error_text_region_rank(const vw__error_text_region *region, size_t letter);

typedef struct vw__error_text_number {
    size_t first, end; /* letters, the unit's included */
    uint64_t digits;   /* as if there were no point */
    unsigned decimals; /* how many of them stand behind it */
    unsigned log2;     /* of the unit; 0 where there is none */
    bool has_unit;
    bool is_exact;    /* counted in bytes */
    bool is_too_long; /* digits past 2^64 */
    uint64_t bytes;   /* VW__MODEL_UNKNOWN_BYTES where it is too large */
} vw__error_text_number;

/* The next number at `at` or behind it, before `end`. */
bool vw__error_text_number_next(const vw__error_text_region *region, size_t at, size_t end,
                                vw__error_text_number *number);

/* Its bytes if its unit were 2^log2. */
uint64_t vw__error_text_number_in(const vw__error_text_number *number, unsigned log2);

/* ---- whose message it is -------------------------------------------------------------------- */

enum {
    VW__ERROR_TEXT_RULE_AMBIGUOUS = 1 << 0,    /* could be something else */
    VW__ERROR_TEXT_RULE_NEEDS_SIZE = 1 << 1,   /* no report without the size that was asked for */
    VW__ERROR_TEXT_RULE_CERTAIN = 1 << 2,      /* nobody writes so in advice or in code */
    VW__ERROR_TEXT_RULE_CAPPED = 1 << 3,       /* a limit that was set, by its words */
    VW__ERROR_TEXT_RULE_SUMMARY = 1 << 4,      /* numbers in someone's own words */
    VW__ERROR_TEXT_RULE_CHECK_KILLED = 1 << 5, /* only where the line says nothing else */
    VW__ERROR_TEXT_RULE_CHECK_CODE =
        1 << 6, /* only with 137 or -9 behind it, or as a code of its own */
    VW__ERROR_TEXT_RULE_CHECK_ERROR = 1 << 7, /* only where it reads like an error */
    VW__ERROR_TEXT_RULE_PART = 1 << 8, /* of a message whose beginning is lost: with two numbers */
    VW__ERROR_TEXT_RULE_ANY_DEVICE = 1 << 9, /* PyTorch's words for any accelerator */
    VW__ERROR_TEXT_RULE_RETRIED = 1 << 10 /* PyTorch's log: it tries again, or an error follows */
};

/* A word, perhaps with another one near it, means this kind. The rules of a word are tried in
 * order. */
typedef struct vw__error_text_rule {
    const char *word;     /* squeezed */
    const char *beside;   /* squeezed; NULL: nothing more is asked */
    uint16_t back, ahead; /* letters from the word's place to where `beside` may begin */
    vw__error_text_kind kind;
    uint16_t flags;
    const char *wording;
} vw__error_text_rule;

extern const vw__error_text_rule vw__error_text_gpu_rules[];
extern const size_t vw__error_text_gpu_rule_count;
extern const vw__error_text_rule vw__error_text_host_rules[]; /* asked before the others */
extern const size_t vw__error_text_host_rule_count;

extern const vw__error_text_rule vw__error_text_translated_rules[]; /* asked first */
extern const size_t vw__error_text_translated_rule_count;

/* Adds the words of all rules to a search. */
void vw__error_text_rule_words(vw__error_text_word_search *search);

/* Where a message was recognised. */
typedef struct vw__error_text_place {
    size_t first; /* letters before it belong to an earlier message */
    size_t at;    /* the word that gave it away */
    size_t start; /* `at`, or the word beside it where that comes first */
    size_t end;   /* behind both words */
} vw__error_text_place;

/* The rule that fits `word` at place->at; NULL where none does. May move place->at on to the words
 * that say more, and sets place->start and place->end. */
const vw__error_text_rule *vw__error_text_rule_find(const vw__error_text_region *region,
                                                    const char *word, vw__error_text_place *place);

/* Where PyTorch's message begins on a later line than the letter before `at`, at `last` at the
 * latest; SIZE_MAX where it does not. */
size_t vw__error_text_next_head(const vw__error_text_region *region, size_t at, size_t last);

/* The kind of the rule, corrected by what stands around. */
vw__error_text_kind vw__error_text_rule_kind(const vw__error_text_region *region,
                                             const vw__error_text_rule *rule,
                                             const vw__error_text_place *place);

/* Is this a mention of an error of another kind: advice, code, documentation? */
bool vw__error_text_is_mention(const vw__error_text_region *region, size_t first, size_t at);

/* How much a report without numbers looks like one. */
typedef enum vw__error_text_shape {
    VW__ERROR_TEXT_SHAPE_NOTHING, /* source code, a comment, prose, a counter at zero, or the
                                   * program went on
                                   */
    VW__ERROR_TEXT_SHAPE_BARE,    /* the words and no more: they may be a report */
    VW__ERROR_TEXT_SHAPE_ERROR
} vw__error_text_shape;

vw__error_text_shape vw__error_text_shape_of(const vw__error_text_region *region,
                                             const vw__error_text_rule *rule,
                                             const vw__error_text_place *place);

/* Is the place inside a comment or a statement of source code? */
bool vw__error_text_is_in_code(const vw__error_text_region *region, size_t at);

/* Squeezed: marks a line of PyTorch's log (2.15) about addresses that could not be reserved. It
 * quotes numbers and settings, and is no part of a message. */
#define VW__ERROR_TEXT_ADDRESSES_TAG "[expandablesegmentva]"

/* ---- what it says ---------------------------------------------------------------------------- */

/* A number between these phrases, squeezed, is that field of a report. */
typedef struct vw__error_text_clause {
    const char *before, *behind; /* "" = anything */
    uint8_t before_bytes, behind_bytes;
    bool needs_unit; /* else a bare number means bytes */
    uint16_t field;  /* offset in vw__error_text_report; 0: the number is known, and not kept */
} vw__error_text_clause;

#define VW__ERROR_TEXT_CLAUSE(before, behind, needs_unit, name)                                    \
    {                                                                                              \
        before, behind, sizeof(before) - 1, sizeof(behind) - 1, needs_unit,                        \
            offsetof(vw__error_text_report, name##_bytes)                                          \
    }

/* ---- other languages: error_text_languages.c ---- */

extern const vw__error_text_clause vw__error_text_translated_clauses[];
extern const size_t vw__error_text_translated_clause_count;
extern const char *const vw__error_text_fillers[];
extern const size_t vw__error_text_filler_count;
extern const vw__line_unit vw__error_text_local_units[];
extern const size_t vw__error_text_local_unit_count;

void vw__error_text_report_init(vw__error_text_report *report);
bool vw__error_text_report_has_numbers(const vw__error_text_report *report);

/* Reads the numbers of the message at `place` into `report`, whose kind is known. Returns the
 * letter behind the message's last part. */
size_t vw__error_text_read_clauses(const vw__error_text_region *region,
                                   const vw__error_text_rule *rule,
                                   const vw__error_text_place *place,
                                   vw__error_text_report *report);

/* ---- how many there are ---------------------------------------------------------------------- */

/* Messages repeat: tracebacks, loggers and every rank print them again. A report counts once for
 * the same kind, rank, device and numbers; one without numbers only where none of its kind and rank
 * was seen. What was seen is kept as hashes in a table of fixed size: past some thousands of
 * different reports one may count twice. */
enum { VW__ERROR_TEXT_TALLY_SLOTS = 1 << 13, VW__ERROR_TEXT_TALLY_MOST_RANKS = 1 << 16 };

/* Lines that PyTorch logs right before an error, by the same rank. */
typedef struct vw__error_text_log_lines {
    uint64_t tried_bytes, total_bytes, free_bytes;
    int device;
    uint64_t retry_line; /* "failed with OOM on device": 0 = none */
    uint64_t retry_end;  /* byte of the text */
    int retry_rank;
    bool has_addresses; /* "[ExpandableSegmentVA]" */
    uint64_t addresses_end;
    int addresses_rank;
} vw__error_text_log_lines;

/* vw__error_text_tally_init() makes one. */
typedef struct vw__error_text_tally {
    /* The first of each; NONE = none. */
    vw__error_text_report certain, ambiguous, warning, other;
    vw__error_text_report retried;        /* in PyTorch's log */
    bool other_is_vague;                  /* it says little more than that there was an error */
    vw__error_text_log_lines log;         /* the last ones read */
    vw__error_text_log_lines certain_log; /* those that belong to `certain` */
    uint64_t certain_count, ambiguous_count, certain_host_count, ambiguous_host_count;
    uint64_t rank_count;
    uint64_t seen[VW__ERROR_TEXT_TALLY_SLOTS]; /* 0 = empty */
    uint64_t ranks[VW__ERROR_TEXT_TALLY_MOST_RANKS / 64];
} vw__error_text_tally;

void vw__error_text_tally_init(vw__error_text_tally *tally);

/* The place in the tally where this report goes; NULL where an earlier one stays. A report with
 * numbers replaces the same one without: notebooks print the name of an error above its traceback.
 */
vw__error_text_report *vw__error_text_tally_place(vw__error_text_tally *tally,
                                                  const vw__error_text_report *report);

/* A line of PyTorch's log that ends at byte `end` of the text: a request that it tries again; and
 * one about addresses that could not be reserved. */
void vw__error_text_tally_log_retry(vw__error_text_tally *tally,
                                    const vw__error_text_report *report, uint64_t end);
void vw__error_text_tally_log_addresses(vw__error_text_tally *tally, int rank, uint64_t end);

/* `certain` was set to a report at byte `at`: decides which log lines belong to it. */
void vw__error_text_tally_certain_at(vw__error_text_tally *tally, uint64_t at);

/* The same for an error that is not about memory. */
vw__error_text_report *vw__error_text_tally_place_other(vw__error_text_tally *tally, bool is_vague);

/* Counts it. `is_part`: it belongs to one that was counted. */
void vw__error_text_tally_count(vw__error_text_tally *tally, const vw__error_text_report *report,
                                bool is_part);

/* The second counts a certain report that was not read again, by the hash of its line (never 0);
 * the first notes lines that were read. */
void vw__error_text_tally_remember(vw__error_text_tally *tally, uint64_t line_hash);
void vw__error_text_tally_count_again(vw__error_text_tally *tally, uint64_t line_hash, int rank,
                                      bool is_host);

/* Sets `first` and the counts. */
void vw__error_text_tally_finish(const vw__error_text_tally *tally,
                                 vw__error_text_summary *summary);

/* ---- lines that repeat ----------------------------------------------------------------------- */

/* Logs repeat: one line per step, or an error that is printed until the disk is full. What a line
 * came to is remembered by its text without digits; once enough lines of a kind came to the same,
 * the next are no longer read. Ranks have patterns of their own. The table has a fixed size: a line
 * that was pushed out of it is read again. */
typedef enum vw__error_text_outcome {
    VW__ERROR_TEXT_OUTCOME_NOTHING, /* no report */
    VW__ERROR_TEXT_OUTCOME_WORDS,   /* a report that says nothing new */
    VW__ERROR_TEXT_OUTCOME_NUMBERS  /* a report by its numbers, which count one by one */
} vw__error_text_outcome;

typedef struct vw__error_text_pattern {
    uint64_t hash; /* 0 = none */
    uint32_t count;
    uint8_t outcome; /* vw__error_text_outcome */
    bool is_host;
} vw__error_text_pattern;

enum { VW__ERROR_TEXT_REPEATS_PATTERNS = 1 << 10, VW__ERROR_TEXT_REPEATS_MOST_BYTES = 640 };

typedef struct vw__error_text_repeats {
    vw__error_text_pattern patterns[VW__ERROR_TEXT_REPEATS_PATTERNS];
} vw__error_text_repeats;

/* A line as the table sees it. */
typedef struct vw__error_text_key {
    uint64_t pattern;    /* of the whole line, without digits */
    uint64_t said;       /* of what stands behind the word, digits included */
    size_t behind_bytes; /* from the word to the end of the line, or as far as was looked */
    int rank;
} vw__error_text_key;

/* The line `text` with the word at `at`; at most VW__ERROR_TEXT_REPEATS_MOST_BYTES of it. */
vw__error_text_key vw__error_text_key_of(const char *text, size_t size_bytes, size_t at,
                                         vw__error_text_word word, bool is_line_start);

/* The slot of its pattern: known if it has the key's hash. */
vw__error_text_pattern *vw__error_text_pattern_of(vw__error_text_repeats *repeats,
                                                  const vw__error_text_key *key);

/* Have enough lines of the pattern been read? */
bool vw__error_text_pattern_is_settled(const vw__error_text_pattern *pattern,
                                       const vw__error_text_key *key);

/* Notes the outcome of a line that was read. */
void vw__error_text_pattern_came_to(vw__error_text_pattern *pattern, const vw__error_text_key *key,
                                    vw__error_text_outcome outcome, bool is_host);

#endif /* VW_PARSE_ERROR_TEXT_INTERNAL_H */
