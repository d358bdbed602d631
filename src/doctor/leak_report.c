/* leak_report.c - puts the groups that leak together, and writes the findings.
 *
 * A graph that is kept leaks at every line of a forward pass: to name each would hide what is
 * wrong. So groups are put together where one mistake explains them, by a *pattern* of which there
 * are four, each with remedies of its own. A finding also says which lines ask for the memory, how
 * the leak was seen, and how long the card will last. */
#include "doctor/leak_parts.h"

#include "base/error.h"
#include "base/host_memory.h"

enum {
    GRAPH_STACKS = 4,   /* that many lines of a forward pass are a graph, not a list */
    GRAPH_PERCENT = 70, /* and so is that much of what forward passes ask for */
    MOST_LEAKS = 4      /* that get a finding each */
};

/* ---- patterns -------------------------------------------------------------------------------- */

typedef enum pattern { PATTERN_GRAPH, PATTERN_LIST, PATTERN_GROWING, PATTERN_OPTIMIZER } pattern;

static bool is_of_pass(const vw__leak_search *search, const vw__leak_group *own)
{
    vw__category category = vw__attribution_category(&search->facts->attribution, own->context);
    return category == VW__CATEGORY_FORWARD || category == VW__CATEGORY_BACKWARD ||
           category == VW__CATEGORY_OTHER;
}

static pattern pattern_of(const vw__leak_search *search, const vw__leak_group *own)
{
    if (own->is_growing)
        return PATTERN_GROWING;
    if (vw__attribution_is_in_optimizer(&search->facts->attribution, own->context))
        return PATTERN_OPTIMIZER;
    return search->is_graph && is_of_pass(search, own) ? PATTERN_GRAPH : PATTERN_LIST;
}

/* A graph keeps the output of nearly every operation, a list those of one: how many different
 * stacks of forward passes leak, each a fair part of the whole, and how much of what the passes
 * asked for stayed. */
static bool is_graph(const vw__leak_search *search)
{
    const vw__doctor_facts *facts = search->facts;
    size_t count = 0;
    uint64_t asked = 0, left = 0;
    for (size_t i = 0; i < facts->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &facts->timeline.lifetimes[i];
        if (lifetime->begin < search->horizon &&
            vw__attribution_category(&facts->attribution, lifetime->context) ==
                VW__CATEGORY_FORWARD)
            asked += lifetime->size_bytes;
    }
    for (size_t i = 0; i < search->group_count; i++) {
        const vw__leak_group *own = &search->groups[i];
        if (!own->is_leak || own->is_growing ||
            vw__attribution_category(&facts->attribution, own->context) != VW__CATEGORY_FORWARD)
            continue;
        left += own->left_bytes;
        count += own->left_bytes >= search->leaked_bytes / 100;
    }
    return count >= GRAPH_STACKS || left / GRAPH_PERCENT >= asked / 100 + 1;
}

typedef struct leak {
    pattern pattern;
    uint64_t bytes, block_count;
    uint64_t bytes_per_step;
    bool is_backward;         /* made by backward passes, on threads without frames */
    uint64_t *bytes_by_stack; /* owned */
    size_t stack_count;       /* that have any */
} leak;

/* In steps of the program; in slices of the trace where none are known. */
static uint64_t bytes_per_step(const vw__leak_search *search, size_t index)
{
    const vw__leak_flow *flows = &search->flows[index * search->bucket_count];
    size_t first = search->first_bucket, end = search->usable_count;
    uint64_t bytes = 0;
    if (search->groups[index].is_growing)
        bytes = (uint64_t)(flows[end - 1].between_bytes - flows[first - 1].between_bytes);
    else
        for (size_t k = first; k < end; k++)
            bytes += flows[k].born_bytes - (flows[k].born_bytes < flows[k].died_bytes
                                                ? flows[k].born_bytes
                                                : flows[k].died_bytes);
    uint64_t steps = (uint64_t)(end - first) * search->end_count / search->bucket_count;
    return steps != 0 ? bytes / steps : 0;
}

/* ---- words ----------------------------------------------------------------------------------- */

#define MOST_REMEDIES 3

