/* error_text_tally.c - reports counted by what they say, and lines that repeat.
 *
 * Both keep hashes in tables of fixed size, so that a log that is full of errors costs no memory.
 */
#include "parse/error_text_internal.h"

#include <string.h>

enum { MOST_PROBES = 8 };

static inline uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_of_kind(const vw__error_text_report *report)
{
    uint64_t certainty = report->is_warning ? 2 : report->is_ambiguous ? 1 : 0;
    return mix(mix(1, certainty << 8 | (uint64_t)report->kind), (uint64_t)(report->rank + 1));
}

static uint64_t hash_of_report(const vw__error_text_report *report)
{
    uint64_t hash = hash_of_kind(report);
    hash = mix(hash, (uint64_t)(report->device + 1));
    hash = mix(hash, report->tried_bytes);
    hash = mix(hash, report->total_bytes);
    hash = mix(hash, report->free_bytes);
    hash = mix(hash, report->allocated_bytes);
    hash = mix(hash, report->reserved_bytes);
    hash = mix(hash, report->process_bytes);
    hash = mix(hash, report->allowed_bytes);
    hash = mix(hash, report->other_bytes);
    return mix(hash, mix(report->needed_bytes, report->available_bytes));
}

/* Returns whether it was seen before, and marks it seen. */
static bool was_seen(vw__error_text_tally *tally, uint64_t hash)
{
    hash |= 1; /* never 0 */
    for (size_t i = 0; i < MOST_PROBES; i++) {
        uint64_t *slot = &tally->seen[(hash >> 8 ^ i) % VW__ERROR_TEXT_TALLY_SLOTS];
        if (*slot == hash)
            return true;
        if (*slot == 0) {
            *slot = hash;
            return false;
        }
    }
    tally->seen[(hash >> 8) % VW__ERROR_TEXT_TALLY_SLOTS] = hash;
    return false;
}

static void count_rank(vw__error_text_tally *tally, int rank)
{
    if (rank < 0 || rank >= VW__ERROR_TEXT_TALLY_MOST_RANKS)
        return;
    uint64_t bit = UINT64_C(1) << rank % 64;
    tally->rank_count += (tally->ranks[rank / 64] & bit) == 0;
    tally->ranks[rank / 64] |= bit;
}

/* PyTorch has one name for the errors of all its allocators. */
static bool is_same_family(vw__error_text_kind a, vw__error_text_kind b)
{
    return a == b || (a == VW__ERROR_TEXT_TORCH_CUDA && b == VW__ERROR_TEXT_CUDA_ASYNC);
}

static bool completes(const vw__error_text_report *first, const vw__error_text_report *report,
                      uint64_t count)
{
    return count == 1 && is_same_family(first->kind, report->kind) && first->rank == report->rank &&
           !vw__error_text_report_has_numbers(first) && vw__error_text_report_has_numbers(report);
}

vw__error_text_report *vw__error_text_tally_place(vw__error_text_tally *tally,
                                                  const vw__error_text_report *report)
{
    vw__error_text_report *first = report->is_warning     ? &tally->warning
                                   : report->is_ambiguous ? &tally->ambiguous
                                                          : &tally->certain;
    uint64_t count = report->is_ambiguous ? tally->ambiguous_count : tally->certain_count;
    if (first->kind == VW__ERROR_TEXT_NONE ||
        (!report->is_warning && completes(first, report, count)))
        return first;
    return NULL;
}

void vw__error_text_tally_count(vw__error_text_tally *tally, const vw__error_text_report *report,
                                bool is_part)
{
    bool is_known_kind = was_seen(tally, hash_of_kind(report));
    bool has_numbers = vw__error_text_report_has_numbers(report);
    bool is_known = has_numbers ? was_seen(tally, hash_of_report(report)) : is_known_kind;
    if (report->is_warning || is_known || is_part)
        return;
    bool is_host = vw__error_text_kind_is_host(report->kind);
    if (report->is_ambiguous) {
        tally->ambiguous_count++;
        tally->ambiguous_host_count += is_host;
    } else {
        tally->certain_count++;
        tally->certain_host_count += is_host;
        count_rank(tally, report->rank);
    }
}

