/* model_torch.c - see model_torch.h. */
#include "model/model_torch.h"

#include <stdlib.h> /* strtoll, strtoull */
#include <string.h>

#include "base/c_locale.h"
#include "base/error.h"

vw__model_features vw__model_features_of(int version)
{
    return (vw__model_features){
        .has_traces = true,
        .has_block_addresses = true,
        .has_times = version >= 202,
        .has_settings = version >= 203,
        .has_annotations = version >= 205,
        .has_compile_context = version >= 208,
        .has_stream_reuse = version >= 209,
        .has_user_metadata = version >= 210,
        .has_pool_ids = version >= 212,
        .has_max_cached_size = version >= 213,
        .has_host_traces = version >= 214,
        .has_identity = true,
    };
}

vw_status vw__model_add_conf(vw__model_builder *builder, const char *key, const char *value)
{
    vw__model_settings *settings = vw__model_builder_settings(builder);
    settings->is_known = true;
    if (strcmp(key, "PYTORCH_CUDA_ALLOC_CONF") == 0)
        VW__TRY(vw__model_add_string(builder, value, strlen(value), &settings->conf));
    else if (strcmp(key, VW__MODEL_ENGINE_KEY) == 0)
        VW__TRY(vw__model_add_string(builder, value, strlen(value), &settings->engine));
    else if (strcmp(key, VW__MODEL_DEVICE_BYTES_KEY) == 0)
        settings->device_bytes = strtoull(value, NULL, 10);
    else if (strcmp(key, VW__MODEL_LIMIT_BYTES_KEY) == 0)
        settings->limit_bytes = strtoull(value, NULL, 10);
    else if (strcmp(key, "max_split_size") == 0)
        settings->max_split_size = strtoll(value, NULL, 10);
    else if (strcmp(key, "garbage_collection_threshold") == 0)
        settings->garbage_collection_threshold = vw__c_locale_strtod(value, NULL);
    else if (strcmp(key, "expandable_segments") == 0)
        settings->is_expandable = strcmp(value, "True") == 0;
    return vw__model_add_setting(builder, key, value);
}
