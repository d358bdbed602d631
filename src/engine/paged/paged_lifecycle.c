/* paged_lifecycle.c - making and ending the engine, its settings, its tables; and how it behaves
 * after a failure. */
#include "engine/paged/paged_engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "device/device_table.h" /* vw__device_can_share */
#include "engine/paged/paged_handles.h"
#include "engine/paged/paged_inspect.h"
#include "engine/paged/paged_moment.h"
#include "engine/paged/paged_park.h"
#include "engine/paged/paged_pins.h"
#include "engine/paged/paged_reclaim.h"
#include "engine/paged/paged_return.h"
#include "engine/paged/paged_spill.h"

#define DEFAULT_IDLE_SHARE 0.016
#define DEFAULT_IDLE_FLOOR_BYTES (UINT64_C(16) << 20)

/* ---- settings -------------------------------------------------------------------------------- */

static vw_status set_fraction(vw__engine *base, double fraction)
{
    vw__paged_engine *engine = vw__paged_of(base);
    VW__TRY(vw__torch_conf_set_fraction(&engine->conf, base, fraction));
    vw__paged_begin_looking_ahead(engine);
    return VW_OK;
}

static vw_status configure(vw__engine *base, const char *text)
{
    vw__torch_conf *conf = &vw__paged_of(base)->conf;
    VW__TRY(vw__torch_conf_apply(conf, text));
    base->reuse = vw__torch_conf_reuse(conf);
    return VW_OK;
}

static void walk_conf(const vw__engine *base, vw_conf_visitor visit, void *context)
{
    vw__torch_conf_walk(&vw__paged_of_const(base)->conf, visit, context);
}

static const char *const names[] = {"vramwise", "vramwise:rescue", "vramwise:tight", NULL};

/* The first two copy alike, and the first does without where nobody grants safe points. A pool that
 * spills copies only if told to: pages that share others cannot leave the device. */
static vw__paged_mode mode_of(const vw_pool_options *options)
{
    if (strcmp(options->engine, "vramwise:tight") == 0)
        return VW__PAGED_TIGHT;
    bool may_copy = options->safe_point.enter != NULL && options->spill_bytes == 0;
    if (strcmp(options->engine, "vramwise:rescue") == 0)
        may_copy = true;
    return may_copy ? VW__PAGED_RESCUE : VW__PAGED_MOVES;
}

/* ---- private pools --------------------------------------------------------------------------- */

/* Memory from a source of the caller's cannot be moved page by page. */
static vw_status retain(vw__engine *base, vw_private_id id, const vw_private_options *options)
{
    if (options != NULL && options->take != NULL)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "engine \"vramwise\" has no private pools with a source of their own");
    return vw__private_retain(base, id, options);
}

/* ---- failed ---------------------------------------------------------------------------------- */

static vw_status say_why(const vw__engine *base)
{
    return vw__fail(VW_ERR_DEVICE, "%s", vw__paged_of_const(base)->failure);
}

static vw_status fail_allocate(vw__engine *base, const vw__engine_request *request, vw__block **out,
                               vw__engine_refusal *refusal)
{
    (void)request, (void)out, (void)refusal;
    return say_why(base);
}

static vw_status fail_allocate_at(vw__engine *base, const vw__engine_request *request,
                                  vw_device_ptr address, vw__block **prefix, vw__block **out)
{
    (void)request, (void)address, (void)prefix, (void)out;
    return say_why(base);
}

static vw_status fail_see_to_records(vw__engine *base, size_t count)
{
    (void)count;
    return say_why(base);
}

static vw_status fail_walk_pieces(vw__engine *base, const vw__block *under,
                                  vw__engine_piece_visitor visit, void *context)
{
    (void)under, (void)visit, (void)context;
    return say_why(base);
}

static vw_status fail_trim(vw__engine *base, const vw_private_id *only)
{
    (void)only;
    return say_why(base);
}

static vw_status fail_give_back(vw__engine *base, vw__engine_slice *slice)
{
    slice->given_bytes = 0;
    slice->is_waiting = false;
    return say_why(base);
}

static vw_status fail_set_fraction(vw__engine *base, double fraction)
{
    (void)fraction;
    return say_why(base);
}