void vw__error_text_tally_remember(vw__error_text_tally *tally, uint64_t line_hash)
{
    (void)was_seen(tally, line_hash);
}

void vw__error_text_tally_count_again(vw__error_text_tally *tally, uint64_t line_hash, int rank,
                                      bool is_host)
{
    if (was_seen(tally, line_hash))
        return;
    tally->certain_count++;
    tally->certain_host_count += is_host;
    count_rank(tally, rank);
}

vw__error_text_report *vw__error_text_tally_place_other(vw__error_text_tally *tally, bool is_vague)
{
    if (tally->other.kind != VW__ERROR_TEXT_NONE && (!tally->other_is_vague || is_vague))
        return NULL;
    tally->other_is_vague = is_vague;
    return &tally->other;
}

void vw__error_text_tally_init(vw__error_text_tally *tally)
{
    memset(tally, 0, sizeof *tally);
    vw__error_text_report_init(&tally->certain);
    vw__error_text_report_init(&tally->ambiguous);
    vw__error_text_report_init(&tally->warning);
    vw__error_text_report_init(&tally->other);
    vw__error_text_report_init(&tally->retried);
}

/* ---- PyTorch's log --------------------------------------------------------------------------- */

void vw__error_text_tally_log_retry(vw__error_text_tally *tally,
                                    const vw__error_text_report *report, uint64_t end)
{
    vw__error_text_log_lines *log = &tally->log;
    if (tally->retried.kind == VW__ERROR_TEXT_NONE)
        tally->retried = *report;
    log->tried_bytes = report->tried_bytes;
    log->total_bytes = report->total_bytes;
    log->free_bytes = report->free_bytes;
    log->device = report->device;
    log->retry_line = report->line;
    log->retry_end = end;
    log->retry_rank = report->rank;
}

void vw__error_text_tally_log_addresses(vw__error_text_tally *tally, int rank, uint64_t end)
{
    tally->log.has_addresses = true;
    tally->log.addresses_end = end;
    tally->log.addresses_rank = rank;
}

/* A traceback may stand between a log line and its error, and other ranks' lines with it. */
static bool belongs(uint64_t end, int rank, const vw__error_text_report *error, uint64_t at)
{
    enum { MOST_BETWEEN = 16 << 10 };
    return rank == error->rank && at >= end && at - end <= MOST_BETWEEN;
}

/* The error says it rounded. */
static bool is_near(uint64_t said, uint64_t logged)
{
    uint64_t difference = said > logged ? said - logged : logged - said;
    return said == VW__MODEL_UNKNOWN_BYTES || logged == VW__MODEL_UNKNOWN_BYTES ||
           difference <= logged / 100;
}

static bool is_of_torch(const vw__error_text_report *report)
{
    return report->kind == VW__ERROR_TEXT_TORCH_CUDA || report->kind == VW__ERROR_TEXT_TORCH_HIP;
}

void vw__error_text_tally_certain_at(vw__error_text_tally *tally, uint64_t at)
{
    const vw__error_text_report *error = &tally->certain;
    vw__error_text_log_lines *log = &tally->certain_log;
    *log = tally->log;
    if (!belongs(log->retry_end, log->retry_rank, error, at) || !is_of_torch(error) ||
        (error->device >= 0 && error->device != log->device) ||
        !is_near(error->tried_bytes, log->tried_bytes) ||
        !is_near(error->total_bytes, log->total_bytes))
        log->retry_line = 0;
    log->has_addresses = log->has_addresses &&
                         belongs(log->addresses_end, log->addresses_rank, error, at) &&
                         (is_of_torch(error) || error->kind == VW__ERROR_TEXT_CUDA_RAW);
}

/* Whether `*bytes` became known by it. */
static bool take_number(uint64_t *bytes, uint64_t logged)
{
    if (*bytes != VW__MODEL_UNKNOWN_BYTES || logged == VW__MODEL_UNKNOWN_BYTES)
        return false;
    *bytes = logged;
    return true;
}

