/* error_text_mentions.c - mentions of errors that are not reports.
 *
 * Advice, source code, comments, changelogs and documentation use the words of errors. "If you
 * encounter CUDA out of memory, try ..." reports nothing. A message with numbers is believed
 * wherever it stands, and so is a library's fixed wording outside of code; the plain words need the
 * shape of an error: an exception's name, "error:", "failed". Without it they may be a report where
 * they are all that a line says, and are prose where they are one phrase among others. */
#include "parse/error_text_internal.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define RAISED_WHEN "exception raised when" /* the line below a name in documentation */

/* ---- the line -------------------------------------------------------------------------------- */

/* The clean line in which the words stand, cut to what is near them. */
typedef struct near_line {
    vw__line line;
    size_t at, end; /* the words, in it */
} near_line;

static near_line line_of(const vw__error_text_region *region, size_t at, size_t word_end)
{
    enum { MOST_BEFORE = 240, MOST_BEHIND = 240 };
    size_t word = region->clean_of[at], first = word;
    size_t end = region->clean_of[word_end > at ? word_end - 1 : at] + (size_t)1, stop = end;
    while (first > 0 && region->clean[first - 1] != '\n' && word - first < MOST_BEFORE)
        first--;
    while (stop < region->clean_bytes && region->clean[stop] != '\n' && stop - end < MOST_BEHIND)
        stop++;
    while (first < word && (region->clean[first] == ' ' || region->clean[first] == '\t'))
        first++;
    while (stop > end && (unsigned char)region->clean[stop - 1] <= ' ')
        stop--;
    return (near_line){{region->clean + first, stop - first}, word - first, end - first};
}

static bool is_space(char c)
{
    return c == ' ';
}

static size_t skip_spaces(vw__line line, size_t at)
{
    return vw__line_skip(line, at, is_space);
}

/* Whether a phrase of the list begins before the words, or behind them. */
#define HAS_BEFORE(near, list)                                                                     \
    vw__line_mentions_any((near)->line, 0, (near)->at, list, COUNT_OF(list))
#define HAS_BEHIND(near, list)                                                                     \
    vw__line_mentions_any((near)->line, (near)->end, SIZE_MAX, list, COUNT_OF(list))

static bool holds(vw__line line, size_t first, size_t end, const char *text)
{
    return memmem(line.text + first, end - first, text, strlen(text)) != NULL;
}

/* ---- code ------------------------------------------------------------------------------------ */

static bool is_comment(const near_line *near)
{
    static const char *const starts[] = {"#", "//", "/*", "* ", "*/", "<!--", "-- ", ".\\\""};
    static const char *const marks[] = {"# ", "// ", "/* "};
    if (vw__line_begins_any(near->line, 0, starts, COUNT_OF(starts)))
        return true;
    for (size_t i = 1; i + 2 < near->at; i++)
        if (near->line.text[i - 1] == ' ' &&
            vw__line_begins_any(near->line, i, marks, COUNT_OF(marks)))
            return true;
    return false;
}

static bool is_statement(const near_line *near)
{
    static const char *const starts[] = {
        "if ",    "if(",    "elif ",   "else if", "while ",  "except ",     "except(", "} catch",
        "catch ", "catch(", "return ", "assert ", "assert(", "import ",     "from ",   "class ",
        "def ",   "case ",  "static ", "const ",  "#define", "with pytest", "logger.", "logging.",
    };
    return vw__line_begins_any(near->line, 0, starts, COUNT_OF(starts));
}

static bool ends_like_code(const near_line *near)
{
    static const char *const ends[] = {"||", "&&", "};", "\");", "\",", " \\"};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        size_t length = strlen(ends[i]);
        if (near->line.size_bytes >= length &&
            vw__line_has(near->line, near->line.size_bytes - length, ends[i]))
            return true;
    }
    return false;
}

