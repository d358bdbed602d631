/* traced_play.c - the requests of a trace, played through the pool.
 *
 * An event is a list that begins with its kind:
 *
 *   [0, slot, bytes, stack]                             a request
 *   [1, slot]                                           a free
 *   [2, kind, is backward, number ..., stack]           an operator whose kernel takes more
 * (hidden.h) [3, name], [4, name]                                an annotation begins, ends
 *
 * Slots are numbered in the order of requests. A stack is a place in `stacks`, which has places in
 * `frames`, the innermost first. Nothing of it is trusted: a file that contradicts itself is
 * refused with the number of the event. */
#include <stdarg.h>
#include <stdio.h> /* vsnprintf */
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "plan/hidden.h"
#include "plan/traced.h"

enum { MOST_FRAMES = 256, MOST_NUMBERS = 24 };

#define MADE_UP "traced by vramwise: nothing was measured, times are made up"

typedef enum event_kind { ALLOC, FREE, HIDDEN, BEGIN, END, EVENT_KINDS } event_kind;

typedef struct playing {
    const vw__traced_lists *lists;
    const char *card_name;
    vw__traced_tally *tally;
    vw__playback playback;
    uint32_t *frame_ids; /* owned; by place in `frames` */
    size_t frame_count;
    vw__value *stacks;   /* owned; by place in `stacks` */
    uint32_t *stack_ids; /* owned; likewise */
    size_t stack_count;
    vw_device_ptr *addresses; /* owned; by slot; 0: freed */
    size_t slot_count, slot_capacity;
    bool has_workspace[2]; /* cuBLAS's: of the program's thread, and of autograd's */
    size_t event;          /* its place in `events`, for messages */
} playing;

/* ---- fields ---------------------------------------------------------------------------------- */

/* The items of an event, or of a frame. */
typedef struct fields {
    vw__value items[MOST_NUMBERS];
    size_t count;
} fields;

/* More than MOST_NUMBERS are counted, and not kept. */
static fields fields_of(const vw__document *document, vw__value list)
{
    fields found = {.count = 0};
    uint64_t cursor = 0;
    vw__value item;
    vw__value_kind kind = vw__value_get_kind(list);
    if (kind != VW__VALUE_LIST)
        return found;
    while (vw__value_next_item(document, list, &cursor, &item)) {
        if (found.count < MOST_NUMBERS)
            found.items[found.count] = vw__document_resolve(document, item);
        found.count++;
    }
    return found;
}

static const char *text_of(const playing *p, vw__value value)
{
    size_t size_bytes;
    if (vw__value_get_kind(value) != VW__VALUE_STRING)
        return NULL;
    return vw__value_string(p->lists->document, value, &size_bytes);
}

__attribute__((format(printf, 2, 3), cold)) static vw_status refuse(const playing *p,
                                                                    const char *format, ...)
{
    char words[160];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    return vw__fail(VW_ERR_CORRUPT_FILE, "event %zu of the trace: %s", p->event, words);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static vw_status add_frame(playing *p, size_t place, vw__value value)
{
    const fields frame = fields_of(p->lists->document, value);
    uint64_t line;
    if (frame.count != 3 || text_of(p, frame.items[0]) == NULL ||
        !vw__value_get_u64(p->lists->document, frame.items[1], &line) || line > UINT32_MAX ||
        text_of(p, frame.items[2]) == NULL)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "frame %zu of the trace: expected [file, line, function], found %s", place,
                        frame.count == 0 ? vw__value_kind_name(vw__value_get_kind(value))
                                         : "other fields");
    return vw__playback_add_frame(&p->playback, text_of(p, frame.items[0]), (uint32_t)line,
                                  text_of(p, frame.items[2]), &p->frame_ids[place]);
}

static vw_status add_frames(playing *p)
{
    uint64_t cursor = 0;
    vw__value item;
    for (size_t i = 0; vw__value_next_item(p->lists->document, p->lists->frames, &cursor, &item);
         i++)
        VW__TRY(add_frame(p, i, vw__document_resolve(p->lists->document, item)));
    return VW_OK;
}

