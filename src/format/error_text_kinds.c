/* error_text_kinds.c - whose message it is.
 *
 * The rules (error_text_rules_host.c, error_text_rules_gpu.c) say what a word means beside another.
 * Here they are asked. */
#include "format/error_text_parts.h"

#include <string.h>

/* ---- checks that a rule asks for ------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The clean line around a letter, without the blanks at its ends. */
typedef struct clean_line {
    size_t first, end;
} clean_line;

static clean_line line_around(const vw__region *region, size_t letter)
{
    clean_line line = {region->clean_of[letter], region->clean_of[letter]};
    while (line.first > 0 && region->clean[line.first - 1] != '\n')
        line.first--;
    while (line.end < region->clean_bytes && region->clean[line.end] != '\n')
        line.end++;
    while (line.first < line.end && region->clean[line.first] == ' ')
        line.first++;
    while (line.end > line.first &&
           (region->clean[line.end - 1] == ' ' || region->clean[line.end - 1] == '.'))
        line.end--;
    return line;
}

/* A shell says it alone on its line, or with the process before it and the command behind. */
static bool is_killed_line(const vw__region *region, size_t at)
{
    clean_line line = line_around(region, at);
    size_t before = region->clean_of[at], behind = before;
    while (behind < line.end && (unsigned char)region->clean[behind] > ' ' &&
           region->clean[behind] != ':')
        behind++;
    while (before > line.first && region->clean[before - 1] == ' ')
        before--;
    const char *rest = region->clean + behind;
    size_t rest_bytes = line.end > behind ? line.end - behind : 0;
    bool is_alone = rest_bytes == 0 || (rest_bytes == 3 && memcmp(rest, ": 9", 3) == 0);
    if (before == line.first)
        return is_alone;
    if (before < region->clean_of[at] && is_digit(region->clean[before - 1])) /* "4711 Killed" */
        return rest_bytes == 0 || rest[0] == ' ';
    return before - line.first >= 4 && before - line.first <= 8 &&
           memcmp(region->clean + before - 3, "sh:", 3) == 0; /* "zsh: killed" */
}

/* Nothing that goes on with a letter or a digit at either end: "EL0004", not "model0004". */
static bool is_whole_code(const vw__region *region, size_t at, size_t length)
{
    size_t first = region->clean_of[at], behind = region->clean_of[at + length - 1] + (size_t)1;
    bool is_begun =
        first > 0 &&
        (is_digit(region->clean[first - 1]) ||
         ((region->clean[first - 1] | 0x20) >= 'a' && (region->clean[first - 1] | 0x20) <= 'z'));
    return !is_begun && (behind >= region->clean_bytes || !is_digit(region->clean[behind]));
}

/* 137, or -9: killed by signal 9, as shells and as Python say it. */
static bool is_killed_code(const vw__region *region, vw__word word, size_t at)
{
    if (word == VW__WORD_ASCEND_CODE || word == VW__WORD_DRIVER_ERROR_2)
        return is_whole_code(region, at, strlen(vw__word_text(word)));
    size_t end = at + 24 < region->letter_count ? at + 24 : region->letter_count;
    while (at < end && region->letters[at] >= 'a' && region->letters[at] <= 'z')
        at++;
    while (at < end && !is_digit(region->letters[at])) {
        if (strchr(":=(,[", region->letters[at]) == NULL)
            return false;
        at++;
    }
    size_t digits = at;
    while (digits < end && is_digit(region->letters[digits]))
        digits++;
    if (digits - at == 3)
        return memcmp(region->letters + at, "137", 3) == 0;
    size_t clean = at < end ? region->clean_of[at] : 0;
    return digits - at == 1 && region->letters[at] == '9' && clean > 0 &&
           region->clean[clean - 1] == '-';
}

/* "error: 0.25" is a figure. MemoryError is an error's name only as a word of its own. */
static bool is_error_line(const vw__region *region, vw__word word, size_t at)
{
    if (word == VW__WORD_MEMORY_ERROR) {
        size_t behind = at + strlen("memoryerror");
        bool is_word = behind >= region->letter_count || region->letters[behind] == ':' ||
                       region->clean_of[behind] > region->clean_of[behind - 1] + 1;
        return is_word && !vw__region_precedes(region, at, "outof");
    }
    while (at < region->letter_count && region->letters[at] != ':')
        at++;
    return at + 1 < region->letter_count && !is_digit(region->letters[at + 1]);
}