/* print("CUDA out of memory"): quoted, inside a call of something that is not an error. */
static bool is_argument(const near_line *near)
{
    vw__line line = near->line;
    size_t depth = 0, at = near->at;
    bool has_quote = false;
    while (at > 0) {
        char c = line.text[--at];
        has_quote |= c == '"' || c == '\'';
        depth += c == ')';
        if (c == '(' && depth-- == 0)
            break;
        if (at == 0)
            return false;
    }
    size_t name = vw__line_name_start(line, at);
    bool is_error = holds(line, name, at, "rr") || holds(line, name, at, "xcept");
    return has_quote && at > name && !is_error && !vw__line_has(line, name, "Some");
}

/* A test's name, a setting, an enumerator. */
static bool is_in_name(const near_line *near)
{
    vw__line line = near->line;
    size_t first = near->at, end = vw__line_skip_name(line, near->end);
    while (first > 0 && (vw__ascii_is_name(line.text[first - 1]) || line.text[first - 1] == ':'))
        first--;
    if (vw__line_begins(line, first, "test_") || holds(line, first, end, "::test"))
        return true;
    if (vw__line_at(line, near->end) == '_' &&
        vw__ascii_is_lower(vw__line_at(line, near->end + 1))) /* the name goes on */
        return true;
    end = skip_spaces(line, end);
    if (vw__line_at(line, end) != '=')
        return false;
    end++;
    while (vw__line_at(line, end) == ' ' || vw__line_is_digit(line, end))
        end++;
    return vw__line_at(line, end) == ',' && end + 1 == line.size_bytes; /* NAME = 2, */
}

/* "CUDA OOMs: 0", "ooms=0", "oom_kill 0" */
static bool is_zero_counter(const near_line *near)
{
    vw__line line = near->line;
    size_t name_end = near->end;
    while (vw__ascii_is_name(vw__line_at(line, name_end)) && line.text[name_end] != '0')
        name_end++;
    bool is_name = holds(line, near->at, near->end, "_");
    size_t at = skip_spaces(line, name_end);
    if (vw__line_at(line, at) == ':' || vw__line_at(line, at) == '=')
        at++;
    else if (!is_name || at == name_end)
        return false;
    at = skip_spaces(line, at);
    if (vw__line_at(line, at) != '0')
        return false;
    char behind = vw__line_at(line, at + 1), next = vw__line_at(line, at + 2);
    return behind == '\0' || strchr(",;|)]}", behind) != NULL ||
           (behind == ' ' && (next == ' ' || next == '|'));
}

bool vw__error_text_is_in_code(const vw__error_text_region *region, size_t at)
{
    near_line near = line_of(region, at, at + 1);
    return is_comment(&near) || is_statement(&near) || is_argument(&near);
}

/* ---- prose ----------------------------------------------------------------------------------- */

/* "Fixed an out of memory error", "- Fix CUDA out of memory": the first or the second word. */
static bool is_changelog(const near_line *near)
{
    static const char *const verbs[] = {"fix",     "fixed",   "fixes",    "handle",   "handles",
                                        "handled", "improve", "improved", "add",      "added",
                                        "adds",    "avoid",   "support",  "supports", "catch",
                                        "fixing",  "resolve", "resolved", "prevent",  "prevents"};
    const vw__line before = {near->line.text, near->at};
    size_t at = 0;
    for (int word = 0; word < 2; word++) {
        while (at < before.size_bytes && !vw__ascii_is_name(before.text[at]))
            at++;
        size_t first = at;
        at = vw__line_skip_name(before, at);
        for (size_t i = 0; i < COUNT_OF(verbs); i++)
            if (strlen(verbs[i]) == at - first && vw__line_begins(before, first, verbs[i]))
                return true;
    }
    return false;
}

/* An error about the name of an error; a question; a definition. */
static bool is_about_name(const near_line *near)
{
    static const char *const before[] = {
        " if a ",           "never ran",   "not out of ", "cannot import name",
        "has no attribute", "raised when", "what does ",  "thrown when"};
    static const char *const starts[] = {"not out", "Q:"};
    return HAS_BEFORE(near, before) || vw__line_begins_any(near->line, 0, starts, COUNT_OF(starts));
}

/* The program went on, and says so. */
static bool is_got_over(const near_line *near)
{
    static const char *const behind[] = {"retrying", "falling back", "skipping batch",
                                         "trying again"};
    static const char *const before[] = {"skipping tactic"};
    return HAS_BEHIND(near, behind) || HAS_BEFORE(near, before);
}