static vw_status fail_configure(vw__engine *base, const char *conf)
{
    (void)conf;
    return say_why(base);
}

static vw_status fail_retain(vw__engine *base, vw_private_id id, const vw_private_options *options)
{
    (void)id, (void)options;
    return say_why(base);
}

static vw_status fail_scope_begin(vw__engine *base, vw_private_id id, vw_scope_filter filter,
                                  void *context)
{
    (void)id, (void)filter, (void)context;
    return say_why(base);
}

static vw_status fail_pin(vw__engine *base, vw__block *block)
{
    (void)block;
    return say_why(base);
}

static vw_status fail_mark_step(vw__engine *base)
{
    return say_why(base);
}

/* So that park() says why. */
static bool fail_is_parked(vw__engine *base, const vw_private_id *only)
{
    (void)base, (void)only;
    return false;
}

static vw_status fail_park(vw__engine *base, vw__engine_park *how, vw_park_report *report)
{
    (void)how, (void)report;
    return say_why(base);
}

static vw_status fail_wake(vw__engine *base, const vw_private_id *only, vw_park_report *report)
{
    (void)only, (void)report;
    return say_why(base);
}

static vw_status fail_check(vw__engine *base)
{
    return say_why(base);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void destroy(vw__engine *base)
{
    vw__paged_engine *engine = vw__paged_of(base);
    vw__paged_end_parkings(engine);
    vw__paged_abandon(engine);
    vw__paged_end_spill(engine);
    vw__paged_end_reclaim(engine);
    vw__paged_end_marks(engine);
    vw__paged_end_pins(engine);
    vw__engine_deinit(base);
    vw__torch_conf_deinit(&engine->conf);
    vw__host_free(engine->candidates);
    vw__host_free(engine);
}

static void move_stats(const vw__engine *base, vw_paged_stats *stats)
{
    *stats = vw__paged_of_const(base)->stats;
    stats->is_failed = vw__paged_of_const(base)->failure != NULL;
    if (vw__paged_of_const(base)->spill == NULL)
        return;
    vw__lender_numbers numbers = vw__paged_host_numbers(vw__paged_of_const(base));
    stats->host_handle_bytes = numbers.held_bytes;
    stats->failed_host_creations = numbers.failed_creations;
}

/* ---- calls that may drop the lock ------------------------------------------------------------ */

static vw_status trim(vw__engine *base, const vw_private_id *only)
{
    vw__paged_of(base)->under_way++;
    vw_status status = vw__paged_trim(base, only);
    vw__paged_of(base)->under_way--;
    return status;
}

static vw_status mark_step(vw__engine *base)
{
    vw__paged_of(base)->under_way++;
    vw_status status = vw__paged_mark_step(base);
    vw__paged_of(base)->under_way--;
    return status;
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* The same before and after a failure: giving blocks back, and looking. */
#define ALWAYS                                                                                     \
    .name = "vramwise", .destroy = destroy, .free = vw__paged_free,                                \
    .hand_out_at = vw__paged_hand_out_at, .walk_conf = walk_conf,                                  \
    .is_capturing = vw__engine_is_capturing, .find = vw__engine_find, .walk = vw__engine_walk,     \
    .largest_free = vw__engine_largest_free, .private_idle = vw__engine_private_idle,              \
    .private_release = vw__private_release, .private_use_count = vw__private_use_count,            \
    .private_set = vw__private_set, .scope_end = vw__scope_end, .unpin = vw__paged_unpin,          \
    .advise = vw__paged_advise, .move_stats = move_stats, .set_region = vw__private_set_region

static const vw__engine_table paged_table = {
    ALWAYS,
    .allocate = vw__paged_allocate,
    .allocate_at = vw__paged_allocate_at,
    .see_to_records = vw__engine_see_to_records,
    .walk_pieces = vw__paged_walk_pieces,
    .trim = trim,
    .give_back = vw__paged_give_back,
    .set_fraction = set_fraction,
    .configure = configure,
    .check = vw__paged_check,
    .private_retain = retain,
    .scope_begin = vw__scope_begin,
    .pin = vw__paged_pin,
    .mark_step = mark_step,
    .is_parked = vw__paged_is_parked,
    .park = vw__paged_park,
    .wake = vw__paged_wake,
};

const vw__engine_table *vw__paged_table(void)
{
    return &paged_table;
}

/* After a failure the mappings are unknown: everything else says why. */
static const vw__engine_table failed_table = {
    ALWAYS,
    .allocate = fail_allocate,
    .allocate_at = fail_allocate_at,
    .see_to_records = fail_see_to_records,
    .walk_pieces = fail_walk_pieces,
    .trim = fail_trim,
    .give_back = fail_give_back,
    .set_fraction = fail_set_fraction,
    .configure = fail_configure,
    .check = fail_check,
    .private_retain = fail_retain,
    .scope_begin = fail_scope_begin,
    .pin = fail_pin,
    .mark_step = fail_mark_step,
    .is_parked = fail_is_parked,
    .park = fail_park,
    .wake = fail_wake,
};

void vw__paged_turn_failed(vw__paged_engine *engine, const char *format, ...)
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
    if (engine->is_parked) /* no wake will come for the work that waits for it */
        engine->base.owner.let_launches_go(engine->base.owner.context);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static vw_status check_options(const vw_device *device, const vw_pool_options *options)
{
    const vw_device_properties *properties = &device->properties;
    if (!(options->idle_share >= 0.0 && options->idle_share <= 1.0))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "an idle_share of %g, expected a share of the live bytes from 0 to 1",
                        options->idle_share);
    if (options->idle_floor_bytes > properties->total_bytes)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "an idle_floor_bytes of %llu, more than the %llu bytes of the device",
                        (unsigned long long)options->idle_floor_bytes,
                        (unsigned long long)properties->total_bytes);
    if (options->is_shareable && !vw__device_can_share(device))
        return vw__fail(VW_ERR_UNSUPPORTED, "device %s has no memory that can be shared",
                        properties->name);
    return vw__paged_check_spill(device, options);
}