/* A program that is about to allocate something says so, too. */
static bool is_failed_request(const vw__region *region, size_t at)
{
    static const char *const before[] = {"failed",     "unable",    "tried", "failure",
                                         "attempting", "attempted", "fails", "memory"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (vw__region_precedes(region, at, before[i]))
            return true;
    return false;
}

static bool passes(const vw__region *region, const vw__error_rule *rule, size_t at)
{
    if (rule->word == VW__WORD_TO_ALLOCATE && (rule->flags & VW__RULE_NEEDS_SIZE) != 0 &&
        !is_failed_request(region, at))
        return false;
    if ((rule->flags & VW__RULE_CHECK_KILLED) != 0 && !is_killed_line(region, at))
        return false;
    if ((rule->flags & VW__RULE_CHECK_CODE) != 0 && !is_killed_code(region, rule->word, at))
        return false;
    return (rule->flags & VW__RULE_CHECK_ERROR) == 0 || is_error_line(region, rule->word, at);
}

/* ---- asking the rules ------------------------------------------------------------------------ */

size_t vw__error_next_head(const vw__region *region, size_t at, size_t last)
{
    static const vw__word heads[] = {VW__WORD_CUDA_HEAD, VW__WORD_HIP_HEAD, VW__WORD_XPU_HEAD,
                                     VW__WORD_MPS_HEAD};
    size_t head, first = SIZE_MAX;
    for (size_t i = 0; at > 0 && i < sizeof heads / sizeof *heads; i++)
        if (vw__region_has(region, heads[i], at, last, &head) && head < first &&
            vw__region_line_start(region, head) > region->clean_of[at - 1])
            first = head;
    return first;
}

/* Is what was found ahead part of another message? "torch.OutOfMemoryError: CUDA out of memory"
 * says it twice, on two lines where a terminal broke them. */
static bool is_of_next_message(const vw__region *region, size_t end, size_t beside)
{
    return beside > end && !vw__region_continues(region, end, "error") &&
           vw__error_next_head(region, end, beside) <= beside;
}

static const vw__error_rule *find_in(const vw__error_rule *rules, size_t count,
                                     const vw__region *region, vw__word word,
                                     vw__error_place *place)
{
    for (size_t i = 0; i < count; i++) {
        const vw__error_rule *rule = &rules[i];
        size_t beside = place->at;
        if (rule->word != word)
            continue;
        size_t first = place->at >= rule->back ? place->at - rule->back : 0;
        if (first < place->first)
            first = place->first;
        if (rule->beside != VW__WORD_COUNT &&
            !vw__region_has(region, rule->beside, first, place->at + rule->ahead, &beside))
            continue;
        size_t end = place->at + strlen(vw__word_text(word));
        if (!passes(region, rule, place->at) || is_of_next_message(region, end, beside))
            continue;
        size_t beside_end = beside;
        if (rule->beside != VW__WORD_COUNT)
            beside_end += strlen(vw__word_text(rule->beside));
        place->start = beside < place->at ? beside : place->at;
        place->end = beside_end > end ? beside_end : end;
        return rule;
    }
    return NULL;
}

/* Words that only say that an allocation failed. */
static bool is_vague(vw__word word)
{
    return word == VW__WORD_TO_ALLOCATE || word == VW__WORD_FAILED_TO_ALLOC ||
           word == VW__WORD_CANNOT_ALLOCATE || word == VW__WORD_COULD_NOT_ALLOCATE ||
           word == VW__WORD_ALLOC_FAILED || word == VW__WORD_MEMORY_ERROR;
}

const vw__error_rule *vw__error_rule_find(const vw__region *region, vw__word word,
                                          vw__error_place *place)
{
    enum { NEAR_ENOUGH = 100 };
    size_t original = place->at, next;
    if (word == VW__WORD_FAILED_TO_ALLOC &&
        vw__region_has(region, VW__WORD_TO_ALLOCATE, place->at, place->at + 6, &place->at))
        word = VW__WORD_TO_ALLOCATE;
    const vw__error_rule *rule = find_in(vw__host_rules, vw__host_rule_count, region, word, place);
    if (rule != NULL)
        return rule;
    if (is_vague(word) &&
        vw__region_has(region, VW__WORD_OUT_OF_MEMORY, place->at, place->at + NEAR_ENOUGH, &next)) {
        place->at = next;
        word = VW__WORD_OUT_OF_MEMORY;
        rule = find_in(vw__host_rules, vw__host_rule_count, region, word, place);
    }
    if (rule == NULL)
        rule = find_in(vw__gpu_rules, vw__gpu_rule_count, region, word, place);
    if (rule != NULL && original < place->start)
        place->start = original;
    return rule;
}

/* "XYZ out of memory. Tried to allocate": PyTorch on an accelerator that we do not know. */
static bool is_unknown_accelerator(const vw__region *region, size_t at)
{
    size_t end = region->clean_of[at];
    while (end > 0 && region->clean[end - 1] == ' ')
        end--;
    size_t first = end;
    while (first > 0 && region->clean[first - 1] >= 'A' && region->clean[first - 1] <= 'Z')
        first--;
    size_t length = end - first;
    bool is_rest_of_cuda =
        length < 4 && memcmp(region->clean + first, &"CUDA"[4 - length], length) == 0;
    bool is_gpu = length == 3 && memcmp(region->clean + first, "GPU", 3) == 0;
    return length >= 2 && length <= 8 && !is_gpu && !(first == 0 && is_rest_of_cuda);
}

vw__error_kind vw__error_rule_kind(const vw__region *region, const vw__error_rule *rule,
                                   const vw__error_place *place)
{
    size_t first = place->start > 240 ? place->start - 240 : 0;
    if (first < place->first)
        first = place->first;
    if (rule->beside == VW__WORD_OUT_OF_MEMORY_TRIED && is_unknown_accelerator(region, place->at))
        return VW__ERROR_TORCH_OTHER;
    if (rule->kind == VW__ERROR_TENSORFLOW &&
        (vw__region_has(region, VW__WORD_EXTERNAL_TENSORFLOW, first, place->at, NULL) ||
         vw__region_has(region, VW__WORD_EXTERNAL_XLA, first, place->at, NULL) ||
         vw__region_has(region, VW__WORD_JAX, first, place->at + 60, NULL)))
        return VW__ERROR_JAX;
    return rule->kind;
}
