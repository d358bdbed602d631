/* torch_conf.h - PyTorch's options, as an engine that has them keeps them: the release whose rules
 * are followed, and the settings string. */
#ifndef VW_ENGINE_TORCH_TORCH_CONF_H
#define VW_ENGINE_TORCH_TORCH_CONF_H

#include <stdbool.h>

#include "vramwise/vramwise.h" /* vw_pool_options, vw_conf_visitor */
#include "engine/engine_base.h"
#include "engine/torch/torch_settings.h"
#include "engine/torch/torch_versions.h"

typedef struct vw__torch_conf {
    vw__torch_rules rules;
    vw__torch_settings settings;
    bool is_strict; /* how settings strings are read */
} vw__torch_conf;

/* Reads torch_version, is_strict and conf. A failure leaves nothing to free. */
vw_status vw__torch_conf_init(vw__torch_conf *conf, const vw_pool_options *options);
void vw__torch_conf_deinit(vw__torch_conf *conf);

/* Applies another settings string: see vw__torch_settings_apply(). */
vw_status vw__torch_conf_apply(vw__torch_conf *conf, const char *text);

/* The settings in force, under the names and in the spelling of PyTorch's snapshots. */
void vw__torch_conf_walk(const vw__torch_conf *conf, vw_conf_visitor visit, void *context);

/* set_per_process_memory_fraction(): the engine's limit by the release's rule.
 * VW_ERR_INVALID_ARGUMENT: not from 0 to 1. */
vw_status vw__torch_conf_set_fraction(const vw__torch_conf *conf, vw__engine *engine,
                                      double fraction);

/* The release's rules for private pools and captures. */
vw__engine_routing vw__torch_conf_routing(const vw__torch_conf *conf);

/* graph_capture_record_stream_reuse, as the release has it. */
vw__engine_reuse vw__torch_conf_reuse(const vw__torch_conf *conf);

#endif /* VW_ENGINE_TORCH_TORCH_CONF_H */
