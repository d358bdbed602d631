/* recorder_write.c - a recording on its way out: to a function, an open file, or a new file, which
 * appears under its name only when it is whole. */
#include <string.h>

#include "base/error.h"
#include "base/whole_file.h"
#include "export/torch_snapshot_write.h"
#include "record/recorder.h"
#include "record/snapshot_model.h"
#include "record/snapshot_take.h"

vw_status vw_recorder_write_to(vw_recorder *recorder, vw_pool *pool, vw_recorder_output output,
                               void *context)
{
    if (recorder == NULL || pool == NULL || output == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a recorder, its pool and a function to write with");
    vw__picture picture;
    vw__model *model = NULL;
    VW__TRY(vw__picture_take(recorder, pool, &picture));
    vw_status status = vw__snapshot_model_make(&picture, pool, &model);
    vw__picture_deinit(&picture);
    if (status == VW_OK)
        status = vw__torch_snapshot_write(model, &(vw__pickle_sink){context, output});
    vw__model_destroy(model);
    return status;
}

/* ---- to an open file ------------------------------------------------------------------------- */

vw_status vw_recorder_write_fd(vw_recorder *recorder, vw_pool *pool, int file_descriptor)
{
    vw__open_file file = {file_descriptor, 0};
    vw_status status = vw_recorder_write_to(recorder, pool, vw__open_file_write, &file);
    if (file.error != 0)
        return vw__fail(VW_ERR_FILE, "cannot write the recording: %s", strerror(file.error));
    return status;
}

/* ---- to a new file --------------------------------------------------------------------------- */

typedef struct recording_order {
    vw_recorder *recorder;
    vw_pool *pool;
} recording_order;

static vw_status write_recording(void *context, int file_descriptor)
{
    const recording_order *order = context;
    return vw_recorder_write_fd(order->recorder, order->pool, file_descriptor);
}

vw_status vw_recorder_write(vw_recorder *recorder, vw_pool *pool, const char *path)
{
    if (path == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no path for the recording");
    return vw__whole_file_write(path, write_recording, &(recording_order){recorder, pool});
}
