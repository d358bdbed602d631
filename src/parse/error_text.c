/* error_text.c - one pass over a text of any length.
 *
 * Bytes are collected in a buffer. What is in it is squeezed (error_text_words.h) and searched for
 * the few dozen words that give a report away; ordinary logs hardly have any, and this search is
 * all they cost. Around a word that was found, a region is cleaned and read in full: which kind of
 * message it is, and what it says. The reading goes on behind the message, so that no text, not
 * even one that consists of errors, is read more than a few times.
 *
 *   | behind us:         | to be searched now | not yet: a message that begins  |
 *   | kept to look back  |                    | before the limit may reach here |
 *   0                 searched              limit                          filled
 */
#include "parse/error_text.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "parse/error_text_internal.h"

enum {
    BUFFER_BYTES = VW__ERROR_TEXT_LETTERS_BYTES,
    LOOK_BACK_BYTES = 2 << 10,
    LOOK_AHEAD_BYTES = 8 << 10, /* behind the limit, where more is to come */
    REGION_BACK_BYTES = 1 << 10,
    REGION_AHEAD_BYTES = 1 << 10, /* and more where a message needs it */
    REGION_MOST_AHEAD_BYTES = VW__ERROR_TEXT_REGION_BYTES - REGION_BACK_BYTES,
    LAST_WORD_BYTES = 1 << 10, /* what the longest word may stretch over, blanks included */
    SAMPLE_BYTES = 4 << 10,    /* of each buffer, to tell text from other things */
    READ_SLOTS = 1 << 10,
    SAME_TEXT_BYTES = 640, /* behind a word: a text that was read need not be read again */
    MOST_FRUITLESS = 512,  /* readings of one buffer; then only the plainest words are read */
    FEW_FRUITLESS = 16,    /* the same, once there were so many readings: */
    MOST_READINGS = 8 << 10,
    NEW_PARTS_BYTES = 2 << 10, /* parts of a message this close to the last belong to it */
    NEW_WORDS_BYTES = 300,     /* and so do words without numbers, if the same rank has them */
    FOLLOWING_BYTES = 2 << 10  /* a traceback this close behind a message belongs to it */
};

static const char traceback_head[] = "traceback(mostrecent";

static const char expandable[] = "expandablesegment"; /* a setting, and no error */

/* A text around a word that was read. */
typedef struct read_text {
    uint64_t hash;           /* 0 = none */
    uint64_t consumed_bytes; /* behind the word's beginning; 0: it was no report */
} read_text;

struct vw__error_text_scan {
    char raw[BUFFER_BYTES];
    vw__error_text_letters letters; /* of what is searched now */
    size_t filled;                  /* bytes in raw */
    size_t searched;                /* of them */
    size_t consumed;                /* of them: behind the last message */
    size_t counted;                 /* of them: line ends counted into line_count */
    bool is_after_report; /* a message ended at last_end, in this buffer or the one before */
    uint64_t last_end;    /* of the whole text */
    int last_rank;
    bool last_is_host;
    uint64_t base;       /* bytes before raw */
    uint64_t line_count; /* line ends up to `counted` */

    vw__error_text_word_search words;
    vw__error_text_region region;
    read_text read[READ_SLOTS];
    vw__error_text_repeats repeats;
    size_t fruitless_count; /* readings of this buffer that found no report */
    uint64_t reading_count; /* of the whole text */

    vw__error_text_tally tally;
    bool says_expandable;

    vw__traceback_scan tracebacks;
    size_t traced;                   /* bytes in raw: frames before it were read */
    vw__error_text_report *untraced; /* of the tally: kept without a traceback; NULL */
    bool is_followed;                /* the open traceback follows that one */

    uint64_t sampled_bytes, control_count, zero_counts[2];
};

/* ---- names ----------------------------------------------------------------------------------- */

