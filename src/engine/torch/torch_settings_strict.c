/* torch_settings_strict.c - checks the option string before PyTorch's parser reads it.
 *
 * PyTorch's parser (torch_settings_parse.c) lets a great deal pass: junk after numbers, keys given
 * twice, negative sizes, a missing comma. This check knows the same keys with the same ranges, and
 * refuses whatever is doubtful with the place, what was expected and what was found. What is sound
 * but does nothing becomes a warning. The check sets no values: a string that passes goes through
 * PyTorch's parser, which accepts it, so that a value is set in one place. White space is therefore
 * allowed only where the release drops it. */
#include "engine/torch/torch_settings_parse.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h> /* snprintf */
#include <string.h>

#include "base/c_locale.h"
#include "base/checked_math.h"
#include "base/error.h"

enum {
    MOST_WORD_BYTES = 64,  /* longer than any key or number */
    MOST_FOUND_BYTES = 40, /* of a word, in an error */
    MOST_EXPECTED_BYTES = 160,
};

#define SEPARATORS ",:[]"
#define WHITE_SPACE " \t\n\v\f\r"
#define LAST_BOUNDARY_MB (UINT64_C(1) << (VW__TORCH_ROUNDUP_ENTRIES - 1))

/* A part of the string. Length 0: its end. */
typedef struct slice {
    const char *start;
    size_t length;
} slice;

typedef struct reader {
    const vw__torch_rules *rules;
    vw__torch_settings *next;
    const char *text;
    const char *cursor;
    slice values[VW__TORCH_KEYS]; /* where the value of a key was, for what is checked at the end */
    uint64_t sizes[VW__TORCH_KEYS]; /* the values of keys that are sizes, in bytes */
    bool is_given[VW__TORCH_KEYS];
} reader;

/* ---- saying what is wrong -------------------------------------------------------------------- */

static vw_status fail_at(const reader *r, slice found, const char *subject, const char *expected)
{
    size_t position = (size_t)(found.start - r->text) + 1;
    if (found.length == 0)
        return vw__fail(VW_ERR_BAD_SETTING, "at character %zu: %s, expected %s, found the end",
                        position, subject, expected);
    int shown = (int)(found.length < MOST_FOUND_BYTES ? found.length : MOST_FOUND_BYTES);
    return vw__fail(VW_ERR_BAD_SETTING, "at character %zu: %s, expected %s, found '%.*s'%s",
                    position, subject, expected, shown, found.start,
                    found.length > MOST_FOUND_BYTES ? "..." : "");
}

/* Levenshtein's: how many letters to add, drop or change. `word` is shorter than MOST_WORD_BYTES.
 */
static size_t edit_distance(const char *word, const char *name)
{
    size_t row[MOST_WORD_BYTES];
    size_t length = strlen(word);
    for (size_t i = 0; i <= length; i++)
        row[i] = i;
    for (size_t n = 0; name[n] != '\0'; n++) {
        size_t diagonal = row[0];
        row[0] = n + 1;
        for (size_t i = 1; i <= length; i++) {
            size_t best = diagonal + (word[i - 1] != name[n]);
            diagonal = row[i];
            if (row[i] + 1 < best)
                best = row[i] + 1;
            if (row[i - 1] + 1 < best)
                best = row[i - 1] + 1;
            row[i] = best;
        }
    }
    return row[length];
}

static bool exists_in(const vw__torch_key *key, int version)
{
    return key->first_version <= version && version <= key->last_version;
}

