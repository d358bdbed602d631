/* recorded_settings.c - see recorded_settings.h. */
#include "analysis/recorded_settings.h"

#include "analysis/recording.h" /* hr__recording_conf, hr__recording_version */
#include "base/byte_buffer.h"
#include "base/error.h"
#include "engine/torch/torch_versions.h"

hr_status hr__recorded_settings_read(const hr__model *model, const char *wanted_version,
                                     hr__torch_settings *out)
{
    const char *version = NULL;
    int number = 0;
    hr__torch_rules rules;
    hr__byte_buffer conf;
    hr__torch_settings settings;
    HR__TRY(hr__recording_version(model, wanted_version, &version));
    HR__TRY(hr__torch_parse_version(version, &number));
    HR__TRY(hr__torch_rules_for(number, &rules));
    hr__torch_settings_init(&settings);
    hr__byte_buffer_init(&conf);
    hr_status status = hr__recording_conf(model, &conf);
    if (status == HR_OK)
        status = hr__torch_settings_apply(&settings, &rules, hr__byte_buffer_text(&conf),
                                          HR__TORCH_SETTINGS_LIKE_TORCH);
    hr__byte_buffer_deinit(&conf);
    if (status == HR_ERR_HOST_MEMORY) {
        hr__torch_settings_deinit(&settings);
        return status;
    }
    *out = settings; /* a string that was refused changed nothing */
    return HR_OK;
}
