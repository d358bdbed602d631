/* what_if.c - adding live bytes up again, at other sizes.
 *
 * The line of live bytes changes where a lifetime begins or ends. Those changes are put in order of
 * their instants by counting (an instant has one or two, and there are as many instants as events),
 * once for a run. A pass then walks them and keeps one sum for each question; a sum is looked at
 * after the last change of an instant, as the timeline does.
 *
 * A block's scaled size is cut to whole bytes, and the same number is taken off at its end, so sums
 * never drift. None exceeds the unscaled one, which the timeline keeps below 2^62.
 *
 * What we did not do: keep a line for each portion and combine them. Ten lines of 660,000
 * instants are 53 MB that are read once for each question; the order of changes is a tenth of it.
 *
 * Portions. Some blocks of a loss have a loss function in their stack; the others (the logits
 * themselves, gradients of the backward pass) are known by their size: the same, or, in another
 * precision, half or twice of it. A shifted copy is a token shorter, hence the tolerance. Sizes are
 * compared within a forward pass and the backward pass after it, since the next batch may be
 * longer. They are a portion of their own only where they stand out: the largest of the activations
 * by a factor of two, and an eighth of the peak. Elsewhere equal sizes mean nothing. */
#include "analysis/what_if.h"

#include <string.h>

#include "analysis/attribution.h" /* vw__attribution_path_has */
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { WHOLE_PERMILLE = 1000 };

vw__what_if vw__what_if_nothing(void)
{
    vw__what_if change = {.added_bytes = 0};
    for (size_t i = 0; i < VW__PORTION_COUNT; i++)
        change.kept_permille[i] = WHOLE_PERMILLE;
    return change;
}

/* ---- the order of changes -------------------------------------------------------------------- */

/* How many changes each instant has, in `counts` at the instant + 1. */
static void count_changes(const vw__what_if_run *run, size_t *counts)
{
    const vw__timeline *timeline = run->timeline;
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &timeline->lifetimes[i];
        if (lifetime->begin <= run->last_instant)
            counts[(size_t)lifetime->begin + 1]++;
        if (lifetime->end <= run->last_instant)
            counts[(size_t)lifetime->end + 1]++;
    }
}

/* `places` says where the next change of each instant goes. */
static void place_changes(vw__what_if_run *run, size_t *places)
{
    const vw__timeline *timeline = run->timeline;
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &timeline->lifetimes[i];
        if (lifetime->begin <= run->last_instant)
            run->changes[places[lifetime->begin]++] = 2 * i;
        if (lifetime->end <= run->last_instant)
            run->changes[places[lifetime->end]++] = 2 * i + 1;
    }
}

vw_status vw__what_if_prepare(vw__what_if_run *run)
{
    size_t event_count = run->timeline->trace->event_count;
    if (run->last_instant > event_count)
        run->last_instant = (uint32_t)event_count; /* the timeline has fewer than 2^32 - 2 */

    size_t instant_count = (size_t)run->last_instant + 1;
    size_t *places = vw__host_alloc_zeroed(instant_count + 1, sizeof *places);
    if (places == NULL)
        return vw__fail_host_memory(instant_count * sizeof *places, "the instants of a trace");
    count_changes(run, places);
    for (size_t i = 1; i <= instant_count; i++)
        places[i] += places[i - 1];
    run->change_count = places[instant_count];
    run->changes = vw__host_alloc(run->change_count * sizeof *run->changes);
    if (run->changes != NULL)
        place_changes(run, places);
    vw__host_free(places);
    if (run->changes == NULL)
        return vw__fail_host_memory(run->change_count * sizeof *run->changes,
                                    "the changes of live bytes");
    return VW_OK;
}

void vw__what_if_deinit(vw__what_if_run *run)
{
    vw__host_free(run->changes);
    memset(run, 0, sizeof *run);
}

/* ---- questions ------------------------------------------------------------------------------- */

/* Divides first: the product may not fit. */
static uint64_t scaled_bytes(uint64_t size_bytes, uint16_t permille)
{
    return size_bytes / WHOLE_PERMILLE * permille +
           size_bytes % WHOLE_PERMILLE * permille / WHOLE_PERMILLE;
}

