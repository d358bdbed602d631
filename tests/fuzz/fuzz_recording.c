/* fuzz_recording.c - recordings that are nearly right: bytes choose events, blocks, stacks and what
 * is wrong with them, so that a change of a byte is a change of the recording's structure.
 *
 * Bytes as files rarely get past the reader (fuzz_torch_snapshot tries). Here every input is a
 * snapshot whose events refer to each other's blocks, and whose segments at the end are those that
 * its events left, except where a byte says otherwise. What the reader takes, every analysis must
 * take: an answer, or words for why not, and no memory left. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "vramwise/analysis.h"
#include "vramwise/doctor.h"
#include "base/host_memory.h"
#include "export/json_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_SEGMENTS = 12, MOST_BLOCKS = 24, MOST_EVENTS = 300, LIMIT_BYTES = 32 << 20 };

#define BASE UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)

typedef struct block {
    uint64_t offset, size_bytes; /* in its segment */
    bool is_live;
    uint8_t stack;
} block;

typedef struct segment {
    uint64_t address, size_bytes;
    uint8_t stream, pool;
    bool is_there;
    block blocks[MOST_BLOCKS]; /* one behind the other */
    size_t block_count;
} segment;

typedef struct maker {
    const uint8_t *bytes;
    size_t size_bytes, at;
    vw__json json;
    segment segments[MOST_SEGMENTS];
    size_t segment_count, event_count;
    int64_t time_us;
} maker;

static void must(bool claim)
{
    if (!claim)
        abort();
}

