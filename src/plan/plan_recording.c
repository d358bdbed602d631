/* plan_recording.c - planned steps for everything that takes recordings: opened, or as a file. */
#include <string.h>

#include "vramwise/plan.h"
#include "analysis/recording.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/whole_file.h"
#include "export/torch_snapshot_write.h"
#include "plan/plan_record.h"
#include "plan/settings_check.h"

static vw_status make_model(const vw_plan_model *model, const vw_plan_settings *settings,
                            vw__model **out)
{
    vw_plan_settings checked;
    if (model == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no model for the plan");
    VW__TRY(vw__settings_check(model, settings, &checked));
    return vw__plan_record_model(model, &checked, out);
}

vw_status vw_plan_record(const vw_plan_model *model, const vw_plan_settings *settings,
                         vw_recording **out)
{
    vw__model *made;
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no place for the recording");
    VW__TRY(make_model(model, settings, &made));
    vw_recording *recording = vw__host_alloc_zeroed(1, sizeof *recording);
    if (recording == NULL) {
        vw__model_destroy(made);
        return vw__fail_host_memory(sizeof *recording, "a recording");
    }
    recording->model = made;
    *out = recording;
    return VW_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static vw_status write_model(void *context, int file_descriptor)
{
    vw__open_file file = {file_descriptor, 0};
    vw_status status =
        vw__torch_snapshot_write(context, &(vw__pickle_sink){&file, vw__open_file_write});
    if (file.error != 0)
        return vw__fail(VW_ERR_FILE, "cannot write the planned step: %s", strerror(file.error));
    return status;
}

vw_status vw_plan_write_recording(const vw_plan_model *model, const vw_plan_settings *settings,
                                  const char *path)
{
    vw__model *made;
    if (path == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no path for the planned step");
    VW__TRY(make_model(model, settings, &made));
    vw_status status = vw__whole_file_write(path, write_model, made);
    vw__model_destroy(made);
    return status;
}
