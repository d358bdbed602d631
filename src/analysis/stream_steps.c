/* stream_steps.c - the training steps of a recording, as streams see them.
 *
 * Marks are what production's are (adapters/torch/state_stream_requests.cpp): requests of a MiB and
 * more, at most 4096 of them; each two become one beyond that. State is what roles.h calls so, and
 * alive all through the step. A saved tensor is an activation that a backward pass frees. It can
 * leave when the next request but one comes, whose kernel no longer reads it. It is used up to two
 * requests before it is freed: a backward kernel's results, the gradients of both operands, are
 * asked for while it is held.
 *
 * Time. A recording has the times at which the program asked. The program runs ahead of the GPU and
 * waits for it once a step, so the length of a step is right, and the times inside of it are not:
 * GPT-2 asks for everything in the first 33 ms of a step of 115. The GPU's time is therefore
 * estimated:
 *
 *   - The optimizer's part follows from the bytes of its state (spill_cost.c).
 *   - The backward pass takes twice as long as the forward pass: two matrix products for one. On an
 *     H200 it was 35 and 70 ms for GPT-2 in float32, 21 and 31 for a llama of a billion parameters
 *     in bfloat16. By requested bytes it would be 1.5 and 2.1 times as long.
 *   - Inside of a pass time goes with the bytes that are asked for. Any measure serves for layers,
 *     which are alike. The head of GPT-2 makes a third of its products, and asks for a third of its
 *     bytes.
 *
 * A pass that is computed again (checkpointing) counts as forward, and its part is then too short.
 *
 * The length of a step is the median: the first ones take memory, and a program that had fallen
 * behind catches up. */
#include "analysis/stream_steps.h"

#include <stdbool.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "vramwise/analysis.h" /* VW_UNKNOWN */
#include "analysis/spill_cost.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

#define NS_PER_US UINT64_C(1000)

enum {
    MOST_MARKS = 4096,
    MARKS_UNTIL_READ = 2, /* from the request for a block to the one whose kernel leaves it alone */
    MARKS_BEFORE_FREE = 2 /* from its use in the backward pass to its free */
};

/* ---- blocks that can leave ------------------------------------------------------------------- */

/* Made after the first step, and freed by a backward pass of the same one. */
static bool is_saved(const vw__stream_steps *all, const vw__lifetime *lifetime)
{
    const vw__roles *roles = all->roles;
    if (lifetime->begin == 0 || lifetime->freed == VW__LIFETIME_TO_THE_END)
        return false;
    uint32_t step = vw__steps_of_instant(all->steps, lifetime->begin - 1);
    return step != 0 && step == vw__steps_of_instant(all->steps, lifetime->freed - 1) &&
           roles->passes[vw__roles_pass_at(roles, lifetime->freed - 1)].kind ==
               VW__ROLES_PASS_BACKWARD;
}

static bool can_leave(const vw__stream_steps *all, size_t index, vw__role role)
{
    const vw__lifetime *lifetime = &all->timeline->lifetimes[index];
    return all->roles->roles[index] == role &&
           lifetime->size_bytes >= VW__STREAM_STEPS_LEAST_BYTES &&
           (role != VW__ROLE_ACTIVATIONS || is_saved(all, lifetime));
}

/* Only counts them if `out` is NULL. */
static size_t list_blocks(const vw__stream_steps *all, vw__role role, vw__stream_steps_block *out)
{
    const vw__timeline *timeline = all->timeline;
    size_t count = 0;
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        if (!can_leave(all, i, role))
            continue;
        if (out != NULL)
            out[count] = (vw__stream_steps_block){(uint32_t)i, timeline->lifetimes[i].begin};
        count++;
    }
    return count;
}

static int compare_begins(const void *left, const void *right)
{
    const vw__stream_steps_block *one = left, *other = right;
    if (one->begin != other->begin)
        return (one->begin > other->begin) - (one->begin < other->begin);
    return (one->lifetime > other->lifetime) - (one->lifetime < other->lifetime);
}