const char *vw__error_text_kind_name(vw__error_text_kind kind)
{
    static const char *const names[] = {
#define KIND_NAME(upper, text) text,
        VW__ERROR_TEXT_KIND_LIST(KIND_NAME)
#undef KIND_NAME
    };
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

bool vw__error_text_kind_is_host(vw__error_text_kind kind)
{
    return kind >= VW__ERROR_TEXT_HOST_ALLOCATOR && kind <= VW__ERROR_TEXT_HOST_PINNED;
}

/* ---- one message ----------------------------------------------------------------------------- */

static void count_lines(vw__error_text_scan *scan, size_t end)
{
    while (scan->counted < end) {
        const char *line_end = memchr(scan->raw + scan->counted, '\n', end - scan->counted);
        if (line_end == NULL)
            break;
        scan->line_count++;
        scan->counted = (size_t)(line_end - scan->raw) + 1;
    }
    scan->counted = end > scan->counted ? end : scan->counted;
}

/* The line of a byte that is at most a region before what was counted. */
static uint64_t line_of(vw__error_text_scan *scan, size_t raw_at)
{
    uint64_t back = 0;
    count_lines(scan, raw_at);
    for (size_t i = raw_at; i < scan->counted; i++)
        back += scan->raw[i] == '\n';
    return scan->line_count - back + 1;
}

/* Fills the region around raw byte `at` and returns where it begins. Of what belongs to earlier
 * messages nothing is needed but the beginning of the line. */
static size_t fill_region(vw__error_text_scan *scan, size_t at, size_t ahead_bytes)
{
    size_t first = at > REGION_BACK_BYTES ? at - REGION_BACK_BYTES : 0;
    if (first < scan->consumed) {
        const char *line_end = memrchr(scan->raw + first, '\n', scan->consumed - first);
        first = line_end != NULL ? (size_t)(line_end - scan->raw) + 1 : first;
    }
    size_t end = scan->filled - at > ahead_bytes ? at + ahead_bytes : scan->filled;
    bool is_line_start =
        (first == 0 && scan->base == 0) || (first > 0 && scan->raw[first - 1] == '\n');
    if (!is_line_start) {
        const char *line_end = memchr(scan->raw + first, '\n', at - first);
        if (line_end != NULL) {
            first = (size_t)(line_end - scan->raw) + 1;
            is_line_start = true;
        }
    }
    vw__error_text_region_fill(&scan->region, scan->raw + first, end - first, is_line_start);
    return first;
}

/* The end of the line in which the message's last part stands: what else it says is its own. But a
 * line may hold several messages. */
static size_t line_end_behind(const vw__error_text_region *region, size_t end)
{
    enum { MOST_BEHIND = 400 };
    size_t limit =
        region->letter_count - end > MOST_BEHIND ? end + MOST_BEHIND : region->letter_count;
    size_t next;
    if (vw__error_text_region_has(region, "triedtoallocate", end, limit, &next)) {
        limit = next;
        if (vw__error_text_region_has(region, "outofmemory", end, limit, &next))
            limit = next;
    }
    while (end < limit &&
           memchr(region->clean + region->clean_of[end - 1], '\n',
                  (size_t)(region->clean_of[end] - region->clean_of[end - 1])) == NULL)
        end++;
    return end;
}

/* From the line in which it begins. */
static void quote(const vw__error_text_region *region, const vw__error_text_place *place,
                  size_t end, vw__error_text_report *report)
{
    enum { MOST_BEFORE = 120 };
    size_t first = place->start, line = vw__error_text_region_line_start(region, place->start);
    while (first > place->first && region->clean_of[first - 1] >= line &&
           place->start - first < MOST_BEFORE)
        first--;
    vw__error_text_region_quote(region, first, end, report->excerpt, sizeof report->excerpt);
}

static int rank_of(const vw__error_text_region *region, const vw__error_text_place *place)
{
    int rank = vw__error_text_region_rank(region, place->start);
    return rank >= 0 ? rank : vw__error_text_region_rank(region, place->at);
}

static size_t state_number_count(const vw__error_text_report *report)
{
    return (size_t)(report->total_bytes != VW__MODEL_UNKNOWN_BYTES) +
           (report->free_bytes != VW__MODEL_UNKNOWN_BYTES) +
           (report->allocated_bytes != VW__MODEL_UNKNOWN_BYTES) +
           (report->reserved_bytes != VW__MODEL_UNKNOWN_BYTES) +
           (report->unallocated_bytes != VW__MODEL_UNKNOWN_BYTES);
}

/* Is it a report, now that its numbers are known? Bare words make it an ambiguous one. */
static bool is_report(const vw__error_text_region *region, const vw__error_text_rule *rule,
                      const vw__error_text_place *place, vw__error_text_report *report)
{
    if (report->kind == VW__ERROR_TEXT_NOT_OOM)
        return (rule->flags & VW__ERROR_TEXT_RULE_CHECK_ERROR) == 0 ||
               !vw__error_text_is_mention(region, place->first, place->at);
    if ((rule->flags & VW__ERROR_TEXT_RULE_PART) != 0 && state_number_count(report) < 2)
        return false;
    if ((rule->flags & VW__ERROR_TEXT_RULE_NEEDS_SIZE) != 0 &&
        report->tried_bytes == VW__MODEL_UNKNOWN_BYTES)
        return false;
    if ((rule->flags & VW__ERROR_TEXT_RULE_SUMMARY) != 0 &&
        report->tried_bytes == VW__MODEL_UNKNOWN_BYTES &&
        (report->reserved_bytes == VW__MODEL_UNKNOWN_BYTES ||
         report->allocated_bytes == VW__MODEL_UNKNOWN_BYTES))
        return false;
    if (vw__error_text_report_has_numbers(report))
        return (rule->flags & (VW__ERROR_TEXT_RULE_SUMMARY | VW__ERROR_TEXT_RULE_AMBIGUOUS)) == 0 ||
               !vw__error_text_is_in_code(region, place->at);
    vw__error_text_shape shape = vw__error_text_shape_of(region, rule, place);
    report->is_ambiguous |= shape == VW__ERROR_TEXT_SHAPE_BARE;
    return shape != VW__ERROR_TEXT_SHAPE_NOTHING;
}

/* ---- tracebacks ------------------------------------------------------------------------------ */

static vw__traceback_piece piece_of(const vw__error_text_scan *scan)
{
    return (vw__traceback_piece){scan->raw, scan->filled, scan->base};
}

static void trace_to(vw__error_text_scan *scan, size_t end)
{
    vw__traceback_read(&scan->tracebacks, piece_of(scan), scan->traced, end);
    scan->traced = end > scan->traced ? end : scan->traced;
}

/* The traceback that followed a message is over: gives it to the message. */
static void end_followed(vw__error_text_scan *scan)
{
    const vw__traceback *found = vw__traceback_open(&scan->tracebacks);
    if (scan->is_followed && found != NULL)
        scan->untraced->traceback = *found;
    scan->untraced = NULL;
    scan->is_followed = false;
}

static void begin_traceback(vw__error_text_scan *scan, size_t at)
{
    trace_to(scan, at);
    bool is_close = scan->untraced != NULL && scan->base + at - scan->last_end < FOLLOWING_BYTES;
    if (scan->is_followed || !is_close)
        end_followed(scan);
    vw__traceback_begin(&scan->tracebacks, piece_of(scan), at);
    scan->is_followed = scan->untraced != NULL;
}

/* Gives the report at raw byte `at` the traceback before it. `kept`: the report that it replaces,
 * in the tally. */
static void add_traceback(vw__error_text_scan *scan, size_t at, vw__error_text_report *kept,
                          vw__error_text_report *report)
{
    trace_to(scan, at);
    const vw__traceback *found =
        vw__traceback_before(&scan->tracebacks, piece_of(scan),
                             scan->consumed < at ? scan->consumed : at, at, report->rank);
    if (found != NULL)
        report->traceback = *found;
    else if (kept->kind == report->kind)
        report->traceback = kept->traceback; /* the same error, in more words */
    scan->is_followed = false;
    scan->untraced = report->traceback.frame_count == 0 ? kept : NULL;
}

/* ---- reading a message ----------------------------------------------------------------------- */

typedef struct found_message {
    const vw__error_text_rule *rule;
    vw__error_text_place place;
    size_t end;   /* letter */
    size_t start; /* raw byte at which the region begins */
} found_message;

/* Reads what is around the word at raw byte `at`, and says whether it is a message. */
static bool read_around(vw__error_text_scan *scan, vw__error_text_word word, size_t at,
                        size_t ahead_bytes, found_message *found, vw__error_text_report *report)
{
    const vw__error_text_region *region = &scan->region;
    size_t start = fill_region(scan, at, ahead_bytes);
    size_t first = vw__error_text_region_letter_at(
        region, scan->consumed > start ? scan->consumed - start : 0);
    size_t letter = vw__error_text_region_letter_at(region, at - start);
    found->start = start;
    if (letter >= region->letter_count)
        return false;
    vw__error_text_report_init(report);
    found->place = (vw__error_text_place){first, letter, letter, letter + 1};
    found->rule = vw__error_text_rule_find(region, scan->words.texts[word], &found->place);
    if (found->rule == NULL)
        return false;
    report->kind = vw__error_text_rule_kind(region, found->rule, &found->place);
    report->is_ambiguous = (found->rule->flags & VW__ERROR_TEXT_RULE_AMBIGUOUS) != 0;
    found->end = 0;
    if (report->kind != VW__ERROR_TEXT_NOT_OOM)
        found->end = vw__error_text_read_clauses(region, found->rule, &found->place, report);
    if (found->end < found->place.end)
        found->end = found->place.end;
    return is_report(region, found->rule, &found->place, report);
}

static void end_message(vw__error_text_scan *scan, size_t end)
{
    scan->consumed = end;
    scan->is_after_report = true;
    scan->last_end = scan->base + end;
}

/* Words that say no more than that there was an error. */
static bool is_vague(const char *word)
{
    return strcmp(word, traceback_head) == 0 || strcmp(word, "terminatecalled") == 0;
}

/* PyTorch's log of a request that it tries again. What follows is not an echo of it: it may be the
 * error itself. */
static void log_retry(vw__error_text_scan *scan, const found_message *found, size_t at,
                      vw__error_text_report *report)
{
    const vw__error_text_region *region = &scan->region;
    size_t end = found->start + vw__error_text_region_raw_end(region, found->end);
    report->line =
        line_of(scan, found->start + region->raw_of[region->clean_of[found->place.start]]);
    quote(region, &found->place, found->end, report);
    scan->consumed = end > at ? end : at + 1;
    vw__error_text_tally_log_retry(&scan->tally, report, scan->base + scan->consumed);
}

/* A word that was found at raw byte `at`. */
static vw__error_text_outcome read_word(vw__error_text_scan *scan, vw__error_text_word word,
                                        size_t at)
{
    enum { CLOSE_TO_END = 320 }; /* letters: the message may go on */
    const vw__error_text_region *region = &scan->region;
    vw__error_text_report report;
    found_message found;
    bool is_message = read_around(scan, word, at, REGION_AHEAD_BYTES, &found, &report);
    if (is_message && found.start + region->raw_bytes < scan->filled &&
        found.end + CLOSE_TO_END > region->letter_count)
        is_message = read_around(scan, word, at, REGION_MOST_AHEAD_BYTES, &found, &report);
    if (!is_message)
        return VW__ERROR_TEXT_OUTCOME_NOTHING;
    uint64_t distance = scan->is_after_report ? scan->base + at - scan->last_end : UINT64_MAX;
    if ((found.rule->flags & VW__ERROR_TEXT_RULE_PART) != 0 && distance < NEW_PARTS_BYTES)
        return VW__ERROR_TEXT_OUTCOME_NOTHING;
    report.rank = rank_of(region, &found.place);
    found.end = line_end_behind(region, found.end);
    if ((found.rule->flags & VW__ERROR_TEXT_RULE_RETRIED) != 0) {
        log_retry(scan, &found, at, &report);
        return VW__ERROR_TEXT_OUTCOME_WORDS;
    }
    bool is_echo = distance < NEW_WORDS_BYTES && report.rank == scan->last_rank &&
                   vw__error_text_kind_is_host(report.kind) == scan->last_is_host &&
                   !vw__error_text_report_has_numbers(&report) && !report.is_ambiguous;
    vw__error_text_report *kept =
        report.kind == VW__ERROR_TEXT_NOT_OOM
            ? vw__error_text_tally_place_other(&scan->tally, is_vague(scan->words.texts[word]))
            : vw__error_text_tally_place(&scan->tally, &report);
    bool is_completion = kept != NULL && kept->kind != VW__ERROR_TEXT_NONE;
    if (kept != NULL) {
        size_t raw_start = found.start + region->raw_of[region->clean_of[found.place.start]];
        report.line = line_of(scan, raw_start);
        quote(region, &found.place, found.end, &report);
        if (report.kind != VW__ERROR_TEXT_NOT_OOM)
            add_traceback(scan, raw_start, kept, &report);
        *kept = report;
        if (kept == &scan->tally.certain)
            vw__error_text_tally_certain_at(&scan->tally, scan->base + raw_start);
    }
    if (report.kind == VW__ERROR_TEXT_NOT_OOM)
        return VW__ERROR_TEXT_OUTCOME_NOTHING;
    vw__error_text_tally_count(&scan->tally, &report, is_completion || (is_echo && kept == NULL));
    size_t end = found.start + vw__error_text_region_raw_end(region, found.end);
    scan->last_rank = report.rank;
    scan->last_is_host = vw__error_text_kind_is_host(report.kind);
    end_message(scan, end > at ? end : at + 1);
    bool is_counted = !report.is_ambiguous && !report.is_warning;
    return is_counted && vw__error_text_report_has_numbers(&report) ? VW__ERROR_TEXT_OUTCOME_NUMBERS
                                                                    : VW__ERROR_TEXT_OUTCOME_WORDS;
}

/* The text around a word: from the beginning of its line, or the end of the last message, to well
 * behind it. */
static uint64_t hash_around(const vw__error_text_scan *scan, vw__error_text_word word, size_t at)
{
    enum { MOST_BACK = 256 };
    size_t back = at - scan->consumed < MOST_BACK ? at - scan->consumed : MOST_BACK;
    const char *line_end = memrchr(scan->raw + at - back, '\n', back);
    size_t first = line_end != NULL ? (size_t)(line_end - scan->raw) + 1 : at - back;
    size_t end = scan->filled - at > SAME_TEXT_BYTES ? at + SAME_TEXT_BYTES : scan->filled;
    uint64_t hash = (uint64_t)word << 40 ^ (uint64_t)(at - first) << 20 ^ (end - at), part = 0;
    while (first < end) {
        size_t bytes = end - first < sizeof part ? end - first : sizeof part;
        memcpy(&part, scan->raw + first, bytes);
        hash = (hash ^ part) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
        first += bytes;
    }
    return hash | 1;
}

static vw__error_text_key key_around(const vw__error_text_scan *scan, vw__error_text_word word,
                                     size_t at)
{
    enum { MOST_BACK = 200, MOST_BEHIND = 400 };
    size_t back = at - scan->consumed < MOST_BACK ? at - scan->consumed : MOST_BACK;
    size_t behind = scan->filled - at < MOST_BEHIND ? scan->filled - at : MOST_BEHIND;
    const char *before = memrchr(scan->raw + at - back, '\n', back);
    const char *line_end = memchr(scan->raw + at, '\n', behind);
    size_t first = before != NULL ? (size_t)(before - scan->raw) + 1 : at - back;
    size_t end = line_end != NULL ? (size_t)(line_end - scan->raw) : at + behind;
    return vw__error_text_key_of(scan->raw + first, end - first, at - first, word, before != NULL);
}

/* The same text says the same, and counts no more: a log that repeats itself is not read again and
 * again. */
static void read_word_once(vw__error_text_scan *scan, vw__error_text_word word, size_t at)
{
    if (strcmp(scan->words.texts[word], "failedwithoom") == 0) { /* the last one is needed */
        scan->fruitless_count += read_word(scan, word, at) == VW__ERROR_TEXT_OUTCOME_NOTHING;
        return;
    }
    vw__error_text_key key = key_around(scan, word, at);
    vw__error_text_pattern *pattern = vw__error_text_pattern_of(&scan->repeats, &key);
    if (vw__error_text_pattern_is_settled(pattern, &key)) {
        if (pattern->outcome == VW__ERROR_TEXT_OUTCOME_NUMBERS)
            vw__error_text_tally_count_again(&scan->tally, key.said, key.rank, pattern->is_host);
        if (pattern->outcome != VW__ERROR_TEXT_OUTCOME_NOTHING)
            end_message(scan, at + key.behind_bytes);
        return;
    }
    uint64_t hash = hash_around(scan, word, at);
    read_text *known = &scan->read[(hash >> 32) % READ_SLOTS];
    if (known->hash != hash) {
        vw__error_text_outcome outcome = read_word(scan, word, at);
        vw__error_text_pattern_came_to(pattern, &key, outcome, scan->last_is_host);
        if (outcome == VW__ERROR_TEXT_OUTCOME_NUMBERS)
            vw__error_text_tally_remember(&scan->tally, key.said);
        scan->fruitless_count += scan->consumed <= at;
        scan->reading_count++;
        *known = (read_text){hash, scan->consumed > at ? scan->consumed - at : 0};
    } else if (known->consumed_bytes > 0) {
        end_message(scan, at + (size_t)known->consumed_bytes);
    }
}

/* ---- the search ------------------------------------------------------------------------------ */

/* "was killed by": no shell says so. */
static bool is_inside_sentence(const vw__error_text_scan *scan, size_t at)
{
    enum { MOST_COLOUR = 12 };
    while (at > 0 && scan->raw[at - 1] == ' ')
        at--;
    size_t back = at < MOST_COLOUR ? at : MOST_COLOUR;
    return at > 0 && vw__ascii_is_lower(scan->raw[at - 1]) &&
           memrchr(scan->raw + at - back, '\033', back) == NULL;
}

/* Words that can only say that there was an error of another kind, once one is known. */
static bool is_settled(const vw__error_text_scan *scan, const char *word)
{
    static const char *const others[] = {
        "error:",           "exception:",          "assertionfailed",     "segmentationfault",
        "devicesideassert", "illegalmemoryaccess", "invaliddevicepointer"};
    if (scan->tally.other.kind == VW__ERROR_TEXT_NONE)
        return false;
    if (is_vague(word))
        return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(word, others[i]) == 0)
            return !scan->tally.other_is_vague;
    return false;
}

