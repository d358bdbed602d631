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

static const char *text_of_frame(vw__case *given, uint32_t frame_id)
{
    const vw__model *model = given->model;
    const vw__model_frame *frame = &model->frames[frame_id];
    const char *file = vw__model_string(model, frame->filename);
    const char *function = vw__model_string(model, frame->name);
    return frame->line == 0 ? vw__diagnosis_text(given->draft, "%s %s", file, function)
                            : vw__diagnosis_text(given->draft, "%s:%u %s", file,
                                                 (unsigned)frame->line, function);
}

static const char *place_of_stack(vw__case *given, vw__model_stack stack)
{
    size_t where = vw__attribution_where(&given->attribution, stack);
    if (where == VW__NO_FRAME)
        return "";
    return text_of_frame(given, given->model->frame_ids[stack.first + where]);
}

const char *vw__doctor_place(vw__case *given, uint32_t context)
{
    return place_of_stack(given, vw__model_stack_of(given->model, context));
}

static int heavier_first(const void *left, const void *right)
{
    const vw__weighed_stack *one = left, *other = right;
    if (one->bytes != other->bytes)
        return one->bytes > other->bytes ? -1 : 1;
    return (one->stack > other->stack) - (one->stack < other->stack);
}

/* By frame: the bytes of the stacks that went through it, each stack once. Frames times stacks
 * would be too many of a program that calls itself. */
static bool weigh_frames(const vw__model *model, const vw__weighed_stack *stacks, size_t count,
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

static void add_common(vw__case *given, const vw__weighed_stack *stacks, size_t count,
                       vw__finding_draft *finding)
{
    const vw__model *model = given->model;
    vw__model_stack heaviest = model->stacks[stacks[0].stack];
    double all_bytes = 0;
    double *bytes_through = vw__host_alloc_zeroed(model->frame_count, sizeof *bytes_through);
    if (bytes_through == NULL || !weigh_frames(model, stacks, count, bytes_through)) {
        given->draft->has_failed = true; /* the draft cannot be finished: VW_ERR_HOST_MEMORY */
        vw__host_free(bytes_through);
        return;
    }
    for (size_t i = 0; i < count && i < MOST_COMPARED; i++)
        all_bytes += (double)stacks[i].bytes;
    for (uint32_t i = 0; i < heaviest.count; i++) {
        uint32_t frame = model->frame_ids[heaviest.first + i];
        if (vw__attribution_is_users(&given->attribution, frame) &&
            bytes_through[frame] * 100 >= all_bytes * COMMON_PERCENT) {
            vw__finding_where(finding, "%s", text_of_frame(given, frame));
            break;
        }
    }
    vw__host_free(bytes_through);
}

static void add_own(vw__case *given, const vw__weighed_stack *stacks, size_t count,
                    vw__finding_draft *finding)
{
    for (size_t i = 0; i < count && finding->where_count < VW__MOST_WHERE; i++)
        vw__finding_where(finding, "%s",
                          place_of_stack(given, given->model->stacks[stacks[i].stack]));
}

void vw__doctor_places(vw__case *given, vw__weighed_stack *stacks, size_t count,
                       vw__finding_draft *finding)
{
    if (count == 0)
        return;
    qsort(stacks, count, sizeof *stacks, heavier_first);
    add_common(given, stacks, count, finding);
    add_own(given, stacks, count, finding);
}

void vw__doctor_calls(vw__case *given, vw__weighed_stack *stacks, size_t count,
                      vw__finding_draft *finding)
{
    if (count == 0)
        return;
    qsort(stacks, count, sizeof *stacks, heavier_first);
    vw__model_stack heaviest = given->model->stacks[stacks[0].stack];
    size_t caller = vw__attribution_caller(&given->attribution, heaviest);
    if (caller != VW__NO_FRAME)
        vw__finding_where(finding, "%s",
                          text_of_frame(given, given->model->frame_ids[heaviest.first + caller]));
    vw__doctor_places(given, stacks, count, finding);
}

void vw__doctor_lines(vw__case *given, vw__weighed_stack *stacks, size_t count,
                      vw__finding_draft *finding)
{
    if (count == 0)
        return;
    qsort(stacks, count, sizeof *stacks, heavier_first);
    add_own(given, stacks, count, finding);
}

uint32_t vw__doctor_backward_context(const vw__case *given)
{
    for (size_t i = given->trace->event_count; i-- > 0;) {
        const vw__model_event *event = &given->trace->events[i];
        if (event->action == VW_ACTION_ALLOC && event->context != VW__NO_CONTEXT &&
            vw__attribution_category(&given->attribution, event->context) ==
                VW__CATEGORY_BACKWARD &&
            vw__attribution_where(&given->attribution,
                                  vw__model_stack_of(given->model, event->context)) != VW__NO_FRAME)
            return event->context;
    }
    return VW__NO_CONTEXT;
}