/* What the message does not say, by the log. */
static void add_log(const vw__error_text_log_lines *log, vw__error_text_report *error)
{
    if (log->retry_line != 0) {
        bool is_taken = take_number(&error->tried_bytes, log->tried_bytes);
        is_taken |= take_number(&error->total_bytes, log->total_bytes);
        is_taken |= take_number(&error->free_bytes, log->free_bytes);
        error->device = log->device >= 0 ? log->device : error->device;
        error->log_line = is_taken ? log->retry_line : 0;
        error->least_torch = 213;
    }
    if (log->has_addresses) {
        error->says_addresses = true;
        error->least_torch = 215;
    }
}

void vw__error_text_tally_finish(const vw__error_text_tally *tally, vw__error_text_summary *summary)
{
    const vw__error_text_report *in_order[] = {&tally->certain, &tally->ambiguous, &tally->warning,
                                               &tally->other, &tally->retried};
    bool has_certain = tally->certain.kind != VW__ERROR_TEXT_NONE;
    size_t first = 0;
    while (first + 1 < sizeof in_order / sizeof *in_order &&
           in_order[first]->kind == VW__ERROR_TEXT_NONE)
        first++;
    summary->first = *in_order[first];
    if (has_certain)
        add_log(&tally->certain_log, &summary->first);
    summary->report_count = has_certain ? tally->certain_count : tally->ambiguous_count;
    summary->host_count = has_certain ? tally->certain_host_count : tally->ambiguous_host_count;
    summary->rank_count = has_certain ? tally->rank_count : 0;
}

/* ---- lines that repeat ----------------------------------------------------------------------- */

/* Readings that must agree: an outcome may depend on the lines around, and reading distinguishes
 * numbers more exactly. */
enum { ENOUGH_READINGS = 48, ENOUGH_NUMBERS = 1024 };

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

/* Digits are dropped without a branch, which no processor could predict. */
static uint64_t hash_without_digits(uint64_t hash, const char *text, size_t size_bytes)
{
    unsigned char kept[VW__ERROR_TEXT_REPEATS_MOST_BYTES + sizeof(uint64_t)];
    size_t count = 0;
    for (size_t i = 0; i < size_bytes && i < VW__ERROR_TEXT_REPEATS_MOST_BYTES; i++) {
        unsigned char byte = (unsigned char)text[i];
        kept[count] = byte;
        count += (unsigned)(byte - '0') > 9;
    }
    memset(kept + count, 0, sizeof(uint64_t));
    return hash_bytes(hash, kept, count);
}

vw__error_text_key vw__error_text_key_of(const char *text, size_t size_bytes, size_t at,
                                         vw__error_text_word word, bool is_line_start)
{
    enum { TELLING_BYTES = 160 }; /* behind the word: more need not be alike */
    vw__line_rank rank = {-1, false};
    size_t first = is_line_start ? vw__line_prefix(text, at, &rank) : 0;
    size_t end = size_bytes - at > TELLING_BYTES ? at + TELLING_BYTES : size_bytes;
    uint64_t hash = mix(mix(1, (uint64_t)word), (uint64_t)(rank.rank + 1));
    return (vw__error_text_key){.pattern = hash_without_digits(hash, text + first, end - first) | 1,
                                .said = hash_bytes(hash, text + at, size_bytes - at) | 1,
                                .behind_bytes = size_bytes - at,
                                .rank = rank.rank};
}

vw__error_text_pattern *vw__error_text_pattern_of(vw__error_text_repeats *repeats,
                                                  const vw__error_text_key *key)
{
    return &repeats->patterns[(key->pattern >> 20) % VW__ERROR_TEXT_REPEATS_PATTERNS];
}

bool vw__error_text_pattern_is_settled(const vw__error_text_pattern *pattern,
                                       const vw__error_text_key *key)
{
    uint32_t enough =
        pattern->outcome == VW__ERROR_TEXT_OUTCOME_NUMBERS ? ENOUGH_NUMBERS : ENOUGH_READINGS;
    return pattern->hash == key->pattern && pattern->count >= enough;
}

void vw__error_text_pattern_came_to(vw__error_text_pattern *pattern, const vw__error_text_key *key,
                                    vw__error_text_outcome outcome, bool is_host)
{
    if (pattern->hash != key->pattern || pattern->outcome != (uint8_t)outcome)
        *pattern = (vw__error_text_pattern){key->pattern, 0, (uint8_t)outcome, is_host};
    pattern->count++;
}
