/* plan_choices.c - settings that were found, as changes in words. */
#include "plan/plan_choices.h"

#include "plan/changes.h"

typedef struct texts {
    const char **changes, **costs, **code, **sources;
} texts;

static bool make_texts(vw__arena *arena, size_t count, texts *out)
{
    const char ***lists[] = {&out->changes, &out->costs, &out->code, &out->sources};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        *lists[i] = vw__arena_alloc_array(arena, count, sizeof **lists[i], sizeof(char *));
        if (*lists[i] == NULL)
            return false;
    }
    return true;
}

static bool fill_choice(vw__arena *arena, const vw_plan_model *model, const vw_plan_settings *base,
                        double head_share, const vw__found *found, vw_plan_choice *out)
{
    texts made;
    size_t count = 0;
    if (!make_texts(arena, found->change_count, &made))
        return false;
    for (vw__change change = 0; change < VW__CHANGE_COUNT; change++) {
        const vw_plan_settings *to = &found->settings;
        if (!vw__has_changed(change, base, to))
            continue;
        made.changes[count] = vw__change_name(arena, change, to);
        made.costs[count] = vw__change_cost(change, to);
        made.code[count] = vw__change_code(arena, change, model, to);
        made.sources[count] = vw__slowdown_of(change, base, to, head_share).source;
        if (made.changes[count] == NULL || made.code[count] == NULL)
            return false;
        count++;
    }
    *out = (vw_plan_choice){.changes = made.changes,
                            .change_count = count,
                            .settings = found->settings,
                            .peak_allocated_bytes = found->peak_allocated_bytes,
                            .peak_device_bytes = found->device_bytes,
                            .slowdown = found->slowdown,
                            .costs = made.costs,
                            .code = made.code,
                            .sources = made.sources,
                            .fits = found->fits};
    return true;
}

const vw_plan_choice *vw__plan_choices_make(vw__arena *arena, const vw_plan_model *model,
                                            const vw_plan_settings *base, double head_share,
                                            const vw__search_result *result)
{
    vw_plan_choice *choices =
        vw__arena_alloc_array(arena, result->found_count, sizeof *choices, sizeof(uint64_t));
    for (size_t i = 0; choices != NULL && i < result->found_count; i++)
        if (!fill_choice(arena, model, base, head_share, &result->found[i], &choices[i]))
            return NULL;
    return choices;
}
