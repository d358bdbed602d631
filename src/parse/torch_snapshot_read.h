/* torch_snapshot_read.h - a PyTorch memory snapshot as a memory model.
 *
 * Reads what torch.cuda.memory._snapshot() and memory_snapshot() returned, pickled or as JSON, from
 * any version: a dict, or the bare list of segments. Fields that are missing are unknown, fields
 * that we do not know are counted and left out. */
#ifndef VW_PARSE_TORCH_SNAPSHOT_READ_H
#define VW_PARSE_TORCH_SNAPSHOT_READ_H

#include "parse/byte_source.h"
#include "model/memory_model.h"

/* Names of functions, files and annotations are cut to this length, and end in "..." then. */
enum { VW__SNAPSHOT_NAME_BYTES = 1024 };

typedef enum vw__snapshot_encoding {
    VW__SNAPSHOT_ENCODING_PICKLE,
    VW__SNAPSHOT_ENCODING_JSON,
} vw__snapshot_encoding;

/* `memory_limit_bytes`: of everything this needs; 0 = no limit.
 *
 * VW_ERR_CORRUPT_FILE   no snapshot: what was expected, what was found, where
 * VW_ERR_UNSUPPORTED    beyond a limit */
VW_MUST_CHECK vw_status vw__snapshot_read(vw__byte_source *source, size_t memory_limit_bytes,
                                          vw__model **out, vw__snapshot_encoding *encoding);

#endif /* VW_PARSE_TORCH_SNAPSHOT_READ_H */