/* An instant is over: its sums may be peaks. */
static void look(const uint64_t *live_bytes, size_t count, uint32_t instant,
                 vw__what_if_peak *peaks)
{
    for (size_t i = 0; i < count; i++)
        if (live_bytes[i] > peaks[i].bytes)
            peaks[i] = (vw__what_if_peak){live_bytes[i], instant};
}

static void walk_changes(const vw__what_if_run *run, const vw__what_if *questions, size_t count,
                         uint64_t *live_bytes, vw__what_if_peak *peaks)
{
    uint32_t instant = 0;
    for (size_t c = 0; c < run->change_count; c++) {
        size_t place = run->changes[c] / 2;
        bool is_end = run->changes[c] % 2 != 0;
        const vw__lifetime *lifetime = &run->timeline->lifetimes[place];
        uint8_t portion = run->portion_of[place];
        uint32_t own_instant = is_end ? lifetime->end : lifetime->begin;
        if (own_instant != instant)
            look(live_bytes, count, instant, peaks);
        instant = own_instant;
        for (size_t i = 0; i < count; i++) {
            uint64_t scaled =
                scaled_bytes(lifetime->size_bytes, questions[i].kept_permille[portion]);
            live_bytes[i] = is_end ? live_bytes[i] - scaled : live_bytes[i] + scaled;
        }
    }
    look(live_bytes, count, instant, peaks);
}

/* The request comes on top of what is live at the last instant; so does what a change adds, at all
 * instants. */
static void add_the_rest(const vw__what_if_run *run, const vw__what_if *questions, size_t count,
                         uint64_t *live_bytes, vw__what_if_peak *peaks)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t permille = questions[i].kept_permille[run->request_portion];
        live_bytes[i] =
            vw__add_capped_u64(live_bytes[i], scaled_bytes(run->request_bytes, permille));
    }
    if (run->request_bytes != 0)
        look(live_bytes, count, run->last_instant, peaks);
    for (size_t i = 0; i < count; i++)
        peaks[i].bytes = vw__add_capped_u64(peaks[i].bytes, questions[i].added_bytes);
}

vw_status vw__what_if_ask(const vw__what_if_run *run, const vw__what_if *questions, size_t count,
                          vw__what_if_peak *peaks)
{
    uint64_t *live_bytes = vw__host_alloc_zeroed(count, sizeof *live_bytes);
    if (live_bytes == NULL)
        return vw__fail_host_memory(count * sizeof *live_bytes, "the peaks of changed runs");
    memset(peaks, 0, count * sizeof *peaks);
    walk_changes(run, questions, count, live_bytes, peaks);
    add_the_rest(run, questions, count, live_bytes, peaks);
    vw__host_free(live_bytes);
    return VW_OK;
}

/* ---- portions -------------------------------------------------------------------------------- */

enum {
    LOSS_TOLERANCE = 16,  /* sizes may differ by that part */
    LOSS_LEAST_PART = 8,  /* of the live bytes: less is not worth telling apart */
    LOSS_LEAST_FACTOR = 2 /* larger than any other activation */
};

/* The stack of a context; the number of stacks if no stack was captured. */
static size_t stack_of(const vw__model *model, uint32_t context)
{
    return context != VW__MODEL_NO_CONTEXT ? model->contexts[context] : model->stack_count;
}

vw__portion vw__portion_of_role(vw__role role, uint8_t pass_kind)
{
    switch (role) {
    case VW__ROLE_WEIGHTS:
        return VW__PORTION_WEIGHTS;
    case VW__ROLE_GRADIENTS:
        return VW__PORTION_GRADIENTS;
    case VW__ROLE_OPTIMIZER:
        return VW__PORTION_OPTIMIZER;
    case VW__ROLE_ACTIVATIONS:
        return VW__PORTION_ACTIVATIONS;
    case VW__ROLE_TEMPORARIES:
        return pass_kind == VW__ROLES_PASS_OPTIMIZER ? VW__PORTION_STEP_WORK
                                                     : VW__PORTION_PASS_WORK;
    case VW__ROLE_KV_CACHE:
        return VW__PORTION_KV_CACHE;
    case VW__ROLE_DATA:
        return VW__PORTION_DATA;
    case VW__ROLE_WORKSPACE:
    case VW__ROLE_UNKNOWN:
    default:
        return VW__PORTION_REST;
    }
}

