/* rank_merge.c - one vw_rank of all accounts of a rank.
 *
 * A rank may have several recordings: that of the failure and that of --record, those of restarts.
 * The one of a failure counts, then the latest, then the longest. Its texts know what a recording
 * cannot: the limit, other processes, steps from before the history. So the two are merged field by
 * field, and the verdict is the texts' where vw__diagnosis_verdict_sees_more() says so. */
#include <math.h>
#include <stdlib.h> /* qsort */

#include "base/checked_math.h" /* vw__max_u64 */
#include "base/error.h"
#include "base/host_memory.h"
#include "doctor/diagnosis.h"
#include "ranks/rank_parts.h"

enum { MOST_MISSING = 1024 };

static int order_of(bool is_less, bool is_more)
{
    return (int)is_more - (int)is_less;
}

/* By rank; of one rank what counts most first. */
static int compare_accounts(const void *left, const void *right)
{
    const vw__ranks_account *one = left, *other = right;
    int orders[] = {
        order_of(one->shown.rank<other->shown.rank, one->shown.rank> other->shown.rank),
        order_of(one->is_recording, other->is_recording),
        order_of(one->shown.ran_out, other->shown.ran_out),
        order_of(one->shown.last_time_us > other->shown.last_time_us,
                 one->shown.last_time_us < other->shown.last_time_us),
        order_of(one->shown.event_count > other->shown.event_count,
                 one->shown.event_count < other->shown.event_count),
        order_of(one->order<other->order, one->order> other->order),
    };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (orders[i] != 0)
            return orders[i];
    return 0;
}

static void fill_unknown(uint64_t *field, uint64_t value)
{
    if (*field == VW_UNKNOWN)
        *field = value;
}

static void fill_time(int64_t *field, int64_t value)
{
    if (*field == INT64_MIN)
        *field = value;
}

static void fill_frames(vw_rank *rank, const vw_rank *from)
{
    if (rank->failed_frame_count > 0)
        return;
    rank->failed_frames = from->failed_frames;
    rank->failed_frame_count = from->failed_frame_count;
}

static void take_verdict(vw_rank *rank, const vw_rank *from)
{
    rank->has_verdict = from->has_verdict;
    rank->verdict = from->verdict;
    rank->confidence = from->confidence;
    rank->is_problem = from->is_problem;
    rank->sentence = from->sentence;
}

/* Another recording of the rank adds what the first lacks: when it failed. */
static void add_recording(vw_rank *rank, const vw__ranks_account *account)
{
    rank->file_count += account->shown.file_count;
    rank->ran_out |= account->shown.ran_out;
    fill_time(&rank->time_us, account->shown.time_us);
    fill_frames(rank, &account->shown);
}

static void add_texts(vw_rank *rank, const vw__ranks_account *first,
                      const vw__ranks_account *account)
{
    const vw_rank *texts = &account->shown;
    rank->file_count += texts->file_count;
    rank->text = texts->text;
    rank->ran_out |= texts->ran_out;
    fill_unknown(&rank->tried_bytes, texts->tried_bytes);
    fill_unknown(&rank->card_bytes, texts->card_bytes);
    fill_time(&rank->time_us, texts->time_us);
    fill_time(&rank->local_time_us, texts->local_time_us);
    fill_frames(rank, texts);
    if (texts->step_count != VW_UNKNOWN) /* the whole run's, not only those of the history */
        rank->step_count = texts->step_count;
    if (!(rank->growth_bytes_per_step > 0) && !isnan(texts->growth_bytes_per_step))
        rank->growth_bytes_per_step = texts->growth_bytes_per_step;
    if (texts->has_verdict &&
        (!first->shown.has_verdict ||
         vw__diagnosis_verdict_sees_more(texts->verdict, first->shown.verdict)))
        take_verdict(rank, texts);
}

/* All accounts of one rank, the first of which counts most. */
static vw_rank merge_rank(const vw__ranks_account *accounts, size_t count)
{
    vw_rank rank = accounts[0].shown;
    for (size_t i = 1; i < count; i++) {
        if (accounts[i].is_recording)
            add_recording(&rank, &accounts[i]);
        else
            add_texts(&rank, &accounts[0], &accounts[i]);
    }
    return rank;
}

/* The highest rank that files of the job have. Other files than recordings and logs do not count: a
 * layer's weights may be `layer_r80.bin`. */
