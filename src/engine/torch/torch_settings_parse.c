/* torch_settings_parse.c - the option string as PyTorch reads it.
 *
 * Three grammars have been in use (vw__torch_grammar), and each is followed with its oddities,
 * because a string that works must work here and a string that fails must fail here, in the same
 * words. The ones worth knowing:
 *
 *   - Numbers are read by std::stoull (before 2.10 std::stoi): white space and a sign may come
 *     first, junk may follow, a minus wraps around.
 *   - 2.10 and later never look at what stands where a separator should; they only notice when the
 *     tokens run out. "max_split_size_mb=100" is therefore one unknown key, but
 *     "max_split_size_mb,100" is fine.
 *   - They read the string twice, once for the keys all devices share and once for CUDA's, each
 *     time skipping the other's; before that, once more for large_segment_size_mb, wherever that
 *     word stands. So the order of complaints is not the order of the string.
 *   - 2.0 to 2.9 accept a list that breaks off after '[' or ','. One that breaks off after a value
 *     made them read past their tokens; here it is refused as a missing comma. */
#include "engine/torch/torch_settings_parse.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h> /* strtol, strtoull */
#include <string.h>

#include "base/c_locale.h"
#include "base/checked_math.h" /* vw__is_power_of_two_u64, vw__floor_log2_u64 */
#include "base/error.h"
#include "base/host_memory.h"

typedef struct parser {
    const vw__torch_rules *rules;
    vw__torch_settings *next;
    const char **tokens;
    size_t token_count;
    bool used_native_option; /* one that backend:cudaMallocAsync ignores, or is said to */
    bool used_async_backend;
} parser;

