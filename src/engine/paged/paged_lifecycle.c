/* paged_lifecycle.c - making and ending the engine, its settings, its table; and what it is like
 * when it has failed. */
#include "engine/paged/paged_engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "device/device_table.h" /* hr__device_can_share */
#include "engine/paged/paged_spill.h"

#define DEFAULT_IDLE_SHARE 0.016
#define DEFAULT_IDLE_FLOOR_BYTES (UINT64_C(16) << 20)

/* ---- settings -------------------------------------------------------------------------------- */

static hr_status configure(hr__engine *base, const char *conf)
{
    hr__paged_engine *engine = hr__paged_of(base);
    return hr__torch_settings_apply(&engine->settings, &engine->rules, conf,
                                    engine->is_strict ? HR__TORCH_SETTINGS_STRICT
                                                      : HR__TORCH_SETTINGS_LIKE_TORCH);
}

static hr_status read_mode(const char *name, hr__paged_mode *out)
{
    static const struct {
        const char *name;
        hr__paged_mode mode;
    } modes[] = {
        {"headroom", HR__PAGED_MOVES},
        {"headroom:rescue", HR__PAGED_RESCUE},
        {"headroom:tight", HR__PAGED_TIGHT},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(name, modes[i].name) == 0) {
            *out = modes[i].mode;
            return HR_OK;
        }
    }
    return hr__fail(
        HR_ERR_INVALID_ARGUMENT,
        "unknown engine \"%s\", expected \"torch\", \"headroom\", \"headroom:rescue\" or "
        "\"headroom:tight\"",
        name);
}

/* ---- private pools --------------------------------------------------------------------------- */

/* Memory that somebody else hands out cannot be moved page by page, and is not ours to serve. */
static hr_status retain(hr__engine *base, hr_private_id id, const hr_private_options *options)
{
    if (options != NULL && options->take != NULL)
        return hr__fail(HR_ERR_UNSUPPORTED,
                        "engine \"headroom\" has no private pools with a source of their own");
    return hr__private_retain(base, id, options);
}

/* ---- failed ---------------------------------------------------------------------------------- */

static hr_status say_why(const hr__engine *base)
{
    return hr__fail(HR_ERR_DEVICE, "%s", hr__paged_of_const(base)->failure);
}

static hr_status fail_allocate(hr__engine *base, const hr__request *request, hr__block **out,
                               hr__refusal *refusal)
{
    (void)request, (void)out, (void)refusal;
    return say_why(base);
}

static hr_status fail_allocate_at(hr__engine *base, const hr__request *request,
                                  hr_device_ptr address, hr__block **prefix, hr__block **out)
{
    (void)request, (void)address, (void)prefix, (void)out;
    return say_why(base);
}

static hr_status fail_see_to_records(hr__engine *base, size_t count)
{
    (void)count;
    return say_why(base);
}

static hr_status fail_walk_pieces(hr__engine *base, const hr__block *under, hr__piece_visitor visit,
                                  void *context)
{
    (void)under, (void)visit, (void)context;
    return say_why(base);
}

static hr_status fail_trim(hr__engine *base, const hr_private_id *only)
{
    (void)only;
    return say_why(base);
}

static hr_status fail_set_fraction(hr__engine *base, double fraction)
{
    (void)fraction;
    return say_why(base);
}

static hr_status fail_configure(hr__engine *base, const char *conf)
{
    (void)conf;
    return say_why(base);
}

static hr_status fail_retain(hr__engine *base, hr_private_id id, const hr_private_options *options)
{
    (void)id, (void)options;
    return say_why(base);
}

static hr_status fail_scope_begin(hr__engine *base, hr_private_id id, hr_scope_filter filter,
                                  void *context)
{
    (void)id, (void)filter, (void)context;
    return say_why(base);
}

static hr_status fail_pin(hr__engine *base, hr__block *block)
{
    (void)block;
    return say_why(base);
}

static hr_status fail_mark_step(hr__engine *base)
{
    return say_why(base);
}

