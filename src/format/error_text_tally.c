/* error_text_tally.c - reports counted by what they say. */
#include "format/error_text_tally.h"

#include <string.h>

#include "format/error_text_parts.h" /* hr__error_report_init */

enum { MOST_PROBES = 8 };

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_of_kind(const hr__error_report *report)
{
    uint64_t certainty = report->is_warning ? 2 : report->is_ambiguous ? 1 : 0;
    return mix(mix(1, certainty << 8 | (uint64_t)report->kind), (uint64_t)(report->rank + 1));
}

static uint64_t hash_of_report(const hr__error_report *report)
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

/* Has it been seen? It has from now on. */
static bool was_seen(hr__error_tally *tally, uint64_t hash)
{
    hash |= 1; /* never 0 */
    for (size_t i = 0; i < MOST_PROBES; i++) {
        uint64_t *slot = &tally->seen[(hash >> 8 ^ i) % HR__TALLY_SLOTS];
        if (*slot == hash)
            return true;
        if (*slot == 0) {
            *slot = hash;
            return false;
        }
    }
    tally->seen[(hash >> 8) % HR__TALLY_SLOTS] = hash;
    return false;
}

static void count_rank(hr__error_tally *tally, int rank)
{
    if (rank < 0 || rank >= HR__TALLY_MOST_RANKS)
        return;
    uint64_t bit = UINT64_C(1) << rank % 64;
    tally->rank_count += (tally->ranks[rank / 64] & bit) == 0;
    tally->ranks[rank / 64] |= bit;
}

/* PyTorch has one name for the errors of all its allocators. */
static bool is_same_family(hr__error_kind a, hr__error_kind b)
{
    return a == b || (a == HR__ERROR_TORCH_CUDA && b == HR__ERROR_CUDA_ASYNC);
}

static bool completes(const hr__error_report *first, const hr__error_report *report, uint64_t count)
{
    return count == 1 && is_same_family(first->kind, report->kind) && first->rank == report->rank &&
           !hr__error_report_has_numbers(first) && hr__error_report_has_numbers(report);
}

hr__error_report *hr__tally_place(hr__error_tally *tally, const hr__error_report *report)
{
    hr__error_report *first = report->is_warning     ? &tally->warning
                              : report->is_ambiguous ? &tally->ambiguous
                                                     : &tally->certain;
    uint64_t count = report->is_ambiguous ? tally->ambiguous_count : tally->certain_count;
    if (first->kind == HR__ERROR_NONE || (!report->is_warning && completes(first, report, count)))
        return first;
    return NULL;
}

void hr__tally_count(hr__error_tally *tally, const hr__error_report *report, bool is_part)
{
    bool is_known_kind = was_seen(tally, hash_of_kind(report));
    bool has_numbers = hr__error_report_has_numbers(report);
    bool is_known = has_numbers ? was_seen(tally, hash_of_report(report)) : is_known_kind;
    if (report->is_warning || is_known || is_part)
        return;
    bool is_host = hr__error_kind_is_host(report->kind);
    if (report->is_ambiguous) {
        tally->ambiguous_count++;
        tally->ambiguous_host_count += is_host;
    } else {
        tally->certain_count++;
        tally->certain_host_count += is_host;
        count_rank(tally, report->rank);
    }
}

void hr__tally_remember(hr__error_tally *tally, uint64_t line_hash)
{
    (void)was_seen(tally, line_hash);
}

void hr__tally_count_again(hr__error_tally *tally, uint64_t line_hash, int rank, bool is_host)
{
    if (was_seen(tally, line_hash))
        return;
    tally->certain_count++;
    tally->certain_host_count += is_host;
    count_rank(tally, rank);
}

hr__error_report *hr__tally_place_other(hr__error_tally *tally, bool is_vague)
{
    if (tally->other.kind != HR__ERROR_NONE && (!tally->other_is_vague || is_vague))
        return NULL;
    tally->other_is_vague = is_vague;
    return &tally->other;
}

void hr__tally_init(hr__error_tally *tally)
{
    memset(tally, 0, sizeof *tally);
    hr__error_report_init(&tally->certain);
    hr__error_report_init(&tally->ambiguous);
    hr__error_report_init(&tally->warning);
    hr__error_report_init(&tally->other);
}

void hr__tally_finish(const hr__error_tally *tally, hr__error_summary *summary)
{
    bool has_certain = tally->certain.kind != HR__ERROR_NONE;
    summary->first = has_certain                               ? tally->certain
                     : tally->ambiguous.kind != HR__ERROR_NONE ? tally->ambiguous
                     : tally->warning.kind != HR__ERROR_NONE   ? tally->warning
                                                               : tally->other;
    summary->report_count = has_certain ? tally->certain_count : tally->ambiguous_count;
    summary->host_count = has_certain ? tally->certain_host_count : tally->ambiguous_host_count;
    summary->rank_count = has_certain ? tally->rank_count : 0;
}