static const struct {
    const char *what;
    struct {
        vw_basis basis;
        const char *action, *cost, *how;
    } remedies[MOST_REMEDIES];
} patterns[] = {
    [PATTERN_GRAPH] = {"A graph is kept, and activations of many steps are alive at once",
                       {{VW_BASIS_MEASURED, "add the number, not the tensor with its graph",
                         "none (item() waits for the GPU; detach() does not)",
                         "total_loss += loss.item()          # not: total_loss += loss\n"
                         "losses.append(loss.detach())       # where a tensor is needed"},
                        {VW_BASIS_MEASURED, "cut the graph of what is carried into the next step",
                         "none, unless gradients are to reach back that far",
                         "hidden = hidden.detach()"},
                        {VW_BASIS_RULE, "do without retain_graph=True", "none",
                         "loss.backward()                    # frees the graph"}}},
    [PATTERN_LIST] = {"Blocks of one line are kept, step after step",
                      {{VW_BASIS_MEASURED, "keep it on the host, or not at all",
                        "a copy to the host for each",
                        "kept.append(out.detach().cpu())    # in the hook or list at that line\n"
                        "kept.clear()                       # when it has been used"},
                       {VW_BASIS_RULE, "remove the hook when it has done its work", "none",
                        "handle = module.register_forward_hook(hook)\n...\nhandle.remove()"}}},
    [PATTERN_GROWING] = {"One tensor becomes longer every step",
                         {{VW_BASIS_MEASURED, "collect on the host, and join once at the end",
                           "a copy to the host for each step",
                           "parts.append(out.detach().cpu())\nall_out = torch.cat(parts)"}}},
    [PATTERN_OPTIMIZER] = {"An optimizer's state is made again and again",
                           {{VW_BASIS_MEASURED,
                             "make the optimizer once, or let the old one go first", "none",
                             "optimizer = None                   # before making the next one\n"
                             "optimizer = torch.optim.AdamW(model.parameters())"}}},
};

static const char *title_of(const vw__leak_search *search, const leak *found)
{
    vw__diagnosis_draft *draft = search->result->draft;
    return search->has_steps
               ? vw__diagnosis_text(draft, "%s: %s so far, %s more each step.",
                                    patterns[found->pattern].what, VW__DOCTOR_SIZE(found->bytes),
                                    VW__DOCTOR_SIZE(found->bytes_per_step))
               : vw__diagnosis_text(draft, "%s: %s so far.", patterns[found->pattern].what,
                                    VW__DOCTOR_SIZE(found->bytes));
}

static void add_remedies(vw__diagnosis_finding *finding, const leak *found)
{
    for (size_t i = 0; i < MOST_REMEDIES; i++)
        if (patterns[found->pattern].remedies[i].action != NULL)
            vw__diagnosis_remedy(finding, patterns[found->pattern].remedies[i].action,
                                 vw__diagnosis_saves(found->bytes),
                                 patterns[found->pattern].remedies[i].basis,
                                 patterns[found->pattern].remedies[i].cost,
                                 patterns[found->pattern].remedies[i].how);
}

/* How long it will take. The card is known where it was given, or where it has run out. */
static void tell_exhaustion(const vw__leak_search *search, const leak *found,
                            vw__diagnosis_finding *finding)
{
    const vw__doctor_input *input = search->input;
    const vw__doctor_facts *facts = search->facts;
    vw__doctor_result *result = search->result;
    uint64_t limit = input->options->card_bytes;
    if (limit == 0 && facts->failure.numbers.allowed_bytes != VW_UNKNOWN)
        limit = facts->failure.numbers.allowed_bytes;
    if (!search->has_steps || found->bytes_per_step == 0)
        return;
    if (facts->failure.has_happened) {
        vw__diagnosis_evidence(finding, "It ran out of memory after %s.",
                               vw__diagnosis_count(result->draft, search->end_count - 1, "step"));
    } else if (limit != 0) {
        uint64_t live = facts->peak_bytes;
        uint64_t left = live < limit ? (limit - live) / found->bytes_per_step : 0;
        vw__diagnosis_evidence(
            finding, "At this rate the card is full after %s more, if nothing else grows.",
            vw__diagnosis_count(result->draft, left, "step"));
    } else {
        vw__diagnosis_evidence(finding, "At this rate every GiB of the card lasts %s.",
                               vw__diagnosis_count(result->draft,
                                                   (UINT64_C(1) << 30) / found->bytes_per_step,
                                                   "step"));
    }
}

static void tell(vw__leak_search *search, leak *found)
{
    const vw__doctor_facts *facts = search->facts;
    vw__doctor_result *result = search->result;
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(result->draft, "leak", found->bytes, "%s", title_of(search, found));
    vw__doctor_add_places(facts, found->bytes_by_stack, VW__DOCTOR_PLACES_TOGETHER, finding);
    if (finding->where_count == 0 && found->is_backward)
        vw__diagnosis_where(
            finding, "%s",
            vw__doctor_place(facts, result->draft, vw__doctor_backward_context(facts)));
    const char *until = facts->failure.has_happened                 ? "the failure"
                        : search->horizon != facts->horizon_instant ? "the peak of the run"
                                                                    : "the end of the work";
    if (found->stack_count == 0)
        vw__diagnosis_evidence(finding,
                               "%llu blocks of one size, without a stack, stayed until %s.",
                               (unsigned long long)found->block_count, until);
    else
        vw__diagnosis_evidence(
            finding, "%s, asked for by %s, stayed until %s; hardly any was given back.",
            vw__diagnosis_count(result->draft, found->block_count, "block"),
            vw__diagnosis_count(result->draft, found->stack_count, "stack"), until);
    if (search->has_steps)
        vw__diagnosis_evidence(
            finding,
            "%zu steps were found by %s; at their beginning, in their middle and "
            "at their end new blocks come and stay.",
            search->end_count - 1, facts->steps.basis);
    else
        vw__diagnosis_evidence(
            finding,
            "No steps were found; the trace was cut into %d equal parts, and new "
            "blocks come and stay in nearly all of them.",
            VW__LEAK_SLICES);
    tell_exhaustion(search, found, finding);
    add_remedies(finding, found);
}