static vw_status find_blocks(const vw__stream_steps *all, vw__role role,
                             vw__stream_steps_block **out, size_t *count)
{
    *count = list_blocks(all, role, NULL);
    *out = vw__host_alloc_zeroed(*count, sizeof **out);
    if (*out == NULL)
        return vw__fail_host_memory(*count * sizeof **out, "blocks that can leave");
    (void)list_blocks(all, role, *out);
    qsort(*out, *count, sizeof **out, compare_begins);
    return VW_OK;
}

vw_status vw__stream_steps_init(vw__stream_steps *all, const vw__timeline *timeline,
                                const vw__steps *steps, const vw__roles *roles)
{
    *all = (vw__stream_steps){.timeline = timeline, .steps = steps, .roles = roles};
    all->live_line = vw__timeline_live_line(timeline);
    vw_status status = all->live_line != NULL
                           ? VW_OK
                           : vw__fail_host_memory(timeline->trace->event_count * sizeof(int64_t),
                                                  "live bytes over time");
    if (status == VW_OK)
        status = find_blocks(all, VW__ROLE_OPTIMIZER, &all->state, &all->state_count);
    if (status == VW_OK)
        status = find_blocks(all, VW__ROLE_ACTIVATIONS, &all->saved, &all->saved_count);
    if (status == VW_OK)
        status = vw__steps_usual_ns(timeline->trace, steps, &all->step_ns);
    if (status != VW_OK)
        vw__stream_steps_deinit(all);
    return status;
}

void vw__stream_steps_deinit(vw__stream_steps *all)
{
    vw__host_free(all->live_line);
    vw__host_free(all->state);
    vw__host_free(all->saved);
    *all = (vw__stream_steps){.state_count = 0};
}

