/* snapshot_model.h - a picture of a pool as a memory model.
 *
 * Captures become contexts, addresses and ids become frames with names, and the model gets the
 * features of the PyTorch version whose rules the pool follows: the keys of a snapshot are all that
 * tells a reader its version, and with another version's rules replay would differ. */
#ifndef VW_RECORD_SNAPSHOT_MODEL_H
#define VW_RECORD_SNAPSHOT_MODEL_H

#include "model/memory_model.h"
#include "record/snapshot_take.h"

/* The picture is borrowed. VW_ERR_HOST_MEMORY; VW_ERR_UNSUPPORTED: more streams or private pools
 * than a model can name. */
VW_MUST_CHECK vw_status vw__snapshot_model_make(const vw__picture *picture, const vw_pool *pool,
                                                vw__model **out);

#endif /* VW_RECORD_SNAPSHOT_MODEL_H */