/* The text from the first line behind `at` that is not blank. */
static vw__line next_line(const vw__error_text_region *region, size_t at)
{
    size_t first = region->clean_of[at];
    while (first < region->clean_bytes && region->clean[first] != '\n')
        first++;
    while (first < region->clean_bytes && (unsigned char)region->clean[first] <= ' ')
        first++;
    return (vw__line){region->clean + first, region->clean_bytes - first};
}

/* "RuntimeError: ...", "CUDA error (2): ...": a name that ends so, with what it says behind it. */
static bool has_error_head(const near_line *near)
{
    static const char *const heads[] = {"error", "exception", "err", "what()", "panic", "abort"};
    enum { MOST_BEHIND = 6 };
    vw__line line = near->line;
    for (size_t i = 0; i < near->end + MOST_BEHIND; i++)
        for (size_t k = 0; k < COUNT_OF(heads); k++) {
            size_t end = i + strlen(heads[k]);
            if (!vw__line_begins(line, i, heads[k]) || vw__line_is_letter(line, end))
                continue;
            end = skip_spaces(line, end);
            char mark = vw__line_at(line, end);
            if (mark == '\0' || strchr(":([=\"", mark) != NULL ||
                vw__line_begins(line, end, "Traceback"))
                return true;
        }
    return false;
}

static bool has_failure(const near_line *near)
{
    static const char *const words[] = {"failed", "failure", "fatal",  "abort",     "crash",
                                        "unable", "cannot",  "exited", "terminate", "returned"};
    return HAS_BEFORE(near, words) || HAS_BEHIND(near, words);
}

/* CUDA_ERROR_OUT_OF_MEMORY, cudaErrorMemoryAllocation */
static bool is_constant(const near_line *near)
{
    static const char *const marks[] = {"ERROR", "STATUS", "cudaError", "hipError"};
    size_t first = vw__line_name_start(near->line, near->at);
    size_t end = vw__line_skip_name(near->line, near->end);
    for (size_t i = 0; i < COUNT_OF(marks); i++)
        if (holds(near->line, first, end, marks[i]))
            return true;
    return false;
}

