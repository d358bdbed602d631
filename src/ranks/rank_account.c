/* rank_account.c - what one recording, or the texts of a rank, came to. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analysis/recording.h"
#include "analysis/site_key.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "ranks/rank_files.h" /* vw__ranks_is_failure_name */
#include "ranks/rank_parts.h"

enum {
    NOTE_BYTES = 400,
    MOST_NOTES = 64,
    MOST_USAGES = 512,      /* stacks at the peak, the largest: the others hold next to nothing */
    MOST_FAILED_FRAMES = 16 /* from the innermost of the program outwards */
};

vw__ranks_account vw__ranks_account_of(uint64_t rank)
{
    return (vw__ranks_account){
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
                  .card_bytes = VW_UNKNOWN,
                  .last_time_us = INT64_MIN},
    };
}

vw_status vw__ranks_accounts_add(vw__ranks_accounts *accounts, const vw__ranks_account *account)
{
    VW__TRY(vw__ranks_make_room((void **)&accounts->accounts, accounts->count, &accounts->capacity,
                                sizeof *accounts->accounts));
    accounts->accounts[accounts->count++] = *account;
    return VW_OK;
}

void vw__ranks_accounts_deinit(vw__ranks_accounts *accounts)
{
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

/* Fills the verdict of `account` from a diagnosis. */
static vw_status take_diagnosis(vw__ranks_work *work, vw__ranks_account *account,
                                const vw_diagnosis *diagnosis)
{
    vw_rank *rank = &account->shown;
    const vw_memory_numbers *numbers = &diagnosis->numbers;
    const vw__diagnosis_found_growth *growth = vw__diagnosis_growth(diagnosis);
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

static vw_status keep_frame(vw__ranks_work *work, const vw_frame *frame, vw_frame *out)
{
    out->line = frame->line;
    VW__TRY(vw__ranks_keep(work, frame->file, &out->file));
    return vw__ranks_keep(work, frame->function, &out->function);
}

static vw_frame *make_frames(vw__ranks_work *work, size_t count)
{
    return vw__arena_alloc_array(work->arena, count, sizeof(vw_frame), _Alignof(vw_frame));
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Logs leave steps out: the last number says how many there were, if it is one of steps. */
static uint64_t steps_in(const vw__step_log *log)
{
    double last = log->points[log->point_count - 1].step;
    bool is_numbered = strcmp(log->step_name, "step") == 0 && last >= 1 && last < 1e15;
    return is_numbered ? (uint64_t)last : log->found_count;
}

/* The line that failed, by a traceback. */
static vw_status note_failed_line(vw__ranks_work *work, const vw_diagnosis *diagnosis,
                                  vw_rank *rank)
{
    const vw_failed_at *at = diagnosis->failed_at;
    if (at == NULL || !rank->ran_out)
        return VW_OK;
    const vw_frame found = {.file = at->file,
                            .function = at->function != NULL ? at->function : "",
                            .line = at->line > 0 ? (uint32_t)at->line : 0};
    vw_frame *frame = make_frames(work, 1);
    if (frame == NULL)
        return vw__fail_host_memory(sizeof *frame, "the line that failed");
    VW__TRY(keep_frame(work, &found, frame));
    rank->failed_frames = frame;
    rank->failed_frame_count = 1;
    return VW_OK;
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
    vw_status status = take_diagnosis(work, account, diagnosis);
    if (status == VW_OK)
        status = note_failed_line(work, diagnosis, rank);
    vw_diagnosis_free(diagnosis);
    VW__TRY(status);
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
    rank->last_time_us = device->last_time_us;
}

/* The event of the failure; NULL: there is none, or it is not in the trace. */
static const vw__model_event *failure_of(const vw_recording *recording,
                                         const vw_device_stats *device)
{
    const vw__model_trace *trace;
    if (!device->has_oom ||
        vw__recording_trace(recording->model, device->device, &trace) != VW_OK ||
        device->oom_event >= trace->event_count)
        return NULL;
    return &trace->events[device->oom_event];
}

static void note_failure(const vw_recording *recording, const vw_device_stats *device,
                         vw__ranks_account *account)
{
    vw_rank *rank = &account->shown;
    const vw__model_event *event = failure_of(recording, device);
    if (!device->has_oom)
        return;
    rank->ran_out = true;
    rank->tried_bytes = device->oom_tried_bytes;
    if (event != NULL)
        rank->time_us = event->time_us;
}

static vw_frame frame_at(const vw__model *model, vw__model_stack stack, size_t place)
{
    const vw__model_frame *frame = &model->frames[model->frame_ids[stack.first + place]];
    return (vw_frame){.function = vw__model_string(model, frame->name),
                      .file = vw__model_string(model, frame->filename),
                      .line = frame->line};
}

static bool is_frame(const vw_frame *frame, const vw_failed_at *at)
{
    return at->line >= 0 && frame->line == (uint32_t)at->line &&
           strcmp(frame->file, at->file) == 0 && at->function != NULL &&
           strcmp(frame->function, at->function) == 0;
}

/* The stack of the failure from the frame on that the doctor names: the program's innermost. */
static vw_status note_failed_stack(vw__ranks_work *work, const vw_recording *recording,
                                   const vw_device_stats *device, const vw_failed_at *at,
                                   vw_rank *rank)
{
    const vw__model *model = recording->model;
    const vw__model_event *event = failure_of(recording, device);
    if (event == NULL || at == NULL)
        return VW_OK;
    vw__model_stack stack = vw__model_stack_of(model, event->context);
    size_t first = 0;
    vw_frame found;
    while (first < stack.count && (found = frame_at(model, stack, first), !is_frame(&found, at)))
        first++;
    size_t count = stack.count - first;
    if (count > MOST_FAILED_FRAMES)
        count = MOST_FAILED_FRAMES;
    vw_frame *frames = make_frames(work, count);
    if (frames == NULL)
        return vw__fail_host_memory(count * sizeof *frames, "the stack of a failure");
    for (size_t i = 0; i < count; i++) {
        found = frame_at(model, stack, first + i);
        VW__TRY(keep_frame(work, &found, &frames[i]));
    }
    rank->failed_frames = frames;
    rank->failed_frame_count = count;
    return VW_OK;
}

/* ---- lines of the program -------------------------------------------------------------------- */

static void write_key(vw__byte_buffer *key, const vw_frame *where, const char *category)
{
    vw__append_u8(key, where != NULL);
    if (where == NULL) {
        vw__append_text(key, category);
        return;
    }
    vw__append_bytes(key, where->file, strlen(where->file) + 1);
    vw__append_bytes(key, where->function, strlen(where->function) + 1);
    vw__append_u32_le(key, where->line);
}

static vw_status keep_site(vw__ranks_work *work, const vw_frame *where, const char *category,
                           vw__ranks_site *out)
{
    vw_frame *frame = NULL;
    if (where != NULL) {
        frame = make_frames(work, 1);
        if (frame == NULL)
            return vw__fail_host_memory(sizeof *frame, "a line of the program");
        VW__TRY(keep_frame(work, where, frame));
    }
    *out = (vw__ranks_site){frame, category};
    return VW_OK;
}

static vw_status add_site(vw__ranks_work *work, const vw_frame *where, const char *category,
                          const vw__byte_buffer *key, uint32_t *site)
{
    vw__ranks_site_table *table = &work->sites;
    uint32_t before = table->keys.count;
    VW__TRY(vw__ranks_make_room((void **)&table->sites, before, &table->capacity,
                                sizeof *table->sites));
    if (vw__byte_buffer_has_failed(key) ||
        !vw__string_table_add(&table->keys, vw__byte_buffer_text(key), vw__byte_buffer_size(key),
                              site))
        return vw__fail_host_memory(vw__byte_buffer_size(key), "a line of the program");
    return *site == before ? keep_site(work, where, category, &table->sites[*site]) : VW_OK;
}

vw_status vw__ranks_site_find(vw__ranks_work *work, const vw_frame *where, const char *category,
                              uint32_t *site)
{
    vw__byte_buffer key;
    vw__byte_buffer_init(&key);
    write_key(&key, where, category);
    vw_status status = add_site(work, where, category, &key, site);
    vw__byte_buffer_deinit(&key);
    return status;
}

/* Stacks of one line are one. */
static vw_status add_usages(vw__ranks_work *work, const vw_moment *peak,
                            vw__ranks_site_bytes *sites, size_t *count)
{
    for (size_t i = 0; i < peak->usage_count; i++) {
        uint32_t site;
        size_t place = 0;
        VW__TRY(vw__ranks_site_find(work, vw__site_key_frame(&peak->usages[i]),
                                    peak->usages[i].category, &site));
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
    vw__ranks_site_bytes *sites = vw__arena_alloc_array(
        &work->scratch, peak->usage_count, sizeof *sites, _Alignof(vw__ranks_site_bytes));
    if (sites == NULL)
        return vw__fail_host_memory(peak->usage_count * sizeof *sites, "the lines of a rank");
    account->sites = sites;
    return add_usages(work, peak, sites, &account->site_count);
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
    vw_status status = take_diagnosis(work, account, diagnosis);
    if (status == VW_OK && device != NULL)
        status = note_failed_stack(work, recording, device, diagnosis->failed_at, &account->shown);
    vw_diagnosis_free(diagnosis);
    return status;
}

vw_status vw__ranks_account_recording(vw__ranks_work *work, const vw_recording *recording,
                                      const char *path, vw__ranks_account *account)
{
    const vw_stats_options options = {.struct_size = sizeof options,
                                      .torch_version = work->options.torch_version,
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