static uint8_t next(maker *m)
{
    return m->at < m->size_bytes ? m->bytes[m->at++] : 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_stack(maker *m, uint8_t which)
{
    static const char *const names[] = {"forward", "backward", "step", "linear", "__init__"};
    static const char *const files[] = {"train.py", "torch/nn/modules/linear.py",
                                        "torch/optim/adamw.py", "??"};
    vw__json_begin_array(&m->json, "frames");
    for (unsigned i = 0; i < which % 5u; i++) {
        vw__json_begin_object(&m->json, NULL);
        vw__json_text(&m->json, "name", names[(which + i) % 5]);
        vw__json_text(&m->json, "filename", files[(which / 5u + i) % 4]);
        vw__json_unsigned(&m->json, "line", which + i);
        vw__json_end_object(&m->json);
    }
    vw__json_end_array(&m->json);
}

static void write_event(maker *m, const char *action, const segment *owner, uint64_t address,
                        uint64_t size_bytes, uint8_t stack)
{
    if (m->event_count++ >= MOST_EVENTS)
        return;
    m->time_us += 10 + stack;
    vw__json_begin_object(&m->json, NULL);
    vw__json_text(&m->json, "action", action);
    vw__json_unsigned(&m->json, "addr", address);
    vw__json_unsigned(&m->json, "size", size_bytes);
    vw__json_unsigned(&m->json, "stream", owner != NULL ? owner->stream : 0);
    vw__json_integer(&m->json, "time_us", m->time_us);
    if (owner != NULL && owner->pool != 0) {
        vw__json_begin_array(&m->json, "pool_id");
        vw__json_unsigned(&m->json, NULL, owner->pool);
        vw__json_unsigned(&m->json, NULL, 1);
        vw__json_end_array(&m->json);
    }
    write_stack(m, stack);
    vw__json_end_object(&m->json);
}

/* ---- what happens ---------------------------------------------------------------------------- */

static segment *choose_segment(maker *m)
{
    uint8_t number = next(m);
    return m->segment_count != 0 ? &m->segments[number % m->segment_count] : NULL;
}

static void make_segment(maker *m)
{
    uint8_t kind = next(m), stack = next(m);
    if (m->segment_count == MOST_SEGMENTS)
        return;
    segment *made = &m->segments[m->segment_count];
    *made = (segment){.address = BASE + m->segment_count * 64 * MIB,
                      .size_bytes = kind % 2 != 0 ? 2 * MIB : (10 + kind % 11u) * 2 * MIB,
                      .stream = kind / 64,
                      .pool = kind % 16 == 0,
                      .is_there = true,
                      .block_count = 1};
    made->blocks[0] = (block){.size_bytes = made->size_bytes};
    m->segment_count++;
    write_event(m, "segment_alloc", made, made->address, made->size_bytes, stack);
}

/* Best fit in a segment, as an allocator would; the rest is split off. */
static void allocate(maker *m)
{
    segment *in = choose_segment(m);
    uint64_t size_bytes = 512 * (1 + (uint64_t)next(m) * (1 + next(m) % 32u));
    uint8_t stack = next(m);
    block *best = NULL;
    for (size_t i = 0; in != NULL && in->is_there && i < in->block_count; i++)
        if (!in->blocks[i].is_live && in->blocks[i].size_bytes >= size_bytes &&
            (best == NULL || in->blocks[i].size_bytes < best->size_bytes))
            best = &in->blocks[i];
    if (best == NULL)
        return;
    if (best->size_bytes > size_bytes && in->block_count < MOST_BLOCKS) {
        size_t place = (size_t)(best - in->blocks);
        memmove(best + 2, best + 1, (in->block_count - place - 1) * sizeof *best);
        in->block_count++;
        best[1] = (block){.offset = best->offset + size_bytes,
                          .size_bytes = best->size_bytes - size_bytes};
        best->size_bytes = size_bytes;
    }
    best->is_live = true;
    best->stack = stack;
    write_event(m, "alloc", in, in->address + best->offset, best->size_bytes, stack);
}

static void release(maker *m)
{
    segment *in = choose_segment(m);
    uint8_t which = next(m), how = next(m);
    if (in == NULL || !in->is_there)
        return;
    block *freed = &in->blocks[which % in->block_count];
    if (!freed->is_live)
        return;
    freed->is_live = false;
    if (how % 8 != 0)
        write_event(m, "free_requested", in, in->address + freed->offset, freed->size_bytes, how);
    if (how % 8 != 1)
        write_event(m, "free_completed", in, in->address + freed->offset, freed->size_bytes, how);
}

static void drop_segment(maker *m)
{
    segment *dropped = choose_segment(m);
    if (dropped == NULL || !dropped->is_there)
        return;
    for (size_t i = 0; i < dropped->block_count; i++)
        if (dropped->blocks[i].is_live)
            return;
    dropped->is_there = false;
    write_event(m, "segment_free", dropped, dropped->address, dropped->size_bytes, 0);
}

/* An event that may contradict the others. */
static void say_something_wrong(maker *m)
{
    static const char *const actions[] = {
        "alloc",        "free_requested", "free_completed",    "segment_alloc",
        "segment_free", "segment_map",    "segment_unmap",     "oom",
        "snapshot",     "user_defined",   "workspace_snapshot"};
    const segment *in = choose_segment(m);
    uint8_t action = next(m), where = next(m), stack = next(m);
    uint64_t address = in != NULL ? in->address + 512 * (uint64_t)where : where;
    write_event(m, actions[action % 11], in, action >= 250 ? UINT64_MAX - where : address,
                action % 64 == 0 ? UINT64_MAX : 512 * (1 + (uint64_t)stack * stack), stack);
}

static void (*const happenings[])(maker *) = {
    make_segment, allocate, allocate,     allocate,
    release,      release,  drop_segment, say_something_wrong};

/* ---- the whole ------------------------------------------------------------------------------- */

static void write_block(maker *m, const segment *in, const block *one, bool is_wrong)
{
    vw__json_begin_object(&m->json, NULL);
    vw__json_unsigned(&m->json, "address", in->address + one->offset + (is_wrong ? 512 : 0));
    vw__json_unsigned(&m->json, "size", one->size_bytes);
    vw__json_unsigned(&m->json, "requested_size", one->is_live ? one->size_bytes : 0);
    vw__json_text(&m->json, "state", one->is_live ? "active_allocated" : "inactive");
    if (one->is_live)
        write_stack(m, one->stack);
    vw__json_end_object(&m->json);
}

static void write_segment(maker *m, const segment *one, bool is_wrong)
{
    uint64_t live_bytes = 0;
    for (size_t i = 0; i < one->block_count; i++)
        live_bytes += one->blocks[i].is_live ? one->blocks[i].size_bytes : 0;
    vw__json_begin_object(&m->json, NULL);
    vw__json_unsigned(&m->json, "device", 0);
    vw__json_unsigned(&m->json, "address", one->address);
    vw__json_unsigned(&m->json, "total_size", one->size_bytes);
    vw__json_unsigned(&m->json, "allocated_size", live_bytes);
    vw__json_unsigned(&m->json, "active_size", live_bytes);
    vw__json_unsigned(&m->json, "stream", one->stream);
    vw__json_text(&m->json, "segment_type", one->size_bytes == 2 * MIB ? "small" : "large");
    vw__json_begin_array(&m->json, "blocks");
    for (size_t i = 0; i < one->block_count; i++)
        write_block(m, one, &one->blocks[i], is_wrong && i + 1 == one->block_count);
    vw__json_end_array(&m->json);
    vw__json_end_object(&m->json);
}

static void write_recording(maker *m)
{
    static const char *const confs[] = {"", "max_split_size_mb:64", "expandable_segments:True",
                                        "garbage_collection_threshold:0.8"};
    uint8_t choices = next(m);
    vw__json_begin_object(&m->json, NULL);
    vw__json_begin_array(&m->json, "device_traces");
    vw__json_begin_array(&m->json, NULL);
    while (m->at < m->size_bytes && m->event_count < MOST_EVENTS)
        happenings[next(m) % 8u](m);
    vw__json_end_array(&m->json);
    vw__json_end_array(&m->json);
    vw__json_begin_array(&m->json, "segments");
    for (size_t i = 0; i < m->segment_count; i++)
        if (m->segments[i].is_there)
            write_segment(m, &m->segments[i], choices % 16 == 15 && i == 0);
    vw__json_end_array(&m->json);
    vw__json_begin_object(&m->json, "allocator_settings");
    vw__json_text(&m->json, "PYTORCH_CUDA_ALLOC_CONF", confs[choices / 16 % 4]);
    vw__json_end_object(&m->json);
    vw__json_end_object(&m->json);
}

/* An answer, or words. */
static bool has_answer(vw_status status)
{
    must(status == VW_OK || vw_last_error()[0] != '\0');
    must(status != VW_ERR_HOST_MEMORY && status != VW_ERR_DEVICE);
    return status == VW_OK;
}

static void analyse(const vw_recording *recording)
{
    vw_recording_stats *stats = NULL;
    vw_verify_result *verified = NULL;
    vw_diagnosis *diagnosis = NULL;
    if (has_answer(vw_recording_stats_make(recording, NULL, &stats)))
        vw_recording_stats_free(stats);
    if (has_answer(vw_recording_verify(recording, NULL, &verified)))
        vw_verify_result_free(verified);
    if (has_answer(vw_doctor_recording(recording, NULL, &diagnosis)))
        vw_diagnosis_free(diagnosis);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    const vw_open_options options = {.struct_size = sizeof options,
                                     .memory_limit_bytes = LIMIT_BYTES};
    vw__byte_buffer text;
    vw_recording *recording = NULL;
    maker m = {.bytes = data, .size_bytes = size};
    vw__byte_buffer_init(&text);
    vw__json_init(&m.json, &text);
    write_recording(&m);
    must(!vw__byte_buffer_has_failed(&text));
    if (has_answer(vw_recording_open_memory(vw__byte_buffer_text(&text),
                                            vw__byte_buffer_size(&text), &options, &recording)))
        analyse(recording);
    vw_recording_close(recording);
    vw__byte_buffer_deinit(&text);
    must(vw__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