/* The stack at that place, with `innermost` as its first frame unless that is NULL. */
static vw_status make_stack(playing *p, size_t place, const uint32_t *innermost, uint32_t *id)
{
    uint32_t ids[MOST_FRAMES];
    uint64_t cursor = 0, frame;
    vw__value item;
    size_t count = 0; /* the outermost of too many are left out */
    if (innermost != NULL)
        ids[count++] = *innermost;
    while (count < MOST_FRAMES &&
           vw__value_next_item(p->lists->document, p->stacks[place], &cursor, &item)) {
        if (!vw__value_get_u64(p->lists->document, item, &frame) || frame >= p->frame_count)
            return vw__fail(VW_ERR_CORRUPT_FILE,
                            "stack %zu of the trace: expected numbers of frames below %zu, found "
                            "another value",
                            place, p->frame_count);
        ids[count++] = p->frame_ids[frame];
    }
    return vw__model_add_stack(p->playback.builder, ids, count, id);
}

static vw_status add_stacks(playing *p)
{
    uint64_t cursor = 0;
    vw__value item;
    for (size_t i = 0; vw__value_next_item(p->lists->document, p->lists->stacks, &cursor, &item);
         i++) {
        p->stacks[i] = vw__document_resolve(p->lists->document, item);
        vw__value_kind kind = vw__value_get_kind(p->stacks[i]);
        if (kind != VW__VALUE_LIST)
            return vw__fail(VW_ERR_CORRUPT_FILE,
                            "stack %zu of the trace: expected a list of frames, found %s", i,
                            vw__value_kind_name(kind));
        VW__TRY(make_stack(p, i, NULL, &p->stack_ids[i]));
    }
    return VW_OK;
}

static vw_status read_stack(const playing *p, vw__value value, size_t *place)
{
    uint64_t number;
    if (!vw__value_get_u64(p->lists->document, value, &number) || number >= p->stack_count)
        return refuse(p, "expected the number of a stack below %zu, found another value",
                      p->stack_count);
    *place = (size_t)number;
    return VW_OK;
}

/* ---- requests -------------------------------------------------------------------------------- */

static vw_status play_alloc(playing *p, const fields *event)
{
    uint64_t slot, size_bytes;
    size_t stack = 0;
    if (event->count != 4 || !vw__value_get_u64(p->lists->document, event->items[1], &slot) ||
        !vw__value_get_u64(p->lists->document, event->items[2], &size_bytes) || size_bytes == 0)
        return refuse(p, "expected [0, slot, bytes, stack] of 1 byte or more, found other fields");
    if (slot != p->slot_count)
        return refuse(p, "expected a request for slot %zu, the next one, found slot %llu",
                      p->slot_count, (unsigned long long)slot);
    VW__TRY(read_stack(p, event->items[3], &stack));
    return vw__playback_alloc(&p->playback, size_bytes, p->stack_ids[stack],
                              &p->addresses[p->slot_count++]);
}

static vw_status play_free(playing *p, const fields *event)
{
    uint64_t slot;
    if (event->count != 2 || !vw__value_get_u64(p->lists->document, event->items[1], &slot))
        return refuse(p, "expected [1, slot], found other fields");
    if (slot >= p->slot_count)
        return refuse(p, "expected the free of one of %zu slots, found slot %llu", p->slot_count,
                      (unsigned long long)slot);
    if (p->addresses[slot] == 0)
        return refuse(p, "slot %llu is freed twice", (unsigned long long)slot);
    VW__TRY(vw__playback_free(&p->playback, p->addresses[slot]));
    p->addresses[slot] = 0;
    return VW_OK;
}

/* ---- what kernels take beside ---------------------------------------------------------------- */

/* An operator, as an event names it. */
typedef struct hidden_event {
    uint64_t is_backward;
    uint64_t numbers[MOST_NUMBERS];
    size_t stack;
} hidden_event;

