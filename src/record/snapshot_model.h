/* snapshot_model.h - a picture of a pool as a memory model.
 *
 * Captures become contexts, addresses and ids become frames with names, and the model gets the
 * features of the PyTorch version whose rules the pool follows: the keys of a snapshot are all that
 * tells a reader its version, and with another version's rules replay would differ. */
#ifndef HR_RECORD_SNAPSHOT_MODEL_H
#define HR_RECORD_SNAPSHOT_MODEL_H

#include "model/memory_model.h"
#include "record/snapshot_take.h"

/* The picture is borrowed. HR_ERR_HOST_MEMORY; HR_ERR_UNSUPPORTED: more streams or private pools
 * than a model can name. */
HR_MUST_CHECK hr_status hr__snapshot_model_make(const hr__picture *picture, const hr_pool *pool,
                                                hr__model **out);

#endif /* HR_RECORD_SNAPSHOT_MODEL_H */
