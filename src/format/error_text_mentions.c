/* error_text_mentions.c - what only reads like a report.
 *
 * Advice, source code, comments, changelogs and documentation use the words of errors. "If you
 * encounter CUDA out of memory, try ..." reports nothing. A message with numbers is believed
 * wherever it stands, and so is a library's fixed wording outside of code; the plain words need the
 * shape of an error: an exception's name, "error:", "failed". Without it they may be a report where
 * they are all that a line says, and are prose where they are one phrase among others. */
#include "format/error_text_parts.h"

#include <string.h>
#include <strings.h>

/* ---- the line -------------------------------------------------------------------------------- */

/* The clean line in which the words stand, cut to what is near them. */
typedef struct near_line {
    const char *text;
    size_t size_bytes;
    size_t at, end; /* the words, in it */
} near_line;

static near_line line_of(const vw__region *region, size_t at, size_t word_end)
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
    return (near_line){region->clean + first, stop - first, word - first, end - first};
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name_byte(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
}

static char byte_at(const near_line *line, size_t at)
{
    return at < line->size_bytes ? line->text[at] : '\0';
}

static bool begins(const near_line *line, size_t at, const char *text)
{
    size_t length = strlen(text);
    return at <= line->size_bytes && length <= line->size_bytes - at &&
           strncasecmp(line->text + at, text, length) == 0;
}

/* ---- code ------------------------------------------------------------------------------------ */

static bool is_comment(const near_line *line)
{
    static const char *const starts[] = {"#", "//", "/*", "* ", "*/", "<!--", "-- ", ".\\\""};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (begins(line, 0, starts[i]))
            return true;
    for (size_t i = 1; i + 2 < line->at; i++)
        if (line->text[i - 1] == ' ' &&
            (begins(line, i, "# ") || begins(line, i, "// ") || begins(line, i, "/* ")))
            return true;
    return false;
}

static bool is_statement(const near_line *line)
{
    static const char *const starts[] = {
        "if ",    "if(",    "elif ",   "else if", "while ",  "except ",     "except(", "} catch",
        "catch ", "catch(", "return ", "assert ", "assert(", "import ",     "from ",   "class ",
        "def ",   "case ",  "static ", "const ",  "#define", "with pytest", "logger.", "logging.",
    };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (begins(line, 0, starts[i]))
            return true;
    return false;
}

static bool ends_like_code(const near_line *line)
{
    static const char *const ends[] = {"||", "&&", "};", "\");", "\",", " \\"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t length = strlen(ends[i]);
        if (line->size_bytes >= length && begins(line, line->size_bytes - length, ends[i]))
            return true;
    }
    return false;
}

/* print("CUDA out of memory"): quoted, inside a call of something that is no error. */
static bool is_argument(const near_line *line)
{
    size_t depth = 0, at = line->at;
    bool has_quote = false;
    while (at > 0) {
        char c = line->text[--at];
        has_quote |= c == '"' || c == '\'';
        depth += c == ')';
        if (c == '(' && depth-- == 0)
            break;
        if (at == 0)
            return false;
    }
    size_t name = at;
    while (name > 0 && is_name_byte(line->text[name - 1]))
        name--;
    bool is_error = memmem(line->text + name, at - name, "rr", 2) != NULL ||
                    memmem(line->text + name, at - name, "xcept", 5) != NULL;
    return has_quote && at > name && !is_error && strncmp(line->text + name, "Some", 4) != 0;
}

/* A test's name, a setting, an enumerator. */
static bool is_in_name(const near_line *line)
{
    size_t first = line->at, end = line->end;
    while (first > 0 && (is_name_byte(line->text[first - 1]) || line->text[first - 1] == ':'))
        first--;
    while (end < line->size_bytes && is_name_byte(line->text[end]))
        end++;
    if (begins(line, first, "test_") || memmem(line->text + first, end - first, "::test", 6))
        return true;
    bool goes_on = byte_at(line, line->end) == '_' && byte_at(line, line->end + 1) >= 'a' &&
                   byte_at(line, line->end + 1) <= 'z';
    if (goes_on)
        return true;
    while (byte_at(line, end) == ' ')
        end++;
    if (byte_at(line, end) != '=')
        return false;
    end++;
    while (byte_at(line, end) == ' ' || (byte_at(line, end) >= '0' && byte_at(line, end) <= '9'))
        end++;
    return byte_at(line, end) == ',' && end + 1 == line->size_bytes; /* NAME = 2, */
}

