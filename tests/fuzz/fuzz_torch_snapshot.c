/* fuzz_torch_snapshot.c - any bytes as a memory snapshot: a pickle or JSON, compressed or not.
 *
 * The reading must come to an end within its memory, a refusal must say something, and what is
 * accepted must pass the model's own check, twice: walking every index in it touches nothing that
 * it does not own. And whatever it says, there is a view of it, or words for why not. */
#include <stdlib.h>
#include <string.h>

#include "vramwise/view.h"
#include "analysis/recording.h"
#include "parse/torch_snapshot_read.h"
#include "base/host_memory.h"
#include "model/model_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LIMIT_BYTES = 32 << 20 };

static void must(bool claim)
{
    if (!claim)
        abort();
}

/* Follows everything that an event refers to. */
static uint64_t walk(const vw__model *model)
{
    uint64_t sum = 0;
    for (size_t t = 0; t < model->trace_count; t++) {
        for (size_t i = 0; i < model->traces[t].event_count; i++) {
            const vw__model_event *event = &model->traces[t].events[i];
            vw__model_stack stack = vw__model_stack_of(model, event->context);
            for (uint32_t f = 0; f < stack.count && f < 64; f++) {
                const vw__model_frame *frame = &model->frames[model->frame_ids[stack.first + f]];
                sum += (uint8_t)vw__model_string(model, frame->name)[0] + frame->line;
                sum += (uint8_t)vw__model_string(model, frame->filename)[0];
            }
            if (event->note != VW__MODEL_NO_NOTE)
                sum += (uint8_t)vw__model_string(model, model->notes[event->note].action)[0];
            sum += (uint8_t)vw__model_action_name(event->action)[0] + model->streams[event->stream];
        }
    }
    for (size_t i = 0; i < model->settings.entry_count; i++)
        sum += (uint8_t)vw__model_string(model, model->settings.entries[i].value)[0];
    return sum;
}

static bool gather_nothing(void *context, const char *bytes, size_t size_bytes)
{
    size_t *sum = context;
    (void)bytes;
    *sum += size_bytes;
    return true;
}

/* Without replays: fuzz_doctor makes those. */
static void view_one(vw__model *model)
{
    const vw_recording recording = {.model = model};
    const vw_view_options options = {.struct_size = sizeof options, .without_what_if = true};
    vw_view *view = NULL;
    vw_status status = vw_view_make(&recording, NULL, &options, &view);
    if (status != VW_OK) {
        must(view == NULL);
        must(vw_last_error()[0] != '\0');
        must(status == VW_ERR_CORRUPT_FILE || status == VW_ERR_UNSUPPORTED);
        return;
    }
    size_t size_bytes, page_bytes = 0;
    const vw_output output = {&page_bytes, gather_nothing};
    const char *bytes = vw_view_data(view, &size_bytes);
    must(size_bytes > 16 && memcmp(bytes, "VWVIEW", 6) == 0);
    must(vw_view_write_page(view, &output) == VW_OK);
    must(page_bytes > size_bytes);
    vw_view_free(view);
}

static void read_one(const uint8_t *data, size_t size)
{
    const vw__byte_source_options options = {.output_limit_bytes = 8 << 20};
    vw__byte_source *source;
    vw__model *model = NULL;
    vw__snapshot_encoding encoding;
    if (vw__byte_source_open_memory(data, size, &options, &source) != VW_OK)
        return;
    vw_status status = vw__snapshot_read(source, LIMIT_BYTES, &model, &encoding);
    vw__byte_source_close(source);
    if (status != VW_OK) {
        must(model == NULL);
        must(vw_last_error()[0] != '\0');
        must(status == VW_ERR_CORRUPT_FILE || status == VW_ERR_UNSUPPORTED);
        return;
    }
    must(vw__model_check(model, NULL) == VW_OK);
    must(vw__model_size_bytes(model) <= LIMIT_BYTES);
    volatile uint64_t sum = walk(model);
    (void)sum;
    view_one(model);
    vw__model_destroy(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    read_one(data, size);
    must(vw__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
