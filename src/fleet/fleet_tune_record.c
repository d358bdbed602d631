/* fleet_tune_record.c - tries one file under the grid of settings, and writes down what came of it.
 *
 *   record      u64 hash of the rows, u64 card, u64 context, u8 whole card, u8 kind, and
 *     of UNREADABLE   the reason
 *     of RECORDING    the recorded options, u8 possible, u8 new variable, u64 peak of live bytes,
 *                     the recorded cell, the cell of each row
 *
 *   cell        u8 flags, u64 reserved, u64 retries, u64 calls, u64 nanoseconds */
#include <string.h>

#include "analysis/recording.h"
#include "base/byte_cursor.h"
#include "base/error.h"
#include "fleet/fleet_part.h" /* vw__fleet_part_put_text */
#include "fleet/fleet_tune_parts.h"
#include "parse/byte_source.h"
#include "parse/file_kind.h"

enum { CELL_REFUSED = 1, CELL_COMPLETE = 2, CELL_SLOW = 4, CELL_FLAGS_END = 8 };

uint64_t vw__fleet_tune_rows_hash(void)
{
    vw__tune_grid_row rows[VW__TUNE_GRID_MOST];
    size_t row_count = vw__tune_grid_rows(rows);
    uint64_t hash = VW__FLEET_PART_HASH;
    for (size_t i = 0; i < row_count; i++) {
        hash = vw__fleet_part_hash(hash, rows[i].policy, strlen(rows[i].policy) + 1);
        hash = vw__fleet_part_hash(hash, rows[i].conf, strlen(rows[i].conf) + 1);
    }
    return hash;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_cell(vw__byte_buffer *out, const vw__tune_grid_cell *cell)
{
    vw__append_u8(out, (uint8_t)((cell->is_refused ? CELL_REFUSED : 0) |
                                 (cell->is_complete ? CELL_COMPLETE : 0) |
                                 (cell->is_slow ? CELL_SLOW : 0)));
    vw__append_u64_le(out, cell->peak_reserved_bytes);
    vw__append_u64_le(out, cell->retries);
    vw__append_u64_le(out, cell->driver_calls);
    vw__append_u64_le(out, cell->driver_ns);
}

static void put_head(vw__byte_buffer *out, const vw__fleet_tune_card *card,
                     vw__fleet_tune_kind kind)
{
    vw__append_u64_le(out, vw__fleet_tune_rows_hash());
    vw__append_u64_le(out, card->card_bytes);
    vw__append_u64_le(out, card->context_bytes);
    vw__append_u8(out, card->is_whole_card);
    vw__append_u8(out, (uint8_t)kind);
}

static void put_grid(vw__byte_buffer *out, const vw__tune_grid *grid)
{
    vw__tune_grid_row rows[VW__TUNE_GRID_MOST];
    size_t row_count = vw__tune_grid_rows(rows);
    vw__fleet_part_put_text(out, grid->recorded_conf);
    vw__append_u8(out, grid->is_possible);
    vw__append_u8(out, strcmp(grid->variable, "PYTORCH_ALLOC_CONF") == 0);
    vw__append_u64_le(out, grid->peak_live_bytes);
    put_cell(out, &grid->recorded);
    for (size_t i = 0; i < row_count; i++)
        put_cell(out, &grid->cells[i]);
}

/* ---- trying ---------------------------------------------------------------------------------- */

/* `*is_read`: a failure is the replay's, and more memory for reading does not help. */
static vw_status try_recording(const vw__fleet_tune_try *how, vw__byte_source *source,
                               const vw__fleet_means *means, vw__byte_buffer *record, bool *is_read)
{
    const vw__tune_grid_options options = {.torch_version = how->torch_version,
                                           .card_bytes = how->card.card_bytes,
                                           .most_threads = means->thread_count};
    vw_recording *recording = NULL;
    vw__tune_grid grid;
    VW__TRY(vw__recording_open_source(source, means->memory.limit_bytes, &recording));
    *is_read = true;
    vw_status status = vw__tune_grid_try(recording->model, &options, &grid);
    vw_recording_close(recording);
    VW__TRY(status);
    put_head(record, &how->card, VW__FLEET_TUNE_RECORDING);
    put_grid(record, &grid);
    vw__tune_grid_free(&grid);
    return VW_OK;
}

static vw_status try_source(const vw__fleet_tune_try *how, vw__byte_source *source,
                            const vw__fleet_means *means, vw__byte_buffer *record, bool *is_read)
{
    const uint8_t *bytes;
    size_t size_bytes;
    bool is_recording = false;
    VW__TRY(vw__byte_source_peek(source, VW__FILE_KIND_BYTES, &bytes, &size_bytes));
    if (vw__file_kind_detect(bytes, size_bytes, &is_recording) == VW_OK && is_recording)
        return try_recording(how, source, means, record, is_read);
    put_head(record, &how->card, VW__FLEET_TUNE_FOREIGN);
    return VW_OK;
}

static vw_status try_file(const vw__fleet_tune_try *how, const vw__ranks_job_list *list,
                          size_t place, const vw__fleet_means *means, vw__byte_buffer *record,
                          bool *is_read)
{
    vw__byte_source *source = NULL;
    vw_status status = vw__ranks_job_list_open(list, place, &source);
    if (status == VW_OK)
        status = try_source(how, source, means, record, is_read);
    vw__byte_source_close(source);
    return status;
}

static vw_status check_record(const vw__byte_buffer *record)
{
    return vw__byte_buffer_has_failed(record)
               ? vw__fail_host_memory(vw__byte_buffer_size(record), "the record of a file")
               : VW_OK;
}

vw_status vw__fleet_tune_examine(const void *context, const vw__ranks_job_list *list, size_t unit,
                                 const vw__fleet_means *means, vw__byte_buffer *record,
                                 bool *may_change)
{
    const vw__fleet_tune_try *how = context;
    bool is_read = false;
    *may_change = false;
    if (unit == VW__RANKS_UNIT_TEXTS) {
        put_head(record, &how->card, VW__FLEET_TUNE_NOTHING);
        return check_record(record);
    }
    vw_status status = try_file(how, list, unit, means, record, &is_read);
    bool is_short_of_memory =
        status == VW_ERR_HOST_MEMORY || (status == VW_ERR_UNSUPPORTED && !is_read);
    if (means->memory.may_get_more && is_short_of_memory)
        return VW_ERR_HOST_MEMORY; /* a limit is UNSUPPORTED; the message stays */
    if (status != VW_OK) {
        *may_change = is_short_of_memory || (vw__ranks_unit_may_change(status) && !is_read);
        put_head(record, &how->card, VW__FLEET_TUNE_UNREADABLE);
        vw__fleet_part_put_text(record, vw__ranks_job_list_words(list, unit, vw_last_error()));
    }
    return check_record(record);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool take_flag(vw__byte_cursor *at)
{
    uint8_t value = vw__byte_cursor_u8(at);
    at->has_failed |= value > 1;
    return value == 1;
}

static void take_cell(vw__byte_cursor *at, vw__tune_grid_cell *cell)
{
    uint8_t flags = vw__byte_cursor_u8(at);
    at->has_failed |= flags >= CELL_FLAGS_END;
    *cell = (vw__tune_grid_cell){
        .is_refused = (flags & CELL_REFUSED) != 0,
        .is_complete = (flags & CELL_COMPLETE) != 0,
        .is_slow = (flags & CELL_SLOW) != 0,
    };
    cell->peak_reserved_bytes = vw__byte_cursor_u64(at);
    cell->retries = vw__byte_cursor_u64(at);
    cell->driver_calls = vw__byte_cursor_u64(at);
    cell->driver_ns = vw__byte_cursor_u64(at);
}

static void take_grid(vw__byte_cursor *at, size_t row_count, vw__fleet_tune_record *out)
{
    out->recorded_conf = vw__fleet_part_take_text(at);
    out->is_possible = take_flag(at);
    out->is_new_variable = take_flag(at);
    out->peak_live_bytes = vw__byte_cursor_u64(at);
    take_cell(at, &out->recorded);
    for (size_t i = 0; i < row_count && !at->has_failed; i++)
        take_cell(at, &out->cells[i]);
}

vw_status vw__fleet_tune_record_read(const vw__ranks_record *bytes, size_t row_count,
                                     vw__fleet_tune_record *out)
{
    vw__byte_cursor at = vw__byte_cursor_of(bytes->bytes, bytes->size_bytes);
    *out = (vw__fleet_tune_record){.reason = "", .recorded_conf = ""};
    if (vw__byte_cursor_u64(&at) != vw__fleet_tune_rows_hash())
        return vw__fail(VW_ERR_CORRUPT_FILE, "another version of vramwise wrote it");
    out->card.card_bytes = vw__byte_cursor_u64(&at);
    out->card.context_bytes = vw__byte_cursor_u64(&at);
    out->card.is_whole_card = take_flag(&at);
    uint8_t kind = vw__byte_cursor_u8(&at);
    at.has_failed |= kind >= VW__FLEET_TUNE_KINDS;
    out->kind = at.has_failed ? VW__FLEET_TUNE_NOTHING : (vw__fleet_tune_kind)kind;
    if (out->kind == VW__FLEET_TUNE_RECORDING)
        take_grid(&at, row_count, out);
    if (out->kind == VW__FLEET_TUNE_UNREADABLE)
        out->reason = vw__fleet_part_take_text(&at);
    if (at.has_failed || vw__byte_cursor_left(&at) != 0)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "expected the record of a tuning, found %zu bytes of something else",
                        bytes->size_bytes);
    return VW_OK;
}
