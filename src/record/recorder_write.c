/* recorder_write.c - a recording on its way out: to a function, an open file, or a new file, which
 * appears under its name only when it is whole. */
#include <string.h>

#include "base/error.h"
#include "base/whole_file.h"
#include "export/torch_snapshot_write.h"
#include "record/recorder.h"
#include "record/snapshot_model.h"
#include "record/snapshot_take.h"

hr_status hr_recorder_write_to(hr_recorder *recorder, hr_pool *pool, hr_recorder_output output,
                               void *context)
{
    if (recorder == NULL || pool == NULL || output == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected a recorder, its pool and a function to write with");
    hr__picture picture;
    hr__model *model = NULL;
    HR__TRY(hr__picture_take(recorder, pool, &picture));
    hr_status status = hr__snapshot_model_make(&picture, pool, &model);
    hr__picture_deinit(&picture);
    if (status == HR_OK)
        status = hr__torch_snapshot_write(model, &(hr__pickle_sink){context, output});
    hr__model_destroy(model);
    return status;
}

/* ---- to an open file ------------------------------------------------------------------------- */

hr_status hr_recorder_write_fd(hr_recorder *recorder, hr_pool *pool, int file_descriptor)
{
    hr__open_file file = {file_descriptor, 0};
    hr_status status = hr_recorder_write_to(recorder, pool, hr__open_file_write, &file);
    if (file.error != 0)
        return hr__fail(HR_ERR_FILE, "cannot write the recording: %s", strerror(file.error));
    return status;
}

/* ---- to a new file --------------------------------------------------------------------------- */

typedef struct recording_order {
    hr_recorder *recorder;
    hr_pool *pool;
} recording_order;

static hr_status write_recording(void *context, int file_descriptor)
{
    const recording_order *order = context;
    return hr_recorder_write_fd(order->recorder, order->pool, file_descriptor);
}

hr_status hr_recorder_write(hr_recorder *recorder, hr_pool *pool, const char *path)
{
    if (path == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no path for the recording");
    return hr__whole_file_write(path, write_recording, &(recording_order){recorder, pool});
}