/* ---- the loss -------------------------------------------------------------------------------- */

bool vw__portion_is_about_size(uint64_t size_bytes, uint64_t other_bytes)
{
    uint64_t difference =
        vw__max_u64(size_bytes, other_bytes) - vw__min_u64(size_bytes, other_bytes);
    return difference <= other_bytes / LOSS_TOLERANCE;
}

/* Functions and files that are a loss over classes. NULL = any function. */
static const struct {
    const char *file, *function;
} loss_frames[] = {
    {"torch/nn/functional.py", "cross_entropy"}, {"torch/nn/functional.py", "nll_loss"},
    {"torch/nn/functional.py", "log_softmax"},   {"torch/nn/modules/loss.py", NULL},
    {"transformers/loss/loss_utils.py", NULL},
};

static bool is_loss_frame(const vw__model *model, const vw__model_frame *frame)
{
    for (size_t i = 0; i < COUNT_OF(loss_frames); i++) {
        const char *function = loss_frames[i].function;
        if ((function == NULL || strcmp(function, vw__model_string(model, frame->name)) == 0) &&
            vw__attribution_path_has(vw__model_string(model, frame->filename), loss_frames[i].file))
            return true;
    }
    return false;
}

/* The search for the blocks of a loss. */
typedef struct loss_search {
    const vw__portion_loss_question *given;
    uint8_t *portions;       /* the caller's */
    bool *is_loss_stack;     /* owned; by stack; the last, for no stack, is false */
    uint64_t *largest_bytes; /* owned; by pass: the largest block that its loss, or else that of
                                the pass before it, asked for; 0: no loss */
} loss_search;

static vw_status begin_search(loss_search *search)
{
    const vw__model *model = search->given->model;
    size_t stack_count = model->stack_count + 1, pass_count = search->given->roles->pass_count;
    bool *is_loss_frame_of = vw__host_alloc_zeroed(model->frame_count, sizeof(bool));
    search->is_loss_stack = vw__host_alloc_zeroed(stack_count, sizeof(bool));
    search->largest_bytes = vw__host_alloc_zeroed(pass_count, sizeof(uint64_t));
    bool has_memory =
        is_loss_frame_of != NULL && search->is_loss_stack != NULL && search->largest_bytes != NULL;
    for (size_t i = 0; has_memory && i < model->frame_count; i++)
        is_loss_frame_of[i] = is_loss_frame(model, &model->frames[i]);
    for (size_t i = 0; has_memory && i < model->stack_count; i++)
        for (uint32_t k = 0; k < model->stacks[i].count; k++)
            if (is_loss_frame_of[model->frame_ids[model->stacks[i].first + k]])
                search->is_loss_stack[i] = true;
    vw__host_free(is_loss_frame_of);
    return has_memory ? VW_OK
                      : vw__fail_host_memory(stack_count + pass_count * sizeof(uint64_t),
                                             "the blocks of a loss");
}

static void end_search(loss_search *search)
{
    vw__host_free(search->is_loss_stack);
    vw__host_free(search->largest_bytes);
}

static bool is_portion_of_a_pass(unsigned portion)
{
    return portion == VW__PORTION_ACTIVATIONS || portion == VW__PORTION_PASS_WORK;
}

static bool is_of_a_pass(const loss_search *search, size_t lifetime)
{
    return is_portion_of_a_pass(search->portions[lifetime]);
}