/* Words that are everywhere, and what rules most of them out at a glance. */
static bool is_worth_reading(const vw__error_text_scan *scan, const char *word, size_t at,
                             size_t letter, size_t letter_count)
{
    const char *text = scan->letters.text + letter;
    size_t left = letter_count - letter;
    bool is_patient = scan->reading_count < MOST_READINGS;
    if (scan->fruitless_count > (is_patient ? MOST_FRUITLESS : FEW_FRUITLESS) &&
        (strcmp(word, "outofmemory") != 0 || scan->tally.certain.kind != VW__ERROR_TEXT_NONE))
        return false;
    if (strcmp(word, "killed") == 0)
        return !is_inside_sentence(scan, at);
    if (strcmp(word, "error:") == 0)
        return left <= 6 || !vw__ascii_is_digit(text[6]);
    if (strcmp(word, "exitcode") == 0 || strcmp(word, "exitstatus") == 0 ||
        strcmp(word, "returncode") == 0)
        return memmem(text, left < 20 ? left : 20, "137", 3) != NULL ||
               memmem(text, left < 20 ? left : 20, "9", 1) != NULL;
    return true;
}

/* Did the run have expandable segments? "try setting ... expandable_segments:True" says nothing. */
static void read_setting(vw__error_text_scan *scan, size_t letter, size_t letter_count)
{
    static const char *const yes[] = {"s:true",     "s=true",    "s:1",
                                      "sisenabled", "reserveof", "s:memorymapping"};
    enum { ADVICE_LETTERS = 48 };
    size_t behind = letter + strlen(expandable);
    size_t back = letter < ADVICE_LETTERS ? letter : ADVICE_LETTERS;
    size_t ahead = letter_count - behind < ADVICE_LETTERS ? letter_count - behind : ADVICE_LETTERS;
    if (memmem(scan->letters.text + letter - back, back, "try", 3) != NULL ||
        memmem(scan->letters.text + behind, ahead, "toavoid", 7) != NULL ||
        memmem(scan->letters.text + behind, ahead, "help", 4) != NULL)
        return;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        size_t length = strlen(yes[i]);
        if (length <= letter_count - behind &&
            memcmp(scan->letters.text + behind, yes[i], length) == 0)
            scan->says_expandable = true;
    }
}

