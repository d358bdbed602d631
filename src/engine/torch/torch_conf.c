/* torch_conf.c - keeping PyTorch's options, and showing them. */
#include "engine/torch/torch_conf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/error.h"
#include "engine/torch/torch_rounding.h" /* vw__torch_limit_bytes */

vw_status vw__torch_conf_init(vw__torch_conf *conf, const vw_pool_options *options)
{
    VW__TRY(vw__torch_rules_of(options->torch_version, &conf->rules));
    conf->is_strict = options->is_strict;
    vw__torch_settings_init(&conf->settings);
    return vw__torch_conf_apply(conf, options->conf);
}

void vw__torch_conf_deinit(vw__torch_conf *conf)
{
    vw__torch_settings_deinit(&conf->settings);
}

vw_status vw__torch_conf_apply(vw__torch_conf *conf, const char *text)
{
    return vw__torch_settings_apply(&conf->settings, &conf->rules, text,
                                    conf->is_strict ? VW__TORCH_SETTINGS_STRICT
                                                    : VW__TORCH_SETTINGS_LIKE_TORCH);
}

vw_status vw__torch_conf_set_fraction(const vw__torch_conf *conf, vw__engine *engine,
                                      double fraction)
{
    if (!(fraction >= 0.0 && fraction <= 1.0))
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "Invalid fraction value: %g. Allowed range: 0~1",
                        fraction);
    engine->limit_bytes =
        vw__torch_limit_bytes(&conf->rules, fraction, engine->owner.device->properties.total_bytes);
    engine->fraction = fraction;
    return VW_OK;
}

vw__engine_routing vw__torch_conf_routing(const vw__torch_conf *conf)
{
    static const vw__engine_keep keeps[] = {
        [VW__TORCH_RELEASE_IN_SCOPES] = VW__ENGINE_KEEP_NOTHING,
        [VW__TORCH_RELEASE_OUTSIDE_SCOPES] = VW__ENGINE_KEEP_IN_SCOPES,
        [VW__TORCH_RELEASE_OUTSIDE_OF_CAPTURES] = VW__ENGINE_KEEP_IN_CAPTURES,
    };
    return (vw__engine_routing){
        .newest_scope_first = conf->rules.scopes_newest_first,
        .scopes_count_as_captures = conf->rules.capturing == VW__TORCH_CAPTURING_ANY_SCOPE,
        .keeps_default = keeps[conf->rules.scope_release],
    };
}

vw__engine_reuse vw__torch_conf_reuse(const vw__torch_conf *conf)
{
    if (!conf->settings.graph_capture_record_stream_reuse)
        return VW__ENGINE_REUSE_NOTHING;
    return conf->rules.frees_deferred_at_scope_end ? VW__ENGINE_REUSE_ALSO_AT_END
                                                   : VW__ENGINE_REUSE_ORDERED;
}

/* ---- showing --------------------------------------------------------------------------------- */

static const char *python_bool(bool is_true)
{
    return is_true ? "True" : "False";
}

static const char *python_bytes(char text[24], uint64_t size_bytes)
{
    snprintf(text, 24, "%" PRId64, (int64_t)size_bytes); /* unlimited: -1 */
    return text;
}

/* As repr(float): the shortest form that reads back as the same number. */
static const char *python_float(char text[VW__C_LOCALE_NUMBER_BYTES], double number)
{
    vw__c_locale_number(text, number, 1);
    if (strpbrk(text, ".en") == NULL)
        memcpy(text + strlen(text), ".0", 3);
    return text;
}

void vw__torch_conf_walk(const vw__torch_conf *conf, vw_conf_visitor visit, void *context)
{
    const vw__torch_settings *settings = &conf->settings;
    char text[VW__C_LOCALE_NUMBER_BYTES];
    visit(context, "PYTORCH_CUDA_ALLOC_CONF", settings->raw != NULL ? settings->raw : "");
    visit(context, "max_split_size", python_bytes(text, settings->max_split_size_bytes));
    visit(context, "garbage_collection_threshold",
          python_float(text, settings->garbage_collection_threshold));
    visit(context, "expandable_segments", python_bool(settings->is_expandable));
    visit(context, "pinned_num_register_threads",
          python_bytes(text, settings->pinned_register_thread_count));
    visit(context, "release_lock_on_cudamalloc",
          python_bool(settings->release_lock_on_device_malloc));
    visit(context, "pinned_use_cuda_host_register",
          python_bool(settings->pinned_use_host_register));
    if (conf->rules.version >= 209)
        visit(context, "graph_capture_record_stream_reuse",
              python_bool(settings->graph_capture_record_stream_reuse));
    if (conf->rules.version >= 213) {
        visit(context, "max_round_threshold",
              python_bytes(text, settings->pinned_max_round_threshold_bytes));
        visit(context, "max_cached_size", python_bytes(text, settings->pinned_max_cached_bytes));
    }
    char divisions[VW__TORCH_ROUNDUP_ENTRIES * 40], *end = divisions;
    for (unsigned i = 0; i < VW__TORCH_ROUNDUP_ENTRIES; i++)
        end +=
            snprintf(end, 40, "%s'%u': %" PRIu64 "%s", i == 0 ? "{" : ", ", 1u << i,
                     settings->roundup_divisions[i], i + 1 < VW__TORCH_ROUNDUP_ENTRIES ? "" : "}");
    visit(context, "roundup_power2_divisions", divisions);
}
