/* fuzz_doctor.c - any sequence of events, consistent or not, as a recording for the doctor.
 *
 * Bytes that are a snapshot by chance are rare, and make events that lead nowhere. So the input is
 * read as a program instead: three bytes are one event, which mostly concerns blocks that are
 * there. The doctor must come to an end and to a diagnosis that is whole: a sentence, findings in
 * order, figures that are figures. */
#include <stdlib.h>
#include <string.h>

#include "analysis/recording.h"
#include "vramwise/doctor.h"
#include "vramwise/report.h"
#include "model/model_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SLOTS = 64, STACKS = 8, MOST_EVENTS = 3000, HEADER_BYTES = 2, EVENT_BYTES = 3 };

#define BASE UINT64_C(0x7f0000000000)
#define SLOT_BYTES (UINT64_C(64) << 20)
#define TORCH "/venv/site-packages/torch/"

static const char *const stacks[STACKS][2] = {
    {"_call_impl", TORCH "nn/modules/module.py"},
    {"step", TORCH "optim/adam.py"},
    {"backward", TORCH "_tensor.py"},
    {"_apply", TORCH "nn/modules/module.py"},
    {"update", "/venv/site-packages/transformers/cache_utils.py"},
    {"main", "train.py"},
    {"cross_entropy", TORCH "nn/functional.py"},
    {NULL, NULL}, /* autograd's thread */
};

static void must(bool claim)
{
    if (!claim)
        abort();
}

typedef struct written {
    vw__model_builder *builder;
    uint32_t stacks[STACKS];
    uint16_t streams[2];
    size_t event_count;
} written;

static void make_stacks(written *to)
{
    for (unsigned i = 0; i < STACKS; i++) {
        uint32_t frames[2];
        size_t count = 0;
        if (stacks[i][0] != NULL) {
            uint32_t name, file;
            must(vw__model_add_string(to->builder, stacks[i][0], strlen(stacks[i][0]), &name) ==
                 VW_OK);
            must(vw__model_add_string(to->builder, stacks[i][1], strlen(stacks[i][1]), &file) ==
                 VW_OK);
            const vw__model_frame inner = {name, file, 10 + i};
            must(vw__model_add_frame(to->builder, &inner, &frames[count++]) == VW_OK);
            must(vw__model_add_string(to->builder, "main", 4, &name) == VW_OK);
            must(vw__model_add_string(to->builder, "train.py", 8, &file) == VW_OK);
            const vw__model_frame outer = {name, file, 100 + i};
            must(vw__model_add_frame(to->builder, &outer, &frames[count++]) == VW_OK);
        }
        must(vw__model_add_stack(to->builder, frames, count, &to->stacks[i]) == VW_OK);
    }
    must(vw__model_add_stream(to->builder, 0, &to->streams[0]) == VW_OK);
    must(vw__model_add_stream(to->builder, 77, &to->streams[1]) == VW_OK);
}

static void write_event(written *to, unsigned action, uint64_t address, uint64_t size_bytes,
                        uint32_t context, uint16_t stream)
{
    size_t index;
    const vw__model_event event = {
        .address = address,
        .size_bytes = size_bytes,
        .time_us = (int64_t)to->event_count++ * 10,
        .context = context,
        .note = VW__MODEL_NO_NOTE,
        .stream = stream,
        .pool = VW__MODEL_UNKNOWN_POOL,
        .action = (uint8_t)action,
    };
    must(vw__model_add_event(to->builder, &event, &index) == VW_OK);
}

