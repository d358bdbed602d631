/* torch_snapshot_root.h - from the outermost value of a snapshot to the model's traces, segments,
 * settings and features, once everything inside is folded. */
#ifndef VW_FORMAT_TORCH_SNAPSHOT_ROOT_H
#define VW_FORMAT_TORCH_SNAPSHOT_ROOT_H

#include "format/torch_snapshot_fold.h"

/* `root` is what the file is: a dict, or a bare list of segments. VW_ERR_CORRUPT_FILE: it is
 * something else, or something in it is. */
VW_MUST_CHECK vw_status vw__snapshot_read_root(vw__snapshot_fold *fold, vw__document *document,
                                               vw__value root);

/* `allocator_settings`, in torch_snapshot_settings.c. */
VW_MUST_CHECK vw_status vw__snapshot_read_settings(vw__snapshot_fold *fold, vw__value settings);

#endif /* VW_FORMAT_TORCH_SNAPSHOT_ROOT_H */