size_t vw__stream_steps_highest(const vw__stream_steps *all)
{
    const vw__steps *steps = all->steps;
    size_t highest = 0;
    int64_t peak_bytes = -1;
    for (size_t i = 1; i < steps->end_count; i++) {
        int64_t own_bytes = 0;
        for (size_t instant = steps->ends[i - 1]; instant <= steps->ends[i]; instant++)
            own_bytes = all->live_line[instant] > own_bytes ? all->live_line[instant] : own_bytes;
        if (own_bytes >= peak_bytes) {
            peak_bytes = own_bytes;
            highest = i;
        }
    }
    return highest;
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* A step while it is read. */
typedef struct reading {
    const vw__stream_steps *all;
    uint32_t begin, end;      /* events */
    uint32_t optimizer_event; /* the first of the optimizer's step; or `end` */
    uint32_t *requests;       /* owned; events */
    size_t request_count;
    uint64_t forward_bytes, backward_bytes; /* asked for before optimizer_event */
    vw__stream_steps_one *out;
} reading;

static uint64_t live_at(const reading *read, uint32_t instant)
{
    int64_t bytes = read->all->live_line[instant];
    return bytes > 0 ? (uint64_t)bytes : 0;
}

static uint8_t kind_at(const reading *read, uint32_t event)
{
    const vw__roles *roles = read->all->roles;
    return roles->passes[vw__roles_pass_at(roles, event)].kind;
}

static bool is_request(const reading *read, uint32_t event)
{
    const vw__model_event *one = &read->all->timeline->trace->events[event];
    return one->action == VW_ACTION_ALLOC && one->size_bytes >= VW__STREAM_STEPS_LEAST_BYTES &&
           one->size_bytes != VW__MODEL_UNKNOWN_BYTES;
}

/* Returns the first event of the optimizer's step, if that is the last pass; else `end`. */
static uint32_t find_optimizer(const reading *read)
{
    const vw__roles *roles = read->all->roles;
    uint32_t pass = vw__roles_pass_at(roles, read->end - 1);
    while (pass > 0 && roles->passes[pass].kind == VW__ROLES_PASS_OTHER &&
           roles->passes[pass].begin > read->begin)
        pass--;
    if (roles->passes[pass].kind != VW__ROLES_PASS_OPTIMIZER)
        return read->end;
    return roles->passes[pass].begin > read->begin ? roles->passes[pass].begin : read->begin;
}

static vw_status find_requests(reading *read)
{
    for (uint32_t i = read->begin; i < read->end; i++)
        read->request_count += is_request(read, i);
    read->requests = vw__host_alloc_zeroed(read->request_count, sizeof *read->requests);
    if (read->requests == NULL)
        return vw__fail_host_memory(read->request_count * sizeof *read->requests,
                                    "the requests of a step");
    size_t count = 0;
    for (uint32_t i = read->begin; i < read->end; i++)
        if (is_request(read, i))
            read->requests[count++] = i;
    read->out->per_mark = 1;
    while (read->request_count > read->out->per_mark * MOST_MARKS)
        read->out->per_mark *= 2;
    return VW_OK;
}

/* The number of requests before `event`. */
static size_t requests_before(const reading *read, uint32_t event)
{
    size_t low = 0, high = read->request_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (read->requests[middle] < event)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void count_bytes(reading *read)
{
    const vw__model_event *events = read->all->timeline->trace->events;
    for (size_t i = 0; i < read->request_count; i++) {
        uint32_t event = read->requests[i];
        if (event >= read->optimizer_event)
            return;
        if (kind_at(read, event) == VW__ROLES_PASS_BACKWARD)
            read->backward_bytes += events[event].size_bytes;
        else
            read->forward_bytes += events[event].size_bytes;
    }
}

/* The GPU's time from a request to the next. */
static uint64_t gpu_ns_of(const reading *read, uint32_t event, uint64_t passes_ns)
{
    const vw__model_event *events = read->all->timeline->trace->events;
    double share = 1.0; /* where there is but one kind of pass */
    bool is_backward = kind_at(read, event) == VW__ROLES_PASS_BACKWARD;
    if (event >= read->optimizer_event)
        return 0;
    if (read->forward_bytes != 0 && read->backward_bytes != 0)
        share = is_backward ? 1.0 - VW__STREAM_COST_FORWARD_SHARE : VW__STREAM_COST_FORWARD_SHARE;
    double pass_bytes = (double)(is_backward ? read->backward_bytes : read->forward_bytes);
    return (uint64_t)(share * (double)passes_ns * (double)events[event].size_bytes / pass_bytes);
}

static void fill_marks(reading *read)
{
    vw__stream_steps_one *out = read->out;
    uint64_t step_ns = read->all->step_ns != VW_UNKNOWN ? read->all->step_ns : 0;
    uint64_t passes_ns =
        step_ns - vw__min_u64(step_ns, vw__spill_cost_optimizer_ns(out->step.state_bytes));
    out->step.hidden_bytes =
        vw_schedule_hidden_bytes(step_ns, 0, 0, vw__spill_cost_copy_ns(UINT64_C(1) << 30));
    for (size_t i = 0; i < read->request_count; i++) {
        uint32_t event = read->requests[i];
        size_t mark = i / read->out->per_mark;
        out->live_bytes[mark] = vw__max_u64(out->live_bytes[mark], live_at(read, event + 1));
        out->gpu_ns[mark] += gpu_ns_of(read, event, passes_ns);
    }
}

static vw_status make_marks(reading *read)
{
    vw__stream_steps_one *out = read->out;
    size_t count = (read->request_count + read->out->per_mark - 1) / read->out->per_mark;
    out->live_bytes = vw__host_alloc_zeroed(count, sizeof *out->live_bytes);
    out->gpu_ns = vw__host_alloc_zeroed(count, sizeof *out->gpu_ns);
    if (out->live_bytes == NULL || out->gpu_ns == NULL)
        return vw__fail_host_memory(2 * count * sizeof(uint64_t), "the marks of a step");
    count_bytes(read);
    fill_marks(read);
    out->step.live_bytes = out->live_bytes;
    out->step.gpu_ns = out->gpu_ns;
    out->step.mark_count = count;
    out->step.optimizer_mark = vw__min_u64(
        count, (requests_before(read, read->optimizer_event) + read->out->per_mark - 1) /
                   read->out->per_mark);
    out->step.optimizer_live_bytes = live_at(read, read->optimizer_event);
    return VW_OK;
}

/* ---- state and saved tensors ----------------------------------------------------------------- */

static void count_state(const reading *read)
{
    const vw__stream_steps *all = read->all;
    vw__stream_cost_step *step = &read->out->step;
    for (size_t i = 0; i < all->state_count; i++) {
        const vw__lifetime *lifetime = &all->timeline->lifetimes[all->state[i].lifetime];
        if (lifetime->begin > read->begin || lifetime->end <= read->end)
            continue;
        step->state_bytes += lifetime->size_bytes;
        step->state_count++;
    }
}

/* The longest time without an event: a program that runs ahead of the GPU waits for it once. */
static uint64_t find_idle(const reading *read)
{
    const vw__model_trace *trace = read->all->timeline->trace;
    int64_t longest_us = 0;
    for (size_t i = read->begin; i < read->end && i + 1 < trace->event_count; i++) {
        int64_t from_us = trace->events[i].time_us, to_us = trace->events[i + 1].time_us;
        if (from_us >= 0 && to_us > from_us &&
            to_us - from_us > longest_us) /* unknown ones are below 0 */
            longest_us = to_us - from_us;
    }
    return vw__min_u64((uint64_t)longest_us, UINT64_MAX / NS_PER_US) * NS_PER_US;
}

static vw_saved_item item_of(const reading *read, const vw__lifetime *lifetime)
{
    size_t from = requests_before(read, lifetime->begin - 1) + MARKS_UNTIL_READ;
    size_t until = requests_before(read, lifetime->freed - 1);
    until -= vw__min_u64(until, MARKS_BEFORE_FREE);
    return (vw_saved_item){
        .size_bytes = lifetime->size_bytes,
        .from_mark = (uint32_t)((from + read->out->per_mark - 1) / read->out->per_mark),
        .until_mark = (uint32_t)(until / read->out->per_mark),
    };
}

/* The first of `saved` that begins in the step. */
static size_t first_saved(const reading *read)
{
    const vw__stream_steps *all = read->all;
    size_t low = 0, high = all->saved_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all->saved[middle].begin <= read->begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static vw_status make_items(const reading *read)
{
    const vw__stream_steps *all = read->all;
    vw__stream_steps_one *out = read->out;
    size_t first = first_saved(read), count = 0;
    while (count < VW__STREAM_STEPS_MOST_ITEMS && first + count < all->saved_count &&
           all->saved[first + count].begin <= read->end)
        count++;
    out->items = vw__host_alloc_zeroed(count, sizeof *out->items);
    if (out->items == NULL)
        return vw__fail_host_memory(count * sizeof *out->items, "the saved tensors of a step");
    for (size_t i = 0; i < count; i++)
        out->items[i] = item_of(read, &all->timeline->lifetimes[all->saved[first + i].lifetime]);
    out->step.item_count = count;
    out->step.items = out->items;
    return VW_OK;
}

/* ---- together -------------------------------------------------------------------------------- */

vw_status vw__stream_steps_take(const vw__stream_steps *all, size_t index,
                                vw__stream_steps_one *out)
{
    reading read = {
        .all = all,
        .begin = all->steps->ends[index - 1],
        .end = all->steps->ends[index],
        .out = out,
    };
    *out = (vw__stream_steps_one){.live_bytes = NULL};
    read.optimizer_event = read.end > read.begin ? find_optimizer(&read) : read.end;
    count_state(&read);
    out->step.idle_ns = find_idle(&read);
    vw_status status = find_requests(&read);
    if (status == VW_OK)
        status = make_marks(&read);
    if (status == VW_OK)
        status = make_items(&read);
    vw__host_free(read.requests);
    if (status != VW_OK)
        vw__stream_steps_one_deinit(out);
    return status;
}

void vw__stream_steps_one_deinit(vw__stream_steps_one *one)
{
    vw__host_free(one->live_bytes);
    vw__host_free(one->gpu_ns);
    vw__host_free(one->items);
    *one = (vw__stream_steps_one){.live_bytes = NULL};
}
