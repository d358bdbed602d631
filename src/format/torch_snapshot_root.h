/* torch_snapshot_root.h - from the outermost value of a snapshot to the model's traces, segments,
 * settings and features, once everything inside is folded. */
#ifndef HR_FORMAT_TORCH_SNAPSHOT_ROOT_H
#define HR_FORMAT_TORCH_SNAPSHOT_ROOT_H

#include "format/torch_snapshot_fold.h"

/* `root` is what the file is: a dict, or a bare list of segments. HR_ERR_CORRUPT_FILE: it is
 * something else, or something in it is. */
HR_MUST_CHECK hr_status hr__snapshot_read_root(hr__snapshot_fold *fold, hr__document *document,
                                               hr__value root);

/* `allocator_settings`, in torch_snapshot_settings.c. */
HR_MUST_CHECK hr_status hr__snapshot_read_settings(hr__snapshot_fold *fold, hr__value settings);

#endif /* HR_FORMAT_TORCH_SNAPSHOT_ROOT_H */
