/* fuzz_torch_snapshot.c - any bytes as a memory snapshot: a pickle or JSON, compressed or not.
 *
 * The reading must come to an end within its memory, a refusal must say something, and what is
 * accepted must pass the model's own check, twice: walking every index in it touches nothing that
 * it does not own. And whatever it says, there is a view of it, or words for why not. */
#include <stdlib.h>
#include <string.h>

#include "headroom/view.h"
#include "analysis/recording.h"
#include "format/torch_snapshot_read.h"
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
static uint64_t walk(const hr__model *model)
{
    uint64_t sum = 0;
    for (size_t t = 0; t < model->trace_count; t++) {
        for (size_t i = 0; i < model->traces[t].event_count; i++) {
            const hr__model_event *event = &model->traces[t].events[i];
            hr__model_stack stack = hr__model_stack_of(model, event->context);
            for (uint32_t f = 0; f < stack.count && f < 64; f++) {
                const hr__model_frame *frame = &model->frames[model->frame_ids[stack.first + f]];
                sum += (uint8_t)hr__model_string(model, frame->name)[0] + frame->line;
                sum += (uint8_t)hr__model_string(model, frame->filename)[0];
            }
            if (event->note != HR__NO_NOTE)
                sum += (uint8_t)hr__model_string(model, model->notes[event->note].action)[0];
            sum += (uint8_t)hr__model_action_name(event->action)[0] + model->streams[event->stream];
        }
    }
    for (size_t i = 0; i < model->settings.entry_count; i++)
        sum += (uint8_t)hr__model_string(model, model->settings.entries[i].value)[0];
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
static void view_one(hr__model *model)
{
    const hr_recording recording = {.model = model};
    const hr_view_options options = {.struct_size = sizeof options, .without_what_if = true};
    hr_view *view = NULL;
    hr_status status = hr_view_make(&recording, NULL, &options, &view);
    if (status != HR_OK) {
        must(view == NULL);
        must(hr_last_error()[0] != '\0');
        must(status == HR_ERR_CORRUPT_FILE || status == HR_ERR_UNSUPPORTED);
        return;
    }
    size_t size_bytes, page_bytes = 0;
    const hr_output output = {&page_bytes, gather_nothing};
    const char *bytes = hr_view_data(view, &size_bytes);
    must(size_bytes > 16 && memcmp(bytes, "HRVIEW", 6) == 0);
    must(hr_view_write_page(view, &output) == HR_OK);
    must(page_bytes > size_bytes);
    hr_view_free(view);
}

static void read_one(const uint8_t *data, size_t size)
{
    const hr__byte_source_options options = {.output_limit_bytes = 8 << 20};
    hr__byte_source *source;
    hr__model *model = NULL;
    hr__snapshot_encoding encoding;
    if (hr__byte_source_open_memory(data, size, &options, &source) != HR_OK)
        return;
    hr_status status = hr__torch_snapshot_read(source, LIMIT_BYTES, &model, &encoding);
    hr__byte_source_close(source);
    if (status != HR_OK) {
        must(model == NULL);
        must(hr_last_error()[0] != '\0');
        must(status == HR_ERR_CORRUPT_FILE || status == HR_ERR_UNSUPPORTED);
        return;
    }
    must(hr__model_check(model) == HR_OK);
    must(hr__model_size_bytes(model) <= LIMIT_BYTES);
    volatile uint64_t sum = walk(model);
    (void)sum;
    view_one(model);
    hr__model_destroy(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t before_bytes = hr__host_memory_get_use().in_use_bytes;
    read_one(data, size);
    must(hr__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