static hr_status fail_check(hr__engine *base)
{
    return say_why(base);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void destroy(hr__engine *base)
{
    hr__paged_engine *engine = hr__paged_of(base);
    hr__paged_abandon(engine);
    hr__paged_end_spill(engine);
    hr__paged_end_marks(engine);
    hr__paged_end_pins(engine);
    hr__private_deinit_all(base);
    hr__shelf_deinit(&base->shelves[HR__SMALL]);
    hr__shelf_deinit(&base->shelves[HR__LARGE]);
    hr__torch_settings_deinit(&engine->settings);
    hr__block_source_deinit(&base->records);
    hr__host_free(engine->candidates);
    hr__host_free(engine);
}

static void paged_stats(const hr__engine *base, hr_paged_stats *stats)
{
    size_t struct_size = stats->struct_size;
    *stats = hr__paged_of_const(base)->stats;
    stats->struct_size = struct_size;
    stats->is_failed = hr__paged_of_const(base)->failure != NULL;
    if (hr__paged_of_const(base)->spill == NULL)
        return;
    hr__host_stock_numbers numbers;
    hr__host_stock_look(hr__paged_of_const(base)->spill->stock, &numbers);
    stats->host_handle_bytes = numbers.held_bytes;
    stats->failed_host_creations = numbers.failed_creations;
}

/* ---- the tables ------------------------------------------------------------------------------ */

static const hr__engine_table paged_table = {
    .name = "headroom",
    .destroy = destroy,
    .allocate = hr__paged_allocate,
    .allocate_at = hr__paged_allocate_at,
    .free = hr__paged_free,
    .see_to_records = hr__engine_see_to_records,
    .hand_out_at = hr__paged_hand_out_at,
    .walk_pieces = hr__paged_walk_pieces,
    .trim = hr__paged_trim,
    .set_fraction = hr__engine_set_fraction,
    .configure = configure,
    .is_capturing = hr__engine_is_capturing,
    .find = hr__engine_find,
    .walk = hr__engine_walk,
    .check = hr__paged_check,
    .largest_free = hr__engine_largest_free,
    .private_idle = hr__engine_private_idle,
    .private_retain = retain,
    .private_release = hr__private_release,
    .private_use_count = hr__private_use_count,
    .private_set = hr__private_set,
    .scope_begin = hr__scope_begin,
    .scope_end = hr__scope_end,
    .pin = hr__paged_pin,
    .unpin = hr__paged_unpin,
    .advise = hr__paged_advise,
    .mark_step = hr__paged_mark_step,
    .paged_stats = paged_stats,
};

/* What can still be done without knowing what is mapped where: giving blocks back, looking. */
static const hr__engine_table failed_table = {
    .name = "headroom",
    .destroy = destroy,
    .allocate = fail_allocate,
    .allocate_at = fail_allocate_at,
    .free = hr__paged_free,
    .see_to_records = fail_see_to_records,
    .hand_out_at = hr__paged_hand_out_at,
    .walk_pieces = fail_walk_pieces,
    .trim = fail_trim,
    .set_fraction = fail_set_fraction,
    .configure = fail_configure,
    .is_capturing = hr__engine_is_capturing,
    .find = hr__engine_find,
    .walk = hr__engine_walk,
    .check = fail_check,
    .largest_free = hr__engine_largest_free,
    .private_idle = hr__engine_private_idle,
    .private_retain = fail_retain,
    .private_release = hr__private_release,
    .private_use_count = hr__private_use_count,
    .private_set = hr__private_set,
    .scope_begin = fail_scope_begin,
    .scope_end = hr__scope_end,
    .pin = fail_pin,
    .unpin = hr__paged_unpin,
    .advise = hr__paged_advise,
    .mark_step = fail_mark_step,
    .paged_stats = paged_stats,
};

void hr__paged_turn_failed(hr__paged_engine *engine, const char *format, ...)
{
    static const char opening[] = "the pool has failed and serves no more: ";
    va_list arguments;
    if (engine->failure != NULL)
        return;
    memcpy(engine->failure_text, opening, sizeof opening - 1);
    va_start(arguments, format);
    (void)vsnprintf(engine->failure_text + sizeof opening - 1,
                    sizeof engine->failure_text - sizeof opening + 1, format, arguments);
    va_end(arguments);
    engine->failure = engine->failure_text;
    engine->base.table = &failed_table;
}

/* ---- the beginning --------------------------------------------------------------------------- */

hr_status hr__paged_check_options(const hr__engine_owner *owner, const hr_pool_options *options)
{
    const hr_device_properties *device = &owner->device->properties;
    hr__paged_mode mode;
    HR__TRY(read_mode(options->engine, &mode));
    if (!(options->idle_share >= 0.0 && options->idle_share <= 1.0))
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "an idle_share of %g, expected a share of the live bytes from 0 to 1",
                        options->idle_share);
    if (options->idle_floor_bytes > device->total_bytes)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "an idle_floor_bytes of %llu, more than the %llu bytes of the device",
                        (unsigned long long)options->idle_floor_bytes,
                        (unsigned long long)device->total_bytes);
    if (options->is_shareable && !hr__device_can_share(owner->device))
        return hr__fail(HR_ERR_UNSUPPORTED, "device %s has no memory that can be shared",
                        device->name);
    return hr__paged_check_spill(owner->device, options);
}

