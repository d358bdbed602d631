/* torch_lifecycle.c - making and ending the engine, its settings, and its table. */
#include "engine/torch/torch_engine.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "device/device_table.h" /* vw__device_can_share */
#include "engine/inspect.h"

static void adopt_settings(vw__torch_engine *engine)
{
    const vw_device_properties *device = &engine->base.owner.device->properties;
    engine->base.max_split_bytes = engine->conf.settings.max_split_size_bytes;
    engine->base.reuse = vw__torch_conf_reuse(&engine->conf);
    engine->is_expandable = engine->conf.settings.is_expandable &&
                            engine->conf.rules.has_expandable && device->has_virtual_memory;
    engine->counts_ages = engine->conf.settings.garbage_collection_threshold > 0 &&
                          engine->base.limit_bytes != UINT64_MAX;
}

static vw_status set_fraction(vw__engine *base, double fraction)
{
    VW__TRY(vw__torch_conf_set_fraction(&vw__torch_of(base)->conf, base, fraction));
    adopt_settings(vw__torch_of(base));
    return VW_OK;
}

static vw_status configure(vw__engine *base, const char *text)
{
    vw__torch_engine *engine = vw__torch_of(base);
    VW__TRY(vw__torch_conf_apply(&engine->conf, text));
    adopt_settings(engine);
    return VW_OK;
}

static void walk_conf(const vw__engine *base, vw_conf_visitor visit, void *context)
{
    vw__torch_conf_walk(&vw__torch_of_const(base)->conf, visit, context);
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
    vw__engine_deinit(base);
    vw__torch_conf_deinit(&engine->conf);
    vw__host_free(engine);
}

static const vw__engine_table torch_table = {
    .name = "torch",
    .destroy = destroy,
    .allocate = vw__torch_allocate,
    .free = vw__torch_free,
    .trim = trim,
    .is_capturing = vw__engine_is_capturing,
    .find = vw__engine_find,
    .walk = vw__engine_walk,
    .check = vw__torch_check,
    .largest_free = vw__engine_largest_free,
    .private_idle = vw__engine_private_idle,
    .allocate_at = vw__torch_allocate_at,
    .set_fraction = set_fraction,
    .configure = configure,
    .walk_conf = walk_conf,
    .private_retain = vw__private_retain,
    .private_release = vw__private_release,
    .private_use_count = vw__private_use_count,
    .private_set = vw__private_set,
    .scope_begin = vw__scope_begin,
    .scope_end = vw__scope_end,
    .see_to_records = vw__engine_see_to_records,
    .hand_out_at = vw__torch_hand_out_at,
    .restores_free_blocks = true,
    .walk_pieces = vw__torch_walk_pieces,
};

/* ---- the beginning --------------------------------------------------------------------------- */

static vw_status check_options(const vw_device *device, const vw_pool_options *options)
{
    (void)device;
    if (options->spill_bytes != 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "a spill_bytes of %llu for engine \"torch\", which spills nothing",
                        (unsigned long long)options->spill_bytes);
    return VW_OK;
}

static vw_status adopt_options(vw__torch_engine *engine, const vw_pool_options *options)
{
    VW__TRY(vw__torch_conf_init(&engine->conf, options));
    const vw__torch_settings *settings = &engine->conf.settings;
    if (settings->backend != VW__TORCH_BACKEND_NATIVE)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "backend:cudaMallocAsync is the driver's own allocator; this engine is "
                        "PyTorch's native one");
    engine->base.routing = vw__torch_conf_routing(&engine->conf);
    engine->is_shareable = options->is_shareable;
    if (settings->per_process_memory_fraction < 1.0)
        return set_fraction(&engine->base, settings->per_process_memory_fraction);
    adopt_settings(engine);
    return VW_OK;
}

static vw_status create(const vw__engine_owner *owner, const vw_pool_options *options,
                        vw__engine **out)
{
    if (options->is_shareable && !vw__device_can_share(owner->device))
        return vw__fail(VW_ERR_UNSUPPORTED, "device %s has no memory that can be shared",
                        owner->device->properties.name);
    vw__torch_engine *engine = vw__host_alloc_zeroed(1, sizeof *engine);
    if (engine == NULL)
        return vw__fail_host_memory(sizeof *engine, "an engine");
    vw__engine_init(&engine->base, &torch_table, owner);
    vw_status status = adopt_options(engine, options);
    if (status != VW_OK) {
        destroy(&engine->base);
        return status;
    }
    *out = &engine->base;
    return VW_OK;
}

static const char *const names[] = {"torch", NULL};

const vw__engine_kind vw__torch_kind = {
    .names = names, .check_options = check_options, .create = create};