/* Is the setting at `letter` the tag of a log line about addresses? */
static bool is_addresses_tag(const vw__error_text_scan *scan, size_t letter, size_t letter_count)
{
    static const char tag[] = VW__ERROR_TEXT_ADDRESSES_TAG;
    return letter > 0 && letter_count - letter >= sizeof tag - 2 &&
           memcmp(scan->letters.text + letter - 1, tag, sizeof tag - 1) == 0;
}

/* Notes the line of raw byte `at`, and leaves out what it says: it quotes settings and sizes. In
 * JSON a line ends with the two characters "\n". */
static void read_addresses_line(vw__error_text_scan *scan, size_t at)
{
    enum { MOST_LINE = 2 << 10 };
    size_t back = at < MOST_LINE ? at : MOST_LINE;
    const char *before = memrchr(scan->raw + at - back, '\n', back);
    size_t first = before != NULL ? (size_t)(before - scan->raw) + 1 : at - back;
    size_t bytes = scan->filled - at < MOST_LINE ? scan->filled - at : MOST_LINE;
    const char *end = memchr(scan->raw + at, '\n', bytes);
    if (end != NULL)
        bytes = (size_t)(end - (scan->raw + at));
    const char *written_end = memmem(scan->raw + at, bytes, "\\n", 2);
    vw__line_rank rank = {-1, false};
    (void)vw__line_prefix(scan->raw + first, at - first, &rank);
    if (written_end != NULL)
        end = written_end;
    if (end == NULL && at + bytes == scan->filled)
        end = scan->raw + scan->filled; /* the text's last line */
    size_t behind = end != NULL ? (size_t)(end - scan->raw) : at + 1;
    scan->consumed = behind > scan->consumed ? behind : scan->consumed;
    vw__error_text_tally_log_addresses(&scan->tally, rank.rank, scan->base + behind);
}

