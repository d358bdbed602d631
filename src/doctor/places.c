/* places.c - the lines of the user's program that a finding is about.
 *
 * One block has one line: the innermost frame outside torch. A finding is about many blocks. When
 * their lines differ (the layers of a model in the user's own file), the line that helps is further
 * out: the call that all of them came through, such as `out = model(x)` in the loop. So it comes
 * first: the innermost frame of the heaviest stack that nearly all the bytes have in common. The
 * blocks' own lines follow. */
#include <stdlib.h> /* qsort */

#include "doctor/doctor.h"
#include "base/host_memory.h"

enum {
    COMMON_PERCENT = 90, /* of the bytes must have gone through the line that is called common */
    MOST_COMPARED = 1024 /* the heaviest stacks; the rest weighs nothing beside them */
};

typedef struct weighed_stack {
    uint32_t stack;
    uint64_t bytes;
} weighed_stack;

static const char *text_of_frame(const vw__model *model, vw__diagnosis_draft *draft,
                                 uint32_t frame_id)
{
    const vw__model_frame *frame = &model->frames[frame_id];
    const char *file = vw__model_string(model, frame->filename);
    const char *function = vw__model_string(model, frame->name);
    return frame->line == 0
               ? vw__diagnosis_text(draft, "%s %s", file, function)
               : vw__diagnosis_text(draft, "%s:%u %s", file, (unsigned)frame->line, function);
}

static const char *place_of_stack(const vw__doctor_facts *facts, vw__diagnosis_draft *draft,
                                  vw__model_stack stack)
{
    size_t where = vw__attribution_where(&facts->attribution, stack);
    return where != VW__ATTRIBUTION_NO_FRAME
               ? text_of_frame(facts->model, draft, facts->model->frame_ids[stack.first + where])
               : "";
}

const char *vw__doctor_place(const vw__doctor_facts *facts, vw__diagnosis_draft *draft,
                             uint32_t context)
{
    return place_of_stack(facts, draft, vw__model_stack_of(facts->model, context));
}

static int heavier_first(const void *left, const void *right)
{
    const weighed_stack *one = left, *other = right;
    if (one->bytes != other->bytes)
        return one->bytes > other->bytes ? -1 : 1;
    return (one->stack > other->stack) - (one->stack < other->stack);
}

/* By frame: the bytes of the stacks that went through it, each stack once. Comparing every frame
 * with every stack would take too long for a program that calls itself. */
static bool weigh_frames(const vw__model *model, const weighed_stack *stacks, size_t count,
                         double *bytes_through)
{
    uint32_t *seen_in = vw__host_alloc_zeroed(model->frame_count, sizeof *seen_in); /* plus 1 */
    if (seen_in == NULL)
        return false;
    for (size_t i = 0; i < count && i < MOST_COMPARED; i++) {
        vw__model_stack frames = model->stacks[stacks[i].stack];
        for (uint32_t k = 0; k < frames.count; k++) {
            uint32_t frame = model->frame_ids[frames.first + k];
            bytes_through[frame] += seen_in[frame] != i + 1 ? (double)stacks[i].bytes : 0;
            seen_in[frame] = (uint32_t)i + 1;
        }
    }
    vw__host_free(seen_in);
    return true;
}

static void add_common(const vw__doctor_facts *facts, const weighed_stack *stacks, size_t count,
                       vw__diagnosis_finding *finding)
{
    const vw__model *model = facts->model;
    vw__model_stack heaviest = model->stacks[stacks[0].stack];
    double all_bytes = 0;
    double *bytes_through = vw__host_alloc_zeroed(model->frame_count, sizeof *bytes_through);
    if (bytes_through == NULL || !weigh_frames(model, stacks, count, bytes_through)) {
        finding->draft->has_failed = true;
        vw__host_free(bytes_through);
        return;
    }
    for (size_t i = 0; i < count && i < MOST_COMPARED; i++)
        all_bytes += (double)stacks[i].bytes;
    for (uint32_t i = 0; i < heaviest.count; i++) {
        uint32_t frame = model->frame_ids[heaviest.first + i];
        if (vw__attribution_is_users(&facts->attribution, frame) &&
            bytes_through[frame] * 100 >= all_bytes * COMMON_PERCENT) {
            vw__diagnosis_where(finding, "%s", text_of_frame(model, finding->draft, frame));
            break;
        }
    }
    vw__host_free(bytes_through);
}

static void add_caller(const vw__doctor_facts *facts, uint32_t heaviest,
                       vw__diagnosis_finding *finding)
{
    const vw__model *model = facts->model;
    vw__model_stack stack = model->stacks[heaviest];
    size_t caller = vw__attribution_caller(&facts->attribution, stack);
    if (caller != VW__ATTRIBUTION_NO_FRAME)
        vw__diagnosis_where(
            finding, "%s",
            text_of_frame(model, finding->draft, model->frame_ids[stack.first + caller]));
}

void vw__doctor_add_places(const vw__doctor_facts *facts, const uint64_t *bytes_by_stack,
                           vw__doctor_place_kind kind, vw__diagnosis_finding *finding)
{
    const vw__model *model = facts->model;
    weighed_stack *stacks = vw__host_alloc_zeroed(model->stack_count, sizeof *stacks);
    size_t count = 0;
    if (stacks == NULL) {
        finding->draft->has_failed = true; /* it cannot be finished: VW_ERR_HOST_MEMORY */
        return;
    }
    for (size_t i = 0; i < model->stack_count; i++)
        if (bytes_by_stack[i] != 0)
            stacks[count++] = (weighed_stack){(uint32_t)i, bytes_by_stack[i]};
    qsort(stacks, count, sizeof *stacks, heavier_first);
    if (count != 0 && kind == VW__DOCTOR_PLACES_OF_CALLS)
        add_caller(facts, stacks[0].stack, finding);
    if (count != 0 && kind != VW__DOCTOR_PLACES_APART)
        add_common(facts, stacks, count, finding);
    for (size_t i = 0; i < count && finding->where_count < VW__DIAGNOSIS_MOST_WHERE; i++)
        vw__diagnosis_where(finding, "%s",
                            place_of_stack(facts, finding->draft, model->stacks[stacks[i].stack]));
    vw__host_free(stacks);
}

uint32_t vw__doctor_backward_context(const vw__doctor_facts *facts)
{
    for (size_t i = facts->trace->event_count; i-- > 0;) {
        const vw__model_event *event = &facts->trace->events[i];
        if (event->action == VW_ACTION_ALLOC && event->context != VW__MODEL_NO_CONTEXT &&
            vw__attribution_category(&facts->attribution, event->context) ==
                VW__CATEGORY_BACKWARD &&
            vw__attribution_where(&facts->attribution,
                                  vw__model_stack_of(facts->model, event->context)) !=
                VW__ATTRIBUTION_NO_FRAME)
            return event->context;
    }
    return VW__MODEL_NO_CONTEXT;
}
