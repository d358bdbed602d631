/* plan_changes.c - what differs between two settings, in words. */
#include "vramwise/plan.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "plan/changes.h"
#include "plan/settings_check.h"

typedef struct kept_changes {
    vw_plan_changes shown; /* first: what the caller has is this */
    vw__arena arena;
} kept_changes;

static vw_status describe(kept_changes *kept, const vw_plan_model *model,
                          const vw_plan_settings *from, const vw_plan_settings *to)
{
    size_t most = vw__change_count(from, to), count = 0;
    vw_plan_change *changes =
        vw__arena_alloc_array(&kept->arena, most, sizeof *changes, sizeof(char *));
    if (changes == NULL)
        return vw__fail_host_memory(most * sizeof *changes, "the changes of a plan");
    for (vw__change change = 0; change < VW__CHANGE_COUNT; change++) {
        if (!vw__has_changed(change, from, to))
            continue;
        vw_plan_change made = {.name = vw__change_name(&kept->arena, change, to),
                               .cost = vw__change_cost(change, to),
                               .code = vw__change_code(&kept->arena, change, model, to)};
        if (made.name == NULL || made.code == NULL)
            return vw__fail_host_memory(0, "the words of a change");
        if (vw__change_remedy(change, to) == VW__REMEDY_COUNT)
            return vw__fail(VW_ERR_UNSUPPORTED, "'%s' is no change that saves memory", made.name);
        changes[count++] = made;
    }
    kept->shown = (vw_plan_changes){changes, count};
    return VW_OK;
}

vw_status vw_plan_changes_make(const vw_plan_model *model, const vw_plan_settings *from,
                               const vw_plan_settings *to, vw_plan_changes **out)
{
    vw_plan_settings checked_from, checked_to;
    if (model == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a model, and a place for the changes");
    VW__TRY(vw__settings_check(model, from, &checked_from));
    VW__TRY(vw__settings_check(model, to, &checked_to));
    kept_changes *kept = vw__host_alloc_zeroed(1, sizeof *kept);
    if (kept == NULL)
        return vw__fail_host_memory(sizeof *kept, "the changes of a plan");
    vw__arena_init(&kept->arena, VW__ARENA_NO_LIMIT);
    vw_status status = describe(kept, model, &checked_from, &checked_to);
    if (status != VW_OK)
        vw_plan_changes_free(&kept->shown);
    else
        *out = &kept->shown;
    return status;
}

void vw_plan_changes_free(vw_plan_changes *changes)
{
    kept_changes *kept = (kept_changes *)changes;
    if (kept == NULL)
        return;
    vw__arena_deinit(&kept->arena);
    vw__host_free(kept);
}