static vw_status add_workspace_stack(playing *p, size_t stack, const char *library,
                                     const char *function, uint32_t *id)
{
    uint32_t frame;
    VW__TRY(vw__playback_add_frame(&p->playback, library, 0, function, &frame));
    return make_stack(p, stack, &frame, id);
}

/* Takes and frees what the rule says. */
static vw_status play_steps(playing *p, const vw__hidden *hidden, uint32_t stack)
{
    vw_device_ptr taken[VW__HIDDEN_MOST] = {0};
    for (size_t i = 0; i < hidden->count; i++) {
        const vw__hidden_step *step = &hidden->steps[i];
        if (step->size_bytes > 0) {
            VW__TRY(vw__playback_alloc(&p->playback, step->size_bytes, stack, &taken[i]));
            continue;
        }
        VW__TRY(vw__playback_free(&p->playback, taken[step->taken]));
        taken[step->taken] = 0;
    }
    for (size_t i = 0; i < hidden->count; i++)
        if (taken[i] != 0)
            VW__TRY(vw__playback_free(&p->playback, taken[i]));
    return VW_OK;
}

/* cuBLAS keeps its workspace. */
static vw_status play_matmul(playing *p, const hidden_event *event)
{
    vw_device_ptr kept;
    uint32_t stack;
    bool *has_workspace = &p->has_workspace[event->is_backward != 0];
    if (*has_workspace)
        return VW_OK;
    *has_workspace = true;
    VW__TRY(add_workspace_stack(p, event->stack, "libcublas.so", "cublasSetWorkspace", &stack));
    return vw__playback_alloc(&p->playback, vw__hidden_cublas_bytes(p->card_name), stack, &kept);
}

static vw_status play_sum(playing *p, const hidden_event *event)
{
    const vw__hidden hidden =
        vw__hidden_sum(event->numbers[0], event->numbers[1], event->numbers[2]);
    return play_steps(p, &hidden, p->stack_ids[event->stack]);
}

static vw_status play_embedding(playing *p, const hidden_event *event)
{
    const vw__hidden hidden = vw__hidden_embedding(event->numbers[0]);
    return play_steps(p, &hidden, p->stack_ids[event->stack]);
}

static vw_status play_convolution(playing *p, const hidden_event *event)
{
    enum { WANTS_IMAGE = 1, WANTS_WEIGHT = 2 };
    const uint64_t *n = event->numbers, wanted = n[16];
    const vw__op_conv_shape shape = {
        .in = {.batch = n[1], .channels = n[2], .depth = n[3], .height = n[4], .width = n[5]},
        .out_channels = n[6],
        .window = {.dimensions = n[7],
                   .kernel = n[8],
                   .stride = n[9],
                   .padding = n[10],
                   .dilation = n[11],
                   .extra = n[12],
                   .is_transposed = n[13] != 0},
        .groups = n[14],
        .is_channels_last = n[15] != 0};
    if (shape.window.dimensions < 1 || shape.window.dimensions > 3 || shape.window.stride == 0)
        return refuse(p, "expected a convolution of 1 to 3 dimensions, found other numbers");
    const struct {
        bool is_wanted;
        vw__hidden_side side;
    } sides[] = {{wanted == 0, VW__HIDDEN_RESULT},
                 {(wanted & WANTS_IMAGE) != 0, VW__HIDDEN_IMAGE_GRADIENT},
                 {(wanted & WANTS_WEIGHT) != 0, VW__HIDDEN_WEIGHT_GRADIENT}};
    uint32_t stack;
    VW__TRY(add_workspace_stack(p, event->stack, "libcudnn.so", "convolutionWorkspace", &stack));
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        const vw__hidden hidden = vw__hidden_convolution(&shape, n[0], sides[i].side);
        if (sides[i].is_wanted)
            VW__TRY(play_steps(p, &hidden, stack));
    }
    return VW_OK;
}

