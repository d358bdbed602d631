/* plan_recording.c - planned steps for everything that takes recordings: opened, or as a file. */
#include <string.h>

#include "headroom/plan.h"
#include "analysis/recording.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/whole_file.h"
#include "export/torch_snapshot_write.h"
#include "plan/plan_record.h"
#include "plan/settings_check.h"

static hr_status make_model(const hr_plan_model *model, const hr_plan_settings *settings,
                            hr__model **out)
{
    hr_plan_settings checked;
    if (model == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no model for the plan");
    HR__TRY(hr__settings_check(model, settings, &checked));
    return hr__plan_record_model(model, &checked, out);
}

hr_status hr_plan_record(const hr_plan_model *model, const hr_plan_settings *settings,
                         hr_recording **out)
{
    hr__model *made;
    if (out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no place for the recording");
    HR__TRY(make_model(model, settings, &made));
    hr_recording *recording = hr__host_alloc_zeroed(1, sizeof *recording);
    if (recording == NULL) {
        hr__model_destroy(made);
        return hr__fail_host_memory(sizeof *recording, "a recording");
    }
    recording->model = made;
    *out = recording;
    return HR_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static hr_status write_model(void *context, int file_descriptor)
{
    hr__open_file file = {file_descriptor, 0};
    hr_status status =
        hr__torch_snapshot_write(context, &(hr__pickle_sink){&file, hr__open_file_write});
    if (file.error != 0)
        return hr__fail(HR_ERR_FILE, "cannot write the planned step: %s", strerror(file.error));
    return status;
}

hr_status hr_plan_write_recording(const hr_plan_model *model, const hr_plan_settings *settings,
                                  const char *path)
{
    hr__model *made;
    if (path == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no path for the planned step");
    HR__TRY(make_model(model, settings, &made));
    hr_status status = hr__whole_file_write(path, write_model, made);
    hr__model_destroy(made);
    return status;
}