static uint64_t highest_rank(const vw_ranks_report *report)
{
    uint64_t highest = report->rank_count > 0 ? report->ranks[report->rank_count - 1].rank : 0;
    for (size_t i = 0; i < report->file_count; i++) {
        const vw_rank_file *file = &report->files[i];
        if (file->kind == VW_RANK_FILE_UNREADABLE && file->rank != VW_UNKNOWN)
            highest = vw__max_u64(highest, file->rank);
    }
    return highest;
}

static bool has_file(const vw_ranks_report *report, uint64_t rank)
{
    size_t i = 0;
    while (i < report->file_count && report->files[i].rank != rank)
        i++;
    return i < report->file_count;
}

/* Ranks without an account have no file, or only files that could not be used. */
static void sort_absent(vw_ranks_report *report, uint64_t highest, uint64_t *missing,
                        uint64_t *unread)
{
    size_t place = 0;
    for (uint64_t number = 0; number <= highest; number++) {
        if (place < report->rank_count && report->ranks[place].rank == number)
            place++;
        else if (has_file(report, number))
            unread[report->unread_count++] = number;
        else
            missing[report->missing_count++] = number;
    }
    report->missing = missing;
    report->unread = unread;
}

static vw_status find_absent(vw__ranks_work *work)
{
    vw_ranks_report *report = work->report;
    uint64_t highest = highest_rank(report);
    uint64_t absent = highest + 1 - report->rank_count;
    if (report->rank_count == 0 && !has_file(report, highest))
        return VW_OK; /* no file has a number */
    if (absent > MOST_MISSING)
        return vw__ranks_note(
            work,
            "%llu ranks below rank %llu have no file, or only files that could not "
            "be read.",
            (unsigned long long)absent, (unsigned long long)highest);
    uint64_t *numbers =
        vw__arena_alloc_array(work->arena, 2 * (size_t)absent, sizeof *numbers, _Alignof(uint64_t));
    if (numbers == NULL)
        return vw__fail_host_memory(2 * absent * sizeof *numbers, "the ranks without a file");
    sort_absent(report, highest, numbers, numbers + absent);
    return VW_OK;
}

/* Accounts from `begin` on that are of the same rank; files of no rank stand alone. */
static size_t count_of_rank(const vw__ranks_accounts *accounts, size_t begin)
{
    uint64_t rank = accounts->accounts[begin].shown.rank;
    size_t end = begin + 1;
    while (rank != VW_UNKNOWN && end < accounts->count &&
           accounts->accounts[end].shown.rank == rank)
        end++;
    return end - begin;
}

static vw_status fill_ranks(vw__ranks_work *work, const vw__ranks_account **mains)
{
    vw_ranks_report *report = work->report;
    const vw__ranks_accounts *accounts = &work->accounts;
    vw_rank *ranks =
        vw__arena_alloc_array(work->arena, accounts->count, sizeof *ranks, _Alignof(vw_rank));
    if (ranks == NULL)
        return vw__fail_host_memory(accounts->count * sizeof *ranks, "the ranks of a job");
    size_t count = 0;
    for (size_t begin = 0; begin < accounts->count;) {
        const vw__ranks_account *first = &accounts->accounts[begin];
        size_t of_rank = count_of_rank(accounts, begin);
        ranks[count] = merge_rank(first, of_rank);
        mains[count++] = first->is_recording ? first : NULL;
        report->rank_count += first->shown.rank != VW_UNKNOWN;
        begin += of_rank;
    }
    report->ranks = ranks;
    report->unassigned = ranks + report->rank_count; /* VW_UNKNOWN is the highest number */
    report->unassigned_count = count - report->rank_count;
    return find_absent(work);
}

vw_status vw__ranks_merge(vw__ranks_work *work, const vw__ranks_account ***out)
{
    vw__ranks_accounts *accounts = &work->accounts;
    const vw__ranks_account **mains =
        vw__host_alloc_zeroed(accounts->count, sizeof(vw__ranks_account *));
    if (mains == NULL)
        return vw__fail_host_memory(accounts->count * sizeof(vw__ranks_account *),
                                    "the ranks of a job");
    if (accounts->count > 0)
        qsort(accounts->accounts, accounts->count, sizeof *accounts->accounts, compare_accounts);
    vw_status status = fill_ranks(work, mains);
    if (status != VW_OK) {
        vw__host_free(mains);
        return status;
    }
    *out = mains;
    return VW_OK;
}
