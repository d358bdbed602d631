/* recorded_settings.c - see recorded_settings.h. */
#include "analysis/recorded_settings.h"

#include "analysis/recording.h" /* vw__recording_conf, vw__recording_version */
#include "base/byte_buffer.h"
#include "base/error.h"
#include "engine/torch/torch_versions.h"

vw_status vw__recorded_settings_read(const vw__model *model, const char *wanted_version,
                                     vw__torch_settings *out)
{
    const char *version = NULL;
    int number = 0;
    vw__torch_rules rules;
    vw__byte_buffer conf;
    vw__torch_settings settings;
    VW__TRY(vw__recording_version(model, wanted_version, &version));
    VW__TRY(vw__torch_parse_version(version, &number));
    VW__TRY(vw__torch_rules_for(number, &rules));
    vw__torch_settings_init(&settings);
    vw__byte_buffer_init(&conf);
    vw_status status = vw__recording_conf(model, &conf);
    if (status == VW_OK)
        status = vw__torch_settings_apply(&settings, &rules, vw__byte_buffer_text(&conf),
                                          VW__TORCH_SETTINGS_LIKE_TORCH);
    vw__byte_buffer_deinit(&conf);
    if (status == VW_ERR_HOST_MEMORY) {
        vw__torch_settings_deinit(&settings);
        return status;
    }
    *out = settings; /* a string that was refused changed nothing */
    return VW_OK;
}