/* ---- which groups are one leak --------------------------------------------------------------- */

/* Groups belong to one leak if they make one graph, or else if they have one line. */
static bool belongs(const vw__leak_search *search, const vw__leak_group *first,
                    const vw__leak_group *other)
{
    const vw__doctor_facts *facts = search->facts;
    pattern one = pattern_of(search, first);
    if (one != pattern_of(search, other))
        return false;
    if (one == PATTERN_GRAPH || one == PATTERN_OPTIMIZER)
        return true;
    const vw__model *model = facts->model;
    vw__model_stack a = vw__model_stack_of(model, first->context);
    vw__model_stack b = vw__model_stack_of(model, other->context);
    size_t a_where = vw__attribution_where(&facts->attribution, a);
    size_t b_where = vw__attribution_where(&facts->attribution, b);
    if (a_where == VW__ATTRIBUTION_NO_FRAME || b_where == VW__ATTRIBUTION_NO_FRAME)
        return a_where == b_where;
    return model->frame_ids[a.first + a_where] == model->frame_ids[b.first + b_where];
}

/* The heaviest group that nobody has taken yet, or NULL. */
static vw__leak_group *heaviest(vw__leak_search *search)
{
    vw__leak_group *best = NULL;
    for (size_t i = 0; i < search->group_count; i++) {
        vw__leak_group *own = &search->groups[i];
        if (own->is_leak && (best == NULL || own->left_bytes > best->left_bytes))
            best = own;
    }
    return best;
}

static vw_status collect(vw__leak_search *search, const vw__leak_group *first, leak *out)
{
    out->pattern = pattern_of(search, first);
    size_t stack_count = search->facts->model->stack_count;
    out->bytes_by_stack = vw__host_alloc_zeroed(stack_count, sizeof *out->bytes_by_stack);
    if (out->bytes_by_stack == NULL)
        return vw__fail_host_memory(stack_count * sizeof *out->bytes_by_stack, "a leak");
    vw__leak_group lead = *first;
    out->is_backward = vw__attribution_category(&search->facts->attribution, lead.context) ==
                       VW__CATEGORY_BACKWARD;
    for (size_t i = 0; i < search->group_count; i++) {
        vw__leak_group *own = &search->groups[i];
        if (!own->is_leak || !belongs(search, &lead, own))
            continue;
        own->is_leak = false;
        out->bytes += own->left_bytes;
        out->block_count += own->left_count;
        out->bytes_per_step += bytes_per_step(search, i);
        if (own->key < stack_count) {
            out->bytes_by_stack[own->key] = own->left_bytes;
            out->stack_count++;
        }
    }
    return VW_OK;
}

/* Leaves in the diagnosis which stacks leak, and by how much a step. */
static vw_status keep_growth(const vw__leak_search *search)
{
    vw__diagnosis_draft *draft = search->result->draft;
    vw__diagnosis_growing_stack *stacks = vw__arena_alloc_array(
        &draft->arena, search->group_count, sizeof *stacks, _Alignof(vw__diagnosis_growing_stack));
    size_t count = 0;
    if (stacks == NULL)
        return vw__fail_host_memory(search->group_count * sizeof *stacks, "the growth of a run");
    for (size_t i = 0; i < search->group_count; i++) {
        size_t key = search->groups[i].key;
        bool has_stack = key < search->facts->model->stack_count;
        if (!search->groups[i].is_leak)
            continue;
        stacks[count] = (vw__diagnosis_growing_stack){
            has_stack ? (uint32_t)key : VW__DIAGNOSIS_NO_STACK, bytes_per_step(search, i)};
        draft->growth.bytes_per_step += (double)stacks[count++].bytes_per_step;
    }
    draft->growth.stacks = stacks;
    draft->growth.stack_count = count;
    return VW_OK;
}

vw_status vw__leak_tell(vw__leak_search *search)
{
    if (search->has_steps)
        VW__TRY(keep_growth(search));
    search->is_graph = is_graph(search);
    for (size_t told = 0; told < MOST_LEAKS; told++) {
        vw__leak_group *first = heaviest(search);
        if (first == NULL)
            break;
        leak found = {0};
        vw_status status = collect(search, first, &found);
        if (status == VW_OK && (told == 0 || found.bytes * 20 >= search->leaked_bytes))
            tell(search, &found);
        vw__host_free(found.bytes_by_stack);
        VW__TRY(status);
    }
    return VW_OK;
}