/* Words that people use, too. */
static bool is_plain(const char *word)
{
    static const char *const words[] = {"outofmemory",
                                        "outofgpumemory",
                                        "outofcudamemory",
                                        "outofdevicememory",
                                        "outofvideomemory",
                                        "outofvram",
                                        "outofram",
                                        "outofhostmemory",
                                        "notenoughmemory",
                                        "notenoughgpumemory",
                                        "notenoughgpuvideomemory",
                                        "notenoughvram",
                                        "insufficientmemory",
                                        "insufficientgpumemory",
                                        "memoryexhausted",
                                        "oomerror",
                                        "cudaoom",
                                        "gpuoom",
                                        "gotanoom",
                                        "\xe6\x98\xbe\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3",
                                        "\xe5\x86\x85\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* Are the words the whole of what the line says, or the beginning or the end of it? */
static bool is_statement_of_its_own(const near_line *near)
{
    enum { MOST_WORDS = 12 };
    vw__line line = near->line;
    size_t words = 0;
    for (size_t i = 0; i < line.size_bytes; i++)
        words += line.text[i] > ' ' && (i == 0 || line.text[i - 1] == ' ');
    size_t before = near->at;
    while (before > 0 && line.text[before - 1] == ' ')
        before--;
    char last = before > 0 ? line.text[before - 1] : ':';
    char next = vw__line_at(line, vw__line_skip_name(line, near->end));
    bool is_begin = !vw__ascii_is_name(last) && last != ',' && last != '-';
    bool is_end = next == '\0' || strchr(".,:;!)]}\"'`", next) != NULL;
    return words <= MOST_WORDS && (is_begin || is_end);
}

/* ---- advice ---------------------------------------------------------------------------------- */

static bool is_sentence_end(const vw__error_text_region *region, size_t at)
{
    char letter = region->letters[at];
    size_t clean = region->clean_of[at] + (size_t)1;
    return (letter == '.' || letter == '!' || letter == ';') &&
           (clean >= region->clean_bytes || (unsigned char)region->clean[clean] <= ' ');
}

bool vw__error_text_is_mention(const vw__error_text_region *region, size_t first, size_t at)
{
    static const char *const before[] = {
        "ifyou",       "ifit",         "ifthe",         "ifgpu",      "ifcuda",      "incaseof",
        "incaseyou",   "whenyou",      "youmay",        "youmight",   "avoid",       "prevent",
        "mitigate",    "riskof",       "without",       "insteadof",  "unless",      "howto",
        "mayrun",      "mightrun",     "canrun",        "couldrun",   "wouldrun",    "willrun",
        "torunout",    "maycause",     "cancause",      "mightcause", "willcause",   "couldcause",
        "maylead",     "canlead",      "mayresult",     "canresult",  "mayget",      "mightget",
        "excepttorch", "exceptcuda",   "exceptruntime", "except(",    "importoutof", "isinstance(",
        "classoutof",  "troubleshoot", "sending",       "forcefully", "viasignal",
    };
    static const char *const behind[] = {
        "instr(",    "inrepr(",   "ine.",       "inerror",   "inmsg",    "inmessage",
        "inexc",     "inerr",     "errors,",    "error,try", "errorase", "errors.try",
        "errorscan", "errorsmay", "errorswhen", "ed:false",  "ill0",
    };
    size_t start = at > 60 ? at - 60 : 0;
    if (start < first)
        start = first;
    for (size_t i = at; i > start; i--) {
        if (is_sentence_end(region, i - 1))
            break;
        if (vw__error_text_region_continues_any(region, i - 1, before, COUNT_OF(before)))
            return true;
    }
    /* Behind the word itself, whichever it was: within its letters and just after them. */
    for (size_t i = at + 4; i < at + 32 && i < region->letter_count; i++) {
        if (vw__error_text_region_continues_any(region, i, behind, COUNT_OF(behind)))
            return true;
        if (is_sentence_end(region, i))
            break;
    }
    near_line near = line_of(region, at, at + 1);
    return is_comment(&near);
}

/* ---- the shape ------------------------------------------------------------------------------- */

vw__error_text_shape vw__error_text_shape_of(const vw__error_text_region *region,
                                             const vw__error_text_rule *rule,
                                             const vw__error_text_place *place)
{
    size_t word_end = place->at + strlen(rule->word);
    if (word_end > region->letter_count)
        word_end = region->letter_count;
    near_line near = line_of(region, place->at, word_end);
    if (strcmp(rule->word, "gpublocks:0,") == 0) /* "# GPU blocks: 0": the zero is the error */
        return VW__ERROR_TEXT_SHAPE_ERROR;
    if (is_comment(&near) || is_statement(&near) || ends_like_code(&near) || is_argument(&near) ||
        is_in_name(&near) || is_zero_counter(&near) || is_changelog(&near) ||
        is_about_name(&near) || is_got_over(&near))
        return VW__ERROR_TEXT_SHAPE_NOTHING;
    vw__line next = next_line(region, place->at);
    if (next.size_bytes > strlen(RAISED_WHEN) && vw__line_begins(next, 0, RAISED_WHEN))
        return VW__ERROR_TEXT_SHAPE_NOTHING;
    bool is_raised =
        vw__line_begins(near.line, 0, "raise ") || vw__line_begins(near.line, 0, "throw ");
    if ((rule->flags & VW__ERROR_TEXT_RULE_CERTAIN) !=
        0) /* tracebacks quote the line that raised it */
        return is_raised ? VW__ERROR_TEXT_SHAPE_BARE : VW__ERROR_TEXT_SHAPE_ERROR;
    if (is_raised || vw__error_text_is_mention(region, place->first, place->at))
        return VW__ERROR_TEXT_SHAPE_NOTHING;
    if (!is_plain(rule->word))
        return VW__ERROR_TEXT_SHAPE_ERROR;
    if (has_error_head(&near) || has_failure(&near) || is_constant(&near))
        return VW__ERROR_TEXT_SHAPE_ERROR;
    return is_statement_of_its_own(&near) ? VW__ERROR_TEXT_SHAPE_BARE
                                          : VW__ERROR_TEXT_SHAPE_NOTHING;
}
