/* torch_lifecycle.c - making and ending the engine, its settings, and its table. */
#include "engine/torch/torch_engine.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "device/device_table.h" /* vw__device_can_share */
#include "engine/inspect.h"
#include "engine/segments.h"

static void adopt_settings(vw__torch_engine *engine)
{
    const vw_device_properties *device = &engine->base.owner.device->properties;
    engine->base.max_split_bytes = engine->settings.max_split_size_bytes;
    engine->is_expandable = engine->settings.is_expandable && engine->rules.has_expandable &&
                            device->has_virtual_memory;
    engine->counts_ages =
        engine->settings.garbage_collection_threshold > 0 && engine->base.limit_bytes != UINT64_MAX;
}

static vw_status set_fraction(vw__engine *base, double fraction)
{
    VW__TRY(vw__engine_set_fraction(base, fraction));
    adopt_settings(vw__torch_of(base));
    return VW_OK;
}

static vw_status read_conf(vw__torch_engine *engine, const char *conf)
{
    return vw__torch_settings_apply(&engine->settings, &engine->rules, conf,
                                    engine->is_strict ? VW__TORCH_SETTINGS_STRICT
                                                      : VW__TORCH_SETTINGS_LIKE_TORCH);
}

static vw_status configure(vw__engine *base, const char *conf)
{
    vw__torch_engine *engine = vw__torch_of(base);
    VW__TRY(read_conf(engine, conf));
    adopt_settings(engine);
    return VW_OK;
}

static vw_status trim(vw__engine *base, const vw_private_id *only)
{
    return vw__torch_trim(vw__torch_of(base), only);
}

static void abandon_all(vw__torch_engine *engine)
{
    while (engine->base.segments != NULL) {
        vw__segment *segment = vw__segment_of_node(engine->base.segments);
        vw__torch_abandon_segment(engine, segment);
        vw__torch_drop_segment(engine, segment);
    }
}

static void destroy(vw__engine *base)
{
    vw__torch_engine *engine = vw__torch_of(base);
    abandon_all(engine);
    vw__private_deinit_all(base);
    vw__shelf_deinit(&base->shelves[VW__SMALL]);
    vw__shelf_deinit(&base->shelves[VW__LARGE]);
    vw__torch_settings_deinit(&engine->settings);
    vw__block_source_deinit(&base->records);
    vw__host_free(engine);
}

static const vw__engine_table torch_table = {
    .name = "torch",
    .destroy = destroy,
    .allocate = vw__torch_allocate,
    .allocate_at = vw__torch_allocate_at,
    .free = vw__torch_free,
    .restores_as_torch = true,
    .see_to_records = vw__engine_see_to_records,
    .hand_out_at = vw__torch_hand_out_at,
    .walk_pieces = vw__torch_walk_pieces,
    .trim = trim,
    .set_fraction = set_fraction,
    .configure = configure,
    .is_capturing = vw__engine_is_capturing,
    .find = vw__engine_find,
    .walk = vw__engine_walk,
    .check = vw__torch_check,
    .largest_free = vw__engine_largest_free,
    .private_idle = vw__engine_private_idle,
    .private_retain = vw__private_retain,
    .private_release = vw__private_release,
    .private_use_count = vw__private_use_count,
    .private_set = vw__private_set,
    .scope_begin = vw__scope_begin,
    .scope_end = vw__scope_end,
};

vw_status vw__torch_engine_create(const vw__engine_owner *owner, const vw_pool_options *options,
                                  int version, vw__engine **out)
{
    vw__torch_rules rules;
    if (options->is_shareable && !vw__device_can_share(owner->device))
        return vw__fail(VW_ERR_UNSUPPORTED, "device %s has no memory that can be shared",
                        owner->device->properties.name);
    VW__TRY(vw__torch_rules_for(version, &rules));
    vw__torch_engine *engine = vw__host_alloc_zeroed(1, sizeof *engine);
    if (engine == NULL)
        return vw__fail_host_memory(sizeof *engine, "an engine");
    engine->base.table = &torch_table;
    engine->base.owner = *owner;
    engine->base.limit_bytes = UINT64_MAX;
    engine->rules = rules;
    engine->base.wording = &engine->rules;
    engine->base.conf = &engine->settings;
    engine->is_strict = options->is_strict;
    engine->is_shareable = options->is_shareable;
    vw__block_source_init(&engine->base.records);
    vw__torch_settings_init(&engine->settings);
    engine->base.shelves[VW__SMALL].kind = VW__SMALL;
    engine->base.shelves[VW__LARGE].kind = VW__LARGE;

    vw_status status = read_conf(engine, options->conf);
    if (status == VW_OK && engine->settings.backend != VW__TORCH_BACKEND_NATIVE)
        status = vw__fail(VW_ERR_INVALID_ARGUMENT,
                          "backend:cudaMallocAsync is the driver's own allocator; this engine is "
                          "PyTorch's native one");
    engine->base.fraction = 1.0;
    if (status == VW_OK && engine->settings.per_process_memory_fraction < 1.0)
        status = set_fraction(&engine->base, engine->settings.per_process_memory_fraction);
    if (status != VW_OK) {
        destroy(&engine->base);
        return status;
    }
    adopt_settings(engine);
    *out = &engine->base;
    return VW_OK;
}