static void find_largest(loss_search *search)
{
    const vw__portion_loss_question *given = search->given;
    for (size_t i = 0; i < given->timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &given->timeline->lifetimes[i];
        uint64_t *largest = &search->largest_bytes[given->roles->pass_of[i]];
        if (is_of_a_pass(search, i) &&
            search->is_loss_stack[stack_of(given->model, lifetime->context)])
            *largest = vw__max_u64(*largest, lifetime->size_bytes);
    }
    if (given->request_bytes != 0 && is_portion_of_a_pass(given->request_portion)) {
        uint64_t *largest =
            &search->largest_bytes[vw__roles_pass_at(given->roles, given->request_event)];
        if (search->is_loss_stack[stack_of(given->model, given->request_context)])
            *largest = vw__max_u64(*largest, given->request_bytes);
    }
}

/* A pass without a loss, such as the backward pass, takes that of the pass before it. Passes before
 * the first loss of a step take that one: the loss may be a pass of its own. */
static void spread_largest(loss_search *search)
{
    const vw__roles *roles = search->given->roles;
    uint64_t *largest = search->largest_bytes;
    for (size_t i = 1; i < roles->pass_count; i++)
        if (largest[i] == 0 && roles->passes[i].step == roles->passes[i - 1].step)
            largest[i] = largest[i - 1];
    for (size_t i = roles->pass_count; i-- > 1;)
        if (largest[i - 1] == 0 && roles->passes[i].step == roles->passes[i - 1].step)
            largest[i - 1] = largest[i];
}

/* Returns whether a block of that size, requested in that pass, looks like logits. */
static bool is_like_logits(const loss_search *search, uint32_t pass, uint64_t size_bytes)
{
    uint64_t largest = search->largest_bytes[pass];
    return largest != 0 && (vw__portion_is_about_size(size_bytes, largest) ||
                            vw__portion_is_about_size(size_bytes, largest / 2) ||
                            vw__portion_is_about_size(size_bytes / 2, largest));
}

static bool is_request_like_logits(const loss_search *search)
{
    const vw__portion_loss_question *given = search->given;
    return given->request_bytes != 0 && is_portion_of_a_pass(given->request_portion) &&
           is_like_logits(search, vw__roles_pass_at(given->roles, given->request_event),
                          given->request_bytes);
}

/* Returns whether logits are the largest live blocks there, and much of the live bytes. The failed
 * request counts. */
static bool do_they_stand_out(const loss_search *search)
{
    const vw__portion_loss_question *given = search->given;
    uint64_t least_bytes = UINT64_MAX, other_bytes = 0;
    uint64_t total_bytes = is_request_like_logits(search) ? given->request_bytes : 0;
    for (size_t i = 0; i < given->timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &given->timeline->lifetimes[i];
        if (!is_of_a_pass(search, i) || !vw__lifetime_is_live(lifetime, given->instant))
            continue;
        uint32_t pass = given->roles->pass_of[i];
        if (is_like_logits(search, pass, lifetime->size_bytes)) {
            total_bytes += lifetime->size_bytes;
            least_bytes = vw__min_u64(least_bytes, search->largest_bytes[pass]);
        } else {
            other_bytes = vw__max_u64(other_bytes, lifetime->size_bytes);
        }
    }
    return total_bytes > given->live_bytes / LOSS_LEAST_PART &&
           least_bytes / LOSS_LEAST_FACTOR >= other_bytes;
}

static bool part_the_loss(const loss_search *search)
{
    const vw__portion_loss_question *given = search->given;
    if (!do_they_stand_out(search))
        return false;
    bool is_request_of_it = is_request_like_logits(search);
    for (size_t i = 0; i < given->timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &given->timeline->lifetimes[i];
        if (is_of_a_pass(search, i) &&
            is_like_logits(search, given->roles->pass_of[i], lifetime->size_bytes))
            search->portions[i] = VW__PORTION_LOSS;
    }
    return is_request_of_it;
}

vw_status vw__portion_part_loss(const vw__portion_loss_question *question, uint8_t *portions,
                                bool *is_request_of_it)
{
    loss_search search = {.given = question, .portions = portions};
    vw_status status = begin_search(&search);
    *is_request_of_it = false;
    if (status == VW_OK) {
        find_largest(&search);
        spread_largest(&search);
        *is_request_of_it = part_the_loss(&search);
    }
    end_search(&search);
    return status;
}