/* "CUDA OOMs: 0", "ooms=0", "oom_kill 0" */
static bool is_zero_counter(const near_line *line)
{
    size_t at = line->end;
    while (is_name_byte(byte_at(line, at)) && byte_at(line, at) != '0')
        at++;
    bool is_name = memchr(line->text + line->at, '_', line->end - line->at) != NULL;
    size_t blanks = at;
    while (byte_at(line, at) == ' ')
        at++;
    if (byte_at(line, at) == ':' || byte_at(line, at) == '=')
        at++;
    else if (!is_name || blanks == at)
        return false;
    while (byte_at(line, at) == ' ')
        at++;
    if (byte_at(line, at) != '0')
        return false;
    char behind = byte_at(line, at + 1), next = byte_at(line, at + 2);
    return behind == '\0' || strchr(",;|)]}", behind) != NULL ||
           (behind == ' ' && (next == ' ' || next == '|'));
}

bool vw__error_is_in_code(const vw__region *region, size_t at)
{
    near_line line = line_of(region, at, at + 1);
    return is_comment(&line) || is_statement(&line) || is_argument(&line);
}

/* ---- prose ----------------------------------------------------------------------------------- */

/* "Fixed an out of memory error", "- Fix CUDA out of memory": the first or the second word. */
static bool is_changelog(const near_line *line)
{
    static const char *const verbs[] = {"fix",     "fixed",   "fixes",    "handle",   "handles",
                                        "handled", "improve", "improved", "add",      "added",
                                        "adds",    "avoid",   "support",  "supports", "catch",
                                        "fixing",  "resolve", "resolved", "prevent",  "prevents"};
    size_t at = 0;
    for (int word = 0; word < 2; word++) {
        while (at < line->at && !is_name_byte(line->text[at]))
            at++;
        size_t first = at;
        while (at < line->at && is_name_byte(line->text[at]))
            at++;
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
            if (strlen(verbs[i]) == at - first &&
                strncasecmp(line->text + first, verbs[i], at - first) == 0)
                return true;
    }
    return false;
}

static bool has_before(const near_line *line, const char *text)
{
    for (size_t i = 0; i < line->at; i++)
        if (begins(line, i, text))
            return true;
    return false;
}

static bool has_behind(const near_line *line, const char *text)
{
    for (size_t i = line->end; i < line->size_bytes; i++)
        if (begins(line, i, text))
            return true;
    return false;
}

/* An error about the name of an error; a question; a definition. */
static bool is_about_name(const near_line *line)
{
    return has_before(line, " if a ") || has_before(line, "never ran") ||
           has_before(line, "not out of ") || begins(line, 0, "not out") ||
           has_before(line, "cannot import name") || has_before(line, "has no attribute") ||
           has_before(line, "raised when") || has_before(line, "what does ") ||
           has_before(line, "thrown when") || begins(line, 0, "Q:");
}

/* The program went on, and says so. */
static bool is_got_over(const near_line *line)
{
    return has_behind(line, "retrying") || has_behind(line, "falling back") ||
           has_behind(line, "skipping batch") || has_behind(line, "trying again") ||
           has_before(line, "skipping tactic");
}

static const char *next_line(const vw__region *region, size_t at, size_t *size_bytes)
{
    size_t first = region->clean_of[at];
    while (first < region->clean_bytes && region->clean[first] != '\n')
        first++;
    while (first < region->clean_bytes && (unsigned char)region->clean[first] <= ' ')
        first++;
    *size_bytes = region->clean_bytes - first;
    return region->clean + first;
}

/* "RuntimeError: ...", "CUDA error (2): ...": a name that ends so, with what it says behind it. */
static bool has_error_head(const near_line *line, size_t stop)
{
    static const char *const heads[] = {"error", "exception", "err", "what()", "panic", "abort"};
    for (size_t i = 0; i < stop; i++)
        for (size_t k = 0; k < sizeof heads / sizeof *heads; k++) {
            size_t end = i + strlen(heads[k]);
            if (!begins(line, i, heads[k]) || is_letter(byte_at(line, end)))
                continue;
            while (byte_at(line, end) == ' ')
                end++;
            char mark = byte_at(line, end);
            if (mark == '\0' || mark == ':' || mark == '(' || mark == '[' || mark == '=' ||
                mark == '"' || begins(line, end, "Traceback"))
                return true;
        }
    return false;
}

static bool has_failure(const near_line *line)
{
    static const char *const words[] = {"failed", "failure", "fatal",  "abort",     "crash",
                                        "unable", "cannot",  "exited", "terminate", "returned"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_before(line, words[i]) || has_behind(line, words[i]))
            return true;
    return false;
}

