/* recorded_settings.h - the allocator's settings that a recording was made with, as values. */
#ifndef HR_ANALYSIS_RECORDED_SETTINGS_H
#define HR_ANALYSIS_RECORDED_SETTINGS_H

#include "headroom/status.h"
#include "engine/torch/torch_settings.h"
#include "model/memory_model.h"

/* By the rules of `wanted_version`, or of the version that the file's fields show. Settings that
 * version cannot use were nobody's: the defaults are as good as any, and no failure.
 * HR_ERR_INVALID_ARGUMENT (version), HR_ERR_HOST_MEMORY: nothing to free. Else freed with
 * hr__torch_settings_deinit(). */
HR_MUST_CHECK hr_status hr__recorded_settings_read(const hr__model *model,
                                                   const char *wanted_version,
                                                   hr__torch_settings *out);

#endif /* HR_ANALYSIS_RECORDED_SETTINGS_H */