/* Finds every word that begins before `limit`. */
static void search(vw__error_text_scan *scan, size_t limit)
{
    size_t end = scan->filled - limit > LAST_WORD_BYTES ? limit + LAST_WORD_BYTES : scan->filled;
    bool is_line_start =
        scan->searched == 0 ? scan->base == 0 : scan->raw[scan->searched - 1] == '\n';
    size_t letter_count = vw__error_text_letters_squeeze(&scan->letters, scan->raw, scan->searched,
                                                         end, is_line_start);
    vw__error_text_word_cursor cursor = {0};
    vw__error_text_word_match match;
    vw__error_text_mark known = {0, 0};
    scan->fruitless_count = 0;
    while (vw__error_text_word_search_next(&scan->words, scan->letters.text, letter_count, &cursor,
                                           &match)) {
        const char *word = scan->words.texts[match.word];
        bool is_head = strcmp(word, traceback_head) == 0;
        if (is_settled(scan, word) && !is_head)
            continue;
        size_t at = vw__error_text_letters_raw_of(&scan->letters, scan->raw, match.at, end, &known);
        if (at >= limit)
            break;
        if (is_head)
            begin_traceback(scan, at);
        if (is_settled(scan, word))
            continue;
        bool is_tag =
            strcmp(word, expandable) == 0 && is_addresses_tag(scan, match.at, letter_count);
        if (is_tag && at >= scan->consumed)
            read_addresses_line(scan, at);
        else if (strcmp(word, expandable) == 0)
            read_setting(scan, match.at, letter_count);
        else if (at >= scan->consumed && is_worth_reading(scan, word, at, match.at, letter_count))
            read_word_once(scan, match.word, at);
    }
    scan->searched = limit;
    count_lines(scan, limit);
    trace_to(scan, limit);
}

