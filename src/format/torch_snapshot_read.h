/* torch_snapshot_read.h - a PyTorch memory snapshot as a memory model.
 *
 * Reads what torch.cuda.memory._snapshot() and memory_snapshot() returned, pickled or as JSON, from
 * any version: a dict, or the bare list of segments. Fields that are missing are unknown, fields
 * that we do not know are counted and left out. */
#ifndef HR_FORMAT_TORCH_SNAPSHOT_READ_H
#define HR_FORMAT_TORCH_SNAPSHOT_READ_H

#include "format/byte_source.h"
#include "model/memory_model.h"

typedef enum hr__snapshot_encoding {
    HR__ENCODING_PICKLE,
    HR__ENCODING_JSON,
} hr__snapshot_encoding;

/* `memory_limit_bytes`: of everything this needs; 0 = a default fit for the largest recordings.
 *
 * HR_ERR_CORRUPT_FILE   no snapshot: what was expected, what was found, where
 * HR_ERR_UNSUPPORTED    beyond a limit */
HR_MUST_CHECK hr_status hr__torch_snapshot_read(hr__byte_source *source, size_t memory_limit_bytes,
                                                hr__model **out, hr__snapshot_encoding *encoding);

#endif /* HR_FORMAT_TORCH_SNAPSHOT_READ_H */