static vw_status adopt_options(vw__paged_engine *engine, const vw_pool_options *options)
{
    VW__TRY(vw__torch_conf_init(&engine->conf, options));
    const vw__torch_settings *settings = &engine->conf.settings;
    if (settings->backend != VW__TORCH_BACKEND_NATIVE)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "backend:cudaMallocAsync is the driver's own allocator, and engine "
                        "\"vramwise\" is another");
    engine->base.routing = vw__torch_conf_routing(&engine->conf);
    engine->base.reuse = vw__torch_conf_reuse(&engine->conf);
    engine->base.routing.scopes_count_as_captures = false; /* whatever the release did */
    engine->mode = mode_of(options);
    engine->full_bytes = UINT64_MAX;
    engine->idle_share = options->idle_share > 0.0 ? options->idle_share : DEFAULT_IDLE_SHARE;
    engine->idle_floor_bytes =
        options->idle_floor_bytes != 0 ? options->idle_floor_bytes : DEFAULT_IDLE_FLOOR_BYTES;
    engine->is_shareable = options->is_shareable;
    if (settings->per_process_memory_fraction < 1.0)
        VW__TRY(set_fraction(&engine->base, settings->per_process_memory_fraction));
    if (options->spill_bytes != 0)
        VW__TRY(vw__paged_begin_spill(engine, options));
    vw__paged_begin_looking_ahead(engine);
    return VW_OK;
}

static vw_status create(const vw__engine_owner *owner, const vw_pool_options *options,
                        vw__engine **out)
{
    vw__paged_engine *engine = vw__host_alloc_zeroed(1, sizeof *engine);
    if (engine == NULL)
        return vw__fail_host_memory(sizeof *engine, "an engine");
    vw__engine_init(&engine->base, &paged_table, owner);
    engine->unit_bytes = owner->device->properties.granularity_bytes;
    engine->fineness = 1.0;
    engine->owed_at = -1;
    vw_status status = adopt_options(engine, options);
    if (status != VW_OK) {
        destroy(&engine->base);
        return status;
    }
    *out = &engine->base;
    return VW_OK;
}

const vw__engine_kind vw__paged_kind = {
    .names = names,
    .needs_virtual_memory = true,
    .check_options = check_options,
    .create = create,
};