static void take_sample(vw__error_text_scan *scan, const char *bytes, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        scan->zero_counts[i & 1] += byte == 0;
        scan->control_count +=
            byte != 0 && byte < ' ' && !(byte >= '\a' && byte <= '\r') && byte != '\033';
    }
    scan->sampled_bytes += size_bytes;
}

/* Text in 16-bit units has a zero beside every letter, always on the same side. */
static bool is_binary(const vw__error_text_scan *scan)
{
    uint64_t even = scan->zero_counts[0], odd = scan->zero_counts[1];
    uint64_t more = even > odd ? even : odd, less = even > odd ? odd : even;
    bool is_wide_text = more > scan->sampled_bytes / 3 && less < more / 16;
    return scan->control_count > scan->sampled_bytes / 16 ||
           (even + odd > scan->sampled_bytes / 16 && !is_wide_text);
}

/* ---- feeding --------------------------------------------------------------------------------- */

vw_status vw__error_text_scan_create(vw__error_text_scan **out)
{
    vw__error_text_scan *scan = vw__host_alloc_zeroed(1, sizeof *scan);
    if (scan == NULL)
        return vw__fail_host_memory(sizeof *scan, "a scan for errors");
    vw__error_text_word_search_init(&scan->words);
    vw__error_text_rule_words(&scan->words);
    vw__error_text_word_search_add(&scan->words, expandable);
    vw__error_text_word_search_finish(&scan->words);
    vw__error_text_tally_init(&scan->tally);
    *out = scan;
    return VW_OK;
}

