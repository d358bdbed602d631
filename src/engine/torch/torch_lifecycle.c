/* torch_lifecycle.c - making and ending the engine, its settings, and its table. */
#include "engine/torch/torch_engine.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "device/device_table.h" /* hr__device_can_share */
#include "engine/inspect.h"
#include "engine/segments.h"

static void adopt_settings(hr__torch_engine *engine)
{
    const hr_device_properties *device = &engine->base.owner.device->properties;
    engine->base.max_split_bytes = engine->settings.max_split_size_bytes;
    engine->is_expandable = engine->settings.is_expandable && engine->rules.has_expandable &&
                            device->has_virtual_memory;
    engine->counts_ages =
        engine->settings.garbage_collection_threshold > 0 && engine->base.limit_bytes != UINT64_MAX;
}

static hr_status set_fraction(hr__engine *base, double fraction)
{
    HR__TRY(hr__engine_set_fraction(base, fraction));
    adopt_settings(hr__torch_of(base));
    return HR_OK;
}

static hr_status read_conf(hr__torch_engine *engine, const char *conf)
{
    return hr__torch_settings_apply(&engine->settings, &engine->rules, conf,
                                    engine->is_strict ? HR__TORCH_SETTINGS_STRICT
                                                      : HR__TORCH_SETTINGS_LIKE_TORCH);
}

static hr_status configure(hr__engine *base, const char *conf)
{
    hr__torch_engine *engine = hr__torch_of(base);
    HR__TRY(read_conf(engine, conf));
    adopt_settings(engine);
    return HR_OK;
}

static hr_status trim(hr__engine *base, const hr_private_id *only)
{
    return hr__torch_trim(hr__torch_of(base), only);
}

static void abandon_all(hr__torch_engine *engine)
{
    while (engine->base.segments != NULL) {
        hr__segment *segment = hr__segment_of_node(engine->base.segments);
        hr__torch_abandon_segment(engine, segment);
        hr__torch_drop_segment(engine, segment);
    }
}

static void destroy(hr__engine *base)
{
    hr__torch_engine *engine = hr__torch_of(base);
    abandon_all(engine);
    hr__private_deinit_all(base);
    hr__shelf_deinit(&base->shelves[HR__SMALL]);
    hr__shelf_deinit(&base->shelves[HR__LARGE]);
    hr__torch_settings_deinit(&engine->settings);
    hr__block_source_deinit(&base->records);
    hr__host_free(engine);
}

static const hr__engine_table torch_table = {
    .name = "torch",
    .destroy = destroy,
    .allocate = hr__torch_allocate,
    .allocate_at = hr__torch_allocate_at,
    .free = hr__torch_free,
    .restores_as_torch = true,
    .see_to_records = hr__engine_see_to_records,
    .hand_out_at = hr__torch_hand_out_at,
    .walk_pieces = hr__torch_walk_pieces,
    .trim = trim,
    .set_fraction = set_fraction,
    .configure = configure,
    .is_capturing = hr__engine_is_capturing,
    .find = hr__engine_find,
    .walk = hr__engine_walk,
    .check = hr__torch_check,
    .largest_free = hr__engine_largest_free,
    .private_idle = hr__engine_private_idle,
    .private_retain = hr__private_retain,
    .private_release = hr__private_release,
    .private_use_count = hr__private_use_count,
    .private_set = hr__private_set,
    .scope_begin = hr__scope_begin,
    .scope_end = hr__scope_end,
};

hr_status hr__torch_engine_create(const hr__engine_owner *owner, const hr_pool_options *options,
                                  int version, hr__engine **out)
{
    hr__torch_rules rules;
    if (options->is_shareable && !hr__device_can_share(owner->device))
        return hr__fail(HR_ERR_UNSUPPORTED, "device %s has no memory that can be shared",
                        owner->device->properties.name);
    HR__TRY(hr__torch_rules_for(version, &rules));
    hr__torch_engine *engine = hr__host_alloc_zeroed(1, sizeof *engine);
    if (engine == NULL)
        return hr__fail_host_memory(sizeof *engine, "an engine");
    engine->base.table = &torch_table;
    engine->base.owner = *owner;
    engine->base.limit_bytes = UINT64_MAX;
    engine->rules = rules;
    engine->base.wording = &engine->rules;
    engine->base.conf = &engine->settings;
    engine->is_strict = options->is_strict;
    engine->is_shareable = options->is_shareable;
    hr__block_source_init(&engine->base.records);
    hr__torch_settings_init(&engine->settings);
    engine->base.shelves[HR__SMALL].kind = HR__SMALL;
    engine->base.shelves[HR__LARGE].kind = HR__LARGE;

    hr_status status = read_conf(engine, options->conf);
    if (status == HR_OK && engine->settings.backend != HR__TORCH_BACKEND_NATIVE)
        status = hr__fail(HR_ERR_INVALID_ARGUMENT,
                          "backend:cudaMallocAsync is the driver's own allocator; this engine is "
                          "PyTorch's native one");
    engine->base.fraction = 1.0;
    if (status == HR_OK && engine->settings.per_process_memory_fraction < 1.0)
        status = set_fraction(&engine->base, engine->settings.per_process_memory_fraction);
    if (status != HR_OK) {
        destroy(&engine->base);
        return status;
    }
    adopt_settings(engine);
    *out = &engine->base;
    return HR_OK;
}