static vw_status fail_unknown_key(const reader *r, slice found, const char *word)
{
    char subject[MOST_EXPECTED_BYTES], expected[MOST_EXPECTED_BYTES];
    const char *nearest = NULL;
    size_t least = SIZE_MAX;
    int version = r->rules->version;
    snprintf(subject, sizeof subject, "PyTorch %d.%d has no such key", version / 100,
             version % 100);
    const vw__torch_key *key;
    for (size_t i = 0; (key = vw__torch_key_at(i)) != NULL; i++) {
        if (exists_in(key, version)) {
            size_t distance = edit_distance(word, key->name);
            if (distance < least) {
                least = distance;
                nearest = key->name;
            }
        } else if (strcmp(key->name, word) == 0) {
            snprintf(subject, sizeof subject, "PyTorch %d.%d has no such key, %d.%d has",
                     version / 100, version % 100, key->first_version / 100,
                     key->first_version % 100);
        }
    }
    if (nearest != NULL && least <= strlen(nearest) / 2)
        snprintf(expected, sizeof expected, "a key such as %s", nearest);
    else
        snprintf(expected, sizeof expected, "one of its keys"); /* nothing near: no guess */
    return fail_at(r, found, subject, expected);
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static void skip_space(reader *r)
{
    r->cursor +=
        strspn(r->cursor, r->rules->grammar == VW__TORCH_GRAMMAR_SEPARATORS ? " " : WHITE_SPACE);
}

/* Around a colon the first grammar would end the word. */
static void skip_space_in_pair(reader *r)
{
    if (r->rules->grammar != VW__TORCH_GRAMMAR_WORDS)
        skip_space(r);
}

/* What stands at the cursor: a word, or else one character. */
static slice look(const reader *r)
{
    slice found = {r->cursor, strcspn(r->cursor, SEPARATORS WHITE_SPACE)};
    if (found.length == 0 && *r->cursor != '\0')
        found.length = 1;
    return found;
}

static bool is_word(slice found)
{
    return found.length > 0 && !is_one_of(*found.start, SEPARATORS WHITE_SPACE);
}

static bool is_text(slice found, const char *text)
{
    return found.length == strlen(text) && memcmp(found.start, text, found.length) == 0;
}

static vw_status take_character(reader *r, const char *character, const char *subject)
{
    slice found = look(r);
    if (!is_text(found, character)) {
        char expected[] = "' '";
        expected[1] = *character;
        return fail_at(r, found, subject, expected);
    }
    r->cursor++;
    return VW_OK;
}

/* Steps over a comma, if there is one: one more item must follow. */
static bool takes_comma(reader *r)
{
    if (*r->cursor != ',')
        return false;
    r->cursor++;
    return true;
}

static vw_status take_word(reader *r, const char *subject, const char *expected, slice *out)
{
    slice found = look(r);
    if (!is_word(found))
        return fail_at(r, found, subject, expected);
    r->cursor += found.length;
    *out = found;
    return VW_OK;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Digits only, at most `most`. */
static bool read_whole(slice word, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < word.length; i++) {
        if (!is_one_of(word.start[i], "0123456789") || !vw__mul_u64(value, 10, &value) ||
            !vw__add_u64(value, (uint64_t)(word.start[i] - '0'), &value))
            return false;
    }
    if (value > most)
        return false;
    *out = value;
    return true;
}

/* As strtod, which PyTorch uses too, but all of the word and nothing exotic. */
static bool read_fraction(slice word, double *out)
{
    char copy[MOST_WORD_BYTES];
    if (word.length >= sizeof copy || !is_one_of(*word.start, "0123456789."))
        return false;
    memcpy(copy, word.start, word.length);
    copy[word.length] = '\0';
    char *end = NULL;
    errno = 0;
    double value = vw__c_locale_strtod(copy, &end);
    if (*end != '\0' || errno == ERANGE || strspn(copy, "0123456789.eE+-") != word.length)
        return false;
    *out = value;
    return true;
}

/* Before 2.10 PyTorch reads numbers as ints. */
static uint64_t most_of(const reader *r, uint64_t most)
{
    return r->rules->grammar == VW__TORCH_GRAMMAR_TOKENS ? most : vw__min_u64(most, INT_MAX);
}

/* ---- values ---------------------------------------------------------------------------------- */

static vw_status check_bool(const reader *r, const vw__torch_key *key, slice word)
{
    bool is_bool = is_text(word, "True") || is_text(word, "False");
    return is_bool ? VW_OK : fail_at(r, word, key->name, "True or False");
}

static vw_status check_mebibytes(reader *r, const vw__torch_key *key, slice word)
{
    uint64_t value = 0;
    if (!read_whole(word, most_of(r, UINT64_MAX / VW__TORCH_BYTES_PER_MB), &value))
        return fail_at(r, word, key->name, "a whole number of MiB");
    if (key->id == VW__TORCH_KEY_LARGE_SEGMENT && value <= 10)
        return fail_at(r, word, key->name, "more than 10 MiB");
    if (key->id == VW__TORCH_KEY_PINNED_RESERVE && value == 0)
        return fail_at(r, word, key->name, "more than 0 MiB");
    r->sizes[key->id] = vw__torch_mebibytes(value);
    return VW_OK;
}

static vw_status check_count(const reader *r, const vw__torch_key *key, slice word)
{
    uint64_t value = 0;
    if (!read_whole(word, VW__TORCH_MOST_REGISTER_THREADS, &value) ||
        !vw__is_power_of_two_u64(value))
        return fail_at(r, word, key->name, "a power of two up to 128");
    return VW_OK;
}

static vw_status check_fraction(const reader *r, const vw__torch_key *key, slice word)
{
    double value = 0;
    bool has_ends = key->id == VW__TORCH_KEY_FRACTION; /* 0 and 1 are allowed */
    if (!read_fraction(word, &value) ||
        (has_ends ? !(value >= 0 && value <= 1) : !(value > 0 && value < 1)))
        return fail_at(r, word, key->name,
                       has_ends ? "a number from 0 to 1" : "a number above 0 and below 1");
    return VW_OK;
}

static vw_status check_backend(const reader *r, const vw__torch_key *key, slice word)
{
    bool is_async = is_text(word, "cudaMallocAsync");
    if (!is_async && !is_text(word, "native"))
        return fail_at(r, word, key->name, "native or cudaMallocAsync");
    vw__torch_backend backend =
        is_async ? VW__TORCH_BACKEND_CUDA_MALLOC_ASYNC : VW__TORCH_BACKEND_NATIVE;
    if (r->next->is_backend_fixed && r->next->backend != backend)
        return fail_at(r, word, "the backend cannot change while the program runs",
                       is_async ? "native" : "cudaMallocAsync");
    return VW_OK;
}

/* ---- the roundup list ------------------------------------------------------------------------ */

static vw_status check_divisions(const reader *r, const vw__torch_key *key, slice word,
                                 bool may_be_zero)
{
    uint64_t divisions = 0;
    if (!read_whole(word, most_of(r, UINT64_C(1) << 62), &divisions) ||
        !(vw__is_power_of_two_u64(divisions) || (may_be_zero && divisions == 0)))
        return fail_at(r, word, key->name,
                       may_be_zero ? "a power of two, or 0 for off" : "a power of two");
    if (divisions != 1)
        return VW_OK;
    if (r->rules->roundup == VW__TORCH_ROUNDUP_TABLE_ONE_IS_ERROR)
        return fail_at(r, word, "PyTorch 2.0 to 2.3 fail requests that meet a count of 1",
                       "2 or more");
    vw__torch_warn(r->next, "%s: a count of 1 rounds nothing up", key->name);
    return VW_OK;
}

/* One boundary; *entry is that of the last one, or -1. */
static vw_status check_boundary(const reader *r, const vw__torch_key *key, slice word, int *entry)
{
    uint64_t boundary_mb = 0;
    if (!read_whole(word, LAST_BOUNDARY_MB, &boundary_mb) || !vw__is_power_of_two_u64(boundary_mb))
        return fail_at(r, word, key->name, "a boundary: a power of two of MiB up to 32768, or >");
    int here = (int)vw__floor_log2_u64(boundary_mb);
    if (here <= *entry)
        return fail_at(r, word, key->name, "boundaries in rising order");
    if (*entry >= 0 && here > *entry + 1)
        vw__torch_warn(r->next,
                       "%s: sizes from %" PRIu64 " to %" PRIu64
                       " MiB are not rounded up, no boundary of the list names them",
                       key->name, UINT64_C(2) << *entry, boundary_mb);
    *entry = here;
    return VW_OK;
}

/* The cursor is behind '['. */
static vw_status take_roundup_list(reader *r, const vw__torch_key *key)
{
    int entry = -1;
    bool is_rest = false;
    do {
        slice boundary, word;
        skip_space(r);
        VW__TRY(take_word(r, key->name, "a boundary in MiB", &boundary));
        if (is_rest)
            return fail_at(r, boundary, key->name, "] after >");
        is_rest = is_text(boundary, ">");
        if (is_rest && entry < 0)
            return fail_at(r, boundary, key->name, "a boundary before >");
        skip_space(r);
        VW__TRY(take_character(r, ":", key->name));
        skip_space(r);
        VW__TRY(take_word(r, key->name, "a count of divisions", &word));
        VW__TRY(check_divisions(r, key, word, true));
        if (!is_rest)
            VW__TRY(check_boundary(r, key, boundary, &entry));
        skip_space(r);
    } while (takes_comma(r));
    VW__TRY(take_character(r, "]", key->name));
    if (!is_rest && entry < VW__TORCH_ROUNDUP_ENTRIES - 1)
        vw__torch_warn(r->next,
                       "%s: sizes from %" PRIu64 " MiB on are not rounded up, the list has no >",
                       key->name, UINT64_C(2) << entry);
    if (is_rest && !r->rules->roundup_rest_keeps_last)
        vw__torch_warn(r->next, "%s: before PyTorch 2.10, > also replaces the last count before it",
                       key->name);
    return VW_OK;
}

/* ---- the reserve for expandable segments ----------------------------------------------------- */

static vw_status check_reserve(const reader *r, const vw__torch_key *key, slice word)
{
    char copy[MOST_WORD_BYTES] = "";
    if (word.length < sizeof copy)
        memcpy(copy, word.start, word.length);
    if (!vw__torch_is_reserve(copy))
        return fail_at(r, word, key->name, "a fraction such as 0.5 or a size such as 40G");
    return VW_OK;
}

/* The cursor is behind '['. */
static vw_status take_reserve_by_class(reader *r, const vw__torch_key *key)
{
    do {
        slice name, word;
        skip_space(r);
        VW__TRY(take_word(r, key->name, "a class name", &name));
        skip_space(r);
        VW__TRY(take_character(r, ":", key->name));
        skip_space(r);
        VW__TRY(take_word(r, key->name, "a fraction or a size", &word));
        VW__TRY(check_reserve(r, key, word));
        skip_space(r);
    } while (takes_comma(r));
    return take_character(r, "]", key->name);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static vw_status take_list(reader *r, const vw__torch_key *key)
{
    r->cursor++;
    return key->kind == VW__TORCH_VALUE_ROUNDUP ? take_roundup_list(r, key)
                                                : take_reserve_by_class(r, key);
}

static vw_status take_value(reader *r, const vw__torch_key *key)
{
    bool may_be_list = key->kind == VW__TORCH_VALUE_RESERVE_BY_CLASS ||
                       (key->kind == VW__TORCH_VALUE_ROUNDUP &&
                        r->rules->roundup != VW__TORCH_ROUNDUP_SINGLE_COUNT);
    if (may_be_list && *r->cursor == '[')
        return take_list(r, key);
    slice word;
    VW__TRY(take_word(r, key->name, "a value", &word));
    r->values[key->id] = word;
    switch (key->kind) {
    case VW__TORCH_VALUE_BOOL:
        return check_bool(r, key, word);
    case VW__TORCH_VALUE_MEBIBYTES:
        return check_mebibytes(r, key, word);
    case VW__TORCH_VALUE_COUNT:
        return check_count(r, key, word);
    case VW__TORCH_VALUE_FRACTION:
        return check_fraction(r, key, word);
    case VW__TORCH_VALUE_ROUNDUP:
        return check_divisions(r, key, word, false);
    case VW__TORCH_VALUE_BACKEND:
        return check_backend(r, key, word);
    case VW__TORCH_VALUE_RESERVE:
        return check_reserve(r, key, word);
    case VW__TORCH_VALUE_RESERVE_BY_CLASS:
        return fail_at(r, word, key->name, "a list in brackets");
    }
    return VW_OK;
}

static vw_status take_pair(reader *r)
{
    slice word;
    VW__TRY(take_word(r, "a setting", "a key", &word));
    char name[MOST_WORD_BYTES];
    size_t length = word.length < sizeof name ? word.length : sizeof name - 1;
    memcpy(name, word.start, length);
    name[length] = '\0';
    const vw__torch_key *key = vw__torch_find_key(name, r->rules->version);
    if (key == NULL)
        return fail_unknown_key(r, word, name);
    if (r->is_given[key->id])
        return fail_at(r, word, "a key is given twice", "each key once");
    r->is_given[key->id] = true;
    skip_space_in_pair(r);
    VW__TRY(take_character(r, ":", key->name));
    skip_space_in_pair(r);
    return take_value(r, key);
}

/* ---- the whole string ------------------------------------------------------------------------ */

/* The two sizes that are held against large_segment_size_mb, which may come after them. */
static vw_status check_against_large_segment(const reader *r, vw__torch_key_id id, const char *name)
{
    uint64_t large_bytes = r->is_given[VW__TORCH_KEY_LARGE_SEGMENT]
                               ? r->sizes[VW__TORCH_KEY_LARGE_SEGMENT]
                               : r->next->large_segment_size_bytes;
    bool must_be_larger = r->rules->max_split_must_be_larger;
    if (!r->is_given[id] ||
        (must_be_larger ? r->sizes[id] > large_bytes : r->sizes[id] >= large_bytes))
        return VW_OK;
    char expected[MOST_EXPECTED_BYTES];
    snprintf(expected, sizeof expected, "%s %" PRIu64 " MiB",
             must_be_larger ? "more than" : "at least", large_bytes / VW__TORCH_BYTES_PER_MB);
    return fail_at(r, r->values[id], name, expected);
}

static void warn_of_what_has_no_effect(const reader *r)
{
    vw__torch_settings *next = r->next;
    const bool *is_given = r->is_given;
    if (is_given[VW__TORCH_KEY_GARBAGE_COLLECTION] && !(next->per_process_memory_fraction < 1))
        vw__torch_warn(next, "garbage_collection_threshold has no effect without a memory fraction "
                             "below 1");
    if (is_given[VW__TORCH_KEY_OVERSIZE_SLACK] && !is_given[VW__TORCH_KEY_MAX_SPLIT])
        vw__torch_warn(next, "max_non_split_rounding_mb has no effect without max_split_size_mb");
    if (is_given[VW__TORCH_KEY_ROUNDUP_BYPASS] && !is_given[VW__TORCH_KEY_ROUNDUP])
        vw__torch_warn(
            next, "roundup_bypass_threshold_mb has no effect without roundup_power2_divisions");
    if (is_given[VW__TORCH_KEY_PINNED_THREADS] && !next->pinned_use_host_register)
        vw__torch_warn(next, "pinned_num_register_threads has no effect without "
                             "pinned_use_cuda_host_register:True");
    if ((is_given[VW__TORCH_KEY_RESERVE] || is_given[VW__TORCH_KEY_RESERVE_BY_CLASS]) &&
        !next->is_expandable)
        vw__torch_warn(next, "a reserve has no effect without expandable_segments:True");
    if (next->backend == VW__TORCH_BACKEND_CUDA_MALLOC_ASYNC &&
        (is_given[VW__TORCH_KEY_MAX_SPLIT] || is_given[VW__TORCH_KEY_ROUNDUP] ||
         is_given[VW__TORCH_KEY_GARBAGE_COLLECTION] || is_given[VW__TORCH_KEY_EXPANDABLE]))
        vw__torch_warn(next, "backend:cudaMallocAsync ignores max_split_size_mb, "
                             "roundup_power2_divisions, garbage_collection_threshold and "
                             "expandable_segments");
}

vw_status vw__torch_parse_strict(vw__torch_settings *next, const vw__torch_rules *rules,
                                 const char *text)
{
    reader r = {.rules = rules, .next = next, .text = text, .cursor = text};
    skip_space(&r);
    if (*r.cursor != '\0') {
        if (rules->grammar == VW__TORCH_GRAMMAR_NONE)
            return fail_at(&r, look(&r), "PyTorch before 1.10 reads no settings", "nothing");
        do {
            skip_space(&r);
            VW__TRY(take_pair(&r));
            skip_space(&r);
        } while (takes_comma(&r));
        if (*r.cursor != '\0')
            return fail_at(&r, look(&r), "after a setting", "',' or the end");
    }
    VW__TRY(check_against_large_segment(&r, VW__TORCH_KEY_MAX_SPLIT, "max_split_size_mb"));
    VW__TRY(
        check_against_large_segment(&r, VW__TORCH_KEY_OVERSIZE_SLACK, "max_non_split_rounding_mb"));
    size_t warning_bytes = strlen(next->warnings);
    VW__TRY(vw__torch_parse_like_torch(next, rules, text, strlen(text)));
    next->warnings[warning_bytes] = '\0'; /* PyTorch's own: those below say more */
    warn_of_what_has_no_effect(&r);
    return VW_OK;
}