void vw__error_text_scan_judge(vw__error_text_scan *scan, vw__traceback_judge judge)
{
    scan->tracebacks.judge = judge;
}

void vw__error_text_scan_destroy(vw__error_text_scan *scan)
{
    vw__host_free(scan);
}

size_t vw__error_text_scan_held_bytes(void)
{
    return sizeof(vw__error_text_scan);
}

/* Searches the buffer but for its end, and keeps only what may still be needed. */
static void make_room(vw__error_text_scan *scan)
{
    take_sample(scan, scan->raw + scan->searched, SAMPLE_BYTES);
    search(scan, scan->filled - LOOK_AHEAD_BYTES);
    size_t dropped = scan->searched - LOOK_BACK_BYTES;
    memmove(scan->raw, scan->raw + dropped, scan->filled - dropped);
    scan->base += dropped;
    scan->filled -= dropped;
    scan->searched -= dropped;
    scan->counted -= dropped;
    scan->consumed = scan->consumed > dropped ? scan->consumed - dropped : 0;
    scan->traced = scan->traced > dropped ? scan->traced - dropped : 0;
}

vw_status vw__error_text_scan_feed(vw__error_text_scan *scan, const char *bytes, size_t size_bytes)
{
    while (size_bytes > 0) {
        if (scan->filled == BUFFER_BYTES)
            make_room(scan);
        size_t taken = BUFFER_BYTES - scan->filled;
        taken = taken < size_bytes ? taken : size_bytes;
        memcpy(scan->raw + scan->filled, bytes, taken);
        scan->filled += taken;
        bytes += taken;
        size_bytes -= taken;
    }
    return VW_OK;
}

vw_status vw__error_text_scan_finish(vw__error_text_scan *scan, vw__error_text_summary *out)
{
    size_t rest = scan->filled - scan->searched;
    take_sample(scan, scan->raw + scan->searched, rest < SAMPLE_BYTES ? rest : SAMPLE_BYTES);
    search(scan, scan->filled);
    end_followed(scan);
    memset(out, 0, sizeof *out);
    vw__error_text_tally_finish(&scan->tally, out);
    out->first.says_expandable = scan->says_expandable || out->first.says_addresses;
    out->size_bytes = scan->base + scan->filled;
    bool ends_inside_line = scan->filled > 0 && scan->raw[scan->filled - 1] != '\n';
    out->line_count = scan->line_count + ends_inside_line;
    out->is_binary = is_binary(scan);
    if (out->is_binary && state_number_count(&out->first) < 2) {
        /* programs contain the words of every message that they could print, but no numbers */
        vw__error_text_report_init(&out->first);
        out->report_count = out->rank_count = out->host_count = 0;
    }
    return VW_OK;
}
