/* error_text_repeats.c - a small table of lines without their digits. */
#include "format/error_text_repeats.h"

#include <string.h>

#include "format/error_text_region.h" /* vw__line_prefix */

/* Readings that must agree: what a line comes to may depend on the lines around it, and numbers are
 * told apart more exactly by reading them. */
enum { ENOUGH_READINGS = 48, ENOUGH_NUMBERS = 1024 };

static inline uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size_bytes)
{
    const char *text = bytes;
    uint64_t part;
    hash = mix(hash, size_bytes);
    for (; size_bytes >= sizeof part; text += sizeof part, size_bytes -= sizeof part) {
        memcpy(&part, text, sizeof part);
        hash = mix(hash, part);
    }
    part = 0;
    memcpy(&part, text, size_bytes);
    return mix(hash, part);
}

/* Digits are squeezed out without a branch, which nothing could foretell. */
static uint64_t hash_without_digits(uint64_t hash, const char *text, size_t size_bytes)
{
    unsigned char kept[VW__LINE_MOST_BYTES + sizeof(uint64_t)];
    size_t count = 0;
    for (size_t i = 0; i < size_bytes && i < VW__LINE_MOST_BYTES; i++) {
        unsigned char byte = (unsigned char)text[i];
        kept[count] = byte;
        count += (unsigned)(byte - '0') > 9;
    }
    memset(kept + count, 0, sizeof(uint64_t));
    return hash_bytes(hash, kept, count);
}

vw__line_key vw__line_key_of(const char *text, size_t size_bytes, size_t at, vw__word word,
                             bool is_line_start)
{
    enum { TELLING_BYTES = 160 }; /* behind the word: more need not be alike */
    vw__line_rank rank = {-1, false};
    size_t first = is_line_start ? vw__line_prefix(text, at, &rank) : 0;
    size_t end = size_bytes - at > TELLING_BYTES ? at + TELLING_BYTES : size_bytes;
    uint64_t hash = mix(mix(1, (uint64_t)word), (uint64_t)(rank.rank + 1));
    return (vw__line_key){.pattern = hash_without_digits(hash, text + first, end - first) | 1,
                          .said = hash_bytes(hash, text + at, size_bytes - at) | 1,
                          .behind_bytes = size_bytes - at,
                          .rank = rank.rank};
}

vw__line_pattern *vw__line_pattern_of(vw__line_repeats *repeats, const vw__line_key *key)
{
    return &repeats->patterns[(key->pattern >> 20) % VW__LINE_PATTERNS];
}

bool vw__line_is_settled(const vw__line_pattern *pattern, const vw__line_key *key)
{
    uint32_t enough = pattern->outcome == VW__LINE_NUMBERS ? ENOUGH_NUMBERS : ENOUGH_READINGS;
    return pattern->hash == key->pattern && pattern->count >= enough;
}

void vw__line_came_to(vw__line_pattern *pattern, const vw__line_key *key, vw__line_outcome outcome,
                      bool is_host)
{
    if (pattern->hash != key->pattern || pattern->outcome != (uint8_t)outcome)
        *pattern = (vw__line_pattern){key->pattern, 0, (uint8_t)outcome, is_host};
    pattern->count++;
}