static vw_status play_attention(playing *p, const hidden_event *event)
{
    const uint64_t *n = event->numbers;
    const vw__hidden hidden = vw__hidden_attention(&(vw__hidden_heads){.is_flash = n[0] != 0,
                                                                       .element_bytes = n[1],
                                                                       .batch = n[2],
                                                                       .heads = n[3],
                                                                       .key_heads = n[4],
                                                                       .length = n[5],
                                                                       .key_length = n[6],
                                                                       .width = n[7]});
    return play_steps(p, &hidden, p->stack_ids[event->stack]);
}

static vw_status play_recurrent(playing *p, const hidden_event *event)
{
    const uint64_t *n = event->numbers;
    const vw__hidden hidden = vw__hidden_recurrent(&(vw__hidden_cells){.gates = n[0],
                                                                       .is_training = n[1] != 0,
                                                                       .has_dropout = n[2] != 0,
                                                                       .element_bytes = n[3],
                                                                       .rows = n[4],
                                                                       .batch = n[5],
                                                                       .inputs = n[6],
                                                                       .width = n[7],
                                                                       .layers = n[8],
                                                                       .directions = n[9]});
    uint32_t stack;
    VW__TRY(add_workspace_stack(p, event->stack, "libcudnn.so", "recurrentWorkspace", &stack));
    return play_steps(p, &hidden, stack);
}

static const struct hidden_kind {
    const char *name;
    size_t number_count;
    vw_status (*play)(playing *p, const hidden_event *event);
} hidden_kinds[] = {
    {"attention", 8, play_attention},  {"convolution", 17, play_convolution},
    {"embedding", 1, play_embedding},  {"matmul", 0, play_matmul},
    {"recurrent", 10, play_recurrent}, {"sum", 3, play_sum},
};

static const struct hidden_kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof hidden_kinds / sizeof hidden_kinds[0]; i++)
        if (strcmp(hidden_kinds[i].name, name) == 0)
            return &hidden_kinds[i];
    return NULL;
}

/* [2, kind, is_backward, number ..., stack] */
static vw_status play_hidden(playing *p, const fields *event)
{
    const vw__document *document = p->lists->document;
    hidden_event read;
    const char *name = event->count >= 2 ? text_of(p, event->items[1]) : NULL;
    if (name == NULL)
        return refuse(p, "expected [2, kind, is backward, numbers, stack], found other fields");
    const struct hidden_kind *kind = find_kind(name);
    if (kind == NULL) {
        if (p->tally->left_out++ == 0)
            p->tally->left_out_kind = name;
        return VW_OK;
    }
    bool is_sound = event->count == kind->number_count + 4 &&
                    vw__value_get_u64(document, event->items[2], &read.is_backward);
    for (size_t i = 0; is_sound && i < kind->number_count; i++)
        is_sound = vw__value_get_u64(document, event->items[3 + i], &read.numbers[i]);
    if (!is_sound)
        return refuse(p,
                      "expected [2, \"%s\", is backward, %zu numbers, stack], found other fields",
                      kind->name, kind->number_count);
    VW__TRY(read_stack(p, event->items[3 + kind->number_count], &read.stack));
    return kind->play(p, &read);
}

/* ---- all ------------------------------------------------------------------------------------- */

static vw_status play_mark(playing *p, const fields *event, bool is_begin)
{
    const char *name = event->count == 2 ? text_of(p, event->items[1]) : NULL;
    if (name == NULL)
        return refuse(p, "expected [%d, name], found other fields", is_begin ? BEGIN : END);
    return is_begin ? vw__playback_begin(&p->playback, name) : vw__playback_end(&p->playback, name);
}

