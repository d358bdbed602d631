/* setting_variable.c - see setting_variable.h. */
#include "settings/setting_variable.h"

#include <stdlib.h>

#include "analysis/recording.h"

enum { FIRST_WITH_NEW_NAME = 210 };

unsigned vw__setting_version(const char *text)
{
    char *behind = NULL;
    if (text == NULL)
        return 0;
    unsigned long major = strtoul(text, &behind, 10);
    if (behind == text || *behind != '.' || major == 0 || major > 99)
        return 0;
    text = behind + 1;
    unsigned long minor = strtoul(text, &behind, 10);
    return behind == text || minor > 99 ? 0 : (unsigned)(major * 100 + minor);
}

const char *vw__setting_variable(const char *named, unsigned version, bool is_old_set)
{
    if (named != NULL)
        return named;
    return version >= FIRST_WITH_NEW_NAME && !is_old_set ? "PYTORCH_ALLOC_CONF"
                                                         : "PYTORCH_CUDA_ALLOC_CONF";
}

const char *vw__setting_variable_of_recording(const vw__model *model, const char *wanted_version)
{
    const char *conf = vw__recording_conf_text(model);
    return vw__setting_variable(NULL, vw__setting_version(wanted_version),
                                (conf != NULL && conf[0] != '\0') || model->settings.is_expandable);
}
