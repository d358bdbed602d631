/* rank_record.c - what files came to, written down and read back.
 *
 * Numbers have their least significant byte first, texts their size in front, and a text that is
 * NULL the size UINT32_MAX. Written by us, but read from files that somebody may have damaged: all
 * counts are checked against what is left, enumerators against their range. */
#include <string.h>

#include "base/byte_cursor.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "ranks/rank_parts.h"

enum { LEAST_LIST_BYTES = 4 }; /* that an element of any list takes */

/* ---- writing --------------------------------------------------------------------------------- */

static void put_text(vw__byte_buffer *out, const char *text)
{
    uint32_t size_bytes = text != NULL ? (uint32_t)strlen(text) : UINT32_MAX;
    vw__append_u32_le(out, size_bytes);
    if (text != NULL)
        vw__append_bytes(out, text, size_bytes);
}

static void put_double(vw__byte_buffer *out, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    vw__append_u64_le(out, bits);
}

static void put_frame(vw__byte_buffer *out, const vw_frame *frame)
{
    put_text(out, frame->file);
    put_text(out, frame->function);
    vw__append_u32_le(out, frame->line);
}

static void put_frames(vw__byte_buffer *out, const vw_frame *frames, size_t count)
{
    vw__append_u32_le(out, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        put_frame(out, &frames[i]);
}

static void put_rank(vw__byte_buffer *out, const vw_rank *rank)
{
    const uint64_t numbers[] = {
        rank->rank,
        rank->file_count,
        rank->peak_live_bytes,
        rank->peak_reserved_bytes,
        rank->event_count,
        rank->step_count,
        rank->tried_bytes,
        (uint64_t)rank->time_us,
        (uint64_t)rank->local_time_us,
        rank->card_bytes,
        (uint64_t)rank->last_time_us,
        (uint64_t)(int64_t)rank->device,
    };
    const uint8_t small[] = {(uint8_t)rank->basis,      rank->ran_out,
                             rank->has_verdict,         (uint8_t)rank->verdict,
                             (uint8_t)rank->confidence, rank->is_problem};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        vw__append_u64_le(out, numbers[i]);
    vw__append_bytes(out, small, sizeof small);
    put_double(out, rank->growth_bytes_per_step);
    put_text(out, rank->recording);
    put_text(out, rank->text);
    put_text(out, rank->sentence);
    put_text(out, rank->conf);
    put_frames(out, rank->failed_frames, rank->failed_frame_count);
}

static void put_account(const vw__ranks_work *work, const vw__ranks_account *account,
                        vw__byte_buffer *out)
{
    vw__append_u8(out, account->is_recording);
    put_rank(out, &account->shown);
    vw__append_u32_le(out, (uint32_t)account->site_count);
    for (size_t i = 0; i < account->site_count; i++) {
        const vw__ranks_site *site = &work->sites.sites[account->sites[i].site];
        put_frames(out, site->where, site->where != NULL);
        put_text(out, site->category);
        vw__append_u64_le(out, account->sites[i].bytes);
    }
    vw__append_u32_le(out, (uint32_t)account->setting_count);
    for (size_t i = 0; i < account->setting_count; i++) {
        put_text(out, account->settings[i].key);
        put_text(out, account->settings[i].value);
    }
}

static void put_file(const vw_rank_file *file, vw__byte_buffer *out)
{
    put_text(out, file->path);
    vw__append_u8(out, (uint8_t)file->kind);
    vw__append_u64_le(out, file->rank);
    vw__append_u64_le(out, file->rank_count);
    put_text(out, file->reason);
}

void vw__ranks_record_write(const vw__ranks_work *work, const vw_rank_file *files,
                            size_t file_count, vw__byte_buffer *record)
{
    vw__append_u32_le(record, (uint32_t)file_count);
    for (size_t i = 0; i < file_count; i++)
        put_file(&files[i], record);
    vw__append_u32_le(record, (uint32_t)work->accounts.count);
    for (size_t i = 0; i < work->accounts.count; i++)
        put_account(work, &work->accounts.accounts[i], record);
    vw__append_u32_le(record, (uint32_t)work->report->note_count);
    for (size_t i = 0; i < work->report->note_count; i++)
        put_text(record, work->report->notes[i]);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    vw__ranks_work *work;
    vw__byte_cursor at;
    bool has_no_memory;
} reader;

/* A copy in `arena`; NULL where NULL was written, and after a failure. */
static const char *take_text(reader *in, vw__arena *arena)
{
    uint32_t size_bytes = vw__byte_cursor_u32(&in->at);
    if (size_bytes == UINT32_MAX || in->at.has_failed)
        return NULL;
    const void *bytes = vw__byte_cursor_bytes(&in->at, size_bytes);
    if (bytes == NULL)
        return NULL;
    const char *copy = vw__arena_copy(arena, bytes, size_bytes);
    in->has_no_memory |= copy == NULL;
    return copy;
}

/* The same where NULL cannot be. */
static const char *take_word(reader *in, vw__arena *arena)
{
    const char *text = take_text(in, arena);
    in->at.has_failed |= text == NULL;
    return text != NULL ? text : "";
}

static double take_double(reader *in)
{
    uint64_t bits = vw__byte_cursor_u64(&in->at);
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* A number below `end`. */
static unsigned take_enumerator(reader *in, unsigned end)
{
    unsigned value = vw__byte_cursor_u8(&in->at);
    in->at.has_failed |= value >= end;
    return value < end ? value : 0;
}

static bool take_flag(reader *in)
{
    return take_enumerator(in, 2) != 0;
}

static size_t take_count(reader *in)
{
    size_t count = vw__byte_cursor_u32(&in->at);
    in->at.has_failed |= count > vw__byte_cursor_left(&in->at) / LEAST_LIST_BYTES;
    return in->at.has_failed ? 0 : count;
}

static void *take_room(reader *in, vw__arena *arena, size_t count, size_t element_bytes)
{
    void *room = vw__arena_alloc_array(arena, count, element_bytes, _Alignof(max_align_t));
    in->has_no_memory |= room == NULL;
    return room;
}

static vw_frame *take_frames(reader *in, vw__arena *arena, size_t *count)
{
    *count = take_count(in);
    vw_frame *frames = *count > 0 ? take_room(in, arena, *count, sizeof *frames) : NULL;
    for (size_t i = 0; frames != NULL && i < *count; i++) {
        frames[i].file = take_word(in, arena);
        frames[i].function = take_word(in, arena);
        frames[i].line = vw__byte_cursor_u32(&in->at);
    }
    return frames;
}

static void take_rank(reader *in, vw_rank *rank)
{
    vw__arena *arena = in->work->arena;
    vw__byte_cursor *at = &in->at;
    rank->rank = vw__byte_cursor_u64(at);
    rank->file_count = (size_t)vw__byte_cursor_u64(at);
    rank->peak_live_bytes = vw__byte_cursor_u64(at);
    rank->peak_reserved_bytes = vw__byte_cursor_u64(at);
    rank->event_count = vw__byte_cursor_u64(at);
    rank->step_count = vw__byte_cursor_u64(at);
    rank->tried_bytes = vw__byte_cursor_u64(at);
    rank->time_us = (int64_t)vw__byte_cursor_u64(at);
    rank->local_time_us = (int64_t)vw__byte_cursor_u64(at);
    rank->card_bytes = vw__byte_cursor_u64(at);
    rank->last_time_us = (int64_t)vw__byte_cursor_u64(at);
    rank->device = (int)(int64_t)vw__byte_cursor_u64(at);
    rank->basis = (vw_rank_basis)take_enumerator(in, VW_RANK_BASIS_TEXT + 1);
    rank->ran_out = take_flag(in);
    rank->has_verdict = take_flag(in);
    rank->verdict = (vw_verdict)take_enumerator(in, VW_VERDICT_UNKNOWN + 1);
    rank->confidence = (vw_confidence)take_enumerator(in, VW_CONFIDENCE_HIGH + 1);
    rank->is_problem = take_flag(in);
    rank->growth_bytes_per_step = take_double(in);
    rank->recording = take_text(in, arena);
    rank->text = take_text(in, arena);
    rank->sentence = take_word(in, arena);
    rank->conf = take_text(in, arena);
    rank->failed_frames = take_frames(in, arena, &rank->failed_frame_count);
}

static vw_status take_site(reader *in, vw__ranks_site_bytes *site)
{
    size_t frame_count;
    const vw_frame *where = take_frames(in, &in->work->scratch, &frame_count);
    const char *category = take_word(in, in->work->arena);
    site->bytes = vw__byte_cursor_u64(&in->at);
    return vw__ranks_site_find(in->work, where, category, &site->site);
}

static vw_status take_sites(reader *in, vw__ranks_account *account)
{
    size_t count = take_count(in);
    vw__ranks_site_bytes *sites = take_room(in, &in->work->scratch, count, sizeof *sites);
    account->sites = sites;
    for (size_t i = 0; sites != NULL && i < count && !in->at.has_failed; i++) {
        VW__TRY(take_site(in, &sites[i]));
        account->site_count++;
    }
    return VW_OK;
}

static void take_settings(reader *in, vw__ranks_account *account)
{
    size_t count = take_count(in);
    vw_setting *settings = take_room(in, &in->work->scratch, count, sizeof *settings);
    account->settings = settings;
    account->setting_count = settings != NULL ? count : 0;
    for (size_t i = 0; i < account->setting_count; i++) {
        settings[i].key = take_word(in, in->work->arena);
        settings[i].value = take_word(in, in->work->arena);
    }
}

static vw_status take_accounts(reader *in)
{
    size_t count = take_count(in);
    for (size_t i = 0; i < count && !in->at.has_failed; i++) {
        vw__ranks_account account = {.is_recording = take_flag(in)};
        take_rank(in, &account.shown);
        VW__TRY(take_sites(in, &account));
        take_settings(in, &account);
        VW__TRY(vw__ranks_accounts_add(&in->work->accounts, &account));
    }
    return VW_OK;
}

static vw_status take_files(reader *in, vw__ranks_record_files *out)
{
    size_t count = take_count(in);
    for (size_t i = 0; i < count && !in->at.has_failed; i++) {
        VW__TRY(vw__ranks_make_room((void **)&out->files, out->count, &out->capacity,
                                    sizeof *out->files));
        vw_rank_file *file = &out->files[out->count++];
        file->path = take_word(in, in->work->arena);
        file->kind = (vw_rank_file_kind)take_enumerator(in, VW_RANK_FILE_FOREIGN + 1);
        file->rank = vw__byte_cursor_u64(&in->at);
        file->rank_count = vw__byte_cursor_u64(&in->at);
        file->reason = take_text(in, in->work->arena);
    }
    return VW_OK;
}

static vw_status take_notes(reader *in)
{
    size_t count = take_count(in);
    for (size_t i = 0; i < count && !in->at.has_failed; i++)
        VW__TRY(vw__ranks_note(in->work, "%s", take_word(in, &in->work->scratch)));
    return VW_OK;
}

vw_status vw__ranks_record_read(vw__ranks_work *work, const void *bytes, size_t size_bytes,
                                vw__ranks_record_files *files)
{
    reader in = {.work = work, .at = vw__byte_cursor_of(bytes, size_bytes)};
    VW__TRY(take_files(&in, files));
    VW__TRY(take_accounts(&in));
    VW__TRY(take_notes(&in));
    if (in.has_no_memory)
        return vw__fail_host_memory(size_bytes, "the record of a file");
    if (in.at.has_failed || vw__byte_cursor_left(&in.at) != 0)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "expected the record of a file, found %zu bytes of something else",
                        size_bytes);
    return VW_OK;
}