static vw_status play_event(playing *p, vw__value value)
{
    const fields event = fields_of(p->lists->document, value);
    uint64_t kind = EVENT_KINDS;
    if (event.count == 0)
        return refuse(p, "expected a list that begins with its kind, found %s",
                      vw__value_kind_name(vw__value_get_kind(value)));
    (void)vw__value_get_u64(p->lists->document, event.items[0], &kind);
    switch (kind) {
    case ALLOC:
        return play_alloc(p, &event);
    case FREE:
        return play_free(p, &event);
    case HIDDEN:
        return play_hidden(p, &event);
    case BEGIN:
    case END:
        return play_mark(p, &event, kind == BEGIN);
    default:
        return refuse(p, "expected a kind from 0 to %d, found another value", EVENT_KINDS - 1);
    }
}

/* The peak goes on from where the pool stands. */
static vw_status note_level(playing *p)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    VW__TRY(vw_pool_get_stats(p->playback.pool, &stats));
    p->tally->levels[p->tally->level_count++] =
        (vw__traced_level){(uint32_t)vw__model_builder_event_count(p->playback.builder),
                           (uint64_t)stats.allocated_bytes.all.peak};
    return vw_pool_reset_peaks(p->playback.pool);
}

static vw_status play_events(playing *p)
{
    const vw__document *document = p->lists->document;
    uint64_t cursor = 0;
    vw__value item;
    for (; vw__value_next_item(document, p->lists->events, &cursor, &item); p->event++) {
        VW__TRY(play_event(p, vw__document_resolve(document, item)));
        VW__TRY(note_level(p));
    }
    return VW_OK;
}

static vw_status reserve(playing *p)
{
    const vw__document *document = p->lists->document;
    p->frame_count = vw__value_item_count(document, p->lists->frames);
    p->stack_count = vw__value_item_count(document, p->lists->stacks);
    p->slot_capacity = vw__value_item_count(document, p->lists->events);
    p->frame_ids = vw__host_alloc_zeroed(p->frame_count + 1, sizeof *p->frame_ids);
    p->stacks = vw__host_alloc_zeroed(p->stack_count + 1, sizeof *p->stacks);
    p->stack_ids = vw__host_alloc_zeroed(p->stack_count + 1, sizeof *p->stack_ids);
    p->addresses = vw__host_alloc_zeroed(p->slot_capacity + 1, sizeof *p->addresses);
    p->tally->levels = vw__host_alloc_zeroed(p->slot_capacity + 1, sizeof *p->tally->levels);
    if (p->frame_ids == NULL || p->stacks == NULL || p->stack_ids == NULL || p->addresses == NULL ||
        p->tally->levels == NULL)
        return vw__fail_host_memory(p->slot_capacity * sizeof *p->addresses,
                                    "the requests of a trace");
    return VW_OK;
}

static vw_status play_all(playing *p, vw__model **out)
{
    VW__TRY(vw__playback_start(&p->playback, p->lists->memory_limit_bytes, MADE_UP));
    VW__TRY(reserve(p));
    VW__TRY(add_frames(p));
    VW__TRY(add_stacks(p));
    VW__TRY(play_events(p));
    if (p->slot_count == 0)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "expected a trace with requests for GPU memory, found none: did the "
                        "program reach its steps, and on the GPU?");
    return vw__playback_finish(&p->playback, MADE_UP, out);
}

vw_status vw__traced_play(const vw__traced_lists *lists, const char *card_name, vw__model **out,
                          vw__traced_tally *tally)
{
    playing p = {.lists = lists, .card_name = card_name, .tally = tally};
    *tally = (vw__traced_tally){.level_count = 0};
    vw_status status = play_all(&p, out);
    if (status != VW_OK) {
        const vw__model_builder *builder = p.playback.builder;
        vw__host_free(tally->levels);
        *tally = (vw__traced_tally){
            .has_hit_limit = builder != NULL && vw__model_builder_has_hit_memory_limit(builder)};
    }
    vw__playback_deinit(&p.playback);
    vw__host_free(p.addresses);
    vw__host_free(p.stack_ids);
    vw__host_free(p.stacks);
    vw__host_free(p.frame_ids);
    return status;
}