static bool is_old(const parser *p)
{
    return p->rules->grammar != VW__TORCH_GRAMMAR_TOKENS;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* What libstdc++ throws, whether the token is no number or does not fit: its own name. */
static vw_status fail_number(const char *function_name)
{
    return vw__fail(VW_ERR_BAD_SETTING, "%s", function_name);
}

static vw_status read_unsigned(const char *token, const char *function_name, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(token, &end, 10);
    if (end == token || errno == ERANGE)
        return fail_number(function_name);
    *out = value;
    return VW_OK;
}

static vw_status read_size(const parser *p, const char *token, uint64_t *out)
{
    if (!is_old(p))
        return read_unsigned(token, "stoull", out);
    char *end = NULL;
    errno = 0;
    long value = strtol(token, &end, 10);
    if (end == token || errno == ERANGE || value < INT_MIN || value > INT_MAX)
        return fail_number("stoi");
    *out = (uint64_t)value; /* -1 becomes the largest number, as a size_t does from an int */
    return VW_OK;
}

static vw_status read_double(const char *token, double *out)
{
    char *end = NULL;
    errno = 0;
    double value = vw__c_locale_strtod(token, &end);
    if (end == token || errno == ERANGE)
        return fail_number("stod");
    *out = value;
    return VW_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static vw_status fail_past_end(void)
{
    return vw__fail(VW_ERR_BAD_SETTING, "Index out of bounds in ConfigTokenizer");
}

static bool is_token(const parser *p, size_t index, const char *text)
{
    return strcmp(p->tokens[index], text) == 0;
}

static vw_status expect_separator(const parser *p, size_t index, const char *separator)
{
    if (!is_old(p))
        return index < p->token_count ? VW_OK : fail_past_end();
    if (index < p->token_count && is_token(p, index, separator))
        return VW_OK;
    return vw__fail(VW_ERR_BAD_SETTING, "Error parsing CachingAllocator settings, expected %s",
                    separator);
}

static vw_status expect_value(const parser *p, const vw__torch_key *key, size_t index)
{
    if (index < p->token_count)
        return VW_OK;
    if (!is_old(p))
        return fail_past_end();
    if (key->id == VW__TORCH_KEY_EXPANDABLE || key->id == VW__TORCH_KEY_RELEASE_LOCK)
        return vw__fail(VW_ERR_BAD_SETTING, "Expected a single True/False argument for %s",
                        key->name_in_errors);
    if (key->id == VW__TORCH_KEY_BACKEND)
        return vw__fail(VW_ERR_BAD_SETTING, "Error parsing backend value");
    return vw__fail(VW_ERR_BAD_SETTING, "Error, expecting %s value", key->name_in_errors);
}

static bool is_dropped(const parser *p, char c)
{
    return is_old(p) ? c == ' ' : c != '\0' && strchr(" \t\n\v\f\r", c) != NULL;
}

/* Cuts `text` into p->tokens; the characters go to `characters`, each token ended by a zero. A
 * token is one separator, or what stands between two, less what is dropped. */
static void cut_into_tokens(parser *p, const char *text, char *characters)
{
    char *start = characters, *end = characters;
    p->token_count = 0;
    for (;; text++) {
        bool is_separator = *text != '\0' && strchr(",:[]", *text) != NULL;
        if ((*text == '\0' || is_separator) && end > start) {
            p->tokens[p->token_count++] = start;
            *end++ = '\0';
            start = end;
        }
        if (*text == '\0')
            return;
        if (is_separator) {
            p->tokens[p->token_count++] = start;
            *end++ = *text;
            *end++ = '\0';
            start = end;
        } else if (!is_dropped(p, *text)) {
            *end++ = *text;
        }
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static vw_status take_bool(parser *p, const vw__torch_key *key, size_t index)
{
    bool is_true = is_token(p, index, "True");
    if (!is_true && !is_token(p, index, "False")) {
        if (is_old(p))
            return vw__fail(VW_ERR_BAD_SETTING, "Expected a single True/False argument for %s",
                            key->name_in_errors);
        return vw__fail(VW_ERR_BAD_SETTING,
                        "Expected 'True' or 'False' at index %zu in ConfigTokenizer but got '%s'",
                        index, p->tokens[index]);
    }
    *(bool *)vw__torch_key_field(key, p->next) = is_true;
    return VW_OK;
}

static vw_status take_mebibytes(parser *p, const vw__torch_key *key, const char *token)
{
    uint64_t value = 0;
    VW__TRY(read_size(p, token, &value));
    uint64_t large_mb = p->next->large_segment_size_bytes / VW__TORCH_BYTES_PER_MB;
    bool must_be_larger = p->rules->max_split_must_be_larger;
    switch (key->id) {
    case VW__TORCH_KEY_LARGE_SEGMENT:
        if (value <= 10)
            return vw__fail(VW_ERR_BAD_SETTING, "CachingAllocator option %s must be > 10 MB",
                            key->name);
        break;
    case VW__TORCH_KEY_MAX_SPLIT:
    case VW__TORCH_KEY_OVERSIZE_SLACK:
        if (must_be_larger ? value <= large_mb : value < large_mb)
            return vw__fail(VW_ERR_BAD_SETTING,
                            "CachingAllocator option %s too small, must be %s %" PRIu64, key->name,
                            must_be_larger ? ">" : ">=", large_mb);
        break;
    case VW__TORCH_KEY_PINNED_RESERVE:
        if (value == 0)
            return vw__fail(VW_ERR_BAD_SETTING,
                            "Pinned reserve segment size has to be greater than 0");
        break;
    default:
        break;
    }
    *(uint64_t *)vw__torch_key_field(key, p->next) = vw__torch_mebibytes(value);
    return VW_OK;
}

/* pinned_num_register_threads is the only count there is. */
static vw_status take_count(parser *p, const vw__torch_key *key, const char *token)
{
    uint64_t value = 0;
    VW__TRY(read_size(p, token, &value));
    if (!vw__is_power_of_two_u64(value)) {
        if (is_old(p))
            return vw__fail(VW_ERR_BAD_SETTING, "Number of register threads has to be power of 2 ");
        return vw__fail(VW_ERR_BAD_SETTING,
                        "Number of register threads has to be power of 2, got %" PRIu64, value);
    }
    if (value > VW__TORCH_MOST_REGISTER_THREADS) {
        if (is_old(p))
            return vw__fail(VW_ERR_BAD_SETTING,
                            "Number of register threads should be less than or equal to %d",
                            VW__TORCH_MOST_REGISTER_THREADS);
        return vw__fail(
            VW_ERR_BAD_SETTING,
            "Number of register threads should be less than or equal to %d, got %" PRIu64,
            VW__TORCH_MOST_REGISTER_THREADS, value);
    }
    *(uint64_t *)vw__torch_key_field(key, p->next) = value;
    return VW_OK;
}

static vw_status take_fraction(parser *p, const vw__torch_key *key, const char *token)
{
    double value = 0;
    VW__TRY(read_double(token, &value));
    if (key->id == VW__TORCH_KEY_FRACTION) {
        if (!(value >= 0.0 && value <= 1.0))
            return vw__fail(VW_ERR_BAD_SETTING,
                            "per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
    } else if (!(value > 0 && value < 1.0)) {
        if (!is_old(p))
            return vw__fail(VW_ERR_BAD_SETTING,
                            "garbage_collect_threshold is invalid, set it in (0.0, 1.0)");
        return vw__fail(VW_ERR_BAD_SETTING, "garbage_collect_threshold too %s, set it 0.0~1.0",
                        value > 0 ? "big" : "small");
    }
    *(double *)vw__torch_key_field(key, p->next) = value;
    return VW_OK;
}

static vw_status take_backend(parser *p, const char *token)
{
    static const char *const names[] = {
        [VW__TORCH_BACKEND_NATIVE] = "native",
        [VW__TORCH_BACKEND_CUDA_MALLOC_ASYNC] = "cudaMallocAsync",
    };
    bool is_async = strcmp(token, names[VW__TORCH_BACKEND_CUDA_MALLOC_ASYNC]) == 0;
    if (!is_async && strcmp(token, names[VW__TORCH_BACKEND_NATIVE]) != 0)
        return vw__fail(VW_ERR_BAD_SETTING,
                        "Unknown allocator backend, options are native and cudaMallocAsync");
    p->used_async_backend = is_async;
    vw__torch_backend backend =
        is_async ? VW__TORCH_BACKEND_CUDA_MALLOC_ASYNC : VW__TORCH_BACKEND_NATIVE;
    if (p->next->is_backend_fixed && p->next->backend != backend) {
        if (is_old(p))
            return vw__fail(VW_ERR_BAD_SETTING, "Allocator backend parsed at runtime != "
                                                "allocator backend parsed at load time");
        return vw__fail(VW_ERR_BAD_SETTING,
                        "Allocator backend parsed at runtime != "
                        "allocator backend parsed at load time, %s != %s",
                        token, names[p->next->backend]);
    }
    p->next->backend = backend;
    p->next->is_backend_fixed = true;
    return VW_OK;
}

/* ---- the roundup list ------------------------------------------------------------------------ */

static vw_status take_roundup_count(parser *p, const char *token)
{
    uint64_t divisions = 0;
    VW__TRY(read_size(p, token, &divisions));
    if (!vw__is_power_of_two_u64(divisions))
        return vw__fail(VW_ERR_BAD_SETTING, "For roundups, the %s has to be power of 2 ",
                        p->rules->roundup_text_is_misspelt ? "divisons" : "divisions");
    vw__torch_fill_roundup(p->next, 0, VW__TORCH_ROUNDUP_ENTRIES, divisions);
    return VW_OK;
}

/* One "boundary:divisions" pair whose parts are tokens already. */
static vw_status take_roundup_entry(parser *p, const char *boundary_token, const char *token,
                                    bool *is_first, size_t *last)
{
    uint64_t divisions = 0, boundary_mb = 0;
    VW__TRY(read_size(p, token, &divisions));
    if (divisions != 0 && !vw__is_power_of_two_u64(divisions))
        return vw__fail(VW_ERR_BAD_SETTING,
                        "For roundups, the %s has to be power of 2 or 0 to disable roundup ",
                        p->rules->roundup_text_is_misspelt ? "divisons" : "divisions");
    if (strcmp(boundary_token, ">") == 0) {
        vw__torch_fill_roundup(p->next, *last + (p->rules->roundup_rest_keeps_last ? 1 : 0),
                               VW__TORCH_ROUNDUP_ENTRIES, divisions);
        return VW_OK;
    }
    VW__TRY(read_unsigned(boundary_token, is_old(p) ? "stoul" : "stoull", &boundary_mb));
    if (!vw__is_power_of_two_u64(boundary_mb))
        return vw__fail(VW_ERR_BAD_SETTING, "For roundups, the intervals have to be power of 2 ");
    size_t entry = vw__floor_log2_u64(boundary_mb);
    if (entry > VW__TORCH_ROUNDUP_ENTRIES - 1)
        entry = VW__TORCH_ROUNDUP_ENTRIES - 1;
    if (*is_first)
        vw__torch_fill_roundup(p->next, 0, entry, divisions);
    p->next->roundup_divisions[entry] = divisions;
    *is_first = false;
    *last = entry;
    return VW_OK;
}

/* *index is that of '['; then that of ']', or one past the end where an old list breaks off. */
static vw_status take_roundup_list(parser *p, size_t *index)
{
    bool is_first = true;
    size_t last = 0;
    while (++*index < p->token_count && !is_token(p, *index, "]")) {
        const char *boundary_token = p->tokens[*index];
        VW__TRY(expect_separator(p, ++*index, ":"));
        if (++*index >= p->token_count)
            return is_old(p) ? vw__fail(VW_ERR_BAD_SETTING,
                                        "Error parsing roundup_power2_divisions value")
                             : fail_past_end();
        VW__TRY(take_roundup_entry(p, boundary_token, p->tokens[*index], &is_first, &last));
        if (*index + 1 >= p->token_count || !is_token(p, *index + 1, "]"))
            VW__TRY(expect_separator(p, ++*index, ","));
    }
    if (*index >= p->token_count && !is_old(p))
        return vw__fail(VW_ERR_BAD_SETTING, "Expected closing bracket ']' in ConfigTokenizer but "
                                            "reached end of config");
    return VW_OK;
}

/* ---- the reserve for expandable segments ----------------------------------------------------- */

static bool is_good_reserve(parser *p, const char *token)
{
    if (vw__torch_is_reserve(token))
        return true;
    vw__torch_warn(p->next,
                   "Ignoring invalid expandable-segment reserve value '%s' in "
                   "PYTORCH_CUDA_ALLOC_CONF (expected a positive, finite fraction like 0.5 or an "
                   "absolute size like 40G); using default.",
                   token);
    return false;
}

static vw_status take_reserve(parser *p, const char *token)
{
    if (!is_good_reserve(p, token))
        return VW_OK;
    vw__host_free(p->next->expandable_reserve);
    p->next->expandable_reserve = NULL;
    return vw__torch_copy_text(token, strlen(token), &p->next->expandable_reserve);
}

/* Appends to a text that has room. */
static char *append(char *end, const char *text)
{
    size_t length = strlen(text);
    memcpy(end, text, length + 1);
    return end + length;
}

/* *index is that of '['; then that of ']'. Entries of bad form are left out. */
static vw_status take_reserve_by_class(parser *p, size_t *index)
{
    size_t room_bytes = 3; /* "[]" */
    for (size_t i = *index; i < p->token_count; i++)
        room_bytes += strlen(p->tokens[i]) + 1;
    char *text = vw__host_alloc(room_bytes);
    if (text == NULL)
        return vw__fail_host_memory(room_bytes, "expandable_segments_reserve_by_class");
    char *end = append(text, "[");
    while (*index + 1 < p->token_count && !is_token(p, *index + 1, "]")) {
        if (*index + 4 >= p->token_count) { /* a name, a separator, a value, one more */
            *index = p->token_count;
            break;
        }
        const char *name = p->tokens[*index + 1], *value = p->tokens[*index + 3];
        if (is_good_reserve(p, value)) {
            end = end[-1] == '[' ? end : append(end, ",");
            end = append(append(append(end, name), ":"), value);
        }
        *index += is_token(p, *index + 4, ",") ? 4 : 3;
    }
    append(end, "]");
    if (++*index >= p->token_count) {
        vw__host_free(text);
        return fail_past_end();
    }
    vw__host_free(p->next->expandable_reserve_by_class);
    p->next->expandable_reserve_by_class = text;
    return VW_OK;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* The value of `key` begins at *index; afterwards it ends there. */
static vw_status take_value(parser *p, const vw__torch_key *key, size_t *index)
{
    const char *token = p->tokens[*index];
    if (key->id != VW__TORCH_KEY_BACKEND && (is_old(p) || !key->is_common))
        p->used_native_option = true;
    switch (key->kind) {
    case VW__TORCH_VALUE_BOOL:
        return take_bool(p, key, *index);
    case VW__TORCH_VALUE_MEBIBYTES:
        return take_mebibytes(p, key, token);
    case VW__TORCH_VALUE_COUNT:
        return take_count(p, key, token);
    case VW__TORCH_VALUE_FRACTION:
        return take_fraction(p, key, token);
    case VW__TORCH_VALUE_ROUNDUP:
        return strcmp(token, "[") == 0 ? take_roundup_list(p, index) : take_roundup_count(p, token);
    case VW__TORCH_VALUE_BACKEND:
        return take_backend(p, token);
    case VW__TORCH_VALUE_RESERVE:
        return take_reserve(p, token);
    case VW__TORCH_VALUE_RESERVE_BY_CLASS:
        return take_reserve_by_class(p, index);
    }
    return VW_OK;
}

/* The key stands at *index; afterwards its value ends there. */
static vw_status take_pair(parser *p, const vw__torch_key *key, size_t *index)
{
    VW__TRY(expect_separator(p, ++*index, ":"));
    VW__TRY(expect_value(p, key, ++*index));
    return take_value(p, key, index);
}

static vw_status skip_pair(parser *p, size_t *index)
{
    *index += 2;
    if (*index >= p->token_count)
        return fail_past_end();
    if (!is_token(p, *index, "["))
        return VW_OK;
    while (++*index < p->token_count)
        if (is_token(p, *index, "]"))
            return VW_OK;
    return vw__fail(VW_ERR_BAD_SETTING, "Expected closing bracket ']' in ConfigTokenizer but "
                                        "reached end of config");
}

/* ---- the grammars ---------------------------------------------------------------------------- */

static vw_status fail_unknown_option(const char *name)
{
    return vw__fail(VW_ERR_BAD_SETTING, "Unrecognized CachingAllocator option: %s", name);
}

/* 2.0-2.9 */
static vw_status parse_separators(parser *p)
{
    for (size_t i = 0; i < p->token_count; i++) {
        const vw__torch_key *key = vw__torch_find_key(p->tokens[i], p->rules->version);
        if (key == NULL)
            return fail_unknown_option(p->tokens[i]);
        VW__TRY(take_pair(p, key, &i));
        if (i + 1 < p->token_count)
            VW__TRY(expect_separator(p, ++i, ","));
    }
    return VW_OK;
}

/* 2.10+, one of the two readings. */
static vw_status parse_tokens_once(parser *p, bool is_common_reading)
{
    for (size_t i = 0; i < p->token_count; i++) {
        const vw__torch_key *key = vw__torch_find_key(p->tokens[i], p->rules->version);
        if (key == NULL)
            return vw__fail(VW_ERR_BAD_SETTING, "Unrecognized key '%s' in %s allocator config.",
                            p->tokens[i], is_common_reading ? "Accelerator" : "CUDA");
        if (key->is_common == is_common_reading && key->id != VW__TORCH_KEY_LARGE_SEGMENT)
            VW__TRY(take_pair(p, key, &i));
        else
            VW__TRY(skip_pair(p, &i));
        if (i + 1 < p->token_count)
            i++; /* a comma, one hopes */
    }
    return VW_OK;
}

static vw_status parse_tokens(parser *p)
{
    const vw__torch_key *large_segment =
        vw__torch_find_key("large_segment_size_mb", p->rules->version);
    for (size_t i = 0; large_segment != NULL && i < p->token_count; i++)
        if (is_token(p, i, large_segment->name))
            VW__TRY(take_pair(p, large_segment, &i));
    if (p->rules->parse_resets_oversize_slack)
        p->next->max_non_split_rounding_bytes = p->next->large_segment_size_bytes;
    VW__TRY(parse_tokens_once(p, true));
    return parse_tokens_once(p, false);
}

/* 1.10-1.13. Writes zeros into `text`. */
static vw_status parse_words(parser *p, char *text)
{
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t\n\v\f\r,", &rest); word != NULL;
         word = strtok_r(NULL, " \t\n\v\f\r,", &rest)) {
        char *value = word + strcspn(word, ":");
        size_t colons = strspn(value, ":");
        if (value[colons] == '\0')
            continue; /* no colon, or nothing after it */
        *value = '\0';
        value += colons;
        value[strcspn(value, ":")] = '\0';
        const vw__torch_key *key = vw__torch_find_key(word, p->rules->version);
        if (key == NULL)
            return fail_unknown_option(word);
        const char *token = value;
        size_t index = 0;
        p->tokens = &token;
        p->token_count = 1;
        if (key->kind == VW__TORCH_VALUE_ROUNDUP)
            VW__TRY(take_roundup_count(p, token)); /* "[" is no list yet, and no number */
        else
            VW__TRY(take_value(p, key, &index));
    }
    return VW_OK;
}

vw_status vw__torch_parse_like_torch(vw__torch_settings *next, const vw__torch_rules *rules,
                                     const char *text, size_t length)
{
    if (rules->grammar == VW__TORCH_GRAMMAR_NONE || length == 0) {
        if (rules->parse_resets_oversize_slack)
            next->max_non_split_rounding_bytes = next->large_segment_size_bytes;
        return VW_OK;
    }
    /* Each character may be a token of its own, and each token has a zero after it. */
    parser p = {.rules = rules, .next = next};
    size_t table_bytes = length * sizeof *p.tokens;
    char *memory = vw__host_alloc(table_bytes + 2 * length + 1);
    if (memory == NULL)
        return vw__fail_host_memory(table_bytes + 2 * length + 1, "reading the settings string");
    char *characters = memory + table_bytes;

    vw_status status = VW_OK;
    if (rules->grammar == VW__TORCH_GRAMMAR_WORDS) {
        memcpy(characters, text, length + 1);
        status = parse_words(&p, characters);
    } else {
        p.tokens = (const char **)(void *)memory;
        cut_into_tokens(&p, text, characters);
        status =
            rules->grammar == VW__TORCH_GRAMMAR_TOKENS ? parse_tokens(&p) : parse_separators(&p);
    }
    if (status == VW_OK && p.used_async_backend && p.used_native_option)
        vw__torch_warn(next, "backend:cudaMallocAsync ignores max_split_size_mb,"
                             "roundup_power2_divisions, and garbage_collect_threshold.");
    vw__host_free(memory);
    return status;
}