/* Bits: what to do, which block, how large and for whom. */
static void write_events(written *to, const uint8_t *data, size_t size, bool has_stacks)
{
    uint64_t sizes[SLOTS] = {0}; /* of live blocks; 0 = free */
    for (size_t i = 0; i + EVENT_BYTES <= size && to->event_count < MOST_EVENTS; i += EVENT_BYTES) {
        unsigned slot = data[i + 1] % SLOTS;
        uint64_t address = BASE + slot * SLOT_BYTES;
        uint64_t size_bytes = (UINT64_C(512) << (data[i + 2] % 17)) - (data[i + 2] & 64);
        uint32_t stack = to->stacks[(data[i + 2] >> 5) % STACKS], context = VW__MODEL_NO_CONTEXT;
        uint16_t stream = to->streams[data[i + 1] >> 7];
        if (has_stacks)
            must(vw__model_begin_context(to->builder, stack, &context) == VW_OK);
        switch (data[i] % 16) {
        case 0:
            write_event(to, VW_ACTION_SEGMENT_ALLOC, address, SLOT_BYTES, context, stream);
            break;
        case 1:
            write_event(to, VW_ACTION_SEGMENT_FREE, address, SLOT_BYTES, context, stream);
            break;
        case 2:
            write_event(to, VW_ACTION_OOM, size_bytes * 64, size_bytes * 1024, context, stream);
            break;
        case 3:
            write_event(to, VW_ACTION_FREE_REQUESTED, address, size_bytes, context, stream);
            break;
        case 4:
            write_event(to, VW_ACTION_FREE_COMPLETED, address, size_bytes, context, stream);
            break;
        case 5:
            write_event(to, VW_ACTION_SEGMENT_MAP, address, UINT64_C(20) << 20, context, stream);
            break;
        case 6:
            write_event(to, VW_ACTION_SNAPSHOT, 0, 0, context, stream);
            break;
        default: /* as a program does: ask where nothing is, free where something is */
            if (sizes[slot] == 0) {
                write_event(to, VW_ACTION_ALLOC, address, size_bytes, context, stream);
                sizes[slot] = size_bytes;
            } else {
                write_event(to, VW_ACTION_FREE_REQUESTED, address, sizes[slot], context, stream);
                write_event(to, VW_ACTION_FREE_COMPLETED, address, sizes[slot], context, stream);
                sizes[slot] = 0;
            }
            break;
        }
    }
}

static bool drop(void *context, const char *bytes, size_t size_bytes)
{
    (void)context, (void)bytes, (void)size_bytes;
    return true;
}

static void check(const vw_diagnosis *diagnosis)
{
    must(diagnosis->sentence[0] != '\0');
    must(diagnosis->verdict <= VW_VERDICT_UNKNOWN);
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        must(finding->kind[0] != '\0' && finding->title[0] != '\0');
        for (size_t k = 0; k < finding->remedy_count; k++) {
            const vw_remedy *remedy = &finding->remedies[k];
            must(remedy->action[0] != '\0' && remedy->cost != NULL && remedy->how != NULL);
            must(remedy->saves_bytes <= remedy->saves_at_most_bytes);
        }
    }
    const vw_output output = {NULL, drop};
    for (int is_json = 0; is_json < 2; is_json++) {
        const vw_report_form form = {.struct_size = sizeof form, .is_json = is_json != 0};
        must(vw_report_doctor(diagnosis, &form, &output) == VW_OK);
    }
}

static void diagnose(const vw_recording *recording, uint64_t card_bytes)
{
    const vw_doctor_options options = {.struct_size = sizeof options, .card_bytes = card_bytes};
    vw_diagnosis *diagnosis = NULL;
    vw_status status = vw_doctor_recording(recording, &options, &diagnosis);
    if (status == VW_OK)
        check(diagnosis);
    else
        must(diagnosis == NULL && vw_last_error()[0] != '\0');
    vw_diagnosis_free(diagnosis);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    written to = {.event_count = 0};
    vw_recording recording = {.model = NULL};
    if (size < HEADER_BYTES || (size - HEADER_BYTES) % EVENT_BYTES != 0)
        return 0;
    must(vw__model_builder_create(SIZE_MAX / 2, &to.builder) == VW_OK);
    vw__model_builder_settings(to.builder)->conf = VW__MODEL_NO_STRING;
    vw__model_builder_settings(to.builder)->max_split_size = -1;
    make_stacks(&to);
    write_events(&to, data + HEADER_BYTES, size - HEADER_BYTES, (data[0] & 1) != 0);
    must(vw__model_add_trace(to.builder, 0, 0, to.event_count) == VW_OK);
    if (vw__model_finish(to.builder, &recording.model) != VW_OK) {
        vw__model_builder_destroy(to.builder);
        return 0;
    }
    diagnose(&recording, 0);
    diagnose(&recording, (uint64_t)(1 + data[1]) << 24);
    vw__model_destroy(recording.model);
    return 0;
}