hr_status hr__paged_engine_create(const hr__engine_owner *owner, const hr_pool_options *options,
                                  int version, hr__engine **out)
{
    hr__torch_rules rules;
    hr__paged_mode mode = HR__PAGED_MOVES;
    HR__TRY(hr__paged_check_options(owner, options));
    HR__TRY(read_mode(options->engine, &mode));
    HR__TRY(hr__torch_rules_for(version, &rules));
    hr__paged_engine *engine = hr__host_alloc_zeroed(1, sizeof *engine);
    if (engine == NULL)
        return hr__fail_host_memory(sizeof *engine, "an engine");
    engine->base.table = &paged_table;
    engine->base.owner = *owner;
    engine->base.limit_bytes = UINT64_MAX;
    engine->base.max_split_bytes = UINT64_MAX;
    engine->base.fraction = 1.0;
    engine->rules = rules;
    engine->rules.capturing = HR__TORCH_CAPTURING_CURRENT_STREAM; /* whatever the release did */
    engine->base.wording = &engine->rules;
    engine->base.conf = &engine->settings;
    engine->is_strict = options->is_strict;
    engine->mode = mode;
    engine->unit_bytes = owner->device->properties.granularity_bytes;
    engine->idle_share = options->idle_share > 0.0 ? options->idle_share : DEFAULT_IDLE_SHARE;
    engine->idle_floor_bytes =
        options->idle_floor_bytes != 0 ? options->idle_floor_bytes : DEFAULT_IDLE_FLOOR_BYTES;
    engine->is_shareable = options->is_shareable;
    engine->fineness = 1.0;
    hr__block_source_init(&engine->base.records);
    hr__torch_settings_init(&engine->settings);
    engine->base.shelves[HR__SMALL].kind = HR__SMALL;
    engine->base.shelves[HR__LARGE].kind = HR__LARGE;

    hr_status status = configure(&engine->base, options->conf);
    if (status == HR_OK && engine->settings.backend != HR__TORCH_BACKEND_NATIVE)
        status = hr__fail(HR_ERR_INVALID_ARGUMENT,
                          "backend:cudaMallocAsync is the driver's own allocator, and engine "
                          "\"headroom\" is another");
    if (status == HR_OK && engine->settings.per_process_memory_fraction < 1.0)
        status =
            hr__engine_set_fraction(&engine->base, engine->settings.per_process_memory_fraction);
    if (status == HR_OK && options->spill_bytes != 0)
        status = hr__paged_begin_spill(engine, options);
    if (status != HR_OK) {
        destroy(&engine->base);
        return status;
    }
    *out = &engine->base;
    return HR_OK;
}