/* CUDA_ERROR_OUT_OF_MEMORY, cudaErrorMemoryAllocation */
static bool is_constant(const near_line *line)
{
    size_t first = line->at, end = line->end;
    while (first > 0 && is_name_byte(line->text[first - 1]))
        first--;
    while (end < line->size_bytes && is_name_byte(line->text[end]))
        end++;
    return memmem(line->text + first, end - first, "ERROR", 5) != NULL ||
           memmem(line->text + first, end - first, "STATUS", 6) != NULL ||
           memmem(line->text + first, end - first, "cudaError", 9) != NULL ||
           memmem(line->text + first, end - first, "hipError", 8) != NULL;
}

/* Words that people use, too. */
static bool is_plain(vw__word word)
{
    return word <= VW__WORD_MEMORY_SHORT_CHINESE && word != VW__WORD_RESOURCE_EXHAUSTED &&
           word != VW__WORD_OOM_WHEN_ALLOCATING && word != VW__WORD_FAILED_WITH_OOM;
}

/* Are the words the whole of what the line says, or the beginning or the end of it? */
static bool is_statement_of_its_own(const near_line *line)
{
    enum { MOST_WORDS = 12 };
    size_t words = 0;
    for (size_t i = 0; i < line->size_bytes; i++)
        words += line->text[i] > ' ' && (i == 0 || line->text[i - 1] == ' ');
    size_t before = line->at, behind = line->end;
    while (before > 0 && line->text[before - 1] == ' ')
        before--;
    while (is_name_byte(byte_at(line, behind)))
        behind++;
    char last = before > 0 ? line->text[before - 1] : ':';
    char next = byte_at(line, behind);
    bool is_begin = !is_name_byte(last) && last != ',' && last != '-';
    bool is_end = next == '\0' || strchr(".,:;!)]}\"'`", next) != NULL;
    return words <= MOST_WORDS && (is_begin || is_end);
}

/* ---- advice ---------------------------------------------------------------------------------- */

static bool is_sentence_end(const vw__region *region, size_t at)
{
    char letter = region->letters[at];
    size_t clean = region->clean_of[at] + (size_t)1;
    return (letter == '.' || letter == '!' || letter == ';') &&
           (clean >= region->clean_bytes || (unsigned char)region->clean[clean] <= ' ');
}

bool vw__error_is_mention(const vw__region *region, size_t first, size_t at)
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
        for (size_t k = 0; k < sizeof before / sizeof *before; k++)
            if (vw__region_continues(region, i - 1, before[k]))
                return true;
    }
    /* Behind the word itself, whichever it was: within its letters and just after them. */
    for (size_t i = at + 4; i < at + 32 && i < region->letter_count; i++) {
        for (size_t k = 0; k < sizeof behind / sizeof *behind; k++)
            if (vw__region_continues(region, i, behind[k]))
                return true;
        if (is_sentence_end(region, i))
            break;
    }
    near_line line = line_of(region, at, at + 1);
    return is_comment(&line);
}

/* ---- the shape ------------------------------------------------------------------------------- */

vw__error_shape vw__error_shape_of(const vw__region *region, const vw__error_rule *rule,
                                   const vw__error_place *place)
{
    size_t word_end = place->at + strlen(vw__word_text(rule->word));
    if (word_end > region->letter_count)
        word_end = region->letter_count;
    near_line line = line_of(region, place->at, word_end);
    size_t rest_bytes;
    const char *rest = next_line(region, place->at, &rest_bytes);
    if (rule->word ==
        VW__WORD_NO_GPU_BLOCKS) /* a counter at zero is what it says: "# GPU blocks: 0" */
        return VW__SHAPE_ERROR;
    if (is_comment(&line) || is_statement(&line) || ends_like_code(&line) || is_argument(&line) ||
        is_in_name(&line) || is_zero_counter(&line) || is_changelog(&line) ||
        is_about_name(&line) || is_got_over(&line))
        return VW__SHAPE_NOTHING;
    if (rest_bytes > 21 && strncasecmp(rest, "exception raised when", 21) == 0)
        return VW__SHAPE_NOTHING;
    bool is_raised = begins(&line, 0, "raise ") || begins(&line, 0, "throw ");
    if ((rule->flags & VW__RULE_CERTAIN) != 0) /* tracebacks quote the line that raised it */
        return is_raised ? VW__SHAPE_BARE : VW__SHAPE_ERROR;
    if (is_raised || vw__error_is_mention(region, place->first, place->at))
        return VW__SHAPE_NOTHING;
    if (!is_plain(rule->word))
        return VW__SHAPE_ERROR;
    if (has_error_head(&line, line.end + 6) || has_failure(&line) || is_constant(&line))
        return VW__SHAPE_ERROR;
    return is_statement_of_its_own(&line) ? VW__SHAPE_BARE : VW__SHAPE_NOTHING;
}
