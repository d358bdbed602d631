/* rank_account.c - what one recording, or the texts of a rank, came to, and one vw_rank of all
 * accounts of a rank.
 *
 * A rank may have several recordings: that of the failure and that of --record, those of restarts.
 * The one of a failure counts, then the latest, then the longest. Its texts know what a recording
 * cannot: the limit, other processes, steps from before the history. So the two are merged field by
 * field, and the verdict is the texts' where vw_diagnosis_sees_more() says so. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "analysis/recording.h"
#include "analysis/site_key.h"
#include "base/byte_buffer.h"
#include "base/checked_math.h" /* vw__max_u64 */
#include "base/error.h"
#include "base/host_memory.h"
#include "ranks/rank_files.h" /* vw__ranks_is_failure_name */
#include "ranks/rank_parts.h"

enum {
    NOTE_BYTES = 400,
    MOST_NOTES = 64,
    MOST_USAGES = 512, /* stacks at the peak, the largest: the others hold next to nothing */
    MOST_MISSING = 1024
};

vw__ranks_account vw__ranks_account_of(uint64_t rank)
{
    return (vw__ranks_account){
        .last_time_us = INT64_MIN,
        .shown = {.rank = rank,
                  .device = -1,
                  .peak_live_bytes = VW_UNKNOWN,
                  .peak_reserved_bytes = VW_UNKNOWN,
                  .event_count = VW_UNKNOWN,
                  .step_count = VW_UNKNOWN,
                  .growth_bytes_per_step = NAN,
                  .tried_bytes = VW_UNKNOWN,
                  .time_us = INT64_MIN,
                  .local_time_us = INT64_MIN,
                  .verdict = VW_VERDICT_UNKNOWN,
                  .sentence = "",
                  .card_bytes = VW_UNKNOWN},
    };
}

vw_status vw__ranks_accounts_add(vw__ranks_accounts *accounts, const vw__ranks_account *account)
{
    vw_status status = vw__ranks_make_room((void **)&accounts->accounts, accounts->count,
                                           &accounts->capacity, sizeof *accounts->accounts);
    if (status != VW_OK) {
        vw_diagnosis_free(account->diagnosis);
        return status;
    }
    accounts->accounts[accounts->count++] = *account;
    return VW_OK;
}

void vw__ranks_accounts_deinit(vw__ranks_accounts *accounts)
{
    for (size_t i = 0; i < accounts->count; i++)
        vw_diagnosis_free(accounts->accounts[i].diagnosis);
    vw__host_free(accounts->accounts);
    *accounts = (vw__ranks_accounts){.accounts = NULL};
}

vw_status vw__ranks_keep(vw__ranks_work *work, const char *text, const char **out)
{
    const char *copy = NULL;
    if (text != NULL) {
        copy = vw__arena_copy(work->arena, text, strlen(text));
        if (copy == NULL)
            return vw__fail_host_memory(strlen(text), "a text of the report");
    }
    *out = copy;
    return VW_OK;
}

