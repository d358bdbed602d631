/* recorded_settings.h - the allocator's settings that a recording was made with, as values. */
#ifndef VW_ANALYSIS_RECORDED_SETTINGS_H
#define VW_ANALYSIS_RECORDED_SETTINGS_H

#include "vramwise/status.h"
#include "engine/torch/torch_settings.h"
#include "model/memory_model.h"

/* By the rules of `wanted_version`, or of the version that the file's fields show. Settings that
 * version cannot use were nobody's: the defaults are as good as any, and no failure.
 * VW_ERR_INVALID_ARGUMENT (version), VW_ERR_HOST_MEMORY: nothing to free. Else freed with
 * vw__torch_settings_deinit(). */
VW_MUST_CHECK vw_status vw__recorded_settings_read(const vw__model *model,
                                                   const char *wanted_version,
                                                   vw__torch_settings *out);

#endif /* VW_ANALYSIS_RECORDED_SETTINGS_H */