vw_status vw__ranks_note(vw__ranks_work *work, const char *format, ...)
{
    vw_ranks_report *report = work->report;
    const char **notes = (const char **)report->notes;
    char text[NOTE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (notes == NULL) {
        notes =
            vw__arena_alloc_array(work->arena, MOST_NOTES, sizeof *notes, _Alignof(const char *));
        if (notes == NULL)
            return vw__fail_host_memory(MOST_NOTES * sizeof *notes, "notes");
        report->notes = notes;
    }
    if (report->note_count == MOST_NOTES)
        return VW_OK;
    VW__TRY(vw__ranks_keep(work, text, &notes[report->note_count]));
    report->note_count++;
    return VW_OK;
}

/* Fills the verdict of `account` from a diagnosis, and keeps that: it is the account's from here,
 * also on failure. */
static vw_status take_diagnosis(vw__ranks_work *work, vw__ranks_account *account,
                                vw_diagnosis *diagnosis)
{
    vw_rank *rank = &account->shown;
    const vw_memory_numbers *numbers = &diagnosis->numbers;
    const vw__diagnosis_found_growth *growth = vw__diagnosis_growth(diagnosis);
    account->diagnosis = diagnosis;
    rank->has_verdict = true;
    rank->verdict = diagnosis->verdict;
    rank->confidence = diagnosis->confidence;
    rank->is_problem = vw_diagnosis_is_problem(diagnosis);
    rank->ran_out |= diagnosis->error_count > 0;
    rank->card_bytes = numbers->total_bytes;
    if (growth->is_known)
        rank->growth_bytes_per_step = growth->bytes_per_step;
    if (rank->tried_bytes == VW_UNKNOWN)
        rank->tried_bytes = numbers->tried_bytes;
    if (rank->basis == VW_RANK_BASIS_NONE &&
        (numbers->allocated_bytes != VW_UNKNOWN || numbers->reserved_bytes != VW_UNKNOWN)) {
        rank->basis = VW_RANK_BASIS_TEXT;
        rank->peak_live_bytes = numbers->allocated_bytes;
        rank->peak_reserved_bytes = numbers->reserved_bytes;
    }
    return vw__ranks_keep(work, diagnosis->sentence, &rank->sentence);
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Logs leave steps out: the last number says how many there were, if it is one of steps. */
static uint64_t steps_in(const vw__step_log *log)
{
    double last = log->points[log->point_count - 1].step;
    bool is_numbered = strcmp(log->step_name, "step") == 0 && last >= 1 && last < 1e15;
    return is_numbered ? (uint64_t)last : log->found_count;
}

static void note_time(const vw__ranks_story *story, const vw__doctor_text_facts *facts,
                      vw_rank *rank)
{
    vw__ranks_log_time time = vw__ranks_story_time_of(story, &facts->errors.first);
    if (rank->ran_out && time.has_zone)
        rank->time_us = time.time_us;
    else if (rank->ran_out)
        rank->local_time_us = time.time_us;
}

vw_status vw__ranks_account_story(vw__ranks_work *work, vw__ranks_story *story,
                                  vw__ranks_account *account, bool *has_something)
{
    vw_rank *rank = &account->shown;
    vw__doctor_text_facts facts;
    vw_diagnosis *diagnosis;
    rank->text = story->first_path;
    rank->file_count = story->file_count;
    VW__TRY(vw__doctor_text_scan_diagnose(story->scan, &work->doctor, &facts, &diagnosis));
    VW__TRY(take_diagnosis(work, account, diagnosis));
    note_time(story, &facts, rank);
    if (facts.steps.point_count != 0)
        rank->step_count = steps_in(&facts.steps);
    *has_something = rank->ran_out || facts.steps.point_count != 0;
    return VW_OK;
}

/* ---- the device ------------------------------------------------------------------------------ */

static bool is_busier(const vw_device_stats *one, const vw_device_stats *other)
{
    if (one->has_oom != other->has_oom)
        return one->has_oom;
    if (one->event_count != other->event_count)
        return one->event_count > other->event_count;
    return one->reserved_bytes > other->reserved_bytes;
}

/* A rank uses one card: the one that ran out of memory, as for the doctor; else the one with the
 * most events. NULL: none was used. */
static const vw_device_stats *device_of(const vw_recording_stats *stats)
{
    const vw_device_stats *busiest = NULL;
    for (size_t i = 0; i < stats->device_count; i++)
        if (stats->devices[i].device >= 0 &&
            (busiest == NULL || is_busier(&stats->devices[i], busiest)))
            busiest = &stats->devices[i];
    return busiest;
}

static void note_peaks(const vw_device_stats *device, vw__ranks_account *account)
{
    vw_rank *rank = &account->shown;
    rank->device = device->device;
    rank->event_count = device->event_count;
    if (device->event_count != 0) {
        rank->basis = VW_RANK_BASIS_TRACE;
        rank->peak_live_bytes = device->peak.live_bytes;
        rank->peak_reserved_bytes = device->peak_reserved_bytes;
        rank->step_count = device->step_count != 0 ? device->step_count : VW_UNKNOWN;
    } else {
        rank->basis = VW_RANK_BASIS_END;
        rank->peak_live_bytes = device->end.live_bytes;
        rank->peak_reserved_bytes = device->reserved_bytes;
    }
    account->last_time_us = device->last_time_us;
}

static void note_failure(const vw_recording *recording, const vw_device_stats *device,
                         vw__ranks_account *account)
{
    vw_rank *rank = &account->shown;
    const vw__model_trace *trace;
    if (!device->has_oom)
        return;
    rank->ran_out = true;
    rank->tried_bytes = device->oom_tried_bytes;
    if (vw__recording_trace(recording->model, device->device, &trace) == VW_OK &&
        device->oom_event < trace->event_count)
        rank->time_us = trace->events[device->oom_event].time_us;
}

/* ---- lines of the program -------------------------------------------------------------------- */

static void write_key(vw__byte_buffer *key, const vw_usage *usage)
{
    const vw_frame *place = vw__site_key_frame(usage);
    vw__byte_buffer_clear(key);
    vw__append_u8(key, place != NULL);
    if (place == NULL) {
        vw__append_text(key, usage->category);
        return;
    }
    vw__append_bytes(key, place->file, strlen(place->file) + 1);
    vw__append_bytes(key, place->function, strlen(place->function) + 1);
    vw__append_u32_le(key, place->line);
}

static vw_status keep_site(vw__ranks_work *work, const vw_usage *usage, vw__ranks_site *out)
{
    const vw_frame *place = vw__site_key_frame(usage);
    *out = (vw__ranks_site){NULL, usage->category};
    if (place == NULL)
        return VW_OK;
    vw_frame *frame = vw__arena_alloc(work->arena, sizeof *frame, _Alignof(vw_frame));
    if (frame == NULL)
        return vw__fail_host_memory(sizeof *frame, "a line of the program");
    frame->line = place->line;
    VW__TRY(vw__ranks_keep(work, place->file, &frame->file));
    VW__TRY(vw__ranks_keep(work, place->function, &frame->function));
    out->where = frame;
    return VW_OK;
}

static vw_status find_site(vw__ranks_work *work, const vw_usage *usage, vw__byte_buffer *key,
                           uint32_t *site)
{
    vw__ranks_site_table *table = &work->sites;
    uint32_t before = table->keys.count;
    write_key(key, usage);
    VW__TRY(vw__ranks_make_room((void **)&table->sites, before, &table->capacity,
                                sizeof *table->sites));
    if (vw__byte_buffer_has_failed(key) ||
        !vw__string_table_add(&table->keys, vw__byte_buffer_text(key), vw__byte_buffer_size(key),
                              site))
        return vw__fail_host_memory(vw__byte_buffer_size(key), "a line of the program");
    return *site == before ? keep_site(work, usage, &table->sites[*site]) : VW_OK;
}

/* Stacks of one line are one. */
static vw_status add_usages(vw__ranks_work *work, const vw_moment *peak,
                            vw__ranks_site_bytes *sites, vw__byte_buffer *key, size_t *count)
{
    for (size_t i = 0; i < peak->usage_count; i++) {
        uint32_t site;
        size_t place = 0;
        VW__TRY(find_site(work, &peak->usages[i], key, &site));
        while (place < *count && sites[place].site != site)
            place++;
        if (place == *count)
            sites[(*count)++] = (vw__ranks_site_bytes){site, 0};
        sites[place].bytes += peak->usages[i].bytes;
    }
    return VW_OK;
}

static vw_status note_sites(vw__ranks_work *work, const vw_moment *peak, vw__ranks_account *account)
{
    vw__byte_buffer key;
    vw__ranks_site_bytes *sites = vw__arena_alloc_array(
        work->arena, peak->usage_count, sizeof *sites, _Alignof(vw__ranks_site_bytes));
    if (sites == NULL)
        return vw__fail_host_memory(peak->usage_count * sizeof *sites, "the lines of a rank");
    vw__byte_buffer_init(&key);
    vw_status status = add_usages(work, peak, sites, &key, &account->site_count);
    vw__byte_buffer_deinit(&key);
    account->sites = sites;
    return status;
}

/* ---- settings -------------------------------------------------------------------------------- */

static vw_status add_setting(vw__ranks_work *work, vw_setting *settings, size_t *count,
                             const char *key, const char *value)
{
    if (value == NULL)
        return VW_OK;
    VW__TRY(vw__ranks_keep(work, key, &settings[*count].key));
    VW__TRY(vw__ranks_keep(work, value, &settings[*count].value));
    ++*count;
    return VW_OK;
}

#define CONF_KEY "PYTORCH_CUDA_ALLOC_CONF"

/* Most files have the option string among the settings, as well as by itself. */
static bool has_conf_among(const vw_recording_stats *stats)
{
    for (size_t i = 0; i < stats->setting_count; i++)
        if (strcmp(stats->settings[i].key, CONF_KEY) == 0)
            return true;
    return false;
}

static vw_status note_settings(vw__ranks_work *work, const vw_recording_stats *stats,
                               vw__ranks_account *account)
{
    size_t most = stats->setting_count + 1;
    vw_setting *settings =
        vw__arena_alloc_array(work->arena, most, sizeof *settings, _Alignof(vw_setting));
    if (settings == NULL)
        return vw__fail_host_memory(most * sizeof *settings, "the settings of a rank");
    account->settings = settings;
    VW__TRY(vw__ranks_keep(work, stats->conf, &account->shown.conf));
    if (!has_conf_among(stats))
        VW__TRY(add_setting(work, settings, &account->setting_count, CONF_KEY, stats->conf));
    for (size_t i = 0; i < stats->setting_count; i++)
        VW__TRY(add_setting(work, settings, &account->setting_count, stats->settings[i].key,
                            stats->settings[i].value));
    return VW_OK;
}

/* ---- the account ----------------------------------------------------------------------------- */

static vw_status fill_account(vw__ranks_work *work, const vw_recording *recording,
                              const vw_recording_stats *stats, vw__ranks_account *account)
{
    const vw_device_stats *device = device_of(stats);
    vw_diagnosis *diagnosis = NULL;
    VW__TRY(note_settings(work, stats, account));
    if (device != NULL) {
        note_peaks(device, account);
        note_failure(recording, device, account);
        VW__TRY(note_sites(work, &device->peak, account));
    }
    VW__TRY(vw_doctor_recording(recording, &work->doctor, &diagnosis));
    return take_diagnosis(work, account, diagnosis);
}

vw_status vw__ranks_account_recording(vw__ranks_work *work, const vw_recording *recording,
                                      const char *path, vw__ranks_account *account)
{
    const vw_stats_options options = {.struct_size = sizeof options,
                                      .torch_version = work->options->torch_version,
                                      .most_usages = MOST_USAGES,
                                      .without_summary = true};
    vw_recording_stats *stats;
    account->is_recording = true;
    account->shown.recording = path;
    account->shown.file_count = 1;
    account->shown.ran_out = vw__ranks_is_failure_name(path);
    VW__TRY(vw_recording_stats_make(recording, &options, &stats));
    vw_status status = fill_account(work, recording, stats, account);
    vw_recording_stats_free(stats);
    return status;
}

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
        order_of(one->last_time_us > other->last_time_us, one->last_time_us < other->last_time_us),
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
    if (texts->step_count != VW_UNKNOWN) /* the whole run's, not only those of the history */
        rank->step_count = texts->step_count;
    if (!(rank->growth_bytes_per_step > 0) && !isnan(texts->growth_bytes_per_step))
        rank->growth_bytes_per_step = texts->growth_bytes_per_step;
    if (account->diagnosis != NULL &&
        (first->diagnosis == NULL || vw_diagnosis_sees_more(account->diagnosis, first->diagnosis)))
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

/* The highest number that files of the job have. What is no recording and no log is named as it
 * likes: a layer's weights may be `layer_r80.bin`. */
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

/* Numbers without an account: there is no file, or none that told anything. */
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
        return vw__ranks_note(work,
                              "%llu numbers below rank %llu have no file, or none that could be "
                              "read.",
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
